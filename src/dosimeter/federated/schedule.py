"""Schedules: expected clients and noise multiplier of round t. Public, fixed in advance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from dosimeter.core.checks import number, whole
from dosimeter.core.errors import Refusal
from dosimeter.federated.client_sampling import MOST_CLIENTS


class RoundParameters(NamedTuple):
    """Parameters of one round."""

    per_round: float
    """m_t, the expected (or fixed) number of clients."""
    noise: float
    """z_t, standard deviation of the noise of the whole round over the norm of one client's contribution."""


class Schedule(Protocol):
    """Parameters of every round, from its number only."""

    def parameters(self, t: int) -> RoundParameters:
        """Parameters of round t = 0, 1, ..."""


class ScheduleEnded(Refusal):
    """A listed schedule has no further round."""


@dataclass(frozen=True)
class Constant:
    """The same parameters in every round.

    Parameters
    ----------
    per_round : float
        m, the expected (or fixed) number of clients.
    noise : float
        z, the standard deviation of the noise of the whole round over the norm of one client's contribution.

    Raises
    ------
    Refusal
        If m is not in (0, 2^30] or z not in (0, 1e6].

    Examples
    --------
    >>> Constant(220, 1.25).parameters(7)
    RoundParameters(per_round=220, noise=1.25)
    """

    per_round: float
    noise: float

    def __post_init__(self) -> None:
        _refuse_bad(self.per_round, self.noise)

    def parameters(self, t: int) -> RoundParameters:
        """m and z."""
        return RoundParameters(self.per_round, self.noise)


@dataclass(frozen=True)
class Ramp:
    """m_t rises in equal steps, at constant z_t²/m_t.

    Parameters
    ----------
    start : float
        m_0.
    per_round : float
        m once the ramp has ended.
    noise : float
        z once the ramp has ended.
    rounds : int
        Rounds of the ramp.

    Raises
    ------
    Refusal
        If a parameter is out of range.

    Notes
    -----
    [Geyer19] calls σ²/m the distortion. The averaged noise has standard deviation zC/m, so at constant z²/m it is
    proportional to 1/√m_t: early rounds of a ramp are *more* distorted, not equally (docs/explanation/federated.md).

    Examples
    --------
    >>> [Ramp(50, 200, 1.0, 4).parameters(t).noise for t in (0, 3, 9)]
    [0.5, 1.0, 1.0]
    """

    start: float
    per_round: float
    noise: float
    rounds: int

    def __post_init__(self) -> None:
        _refuse_bad(self.start, self.noise)
        _refuse_bad(self.per_round, self.noise)
        whole("rounds", self.rounds, 1, 1 << 20)

    def parameters(self, t: int) -> RoundParameters:
        """m_t rounded to a whole number, so that equal rounds are accounted together and m can be a fixed size."""
        if t >= self.rounds - 1:
            return RoundParameters(self.per_round, self.noise)
        m = round(self.start + (self.per_round - self.start) * t / (self.rounds - 1))
        m = max(m, 1)
        return RoundParameters(m, self.noise * math.sqrt(m / self.per_round))


@dataclass(frozen=True)
class ListedSchedule:
    """Parameters listed round by round; training ends after the last.

    Parameters
    ----------
    per_round : tuple of float
        m_0, m_1, ...
    noise : tuple of float
        z_0, z_1, ...

    Raises
    ------
    Refusal
        If the lists are empty, of unequal length, or hold values out of range. `parameters(t)` beyond the end
        raises `ScheduleEnded`.

    Examples
    --------
    >>> ListedSchedule((10, 20), (1.0, 1.5)).parameters(1)
    RoundParameters(per_round=20, noise=1.5)
    """

    per_round: tuple[float, ...]
    noise: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.per_round or len(self.per_round) != len(self.noise):
            raise Refusal(
                f"{len(self.per_round)} values of per_round but {len(self.noise)} of noise: give one of each per round"
            )
        for m, z in zip(self.per_round, self.noise, strict=True):
            _refuse_bad(m, z)

    def parameters(self, t: int) -> RoundParameters:
        """The t-th of each list."""
        if t >= len(self.per_round):
            raise ScheduleEnded(f"round {t}: the schedule has only {len(self.per_round)} rounds")
        return RoundParameters(self.per_round[t], self.noise[t])


def _refuse_bad(per_round: Any, noise: Any) -> None:
    number("per_round", per_round, 0, MOST_CLIENTS)
    number("noise", noise, 0, 1e6)
