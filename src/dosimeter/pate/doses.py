"""The privacy cost of the labels: the exact total of each teacher and so of each person, and the figure to publish.

The totals depend on private votes and are internal. The data-independent figure is the same for everyone and for every
table, also holds for queries chosen after earlier answers, and is the one to publish.
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
from dosimeter.pate.histograms import as_shift
from dosimeter.pate.threshold import Threshold, threshold_bound
from dosimeter.pate.vote_figures import exact_leakage, leakage_by_teacher, vote_figures
from dosimeter.pate.vote_noise import as_law
from dosimeter.pate.votes import Votes, as_classes

IDENTITY_SHIFT = 2
"""The `shift` that also covers who a person is, if each person's own id decides their teacher. Replacing a person moves
one vote of those without the person, and v - δᵢ + δⱼ gives class j no more than v + 2δⱼ (docs/explanation/pate.md, Not
covered).
"""
TEACHER = "teacher"
"""The unit of a teacher's dose: all data in its partition."""


@dataclass(frozen=True)
class PublicBound:
    """The figure to publish: nats about any one teacher's partition, and so about any one person in it.

    It covers what the person's rows hold, and whether they are in the table, if no other person's teacher depends on
    that. With shift=IDENTITY_SHIFT it also covers who the person is. It uses public constants alone, and holds for any
    votes and any choice of queries.

    Examples
    --------
    >>> from dosimeter.core.noise import Laplace
    >>> public_bound(100, 10, Laplace(100.0))
    <at most 0.998 nats in 100 queries, about any one teacher's part: upper bound, data-independent, queries may adapt>
    """

    nats: float
    """All queries together."""
    per_query: float
    n_queries: int
    standing = Standing.UPPER_BOUND

    @property
    def factor(self) -> float:
        """e^nats: no guess about one partition becomes likelier by more than this (infinite above 709 nats)."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.nats))

    def __repr__(self) -> str:
        return (
            f"<at most {self.nats:.4g} nats in {self.n_queries} queries, about any one teacher's part: "
            f"{self.standing.value}, data-independent, queries may adapt>"
        )


def public_bound(
    n_queries: int, n_classes: int, noise: Density, *, threshold: Threshold | None = None, shift: int = 1
) -> PublicBound:
    """The bound to publish, k·log B₁ (Prop. 12 of [Saeidian21], never above kγ); with a threshold, k times its bound.

    Parameters
    ----------
    n_queries : int
        k. Every query counts, answered or refused.
    n_classes : int
        m.
    noise : Density
        The noise of the vote.
    threshold : Threshold, optional
        The noisy threshold before the vote.
    shift : int, default 1
        c, the votes that one person controls.

    Returns
    -------
    PublicBound
        Public: it depends on no vote.

    Raises
    ------
    Refusal
        If an argument is out of range.
    CannotMeasure
        If the noise has no bound.

    Examples
    --------
    >>> from dosimeter.core.noise import Gumbel
    >>> round(public_bound(1, 2, Gumbel(1.0)).nats, 6)              # log 2e/(1 + e)
    0.379885
    """
    law = as_law(noise)
    k, m, c = as_queries(n_queries), as_classes(n_classes), as_shift(shift)
    if threshold is None:
        each = float(data_independent_bound(m, law, shift=c))
    else:
        each = threshold_bound(m, law, threshold, shift=c)
    return PublicBound(k * each, each, k)


def totals(votes: Votes, noise: Density, *, threshold: Threshold | None = None) -> FloatArray:
    """(teachers,) Σ over the queries of the exact leakage at v⁻, nats: eqs. 10 and 12 of [Saeidian21]. Internal."""
    return vote_figures(votes, noise, threshold=threshold, shown=0).totals


def leakage_matrix(votes: Votes, noise: Density, *, threshold: Threshold | None = None) -> FloatArray:
    """(teachers, queries) exact leakage of each query about each teacher's vote, nats, eq. 12. Internal."""
    return leakage_by_teacher(votes, exact_leakage(noise, threshold))


def worst_by_query(votes: Votes, noise: Density, *, threshold: Threshold | None = None) -> FloatArray:
    """(queries,) leakage about the teacher whom the query exposes most, nats. Internal."""
    return vote_figures(votes, noise, threshold=threshold).worst


def dose(
    votes: Votes,
    noise: Density,
    *,
    threshold: Threshold | None = None,
    ids: Sequence[Hashable] | None = None,
    person: Mapping[Hashable, int] | None = None,
    adaptive: bool = False,
    by_teacher: FloatArray | None = None,
) -> Dose:
    """The dose of each teacher, or of each person. Internal: it depends on private votes.

    Parameters
    ----------
    votes : Votes
        All votes.
    noise : Density
        The noise of the vote.
    threshold : Threshold, optional
        The noisy threshold before the vote.
    ids : sequence of hashable, optional
        Names of the teachers; default their numbers.
    person : mapping of hashable to int, optional
        For each person the teacher whose partition holds all of their rows. The person gets that teacher's total, an
        upper bound (eq. 11: a person need not be able to move a vote at will).
    adaptive : bool, default False
        Whether queries were chosen after earlier answers. Lemma 5 then does not hold for figures that depend on the
        votes, and everyone gets the data-independent bound.
    by_teacher : ndarray of shape (teachers,), optional
        The totals of these votes, if they were computed before.

    Returns
    -------
    Dose
        In nats. One query is exact about the teacher's vote (eq. 12). A sum is an upper bound by Lemma 5, attained if
        every combination of the teacher's votes is possible (docs/explanation/pate.md, The mechanism).

    Raises
    ------
    Refusal
        If both `ids` and `person` are given, or a teacher does not exist.

    Examples
    --------
    >>> from dosimeter.core.noise import Laplace
    >>> v = Votes([[0], [0], [1]], n_classes=2)
    >>> dose(v, Laplace(2.0), person={"ann": 0, "bob": 0, "eve": 2})      # ann: v⁻ = (1, 1), f = 2 - 1.25 e^-½
    <Dose of 3 persons: pointwise conditional maximal leakage (L), upper bound, highest L = 0.2166 (ann)>
    """
    if adaptive:
        each = public_bound(votes.n_queries, votes.n_classes, noise, threshold=threshold).nats
        by_teacher, standing = np.full(votes.n_teachers, each), Standing.UPPER_BOUND
    else:
        by_teacher = totals(votes, noise, threshold=threshold) if by_teacher is None else by_teacher
        standing = Standing.EXACT if votes.n_queries == 1 else Standing.UPPER_BOUND
    if person is not None:
        if ids is not None:
            raise Refusal("pass ids or person, not both")
        teachers = [votes.check_teacher(t) for t in person.values()]
        return Dose(LEAKAGE, "person", tuple(person), by_teacher[teachers], standing=Standing.UPPER_BOUND)
    names = tuple(range(votes.n_teachers)) if ids is None else tuple(ids)
    return Dose(LEAKAGE, TEACHER, names, by_teacher, standing=standing)


def as_queries(n_queries: Any) -> int:
    """k, a whole number >= 1, or a refusal."""
    if isinstance(n_queries, bool) or not isinstance(n_queries, int | np.integer) or n_queries < 1:
        raise Refusal(f"n_queries={n_queries!r}: must be a whole number >= 1")
    return int(n_queries)
