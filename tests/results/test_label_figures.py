"""The facts of a labelling: public constants on one side, everything from the votes on the other."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import pate
from dosimeter.pate.doses import totals
from dosimeter.pate.label import label
from dosimeter.pate.threshold import Threshold
from dosimeter.pate.votes import Votes
from dosimeter.results.label_figures import voted

rng = np.random.default_rng(3)
NOISE = dm.Laplace(5.0)


def votes(agreement):
    return Votes(np.where(rng.random((40, 8)) < agreement, 1, rng.integers(0, 3, (40, 8))), 3)


def facts(of, **how):
    return voted(of, label(of, NOISE, threshold=how.get("threshold")), NOISE, **how)


def test_what_is_to_be_published_does_not_depend_on_the_votes():
    one, other = facts(votes(0.95)), facts(votes(0.1))
    assert one["publishable"] == other["publishable"]
    assert one["internal"]["highest_nats"] < other["internal"]["highest_nats"] <= one["publishable"]["nats"]


def test_a_person_has_the_nats_of_their_teacher():
    of = votes(0.7)
    alone = facts(of)["internal"]
    told = facts(of, teacher_of={f"p{i}": i % 40 for i in range(80)})["internal"]
    assert (alone["unit"], told["unit"], told["people"]) == ("teacher", "person", 80)
    assert told["highest_nats"] == pytest.approx(alone["highest_nats"], rel=1e-14)
    assert told["typical_nats"] == pytest.approx(alone["typical_nats"], rel=1e-14)


def test_refusals_are_counted_and_agreement_is_among_the_answered():
    of = Votes(np.repeat([[0, 1, 2, 0]], 40, axis=0), 3)
    at = Threshold(1e6, dm.Laplace(1.0))  # nobody passes
    told = facts(of, threshold=at)
    assert told["publishable"]["refused"] == 4
    assert told["internal"]["agreement_with_plain_vote"] == 0.0
    # 40 votes of 40 against noise of scale 5: one label in a thousand goes wrong.
    assert facts(of)["internal"]["agreement_with_plain_vote"] >= 0.75


def test_a_threshold_with_little_noise_is_paid_for_in_every_figure():
    """Refusals at Laplace(0.5) cost several times the labels at Laplace(5): left out, any of these would be too low."""
    of, at = votes(0.7), Threshold(30, dm.Laplace(0.5))
    told, without = facts(of, threshold=at), facts(of)
    spent, beside = pate.published(8, 3, NOISE, threshold=at), pate.epsilon(8, NOISE, 1e-5, threshold=at)
    printed = told["publishable"]
    assert (printed["nats"], printed["nats_per_query"], printed["factor"]) == (
        spent.nats,
        spent.per_query,
        spent.factor,
    )
    assert (printed["epsilon"], printed["delta"]) == (beside.epsilon, 1e-5)
    assert printed["nats"] > 3 * without["publishable"]["nats"]
    assert printed["epsilon"] > 3 * without["publishable"]["epsilon"]
    exact = totals(of, NOISE, threshold=at)
    assert told["internal"]["highest_nats"] == pytest.approx(exact.max(), rel=1e-14)
    assert told["internal"]["highest_nats"] <= printed["nats"]


def test_wide_noise_is_remarked_upon():
    of = votes(0.9)
    wide = dm.Laplace(11.0)
    assert any("near chance" in note for note in voted(of, label(of, wide), wide)["remarks"])
    assert facts(of)["remarks"] == []


def test_leakage_by_query_and_teacher_sums_to_the_totals():
    """Each query's worst is the largest of its column of the matrix; the teachers' totals are the sums of its rows."""
    of = votes(0.6)
    told, bound = facts(of)["internal"], facts(of)["publishable"]["nats_per_query"]
    matrix = np.array(
        [
            [float(pate.leakage(_others(of, t, q)[None], NOISE)[0]) for q in range(of.n_queries)]
            for t in range(of.n_teachers)
        ]
    )
    assert told["by_query"]["nats"] == pytest.approx(matrix.max(axis=0).tolist())
    assert told["by_query"]["bound"] == bound
    assert max(told["by_query"]["nats"]) <= bound
    assert told["by_teacher"] == pytest.approx(sorted(matrix.sum(axis=1), reverse=True))
    assert sum(told["distribution"]["counts"]) + told["distribution"]["zero"] == of.n_teachers


def _others(of, teacher, query):
    """Votes of all teachers but one on a query, counted by hand."""
    cast = [of.values[t, query] for t in range(of.n_teachers) if t != teacher]
    return np.array([cast.count(c) for c in range(of.n_classes)])


def test_many_queries_are_cut_and_say_so(monkeypatch):
    monkeypatch.setattr("dosimeter.results.label_figures.QUERIES", 3)
    told = facts(votes(0.6))["internal"]["by_query"]
    assert (len(told["nats"]), told["shown"]) == (3, 3)
