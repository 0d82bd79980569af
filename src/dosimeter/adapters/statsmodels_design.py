"""What the adapters of statsmodels read off results: columns, the constant, parameters, weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.adapters.problem import Target
from dosimeter.adapters.registry import Sources
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_text

CONSTANTS = ("const", "Intercept")
"""Names of a column of ones in statsmodels: from `add_constant`, and from formulas."""


@dataclass(frozen=True, eq=False)
class FittedDesign:
    """Parameters of statsmodels results in our order: the constant last."""

    w: FloatArray
    """(p,)."""
    intercept: bool

    @classmethod
    def of(cls, results: Any) -> FittedDesign:
        """The parameters of one margin."""
        names = _names(results)
        constant = [j for j, name in enumerate(names) if name in CONSTANTS]
        if len(constant) > 1:
            raise CannotMeasure("the statsmodels results have two constants: drop one of them")
        params = np.asarray(results.params, dtype=np.float64)
        order = [j for j in range(len(names)) if j not in constant] + constant
        return cls(params[order], bool(constant))


def column_sources(results: Any) -> Sources:
    """The columns of the results, without the constant."""
    names = tuple(name for name in _names(results) if name not in CONSTANTS)
    return names, len(names)


def _names(results: Any) -> list[str]:
    if not hasattr(results, "params"):
        raise CannotMeasure(
            f"statsmodels {safe_text(type(results).__name__)} is not fitted: pass the results that fit returned"
        )
    return list(map(str, results.model.exog_names))


def refuse_offset(model: Any) -> None:
    """Refuse a model with an offset or an exposure."""
    if any(getattr(model, name, None) is not None and np.any(getattr(model, name)) for name in ("offset", "exposure")):
        raise CannotMeasure(
            "a statsmodels model with an offset or exposure cannot be measured: no formula here has one; fit without it"
        )


def row_weights(model: Any, target: Target, *attributes: str) -> FloatArray | None:
    """(n,) the product of the model's own weights, or those that were passed; None if all are 1."""
    weight = np.ones(1)
    for name in attributes:
        factor = getattr(model, name, None)
        weight = weight if factor is None else weight * np.asarray(factor, dtype=np.float64)
    if np.all(weight == 1.0):
        return target.weight
    if target.weight is not None:
        raise Refusal("the statsmodels results carry their own weights: do not pass sample_weight as well")
    return weight
