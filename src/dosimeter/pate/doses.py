"""What the labels cost: the exact total of each teacher, hence of each person it saw, and the figure for print.

The totals depend on private votes and are internal. The data-independent figure is the same for everybody and for
every table, holds for queries chosen after earlier answers too, and is the one to publish.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.density import Density
from dosimeter.core.dose import Dose
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import LEAKAGE, Standing
from dosimeter.pate.bounds import data_independent_bound
from dosimeter.pate.histograms import as_law, as_shift
from dosimeter.pate.leakage import leakage
from dosimeter.pate.threshold import Threshold, threshold_bound, threshold_leakage
from dosimeter.pate.votes import ByHistogram, Votes, as_classes

WHO = 2
"""The `shift` that covers who a person is, where each person's own id decides their teacher: whoever it is, one vote of
those without the person is moved, and v - δᵢ + δⱼ gives class j no more than v + 2δⱼ (docs/pate.md, Not covered)."""
TEACHER = "teacher"
"""The unit of a teacher's dose: whatever its partition of people told it."""


@dataclass(frozen=True)
class Published:
    """The figure for print: nats about any one teacher's partition, and so about any one person in it.

    About what the person's rows hold, and whether they are there, where nobody else's teacher depends on it; about who
    the person is too with shift=WHO.

    It is read off public constants alone, and holds whatever the votes and however the queries were chosen.

    >>> from dosimeter.core.noise import Laplace
    >>> published(100, 10, Laplace(100.0))
    <at most 0.998 nats in 100 queries, about any one teacher's part: upper bound, data-independent, queries may adapt>
    """

    nats: float
    per_query: float
    n_queries: int
    standing = Standing.UPPER_BOUND

    @property
    def factor(self) -> float:
        """e^nats: no guess about one partition gets likelier by more than this (infinite beyond 709 nats)."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.nats))

    def __repr__(self) -> str:
        return (
            f"<at most {self.nats:.4g} nats in {self.n_queries} queries, about any one teacher's part: "
            f"{self.standing.value}, data-independent, queries may adapt>"
        )


def published(
    n_queries: int, n_classes: int, noise: Density, *, threshold: Threshold | None = None, shift: int = 1
) -> Published:
    """k·log B₁ (Prop. 12 of [Saeidian21], never above its kγ), with a threshold k times its own bound.

    Every query counts, answered or refused. `shift` is the number of votes that one person holds.

    >>> from dosimeter.core.noise import Gumbel
    >>> round(published(1, 2, Gumbel(1.0)).nats, 6)              # log 2e/(1 + e)
    0.379885
    """
    law = as_law(noise)
    k, m, c = as_queries(n_queries), as_classes(n_classes), as_shift(shift)
    if threshold is None:
        each = float(data_independent_bound(m, law, shift=c))
    else:
        each = threshold_bound(m, law, threshold, shift=c)
    return Published(k * each, each, k)


def totals(votes: Votes, noise: Density, *, threshold: Threshold | None = None) -> FloatArray:
    """(teachers,) Σ over the queries of the exact leakage at v⁻, nats: eqs. 10 and 12 of [Saeidian21]. Internal."""
    return votes.totals(_leak(noise, threshold))


def leakage_matrix(votes: Votes, noise: Density, *, threshold: Threshold | None = None) -> FloatArray:
    """(teachers, queries) exact leakage of each query about each teacher's vote, nats, eq. 12. Internal."""
    return votes.matrix(_leak(noise, threshold))


def worst_by_query(votes: Votes, noise: Density, *, threshold: Threshold | None = None) -> FloatArray:
    """(queries,) the leakage about the teacher whom the query exposes most, nats. Internal."""
    out = np.empty(votes.n_queries)
    for rows, table in votes.by_own_vote(_leak(noise, threshold)):
        out[rows] = table.max(axis=1)
    return out


def dose(
    votes: Votes,
    noise: Density,
    *,
    threshold: Threshold | None = None,
    ids: Sequence[Hashable] | None = None,
    person: Mapping[Hashable, int] | None = None,
    adaptive: bool = False,
) -> Dose:
    """A `Dose` per teacher, or per person where `person` says whose data each teacher saw. Internal.

    person: id -> number of the one teacher whose partition holds all of the person's rows; the person inherits that
    teacher's total, an upper bound (eq. 11: a person need not be able to move a vote at will).
    adaptive: the queries were chosen after earlier answers. Lemma 5 is then not to be had for figures that depend on
    the votes, and everybody gets the data-independent bound.

    One query is exact about the teacher's vote (eq. 12). A sum is an upper bound by Lemma 5, attained where every
    combination of the teacher's votes is possible (docs/pate.md, The mechanism).

    >>> from dosimeter.core.noise import Laplace
    >>> v = Votes([[0], [0], [1]], n_classes=2)
    >>> dose(v, Laplace(2.0), person={"ann": 0, "bob": 0, "eve": 2})      # ann: v⁻ = (1, 1), f = 2 - 1.25 e^-½
    <Dose of 3 persons: pointwise conditional maximal leakage (L), upper bound, highest L = 0.2166 (ann)>
    """
    if adaptive:
        each = published(votes.n_queries, votes.n_classes, noise, threshold=threshold).nats
        by_teacher, standing = np.full(votes.n_teachers, each), Standing.UPPER_BOUND
    else:
        by_teacher = totals(votes, noise, threshold=threshold)
        standing = Standing.EXACT if votes.n_queries == 1 else Standing.UPPER_BOUND
    if person is not None:
        if ids is not None:
            raise Refusal("give ids of the teachers or the teacher of each person, not both")
        places = [votes.checked(t) for t in person.values()]
        return Dose(LEAKAGE, "person", tuple(person), by_teacher[places], standing=Standing.UPPER_BOUND)
    names = tuple(range(votes.n_teachers)) if ids is None else tuple(ids)
    return Dose(LEAKAGE, TEACHER, names, by_teacher, standing=standing)


def as_queries(n_queries: Any) -> int:
    """k, a whole number >= 1, or a refusal."""
    if isinstance(n_queries, bool) or not isinstance(n_queries, int | np.integer) or n_queries < 1:
        raise Refusal(f"n_queries={n_queries!r}: must be a whole number >= 1")
    return int(n_queries)


def _leak(noise: Density, threshold: Threshold | None) -> ByHistogram:
    law = as_law(noise)
    if threshold is None:
        return lambda others: leakage(others, law)
    return lambda others: threshold_leakage(others, law, threshold)
