"""Schedules: how many clients are asked in round t, and with which noise multiplier. Public, fixed beforehand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from dosimeter.core.checks import number, whole
from dosimeter.core.errors import Refusal
from dosimeter.federated.client_sampling import MOST_CLIENTS


class RoundParameters(NamedTuple):
    """What round t asks for."""

    per_round: float
    """m_t, the expected (or fixed) number of clients."""
    noise: float
    """z_t, standard deviation of the noise of the whole round over the norm of one client's contribution."""


class Schedule(Protocol):
    """Terms of every round, from its number alone."""

    def terms(self, t: int) -> RoundParameters:
        """Terms of round t = 0, 1, ..."""


class ScheduleEnded(Refusal):
    """A given list has no further round."""


@dataclass(frozen=True)
class Constant:
    """The same terms in every round.

    >>> Constant(220, 1.25).terms(7)
    Terms(per_round=220, noise=1.25)
    """

    per_round: float
    noise: float

    def __post_init__(self) -> None:
        _refuse_bad(self.per_round, self.noise)

    def terms(self, t: int) -> RoundParameters:
        """m and z."""
        return RoundParameters(self.per_round, self.noise)


@dataclass(frozen=True)
class Ramp:
    """m_t rises in equal steps from `start` to `per_round` within `rounds` rounds, at constant z_t²/m_t.

    The ratio σ²/m is what [Geyer19] calls distortion. The averaged noise has standard deviation zC/m, so at constant
    z²/m it is proportional to 1/√m_t: early rounds of a ramp are *more* distorted, not equally (docs/federated.md).

    >>> [Ramp(50, 200, 1.0, 4).terms(t) for t in (0, 3, 9)]
    [Terms(per_round=50, noise=0.5), Terms(per_round=200, noise=1.0), Terms(per_round=200, noise=1.0)]
    """

    start: float
    per_round: float
    noise: float
    """z once m_t has reached `per_round`."""
    rounds: int

    def __post_init__(self) -> None:
        _refuse_bad(self.start, self.noise)
        _refuse_bad(self.per_round, self.noise)
        whole("rounds", self.rounds, 1, 1 << 20)

    def terms(self, t: int) -> RoundParameters:
        """m_t rounded to a whole number, so that equal rounds are accounted together and m can be a fixed size."""
        if t >= self.rounds - 1:
            return RoundParameters(self.per_round, self.noise)
        m = round(self.start + (self.per_round - self.start) * t / (self.rounds - 1))
        m = max(m, 1)
        return RoundParameters(m, self.noise * math.sqrt(m / self.per_round))


@dataclass(frozen=True)
class ListedSchedule:
    """Terms round by round; after the last the training ends.

    >>> ListedSchedule((10, 20), (1.0, 1.5)).terms(1)
    Terms(per_round=20, noise=1.5)
    """

    per_round: tuple[float, ...]
    noise: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.per_round or len(self.per_round) != len(self.noise):
            raise Refusal(
                f"{len(self.per_round)} numbers of clients and {len(self.noise)} multipliers: give one of each a round"
            )
        for m, z in zip(self.per_round, self.noise, strict=True):
            _refuse_bad(m, z)

    def terms(self, t: int) -> RoundParameters:
        """The t-th of each list."""
        if t >= len(self.per_round):
            raise ScheduleEnded(f"round {t}: the schedule has {len(self.per_round)} rounds")
        return RoundParameters(self.per_round[t], self.noise[t])


def _refuse_bad(per_round: Any, noise: Any) -> None:
    number("per_round", per_round, 0, MOST_CLIENTS)
    number("noise", noise, 0, 1e6)
