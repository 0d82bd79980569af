"""Released weights as a plain scikit-learn Pipeline over the source columns, which works without this package.

The scaler is folded into the noised weights before anything is rounded (`noise_addition.linear_map`), so the file holds
neither its exact means and deviations nor the grid of a rounding. Each level of a category has a weight, and these sum
to 0: an unknown level counts as the mean of the known ones. Declared bounds are in the file: numbers are clipped to
them, and an unlisted label counts as the level that it was fitted as.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_text
from dosimeter.noise_addition.linear_map import Row
from dosimeter.tables.fit_encoding import CategoryColumn, Columns, NumberColumn
from dosimeter.tables.public_encoding import encoder_levels
from dosimeter.tables.table import Table

FARTHEST = 1e8
"""Deviations from 0 at which a column's mean may lie: rounding the weight moves a prediction by 2^-41 of that."""


def fold(columns: Columns) -> list[Row]:
    """The released numbers as sums over the weights of the design and its intercept, in the order of `pipeline`.

    A number's weight is w/scale, and the intercept takes up -w·centre/scale; with bounds, both are for the number
    scaled to -1 and 1 at them. A level's weight is that of its corner of the simplex. Exact: fractions of the
    float64 constants.
    """
    rows: list[Row] = []
    intercept = {len(columns.names): Fraction(1)}
    for number in (*_free(columns), *_bounded(columns)):
        (j,) = columns.block(number.name)
        middle, half = _public(number)
        scale, offset = Fraction(number.scale), middle - Fraction(number.centre)
        if not abs(offset) <= FARTHEST * scale:
            shown = f"column {safe_text(number.name)} varies by {number.scale:.3g} around {number.centre:.3g}"
            raise Refusal(f"{shown}: subtract a fixed number, 40 bits of its weight are not precise enough")
        rows.append({j: half / scale})
        if offset:
            intercept[j] = offset / scale
    for label in _labels(columns):
        corners, others = _corners(columns, label), label.others
        if others is not None:
            away = corners.pop(others)
            intercept |= away
            corners = [_subtract(corner, away) for corner in corners]
        rows += corners
    return [*rows, intercept]


def model_inputs(columns: Columns, table: Table) -> FloatArray:
    """(n, weights) what the released model sees of a table, in the order of `fold`."""
    parts = [s.values(table)[:, None] for s in _free(columns)]
    for s in _bounded(columns):
        middle, half = (float(v) for v in _public(s))
        parts.append((s.values(table)[:, None] - middle) / half)
    for label in _labels(columns):
        # Corners of a regular simplex with edges of length one: their products are ½ for k = l, less 1/(2k).
        products = 2 * (label.design(table) @ label.vertices.T)
        each = np.rint(products + 1 / len(label.levels))
        parts.append(each if label.others is None else np.delete(each, label.others, axis=1))
    return np.concatenate(parts, axis=1)


def pipeline(
    columns: Columns,
    loss: Any,
    coef: FloatArray,
    intercept: float,
    classes: Any,
    fills: Mapping[str, Any] | None = None,
) -> Any:
    """A fitted Pipeline; coef and intercept are those of `fold`. classes: (2,) for logistic.

    fills: column -> the public constant that replaces a missing value.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

    free, bounded, labels = _free(columns), _bounded(columns), _labels(columns)
    levels = [[level for j, level in enumerate(s.levels) if j != s.others] for s in labels]
    # A dense matrix keeps the last step simple.
    steps: list[tuple[str, Any, list[Any]]] = [
        ("numbers", "passthrough", free),
        ("bounded", MinMaxScaler(feature_range=(-1, 1), clip=True), bounded),
        ("labels", OneHotEncoder(categories=levels, handle_unknown="ignore", sparse_output=False), labels),
    ]
    parts, first = [], 0
    for name, step, group in steps:
        if group:
            parts.append((name, step, list(range(first, first + len(group)))))
            first += len(group)
    sources = [s for _, _, group in steps for s in group]
    constants = {s.name: fills[s.name] for s in sources if s.name in fills} if fills else {}
    before = ColumnTransformer(parts).fit(_example(free, bounded, labels))
    if labels:
        categories, order = _frame_categories(levels)
        before.named_transformers_["labels"].categories_ = categories
        coef = np.concatenate([coef[: len(coef) - len(order)], coef[len(coef) - len(order) :][order]])
    model = _model(loss, coef, intercept, classes)
    if constants:
        return Pipeline([("gaps", _imputing_step(sources, constants)), ("columns", before), ("model", model)])
    # Fitted on an array, so that no dataframe library is needed; with the names, frames are read by name.
    before.feature_names_in_ = np.array([s.name for s in sources], dtype=object)
    for name, _, group in steps[1:]:
        if group:
            before.named_transformers_[name].feature_names_in_ = np.array([s.name for s in group], dtype=object)
    return Pipeline([("columns", before), ("model", model)])


def _frame_categories(levels: Sequence[Sequence[Any]]) -> tuple[list[Any], Index]:
    """The levels of each column for a fitted OneHotEncoder, and the positions of all of them in that order.

    Codes are numbers in a frame, even if they were read here as labels. An encoder looks numbers up by bisection, so
    they are sorted.
    """
    categories, places, first = [], [], 0
    for names in levels:
        texts = all(isinstance(level, str) for level in names)
        numbers = all(isinstance(level, Real | np.bool_) for level in names)
        values = encoder_levels(names) if texts else np.array(names) if numbers else np.array(names, dtype=object)
        order = np.arange(len(values)) if values.dtype.kind == "O" else np.argsort(values, kind="stable")
        categories.append(values[order])
        places.append(first + order)
        first += len(values)
    return categories, np.concatenate(places)


def _imputing_step(sources: Sequence[NumberColumn | CategoryColumn], constants: Mapping[str, Any]) -> Any:
    """A transformer that fills gaps with constants and keeps the order of the columns."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline

    parts: list[Any] = []
    example = np.zeros((2, len(sources)), dtype=object)
    for k, s in enumerate(sources):
        step: Any = "passthrough"
        if s.name in constants and isinstance(s, NumberColumn):
            step = SimpleImputer(strategy="constant", fill_value=float(constants[s.name]))
        elif s.name in constants:
            # A missing text is nan in pandas and None in polars.
            both = [
                SimpleImputer(missing_values=m, strategy="constant", fill_value=constants[s.name])
                for m in (np.nan, None)
            ]
            step = Pipeline([("nan", both[0]), ("none", both[1])])
            example[:, k] = constants[s.name]
        parts.append((f"column {k}", step, [k]))
    imputer = ColumnTransformer(parts).fit(example)
    imputer.feature_names_in_ = np.array([s.name for s in sources], dtype=object)
    for k, s in enumerate(sources):
        if s.name in constants:
            step = imputer.named_transformers_[f"column {k}"]
            (step if isinstance(s, NumberColumn) else step[0]).feature_names_in_ = np.array([s.name], dtype=object)
    return imputer


def _free(columns: Columns) -> list[NumberColumn]:
    return [s for s in columns.sources if isinstance(s, NumberColumn) and s.bounds is None]


def _bounded(columns: Columns) -> list[NumberColumn]:
    return [s for s in columns.sources if isinstance(s, NumberColumn) and s.bounds is not None]


def _labels(columns: Columns) -> list[CategoryColumn]:
    return [s for s in columns.sources if isinstance(s, CategoryColumn)]


def _public(number: NumberColumn) -> tuple[Fraction, Fraction]:
    """(middle, half width) of the bounds: the released model sees (u - middle)/half. (0, 1) without bounds."""
    if number.bounds is None:
        return Fraction(0), Fraction(1)
    low, high = (Fraction(end) for end in number.bounds)
    return (low + high) / 2, (high - low) / 2


def _corners(columns: Columns, label: CategoryColumn) -> list[dict[int, Fraction]]:
    """The weight of each level as a sum over the weights of the simplex's coordinates."""
    block = columns.block(label.name)
    return [{j: Fraction(v) for j, v in zip(block, row, strict=True) if v} for row in label.vertices.tolist()]


def _subtract(row: Row, other: Row) -> dict[int, Fraction]:
    difference = {j: row.get(j, Fraction(0)) - other.get(j, Fraction(0)) for j in {**row, **other}}
    return {j: a for j, a in difference.items() if a}


def _example(free: list[NumberColumn], bounded: list[NumberColumn], labels: list[CategoryColumn]) -> Any:
    """(rows, columns) made-up rows, numbers first: what the transformers are fitted on instead of people."""
    rows = max([2, *(len(s.levels) for s in labels)])
    example = np.zeros((rows, len(free) + len(bounded) + len(labels)), dtype=object)
    for k, number in enumerate(bounded, start=len(free)):
        low, high = number.bounds or (0.0, 1.0)
        example[:, k], example[1, k] = low, high
    for k, s in enumerate(labels, start=len(free) + len(bounded)):
        example[:, k] = [s.levels[i % len(s.levels)] for i in range(rows)]
    return example


def _model(loss: Any, weights: FloatArray, offset: float, classes: Any) -> Any:
    """A scikit-learn linear model carrying the weights; fitted on made-up rows if it must be fitted to predict."""
    refuse_unexportable(loss)
    return EXPORTS[type(loss)](weights, offset, classes)


def refuse_unexportable(loss: Any) -> None:
    """Refuse a loss that no scikit-learn model predicts with, before anything is drawn."""
    if type(loss) not in EXPORTS:
        known = ", ".join(kind.name for kind in EXPORTS)
        raise CannotMeasure(f"a {loss.name} model is measured but not released here: use one of the losses {known}")


def _logistic_regression(weights: FloatArray, offset: float, classes: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    example = np.eye(2, len(weights))
    model = LogisticRegression().fit(example + np.arange(2)[:, None], np.asarray(classes))
    model.coef_, model.intercept_ = weights[None, :], np.array([offset])
    return model


def _linear_regression(weights: FloatArray, offset: float, classes: Any) -> Any:
    from sklearn.linear_model import LinearRegression

    model = LinearRegression().fit(np.eye(2, len(weights)), np.zeros(2))
    model.coef_, model.intercept_ = weights, offset
    for trace in ("rank_", "singular_"):
        if hasattr(model, trace):
            delattr(model, trace)
    return model


def _poisson_regressor(weights: FloatArray, offset: float, classes: Any) -> Any:
    from sklearn.linear_model import PoissonRegressor

    model = PoissonRegressor().fit(np.eye(2, len(weights)), np.ones(2))
    model.coef_, model.intercept_ = weights, offset
    return model


EXPORTS: dict[type[glm.ScalarLoss], Callable[[FloatArray, float, Any], Any]] = {
    glm.Squared: _linear_regression,
    glm.Logistic: _logistic_regression,
    glm.Poisson: _poisson_regressor,
}
"""The scikit-learn model that a loss is released as, from weights (d,), the intercept and the classes."""
