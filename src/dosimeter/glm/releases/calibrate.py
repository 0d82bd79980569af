"""Choosing the scale of the noise for a target η on any reading; for shaped noise see `releases/shape_calibration.py`.

Every reading of [Hannun21] eq. 17 is η(scale) = η(1)/scale for a noise with a scale, and for a fixed covariance times
scale². The exact scale is a function of the data with all its digits. The released scale is the rung above it, and even
that is a choice from the data, which no figure covers (docs/explanation/sharp-edges.md, 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.dose import Dose
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.noise import Density, Gaussian
from dosimeter.core.notion import Standing
from dosimeter.core.scale_ladder import SCALE_NOT_COVERED, rung, rung_above
from dosimeter.glm.fisher import LeakageOfFit
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.scalers.fitted_scaler import floor_of

Law = type[Density] | CorrelatedGaussian
"""A noise without its scale: a class of `core.noise`, or a covariance from public data that is multiplied by scale²."""


@dataclass(frozen=True)
class DoseAtScale:
    """One figure of a leakage, with its name."""

    name: str
    read: Callable[[Leakage], float]

    def __call__(self, leak: Leakage) -> float:
        return float(self.read(leak))


HIGHEST = DoseAtScale("highest example", lambda leak: leak.highest)
DATASET = DoseAtScale("dataset", lambda leak: leak.dataset)


def quantile_of_examples(q: float) -> DoseAtScale:
    """η that a share q of the rows does not exceed: the next higher row if q falls between two."""
    if not 0 <= q <= 1:
        raise Refusal(f"a quantile must be in [0, 1], not {q}")
    return DoseAtScale(
        f"{q:g} quantile of examples", lambda leak: float(np.quantile(leak.examples, q, method="higher"))
    )


def highest_group(
    groups: Sequence[Hashable], *, tied: Sequence[int] = (), tied_target: bool = False, name: str = "group"
) -> DoseAtScale:
    """The highest group of rows; with persons as groups, the highest person. Tied values as in `Leakage.group`."""
    return DoseAtScale(f"highest {name}", lambda leak: leak.highest_group(groups, tied=tied, tied_target=tied_target))


def column_over_rows(columns: int | Sequence[int]) -> DoseAtScale:
    """One column, or a block of columns, over all rows together."""
    return DoseAtScale(f"columns {columns} over all rows", lambda leak: leak.attribute_over(columns))


def highest_block(columns: int | Sequence[int]) -> DoseAtScale:
    """The highest row of a block of columns, without the target."""
    return DoseAtScale(f"highest row of columns {columns}", lambda leak: float(leak.attribute(columns).max()))


@dataclass(frozen=True, eq=False)
class Calibration:
    """A scale for a target η. Internal except `scale`: the exact scale and the reached η are unprotected statistics.

    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> calibrate(glm.fit(X, y, glm.Squared()), X, y, target=0.5)
    <Calibration of Gaussian: highest example η = 0.4494 <= 0.5 at scale 0.707107; the scale was chosen from the data:
    the choice itself is not covered>
    """

    target: float
    reading: str
    """Name of the figure."""
    exact_scale: float
    """Internal: the scale at which the reading is the target."""
    scale: float
    """The rung above `exact_scale`."""
    reached: float
    """Internal: the reading at `scale`, never above the target."""
    leakage: Leakage
    """At `scale`; every other reading of the same release."""
    law: str
    not_covered: tuple[str, ...] = (SCALE_NOT_COVERED,)

    def dose(self, person: Sequence[Hashable] | None = None, **options: Any) -> Dose:
        """The dose at `scale`, `unaccounted` because the choice is not covered; options as in `Leakage.dose`."""
        return self.leakage.dose(person, standing=Standing.UNACCOUNTED, not_covered=self.not_covered, **options)

    def __repr__(self) -> str:
        return (
            f"<Calibration of {self.law}: {self.reading} η = {self.reached:.4g} <= {self.target:g} "
            f"at scale {self.scale:g}; {'; '.join(self.not_covered)}>"
        )


def calibrate(
    fit: Fit,
    X: Any,
    y: Any,
    target: float,
    reading: DoseAtScale = HIGHEST,
    *,
    law: Law = Gaussian,
    include_target: bool = True,
    input_map: Any = None,
    target_unit: float = 1.0,
    scaled: Any = None,
) -> Calibration:
    """The smallest rung of the scale ladder at which a reading of fit.w + noise is at most `target`.

    Parameters
    ----------
    fit : Fit
        The exact fit.
    X, y : array_like of shape (n, d) and (n,)
        The training table.
    target : float
        The highest η allowed.
    reading : DoseAtScale
        The figure that is limited; default: the highest row.
    law : type of Density or CorrelatedGaussian, default Gaussian
        The noise without its scale, or a covariance from public data.
    include_target, input_map, target_unit, scaled
        As in `glm.measure`.

    Returns
    -------
    Calibration
        With the scale, which is a choice from the data and not covered.

    Raises
    ------
    Refusal
        If nothing leaks at any scale, or a fitted scaler alone exceeds the target.

    Notes
    -----
    η(scale) = η(1)/scale, eq. 17 of [Hannun21]; with a fitted scaler it falls towards a floor
    (docs/explanation/scaler.md).

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> round(calibrate(glm.fit(X, y, glm.Squared()), X, y, target=0.5).scale, 6)
    0.707107
    """
    check_target(target)
    units: dict[str, Any] = {"include_target": include_target, "input_map": input_map, "target_unit": target_unit}

    leakage_at = LeakageOfFit(fit, X, y, **units)

    def leak(scale: float) -> Leakage:
        return leakage_at(at_scale(law, scale), scaled)

    frozen = leakage_at(at_scale(law, 1.0))
    at_one, floor = reading(frozen), floor_of(leak(1.0))
    if floor is not None:
        name = law.__name__ if isinstance(law, type) else str(law)
        return above_floor(at_one, reading(floor), target, reading, leak, name, exactly=True)
    if not at_one > 0:
        raise Refusal(
            f"the {reading.name} is {at_one:g} at every scale: nothing leaks there, so no target determines a scale"
        )
    exact = at_one / target
    return on_ladder(exact, target, reading, leak, law.__name__ if isinstance(law, type) else str(law))


def on_ladder(
    exact: float, target: float, reading: DoseAtScale, leak: Callable[[float], Leakage], law: str
) -> Calibration:
    """The result at the rung above `exact`; one rung more if rounding left the reading above the target."""
    k = rung_above(exact)
    while (reached := reading(leakage := leak(rung(k)))) > target:
        k += 1
    return Calibration(target, reading.name, exact, rung(k), reached, leakage, law)


def refuse_below_floor(target: float, floor: float, reading: DoseAtScale) -> None:
    """Refuse a target at or below the floor of a reading, which no scale reaches."""
    if target <= floor:
        raise Refusal(
            f"no scale brings the {reading.name} to η = {target:g}: the columns are standardised by their mean and "
            f"deviation, which are computed from the data and leave η = {floor:.4g} at any scale (internal); allow a "
            f"higher dose, or declare public bounds ({option('bounds')})"
        )


def above_floor(
    frozen: float,
    floor: float,
    target: float,
    reading: DoseAtScale,
    leak: Callable[[float], Leakage],
    law: str,
    *,
    exactly: bool = False,
) -> Calibration:
    """The smallest rung of a reading that falls towards a floor as the scale grows; frozen: about its value at scale 1.

    exactly: also find the exact scale, not only the rung.
    """
    refuse_below_floor(target, floor, reading)
    guess = frozen / math.sqrt(target**2 - floor**2)
    return least_rung(rung_above(guess) if guess > 0 else 0, target, reading, leak, law, exactly)


def least_rung(
    k: int, target: float, reading: DoseAtScale, leak: Callable[[float], Leakage], law: str, exactly: bool
) -> Calibration:
    """From a first guess k up or down in growing steps, then by bisection: few readings, because each may be slow."""
    measured: dict[int, tuple[float, Leakage]] = {}

    def above(rank: int) -> bool:
        if rank not in measured:
            leakage = leak(rung(rank))
            measured[rank] = (reading(leakage), leakage)
        return measured[rank][0] > target

    low, step = k - 1, 1
    while above(k):
        low, k, step = k, k + step, 2 * step
    step = 1
    while not above(low):
        low, k, step = low - step, low, 2 * step
    while k - low > 1:
        middle = (low + k) // 2
        low, k = (middle, k) if above(middle) else (low, middle)
    exact = rung(k)
    if exactly and measured[k][0] < target:
        from scipy.optimize import brentq

        exact = float(brentq(lambda s: reading(leak(s)) - target, rung(low), rung(k), rtol=1e-9))
    return Calibration(target, reading.name, min(exact, rung(k)), rung(k), *measured[k], law)


def at_scale(law: Law, scale: float) -> Density | CorrelatedGaussian:
    """The law at a scale; a law without Fisher information is refused."""
    if isinstance(law, CorrelatedGaussian):
        return CorrelatedGaussian(scale**2 * law.covariance)
    if not (isinstance(law, type) and issubclass(law, Density)):
        raise Refusal(f"law must be a class such as Gaussian, or a CorrelatedGaussian as a public shape, not {law!r}")
    noise = law(scale)  # type: ignore[call-arg]  # the one field of every law is its scale
    if not math.isfinite(noise.fisher_information):  # computing it refuses Exponential
        raise Refusal(f"{noise} has no finite Fisher information")
    return noise


def check_target(target: float) -> None:
    """Refuse a target that no scale can reach."""
    if isinstance(target, bool) or not (np.isreal(target) and np.isfinite(target) and target > 0):
        raise Refusal(f"a target η must be a finite number > 0, not {target!r}")
