"""Equalising: iteratively reweighted Fisher information loss (IRFIL), Algorithm 1 of [Hannun21].

    ωᵢᵗ = n (ωᵢᵗ⁻¹/ηᵢ) / Σⱼ (ωⱼᵗ⁻¹/ηⱼ),   ηᵢ of the model fitted with ωᵗ⁻¹      (line 7; fixed point: eq. 28)

`rounds` counts reweightings: the model returned is fitted with ω^rounds. Algorithm 1 as printed with T iterations fits
T times and releases the model of ω^(T-1); its T is our rounds + 1.

η here takes the weights as constants (eq. 29). They are functions of the data: `honest_leakage` gives the total figure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.engine import Engine
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian, Noise, no_noise
from dosimeter.glm.fisher import measure
from dosimeter.glm.fit import Fit, Loss, fit
from dosimeter.glm.leakage import Leakage

UNIT = Gaussian(1.0)


@dataclass(frozen=True, eq=False)
class EqualisationTarget:
    """Whose leakage is made equal, and in which units: of each row, of some columns of each row, of groups of rows."""

    columns: Index | None = None
    """Positions of an attribute's columns (the label not counted), or None: the whole row, with `label` its label."""
    groups: Index | None = None
    """(n,) number of each row's group, or None: each row by itself."""
    tied: Index | None = None
    """Columns that hold one value per group, as in `Leakage.group`."""
    tied_label: bool = False
    label: bool = True
    noise: Noise = UNIT
    """Only its shape matters: a scale cancels in the update."""
    through: FloatArray | None = None
    label_unit: float = 1.0

    def leakage(self, fitted: Fit, X: Any, y: Any) -> Leakage:
        """The reading of one fit, its weights taken as constants."""
        how: dict[str, Any] = dict(label=self.label, through=self.through, label_unit=self.label_unit)
        return measure(fitted, X, y, self.noise, **how)

    def figures(self, leak: Leakage) -> FloatArray:
        """(units,) η of each row or group."""
        if self.groups is not None:
            tied = () if self.tied is None else self.tied.tolist()
            how: dict[str, Any] = dict(tied=tied, tied_label=self.tied_label, columns=self.columns)
            return np.array(list(leak.group(self.groups.tolist(), **how).values()))
        return leak.examples if self.columns is None else leak.attribute(self.columns.tolist())

    def of_rows(self, values: FloatArray) -> FloatArray:
        """(n, ...) each row's share of an array over units."""
        return values if self.groups is None else values[self.groups]

    def name(self, unit: int) -> str:
        """How a refusal speaks of a unit."""
        return f"row {unit}" if self.groups is None else f"group number {unit} in the order of first appearance"


@dataclass(frozen=True, eq=False)
class ReweightingRound:
    """One pass of the loop: a model, and what it leaks."""

    fit: Fit
    eta: FloatArray
    """(units,) η with the weights as constants; of a noise of scale 1 unless one was given."""


@dataclass(frozen=True, eq=False)
class Reweighting:
    """The way from ω⁰ to the weights at which all leak alike. Internal: it holds every row's weight and η.

    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> from dosimeter.glm.loss import Squared
    >>> told = irfil(X, y, Squared(), rounds=60)
    >>> told.converged, round(float(told.weights.sum()), 12), told.unevenness < 1e-6
    (True, 3.0, True)
    """

    path: tuple[ReweightingRound, ...]
    """Rounds 0 to T; the last one is the model to release."""
    level: EqualisationTarget
    targets: FloatArray
    """(units,) proportions asked for; ones where all shall leak alike."""
    tolerance: float

    @property
    def rounds(self) -> int:
        """T: reweightings done."""
        return len(self.path) - 1

    @property
    def fit(self) -> Fit:
        """The model fitted with ωᵀ."""
        return self.path[-1].fit

    @property
    def weights(self) -> FloatArray:
        """(n,) ωᵀ, sum n."""
        return self.fit.sample_weight

    @property
    def eta(self) -> FloatArray:
        """(units,) η of the model fitted with ωᵀ, the weights as constants."""
        return self.path[-1].eta

    @property
    def history(self) -> FloatArray:
        """(T + 1, 4) mean, std (ddof 1), max and min of η in each round."""
        return np.array([summary(stage.eta) for stage in self.path])

    @property
    def unevenness(self) -> float:
        """max/min - 1 of η over its target: the certificate; 0 is equal leakage."""
        return unevenness(self.eta / self.targets)

    @property
    def converged(self) -> bool:
        """Whether the certificate is within the tolerance."""
        return self.unevenness <= self.tolerance

    def __repr__(self) -> str:
        return (
            f"<Reweighting of {len(self.eta)} units, {self.rounds} rounds: η equal to {self.unevenness:.1e}, "
            f"the weights taken as constants>"
        )


def irfil(
    X: Any,
    y: Any,
    loss: Loss,
    l2: float = 0.0,
    *,
    rounds: int = 15,
    columns: int | Sequence[int] | None = None,
    groups: Sequence[Hashable] | None = None,
    tied: Sequence[int] = (),
    tied_label: bool = False,
    label: bool = True,
    targets: Any = None,
    sample_weight: Any = None,
    intercept: bool = False,
    tolerance: float = 1e-6,
    noise: Noise = UNIT,
    through: Any = None,
    label_unit: float = 1.0,
    progress: Callable[[int, ReweightingRound], None] | None = None,
    engine: Engine | None = None,
) -> Reweighting:
    """Weights ω with which every unit of X (n, d), y (n,) has the same η, and the model fitted with them.

    The unit is a row; with `columns` an attribute of each row; with `groups` (one label a row) a person's rows
    together, which then share one factor of weight; `tied` and `tied_label` as in `Leakage.group`. targets (units,): η
    is made proportional to them instead of equal. sample_weight: ω⁰ (ones if None), scaled to sum n. Stops after
    `rounds` reweightings, or as soon as max/min - 1 of η is within `tolerance` (0: never early); each fit starts at the
    last one. `progress(t, round)` sees every round.
    A unit whose η is zero is refused: no weight would raise it.
    """
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 0:
        raise Refusal(f"rounds is a whole number >= 0, not {rounds!r}")
    if not tolerance >= 0:
        raise Refusal(f"tolerance is a number >= 0, not {tolerance}")
    n = len(X)
    level = _level(n, columns, groups, tied, tied_label, label, noise, through, label_unit)
    weight = _start(sample_weight, n)
    aim = _targets(targets, n if level.groups is None else int(level.groups.max()) + 1)
    path: list[ReweightingRound] = []
    for t in range(rounds + 1):
        start = path[-1].fit.w if path else None
        fitted = fit(X, y, loss, l2, sample_weight=weight, intercept=intercept, start=start, engine=engine)
        eta = level.figures(level.leakage(fitted, X, y))
        path.append(ReweightingRound(fitted, eta))
        if progress is not None:
            progress(t, path[-1])
        if unevenness(eta / aim) <= tolerance:
            break
        _refuse_zero(level, eta)
        weight = reweighted(weight, level.of_rows(eta / aim))
    return Reweighting(tuple(path), level, aim, float(tolerance))


def reweighted(weight: FloatArray, eta: FloatArray) -> FloatArray:
    """(n,) line 7 of Algorithm 1: ω/η scaled to sum n.

    >>> reweighted(np.array([1.0, 1.0]), np.array([1.0, 3.0]))
    array([1.5, 0.5])
    """
    new = weight / eta
    return np.asarray(new * (len(new) / new.sum()))


def summary(eta: FloatArray) -> tuple[float, float, float, float]:
    """Mean, std (ddof 1; 0 of a single unit), max, min: a row of a history."""
    return float(eta.mean()), float(eta.std(ddof=min(1, len(eta) - 1))), float(eta.max()), float(eta.min())


def unevenness(eta: FloatArray) -> float:
    """max/min - 1; infinite where only some are zero."""
    least, most = float(eta.min()), float(eta.max())
    return most / least - 1.0 if least > 0 else (np.inf if most > 0 else 0.0)


def _level(
    n: int,
    columns: Any,
    groups: Sequence[Hashable] | None,
    tied: Sequence[int],
    tied_label: bool,
    label: bool,
    noise: Noise,
    through: Any,
    label_unit: float,
) -> EqualisationTarget:
    if noise is no_noise:
        raise Refusal("an exact release leaks without bound whatever the weights: give a noise, or leave it out")
    if (len(tied) or tied_label) and groups is None:
        raise Refusal("tied columns and labels hold one value per group: say which rows are a group")
    number = None
    if groups is not None:
        names = list(groups)
        if len(names) != n:
            raise Refusal(f"one group for each of the {n} rows is needed, not {len(names)}")
        order = {g: k for k, g in enumerate(dict.fromkeys(names))}
        number = np.array([order[g] for g in names], dtype=np.intp)
    return EqualisationTarget(
        columns=None if columns is None else np.atleast_1d(np.asarray(columns, dtype=np.intp)),
        groups=number,
        tied=np.asarray(tied, dtype=np.intp) if len(tied) else None,
        tied_label=tied_label,
        label=label,
        noise=noise,
        through=None if through is None else np.asarray(through, dtype=np.float64),
        label_unit=label_unit,
    )


def _start(sample_weight: Any, n: int) -> FloatArray:
    if sample_weight is None:
        return np.ones(n)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,) or not (np.isfinite(weight).all() and (weight > 0).all()):
        raise Refusal(f"sample_weight needs {n} finite numbers > 0: a row of weight 0 never gets another")
    return np.asarray(weight * (n / weight.sum()))


def _targets(targets: Any, units: int) -> FloatArray:
    if targets is None:
        return np.ones(units)
    aim = np.asarray(targets, dtype=np.float64)
    if aim.shape != (units,) or not (np.isfinite(aim).all() and (aim > 0).all()):
        raise Refusal(f"targets needs a finite number > 0 for each of the {units} units")
    return aim


def _refuse_zero(level: EqualisationTarget, eta: FloatArray) -> None:
    """A figure of 0 has no inverse, and one so small that its inverse is not finite is no better."""
    with np.errstate(over="ignore", divide="ignore"):
        lost = ~np.isfinite(1.0 / eta)
    if lost.any():
        unit = int(np.flatnonzero(lost)[0])
        raise Refusal(
            f"{level.name(unit)} leaks nothing (η = {eta[unit]:.3g}), and no weight would raise that to the others' "
            "level: leave it out of the equalising, or equalise another reading (the whole row instead of an attribute)"
        )
