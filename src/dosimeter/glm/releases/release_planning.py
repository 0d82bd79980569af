"""From a table and a limit to a plan: the fit (reweighted or not), the noise that meets the limit, its leakage."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density, Gaussian
from dosimeter.core.scale_ladder import SCALE_NOT_COVERED
from dosimeter.glm.fisher import LeakageOfFit
from dosimeter.glm.fitting.fit import fit as minimise
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.fitting.newton import Loss
from dosimeter.glm.jacobians.known_cells import with_known
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.losses.label_weights import LabelWeights
from dosimeter.glm.releases.calibrate import (
    HIGHEST,
    DoseAtScale,
    above_floor,
    at_scale,
    check_target,
    highest_group,
    on_ladder,
    refuse_below_floor,
)
from dosimeter.glm.releases.release_plan import ReleasePlan
from dosimeter.glm.releases.shape_calibration import calibrate_shape
from dosimeter.glm.releases.shaped_noise import shape_noise
from dosimeter.glm.reweighting.irfil import irfil
from dosimeter.glm.reweighting.reweighted_leakage import TotalJacobian, total_leakage
from dosimeter.glm.reweighting.reweighting_gradient import refuse_without_gradient
from dosimeter.glm.scalers.fitted_scaler import floor_of, fold_dense_leakage

SHAPES = (None, "hessian")


def plan(
    X: Any,
    y: Any,
    loss: Loss,
    l2: Any = 0.0,
    *,
    max_dose: float | None = None,
    scale: float | None = None,
    law: type[Density] = Gaussian,
    reweighting_rounds: int = 0,
    noise_shape: str | None = None,
    groups: Sequence[Hashable] | None = None,
    tied: Sequence[int] = (),
    tied_target: bool = False,
    sample_weight: Any = None,
    intercept: bool = False,
    offset: Any = None,
    penalised_intercept: bool = False,
    input_map: Any = None,
    target_unit: float = 1.0,
    scaled: Any = None,
    scaler_is_public: bool = False,
    known: Any = None,
) -> ReleasePlan:
    """Plan the release of a model: fit it, choose its noise, and measure it.

    Parameters
    ----------
    X, y : array_like of shape (n, d) and (n,)
        The table.
    loss : Loss
        One of `glm.LOSSES`, or `Softmax(...)`.
    l2 : float or array_like, default 0
        λ, as in `glm.fit`.
    max_dose : float, optional
        The highest η of a row, or of a person with `groups`. The scale follows from it and is rounded up to the public
        ladder. Give this or `scale`.
    scale : float, optional
        The noise scale, a public constant.
    law : type of Density, default Gaussian
        The noise class.
    reweighting_rounds : int, default 0
        Rounds of IRFIL; the dose then includes the whole reweighting.
    noise_shape : {None, "hessian"}
        "hessian" for covariance c H⁻¹ (squared loss).
    groups : sequence of hashable of length n, optional
        The person of each row.
    tied, tied_target
        As in `Leakage.group`.
    sample_weight, intercept, offset, penalised_intercept
        As in `glm.fit`.
    input_map, target_unit
        As in `glm.measure`.
    scaled : array_like of bool, shape (d,), optional
        Columns that were standardised by the table itself. The figures account for their mean and deviation
        (docs/explanation/scaler.md), and a limit below what these leak at any scale is refused.
    scaler_is_public : bool, default False
        Regard that scaler as public; its floor is still reported, and a limit counts it beside the figure.
    known : array_like of bool, shape (n, m), optional
        Cells that are constants, see `with_known`.

    Returns
    -------
    ReleasePlan
        Internal; `draw` makes the release.

    Raises
    ------
    Refusal
        If both or neither of max_dose and scale are given, the limit cannot be met, or no unique fit exists.
    CannotMeasure
        If the figure has no derivation for this combination.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> plan(X, y, glm.Squared(), max_dose=0.5).draw().values["coef"].shape
    (1,)
    """
    if (max_dose is None) == (scale is None):
        raise Refusal("pass either max_dose or scale, not both")
    options: dict[str, Any] = {
        "law": law,
        "reweighting_rounds": reweighting_rounds,
        "noise_shape": noise_shape,
        "groups": groups,
        "tied": tied,
    }
    options |= {
        "tied_target": tied_target,
        "sample_weight": sample_weight,
        "intercept": intercept,
        "offset": offset,
        "penalised_intercept": penalised_intercept,
        "input_map": input_map,
    }
    options |= {"target_unit": target_unit, "scaled": scaled, "scaler_is_public": scaler_is_public, "known": known}
    return route(X, y, loss, l2, **options)(max_dose, scale)


PlanForLimit = Callable[[float | None, float | None], ReleasePlan]
"""(max_dose, scale), one of the two -> the plan: the fit is made once, for any number of limits."""


def route(
    X: Any,
    y: Any,
    loss: Loss,
    l2: Any = 0.0,
    *,
    law: type[Density] = Gaussian,
    reweighting_rounds: int = 0,
    noise_shape: str | None = None,
    groups: Sequence[Hashable] | None = None,
    tied: Sequence[int] = (),
    tied_target: bool = False,
    sample_weight: Any = None,
    intercept: bool = False,
    offset: Any = None,
    penalised_intercept: bool = False,
    input_map: Any = None,
    target_unit: float = 1.0,
    scaled: Any = None,
    scaler_is_public: bool = False,
    known: Any = None,
    label_weights: LabelWeights | None = None,
) -> PlanForLimit:
    """The same as `plan` up to the limit; label_weights: what each row weighs with each label, if they differ."""
    if noise_shape not in SHAPES:
        raise Refusal(f"noise_shape must be None or 'hessian', not {noise_shape!r}")
    if noise_shape is not None and (reweighting_rounds or law is not Gaussian):
        raise Refusal(
            "noise shaped by the Hessian must be Gaussian and cannot be combined with reweighting: choose one"
        )
    shared: dict[str, Any] = {"tied": tied, "tied_target": tied_target}
    reading = HIGHEST if groups is None else highest_group(groups, **shared, name="person")

    def restrict(leak: Leakage) -> Leakage:
        return leak if known is None else with_known(leak, known)

    full_reading = reading
    reading = DoseAtScale(full_reading.name, lambda leak: full_reading(restrict(leak)))
    units: dict[str, Any] = {"input_map": input_map, "target_unit": target_unit}
    scaler = None if scaled is None or not np.any(scaled) else _FittedScaler(np.asarray(scaled), scaler_is_public)
    problem: dict[str, Any] = {"intercept": intercept, "offset": offset, "penalised_intercept": penalised_intercept}
    settings: dict[str, str | int | float | bool | None] = {"loss": loss.description, "l2": _l2_setting(l2)}
    used = {"offset": offset is not None, "penalised intercept": penalised_intercept}
    settings |= {name: True for name, is_used in used.items() if is_used}

    def with_known_cells(planned: ReleasePlan) -> ReleasePlan:
        return replace(planned, leakage=restrict(planned.leakage))

    if reweighting_rounds and label_weights is not None:
        raise CannotMeasure("reweighted rows are not derived for class weights: release without reweighting")
    if reweighting_rounds:
        equalised = _plan_equalised(
            X,
            y,
            loss,
            l2,
            reading,
            law,
            reweighting_rounds,
            groups,
            shared,
            sample_weight,
            problem,
            units,
            settings,
            scaler,
        )
        return lambda max_dose, scale: with_known_cells(equalised(max_dose, scale))
    fitted = replace(minimise(X, y, loss, l2, sample_weight=sample_weight, **problem), label_weights=label_weights)
    if noise_shape is not None:
        return lambda max_dose, scale: with_known_cells(
            _plan_shaped(fitted, X, y, reading, max_dose, scale, units, settings, scaler)
        )

    leakage_at = LeakageOfFit(fitted, X, y, **units)

    @cache  # several limits are tried, and each needs the one at scale 1
    def frozen(s: float) -> Leakage:
        return leakage_at(at_scale(law, s))

    @cache
    def total(s: float) -> Leakage:
        return leakage_at(at_scale(law, s), None if scaler is None else scaler.scaled)

    return lambda max_dose, scale: with_known_cells(
        _plan_with_scale(fitted, frozen, total, reading, max_dose, scale, law, settings, scaler)
    )


def _l2_setting(l2: Any) -> float | str:
    """λ as a recipe holds it: a number, or the numbers of all columns."""
    return float(l2) if np.ndim(l2) == 0 else " ".join(map(repr, np.ravel(l2).astype(float).tolist()))


@dataclass(frozen=True, eq=False)
class _FittedScaler:
    """The columns that a fitted scaler made, and whether the figures regard it as public."""

    scaled: Any
    is_public: bool


def _plan_with_scale(
    fitted: Fit,
    frozen: Callable[[float], Leakage],
    total: Callable[[float], Leakage],
    reading: DoseAtScale,
    max_dose: float | None,
    scale: float | None,
    law: type[Density],
    settings: dict[str, str | int | float | bool | None],
    scaler: _FittedScaler | None,
) -> ReleasePlan:
    """The plan for noise with a scale: the one given, or the rung above the one that meets the limit."""
    leak = frozen if scaler is None or scaler.is_public else total
    not_covered: tuple[str, ...] = ()
    floor_leakage = None if scaler is None else floor_of(total(1.0))
    floor = 0.0 if floor_leakage is None else reading(floor_leakage)
    leakage: Leakage | None = None
    if scale is None:
        target = float(max_dose if max_dose is not None else 0.0)
        check_target(target)
        refuse_below_floor(target, floor, reading)
        at_one = reading(frozen(1.0))
        if not at_one > 0 and not floor > 0:
            raise Refusal(
                f"the {reading.name} is zero at every scale: nothing leaks there, so no target determines a scale"
            )
        if leak is total:
            calibration = above_floor(at_one, floor, target, reading, leak, law.__name__)
        else:
            allowed = target - floor  # a scaler that is held leaves its floor beside the figure
            calibration = on_ladder(at_one / allowed, allowed, reading, leak, law.__name__)
            # A penalised fit moves with its scaler, beside what the scaler leaves.
            if scaler is not None and reading(total(calibration.scale)) > target:
                needed = above_floor(at_one, floor, target, reading, total, law.__name__).scale
                calibration = on_ladder(needed, allowed, reading, leak, law.__name__)
        scale, not_covered, leakage = calibration.scale, (SCALE_NOT_COVERED,), calibration.leakage
    noise, leakage = at_scale(law, scale), leak(scale) if leakage is None else leakage
    settings = {**settings, "scale": float(scale)}
    highest = reading(leakage)
    held = scaler is not None and scaler.is_public
    beside = max(floor, reading(total(float(scale))) - highest) if held else 0.0
    return ReleasePlan(fitted, noise, leakage, highest, reading.name, settings, not_covered, floor=floor, beside=beside)


def _plan_equalised(
    X: Any,
    y: Any,
    loss: Loss,
    l2: Any,
    reading: DoseAtScale,
    law: type[Density],
    rounds: int,
    groups: Sequence[Hashable] | None,
    shared: dict[str, Any],
    sample_weight: Any,
    problem: dict[str, Any],
    units: dict[str, Any],
    settings: dict[str, str | int | float | bool | None],
    scaler: _FittedScaler | None,
) -> PlanForLimit:
    refuse_without_gradient(loss)
    # Tolerance 0: the number of rounds is then public, and the figure through the reweighting is valid for it.
    reweighting = irfil(
        X, y, loss, l2, rounds=rounds, groups=groups, sample_weight=sample_weight, tolerance=0.0,
        **problem, **shared, **units,
    )  # fmt: skip
    once = total_leakage(reweighting, X, y, Gaussian(1.0)).true
    J = once.jacobian.dense(slice(None))

    def frozen(s: float) -> Leakage:
        noise = at_scale(law, s)
        return replace(once, jacobian=TotalJacobian(J * noise.whiten(np.ones(1))[0]), noise=noise)

    def total(s: float) -> Leakage:
        if scaler is None:
            return frozen(s)
        P = np.eye(np.shape(X)[1]) if units["input_map"] is None else np.asarray(units["input_map"], dtype=np.float64)
        return fold_dense_leakage(frozen(s), reweighting.fit.w, np.asarray(X, dtype=np.float64), scaler.scaled, P)

    settings = {**settings, "reweightings": rounds}
    return lambda max_dose, scale: replace(
        _plan_with_scale(reweighting.fit, frozen, total, reading, max_dose, scale, law, settings, scaler),
        reweighting=reweighting,
    )


def _plan_shaped(
    fitted: Fit,
    X: Any,
    y: Any,
    reading: DoseAtScale,
    max_dose: float | None,
    scale: float | None,
    units: dict[str, Any],
    settings: dict[str, str | int | float | bool | None],
    scaler: _FittedScaler | None,
) -> ReleasePlan:
    not_covered: tuple[str, ...] = ()
    floor, through = 0.0, units if scaler is None else {**units, "scaled": scaler.scaled}
    if scaler is not None:
        shaped_at_one = shape_noise(fitted, X, y, c=1.0, scaled=scaler.scaled, **units)
        floor = reading(shaped_at_one.floor)
        if scale is None:
            refuse_below_floor(float(max_dose or 0.0), floor, reading)
        units = units if scaler.is_public else through
    if scale is None:
        ways = [units] if units is through else [units, through]  # held, and as a limit counts it
        scale = max(calibrate_shape(fitted, X, y, float(max_dose or 0.0), reading, **way).scale for way in ways)
        not_covered = (SCALE_NOT_COVERED,)
    shaped = shape_noise(fitted, X, y, c=scale**2, **units)
    noise = CorrelatedGaussian(shaped.covariance)
    settings = {**settings, "scale": float(scale), "shape": "hessian"}
    leakage = shaped.leakage
    highest, beside = reading(leakage), 0.0
    if scaler is not None and scaler.is_public:  # the shape has a floor of its own: sums would count it twice
        beside = max(0.0, reading(shape_noise(fitted, X, y, c=scale**2, **through).leakage) - highest)
    return ReleasePlan(fitted, noise, leakage, highest, reading.name, settings, not_covered, floor=floor, beside=beside)
