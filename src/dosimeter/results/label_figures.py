"""What labels by noisy vote give away, as a plain dict: the figure for print apart from everything internal."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from dosimeter.core.density import Density
from dosimeter.core.notion import Standing
from dosimeter.pate.accounting import epsilon
from dosimeter.pate.doses import WHO, dose, published, totals, worst_by_query
from dosimeter.pate.label import Labels
from dosimeter.pate.threshold import Threshold
from dosimeter.pate.votes import Votes
from dosimeter.results.distribution import distribution

QUERIES, TEACHERS = 200, 50
"""So many are shown one by one."""
WIDE = 4
"""Noise of a scale above a quarter of the teachers drowns the vote (on the demo's digits, half of the labels)."""


def voted(
    votes: Votes,
    labels: Labels,
    noise: Density,
    *,
    threshold: Threshold | None = None,
    delta: float = 1e-5,
    teacher_of: Mapping[Hashable, int] | None = None,
    named: bool = False,
    declared: bool = True,
) -> dict[str, Any]:
    """Facts about one labelling.

    teacher_of: person -> teacher, where the people are known here. named: they are persons whose own ids decide their
    teachers, and not rows dealt by their places. declared: the classes were listed beforehand; if
    they were read off the private table, one person's label changes their number and so every figure here, and the
    standing of the figures is "unaccounted".

    >>> from dosimeter.core.noise import Laplace
    >>> from dosimeter.pate.label import label
    >>> votes = Votes([[0, 1]] * 40, n_classes=2)
    >>> facts = voted(votes, label(votes, Laplace(2.0)), Laplace(2.0))
    >>> facts["publishable"]["queries"], facts["internal"]["unit"], facts["publishable"]["standing"]
    (2, 'teacher', 'upper bound')
    """
    spent = published(votes.n_queries, votes.n_classes, noise, threshold=threshold)
    beside = epsilon(votes.n_queries, noise, delta, threshold=threshold)
    return {
        "publishable": {
            "nats": spent.nats,
            "nats_per_query": spent.per_query,
            "factor": spent.factor,
            "nats_who": published(votes.n_queries, votes.n_classes, noise, threshold=threshold, shift=WHO).nats
            if named
            else None,
            "standing": (spent.standing if declared else Standing.UNACCOUNTED).value,
            "notion": "pointwise conditional maximal leakage",
            "unit": _unit(teacher_of, named),
            "neighbours": beside.neighbours,
            "teachers": votes.n_teachers,
            "queries": votes.n_queries,
            "refused": int(labels.refused.sum()),
            "classes": votes.n_classes,
            "noise": repr(noise),
            "threshold": None if threshold is None else repr(threshold),
            "epsilon": beside.epsilon,
            "delta": beside.delta,
            "epsilon_standing": (beside.standing if declared else Standing.UNACCOUNTED).value,
            "adjacency": beside.adjacency,
        },
        "internal": _internal(votes, labels, noise, threshold, teacher_of, declared),
        "remarks": [] if noise.scale * WIDE <= votes.n_teachers else [_too_wide(votes, noise)],
    }


def _unit(teacher_of: Mapping[Hashable, int] | None, named: bool) -> str:
    if teacher_of is None:
        return "teacher's part"
    if named:
        return "teacher's part, and so any person in it, given who is in the table"
    return "teacher's part, and so any row in it, given how many rows there are"


def _internal(
    votes: Votes,
    labels: Labels,
    noise: Density,
    threshold: Threshold | None,
    teacher_of: Mapping[Hashable, int] | None,
    declared: bool,
) -> dict[str, Any]:
    told = dose(votes, noise, threshold=threshold, person=teacher_of)
    given = ~labels.refused
    plain = votes.counts.argmax(axis=1)
    return {
        "unit": "person" if teacher_of else "teacher",
        "people": len(told.ids) if teacher_of else "unknown",
        "typical_nats": float(np.median(told.reading)),
        "highest_nats": float(told.reading.max()),
        "standing": (told.standing if declared else Standing.UNACCOUNTED).value,
        "agreement_with_plain_vote": float(np.mean(labels.values[given] == plain[given])) if given.any() else 0.0,
        "provenance": dict(votes.provenance),
        "distribution": distribution(told.reading, of="nats", unit="person" if teacher_of else "teacher"),
        "by_query": _by_query(votes, noise, threshold),
        "by_teacher": np.sort(totals(votes, noise, threshold=threshold))[::-1][:TEACHERS].tolist(),
    }


def _by_query(votes: Votes, noise: Density, threshold: Threshold | None) -> dict[str, Any]:
    worst = worst_by_query(votes, noise, threshold=threshold)
    bound = published(votes.n_queries, votes.n_classes, noise, threshold=threshold).per_query
    return {"nats": worst[:QUERIES].tolist(), "shown": min(QUERIES, len(worst)), "bound": bound}


def _too_wide(votes: Votes, noise: Density) -> str:
    return (
        f"the noise (scale {noise.scale:.3g} votes) is wide beside {votes.n_teachers} votes in all: expect labels near "
        "chance; ask fewer queries, take more teachers, or allow a larger budget"
    )
