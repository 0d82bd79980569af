"""(ε, δ) of the same release, if a sensitivity is proven: bounded rows, a Lipschitz loss, every weight penalised.

Replacing one row of n changes the minimiser of eq. 13 of [Hannun21] by at most 2L/(nλ), L the largest norm of one row's
gradient at a minimiser: the objective is nλ-strongly convex and its gradient at the old minimiser is the difference of
two rows' gradients. The caller declares bounds before the table is seen, and they are only checked here; bounds read
from the table would be a function of the data. Proofs: docs/explanation/shape.md, 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.dose import EventDose
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Gaussian
from dosimeter.core.notion import Standing
from dosimeter.glm.fisher import measure
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.fitting.newton import Loss

SLACK = 1e-6
"""Share of L that the solver's remaining gradient may have, and by which the sensitivity is raised for it."""


def lipschitz(loss: Loss, l2: float, row_norm: float, target_bound: float | None = None) -> float:
    """L: no row with |x| <= row_norm and |y| <= target_bound has a longer gradient at any minimiser of such rows.

    Each loss proves its own (`gradient_bound`); one without a proof refuses.

    >>> from dosimeter.glm.losses.loss import Logistic, Squared
    >>> lipschitz(Logistic(), 0.01, row_norm=2.0), lipschitz(Squared(), 0.25, row_norm=1.0, target_bound=1.0)
    (2.0, 2.0)
    """
    R = _positive(row_norm, "row_norm")
    if not (np.isfinite(l2) and l2 > 0):
        raise CannotMeasure(f"l2 = {l2:g}: without a penalty the minimiser has no bounded sensitivity; use l2 > 0")
    Y = _positive(target_bound, "target_bound") if loss.uses_target_bound and target_bound is not None else None
    return loss.gradient_bound(float(l2), R, Y)


def sensitivity(fit: Fit, X: Any, y: Any, *, row_norm: float, target_bound: float | None = None) -> float:
    """The most that fit.w moves (2-norm) when one of its n rows is replaced by any other within the declared bounds."""
    X, y = (np.ascontiguousarray(v, dtype=np.float64) for v in (X, y))
    measure(fit, X, y, Gaussian(1.0))  # refuses a different table
    if fit.offset is not None:
        raise CannotMeasure("the bound on a row's gradient is for margins without an offset: leave the offset out")
    L = lipschitz(fit.loss, fit.l2, row_norm, target_bound)
    if fit.penalises_intercept:
        raise CannotMeasure("a penalised intercept counts in row_norm: add a constant column instead")
    if fit.intercept:
        raise CannotMeasure(
            "the intercept is not penalised, so the objective is not strongly convex in it and 2L/(nλ) does not hold: "
            "add a constant column instead, which is penalised and counts in row_norm"
        )
    if not (fit.sample_weight == 1.0).all():
        raise CannotMeasure("with sample weights one row counts more than another and 2L/(nλ) does not hold: omit them")
    _refuse_beyond(np.linalg.norm(X, axis=1), float(row_norm), "norm", "row_norm")
    if fit.loss.uses_target_bound and target_bound is not None:
        _refuse_beyond(np.abs(y), float(target_bound), "target", "target_bound")
    if not fit.gradient_norm <= SLACK * L:
        raise Refusal(
            f"the fit stopped at a gradient of {fit.gradient_norm:.1e}, above {SLACK:g} L: fit to convergence"
        )
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
    """The DP event of fit.w + noise for one replaced row.

    Parameters
    ----------
    fit : Fit
        The exact fit: every weight penalised, no sample weights, no intercept.
    X, y : array_like of shape (n, d) and (n,)
        The training table.
    noise : Gaussian or CorrelatedGaussian
        A covariance must be public: one computed from this table (`shape_noise`) differs between neighbours.
    row_norm : float
        Bound on |x|, declared without looking at the table.
    target_bound : float, optional
        Bound on |y|, for losses that need one.
    standing : Standing
        Pass UNACCOUNTED for a scale that was chosen from the data.

    Returns
    -------
    EventDose
        `.epsilon(delta)` reads it by dp-accounting, in the replace-one relation.

    Raises
    ------
    CannotMeasure
        If no sensitivity is proven.
    Refusal
        If a row exceeds its bound.

    Notes
    -----
    Replacing a row moves w by at most 2L/(nλ), L the largest gradient norm of a row; docs/explanation/shape.md, 6.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[0.5], [-0.5], [1.0], [0.2]]), np.array([1.0, 0.0, 1.0, 0.0])
    >>> dose = differential_privacy(glm.fit(X, y, glm.Logistic(), 0.5), X, y, Gaussian(2.0), row_norm=1.0)
    >>> round(dose.epsilon(1e-5), 1)
    2.0
    """
    from dp_accounting.dp_event import GaussianDpEvent  # imported late: it takes a second

    if type(noise) is Gaussian:
        sigma = noise.sigma
    elif type(noise) is CorrelatedGaussian:
        sigma = float(
            np.sqrt(np.linalg.eigvalsh(noise.covariance)[0])
        )  # the direction with the least noise, however w moves
    else:
        raise CannotMeasure(f"the sensitivity is in the 2-norm and needs Gaussian noise, not {noise}")
    largest_move = sensitivity(fit, X, y, row_norm=row_norm, target_bound=target_bound)
    # The event's multiplier is σ over the norm of one row's contribution; replacing a row moves the sum by two of them.
    return EventDose(GaussianDpEvent(2 * sigma / largest_move), "example", "replace-one", standing)


def _positive(value: float, name: str) -> float:
    if isinstance(value, bool) or not (np.isreal(value) and np.isfinite(value) and value > 0):
        raise Refusal(f"{name} must be a finite number > 0 chosen without looking at the table, not {value!r}")
    return float(value)


def _refuse_beyond(sizes: FloatArray, bound: float, kind: str, name: str) -> None:
    """Declared bounds are never widened to fit; a row on the bound may exceed it by rounding."""
    if (sizes > bound * (1 + 1e-12)).any():
        row = int(np.argmax(sizes))
        raise Refusal(
            f"row {row} has a {kind} of {sizes[row]:.6g}, beyond the declared {name} = {bound:g}: clip the rows "
            "before the fit, or declare a bound that is known to hold for every possible row"
        )
