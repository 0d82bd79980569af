"""The result of a labelling: public constants on one side, everything from the votes on the other."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import pate
from dosimeter.models.vote_noise import VoteNoise
from dosimeter.models.vote_set import VoteSet
from dosimeter.pate.doses import totals
from dosimeter.pate.label import label
from dosimeter.pate.threshold import Threshold
from dosimeter.pate.votes import Votes
from dosimeter.results.labels import LabelRelease
from dosimeter.results.result import read

rng = np.random.default_rng(3)
NOISE = dm.Laplace(5.0)


def votes(agreement):
    return Votes(np.where(rng.random((40, 8)) < agreement, 1, rng.integers(0, 3, (40, 8))), 3)


def labelled(cast, noise=NOISE, threshold=None, declared=True, teacher_of=None) -> LabelRelease:
    """The result of labelling these votes, made elsewhere."""
    keys = tuple(range(cast.n_queries))
    among = VoteSet(cast, ("a", "b", "c"), keys, "query", "votes.npy", (), declared, teacher_of=teacher_of)
    return LabelRelease.of(among, label(cast, noise, threshold=threshold), VoteNoise(noise, threshold))


def test_what_is_to_be_published_does_not_depend_on_the_votes():
    agreeing, mixed = labelled(votes(0.95)), labelled(votes(0.1))
    assert agreeing.publishable == mixed.publishable
    assert agreeing.internal.highest_nats < mixed.internal.highest_nats <= agreeing.publishable.nats
    assert (agreeing.publishable.queries, agreeing.internal.unit) == (8, "teacher")
    assert agreeing.publishable.standing == "upper bound"


def test_a_person_has_the_nats_of_their_teacher():
    cast = votes(0.7)
    alone = labelled(cast).internal
    people = labelled(cast, teacher_of={f"p{i}": i % 40 for i in range(80)}).internal
    assert (alone.unit, people.unit, people.people) == ("teacher", "person", 80)
    assert people.highest_nats == pytest.approx(alone.highest_nats, rel=1e-14)
    assert people.typical_nats == pytest.approx(alone.typical_nats, rel=1e-14)


def test_refusals_are_counted_and_agreement_is_among_the_answered():
    cast = Votes(np.repeat([[0, 1, 2, 0]], 40, axis=0), 3)
    threshold = Threshold(1e6, dm.Laplace(1.0))  # nobody passes
    result = labelled(cast, threshold=threshold)
    assert result.publishable.refused == 4
    assert result.internal.agreement_with_plain_vote == 0.0
    # 40 votes of 40 against noise of scale 5: one label in a thousand goes wrong.
    assert labelled(cast).internal.agreement_with_plain_vote >= 0.75


def test_a_threshold_with_little_noise_is_paid_for_in_every_figure():
    """Refusals at Laplace(0.5) cost several times the labels at Laplace(5): left out, any of these would be too low."""
    cast, threshold = votes(0.7), Threshold(30, dm.Laplace(0.5))
    result, without = labelled(cast, threshold=threshold), labelled(cast)
    spent, beside = (
        pate.public_bound(8, 3, NOISE, threshold=threshold),
        pate.epsilon(8, NOISE, 1e-5, threshold=threshold),
    )
    bound = result.publishable
    assert (bound.nats, bound.nats_per_query, bound.factor) == (spent.nats, spent.per_query, spent.factor)
    assert (bound.epsilon, bound.delta) == (beside.epsilon, 1e-5)
    assert bound.nats > 3 * without.publishable.nats
    assert bound.epsilon > 3 * without.publishable.epsilon
    exact = totals(cast, NOISE, threshold=threshold)
    assert result.internal.highest_nats == pytest.approx(exact.max(), rel=1e-14)
    assert result.internal.highest_nats <= bound.nats


def test_wide_noise_is_remarked_upon():
    cast = votes(0.9)
    assert any("near chance" in note for note in labelled(cast, dm.Laplace(11.0)).remarks)
    assert labelled(cast).remarks == []


def test_leakage_by_query_and_teacher_sums_to_the_totals():
    """Each query's worst is the largest of its column of the matrix; the teachers' totals are the sums of its rows."""
    cast = votes(0.6)
    result = labelled(cast)
    inside, bound = result.internal, result.publishable.nats_per_query
    matrix = np.array(
        [
            [float(pate.leakage(_others(cast, t, q)[None], NOISE)[0]) for q in range(cast.n_queries)]
            for t in range(cast.n_teachers)
        ]
    )
    assert inside.by_query.nats == pytest.approx(matrix.max(axis=0).tolist())
    assert inside.by_query.bound == bound
    assert max(inside.by_query.nats) <= bound
    assert inside.by_teacher == pytest.approx(sorted(matrix.sum(axis=1), reverse=True))
    assert sum(inside.distribution.counts) + inside.distribution.zero == cast.n_teachers


def _others(cast, teacher, query):
    """Votes of all teachers but one on a query, counted by hand."""
    others = [cast.values[t, query] for t in range(cast.n_teachers) if t != teacher]
    return np.array([others.count(c) for c in range(cast.n_classes)])


def test_many_queries_are_cut_and_say_so(monkeypatch):
    monkeypatch.setattr("dosimeter.results.labels.QUERIES", 3)
    by_query = labelled(votes(0.6)).internal.by_query
    assert (len(by_query.nats), by_query.shown) == (3, 3)


def test_classes_that_were_not_listed_leave_every_standing_unaccounted():
    result = labelled(votes(0.6), declared=False)
    assert result.publishable.standing == result.publishable.epsilon_standing == "unaccounted"
    assert result.internal.standing == "unaccounted"


def test_the_unit_is_a_person_only_if_ids_decide_their_teachers():
    cast = votes(0.6)
    teacher_of = {f"p{i}": i for i in range(40)}
    assert labelled(cast).publishable.unit == "teacher's part"
    assert labelled(cast, teacher_of=teacher_of).publishable.unit.endswith("given how many rows there are")
    assert labelled(cast, teacher_of=teacher_of).publishable.nats_who is None
    named = VoteSet(
        cast, ("a", "b", "c"), tuple(range(8)), "query", "t.csv", (), True, teacher_of=teacher_of,
        task=SimpleNamespace(persons=tuple(teacher_of), public=range(8), score=lambda *_: None),
    )  # fmt: skip
    bound = LabelRelease.of(named, label(cast, NOISE), VoteNoise(NOISE)).publishable
    assert bound.unit.endswith("given who is in the table")
    assert bound.nats < bound.nats_who <= 2 * bound.nats


def test_a_result_is_read_back_from_its_own_json():
    result = labelled(votes(0.6))
    again = read(json.loads(result.to_json()))
    assert again.to_json() == result.to_json()
    assert result.to_dict()["accuracy"] == {}
    assert result.internal.rows_left_out == "unknown"
