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

SAME = 1e-6
"""Largest difference of a cell from the one that the results hold, relative to its column."""

CONSTANTS = ("const", "Intercept")
"""Names of a column of ones in statsmodels: from `add_constant`, and from formulas."""


@dataclass(frozen=True, eq=False)
class FittedDesign:
    """Parameters of statsmodels results in our order: the constant last."""

    w: FloatArray
    """(p,)."""
    intercept: bool
    held: FloatArray | None
    """(n, p) the columns that the results hold, in the same order; None if they were removed."""

    @classmethod
    def of(cls, results: Any, target: Target) -> FittedDesign:
        """The parameters of one margin; a target of other rows than those of the fit is refused."""
        names = _names(results)
        constant = [j for j, name in enumerate(names) if name in CONSTANTS]
        if len(constant) > 1:
            raise CannotMeasure("the statsmodels results have two constants: drop one of them")
        params = np.asarray(results.params, dtype=np.float64)
        order = [j for j in range(len(names)) if j not in constant] + constant
        exog = getattr(results.model, "exog", None)
        _refuse_other_rows(results, target)
        return cls(
            params[order], bool(constant), None if exog is None else np.asarray(exog, dtype=np.float64)[:, order]
        )


def _refuse_other_rows(results: Any, target: Target) -> None:
    """Results hold the target of their fit, unless their data were removed."""
    endog = getattr(results.model, "endog", None)
    if endog is None:
        return
    held = np.asarray(endog)
    if len(held) != len(target.y):
        raise Refusal(
            f"the model was fitted on {len(held)} rows and the frame has {len(target.y)}: pass the rows it was fitted "
            "on (statsmodels can leave out rows with missing values)"
        )
    if held.ndim == 1 and target.y.ndim == 1 and held.dtype.kind in "fiub" and target.y.dtype.kind in "fb":
        away = np.abs(target.y.astype(np.float64) - held) > SAME * max(1.0, float(np.abs(held).max(initial=0.0)))
        if away.any() and not _codes(results):
            raise Refusal(
                f"the target of row {int(np.argmax(away))} (from 0) is not the one that the model was fitted on: pass "
                "the y of its fit, in the order of the frame"
            )


def _codes(results: Any) -> bool:
    """Whether the target that the results hold has numbers in place of classes."""
    return type(results.model).__name__ == "MNLogit"


def column_sources(results: Any) -> Sources:
    """The columns of the results, without the constant."""
    names = tuple(name for name in _names(results) if name not in CONSTANTS)
    return names, len(names)


def constant_place(results: Any) -> int | None:
    """Where the column of ones stands among the columns of statsmodels results; None if there is none."""
    if type(results).__module__.split(".")[0] != "statsmodels" or not hasattr(results, "params"):
        return None
    return next((j for j, name in enumerate(_names(results)) if name in CONSTANTS), None)


def _names(results: Any) -> list[str]:
    if not hasattr(results, "params"):
        raise CannotMeasure(
            f"statsmodels {safe_text(type(results).__name__)} is not fitted: pass the results that fit returned"
        )
    if hasattr(results.model, "smoother"):
        raise CannotMeasure(
            "GLMGam penalises the bends of its splines with a matrix, which is not read here: fit a GLM on a formula "
            "with bs(column, df=...)"
        )
    return list(map(str, results.model.exog_names))


def offset_of(model: Any) -> FloatArray | None:
    """(n,) offset plus the logarithm of the exposure, which is how statsmodels keeps it; None for none."""
    parts = [getattr(model, name, None) for name in ("offset", "exposure")]
    added = [np.asarray(part, dtype=np.float64) for part in parts if part is not None and np.any(part)]
    return np.asarray(sum(added)) if added else None


FOUND = 1e-3
"""What may be left of the gradient at the penalty that is read off: coordinate descent of a GLM stops near 2e-4.

Whether the weights are the minimum with that penalty is checked on the table."""


def penalty_of(results: Any, gradient: FloatArray) -> Any:
    """nλ: 0 for a plain fit. Results of `fit_regularized` do not hold their penalty: it follows from their weights.

    gradient: (p,) of the loss at the weights, in the order of statsmodels. At a minimum it is -nλ times the weights,
    the constant's included unless it was given a penalty of zero.
    """
    if "Regularized" not in type(results).__name__:
        return 0.0
    w = np.asarray(results.params, dtype=np.float64)
    constant = np.array([name in CONSTANTS for name in _names(results)])
    for penalised in (np.ones(len(w), dtype=bool), ~constant):
        size = float(w[penalised] @ w[penalised])
        nl = -float(gradient[penalised] @ w[penalised]) / size if size > 0 else 0.0
        if nl > 0 and np.linalg.norm(gradient + nl * penalised * w) <= FOUND * np.linalg.norm(gradient):
            order = np.argsort(constant, kind="stable")
            return _as_given(nl / len(results.model.endog)) * len(results.model.endog) * penalised[order]
    raise CannotMeasure(
        "no L2 penalty makes these regularised weights a minimum: fit_regularized is measured with L1_wt=0 and one "
        "penalty for all columns"
    )


def _as_given(alpha: float) -> float:
    """A penalty read off weights of a solver's accuracy, as the round number that was given, if there is one near.

    >>> _as_given(0.1000007), _as_given(0.09996), _as_given(0.1234567)
    (0.1, 0.1, 0.1234567)
    """
    for digits, near in ((1, FOUND), (2, FOUND), (3, 1e-4)):
        rounded = float(f"{alpha:.{digits}g}")
        if abs(rounded - alpha) <= near * alpha:
            return rounded
    return alpha


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
