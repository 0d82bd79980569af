"""Released weights as a plain scikit-learn Pipeline over the source columns, which works without this package.

The scaler is folded into the weights (w/scale, and an intercept less Σ w·centre/scale), so that its exact means and
deviations do not travel beside them; labels keep a OneHotEncoder with the levels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.core.notion import FloatArray
from dosimeter.core.refusal import CannotMeasure
from dosimeter.frames.columns import Columns, Nominal, Number
from dosimeter.frames.table import Table


def pipeline(columns: Columns, table: Table, loss: Any, coef: FloatArray, intercept: float, classes: Any) -> Any:
    """A fitted Pipeline; coef (d,) and intercept are those of the standardised design. classes: (2,) for logistic."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder

    numbers = [s for s in columns.sources if isinstance(s, Number)]
    labels = [s for s in columns.sources if isinstance(s, Nominal)]
    parts: list[Any] = []
    if numbers:
        parts.append(("numbers", "passthrough", list(range(len(numbers)))))
    if labels:
        # The first level is the one without an indicator; a dense matrix keeps the last step simple.
        encoder = OneHotEncoder(categories=[list(s.levels) for s in labels], drop="first", sparse_output=False)
        parts.append(("labels", encoder, list(range(len(numbers), len(numbers) + len(labels)))))
    before = ColumnTransformer(parts).fit(_example(numbers, labels))
    # Fitted on an array, so that no dataframe library is needed; with the names, frames are read by name.
    named = [s.name for s in labels]
    before.feature_names_in_ = np.array([*(s.name for s in numbers), *named], dtype=object)
    if labels:
        before.named_transformers_["labels"].feature_names_in_ = np.array(named, dtype=object)
    weights, offset = folded(columns, coef, intercept)
    order = [j for group in (numbers, labels) for s in group for j in columns.block(s.name)]
    return Pipeline([("columns", before), ("model", _model(loss, weights[order], offset, classes))])


def folded(columns: Columns, coef: FloatArray, intercept: float) -> tuple[FloatArray, float]:
    """Weights and intercept for the columns in their own units."""
    weights = coef / columns.scale
    offset = intercept - weights @ columns.centre
    for source in columns.sources:
        if isinstance(source, Nominal):  # from the corners of the simplex to an indicator for each level but the first
            block, V = list(columns.block(source.name)), source.vertices
            offset += float(V[0] @ coef[block])
            weights[block] = (V[1:] - V[0]) @ coef[block]
    return weights, float(offset)


def _example(numbers: list[Number], labels: list[Nominal]) -> Any:
    """(rows, columns) made-up rows, numbers first: what the transformers are fitted on instead of people."""
    rows = max([2, *(len(s.levels) for s in labels)])
    made = np.zeros((rows, len(numbers) + len(labels)), dtype=object)
    for k, s in enumerate(labels):
        made[:, len(numbers) + k] = [s.levels[i % len(s.levels)] for i in range(rows)]
    return made


def _model(loss: Any, weights: FloatArray, offset: float, classes: Any) -> Any:
    """A scikit-learn linear model carrying the weights; fitted on made-up rows first where it needs that to predict."""
    from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

    made = np.eye(2, len(weights))
    if isinstance(loss, glm.Logistic):
        model = LogisticRegression().fit(made + np.arange(2)[:, None], np.asarray(classes))
        model.coef_, model.intercept_ = weights[None, :], np.array([offset])
    elif isinstance(loss, glm.Squared):
        model = LinearRegression().fit(made, np.zeros(2))
        model.coef_, model.intercept_ = weights, offset
        for trace in ("rank_", "singular_"):
            if hasattr(model, trace):
                delattr(model, trace)
    elif isinstance(loss, glm.Poisson):
        model = PoissonRegressor().fit(made, np.ones(2))
        model.coef_, model.intercept_ = weights, offset
    else:
        raise CannotMeasure(f"a {loss.name} model is measured but not yet repaired: use two classes")
    return model
