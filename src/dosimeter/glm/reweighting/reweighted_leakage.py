"""The total leakage of IRFIL beside the figure of [Hannun21] eq. 29, and a search that equalises the total one.

Eq. 29 takes the final weights ω as constants, but they are computed from the table: changing a row changes ω too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian, Noise, no_noise
from dosimeter.glm.fisher import measure
from dosimeter.glm.fitting.newton import Loss
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.reweighting.irfil import UNIT, EqualisationTarget, Reweighting, irfil, summary, unevenness
from dosimeter.glm.reweighting.reweighting_gradient import TotalJacobian, total_jacobian

__all__ = ["EqualisedReweighting", "ReweightedLeakage", "TotalJacobian", "equalise", "total_leakage"]


@dataclass(frozen=True, eq=False)
class ReweightedLeakage:
    """Both figures of a reweighted release. Internal, like every figure per row.

    Examples
    --------
    >>> from dosimeter import glm, Gaussian
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> reweighting = irfil(X, y, glm.Squared(), rounds=1)
    >>> total_leakage(reweighting, X, y, Gaussian(1.0)).ratio.round(3)
    array([0.843, 0.841, 1.162])
    """

    true: Leakage
    """Through the whole path from the table to the release; every reading of a `Leakage` works on it."""
    reported: Leakage
    """The paper's: with the weights as constants."""
    level: EqualisationTarget
    """What the reweighting made equal."""
    gap: float
    """Smallest relative gap between two largest singular values on the path: rounding of `true` is about 1e-16/gap."""

    @property
    def examples(self) -> FloatArray:
        """(n,) true η of each row."""
        return self.true.examples

    def attribute(self, columns: int | Sequence[int]) -> FloatArray:
        """(n,) true η of a block of columns, per row."""
        return self.true.attribute(columns)

    @property
    def units(self) -> FloatArray:
        """(units,) true η of what was made equal."""
        return self.level.figures(self.true)

    @property
    def ratio(self) -> FloatArray:
        """(units,) true over reported η of what was made equal: 1 if the weights were constants."""
        true, reported = (self.level.figures(replace(leak, has_noise=True)) for leak in (self.true, self.reported))
        return np.asarray(true / reported)

    def __repr__(self) -> str:
        ratio = self.ratio
        return (
            f"<ReweightedLeakage of {len(ratio)} units: true/reported η from {ratio.min():.3g} to {ratio.max():.3g}, "
            f"highest true η = {self.units.max():.4g}>"
        )


def total_leakage(reweighting: Reweighting, X: Any, y: Any, noise: Noise) -> ReweightedLeakage:
    """The leakage of a reweighted fit, including how its weights ω depend on the table.

    Parameters
    ----------
    reweighting : Reweighting
        From `irfil`.
    X, y : array_like of shape (n, d) and (n,)
        The training table.
    noise : Noise
        The noise on reweighting.fit.w.

    Returns
    -------
    ReweightedLeakage
        The total figure and the paper's. Internal.

    Raises
    ------
    CannotMeasure
        If two largest singular values coincide, so that η has no derivative; for softmax.

    Notes
    -----
    The paper's figure is eq. 29 of [Hannun21]. ω⁰, the targets and the number of rounds are constants here: an early
    stop is a choice from the data that no figure covers (the figure is correct for the number at which it stopped).

    Examples
    --------
    >>> from dosimeter import glm, Gaussian
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> total_leakage(irfil(X, y, glm.Squared(), rounds=0), X, y, Gaussian(1.0)).ratio.round(12)
    array([1., 1., 1.])
    """
    level = reweighting.level
    units: dict[str, Any] = dict(
        include_target=level.include_target, input_map=level.input_map, target_unit=level.target_unit
    )
    reported = measure(reweighting.fit, X, y, noise, **units)  # refuses a different table
    X, y = (np.ascontiguousarray(v, dtype=np.float64) for v in (X, y))
    has_noise = noise is not no_noise
    W = (noise if has_noise else Gaussian(1.0)).whiten(np.eye(reweighting.fit.w.shape[0]))
    jacobian = total_jacobian(reweighting, X, y, W)
    true = Leakage(jacobian, noise, level.include_target, has_noise, "the weights, through their reweighting")
    return ReweightedLeakage(true, reported, level, jacobian.gap)


@dataclass(frozen=True, eq=False)
class EqualisedReweighting:
    """A reweighting whose total figure is equal, as far as the search came. Internal.

    The targets were found from the table and are constants in `leakage`: their choice is not covered, and it matters
    (docs/explanation/irfil.md, section 5). `leakage` is exact for targets that were fixed in advance.
    """

    reweighting: Reweighting
    leakage: ReweightedLeakage
    history: FloatArray
    """(steps + 1, 4) mean, std (ddof 1), max and min of the total η, step by step."""
    tolerance: float

    @property
    def eta(self) -> FloatArray:
        """(units,) the total η."""
        return self.leakage.units

    @property
    def unevenness(self) -> float:
        """max/min - 1 of the total η: the certificate."""
        return unevenness(self.eta)

    @property
    def converged(self) -> bool:
        """Whether the certificate is within the tolerance."""
        return self.unevenness <= self.tolerance

    def __repr__(self) -> str:
        return (
            f"<EqualisedReweighting: {len(self.eta)} units, {len(self.history) - 1} steps of "
            f"{self.reweighting.rounds} rounds: total η equal to {self.unevenness:.1e}, with the targets as constants>"
        )


def equalise(
    X: Any,
    y: Any,
    loss: Loss,
    l2: Any = 0.0,
    *,
    rounds: int = 4,
    steps: int = 40,
    damping: float = 0.7,
    tolerance: float = 1e-3,
    noise: Noise = UNIT,
    progress: Callable[[int, FloatArray], None] | None = None,
    **options: Any,
) -> EqualisedReweighting:
    """Targets τ for which IRFIL of a fixed number of rounds has equal *total* η, and that reweighting.

    The update of Algorithm 1, one level up: τ <- τ (mean η / η)^damping with η the total figure; one evaluation of it
    per step. Stops within `tolerance` or after `steps`, and returns the most even step. One or two rounds leave too
    little freedom and need not converge; damping 1 can diverge. options: columns, groups, intercept, ... of `irfil`.
    `progress(step, η)` is called after every step.
    """
    if not 0 < damping <= 1:
        raise Refusal(f"damping must be in (0, 1], not {damping}")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
        raise Refusal(f"steps must be a whole number >= 0, not {steps!r}")
    if "targets" in options:
        raise Refusal("equalise finds the targets itself: use irfil to pass your own")
    targets: FloatArray | None = None
    history: list[tuple[float, ...]] = []
    best: list[tuple[float, Reweighting, ReweightedLeakage]] = []
    for step in range(steps + 1):
        reweighting = irfil(X, y, loss, l2, rounds=rounds, tolerance=0.0, noise=noise, targets=targets, **options)
        leakage = total_leakage(reweighting, X, y, noise)
        eta = leakage.units
        history.append(summary(eta))
        best = [min([*best, (unevenness(eta), reweighting, leakage)], key=lambda k: k[0])]
        if progress is not None:
            progress(step, eta)
        if unevenness(eta) <= tolerance:
            break
        targets = reweighting.targets * (eta.mean() / eta) ** damping
        targets = targets / targets.mean()
    ((_, reweighting, leakage),) = best
    return EqualisedReweighting(reweighting, leakage, np.array(history), tolerance)
