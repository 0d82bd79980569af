"""Membership of each row against the strongest adversary, who knows all other rows (docs/explanation/attacks.md).

The question: are these the weights with row i, or those without it? n in nλ is public and the same in both. With
Gaussian noise that does not depend on the data the best test is linear and its whole ROC is one number, μᵢ.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from dosimeter.attacks.result import Scores
from dosimeter.attacks.roc import TwoGaussians
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.dose import Dose
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density, Gaussian, Noise, no_noise
from dosimeter.core.notion import MEMBERSHIP
from dosimeter.glm.fisher import refuse_other_table
from dosimeter.glm.fit import Fit
from dosimeter.glm.fit import fit as refit
from dosimeter.glm.loss import ScalarLoss
from dosimeter.glm.softmax import Softmax

ALONE = 1e-10
"""det(H without the row)/det(H) below this: the row alone determines a direction of the weights."""
CELLS = 1 << 20
"""Numbers in one temporary array: 8 MB."""
CACHE = 1 << 18
"""Numbers in a temporary array that is read several times: 2 MB stays in a cache, and is enough for a product."""
TOGETHER = 256
"""Changed tables refitted together: enough for a product, few enough that one slow row delays few others."""
CHORDS = 25
"""Each chord step gains two to three digits on ordinary tables; a row that needs more is refitted by itself."""


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
        return Dose.of_reading(MEMBERSHIP, "example", list(names), self.mu, **options)

    def __repr__(self) -> str:
        return f"<Membership of {len(self.auc)} rows, {self.noise}: highest AUC {self.auc.max():.4g}, exact>"


def removal(fit: Fit, X: Any, y: Any, rows: Any = None) -> FloatArray:
    """(rows, p) weights without the row minus weights with it, nλ unchanged; infinite if they do not exist.

    Squared loss: H⁻¹x̃ ωr/(1 - ωh), h = x̃ᵀH⁻¹x̃. Others: this step with the corrected Hessian, then chord steps until
    they are 1e-9 of the move, each of 4 n p flops and n residuals per row (three or four of them), and a full refit if
    that fails.
    """
    refuse_softmax(fit)
    X, y = (np.ascontiguousarray(v, dtype=np.float64) for v in (X, y))
    refuse_other_table(fit, X, y)
    index = row_index(rows, len(X))
    new_weight, no_change = np.zeros(len(X)), np.zeros((len(index), len(fit.w)))
    changed = row_changes(fit, X, index, no_change, np.zeros(len(index)), new_weight)
    determines_direction = changed.determinant_ratio <= ALONE
    c = np.full(no_change.shape, np.inf)
    free = np.flatnonzero(~determines_direction)
    removable = changed.part(free)
    c[free] = removable.step()
    if not fit.loss.quadratic:
        c[free] = settle_changes(removable, c[free], fit, X, lambda i: _without(fit, X, int(index[free[i]])))
    if changed.loss.has_kinks or not changed.loss.convex:  # other rows may bend elsewhere: only a refit decides
        for i in np.flatnonzero(determines_direction):
            c[i] = _without(fit, X, int(index[i]))
    out = np.full(c.shape, np.inf)
    exists = np.isfinite(c).all(axis=1)
    out[exists] = c[exists] @ fit.factor.matrix.T
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
        For other laws, which have no μ: simulate the attack with `likelihood_ratio` from `glm.membership`. For softmax.

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
    X, y = (np.ascontiguousarray(v, dtype=np.float64) for v in (X, y))
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


def _without(fit: Fit, X: FloatArray, row: int) -> FloatArray:
    """(p,) c of a fit in which the row has weight 0 (n stays); infinite if no such fit exists."""
    weight = fit.sample_weight.copy()
    weight[row] = 0.0
    try:
        return full_refit(fit, X, weight)
    except Refusal:
        return np.full(len(fit.w), np.inf)


@dataclass(frozen=True, eq=False)
class RowChanges:
    """N tables that differ from the fitted one in one row each: (ω, x, y) has become (ω', x', y).

    In coordinates c, new weights = w + A c with A Aᵀ = H⁻¹, the fitted table's Hessian is the identity and the row adds
    V C Vᵀ with V = [z, e], z = Aᵀx̃, e = Aᵀ(x̃' - x̃). With e instead of x̃', nothing cancels as x' nears x, and an
    unchanged row moves nothing to the last bit.
    """

    loss: ScalarLoss
    z: FloatArray
    """(N, p)."""
    e: FloatArray
    """(N, p)."""
    y: FloatArray
    """(N,)."""
    margin: FloatArray
    """(N,) w·x̃."""
    margin_change: FloatArray
    """(N,) w·(x̃' - x̃)."""
    residual: FloatArray
    """(N,) of the row before the change."""
    old_weight: FloatArray
    """(N,) ω."""
    new_weight: FloatArray
    """(N,) ω'; 0 removes the row."""

    def part(self, some: slice | Index) -> RowChanges:
        """Some of the N."""
        arrays = {f.name: getattr(self, f.name)[some] for f in fields(self) if f.name != "loss"}
        return replace(self, **arrays)

    def _coupling(self) -> tuple[FloatArray, FloatArray]:
        """(N,) ω'a' - ωa and (N,) ω'a'."""
        after = _times(self.new_weight, self.loss.curvature(self.margin + self.margin_change, self.y))
        return after - _times(self.old_weight, self.loss.curvature(self.margin, self.y)), after

    @property
    def determinant_ratio(self) -> FloatArray:
        """(N,) det(H')/det(H): 0 if the change leaves the weights undetermined."""
        return self._matrix()[-1]

    def _matrix(self) -> tuple[FloatArray, ...]:
        """The entries of 1 + C G (2, 2) for each of N, G the Gram matrix of V, and its determinant."""
        h, f, g = (np.einsum("np,np->n", u, v) for u, v in ((self.z, self.z), (self.z, self.e), (self.e, self.e)))
        change, after = self._coupling()
        a, b = 1 + change * h + after * f, change * f + after * g
        c, d = after * (h + f), 1 + after * (f + g)
        return a, b, c, d, a * d - b * c

    def _solve(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """(N, p) V (1 + C G)⁻¹ [first, second]."""
        a, b, c, d, determinant = self._matrix()
        along_z, along_e = (d * first - b * second) / determinant, (a * second - c * first) / determinant
        return along_z[:, None] * self.z + along_e[:, None] * self.e

    def step(self) -> FloatArray:
        """(N, p) c of one Newton step on the changed table: the minimiser itself for the squared loss."""
        residual_change = self.margin_change if self.loss.quadratic else self._residual_change(np.zeros_like(self.z))
        after = self.residual + residual_change
        return -self._solve(
            (self.new_weight - self.old_weight) * self.residual + _times(self.new_weight, residual_change),
            _times(self.new_weight, after),
        )

    def _residual_change(self, c: FloatArray) -> FloatArray:
        margin = self.margin + np.einsum("np,np->n", self.z, c)
        change = self.margin_change + np.einsum("np,np->n", self.e, c)
        return self.loss.residual(margin + change, self.y) - self.loss.residual(margin, self.y)

    def gradient(self, c: FloatArray, fit: Fit, Z: FloatArray) -> FloatArray:
        """(N, p) of the changed tables' eq. 13 at w + A c; Z (n, p) = X̃ A.

        The fitted table's own gradient is c + Zᵀω(r(m + t) - r(m) - a t), t = Zc, since it vanishes at c = 0 and its
        Hessian there is the identity; the penalty does not appear.
        """
        total = c.copy()
        for part in parts(len(Z), len(c), CACHE):
            t = Z[part] @ c.T
            bend = self.loss.residual_change(fit.margin[part, None], t, fit.y[part, None])
            t *= fit.curvature[part, None]
            bend -= t
            bend *= fit.sample_weight[part, None]
            total += bend.T @ Z[part]
        residual_before = self.loss.residual(self.margin + np.einsum("np,np->n", self.z, c), self.y)
        residual_after = residual_before + self._residual_change(c)
        after = _times(self.new_weight, residual_after)
        total += (after - _times(self.old_weight, residual_before))[:, None] * self.z
        return np.asarray(total + after[:, None] * self.e)

    def chord(self, g: FloatArray) -> FloatArray:
        """(N, p) (1 + V C Vᵀ)⁻¹ g: the Newton direction with the corrected Hessian at the fitted weights."""
        change, after = self._coupling()
        along_z, along_e = np.einsum("np,np->n", self.z, g), np.einsum("np,np->n", self.e, g)
        both = after * (along_z + along_e)
        return g - self._solve(both + (change - after) * along_z, both)

    def settle(self, c: FloatArray, fit: Fit, Z: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """(N, p) minimisers from c by chord steps, and (N,) whether they were reached."""
        size = np.linalg.norm(c, axis=1)
        before = np.full(len(c), np.inf)
        reached = np.zeros(len(c), dtype=bool)
        for _ in range(CHORDS):
            with np.errstate(over="ignore", invalid="ignore"):
                move = self.chord(self.gradient(c, fit, Z))
                length = np.linalg.norm(move, axis=1)
            going = np.isfinite(length) & ~reached & (length < 0.5 * before)
            c = np.where(going[:, None], c - move, c)
            # Steps shrink by a constant factor: below 1e-9 of the whole the next would be negligible.
            reached |= going & (length <= 1e-9 * size) | (length <= 1e-15 * (1 + size))
            before = np.where(going, length, before)
            if not (going & ~reached).any():
                break
        return c, reached


def _times(weight: FloatArray, values: FloatArray) -> FloatArray:
    """weight · values, 0 for a row without weight even if its margin has no value there."""
    return weight * np.where(weight > 0, values, 0.0)


def row_changes(
    fit: Fit, X: FloatArray, rows: Index, e: FloatArray, margin_change: FloatArray, new_weight: FloatArray
) -> RowChanges:
    """The changes of `rows` (N,), by e (N, p) = Aᵀ(x̃' - x̃); new_weight (n,) is ω' of each row of the table."""
    if isinstance(fit.loss, Softmax):
        raise TypeError("a single margin is needed")
    return RowChanges(
        loss=fit.loss,
        z=fit.factor.rows(X[rows]),
        e=e,
        y=fit.y[rows],
        margin=fit.margin[rows],
        margin_change=margin_change,
        residual=fit.residual[rows],
        old_weight=fit.sample_weight[rows],
        new_weight=new_weight[rows],
    )


def settle_changes(changed: RowChanges, c: FloatArray, fit: Fit, X: FloatArray, refit_row: Any) -> FloatArray:
    """(N, p) c at the minimisers, part by part; `refit_row(i)` gives c of a change for which chord steps fail."""
    Z, out = fit.factor.rows(X), c.copy()
    for start in range(0, len(c), TOGETHER):
        part = slice(start, start + TOGETHER)
        out[part], reached = changed.part(part).settle(c[part], fit, Z)
        for i in np.flatnonzero(~reached):
            out[start + i] = refit_row(start + int(i))
    return out


def full_refit(fit: Fit, X: FloatArray, weight: FloatArray) -> FloatArray:
    """(p,) c of a fit from scratch, started at the old weights."""
    refitted = refit(X, fit.y, fit.loss, **fit.same_problem, sample_weight=weight, start=fit.w)
    return np.asarray(np.linalg.solve(fit.factor.matrix, refitted.w - fit.w))


def log_density(noise: Noise, x: FloatArray) -> FloatArray:
    """(...,) log p of noise vectors x (..., p)."""
    if isinstance(noise, CorrelatedGaussian):
        white = noise.whiten(x.reshape(-1, noise.dimension).T)
        constant = float(np.log(np.diag(noise.cholesky)).sum()) + 0.5 * noise.dimension * np.log(2 * np.pi)
        return np.asarray((-0.5 * np.sum(white**2, axis=0) - constant).reshape(x.shape[:-1]))
    if isinstance(noise, Density):
        return np.asarray(noise.logpdf(x).sum(axis=-1))
    raise CannotMeasure(f"{noise} has no density: pass the noise of the release")


def row_index(rows: Any, n: int) -> Index:
    """(k,) positions of the chosen rows, in the order given; all if None."""
    if rows is None:
        return np.arange(n, dtype=np.intp)
    index = np.atleast_1d(np.asarray(rows))
    if index.dtype.kind not in "iu" or not len(index) or index.min() < 0 or index.max() >= n:
        raise Refusal(f"rows must be positions from 0 to {n - 1}")
    return index.astype(np.intp)


def refuse_softmax(fit: Fit) -> None:
    """Refuse a loss without a single margin: it has no such closed form."""
    if isinstance(fit.loss, Softmax):
        raise CannotMeasure("these attacks are for models with a single margin, not softmax")


def parts(n: int, width: int, cells: int = CELLS) -> Iterator[slice]:
    """Consecutive slices of n items that hold `width` numbers each."""
    size = max(1, cells // max(1, width))
    return (slice(start, min(n, start + size)) for start in range(0, n, size))
