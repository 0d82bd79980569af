"""SplineTransformer: B-splines of each column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dosimeter.adapters.steps.calls import transform_numbers
from dosimeter.adapters.steps.chain_rule import elementwise, steeper
from dosimeter.adapters.steps.feature import Feature, Features, matrix_of
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Run, require_fitted
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure


@step(
    "SplineTransformer",
    route=Route.DERIVATIVE,
    remark="every extrapolation, degree 1 and above; the knots are held fixed; at a bend the steeper side",
)
def read_splines(splines: Any, features: Features, run: Run) -> Features:
    bases = require_fitted(splines, "bsplines_", len(features))
    if splines.degree < 1:
        raise CannotMeasure("SplineTransformer with degree=0 jumps at its knots: use degree=1 or more")
    for feature in features:
        feature.refuse_gaps()
    X = matrix_of(features)
    values = transform_numbers(splines, X)
    each = values.shape[1] // len(features)
    fixed = ("the knots",) if isinstance(splines.knots, str) else ()
    outputs: list[Feature] = []
    for j, (feature, basis) in enumerate(zip(features, bases, strict=True)):
        slopes: FloatArray | None = None
        for k in range(each):

            def slope(k: int = k, x: FloatArray = X[:, j], basis: Any = basis) -> FloatArray:
                nonlocal slopes
                if slopes is None:
                    slopes = steeper(lambda at: _slopes(splines, basis, at), x)
                return slopes[:, k]

            output = elementwise(feature, values[:, j * each + k], slope, run, *fixed)
            outputs.append(replace(output, name=f"{feature.name} spline {k}"))
        # The slopes of one column are computed once, in the first of its splines.
    return tuple(outputs)


def _slopes(splines: Any, basis: Any, x: FloatArray) -> FloatArray:
    """(k, splines) the derivative of every basis function at x (k,)."""
    low, high = basis.t[basis.k], basis.t[-basis.k - 1]
    if splines.extrapolation == "periodic":
        return np.asarray(basis(low + (x - low) % (high - low), nu=1))
    if splines.extrapolation == "continue":
        return np.asarray(basis(x, nu=1, extrapolate=True))
    inside = np.asarray(basis(np.clip(x, low, high), nu=1))
    return inside * ((x >= low) & (x <= high))[:, None] if splines.extrapolation == "constant" else inside
