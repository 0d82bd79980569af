"""Equalising: iteratively reweighted Fisher information loss (IRFIL), Algorithm 1 of [Hannun21].

    ωᵢᵗ = n (ωᵢᵗ⁻¹/ηᵢ) / Σⱼ (ωⱼᵗ⁻¹/ηⱼ),   ηᵢ of the model fitted with ωᵗ⁻¹      (line 7; fixed point: eq. 28)

`rounds` counts reweightings: the model returned is fitted with ω^rounds. Algorithm 1 as printed with T iterations fits
T times and releases the model of ω^(T-1); its T is our rounds + 1.

η here takes the weights as constants (eq. 29). They are functions of the data: `total_leakage` gives the total figure.
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
from dosimeter.glm.fitting.fit import fit
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.fitting.newton import Loss
from dosimeter.glm.jacobians.leakage import Leakage

UNIT = Gaussian(1.0)


@dataclass(frozen=True, eq=False)
class EqualisationTarget:
    """Whose leakage is made equal, and in which units: of each row, of some columns of each row, of groups of rows."""

    columns: Index | None = None
    """Columns of an attribute (without the target), or None: the whole row, and its target if `include_target`."""
    groups: Index | None = None
    """(n,) number of each row's group, or None: each row by itself."""
    tied: Index | None = None
    """Columns that hold one value per group, as in `Leakage.group`."""
    tied_target: bool = False
    include_target: bool = True
    noise: Noise = UNIT
    """Only its shape matters: a scale cancels in the update."""
    input_map: FloatArray | None = None
    target_unit: float = 1.0

    def leakage(self, fitted: Fit, X: Any, y: Any) -> Leakage:
        """The reading of one fit, with its weights as constants."""
        units: dict[str, Any] = dict(
            include_target=self.include_target, input_map=self.input_map, target_unit=self.target_unit
        )
        return measure(fitted, X, y, self.noise, **units)

    def figures(self, leak: Leakage) -> FloatArray:
        """(units,) η of each row or group."""
        if self.groups is not None:
            tied = () if self.tied is None else self.tied.tolist()
            options: dict[str, Any] = dict(tied=tied, tied_target=self.tied_target, columns=self.columns)
            return np.array(list(leak.group(self.groups.tolist(), **options).values()))
        return leak.examples if self.columns is None else leak.attribute(self.columns.tolist())

    def of_rows(self, values: FloatArray) -> FloatArray:
        """(n, ...) each row's share of an array over units."""
        return values if self.groups is None else values[self.groups]

    def name(self, unit: int) -> str:
        """A unit's name in a refusal."""
        return f"row {unit}" if self.groups is None else f"group number {unit} in the order of first appearance"


@dataclass(frozen=True, eq=False)
class ReweightingRound:
    """One pass of the loop: a model, and its leakage."""

    fit: Fit
    eta: FloatArray
    """(units,) η with the weights as constants, for noise of scale 1 unless one was given."""


@dataclass(frozen=True, eq=False)
class Reweighting:
    """The path from ω⁰ to the weights at which all units leak equally. Internal: it holds every row's weight and η.

    Examples
    --------
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> from dosimeter.glm.losses.loss import Squared
    >>> reweighting = irfil(X, y, Squared(), rounds=60)
    >>> reweighting.converged, round(float(reweighting.weights.sum()), 12), reweighting.unevenness < 1e-6
    (True, 3.0, True)
    """

    path: tuple[ReweightingRound, ...]
    """Rounds 0 to T; the last one is the model to release."""
    level: EqualisationTarget
    """What was made equal."""
    targets: FloatArray
    """(units,) requested proportions of η; ones if all shall leak equally."""
    tolerance: float

    @property
    def rounds(self) -> int:
        """T: the number of reweightings."""
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
        """(units,) η of the model fitted with ωᵀ, with the weights as constants."""
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
            f"with the weights as constants>"
        )


def irfil(
    X: Any,
    y: Any,
    loss: Loss,
    l2: Any = 0.0,
    *,
    rounds: int = 15,
    columns: int | Sequence[int] | None = None,
    groups: Sequence[Hashable] | None = None,
    tied: Sequence[int] = (),
    tied_target: bool = False,
    include_target: bool = True,
    targets: Any = None,
    sample_weight: Any = None,
    intercept: bool = False,
    offset: Any = None,
    penalised_intercept: bool = False,
    tolerance: float = 1e-6,
    noise: Noise = UNIT,
    input_map: Any = None,
    target_unit: float = 1.0,
    progress: Callable[[int, ReweightingRound], None] | None = None,
    engine: Engine | None = None,
) -> Reweighting:
    """Weights with which every unit has the same η, and the model fitted with them: Algorithm 1 of [Hannun21].

    Parameters
    ----------
    X, y : array_like of shape (n, d) and (n,)
        The table.
    loss : Loss
        One of `glm.LOSSES`, or `Softmax(...)`.
    l2 : float or array_like, default 0
        λ, as in `glm.fit`.
    rounds : int, default 15
        Most reweightings.
    columns : int or sequence of int, optional
        Equalise η of this attribute of each row; default: the whole row.
    groups : sequence of hashable of length n, optional
        Equalise η of each person's rows together; their rows share one factor of weight.
    tied, tied_target
        As in `Leakage.group`.
    include_target, input_map, target_unit
        As in `glm.measure`.
    targets : array_like of shape (units,), optional
        Make η proportional to these instead of equal.
    sample_weight : array_like of shape (n,), optional
        ω⁰, scaled to sum n; default ones.
    intercept, offset, penalised_intercept
        As in `glm.fit`.
    tolerance : float, default 1e-6
        Stop as soon as max/min - 1 of η is within it; 0 never stops early, so the number of rounds stays public.
    noise : Noise
        Only its shape matters; default Gaussian.
    progress : callable, optional
        Called with (t, round) after every round.
    engine : Engine, optional
        Where the sums run.

    Returns
    -------
    Reweighting
        Internal.

    Raises
    ------
    Refusal
        If a unit's η is zero, because no weight would raise it, or an argument is invalid.

    Notes
    -----
    Line 7 of Algorithm 1: ω <- n (ω/η) / Σ (ω/η). Each fit starts at the previous one. η takes the weights as constants
    (eq. 29); `total_leakage` includes their dependence on the data.

    Examples
    --------
    >>> from dosimeter.glm.losses.loss import Squared
    >>> irfil([[1.0], [2.0], [3.0]], [1.0, 2.0, 4.0], Squared(), rounds=60).converged
    True
    """
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 0:
        raise Refusal(f"rounds must be a whole number >= 0, not {rounds!r}")
    if not tolerance >= 0:
        raise Refusal(f"tolerance must be a number >= 0, not {tolerance}")
    n = len(X)
    level = _equalisation_target(n, columns, groups, tied, tied_target, include_target, noise, input_map, target_unit)
    weight = _initial_weights(sample_weight, n)
    proportions = _check_targets(targets, n if level.groups is None else int(level.groups.max()) + 1)
    problem: dict[str, Any] = {"intercept": intercept, "offset": offset, "penalised_intercept": penalised_intercept}
    path: list[ReweightingRound] = []
    for t in range(rounds + 1):
        start = path[-1].fit.w if path else None
        fitted = fit(X, y, loss, l2, sample_weight=weight, start=start, engine=engine, **problem)
        eta = level.figures(level.leakage(fitted, X, y))
        path.append(ReweightingRound(fitted, eta))
        if progress is not None:
            progress(t, path[-1])
        if unevenness(eta / proportions) <= tolerance:
            break
        _refuse_zero(level, eta)
        weight = reweight(weight, level.of_rows(eta / proportions))
    return Reweighting(tuple(path), level, proportions, float(tolerance))


def reweight(weight: FloatArray, eta: FloatArray) -> FloatArray:
    """(n,) line 7 of Algorithm 1: ω/η scaled to sum n.

    >>> reweight(np.array([1.0, 1.0]), np.array([1.0, 3.0]))
    array([1.5, 0.5])
    """
    new = weight / eta
    return np.asarray(new * (len(new) / new.sum()))


def summary(eta: FloatArray) -> tuple[float, float, float, float]:
    """Mean, std (ddof 1; 0 for a single unit), max, min: a row of a history."""
    return float(eta.mean()), float(eta.std(ddof=min(1, len(eta) - 1))), float(eta.max()), float(eta.min())


def unevenness(eta: FloatArray) -> float:
    """max/min - 1; infinite if only some are zero."""
    least, most = float(eta.min()), float(eta.max())
    return most / least - 1.0 if least > 0 else (np.inf if most > 0 else 0.0)


def _equalisation_target(
    n: int,
    columns: Any,
    groups: Sequence[Hashable] | None,
    tied: Sequence[int],
    tied_target: bool,
    include_target: bool,
    noise: Noise,
    input_map: Any,
    target_unit: float,
) -> EqualisationTarget:
    if noise is no_noise:
        raise Refusal("an exact release leaks without bound for any weights: pass a noise, or leave it out")
    if (len(tied) or tied_target) and groups is None:
        raise Refusal("tied columns and targets hold one value per group: pass groups")
    number = None
    if groups is not None:
        names = list(groups)
        if len(names) != n:
            raise Refusal(f"{n} rows need one group each, not {len(names)} groups")
        order = {g: k for k, g in enumerate(dict.fromkeys(names))}
        number = np.array([order[g] for g in names], dtype=np.intp)
    return EqualisationTarget(
        columns=None if columns is None else np.atleast_1d(np.asarray(columns, dtype=np.intp)),
        groups=number,
        tied=np.asarray(tied, dtype=np.intp) if len(tied) else None,
        tied_target=tied_target,
        include_target=include_target,
        noise=noise,
        input_map=None if input_map is None else np.asarray(input_map, dtype=np.float64),
        target_unit=target_unit,
    )


def _initial_weights(sample_weight: Any, n: int) -> FloatArray:
    if sample_weight is None:
        return np.ones(n)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,) or not (np.isfinite(weight).all() and (weight > 0).all()):
        raise Refusal(f"sample_weight needs {n} finite numbers > 0: a row of weight 0 would keep it")
    return np.asarray(weight * (n / weight.sum()))


def _check_targets(targets: Any, units: int) -> FloatArray:
    if targets is None:
        return np.ones(units)
    proportions = np.asarray(targets, dtype=np.float64)
    if proportions.shape != (units,) or not (np.isfinite(proportions).all() and (proportions > 0).all()):
        raise Refusal(f"targets needs a finite number > 0 for each of the {units} units")
    return proportions


def _refuse_zero(level: EqualisationTarget, eta: FloatArray) -> None:
    """A figure of 0 has no inverse, nor has one whose inverse is not finite."""
    with np.errstate(over="ignore", divide="ignore"):
        not_invertible = ~np.isfinite(1.0 / eta)
    if not_invertible.any():
        unit = int(np.flatnonzero(not_invertible)[0])
        raise Refusal(
            f"{level.name(unit)} leaks nothing (η = {eta[unit]:.3g}), and no weight would raise that to the others' "
            "level: drop it, or equalise another reading (the whole row instead of an attribute)"
        )
