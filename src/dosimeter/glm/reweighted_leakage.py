"""IRFIL told honestly: the figure of [Hannun21] eq. 29 beside the total one, and a search that makes that one equal.

Eq. 29 takes the final weights ω as constants, but they are computed from the table: who changes a row changes ω too.
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
from dosimeter.glm.fit import Loss
from dosimeter.glm.irfil import UNIT, EqualisationTarget, Reweighting, irfil, summary, unevenness
from dosimeter.glm.leakage import Leakage
from dosimeter.glm.reweighting_gradient import TotalJacobian, total_jacobian

__all__ = ["Equalised", "ReweightedLeakage", "TotalJacobian", "equalise", "honest_leakage"]


@dataclass(frozen=True, eq=False)
class ReweightedLeakage:
    """Both figures of a reweighted release, side by side. Internal, like every figure per row.

    >>> from dosimeter import glm, Gaussian
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> once = irfil(X, y, glm.Squared(), rounds=1)
    >>> honest_leakage(once, X, y, Gaussian(1.0)).ratio.round(3)
    array([0.843, 0.841, 1.162])
    """

    true: Leakage
    """Through the whole way from the table to the release; every reading of a `Leakage` works on it."""
    reported: Leakage
    """The paper's: the weights as constants."""
    level: EqualisationTarget
    """What the reweighting made equal."""
    gap: float
    """Least relative gap between two largest singular values on the way: rounding of `true` is about 1e-16/gap."""

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
        told, claimed = (self.level.figures(replace(leak, bounded=True)) for leak in (self.true, self.reported))
        return np.asarray(told / claimed)

    def __repr__(self) -> str:
        ratio = self.ratio
        return (
            f"<HonestLeakage of {len(ratio)} units: true/reported η from {ratio.min():.3g} to {ratio.max():.3g}, "
            f"highest true η = {self.units.max():.4g}>"
        )


def honest_leakage(reweighting: Reweighting, X: Any, y: Any, noise: Noise) -> ReweightedLeakage:
    """The leakage of reweighting.fit.w + noise about X (n, d), y (n,), with the weights' own dependence on it.

    ω⁰ and the targets are taken as constants, and so is the number of rounds: an early stop is a choice made from the
    data that no figure covers (the figure is right for the number at which it stopped).
    """
    level = reweighting.level
    units: dict[str, Any] = dict(label=level.label, through=level.through, label_unit=level.label_unit)
    reported = measure(reweighting.fit, X, y, noise, **units)  # refuses another table
    X, y = (np.ascontiguousarray(v, dtype=np.float64) for v in (X, y))
    bounded = noise is not no_noise
    W = (noise if bounded else Gaussian(1.0)).whiten(np.eye(reweighting.fit.w.shape[0]))
    jacobian = total_jacobian(reweighting, X, y, W)
    true = Leakage(jacobian, noise, level.label, bounded, "the weights, through their reweighting")
    return ReweightedLeakage(true, reported, level, jacobian.gap)


@dataclass(frozen=True, eq=False)
class Equalised:
    """A reweighting whose total figure is equal, as far as the search came. Internal.

    The targets were found from the table and are taken as constants in `told`: their choice is not covered, and it
    matters (docs/irfil.md, section 5). `told` is exact for targets that were fixed beforehand.
    """

    reweighting: Reweighting
    told: ReweightedLeakage
    history: FloatArray
    """(steps + 1, 4) mean, std (ddof 1), max and min of the total η, step by step."""
    tolerance: float

    @property
    def eta(self) -> FloatArray:
        """(units,) the total η."""
        return self.told.units

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
            f"<Equalised: {len(self.eta)} units, {len(self.history) - 1} steps of {self.reweighting.rounds} rounds: "
            f"total η equal to {self.unevenness:.1e}, the targets taken as constants>"
        )


def equalise(
    X: Any,
    y: Any,
    loss: Loss,
    l2: float = 0.0,
    *,
    rounds: int = 4,
    steps: int = 40,
    damping: float = 0.7,
    tolerance: float = 1e-3,
    noise: Noise = UNIT,
    progress: Callable[[int, FloatArray], None] | None = None,
    **how: Any,
) -> Equalised:
    """Targets τ for which IRFIL of a fixed number of rounds has equal *total* η, and that reweighting.

    The update of Algorithm 1, one floor up: τ <- τ (mean η / η)^damping with η the total figure; one honest evaluation
    a step. Stops within `tolerance` or after `steps`, and returns the most even step. One or two rounds leave too
    little freedom and need not converge; damping 1 can run away. `how`: columns, groups, intercept, ... of `irfil`.
    `progress(step, η)` sees every step.
    """
    if not 0 < damping <= 1:
        raise Refusal(f"damping lies in (0, 1], not {damping}")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
        raise Refusal(f"steps is a whole number >= 0, not {steps!r}")
    if "targets" in how:
        raise Refusal("equalise finds the targets itself: use irfil for targets of your own")
    targets: FloatArray | None = None
    history: list[tuple[float, ...]] = []
    kept: list[tuple[float, Reweighting, ReweightedLeakage]] = []
    for step in range(steps + 1):
        found = irfil(X, y, loss, l2, rounds=rounds, tolerance=0.0, noise=noise, targets=targets, **how)
        told = honest_leakage(found, X, y, noise)
        eta = told.units
        history.append(summary(eta))
        kept = [min([*kept, (unevenness(eta), found, told)], key=lambda k: k[0])]
        if progress is not None:
            progress(step, eta)
        if unevenness(eta) <= tolerance:
            break
        targets = found.targets * (eta.mean() / eta) ** damping
        targets = targets / targets.mean()
    ((_, found, told),) = kept
    return Equalised(found, told, np.array(history), tolerance)
