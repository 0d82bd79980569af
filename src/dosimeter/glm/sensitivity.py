"""(ε, δ) of the same release, where a sensitivity is proven: bounded rows, a Lipschitz loss, every weight penalised.

Replacing one row of n changes the minimiser of eq. 13 of [Hannun21] by at most 2L/(nλ), L the largest norm of one row's
gradient at a minimiser: the objective is nλ-strongly convex and its gradient at the old minimiser is the difference of
two rows' gradients. Bounds are declared by the caller before the table is seen and only checked here; one read off the
table would be a function of the data. Proofs: docs/shape.md, 6.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.dose import EventDose
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Gaussian
from dosimeter.core.notion import Standing
from dosimeter.glm.fisher import measure
from dosimeter.glm.fit import Fit, Loss
from dosimeter.glm.loss import Logistic, Squared
from dosimeter.glm.softmax import Softmax

SLACK = 1e-6
"""Share of L that the gradient left over by the solver may have, and by which the sensitivity is raised for it."""


def lipschitz(loss: Loss, l2: float, row_norm: float, target_bound: float | None = None) -> float:
    """L: no row with |x| <= row_norm and |y| <= target_bound has a longer gradient at any minimiser of such rows.

    Logistic: |s(m) - y| |x| <= R. Softmax: |Cᵀ(s - y)| |x| <= √2 |C| R. Squared: |w| <= Y max s/(s² + λ) over s in
    [0, R], and so |w·x - y| |x| <= R (R |w| + Y).

    >>> lipschitz(Logistic(), 0.01, row_norm=2.0), lipschitz(Squared(), 0.25, row_norm=1.0, target_bound=1.0)
    (2.0, 2.0)
    """
    R = _positive(row_norm, "row_norm")
    if not (np.isfinite(l2) and l2 > 0):
        raise CannotMeasure(f"l2 = {l2:g}: without a penalty the minimiser has no bounded sensitivity; use l2 > 0")
    if isinstance(loss, Logistic):
        return R
    if isinstance(loss, Softmax):
        return math.sqrt(2.0) * float(np.linalg.norm(loss.contrast, 2)) * R
    if not isinstance(loss, Squared):
        raise CannotMeasure(f"the gradient of the {loss.name} loss grows without bound, so no sensitivity is proven")
    if target_bound is None:
        raise CannotMeasure(
            "the squared loss has no bounded gradient unless the targets are bounded too: declare target_bound, known "
            "without looking at the table"
        )
    Y = _positive(target_bound, "target_bound")
    root = min(R, math.sqrt(l2))
    return R * (R * Y * root / (root * root + l2) + Y)


def sensitivity(fit: Fit, X: Any, y: Any, *, row_norm: float, target_bound: float | None = None) -> float:
    """The most that fit.w moves (2-norm) when one of its n rows is replaced by any other within the declared bounds."""
    X, y = (np.ascontiguousarray(v, dtype=np.float64) for v in (X, y))
    measure(fit, X, y, Gaussian(1.0))  # refuses a table that the fit has not seen
    L = lipschitz(fit.loss, fit.l2, row_norm, target_bound)
    if fit.intercept:
        raise CannotMeasure(
            "the intercept is not penalised, so the objective is not strongly convex in it and 2L/(nλ) does not hold: "
            "append a constant column instead, which is penalised and counts in row_norm"
        )
    if not (fit.sample_weight == 1.0).all():
        raise CannotMeasure("with sample weights one row counts more than another and 2L/(nλ) does not hold: use none")
    _refuse_beyond(np.linalg.norm(X, axis=1), float(row_norm), "norm", "row_norm")
    if isinstance(fit.loss, Squared) and target_bound is not None:
        _refuse_beyond(np.abs(y), float(target_bound), "target", "target_bound")
    if not fit.gradient_norm <= SLACK * L:
        raise Refusal(f"the fit stopped at a gradient of {fit.gradient_norm:.1e}, above {SLACK:g} L: fit it to the end")
    # Each of the two fits is within SLACK·L/(nλ) of its exact minimiser.
    return 2 * L * (1 + SLACK) / (fit.n * fit.l2)


def differential_privacy(
    fit: Fit,
    X: Any,
    y: Any,
    noise: Gaussian | CorrelatedGaussian,
    *,
    row_norm: float,
    target_bound: float | None = None,
    standing: Standing = Standing.UPPER_BOUND,
) -> EventDose:
    """The event of fit.w + noise for one replaced row; `.epsilon(delta)` reads it by dp-accounting.

    A covariance must be public: one made from this table (`shape.shaped`) differs between neighbours and has no such
    event. standing: pass UNACCOUNTED for a scale that was chosen from the data.
    """
    from dp_accounting.dp_event import GaussianDpEvent  # late: a second of import

    if type(noise) is Gaussian:
        sigma = noise.sigma
    elif type(noise) is CorrelatedGaussian:
        sigma = float(np.sqrt(np.linalg.eigvalsh(noise.covariance)[0]))  # the quietest direction, whichever way w moves
    else:
        raise CannotMeasure(f"the sensitivity is in the 2-norm, which suits Gaussian noise, not {noise}")
    moved = sensitivity(fit, X, y, row_norm=row_norm, target_bound=target_bound)
    # The event's multiplier is σ over the norm of one row's contribution; replacing a row moves the sum by two of them.
    return EventDose(GaussianDpEvent(2 * sigma / moved), "example", "replace-one", standing)


def _positive(value: float, name: str) -> float:
    if isinstance(value, bool) or not (np.isreal(value) and np.isfinite(value) and value > 0):
        raise Refusal(f"{name} is a finite number > 0 that is known without looking at the table, not {value!r}")
    return float(value)


def _refuse_beyond(sizes: FloatArray, bound: float, what: str, name: str) -> None:
    """Declared bounds are never widened to fit; a row on the bound may exceed it by rounding."""
    if (sizes > bound * (1 + 1e-12)).any():
        row = int(np.argmax(sizes))
        raise Refusal(
            f"row {row} has a {what} of {sizes[row]:.6g}, beyond the declared {name} = {bound:g}: clip the rows "
            "before the fit, or declare a bound that is known to hold for every possible row"
        )
