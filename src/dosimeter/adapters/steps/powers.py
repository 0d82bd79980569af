"""PowerTransformer: Yeo-Johnson and Box-Cox, standardised or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dosimeter.adapters.steps.calls import transform_numbers
from dosimeter.adapters.steps.chain_rule import elementwise
from dosimeter.adapters.steps.feature import Feature, Features, matrix_of
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Run, require_fitted
from dosimeter.core.arrays import FloatArray


@step(
    "PowerTransformer",
    route=Route.DERIVATIVE,
    remark="box-cox and yeo-johnson, standardize too; exponents, mean and scale are held fixed",
)
def read_powers(transformer: Any, features: Features, run: Run) -> Features:
    exponents = np.asarray(require_fitted(transformer, "lambdas_", len(features)), dtype=np.float64)
    X = matrix_of(features)
    values = transform_numbers(transformer, X)
    scales = _scales(transformer, exponents) if run.wants_slopes and not run.survey else np.ones(len(features))
    statistics = ("the exponents", *(("mean and scale",) if transformer.standardize else ()))
    outputs: list[Feature] = []
    for j, feature in enumerate(features):
        bend = _box_cox_slope if transformer.method == "box-cox" else _yeo_johnson_slope

        def slope(
            x: FloatArray = X[:, j],
            exponent: float = float(exponents[j]),
            scale: float = float(scales[j]),
            bend: Callable[[FloatArray, float], FloatArray] = bend,
        ) -> FloatArray:
            return bend(x, exponent) / scale

        output = elementwise(feature, values[:, j], slope, run, *statistics)
        outputs.append(replace(output, standardised=bool(transformer.standardize)))
    return tuple(outputs)


def _box_cox_slope(x: FloatArray, exponent: float) -> FloatArray:
    return np.asarray(x ** (exponent - 1.0))


def _yeo_johnson_slope(x: FloatArray, exponent: float) -> FloatArray:
    power = np.where(x >= 0.0, exponent - 1.0, 1.0 - exponent)
    return np.asarray((1.0 + np.abs(x)) ** power)


def _scales(transformer: Any, exponents: FloatArray) -> FloatArray:
    """(d,) what the standardisation divides by, from the images of two points: its own attribute is not public."""
    if not transformer.standardize:
        return np.ones(len(exponents))
    box_cox = transformer.method == "box-cox"
    points = (1.0, 2.0) if box_cox else (0.0, 1.0)  # the power of the first is zero whatever the exponent
    images = [transform_numbers(transformer, np.full((1, len(exponents)), point))[0] for point in points]
    # Of both kinds the power of the second is (2^λ - 1)/λ.
    plain = np.array([_power_of_two(e) for e in exponents.tolist()])
    return np.asarray(plain / (images[1] - images[0]))


def _power_of_two(exponent: float) -> float:
    log = float(np.log(2.0))
    return log if exponent == 0.0 else float(np.expm1(exponent * log)) / exponent
