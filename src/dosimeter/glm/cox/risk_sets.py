"""Risk sets of a Cox model [Cox72], by running sums over the order of the times.

A *slot* is one distinct time of one stratum. Rows are kept in the order of the slots. With δ the event, ω the weight
and θ = ω exp(m) of each row, every slot with d events of total weight W has *terms*, one sum E of its risk set each:

| ties    | terms of a slot  | coefficient c | E                                            |
| Breslow | one              | W             | Σ θ over all rows at risk       [Breslow74]  |
| Efron   | d: f = 1/d ... 1 | W / d         | Σ θ of the others at risk + f Σ θ of the events  [Efron77] |

-log partial likelihood = Σ c log E - Σ ω δ m. Everything costs O(rows + terms) per column.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask

Ties = Literal["efron", "breslow"]


@dataclass(frozen=True, eq=False)
class RiskSets:
    """The order of the times, strata, events and weights. Rows are in sorted order in every array, see `order`."""

    order: Index
    """(n,) the row of the table at each sorted position."""
    slot: Index
    """(n,) the slot of each sorted row."""
    starts: Index
    """(T,) the first sorted row of each slot."""
    segments: tuple[slice, ...]
    """The slots of each stratum."""
    stratum: Index
    """(n,) the stratum of each sorted row."""
    event: Mask
    """(n,) δ."""
    weight: FloatArray
    """(n,) ω."""
    deaths: Index
    """(T,) d, the events of each slot."""
    death_weight: FloatArray
    """(T,) W, their total weight."""
    term_slot: Index
    """(E,) the slot of each term."""
    fraction: FloatArray
    """(E,) f."""
    coefficient: FloatArray
    """(E,) c."""
    ties: Ties

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.order)

    def unsort(self, values: FloatArray) -> FloatArray:
        """Values of sorted rows in the order of the table."""
        out = np.empty_like(values)
        out[self.order] = values
        return out

    def ever_at_risk(self) -> Mask:
        """(n,) whether a sorted row is in the risk set of some event: none that left before its stratum's first."""
        first = np.full(len(self.segments), len(self.starts))
        for k, part in enumerate(self.segments):
            with_events = np.flatnonzero(self.deaths[part])
            first[k] = part.start + with_events[0] if len(with_events) else part.stop
        return np.asarray(self.slot >= first[self.stratum])

    def by_slot(self, values: FloatArray) -> FloatArray:
        """(T, ...) sums over the rows of each slot."""
        return np.add.reduceat(values, self.starts, axis=0)

    def by_term(self, values: FloatArray) -> FloatArray:
        """(T, ...) sums over the terms of each slot; zero for a slot without events."""
        out = np.zeros((len(self.starts), *values.shape[1:]))
        if len(values):
            first = np.flatnonzero(np.diff(self.term_slot, prepend=-1))
            out[self.term_slot[first]] = np.add.reduceat(values, first, axis=0)
        return out

    def at_risk(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(T, ...) sums over the rows at risk at each slot: those without an event there, and the events there.

        Apart, because f multiplies the second; as a difference the first would lose digits.
        """
        died = self.event.reshape(-1, *[1] * (values.ndim - 1))
        tied, left = self.by_slot(np.where(died, values, 0.0)), self.by_slot(np.where(died, 0.0, values))
        leaving = tied + left
        for part in self.segments:
            later = np.cumsum(leaving[part][::-1], axis=0)[::-1]
            left[part][:-1] += later[1:]
        return left, tied

    def before(self, values: FloatArray) -> FloatArray:
        """(T, ...) sums over the earlier slots of the stratum, the slot itself not counted."""
        out = np.zeros_like(values)
        for part in self.segments:
            out[part][1:] = np.cumsum(values[part][:-1], axis=0)
        return out


def risk_sets(time: FloatArray, event: Mask, strata: Index, weight: FloatArray, ties: Ties) -> RiskSets:
    """The risk sets of rows with these times, events (n,), strata 0, 1, ... (n,) and weights > 0 (n,)."""
    order = np.lexsort((time, strata)).astype(np.intp)
    t, s = time[order], strata[order]
    new = np.ones(len(t), dtype=bool)
    new[1:] = (t[1:] != t[:-1]) | (s[1:] != s[:-1])
    starts, slot = np.flatnonzero(new), np.cumsum(new) - 1
    edges = np.flatnonzero(np.diff(s[starts], prepend=-1, append=-1))
    died, omega = event[order], weight[order]
    deaths = np.add.reduceat(died.astype(np.intp), starts)
    death_weight = np.add.reduceat(np.where(died, omega, 0.0), starts)
    terms = deaths if ties == "efron" else np.minimum(deaths, 1)
    term_slot = np.repeat(np.arange(len(starts)), terms)
    number = np.arange(len(term_slot)) - np.repeat(np.cumsum(terms) - terms, terms) + 1
    return RiskSets(
        order=order,
        slot=slot,
        starts=starts,
        segments=tuple(slice(int(a), int(b)) for a, b in pairwise(edges)),
        stratum=s,
        event=died,
        weight=omega,
        deaths=deaths,
        death_weight=death_weight,
        term_slot=term_slot,
        fraction=number / terms[term_slot],
        coefficient=death_weight[term_slot] / terms[term_slot],
        ties=ties,
    )
