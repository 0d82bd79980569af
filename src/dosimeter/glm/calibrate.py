"""Choosing the noise: the scale for a target η on any reading, the exponent of a shape, and the frontier.

Every reading of [Hannun21] eq. 17 is η(scale) = η(1)/scale for a noise with a scale, and for a fixed covariance times
scale². The exact scale is a function of the data with all its digits; what leaves is the rung above it, and even that
is a choice from the data which no figure covers (docs/sharp-edges.md, 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.dose import Dose
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Density, Gaussian
from dosimeter.core.notion import Standing
from dosimeter.core.scale_ladder import CHOSEN, rung, rung_above
from dosimeter.glm.fisher import measure
from dosimeter.glm.fit import Fit
from dosimeter.glm.fitted_scaler import floor_of
from dosimeter.glm.leakage import Leakage
from dosimeter.glm.shaped_noise import EXPONENTS, ShapedNoise, shaped

EXPONENT_CHOSEN = "the exponent of the shape was chosen from the data: the choice itself is not covered"

Law = type[Density] | CorrelatedGaussian
"""A noise without its scale: a class of `core.noise`, or a covariance from public data that is multiplied by scale²."""


@dataclass(frozen=True)
class DoseAtScale:
    """One figure of a leakage, by name."""

    name: str
    read: Callable[[Leakage], float]

    def __call__(self, leak: Leakage) -> float:
        return float(self.read(leak))


HIGHEST = DoseAtScale("highest example", lambda leak: leak.highest)
DATASET = DoseAtScale("dataset", lambda leak: leak.dataset)


def quantile_of_examples(q: float) -> DoseAtScale:
    """η that a share q of the rows does not exceed: the next higher row where q falls between two."""
    if not 0 <= q <= 1:
        raise Refusal(f"a quantile lies in [0, 1], not {q}")
    return DoseAtScale(
        f"{q:g} quantile of examples", lambda leak: float(np.quantile(leak.examples, q, method="higher"))
    )


def highest_group(
    groups: Sequence[Hashable], *, tied: Sequence[int] = (), tied_label: bool = False, name: str = "group"
) -> DoseAtScale:
    """The highest group of rows; with persons as groups, the highest person. Tied values as in `Leakage.group`."""
    return DoseAtScale(
        f"highest {name}", lambda leak: max(leak.group(groups, tied=tied, tied_label=tied_label).values())
    )


def column_over_rows(columns: int | Sequence[int]) -> DoseAtScale:
    """One column, or a block of columns, over all rows together."""
    return DoseAtScale(f"columns {columns} over all rows", lambda leak: leak.attribute_over(columns))


def highest_block(columns: int | Sequence[int]) -> DoseAtScale:
    """The highest row of a block of columns, the label not counted."""
    return DoseAtScale(f"highest row of columns {columns}", lambda leak: float(leak.attribute(columns).max()))


@dataclass(frozen=True, eq=False)
class Calibration:
    """A scale for a target. Internal but for `scale`: the exact scale and the reached η are un-noised statistics.

    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> calibrate(glm.fit(X, y, glm.Squared()), X, y, target=0.5)
    <Calibration of Gaussian: highest example η = 0.4494 <= 0.5 at scale 0.707107; the scale was chosen from the data:
    the choice itself is not covered>
    """

    target: float
    reading: str
    exact_scale: float
    """Internal: the scale at which the reading is the target."""
    scale: float
    """The rung above it."""
    reached: float
    """Internal: the reading at `scale`, never above the target."""
    leakage: Leakage
    """At `scale`; every other reading of the same release."""
    law: str
    uncovered: tuple[str, ...] = (CHOSEN,)

    def dose(self, person: Sequence[Hashable] | None = None, **how: Any) -> Dose:
        """The dose at `scale`, standing `unaccounted` because of what is uncovered; `how` as in `Leakage.dose`."""
        return self.leakage.dose(person, standing=Standing.UNACCOUNTED, uncovered=self.uncovered, **how)

    def __repr__(self) -> str:
        return (
            f"<Calibration of {self.law}: {self.reading} η = {self.reached:.4g} <= {self.target:g} "
            f"at scale {self.scale:g}; {'; '.join(self.uncovered)}>"
        )


def calibrate(
    fit: Fit,
    X: Any,
    y: Any,
    target: float,
    reading: DoseAtScale = HIGHEST,
    *,
    law: Law = Gaussian,
    label: bool = True,
    through: Any = None,
    label_unit: float = 1.0,
    scaled: Any = None,
) -> Calibration:
    """The least rung at which `reading` of fit.w + noise is not above `target`, for X (n, d), y (n,).

    scaled: as in `glm.measure`; a target that the scaler's own part exceeds at any scale is refused.
    """
    check_target(target)
    units: dict[str, Any] = {"label": label, "through": through, "label_unit": label_unit}

    def leak(scale: float) -> Leakage:
        return measure(fit, X, y, at_scale(law, scale), scaled=scaled, **units)

    frozen = measure(fit, X, y, at_scale(law, 1.0), **units)
    at_one, floor = reading(frozen), floor_of(leak(1.0))
    if floor is not None:
        words = law.__name__ if isinstance(law, type) else str(law)
        return above_floor(at_one, reading(floor), target, reading, leak, words, exactly=True)
    if not at_one > 0:
        raise Refusal(
            f"the {reading.name} is {at_one:g} at every scale: nothing leaks there, so no target fixes a scale"
        )
    exact = at_one / target
    return on_ladder(exact, target, reading, leak, law.__name__ if isinstance(law, type) else str(law))


def on_ladder(
    exact: float, target: float, reading: DoseAtScale, leak: Callable[[float], Leakage], law: str
) -> Calibration:
    """The result at the rung above `exact`; one rung more where rounding left the reading above the target."""
    k = rung_above(exact)
    while (reached := reading(found := leak(rung(k)))) > target:
        k += 1
    return Calibration(target, reading.name, exact, rung(k), reached, found, law)


def refuse_below_floor(target: float, floor: float, reading: DoseAtScale) -> None:
    """No scale brings a reading to its floor, let alone below."""
    if target <= floor:
        raise Refusal(
            f"no scale brings the {reading.name} to η = {target:g}: mean and deviation that the columns are "
            f"standardised by are made from the data and leave η = {floor:.4g} at any scale (internal); ask for more "
            "than that, or declare public bounds (--bounds; Python: bounds=)"
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
    """The least rung of a reading that falls towards a floor as the scale grows; frozen: about its value at scale 1.

    exactly: find the exact scale too, instead of the rung itself.
    """
    refuse_below_floor(target, floor, reading)
    guess = frozen / math.sqrt(target**2 - floor**2)
    return _least_rung(rung_above(guess) if guess > 0 else 0, target, reading, leak, law, exactly)


def _least_rung(
    k: int, target: float, reading: DoseAtScale, leak: Callable[[float], Leakage], law: str, exactly: bool
) -> Calibration:
    """From a first guess k up or down in growing steps, then between: few readings, because each may be long."""
    seen: dict[int, tuple[float, Leakage]] = {}

    def above(rank: int) -> bool:
        if rank not in seen:
            found = leak(rung(rank))
            seen[rank] = (reading(found), found)
        return seen[rank][0] > target

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
    if exactly and seen[k][0] < target:
        exact = float(brentq(lambda s: reading(leak(s)) - target, rung(low), rung(k), rtol=1e-9))
    return Calibration(target, reading.name, min(exact, rung(k)), rung(k), *seen[k], law)


def at_scale(law: Law, scale: float) -> Density | CorrelatedGaussian:
    """The law at a scale; one without Fisher information is refused in its own words."""
    if isinstance(law, CorrelatedGaussian):
        return CorrelatedGaussian(scale**2 * law.covariance)
    if not (isinstance(law, type) and issubclass(law, Density)):
        raise Refusal(f"`law` is a class such as Gaussian, or a CorrelatedGaussian as a public shape, not {law!r}")
    noise = law(scale)  # type: ignore[call-arg]  # the one field of every law is its scale
    if not math.isfinite(noise.fisher_information):  # reading it refuses Exponential
        raise Refusal(f"{noise} has no finite Fisher information")
    return noise


def check_target(target: float) -> None:
    """A target that a scale can reach."""
    if isinstance(target, bool) or not (np.isreal(target) and np.isfinite(target) and target > 0):
        raise Refusal(f"a target η is a finite number > 0, not {target!r}")


def calibrate_shape(
    fit: Fit, X: Any, y: Any, target: float, reading: DoseAtScale = HIGHEST, *, p: float = 1.0, **how: Any
) -> Calibration:
    """The least rung √c at which `reading` under N(0, c H⁻ᵖ) is not above `target`; below the floor it is refused."""
    check_target(target)
    at_one = shaped(fit, X, y, c=1.0, p=p, **how)
    least, constant = reading(at_one.floor), reading(at_one.frozen)
    if target <= least:
        raise Refusal(
            f"no scale brings the {reading.name} to η = {target:g}: the shape itself is made from the data and leaks "
            f"{least:.4g} at any scale (internal); ask for more than that, or use p = 0 or a public shape"
        )
    if not constant > 0:
        raise Refusal(f"the {reading.name} is zero at every scale: nothing leaks there, so no target fixes a scale")

    def leak(scale: float) -> Leakage:
        return shaped(fit, X, y, c=scale**2, p=p, **how).leakage

    return _least_rung(rung_above(constant / target), target, reading, leak, f"shaped noise, p = {p:g}", exactly=True)


def best_exponent(
    fit: Fit,
    X: Any,
    y: Any,
    *,
    excess_loss: float,
    reading: DoseAtScale = HIGHEST,
    exponents: Sequence[float] = EXPONENTS,
    **how: Any,
) -> ShapedNoise:
    """The exponent of the grid with the lowest `reading` at a stated loss, the covariance's own part included.

    A frozen figure is a cheap lower bound of the true one: exponents are tried in its order until it passes the best.
    """
    tried = sorted(
        (reading(noise.frozen), k, noise)
        for k, noise in enumerate(shaped(fit, X, y, excess_loss=excess_loss, p=p, **how) for p in exponents)
    )
    if not tried:
        raise Refusal("no exponent was given to choose from")
    best, lowest = tried[0][2], np.inf
    for bound, _, noise in tried:
        if bound >= lowest and how.get("scaled") is None:  # behind a scaler the frozen figure bounds nothing
            break
        figure = reading(noise.leakage)
        if figure < lowest:
            best, lowest = noise, figure
    return replace(best, uncovered=(EXPONENT_CHOSEN,)) if len(tried) > 1 else best


@dataclass(frozen=True)
class FrontierPoint:
    """One shape at one loss. Internal: every figure is an un-noised statistic of the table."""

    shape: str
    p: float
    excess_loss: float
    highest: float
    """Highest η of a row, the covariance's own part included."""
    typical: float
    """Median η of the rows."""
    frozen: float
    """Highest η with the covariance regarded as public."""
    floor: float
    """What no scale removes from the highest."""


SHAPES: dict[str, tuple[float, ...]] = {"isotropic": (0.0,), "inverse Hessian": (1.0,), "best exponent": EXPONENTS}
"""Name of a shape, and the exponents that it may take."""


def frontier(
    fit: Fit, X: Any, y: Any, losses: Iterable[float], shapes: dict[str, tuple[float, ...]] = SHAPES, **how: Any
) -> tuple[FrontierPoint, ...]:
    """For each stated loss and each shape, what the release leaks; losses outside, shapes inside."""
    points = []
    for loss in losses:
        for name, exponents in shapes.items():
            noise = best_exponent(fit, X, y, excess_loss=loss, exponents=exponents, **how)
            eta = noise.leakage.examples
            figures = (leak.examples.max() for leak in (noise.frozen, noise.floor))
            points.append(
                FrontierPoint(name, noise.p, loss, float(eta.max()), float(np.median(eta)), *map(float, figures))
            )
    return tuple(points)
