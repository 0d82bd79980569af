"""Shaped noise: N(0, c H⁻ᵖ) instead of N(0, σ²I), and what its shape leaks.

H is computed from the rows, so the covariance is data too. For N(w(z), Σ(z)) the Fisher information about unknowns z is

    I = JᵀΣ⁻¹J + ½ tr(Σ⁻¹ ∂ⱼΣ Σ⁻¹ ∂ₖΣ)                                             ([Kay93], 3.9)

and the second part does not depend on c: a floor that no scale removes. For the squared loss H = Σ ω x̃x̃ᵀ + nλ depends
on the rows directly and the part is exact here for every p in [0, 2]; derivations in docs/explanation/shape.md. Other
losses have H at w, and w moves with every row: for them only a public shape is offered, a covariance from public data,
with `measure`.

Neither c (if a loss was given), nor H, nor Σ may be published: the figures hold against an adversary who sees only the
noised weights.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.dose import Dose
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density, Gaussian
from dosimeter.core.notion import Standing
from dosimeter.glm.fisher import measure
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.releases.shaped_jacobian import ShapedJacobian, Spectrum

EXPONENTS = tuple(k / 8 for k in range(17))
"""The public grid of exponents that a search may choose from."""


@dataclass(frozen=True, eq=False)
class ShapedNoise:
    """Noise N(0, c H⁻ᵖ) and the leakage of a release with it. Internal, most of all the covariance.

    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [2.0]]), np.array([1.0, 2.0, 4.0])
    >>> noise = shape_noise(glm.fit(X, y, glm.Squared()), X, y, c=4.0)   # H = 9: N(0, 4/9)
    >>> noise.covariance.round(4).tolist(), noise.excess_loss
    ([[0.4444]], 2.0)
    >>> noise.floor.cells[0].round(4).tolist()                       # √(h/H + u²) = √(1/81 + 1/81)
    [0.1571]
    """

    p: float
    c: float
    excess_loss: float
    """½ tr(HΣ): the expected increase of the objective, summed over rows; exact for the squared loss."""
    covariance: FloatArray
    """(p, p) Σ."""
    leakage: Leakage
    """Including the part of the covariance: the leakage of the release."""
    frozen: Leakage
    """With Σ regarded as a public constant: too low, for comparison."""
    floor: Leakage
    """The part of the covariance alone: no c brings any reading below it."""
    not_covered: tuple[str, ...] = ()

    def dose(self, person: Sequence[Hashable] | None = None, **options: Any) -> Dose:
        """The dose of the release; `unaccounted` if the exponent was chosen from the data."""
        standing = Standing.UNACCOUNTED if self.not_covered else Standing.EXACT
        return self.leakage.dose(person, standing=standing, not_covered=self.not_covered, **options)

    def __repr__(self) -> str:
        top, least = self.leakage.examples.max(), self.floor.examples.max()
        return (
            f"<ShapedNoise p = {self.p:g}, expected excess loss {self.excess_loss:g}: highest η = {top:.4g}, "
            f"of which no scale removes {least:.4g}>"
        )


def shape_noise(
    fit: Fit,
    X: Any,
    y: Any,
    *,
    excess_loss: float | None = None,
    c: float | None = None,
    p: float = 1.0,
    include_target: bool = True,
    input_map: Any = None,
    target_unit: float = 1.0,
    scaled: Any = None,
) -> ShapedNoise:
    """Noise N(0, c H⁻ᵖ) for a squared-loss fit, with its leakage.

    Parameters
    ----------
    fit : Fit
        The exact fit, squared loss.
    X, y : array_like of shape (n, d) and (n,)
        The training table.
    excess_loss : float, optional
        A public ½ tr(HΣ), from which c = 2·excess_loss/tr H^(1-p) follows. That makes c a function of the data for
        every p except 1, and the figures include it. Give this or `c`.
    c : float, optional
        A public constant.
    p : float, default 1
        Exponent, in [0, 2].
    include_target, input_map, target_unit, scaled
        As in `glm.measure`.

    Returns
    -------
    ShapedNoise
        Internal.

    Raises
    ------
    Refusal
        If both or neither of c and excess_loss are given, or p is out of range.
    CannotMeasure
        For losses other than the squared.

    Notes
    -----
    I = JᵀΣ⁻¹J + ½ tr(Σ⁻¹ ∂ⱼΣ Σ⁻¹ ∂ₖΣ), [Kay93] 3.9; docs/explanation/shape.md.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [2.0]]), np.array([1.0, 2.0, 4.0])
    >>> shape_noise(glm.fit(X, y, glm.Squared()), X, y, c=4.0).covariance.round(4).tolist()
    [[0.4444]]
    """
    refuse_unless_squared(fit)
    if not (np.isfinite(p) and 0 <= p <= 2):
        raise Refusal(f"the exponent p must be in [0, 2], not {p}")
    amount = excess_loss if c is None else c
    if amount is None or (c is not None and excess_loss is not None):
        raise Refusal("pass either c or excess_loss, not both")
    if not (np.isfinite(amount) and amount > 0):
        raise Refusal(f"{'c' if c is not None else 'excess_loss'} must be a finite number > 0, not {amount}")
    H = Spectrum.of(fit)
    if p != 1 and H.roots[0] > 1e8 * H.roots[-1]:
        raise Refusal("the Hessian's condition number is above 1e16, so its powers keep no digits: rescale the columns")
    weights = H.powers(p - 1)  # λ^(1-p)
    scale = float(c if c is not None else 2 * amount / weights.sum())
    Sigma = scale * (H.U * H.powers(p)) @ H.U.T
    frozen = measure(
        fit,
        X,
        y,
        CorrelatedGaussian((Sigma + Sigma.T) / 2),
        include_target=include_target,
        input_map=input_map,
        target_unit=target_unit,
    )
    mean = frozen.jacobian
    if not isinstance(mean, ScalarJacobian):
        raise TypeError("a squared loss has a single margin")
    # Σ^-½A = c^-½ U λ^((p-1)/2) Rᵀ; U does not change any norm.
    mean = replace(mean, F=(H.roots ** (1 - p) / np.sqrt(scale))[:, None] * H.R.T)
    pull = np.zeros(len(weights)) if c is not None else (1 - p) * weights / weights.sum()
    jacobian = ShapedJacobian(mean, H.R, H.divided(p), pull, fit.sample_weight)
    if scaled is not None and np.any(scaled):
        jacobian = _with_scaler(jacobian, fit, H, p, scaled)
    return ShapedNoise(
        p=float(p),
        c=scale,
        excess_loss=0.5 * scale * float(weights.sum()),
        covariance=Sigma,
        leakage=replace(frozen, jacobian=jacobian, members=None),
        frozen=frozen,
        floor=replace(frozen, jacobian=replace(jacobian, floor=True), of="the covariance", members=None),
    )


def _with_scaler(jacobian: ShapedJacobian, fit: Fit, H: Spectrum, p: float, scaled: Any) -> ShapedJacobian:
    from dosimeter.glm.releases.shaped_fitted_scaler import (
        add_scaler,  # imported late: it extends the Jacobian of this module
    )
    from dosimeter.glm.scalers.scaler import Scaler

    if not fit.intercept:
        raise CannotMeasure(
            "a fitted mean folds into an intercept, but this model has none: fit an intercept, or declare bounds"
        )
    X = jacobian.mean.X
    return add_scaler(jacobian, fit, H, p, Scaler.of(X, scaled, jacobian.mean.P[: X.shape[1]]))


def refuse_unless_squared(fit: Fit) -> None:
    """Only H of the squared loss is independent of w."""
    if not fit.loss.quadratic:
        raise CannotMeasure(
            f"the Hessian of the {fit.loss.name} loss depends on the weights, so a shape made from it moves with "
            "every row, without a closed form: use a public shape, CorrelatedGaussian(c·S) with S from public data or "
            "an earlier release, with glm.measure"
        )


def expected_excess_loss(fit: Fit, noise: Density | CorrelatedGaussian) -> float:
    """½ tr(HΣ) of noise on fit.w: exact for the squared loss, second order for the others. Internal."""
    left = np.kron(np.eye(len(fit.inner) // len(fit.factor.basis)), fit.factor.matrix) @ fit.inner
    if isinstance(noise, CorrelatedGaussian):
        root = noise.cholesky
    elif float(noise.cdf(0.0)) == 0.5:
        root = np.sqrt(noise.variance) * np.eye(len(left))
    else:
        raise Refusal(f"{noise} is not centred, so it also shifts the weights: use a centred law")
    return 0.5 * float(np.linalg.norm(np.linalg.solve(left, root)) ** 2)


DESIGNED = "the covariance was designed on this table: use it for the release of another table only"


@dataclass(frozen=True, eq=False)
class NoiseDesign:
    """The covariance with the lowest highest η at a given loss on a PUBLIC table, with a certificate."""

    noise: CorrelatedGaussian
    excess_loss: float
    highest: float
    """Highest η of a row of the public table, with this noise as a constant."""
    bound: float
    """No covariance with this loss has a highest η below this one."""
    steps: int
    not_covered: tuple[str, ...] = (DESIGNED,)


def design(
    fit: Fit, X: Any, y: Any, *, excess_loss: float, tolerance: float = 1e-2, steps: int = 300, **options: Any
) -> NoiseDesign:
    """min over Σ with ½ tr(HΣ) = excess_loss of maxᵢ λmax(JᵢᵀΣ⁻¹Jᵢ), to a relative `tolerance` in η, on a public table.

    Its derivative by the rows has no closed form, so it is only a public shape: for the release of another table. With
    Σ = A S Aᵀ and K = A⁻¹J it is min over tr S = 2·loss of max over Q of tr(S⁻¹Q), Q in the hull of all KᵢvvᵀKᵢᵀ, |v| =
    1. For a given Q the best S is ∝ Q^½, with value (tr Q^½)²/(2·loss): a lower bound for every S. Each step adds to
    the hull what is worst for the present S (Frank-Wolfe), and the two values converge; docs/explanation/shape.md, 5.
    The first steps are the H⁻ᵖ, so none of them is better.
    """
    if not (np.isfinite(excess_loss) and excess_loss > 0):
        raise Refusal(f"excess_loss must be a finite number > 0, not {excess_loss}")
    jacobian = measure(fit, X, y, Gaussian(1.0), **options).jacobian
    if not isinstance(jacobian, ScalarJacobian):
        raise CannotMeasure(f"design needs a loss with one margin, not {fit.loss.name}")
    include_target, budget = bool(options.get("include_target", True)), 2 * excess_loss
    unwhitened = replace(jacobian, F=np.eye(len(jacobian.F)))
    every = np.arange(unwhitened.m, dtype=np.intp)
    atoms = [
        unwhitened.outer(slice(None), every, include_target, every[:0])
        / (unwhitened.n * (unwhitened.m + include_target))
    ]
    H, share, low = Spectrum.of(fit), np.ones(1), 0.0
    initial = [(H.R * H.powers(p - 1)) @ H.R.T for p in EXPONENTS]
    highest, best, step = np.inf, initial[0], 0
    while step < steps and not highest <= (1 + tolerance) ** 2 * low:
        step += 1
        S = initial.pop() if initial else _root(np.tensordot(share, np.array(atoms), 1))
        S = S * (budget / np.trace(S))
        top, new_atoms = _worst(unwhitened, S, every, include_target)
        highest, best = (top, S) if top < highest else (highest, best)
        atoms += new_atoms
        share = _balance(np.array(atoms), np.append(share, np.full(len(new_atoms), share.mean())))
        low = max(low, float(np.trace(_root(np.tensordot(share, np.array(atoms), 1))) ** 2) / budget)
    A = fit.factor.matrix
    Sigma = A @ best @ A.T
    noise = CorrelatedGaussian((Sigma + Sigma.T) / 2)
    return NoiseDesign(noise, excess_loss, float(np.sqrt(highest)), float(np.sqrt(low)), step)


def _worst(
    unwhitened: ScalarJacobian, S: FloatArray, every: Index, include_target: bool
) -> tuple[float, list[FloatArray]]:
    """The highest η² under Σ = A S Aᵀ, and KvvᵀKᵀ of the three worst rows, v their worst direction."""
    values, V = np.linalg.eigh(S)
    F = (V / np.sqrt(values)).T
    eta = replace(unwhitened, F=F).row_norms(every, include_target)
    worst_atoms = []
    for J in unwhitened.dense(np.argsort(eta)[-3:])[:, :, : unwhitened.m + include_target]:
        q = J @ np.linalg.svd(F @ J)[2][0]
        worst_atoms.append(np.outer(q, q))
    return float(eta.max() ** 2), worst_atoms


def _balance(atoms: FloatArray, share: FloatArray, rounds: int = 200) -> FloatArray:
    """(k,) weights of the atoms (k, p, p) that raise tr Q^½, by the multiplicative rule share ∝ share · slope."""
    share = share / share.sum()
    for _ in range(rounds):
        values, V = np.linalg.eigh(np.tensordot(share, atoms, 1))
        slope = np.tensordot(atoms, (V / np.sqrt(np.maximum(values, 1e-300))) @ V.T, 2)
        share = share * slope
        share /= share.sum()
    return np.asarray(share)


def _root(Q: FloatArray) -> FloatArray:
    """Q^½ of a symmetric positive Q."""
    values, V = np.linalg.eigh(Q)
    return np.asarray((V * np.sqrt(np.maximum(values, 0.0))) @ V.T)
