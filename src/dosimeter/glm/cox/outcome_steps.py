"""Steps of an outcome of a Cox model: how the gradient changes as one row's time or event changes for real.

A time counts through the order alone, so it has no derivative: it steps from one place in the order to another. The
gradient at a table with row i at place s is that without the row plus

    censored at s     Σ gain over the slots up to s
    event at slot s   Σ gain over the slots before s + tie at s
    event before s    Σ gain over the slots before s + gap at s

| of slot s, where  | changes of the terms of the other rows' events                           |
| gain              | the row is at risk                                                       |
| tie               | the row is one more event of the slot; Efron's d and f change too        |
| gap               | the row is an event just before it, alone: ω (x̄ of those at risk - x)   |

Each is a mixture of the row, the others at risk and the events there, (row, others, events) below. All are exact at
the fitted weights. With T slots and q released values O(n (T + terms) + n T q) time; an event alone O(n q + ties).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.errors import Refusal
from dosimeter.core.progress import track
from dosimeter.glm.cox.risk_sets import RiskSets

BLOCK = 1 << 15
"""Numbers in one temporary array: a few of them stay in a cache."""
LOST = 1e-11
"""A row's share of a risk set may not be closer to one than this: the rest is a difference."""


class Mixture(NamedTuple):
    """Coefficients of the row, of the sum over the others at risk, and of the sum over the events."""

    row: FloatArray
    others: FloatArray
    events: FloatArray


@dataclass(frozen=True, eq=False)
class Steps:
    """(n, q) the largest step of each row, rows in the order of the table; q numbers as in the columns U."""

    time: FloatArray
    """To another place in the order, the event kept."""
    outcome: FloatArray
    """To another place, another event, or both."""


@dataclass(frozen=True, eq=False)
class _Sums:
    """What a stratum's slots are: sums over rows at risk (T,), with columns (T, q), and events."""

    others: FloatArray
    events: FloatArray
    other_columns: FloatArray
    event_columns: FloatArray
    deaths: Index
    death_weight: FloatArray
    efron: bool


def event_steps(risk: RiskSets, theta: FloatArray, U: FloatArray) -> FloatArray:
    """(n, q) change of the gradient as δ goes from 0 to 1; theta (n,), U (n, q) of sorted rows, result as the table.

    For Breslow ties, and wherever no other event has the same time, the gradient is linear in δ: this is a derivative.
    """
    sums = _sums(risk, theta, U)
    gain, tie = _own_slot(risk, theta, sums)
    flip = Mixture(*(with_event - without for without, with_event in zip(gain, tie, strict=True)))
    others, events = sums.other_columns[risk.slot], sums.event_columns[risk.slot]
    return risk.unsort(flip.row[:, None] * U + flip.others[:, None] * others + flip.events[:, None] * events)


def outcome_steps(risk: RiskSets, theta: FloatArray, U: FloatArray) -> Steps:
    """The largest steps of every row; theta (n,) and U (n, q) of sorted rows."""
    sums = _sums(risk, theta, U)
    own = _own_slot(risk, theta, sums)
    time, outcome = np.zeros_like(U), np.zeros_like(U)
    ends, blocks = np.append(risk.starts, risk.n), []
    for part in risk.segments:
        terms = int(sums.deaths[part].sum()) if sums.efron else 0
        step = max(1, BLOCK // (part.stop - part.start + terms))
        first, last = int(ends[part.start]), int(ends[part.stop])
        blocks += [(part, slice(i, min(i + step, last))) for i in range(first, last, step)]
    for part, rows in track(blocks):
        path = _path(risk, theta, U, sums, part, rows, own)
        time[rows], outcome[rows] = path.largest()
    return Steps(risk.unsort(time), risk.unsort(outcome))


def _sums(risk: RiskSets, theta: FloatArray, U: FloatArray) -> _Sums:
    others, events = risk.at_risk(theta)
    columns = risk.at_risk(theta[:, None] * U)
    return _Sums(others, events, *columns, risk.deaths, risk.death_weight, risk.ties == "efron")


@dataclass(frozen=True, eq=False)
class _Path:
    """The gradient as a row moves through the slots of its stratum, for a block of rows; mixtures are (b, T)."""

    U: FloatArray
    """(b, q)."""
    others: FloatArray
    """(T, q), and `events`: the sums that the mixtures are about."""
    events: FloatArray
    gain: Mixture
    tie: Mixture
    gap: Mixture
    slot: Index
    """(b,) where each row is."""
    died: Mask

    def largest(self) -> tuple[FloatArray, FloatArray]:
        """(b, q) the largest steps of the time and of the outcome."""
        start, censored, tied, between = self._squares()
        slots = censored.shape[1]
        # An event after everybody is alone at risk, and moves the gradient as a censoring there does.
        never = np.full((len(start), slots - 1), -1.0)
        end = censored[:, -1:]
        as_censored, as_event = np.hstack([start, censored]), np.hstack([never, end, tied, between])
        as_event = np.hstack([np.full_like(start, -1.0), as_event])
        time = np.where(self.died, np.argmax(as_event, axis=1), np.argmax(as_censored, axis=1))
        outcome = np.argmax(np.hstack([as_censored, tied, between]), axis=1)
        truth = self._at(np.where(self.died, slots, 0) + self.slot + 1)
        return self._at(time) - truth, self._at(outcome) - truth

    def _squares(self) -> tuple[FloatArray, ...]:
        """Squared steps (b, 1) to before everything, and (b, T) to a censoring, a tied and a single event at a slot."""
        each = np.arange(len(self.slot))
        start, shape = np.zeros((len(each), 1)), self.gain.row.shape
        censored, tied, between = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        place = np.zeros((shape[0], shape[1] + 1))
        for k in range(self.U.shape[1]):
            column = self.U[:, k, None], self.others[:, k], self.events[:, k]
            place[:, 0] = 0.0
            np.cumsum(_mix(self.gain, *column), axis=1, out=place[:, 1:])
            tie, gap = _mix(self.tie, *column), _mix(self.gap, *column)
            truth = np.where(self.died, place[each, self.slot] + tie[each, self.slot], place[each, self.slot + 1])[
                :, None
            ]
            place -= truth
            start += place[:, :1] ** 2
            censored += place[:, 1:] ** 2
            tied += (place[:, :-1] + tie) ** 2
            between += (place[:, :-1] + gap) ** 2
        return start, censored, tied, between

    def _at(self, place: Index) -> FloatArray:
        """(b, q) the gradient at a place: 0 before everything, then T censorings, T tied and T single events."""
        slots, each = len(self.others), np.arange(len(place))
        kind, at = np.divmod(place - 1, slots)
        passed = np.arange(slots) < np.where(kind > 0, at, place)[:, None]
        gain = Mixture(*(np.where(passed, values, 0.0) for values in self.gain))
        out = gain.row.sum(axis=1)[:, None] * self.U + gain.others @ self.others + gain.events @ self.events
        for number, extra in ((1, self.tie), (2, self.gap)):
            mine = kind == number
            picked = Mixture(*(values[each, at][:, None] for values in extra))
            out[mine] += _mix(picked, self.U, self.others[at], self.events[at])[mine]
        return np.asarray(out)


def _mix(mixture: Mixture, row: FloatArray, others: FloatArray, events: FloatArray) -> FloatArray:
    return np.asarray(mixture.row * row + mixture.others * others + mixture.events * events)


def _path(
    risk: RiskSets,
    theta: FloatArray,
    U: FloatArray,
    sums: _Sums,
    part: slice,
    rows: slice,
    own: tuple[Mixture, Mixture],
) -> _Path:
    """The path of a block of sorted rows of one stratum."""
    t, omega, slot = theta[rows, None], risk.weight[rows, None], risk.slot[rows] - part.start
    at_risk = np.arange(part.stop - part.start) <= slot[:, None]
    a = np.maximum(sums.others[part] - t * at_risk, 0.0)
    b = np.broadcast_to(sums.events[part], a.shape)
    mixtures = _mixtures(a, b, sums.deaths[part], sums.death_weight[part], t, omega, sums.efron)
    # The sums hold the row where it is at risk: among the others before its own slot, which is replaced.
    gain, tie, gap = (Mixture(c.row - t * at_risk * c.others, c.others, c.events) for c in mixtures)
    everybody = omega[:, 0] / (sums.others + sums.events)[risk.slot[rows]]
    own_gap = Mixture(-omega[:, 0], everybody, everybody)
    own_gain, own_tie = (Mixture(*(values[rows] for values in mixture)) for mixture in own)
    for mixture, exact in ((gain, own_gain), (tie, own_tie), (gap, own_gap)):
        for values, at_own in zip(mixture, exact, strict=True):
            values[np.arange(len(slot)), slot] = at_own
    return _Path(U[rows], sums.other_columns[part], sums.event_columns[part], gain, tie, gap, slot, risk.event[rows])


def _own_slot(risk: RiskSets, theta: FloatArray, sums: _Sums) -> tuple[Mixture, Mixture]:
    """Gain and tie of every sorted row at its own slot, as mixtures of sums that hold the row."""
    gain, tie = (Mixture(*(np.empty(risk.n) for _ in range(3))) for _ in range(2))
    tied_with = sums.deaths[risk.slot] - risk.event
    for deaths in np.unique(tied_with):
        alike = np.flatnonzero(tied_with == deaths)
        step = max(1, BLOCK // (int(deaths) + 1))
        for rows in (alike[i : i + step] for i in range(0, len(alike), step)):
            slot, died = risk.slot[rows], risk.event[rows, None]
            t, omega = theta[rows, None], risk.weight[rows, None]
            a = np.maximum(sums.others[slot, None] - t * ~died, 0.0)
            b = np.maximum(sums.events[slot, None] - t * died, 0.0)
            weight = np.where(deaths > 0, sums.death_weight[slot, None] - omega * died, 0.0)
            pair = _mixtures(a, b, np.array([deaths]), weight, t, omega, sums.efron)[:2]
            for out, c in zip((gain, tie), pair, strict=True):
                out.row[rows] = (c.row - t * np.where(died, c.events, c.others))[:, 0]
                out.others[rows], out.events[rows] = c.others[:, 0], c.events[:, 0]
    return gain, tie


def _mixtures(
    a: FloatArray,
    b: FloatArray,
    deaths: Index,
    weight: FloatArray,
    t: FloatArray,
    omega: FloatArray,
    efron: bool,
) -> tuple[Mixture, Mixture, Mixture]:
    """Gain, tie and gap where the sums a of the others at risk and b of the events (rows, T) do not hold the row.

    deaths (T,), weight (T,) or (rows, T): events of other rows; t, omega (rows, 1): θ and ω of the row.
    """
    total = a + b
    if (total[:, deaths > 0] <= LOST * t).any():
        raise Refusal(
            "one row outweighs all others of a risk set by more than float64 can count, so the step of its time is "
            "not certain: use a larger l2, or clip the outermost rows"
        )
    share = 1.0 / (total + t)
    gap = Mixture(-omega * total * share, omega * share, omega * share)
    if efron:
        gain, tie = _efron(a, b, deaths, weight, t, omega)
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.where(deaths > 0, weight * t / total, 0.0)
        gain = Mixture(scale * total * share, -scale * share, -scale * share)
        tie = Mixture(*(x + y for x, y in zip(gain, gap, strict=True)))
    # Alone at risk a row changes nothing: exactly zero, for a release without noise is infinite where it is not.
    alone = total == 0.0
    return _unless(alone, gain), _unless(alone, tie), _unless(alone, gap)


def _unless(mask: Mask, mixture: Mixture) -> Mixture:
    return Mixture(*(np.where(mask, 0.0, values) for values in mixture))


def _efron(
    a: FloatArray, b: FloatArray, deaths: Index, weight: FloatArray, t: FloatArray, omega: FloatArray
) -> tuple[Mixture, Mixture]:
    """Gain and tie for Efron's terms: sums over f = 1/d ... 1 for every slot."""
    slot, f = _fractions(deaths)
    E = a[:, slot] + f * b[:, slot]
    per_term = np.where(deaths > 0, weight / np.maximum(deaths, 1), 0.0)
    with_row, plain = 1.0 / (E + t), 1.0 / E
    gain = Mixture(
        per_term * t * _add(with_row, slot, a.shape),
        -per_term * t * _add(plain * with_row, slot, a.shape),
        -per_term * t * _add(f * plain * with_row, slot, a.shape),
    )
    more, g = _fractions(deaths + 1)
    tied = 1.0 / (a[:, more] + g * (b[:, more] + t))
    per_term_tied = (weight + omega) / (deaths + 1)
    others, events = per_term_tied * _add(tied, more, a.shape), per_term_tied * _add(g * tied, more, a.shape)
    tie = Mixture(
        t * events - omega,
        others - per_term * _add(plain, slot, a.shape),
        events - per_term * _add(f * plain, slot, a.shape),
    )
    return gain, tie


def _fractions(deaths: Index) -> tuple[Index, FloatArray]:
    """The slot and f = 1/d ... 1 of Efron's terms of slots with d events."""
    slot = np.repeat(np.arange(len(deaths)), deaths)
    number = np.arange(len(slot)) - np.repeat(np.cumsum(deaths) - deaths, deaths) + 1
    return slot, number / deaths[slot]


def _add(values: FloatArray, slot: Index, shape: tuple[int, ...]) -> FloatArray:
    """(rows, T) sums of (rows, terms) over the terms of each slot."""
    out = np.zeros(shape)
    if len(slot):
        first = np.flatnonzero(np.diff(slot, prepend=-1))
        out[:, slot[first]] = np.add.reduceat(values, first, axis=1)
    return out
