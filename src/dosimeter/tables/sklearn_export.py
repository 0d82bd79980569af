"""Released weights as a plain scikit-learn Pipeline over the source columns, which works without this package.

The scaler is folded into the noised weights before anything is rounded (`noise_addition.linear_map`), so that neither
its exact means and deviations nor the grid of a rounding travel with them. Each level of a category has a weight, and
these add up to 0: a level that was never seen counts as the mean of those that were. Where bounds were declared, they
are in the file: numbers are clipped to them, and an unlisted label counts as the level that it was fitted as.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from dosimeter.tables.public_encoding import as_category
from dosimeter.tables.table import Table

FARTHEST = 1e8
"""Deviations from 0 at which a column's mean may lie: rounding the weight moves a prediction by 2^-41 of that."""


def fold(columns: Columns) -> list[Row]:
    """The released numbers as sums over the weights of the design and its intercept, in the order of `pipeline`.

    A number's weight is w/scale, and the intercept takes up -w·centre/scale; where it has bounds, both are for the
    number between -1 and 1 at them. A level's weight is that of its corner of the simplex. Exact: fractions of the
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
            raise Refusal(f"{shown}: subtract a fixed number, its weight in 40 bits would not do")
        rows.append({j: half / scale})
        if offset:
            intercept[j] = offset / scale
    for label in _labels(columns):
        corners, others = _corners(columns, label), label.others
        if others is not None:
            away = corners.pop(others)
            intercept |= away
            corners = [_less(corner, away) for corner in corners]
        rows += corners
    return [*rows, intercept]


def raw(columns: Columns, table: Table) -> FloatArray:
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

    fills: column -> the public constant that stands for a missing value.
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
    filled = {s.name: fills[s.name] for s in sources if s.name in fills} if fills else {}
    before = ColumnTransformer(parts).fit(_example(free, bounded, labels))
    if labels:
        known, order = _as_frames_have_them(levels)
        before.named_transformers_["labels"].categories_ = known
        coef = np.concatenate([coef[: len(coef) - len(order)], coef[len(coef) - len(order) :][order]])
    model = _model(loss, coef, intercept, classes)
    if filled:
        return Pipeline([("gaps", _filling(sources, filled)), ("columns", before), ("model", model)])
    # Fitted on an array, so that no dataframe library is needed; with the names, frames are read by name.
    before.feature_names_in_ = np.array([s.name for s in sources], dtype=object)
    for name, _, group in steps[1:]:
        if group:
            before.named_transformers_[name].feature_names_in_ = np.array([s.name for s in group], dtype=object)
    return Pipeline([("columns", before), ("model", model)])


def _as_frames_have_them(levels: Sequence[Sequence[Any]]) -> tuple[list[Any], Index]:
    """The levels of each column for a fitted OneHotEncoder, and the places of all of them in that order.

    Codes are numbers in a frame, also where they were read here as labels. An encoder looks numbers up by bisection, so
    they rise.
    """
    found, places, first = [], [], 0
    for each in levels:
        texts = all(isinstance(level, str) for level in each)
        numbers = all(isinstance(level, Real | np.bool_) for level in each)
        known = as_category(each) if texts else np.array(each) if numbers else np.array(each, dtype=object)
        order = np.arange(len(known)) if known.dtype.kind == "O" else np.argsort(known, kind="stable")
        found.append(known[order])
        places.append(first + order)
        first += len(known)
    return found, np.concatenate(places)


def _filling(sources: Sequence[NumberColumn | CategoryColumn], filled: Mapping[str, Any]) -> Any:
    """A transformer that leaves the columns in their order, gaps filled by constants."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline

    parts: list[Any] = []
    made = np.zeros((2, len(sources)), dtype=object)
    for k, s in enumerate(sources):
        step: Any = "passthrough"
        if s.name in filled and isinstance(s, NumberColumn):
            step = SimpleImputer(strategy="constant", fill_value=float(filled[s.name]))
        elif s.name in filled:
            # A frame of pandas has nan where there is nothing, one of polars None.
            both = [
                SimpleImputer(missing_values=m, strategy="constant", fill_value=filled[s.name]) for m in (np.nan, None)
            ]
            step = Pipeline([("nan", both[0]), ("none", both[1])])
            made[:, k] = filled[s.name]
        parts.append((f"column {k}", step, [k]))
    whole = ColumnTransformer(parts).fit(made)
    whole.feature_names_in_ = np.array([s.name for s in sources], dtype=object)
    for k, s in enumerate(sources):
        if s.name in filled:
            step = whole.named_transformers_[f"column {k}"]
            (step if isinstance(s, NumberColumn) else step[0]).feature_names_in_ = np.array([s.name], dtype=object)
    return whole


def _free(columns: Columns) -> list[NumberColumn]:
    return [s for s in columns.sources if isinstance(s, NumberColumn) and s.bounds is None]


def _bounded(columns: Columns) -> list[NumberColumn]:
    return [s for s in columns.sources if isinstance(s, NumberColumn) and s.bounds is not None]


def _labels(columns: Columns) -> list[CategoryColumn]:
    return [s for s in columns.sources if isinstance(s, CategoryColumn)]


def _public(number: NumberColumn) -> tuple[Fraction, Fraction]:
    """(middle, half width) of the bounds: the released model sees (u - middle)/half. (0, 1) where there are none."""
    if number.bounds is None:
        return Fraction(0), Fraction(1)
    low, high = (Fraction(end) for end in number.bounds)
    return (low + high) / 2, (high - low) / 2


def _corners(columns: Columns, label: CategoryColumn) -> list[dict[int, Fraction]]:
    """The weight of each level as a sum over the weights of the simplex's coordinates."""
    block = columns.block(label.name)
    return [{j: Fraction(v) for j, v in zip(block, row, strict=True) if v} for row in label.vertices.tolist()]


def _less(one: Row, other: Row) -> dict[int, Fraction]:
    found = {j: one.get(j, Fraction(0)) - other.get(j, Fraction(0)) for j in {**one, **other}}
    return {j: a for j, a in found.items() if a}


def _example(free: list[NumberColumn], bounded: list[NumberColumn], labels: list[CategoryColumn]) -> Any:
    """(rows, columns) made-up rows, numbers first: what the transformers are fitted on instead of people."""
    rows = max([2, *(len(s.levels) for s in labels)])
    made = np.zeros((rows, len(free) + len(bounded) + len(labels)), dtype=object)
    for k, number in enumerate(bounded, start=len(free)):
        low, high = number.bounds or (0.0, 1.0)
        made[:, k], made[1, k] = low, high
    for k, s in enumerate(labels, start=len(free) + len(bounded)):
        made[:, k] = [s.levels[i % len(s.levels)] for i in range(rows)]
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
