"""FunctionTransformer: the identity, and functions of numpy and scipy whose derivative is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dosimeter.adapters.steps.chain_rule import elementwise
from dosimeter.adapters.steps.feature import Feature, Features
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Run, step_name
from dosimeter.core.arrays import FloatArray

DERIVATIVES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "log": lambda x: 1.0 / x,
    "log2": lambda x: 1.0 / (x * np.log(2.0)),
    "log10": lambda x: 1.0 / (x * np.log(10.0)),
    "log1p": lambda x: 1.0 / (1.0 + x),
    "exp": np.exp,
    "exp2": lambda x: np.log(2.0) * np.exp2(x),
    "expm1": np.exp,
    "sqrt": lambda x: 0.5 / np.sqrt(x),
    "cbrt": lambda x: 1.0 / (3.0 * np.cbrt(x) ** 2),
    "square": lambda x: 2.0 * x,
    "reciprocal": lambda x: -1.0 / x**2,
    "negative": lambda x: -np.ones_like(x),
    "positive": np.ones_like,
    "absolute": lambda x: np.where(x < 0.0, -1.0, 1.0),
    "sin": np.cos,
    "cos": lambda x: -np.sin(x),
    "tan": lambda x: 1.0 / np.cos(x) ** 2,
    "sinh": np.cosh,
    "cosh": np.sinh,
    "tanh": lambda x: 1.0 / np.cosh(x) ** 2,
    "arctan": lambda x: 1.0 / (1.0 + x**2),
    "arcsinh": lambda x: 1.0 / np.sqrt(1.0 + x**2),
    "expit": lambda x: _expit(x) * _expit(-x),
    "logit": lambda x: 1.0 / (x * (1.0 - x)),
}
"""Name of a ufunc -> its derivative."""


def _expit(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


@step(
    "FunctionTransformer",
    route=Route.DERIVATIVE,
    remark=f"{', '.join(DERIVATIVES)} of numpy and scipy; any other function by differences",
    foldable=True,
)
def read_function(transformer: Any, features: Features, run: Run) -> Features:
    if transformer.func is None:
        return features
    run.log.unfoldable[step_name(transformer)] = None
    derivative = _derivative_of(transformer)
    if derivative is None or not all(feature.is_number for feature in features):
        from dosimeter.adapters.steps.unknown_steps import read_unknown  # it needs the registry

        return read_unknown(transformer, features, run)
    return tuple(_behind(transformer.func, derivative, feature, run) for feature in features)


def _behind(
    func: Callable[[FloatArray], FloatArray],
    derivative: Callable[[FloatArray], FloatArray],
    feature: Feature,
    run: Run,
) -> Feature:
    """func(x); a value or slope that is not finite is refused with its row where it is used."""

    def slope() -> FloatArray:
        with np.errstate(all="ignore"):
            return derivative(feature.numbers)

    with np.errstate(all="ignore"):
        return elementwise(feature, func(feature.numbers), slope, run)


def _derivative_of(transformer: Any) -> Callable[[FloatArray], FloatArray] | None:
    """Of a ufunc of numpy or scipy that is called without further arguments."""
    func = transformer.func
    if not isinstance(func, np.ufunc) or transformer.kw_args:
        return None
    from scipy import special

    known = func in (getattr(np, func.__name__, None), getattr(special, func.__name__, None))
    return DERIVATIVES.get(func.__name__) if known else None
