"""Membership of each row against the strongest adversary, who knows all other rows (docs/explanation/attacks.md).

The question: are these the weights with row i, or those without it? n in nλ is public and the same in both. With
Gaussian noise that does not depend on the data the best test is linear and its whole ROC is one number, μᵢ.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from dosimeter.attacks.result import Scores
from dosimeter.attacks.roc import TwoGaussians
from dosimeter.core.arrays import FloatArray
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.dose import Dose
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density, Gaussian, Noise, no_noise
from dosimeter.core.notion import MEMBERSHIP
from dosimeter.glm.attacks.changed_refits import refit_without, row_changes, settle_changes, weight_moves
from dosimeter.glm.attacks.row_changes import row_index
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.fitting.training_table import refuse_other_table
from dosimeter.glm.linalg.validation import as_floats

ALONE = 1e-10
"""Definiteness of H without the row, relative to H, below this: the row alone determines a direction of the weights."""


@dataclass(frozen=True, eq=False)
class Membership:
    """The ROC of the best attack on each row, exactly. Internal: a figure per person is itself private.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [1.0], [2.0]]), np.array([1.0, 2.0, 1.0])
    >>> membership(glm.fit(X, y, glm.Squared()), X, y, Gaussian(0.5)).mu.round(4)   # xr/(Σx² - x²)/σ
    array([0.0667, 0.4667, 1.3333])
    """

    tests: TwoGaussians
    """One test per row: N(0, 1) without the row against N(d, λ) with it."""
    noise: str
    """Description of the noise."""

    @property
    def mu(self) -> FloatArray:
        """(n,) μ of μ-GDP; infinite if the release without the row does not exist or has no noise."""
        if not self.tests.equal_variances:
            raise CannotMeasure(
                f"{self.noise}: the two covariances differ, so no μ describes the curve: use auc and tpr"
            )
        return self.tests.shift

    @property
    def auc(self) -> FloatArray:
        """(n,) Φ(μ/√2), or Owen's form if the covariances differ."""
        return self.tests.auc

    def tpr(self, fpr: float) -> FloatArray:
        """(n,) true positive rate at this false positive rate: Φ(μ + Φ⁻¹(fpr)) if the covariances agree."""
        return self.tests.tpr(fpr)

    def dose(self, ids: Sequence[Hashable] | None = None, **options: Any) -> Dose:
        """μ² of each row, which adds over releases with independent noise."""
        names = range(len(self.mu)) if ids is None else ids
        return Dose.of_figures(MEMBERSHIP, "example", list(names), self.mu, **options)

    def __repr__(self) -> str:
        return f"<Membership of {len(self.auc)} rows, {self.noise}: highest AUC {self.auc.max():.4g}, exact>"


def removal(fit: Fit, X: Any, y: Any, rows: Any = None) -> FloatArray:
    """(rows, q) weights without the row minus weights with it, nλ unchanged; infinite if they do not exist.

    Squared loss: H⁻¹x̃ ωr/(1 - ωh), h = x̃ᵀH⁻¹x̃. Others: this step with the corrected Hessian, then chord steps until
    they are 1e-9 of the move, each of 4 n q flops and n residuals per row (three or four of them), and a full refit if
    that fails. q = p, or p K' for softmax: the weights of its contrasts one after another.
    """
    X, y = as_floats(X, "X"), as_floats(y, "y")
    refuse_other_table(fit, X, y)
    index = row_index(rows, len(X))
    no_change = np.zeros((len(index), len(fit.w)))
    changed = row_changes(fit, X, index, no_change, np.zeros_like(fit.margin[index]), np.zeros(len(X)))
    determines_direction = changed.definiteness <= ALONE
    c = np.full((len(index), fit.w.size), np.inf)
    free = np.flatnonzero(~determines_direction)
    removable = changed.part(free)
    c[free] = removable.step()
    if not fit.loss.quadratic:
        c[free] = settle_changes(removable, c[free], fit, X, lambda i: refit_without(fit, X, int(index[free[i]])))
    if changed.loss.has_kinks or not changed.loss.convex:  # other rows may bend elsewhere: only a refit decides
        for i in np.flatnonzero(determines_direction):
            c[i] = refit_without(fit, X, int(index[i]))
    out = np.full(c.shape, np.inf)
    exists = np.isfinite(c).all(axis=1)
    out[exists] = weight_moves(fit, c[exists])
    return out


def membership(fit: Fit, X: Any, y: Any, noise: Noise) -> Membership:
    """μ of every row's membership, for Gaussian noise whose covariance does not depend on the data.

    Parameters
    ----------
    fit : Fit
        The exact fit.
    X, y : array_like of shape (n, d) and (n,)
        The training table.
    noise : Noise
        Gaussian, CorrelatedGaussian or no_noise.

    Returns
    -------
    Membership
        Exact. Internal.

    Raises
    ------
    CannotMeasure
        For other laws, which have no μ: simulate the attack with `likelihood_ratio` from `glm.membership`.

    Notes
    -----
    μᵢ = ||Σ^-½ Δᵢ||, Δᵢ the weights without row i minus those with it (docs/explanation/attacks.md).

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [1.0], [2.0]]), np.array([1.0, 2.0, 1.0])
    >>> membership(glm.fit(X, y, glm.Squared()), X, y, Gaussian(0.5)).auc.round(3)
    array([0.519, 0.629, 0.827])
    """
    if type(noise) not in (Gaussian, CorrelatedGaussian) and noise is not no_noise:
        raise CannotMeasure(f"{noise} has no μ: simulate the best attack with likelihood_ratio(removal(...)[i], ...)")
    delta = removal(fit, X, y)
    exists = np.isfinite(delta).all(axis=1)
    mu = np.full(len(delta), np.inf)
    if noise is no_noise:
        mu[exists & ~delta.any(axis=1)] = 0.0
    else:
        mu[exists] = np.linalg.norm(noise.whiten(delta[exists].T), axis=0)
    return Membership(TwoGaussians(mu, np.ones(len(mu))), str(noise))


def shaped_membership(fit: Fit, X: Any, y: Any, scale: float) -> Membership:
    """The exact ROC of every row's membership for noise N(0, scale · H⁻¹), where H is recomputed without the row.

    Parameters
    ----------
    fit : Fit
        The exact fit, squared loss.
    X, y : array_like of shape (n, d) and (n,)
        The training table.
    scale : float
        c of the covariance c H⁻¹.

    Returns
    -------
    Membership
        With auc and tpr; it has no μ because the covariances differ. Internal.

    Raises
    ------
    CannotMeasure
        For losses other than the squared.
    Refusal
        If scale is not > 0.

    Notes
    -----
    The two covariances differ only along the row: d = √(h/scale) ω|r|/√(1 - ωh), λ = 1 - ωh. At r = 0 the shape still
    leaks.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [1.0], [2.0]]), np.array([1.0, 2.0, 1.0])
    >>> bool((shaped_membership(glm.fit(X, y, glm.Squared()), X, y, 1.0).auc > 0.5).all())
    True
    """
    if not fit.loss.quadratic:
        raise CannotMeasure("a closed form is known for the squared loss only: use two_gaussians or likelihood_ratio")
    if not (np.isfinite(scale) and scale > 0):
        raise Refusal(f"scale must be a finite number > 0, not {scale}")
    X, y = as_floats(X, "X"), as_floats(y, "y")
    refuse_other_table(fit, X, y)
    h = np.einsum("np,np->n", *(2 * [fit.factor.rows(X)]))
    omega = fit.sample_weight
    room = 1 - omega * h
    determines_direction = room <= ALONE
    safe = np.where(determines_direction, 1.0, room)
    d = np.sqrt(h / scale / safe) * omega * np.abs(fit.residual)
    return Membership(
        TwoGaussians(np.where(determines_direction, np.inf, d), safe), f"Gaussian shaped as {scale:g} · H⁻¹"
    )


def two_gaussians(move: Any, without: Any, with_row: Any) -> TwoGaussians:
    """The exact test of N(0, without) against N(move, with_row), if it has one dimension.

    It has if the covariances are equal, or differ along one direction and the move lies on it. Otherwise the ratio is a
    sum of several chi-squares: `likelihood_ratio` gives its ROC by simulation, with its error.
    """
    delta, S0, S1 = (np.asarray(v, dtype=np.float64) for v in (move, without, with_row))
    L = cholesky(S0, lower=True)
    half = solve_triangular(L, S1, lower=True)
    ratios, Q = np.linalg.eigh(solve_triangular(L, half.T, lower=True))
    shift = Q.T @ solve_triangular(L, delta, lower=True)
    differs = np.abs(ratios - 1) > 1e-9
    if not differs.any():
        return TwoGaussians(np.array([np.linalg.norm(shift)]), np.ones(1))
    move_outside = float(np.linalg.norm(shift[~differs]))
    if differs.sum() > 1 or move_outside > 1e-9 * (1 + float(np.linalg.norm(shift))):
        raise CannotMeasure(
            f"the covariances differ along {int(differs.sum())} directions"
            + ("" if move_outside == 0 else " and the move leaves them")
            + ": simulate the ratio with likelihood_ratio"
        )
    return TwoGaussians(np.abs(shift[differs]), ratios[differs])


def likelihood_ratio(
    move: Any, noise: Noise, rng: np.random.Generator, trials: int, *, noise_without: Noise | None = None
) -> Scores:
    """The best attack on one row, simulated: `trials` releases with it and as many without, scored by log p₁ - log p₀.

    move (p,): weights without the row minus weights with it, as from `removal`. Any density; `noise_without` if the
    noise itself depends on the row (shaped noise). The error is in the result's interval.
    """
    delta = np.asarray(move, dtype=np.float64)
    other = noise if noise_without is None else noise_without
    if delta.ndim != 1 or not np.isfinite(delta).all():
        raise Refusal(f"move must be one finite vector (p,), not shape {delta.shape}")
    if trials < 2:
        raise Refusal(f"trials must be at least 2, not {trials}")
    inside = _draws(noise, rng, trials, len(delta))
    outside = delta + _draws(other, rng, trials, len(delta))

    def score(release: FloatArray) -> FloatArray:
        return log_density(noise, release) - log_density(other, release - delta)

    return Scores(
        "likelihood-ratio membership", score(inside), score(outside), method=f"{trials} releases each, {noise}"
    )


def _draws(noise: Noise, rng: np.random.Generator, trials: int, p: int) -> FloatArray:
    return noise.draw(rng, trials) if isinstance(noise, CorrelatedGaussian) else noise.draw(rng, (trials, p))


def log_density(noise: Noise, x: FloatArray) -> FloatArray:
    """(...,) log p of noise vectors x (..., p)."""
    if isinstance(noise, CorrelatedGaussian):
        white = noise.whiten(x.reshape(-1, noise.dimension).T)
        constant = float(np.log(np.diag(noise.cholesky)).sum()) + 0.5 * noise.dimension * np.log(2 * np.pi)
        return np.asarray((-0.5 * np.sum(white**2, axis=0) - constant).reshape(x.shape[:-1]))
    if isinstance(noise, Density):
        return np.asarray(noise.logpdf(x).sum(axis=-1))
    raise CannotMeasure(f"{noise} has no density: pass the noise of the release")
