"""Features behind a step, with their slopes by the chain rule.

Numbers keep slopes: constants behind affine steps, one for each row behind smooth ones. Indicators keep them behind
affine steps only; behind a smooth step the category, or the number of two values, is evaluated level by level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dosimeter.adapters.steps.feature import VARIES, Feature, Features, Slope, Unknown, Varies, matrix_of
from dosimeter.adapters.steps.run import Run
from dosimeter.core.arrays import FloatArray

Touches = Any
"""(outputs, inputs) booleans."""


def moving(feature: Feature, run: Run) -> tuple[Unknown, ...]:
    """The numbers in which a step after this feature needs a derivative."""
    return tuple(u for u in feature.slopes if u[1] is None and u[0] not in run.two_valued)


def stepping(feature: Feature, run: Run) -> frozenset[str]:
    """The sources in which a smooth step after this feature bends it: categories, text, and numbers of two values."""
    sources = {s for s, level in feature.slopes if level is not None or s in run.two_valued}
    return feature.bent | frozenset(sources) | (frozenset() if feature.is_number else feature.sources)


def elementwise(
    feature: Feature, values: FloatArray, slope: Callable[[], FloatArray], run: Run, *statistics: str
) -> Feature:
    """f(x) of one feature x: values (k,), and slope() its derivative (k,) at each row."""
    slopes: dict[Unknown, Slope] = {}
    unknowns = moving(feature, run)
    if run.survey:
        slopes = dict.fromkeys(unknowns, VARIES)
    elif unknowns:
        factor = slope()
        slopes = {u: factor * _numeric(feature.slopes[u]) for u in unknowns}
    return replace(
        feature,
        values=values,
        slopes=slopes,
        raw=False,
        standardised=False,
        statistic_moves=None,
        levels=(),
        coded=None,
        statistics=feature.statistics | frozenset(statistics),
        bent=stepping(feature, run),
    )


def mixed(
    features: Features,
    values: FloatArray,
    names: Sequence[str],
    derivative: Callable[[list[int]], FloatArray],
    run: Run,
    statistics: Sequence[str] = (),
    touches: Touches = None,
) -> Features:
    """Smooth functions of several features: values (k, outputs).

    derivative: positions of some inputs -> (k, outputs, those inputs). touches: which output depends on which input.
    """
    touched = np.ones((len(names), len(features)), dtype=bool) if touches is None else touches
    wanted = run.wants_slopes or run.survey
    inputs = [j for j, feature in enumerate(features) if wanted and moving(feature, run)]
    D = derivative(inputs) if inputs and not run.survey else np.empty(0)
    outputs = []
    for o, name in enumerate(names):
        mine = [j for j in range(len(features)) if touched[o, j]]
        slopes: dict[Unknown, Slope] = {}
        for k, j in enumerate(inputs):
            if not touched[o, j]:
                continue
            for u in moving(features[j], run):
                if run.survey:
                    slopes[u] = VARIES
                else:
                    before = slopes.get(u, 0.0)
                    slopes[u] = _numeric(before) + D[:, o, k] * _numeric(features[j].slopes[u])
        outputs.append(_output(features, mine, name, values[:, o], slopes, statistics, run))
    return tuple(outputs)


def linear(
    features: Features,
    matrix: FloatArray,
    shift: FloatArray,
    names: Sequence[str],
    run: Run,
    *statistics: str,
) -> Features:
    """matrix · x + shift: matrix (outputs, inputs), shift (outputs,)."""
    for feature in features:
        feature.refuse_gaps()
    values = matrix_of(features) @ matrix.T + shift
    outputs = []
    for o, name in enumerate(names):
        mine = np.flatnonzero(matrix[o]).tolist()
        slopes: dict[Unknown, Slope] = {}
        for j in mine:
            for u, slope in features[j].slopes.items():
                slopes[u] = _sum(slopes.get(u, 0.0), slope, float(matrix[o, j]))
        bent = frozenset().union(*(features[j].bent for j in mine))
        output = _output(features, mine, name, values[:, o], slopes, statistics, run)
        outputs.append(replace(output, bent=bent))
    return tuple(outputs)


def _output(
    features: Features,
    mine: Sequence[int],
    name: str,
    values: FloatArray,
    slopes: dict[Unknown, Slope],
    statistics: Sequence[str],
    run: Run,
) -> Feature:
    """A feature computed from the inputs `mine`."""
    return Feature(
        name,
        values,
        slopes,
        statistics=frozenset(statistics).union(*(features[j].statistics for j in mine)),
        sources=frozenset().union(*(features[j].sources for j in mine)),
        bent=frozenset().union(*(stepping(features[j], run) for j in mine)),
    )


def _numeric(slope: Slope) -> float | FloatArray:
    if isinstance(slope, Varies):
        raise TypeError("a slope that is marked only has no value")
    return slope


def _sum(total: Slope, slope: Slope, factor: float) -> Slope:
    if isinstance(total, Varies) or isinstance(slope, Varies):
        return VARIES
    return total + factor * slope


def steeper(derivative: Callable[[FloatArray], FloatArray], x: FloatArray) -> FloatArray:
    """The derivative at x (k,) from the side on which it is larger: at a bend the two sides differ.

    derivative: x (k,) -> (k,) or (k, outputs).
    """
    left, right = derivative(np.nextafter(x, -np.inf)), derivative(np.nextafter(x, np.inf))
    size = [side**2 if side.ndim == 1 else np.sum(side**2, axis=1) for side in (left, right)]
    is_right = size[1] >= size[0]
    return np.where(is_right if left.ndim == 1 else is_right[:, None], right, left)
