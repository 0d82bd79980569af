"""From a table and a limit to weights that may leave: which fit, which noise, which dose, and the draw.

A plan is everything up to the noise: the fit (reweighted or not), the noise that meets the limit, the leakage that the
release will have, and what no figure covers. `draw` then takes the noise from `noise_addition/` and gives a `Release`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Density, Gaussian
from dosimeter.core.release import Recipe, Release
from dosimeter.core.scale_ladder import CHOSEN
from dosimeter.glm.calibrate import (
    HIGHEST,
    DoseAtScale,
    above_floor,
    at_scale,
    calibrate_shape,
    check_target,
    highest_group,
    on_ladder,
    refuse_below_floor,
)
from dosimeter.glm.fisher import measure
from dosimeter.glm.fit import Fit, Loss
from dosimeter.glm.fit import fit as minimise
from dosimeter.glm.fitted_scaler import floor_of, through_scaler_dense
from dosimeter.glm.irfil import Reweighting, irfil
from dosimeter.glm.known_cells import with_known
from dosimeter.glm.leakage import Leakage
from dosimeter.glm.reweighted_leakage import TotalJacobian, honest_leakage
from dosimeter.glm.shaped_noise import shaped
from dosimeter.noise_addition import folded, noisy, release, simulate
from dosimeter.noise_addition.linear_map import SIGNIFICANT, Row
from dosimeter.noise_addition.simulation import seeded

SHAPES = (None, "hessian")
FINER = 30
"""Bits below √c at which shaped noise is rounded: the least deviation √(c/λ_max) is data and must not fix the grid."""


@dataclass(frozen=True, eq=False)
class ReleasePlan:
    """A fit and the noise that its weights will be released with. Internal: it holds the exact weights."""

    fit: Fit
    noise: Density | CorrelatedGaussian
    leakage: Leakage
    """Of the release, with all that is known of how weights and covariance depend on the table."""
    highest: float
    """The reading that the limit is about."""
    reading: str
    settings: dict[str, str | int | float | bool | None]
    """Constants for the recipe; all public but for an l2 that was made from the number of rows."""
    uncovered: tuple[str, ...]
    reweighting: Reweighting | None = None
    floor: float = 0.0
    """What a scaler fitted on the table leaves of that reading at any scale; 0 where nothing was fitted. Internal."""
    penalty: str = ""
    """The penalty in words, where l2 was made from the data (1/n): the recipe then holds these and not the number."""

    @property
    def described(self) -> str:
        """The noise in public words: the covariance of shaped noise is itself data and goes unsaid."""
        if isinstance(self.noise, CorrelatedGaussian):
            return f"Gaussian noise shaped by the inverse Hessian, √c = {self.settings['scale']:g}"
        return str(self.noise)

    @property
    def public(self) -> dict[str, str | int | float | bool | None]:
        """The settings as the recipe holds them."""
        if not self.penalty:
            return dict(self.settings)
        return {
            "penalty" if name == "l2" else name: self.penalty if name == "l2" else v
            for name, v in self.settings.items()
        }

    def draw(self, rng: np.random.Generator | None = None, rows: Sequence[Row] | None = None) -> Release:
        """The release; a Generator makes it a simulation, not for release.

        rows: what leaves are these sums of the noised weights, the intercept last, and not the weights themselves: a
        scaler folded in (`noise_addition.linear_map`). Without them the weights are in the units that are released.
        """
        if rows is not None:
            return self._folded(rows, rng)
        d = len(self.fit.coef)
        values: dict[str, FloatArray] = {"coef": self.fit.w[:d], "intercept": self.fit.w[d:]}
        values = {name: v for name, v in values.items() if v.size}
        if not isinstance(self.noise, CorrelatedGaussian):
            return release(values, self.noise, kind="weights", settings=self.public, uncovered=self.uncovered, rng=rng)
        grid = 2.0 ** (math.floor(math.log2(float(self.settings["scale"] or 1.0))) - FINER)
        w = self.fit.w
        drawn = noisy(w, self.noise, grid=grid) if rng is None else simulate(w, self.noise, rng, grid=grid)
        recipe = Recipe("weights", self.described, {**self.public, "grid": grid}, self.uncovered, rng is not None)
        return Release({"coef": drawn[:d], **({"intercept": drawn[d:]} if self.fit.intercept else {})}, recipe)

    def _folded(self, rows: Sequence[Row], rng: np.random.Generator | None) -> Release:
        drawn = folded(self.fit.w, self.noise, rows, bits=None if rng is None else seeded(rng))
        settings = {**self.public, "significant bits": SIGNIFICANT}
        recipe = Recipe("weights", self.described, settings, self.uncovered, rng is not None)
        return Release({"coef": drawn[:-1], "intercept": drawn[-1:]}, recipe)


def plan(
    X: Any,
    y: Any,
    loss: Loss,
    l2: float = 0.0,
    *,
    max_dose: float | None = None,
    scale: float | None = None,
    law: type[Density] = Gaussian,
    equalise: int = 0,
    shape: str | None = None,
    groups: Sequence[Hashable] | None = None,
    tied: Sequence[int] = (),
    tied_label: bool = False,
    sample_weight: Any = None,
    intercept: bool = False,
    through: Any = None,
    label_unit: float = 1.0,
    scaled: Any = None,
    held: bool = False,
    known: Any = None,
) -> ReleasePlan:
    """What would be released of a model of X (n, d), y (n,).

    One of: max_dose, the highest η that a row (or a group of rows: a person) may have, from which the scale follows
    and is rounded up to the public ladder; scale, a public constant. equalise: rounds of IRFIL, the dose then being
    the one through the whole reweighting. tied, tied_label: as in `Leakage.group`. shape: "hessian" for covariance
    c H⁻¹ (squared loss).
    scaled: (d,) columns that were standardised by the table itself; the figures go through their mean and deviation
    (docs/scaler.md), and a limit below what these leave at any scale is refused. held: regard them as public instead;
    the floor is told and kept all the same.
    known: (n, m) cells that are constants and no unknowns (`with_known`).
    """
    if (max_dose is None) == (scale is None):
        raise Refusal("state either max_dose or scale, one of the two")
    how: dict[str, Any] = {"law": law, "equalise": equalise, "shape": shape, "groups": groups, "tied": tied}
    how |= {"tied_label": tied_label, "sample_weight": sample_weight, "intercept": intercept, "through": through}
    how |= {"label_unit": label_unit, "scaled": scaled, "held": held, "known": known}
    return route(X, y, loss, l2, **how)(max_dose, scale)


Route = Callable[[float | None, float | None], ReleasePlan]
"""(max_dose, scale), one of the two -> the plan: the fit is made once, and many limits can be asked."""


def route(
    X: Any,
    y: Any,
    loss: Loss,
    l2: float = 0.0,
    *,
    law: type[Density] = Gaussian,
    equalise: int = 0,
    shape: str | None = None,
    groups: Sequence[Hashable] | None = None,
    tied: Sequence[int] = (),
    tied_label: bool = False,
    sample_weight: Any = None,
    intercept: bool = False,
    through: Any = None,
    label_unit: float = 1.0,
    scaled: Any = None,
    held: bool = False,
    known: Any = None,
) -> Route:
    """The same as `plan` up to the limit."""
    if shape not in SHAPES:
        raise Refusal(f"shape {shape!r} is not None or 'hessian'")
    if shape is not None and (equalise or law is not Gaussian):
        raise Refusal(
            "noise shaped by the Hessian is Gaussian and is not derived together with reweighting: choose one"
        )
    shared: dict[str, Any] = {"tied": tied, "tied_label": tied_label}
    reading = HIGHEST if groups is None else highest_group(groups, **shared, name="person")

    def about(leak: Leakage) -> Leakage:
        return leak if known is None else with_known(leak, known)

    every = reading
    reading = DoseAtScale(every.name, lambda leak: every(about(leak)))
    units: dict[str, Any] = {"through": through, "label_unit": label_unit}
    behind = None if scaled is None or not np.any(scaled) else _Behind(np.asarray(scaled), held)
    settings: dict[str, str | int | float | bool | None] = {"loss": loss.name, "l2": float(l2)}

    def masked(planned: ReleasePlan) -> ReleasePlan:
        return replace(planned, leakage=about(planned.leakage))

    if equalise:
        equal = _equalised(
            X, y, loss, l2, reading, law, equalise, groups, shared, sample_weight, intercept, units, settings, behind
        )
        return lambda max_dose, scale: masked(equal(max_dose, scale))
    fitted = minimise(X, y, loss, l2, sample_weight=sample_weight, intercept=intercept)
    if shape is not None:
        return lambda max_dose, scale: masked(_shaped(fitted, X, y, reading, max_dose, scale, units, settings, behind))

    def frozen(s: float) -> Leakage:
        return measure(fitted, X, y, at_scale(law, s), **units)

    def total(s: float) -> Leakage:
        return measure(fitted, X, y, at_scale(law, s), scaled=None if behind is None else behind.scaled, **units)

    return lambda max_dose, scale: masked(
        _scaled(fitted, frozen, total, reading, max_dose, scale, law, settings, behind)
    )


@dataclass(frozen=True, eq=False)
class _Behind:
    """Which columns a fitted scaler made, and whether the figures regard it as public."""

    scaled: Any
    held: bool


def _scaled(
    fitted: Fit,
    frozen: Callable[[float], Leakage],
    total: Callable[[float], Leakage],
    reading: DoseAtScale,
    max_dose: float | None,
    scale: float | None,
    law: type[Density],
    settings: dict[str, str | int | float | bool | None],
    behind: _Behind | None,
) -> ReleasePlan:
    """The plan for noise with a scale: the one stated, or the rung above the one that meets the limit."""
    leak = frozen if behind is None or behind.held else total
    uncovered: tuple[str, ...] = ()
    left = None if behind is None else floor_of(total(1.0))
    floor = 0.0 if left is None else reading(left)
    told: Leakage | None = None
    if scale is None:
        target = float(max_dose if max_dose is not None else 0.0)
        check_target(target)
        refuse_below_floor(target, floor, reading)
        at_one = reading(frozen(1.0))
        if not at_one > 0 and not floor > 0:
            raise Refusal(f"the {reading.name} is zero at every scale: nothing leaks there, so no target fixes a scale")
        if leak is total:
            found = above_floor(at_one, floor, target, reading, leak, law.__name__)
        else:
            found = on_ladder(at_one / target, target, reading, leak, law.__name__)
        scale, uncovered, told = found.scale, (CHOSEN,), found.leakage
    noise, told = at_scale(law, scale), leak(scale) if told is None else told
    settings = {**settings, "scale": float(scale)}
    return ReleasePlan(fitted, noise, told, reading(told), reading.name, settings, uncovered, floor=floor)


def _equalised(
    X: Any,
    y: Any,
    loss: Loss,
    l2: float,
    reading: DoseAtScale,
    law: type[Density],
    rounds: int,
    groups: Sequence[Hashable] | None,
    shared: dict[str, Any],
    sample_weight: Any,
    intercept: bool,
    units: dict[str, Any],
    settings: dict[str, str | int | float | bool | None],
    behind: _Behind | None,
) -> Route:
    # Tolerance 0: the number of rounds is then public, and the figure through the reweighting holds for it.
    found = irfil(
        X, y, loss, l2, rounds=rounds, groups=groups, sample_weight=sample_weight, intercept=intercept, tolerance=0.0,
        **shared, **units,
    )  # fmt: skip
    once = honest_leakage(found, X, y, Gaussian(1.0)).true
    J = once.jacobian.dense(slice(None))

    def frozen(s: float) -> Leakage:
        noise = at_scale(law, s)
        return replace(once, jacobian=TotalJacobian(J * noise.whiten(np.ones(1))[0]), noise=noise)

    def total(s: float) -> Leakage:
        if behind is None:
            return frozen(s)
        P = np.eye(np.shape(X)[1]) if units["through"] is None else np.asarray(units["through"], dtype=np.float64)
        return through_scaler_dense(frozen(s), found.fit.w, np.asarray(X, dtype=np.float64), behind.scaled, P)

    settings = {**settings, "reweightings": rounds}
    return lambda max_dose, scale: replace(
        _scaled(found.fit, frozen, total, reading, max_dose, scale, law, settings, behind), reweighting=found
    )


def _shaped(
    fitted: Fit,
    X: Any,
    y: Any,
    reading: DoseAtScale,
    max_dose: float | None,
    scale: float | None,
    units: dict[str, Any],
    settings: dict[str, str | int | float | bool | None],
    behind: _Behind | None,
) -> ReleasePlan:
    uncovered: tuple[str, ...] = ()
    floor = 0.0
    if behind is not None:
        left = shaped(fitted, X, y, c=1.0, scaled=behind.scaled, **units)
        floor = reading(left.floor)
        if scale is None:
            refuse_below_floor(float(max_dose or 0.0), floor, reading)
        units = units if behind.held else {**units, "scaled": behind.scaled}
    if scale is None:
        scale = calibrate_shape(fitted, X, y, float(max_dose or 0.0), reading, **units).scale
        uncovered = (CHOSEN,)
    found = shaped(fitted, X, y, c=scale**2, **units)
    noise = CorrelatedGaussian(found.covariance)
    settings = {**settings, "scale": float(scale), "shape": "hessian"}
    told = found.leakage
    return ReleasePlan(fitted, noise, told, reading(told), reading.name, settings, uncovered, floor=floor)
