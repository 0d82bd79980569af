"""Steps that make levels of numbers: KBinsDiscretizer and Binarizer.

Inside a bin nothing moves: the derivative is zero, and would say that nothing leaks. A number can leave its bin, so the
column is read as a category of its bins: the largest step between two of them, whichever bin a row is in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.adapters.steps.feature import Feature, Features, Slope, Unknown
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Category, Run, require_fitted, step_name
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.text import safe_text

READING = "read as a category of its bins, by the largest step between two of them: inside a bin its derivative is zero"


@step("KBinsDiscretizer", route=Route.LEVELS, remark="the largest step between two bins; the edges are held fixed")
def read_bins(discretizer: Any, features: Features, run: Run) -> Features:
    edges = require_fitted(discretizer, "bin_edges_", len(features))
    outputs: list[Feature] = []
    for feature, mine in zip(features, edges, strict=True):
        inner = np.asarray(mine, dtype=np.float64)[1:-1]
        bins = np.searchsorted(inner, feature.numbers, side="right").astype(np.intp)
        ends = np.asarray(mine, dtype=np.float64)[[0, -1]] if len(mine) else np.zeros(2)
        tables = [np.arange(len(inner) + 1, dtype=np.float64)]
        if discretizer.encode != "ordinal":
            tables = list(np.eye(len(inner) + 1))
        outputs += _binned(discretizer, feature, bins, inner, ends, tables, "the bin edges", run)
    return tuple(outputs)


@step("Binarizer", route=Route.LEVELS, remark="the step from one side of the threshold to the other")
def read_binarizer(binarizer: Any, features: Features, run: Run) -> Features:
    threshold, outputs = float(binarizer.threshold), []
    for feature in features:
        above = (feature.numbers > threshold).astype(np.intp)
        ends = np.array([threshold - 1.0, threshold + 2.0])
        outputs += _binned(binarizer, feature, above, np.array([threshold]), ends, [np.array([0.0, 1.0])], "", run)
    return tuple(outputs)


def _binned(
    transformer: Any,
    feature: Feature,
    bins: Index,
    inner: FloatArray,
    ends: FloatArray,
    tables: list[FloatArray],
    statistic: str,
    run: Run,
) -> list[Feature]:
    """One feature for each table (bins,) of numbers, one for each bin; inner: the edges between bins."""
    feature.refuse_gaps()
    levels = tuple(f"bin {k}" for k in range(len(inner) + 1))
    slopes: list[dict[Unknown, Slope]] = [{} for _ in tables]
    by_level = frozenset(feature.sources) if feature.bent else frozenset()
    if run.survey and feature.sources and len(levels) > 1:
        source = _only_source(transformer, feature)
        cells = _cells(transformer, feature, source, bins, inner, ends, run)
        run.declare(source, Category(levels, cells, binned=True))
        if not feature.bent:
            slopes = [
                {(source, levels[k]): float(t[k] - t[0]) for k in range(1, len(t)) if t[k] != t[0]} for t in tables
            ]
        shown = safe_text(source)
        run.log.remarks[f"{shown} goes through {step_name(transformer)} and is {READING}"] = None
    many = len(tables) > 1
    return [
        Feature(
            f"{feature.name} {levels[k]}" if many else feature.name,
            table[bins],
            slope,
            statistics=feature.statistics | ({statistic} if statistic else frozenset()),
            sources=feature.sources,
            bent=by_level,
        )
        for k, (table, slope) in enumerate(zip(tables, slopes, strict=True))
    ]


def _only_source(transformer: Any, feature: Feature) -> str:
    if len(feature.sources) != 1:
        raise CannotMeasure(
            f"{step_name(transformer)} makes levels of {safe_text(feature.name)}, a mix of several columns: no cell "
            "has a step of its own; put it on the columns themselves"
        )
    return next(iter(feature.sources))


def _cells(
    transformer: Any, feature: Feature, source: str, bins: Index, inner: FloatArray, ends: FloatArray, run: Run
) -> tuple[float, ...]:
    """A value of the source column inside each bin: one that a row has, or the middle of an empty bin."""
    column = run.columns[source]
    if column.dtype.kind not in "fb":
        raise CannotMeasure(
            f"{step_name(transformer)} makes levels of numbers that stand for text (column {safe_text(source)}): "
            "encode the column alone"
        )
    known = ~run.gaps[source] if source in run.gaps else np.ones(len(column), dtype=bool)
    slope = feature.slopes.get((source, None))
    edges = np.concatenate([ends[:1], inner, ends[1:]])
    cells = []
    for k in range(len(inner) + 1):
        rows = np.flatnonzero((bins == k) & known)
        if len(rows):
            cells.append(float(column[rows[0]]))
            continue
        if not isinstance(slope, float) or slope == 0.0:
            raise CannotMeasure(
                f"bin {k} of {step_name(transformer)} (column {safe_text(source)}) holds no row, behind a step that is "
                "not affine: use fewer bins"
            )
        row = int(np.flatnonzero(known)[0])
        middle = 0.5 * (edges[k] + edges[k + 1])
        cells.append(float(column[row] + (middle - float(feature.values[row])) / slope))
    return tuple(cells)
