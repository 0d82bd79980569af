"""How many digits a figure has, estimated after the fit, and a refusal if they are too few.

The promise: η of every row is correct to a relative PROMISE. Three things can break it, all of them float64 rounding:

    margin       δm = ε Σ|xⱼwⱼ| + decrement · √(x̃ᵀH⁻¹x̃)        curvature follows with the same relative change
    residual     δr = a δm + ε max(|mean|, |y|)                  a loss with a curve
                 δr = ε² Σ|xⱼwⱼ|                                 squared, if residuals are refined
                 δr = ε Σ|xⱼwⱼ|                                  squared, if they are large enough as they are
    curvature    δa = |d³l/dm³| δm                               a loss that is not convex, whose curvature may vanish

and H⁻¹ multiplies the residual, while a product with A loses ε of its largest direction: relative error of a row =
δm + (δr ||F AᵀP|| + δa ||F|| |Aᵀx̃| |g| + ε ||F|| |Aᵀx̃|) / η. It excludes columns over forty decades, targets of 1e40
that one row fits, and an outlier of 1e7 among three rows of soft targets. Derivation: docs/explanation/fisher.md, 11.
"""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.glm.fitting.iterative_refinement import cancels
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.losses.softmax import Softmax

PROMISE = 1e-5
"""Largest relative error of a row's figure."""

EPS = float(np.finfo(np.float64).eps)


def refuse_imprecise(fit: Fit, jacobian: object) -> None:
    """Refuse a fit whose figures would have fewer digits than promised; one comparison accepts most fits.

    Given parameters (`glm.fit_at`) are not our minimiser, and nothing is promised for them.
    """
    if not fit.iterations:
        return
    if isinstance(fit.loss, Softmax) or not isinstance(jacobian, ScalarJacobian):
        worst = EPS * fit.reach
    elif _plain(fit, jacobian):
        return
    else:
        worst = float(relative_errors(fit, jacobian).max(initial=0.0))
    if worst > PROMISE:
        raise Refusal(
            f"float64 would give these figures a relative error of {worst:.1g}, but {PROMISE:g} is promised: columns "
            "or targets span too many decades, or a row is too far out; rescale them, clip the row, or use l2 > 0"
        )


def _plain(fit: Fit, jacobian: ScalarJacobian) -> bool:
    """Whether nothing can be wrong: moderate margins that have settled, residuals that did not cancel, few decades."""
    stretch = np.linalg.svd(jacobian.F, compute_uv=False)
    if not stretch[0] <= 1e7 * stretch[-1]:
        return False
    if fit.loss.quadratic:
        return fit.factor.easy and not cancels(fit.residual, fit.reach)
    curved = fit.curvature[fit.sample_weight > 0]
    least = float((fit.sample_weight[fit.sample_weight > 0] * curved).min(initial=np.inf))
    soft = np.abs(fit.y[(fit.y != 0.0) & (fit.y != 1.0)]).max(initial=0.0)
    if (
        soft
        and EPS * soft * np.linalg.norm(jacobian.b, 2) > 1e-7 * jacobian.target_norms()[fit.sample_weight > 0].min()
    ):
        return False
    settled = fit.decrement <= 1e-9 * np.sqrt(max(least, 0.0))  # a x̃ᵀH⁻¹x̃ <= 1 for every row
    return fit.factor.easy and fit.reach <= 1e6 and bool(settled)


def relative_errors(fit: Fit, jacobian: ScalarJacobian) -> FloatArray:
    """(n,) estimated relative error of each row's figure; zero for rows without weight."""
    w = np.abs(fit.w)
    d = jacobian.X.shape[1]
    reach = np.abs(jacobian.X) @ w[:d] + (w[d] if fit.intercept else 0.0)
    reach += 0.0 if fit.offset is None else np.abs(fit.offset)
    b, bend = float(np.linalg.norm(jacobian.b, 2)), np.zeros(fit.n)
    z = jacobian.factor.rows(jacobian.X)
    lengths = np.einsum("np,np->n", z, z)
    if fit.loss.quadratic:
        lost = EPS**2 if cancels(fit.residual, fit.reach) or not fit.factor.easy else EPS
        margin, residual = np.zeros(fit.n), lost * np.maximum(reach, np.abs(fit.y))
    else:
        margin = EPS * reach + fit.decrement * np.sqrt(lengths)
        residual, bend = _curve_errors(fit, margin)
        bend *= float(np.linalg.norm(jacobian.F, 2)) * float(np.linalg.norm(jacobian.g)) * np.sqrt(lengths)
    every = np.arange(jacobian.m, dtype=np.intp)
    eta, parts = jacobian.row_norms(every, True), np.column_stack([jacobian.cell_norms(every), jacobian.target_norms()])
    used = (fit.sample_weight > 0) & (eta > 0)
    out = np.zeros(fit.n)
    product_error = EPS * float(np.linalg.norm(jacobian.F, 2)) * np.sqrt(lengths) * jacobian.target_unit
    lost_in_row = fit.sample_weight * (residual * b + bend + product_error)
    out[used] = margin[used] + lost_in_row[used] / eta[used]
    # A norm is between the longest column and the root of all squares; if it is not, the solver lost its digits.
    largest = parts.max(axis=1)
    root = largest * np.sqrt(np.sum((parts / np.where(largest > 0, largest, 1.0)[:, None]) ** 2, axis=1))
    comparable = used & (largest > 0)
    out[comparable] = np.maximum(
        out[comparable],
        np.maximum(eta[comparable] / root[comparable] - 1.0, 1.0 - eta[comparable] / largest[comparable]),
    )
    return out


def _curve_errors(fit: Fit, margin: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(n,) errors of residual and curvature if each margin has this error; zero for rows without weight."""
    loss, used = fit.loss, fit.sample_weight > 0
    if isinstance(loss, Softmax):
        raise TypeError("a single margin is needed")
    size = np.where(used, loss.residual_size(fit.margin, fit.y), 0.0)
    # A convex loss has a relative change of its curvature, which the caller counts; here it may pass through zero.
    bend = np.zeros(fit.n) if loss.convex else np.where(used, np.abs(loss.third(fit.margin, fit.y)), 0.0)
    return np.abs(fit.curvature) * margin + EPS * size, bend * margin
