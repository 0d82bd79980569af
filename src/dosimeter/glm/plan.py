"""From a table and a limit to weights that may leave: which fit, which noise, which dose, and the draw.

A plan is everything up to the noise: the fit (reweighted or not), the noise that meets the limit, the leakage that the
release will have, and what no figure covers. `draw` then takes the noise from `sampling/` and gives a `Release`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.calibrate import CHOSEN
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.noise import Density, Gaussian
from dosimeter.core.notion import FloatArray
from dosimeter.core.refusal import Refusal
from dosimeter.core.release import Recipe, Release
from dosimeter.glm.calibrate import HIGHEST, Reading, at_scale, calibrate_shape, check_target, highest_group, on_ladder
from dosimeter.glm.fisher import measure
from dosimeter.glm.fit import Fit, Loss
from dosimeter.glm.fit import fit as minimise
from dosimeter.glm.honest import TotalJacobian, honest_leakage
from dosimeter.glm.leakage import Leakage
from dosimeter.glm.reweight import Reweighting, irfil
from dosimeter.glm.shape import shaped
from dosimeter.sampling import noisy, release, simulate

SHAPES = (None, "hessian")
FINER = 30
"""Bits below √c at which shaped noise is rounded: the least deviation √(c/λ_max) is data and must not fix the grid."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A fit and the noise that its weights will be released with. Internal: it holds the exact weights."""

    fit: Fit
    noise: Density | CorrelatedGaussian
    leakage: Leakage
    """Of the release, with all that is known of how weights and covariance depend on the table."""
    highest: float
    """The reading that the limit is about."""
    reading: str
    settings: dict[str, str | int | float | bool | None]
    """Public constants for the recipe."""
    uncovered: tuple[str, ...]
    reweighting: Reweighting | None = None

    @property
    def described(self) -> str:
        """The noise in public words: the covariance of shaped noise is itself data and goes unsaid."""
        if isinstance(self.noise, CorrelatedGaussian):
            return f"Gaussian noise shaped by the inverse Hessian, √c = {self.settings['scale']:g}"
        return str(self.noise)

    def draw(self, rng: np.random.Generator | None = None) -> Release:
        """The release; a Generator makes it a simulation, not for release."""
        d = len(self.fit.coef)
        values: dict[str, FloatArray] = {"coef": self.fit.w[:d], "intercept": self.fit.w[d:]}
        values = {name: v for name, v in values.items() if v.size}
        if not isinstance(self.noise, CorrelatedGaussian):
            return release(
                values, self.noise, kind="weights", settings=self.settings, uncovered=self.uncovered, rng=rng
            )
        grid = 2.0 ** (math.floor(math.log2(float(self.settings["scale"] or 1.0))) - FINER)
        w = self.fit.w
        drawn = noisy(w, self.noise, grid=grid) if rng is None else simulate(w, self.noise, rng, grid=grid)
        recipe = Recipe("weights", self.described, {**self.settings, "grid": grid}, self.uncovered, rng is not None)
        return Release({"coef": drawn[:d], **({"intercept": drawn[d:]} if self.fit.intercept else {})}, recipe)


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
) -> Plan:
    """What would be released of a model of X (n, d), y (n,).

    One of: max_dose, the highest η that a row (or a group of rows: a person) may have, from which the scale follows
    and is rounded up to the public ladder; scale, a public constant. equalise: rounds of IRFIL, the dose then being
    the one through the whole reweighting. tied, tied_label: as in `Leakage.group`. shape: "hessian" for covariance
    c H⁻¹ (squared loss).
    """
    if (max_dose is None) == (scale is None):
        raise Refusal("state either max_dose or scale, one of the two")
    if shape not in SHAPES:
        raise Refusal(f"shape {shape!r} is not None or 'hessian'")
    if shape is not None and (equalise or law is not Gaussian):
        raise Refusal(
            "noise shaped by the Hessian is Gaussian and is not derived together with reweighting: choose one"
        )
    shared: dict[str, Any] = {"tied": tied, "tied_label": tied_label}
    reading = HIGHEST if groups is None else highest_group(groups, **shared, name="person")
    units: dict[str, Any] = {"through": through, "label_unit": label_unit}
    settings: dict[str, str | int | float | bool | None] = {"loss": loss.name, "l2": float(l2), "n": len(X)}
    if equalise:
        return _equalised(
            X,
            y,
            loss,
            l2,
            reading,
            max_dose,
            scale,
            law,
            equalise,
            groups,
            shared,
            sample_weight,
            intercept,
            units,
            settings,
        )
    fitted = minimise(X, y, loss, l2, sample_weight=sample_weight, intercept=intercept)
    if shape is not None:
        return _shaped(fitted, X, y, reading, max_dose, scale, units, settings)

    def leak(s: float) -> Leakage:
        return measure(fitted, X, y, at_scale(law, s), **units)

    return _scaled(fitted, leak, reading, max_dose, scale, law, settings, ())


def _scaled(
    fitted: Fit,
    leak: Callable[[float], Leakage],
    reading: Reading,
    max_dose: float | None,
    scale: float | None,
    law: type[Density],
    settings: dict[str, str | int | float | bool | None],
    uncovered: tuple[str, ...],
) -> Plan:
    """The plan for noise with a scale: the one stated, or the rung above the one that meets the limit."""
    if scale is None:
        target = float(max_dose if max_dose is not None else 0.0)
        check_target(target)
        at_one = reading(leak(1.0))
        if not at_one > 0:
            raise Refusal(f"the {reading.name} is zero at every scale: nothing leaks there, so no target fixes a scale")
        found = on_ladder(at_one / target, target, reading, leak, law.__name__)
        scale, uncovered = found.scale, (*uncovered, CHOSEN)
    noise, told = at_scale(law, scale), leak(scale)
    settings = {**settings, "scale": float(scale)}
    return Plan(fitted, noise, told, reading(told), reading.name, settings, uncovered)


def _equalised(
    X: Any,
    y: Any,
    loss: Loss,
    l2: float,
    reading: Reading,
    max_dose: float | None,
    scale: float | None,
    law: type[Density],
    rounds: int,
    groups: Sequence[Hashable] | None,
    shared: dict[str, Any],
    sample_weight: Any,
    intercept: bool,
    units: dict[str, Any],
    settings: dict[str, str | int | float | bool | None],
) -> Plan:
    # Tolerance 0: the number of rounds is then public, and the figure through the reweighting holds for it.
    found = irfil(
        X, y, loss, l2, rounds=rounds, groups=groups, sample_weight=sample_weight, intercept=intercept, tolerance=0.0,
        **shared, **units,
    )  # fmt: skip
    once = honest_leakage(found, X, y, Gaussian(1.0)).true
    J = once.jacobian.dense(slice(None))

    def leak(s: float) -> Leakage:
        noise = at_scale(law, s)
        return replace(once, jacobian=TotalJacobian(J * noise.whiten(np.ones(1))[0]), noise=noise)

    planned = _scaled(found.fit, leak, reading, max_dose, scale, law, {**settings, "reweightings": rounds}, ())
    return replace(planned, reweighting=found)


def _shaped(
    fitted: Fit,
    X: Any,
    y: Any,
    reading: Reading,
    max_dose: float | None,
    scale: float | None,
    units: dict[str, Any],
    settings: dict[str, str | int | float | bool | None],
) -> Plan:
    uncovered: tuple[str, ...] = ()
    if scale is None:
        scale = calibrate_shape(fitted, X, y, float(max_dose or 0.0), reading, **units).scale
        uncovered = (CHOSEN,)
    found = shaped(fitted, X, y, c=scale**2, **units)
    noise = CorrelatedGaussian(found.covariance)
    settings = {**settings, "scale": float(scale), "shape": "hessian"}
    return Plan(fitted, noise, found.leakage, reading(found.leakage), reading.name, settings, uncovered)
