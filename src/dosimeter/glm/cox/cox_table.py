"""The table of a Cox model: checked arrays, risk sets, centred columns, and the penalty of each weight.

The partial likelihood does not change if a constant is added to a column within a stratum, so columns are centred
there. A subtraction is correctly rounded: a column far from zero loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.errors import Refusal
from dosimeter.glm.cox.risk_sets import RiskSets, Ties, risk_sets
from dosimeter.glm.fitting.existence import falls_for_ever
from dosimeter.glm.linalg.validation import HUGE, as_floats, check_table


@dataclass(frozen=True, eq=False)
class CoxTable:
    """What a fit needs. `X`, `time`, `event`, `strata` are in the table's order, `centred` in that of the risk sets."""

    X: FloatArray
    """(n, p)."""
    time: FloatArray
    event: Mask
    strata: Index
    risk: RiskSets
    centred: FloatArray
    """(n, p) X minus a constant for each stratum; sorted rows."""
    l2: FloatArray
    """(p,) λ of each column."""
    standardised: bool
    """Whether the penalty is on w times the standard deviation of its column, as in lifelines."""
    offset: FloatArray
    """(n,) known constants added to the margins; sorted rows."""

    @property
    def variance(self) -> FloatArray:
        """(p,) of each column over all rows, divided by n - 1."""
        return np.asarray(np.var(self.X, axis=0, ddof=1))

    @property
    def penalty(self) -> FloatArray:
        """(p,) Λ: the objective has ½ Σ Λ w²."""
        n_l2 = len(self.X) * self.l2
        return n_l2 * self.variance if self.standardised else n_l2

    @property
    def outcome(self) -> FloatArray:
        """(n,) all that the model sees of time and event: twice the position of the time, plus the event."""
        return np.asarray(2.0 * np.unique(self.time, return_inverse=True)[1].reshape(-1) + self.event)

    def refuse_monotone(self, Z: FloatArray, T: FloatArray) -> None:
        """Refuse if the partial likelihood reaches its supremum only at infinity; Z = centred T, sorted rows."""
        if (self.penalty > 0).all():
            return
        rows, fixed = event_differences(self.risk, Z)
        if falls_for_ever(rows, np.vstack([fixed, T[self.penalty > 0]])):
            raise Refusal(
                "the likelihood is monotone: along some mixture of the columns every event has the highest value in "
                "its risk set, so without a penalty the weights grow to infinity; use l2 > 0"
            )


def cox_table(
    X: Any, time: Any, event: Any, strata: Any, sample_weight: Any, ties: Ties, l2: Any, standardised: bool, offset: Any
) -> CoxTable:
    """The checked table; every fault is named."""
    delta = _events(event)
    X, _, weight = check_table(X, delta, sample_weight)
    n, p = X.shape
    t = as_floats(time, "time")
    if t.shape != (n,) or not np.isfinite(t).all():
        raise Refusal(f"time must hold one finite number for each of the {n} rows")
    if (weight == 0).any():
        raise Refusal(f"sample_weight of row {int(np.argmin(weight))} is zero: leave the row out")
    if not delta.any():
        raise Refusal("every row is censored: without an event there is nothing to fit")
    if ties not in ("efron", "breslow"):
        raise Refusal(f"ties must be 'efron' or 'breslow', not {ties!r}")
    codes = _codes(strata, n)
    penalty = _penalty(l2, p)
    if standardised and penalty.any() and n < 2:
        raise Refusal("a penalty on standardised columns needs at least two rows")
    risk = risk_sets(t, delta, codes, weight, ties)
    centred = _centred(X, risk)
    constant = ~centred[risk.ever_at_risk()].any(axis=0)
    if (constant & ~(penalty * (np.ptp(X, axis=0) > 0 if standardised else 1.0) > 0)).any():
        j = int(np.flatnonzero(constant)[0])
        raise Refusal(
            f"column {j} is constant among the rows at risk of each stratum, so its weight is not determined: drop it "
            "(a Cox model has no intercept)"
        )
    return CoxTable(X, t, delta, codes, risk, centred, penalty, bool(standardised), _offset(offset, n)[risk.order])


def event_differences(risk: RiskSets, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows (k, p) and fixed rows (k', p): the likelihood is monotone along v iff rows · v >= 0 and fixed · v = 0.

    Every event must have the highest margin of its risk set. One event stands for each slot: it is compared with the
    rows that leave before the next slot with events, and with that slot's event; risk sets are nested.
    """
    rows, fixed = [np.empty((0, Z.shape[1]))], [np.empty((0, Z.shape[1]))]
    for part in risk.segments:
        slots = part.start + np.flatnonzero(risk.deaths[part])
        if not len(slots):
            continue
        ends = np.append(risk.starts, risk.n)
        here = np.arange(risk.starts[slots[0]], ends[part.stop])
        owner = np.searchsorted(slots, risk.slot[here], side="right") - 1
        died = risk.event[here]
        event_rows = here[died]
        first = event_rows[np.flatnonzero(np.diff(risk.slot[event_rows], prepend=-1))]
        rows += [Z[first[owner[~died]]] - Z[here[~died]], Z[first[:-1]] - Z[first[1:]]]
        fixed.append(Z[first[owner[died]]] - Z[event_rows])
    return np.concatenate(rows), np.concatenate(fixed)


def _centred(X: FloatArray, risk: RiskSets) -> FloatArray:
    """(n, p) sorted rows minus the mean of their stratum's rows that are ever at risk, or of all its rows."""
    Z, used = X[risk.order], risk.ever_at_risk()
    out = np.empty_like(Z)
    ends = np.append(risk.starts, risk.n)
    for part in risk.segments:
        rows = slice(int(ends[part.start]), int(ends[part.stop]))
        counted = Z[rows][used[rows]] if used[rows].any() else Z[rows]
        # The first row of a constant column equals its mean; a mean may be off by one rounding.
        centre = np.where(np.ptp(counted, axis=0) > 0, counted.mean(axis=0), counted[0])
        out[rows] = Z[rows] - centre
    return out


def _events(event: Any) -> Mask:
    values = as_floats(event, "event")
    bad = (values != 0) & (values != 1)
    if values.ndim != 1 or bad.any():
        row = int(np.flatnonzero(bad)[0]) if values.ndim == 1 else 0
        raise Refusal(f"event must be 1 (it happened) or 0 (censored) in every row; row {row} has something else")
    return values.astype(bool)


def _codes(strata: Any, n: int) -> Index:
    """(n,) 0, 1, ... for the strata; one stratum if None."""
    if strata is None:
        return np.zeros(n, dtype=np.intp)
    values = np.asarray(strata)
    if values.shape != (n,):
        raise Refusal(f"strata must have one value for each of the {n} rows, not shape {values.shape}")
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise Refusal(f"row {int(np.argmax(np.isnan(values)))} has no stratum: fill it or leave the row out")
    return np.asarray(np.unique(values, return_inverse=True)[1].reshape(-1), dtype=np.intp)


def _offset(offset: Any, n: int) -> FloatArray:
    values = np.zeros(n) if offset is None else as_floats(offset, "offset")
    if values.shape != (n,) or not (np.abs(values) <= HUGE).all():
        raise Refusal(f"offset must hold one finite number for each of the {n} rows")
    return values


def _penalty(l2: Any, p: int) -> FloatArray:
    values = np.broadcast_to(as_floats(l2, "l2"), (p,)) if np.shape(l2) in ((), (p,)) else np.full(p, np.nan)
    if isinstance(l2, bool) or not ((values >= 0) & (values <= HUGE)).all():
        raise Refusal(f"l2 must be a finite number >= 0 (and at most {HUGE:g}), or one for each of the {p} columns")
    return values.copy()
