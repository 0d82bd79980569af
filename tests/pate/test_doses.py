"""Totals per teacher and person, and the figure to publish."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from dosimeter.core.channel import maximal_leakage
from dosimeter.core.density import Density
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise, no_noise
from dosimeter.core.notion import LEAKAGE, Standing
from dosimeter.pate.adversary import joint_channel
from dosimeter.pate.doses import IDENTITY_SHIFT, dose, leakage_matrix, public_bound, totals, worst_by_query
from dosimeter.pate.leakage import leakage
from dosimeter.pate.threshold import Threshold, threshold_bound, threshold_leakage
from dosimeter.pate.votes import Votes
from tests.pate import brute

NOISE = Laplace(2.0)


@pytest.fixture
def votes() -> Votes:
    return Votes(np.random.default_rng(1).integers(0, 3, (6, 8)), 3)


def test_the_totals_of_the_known_answers(golden: Path) -> None:
    known = json.loads((golden / "pate" / "votes_matrix.json").read_text())
    known_votes, noise = Votes(known["votes"], known["num_classes"]), Laplace(1 / float(known["gamma"]))
    assert known_votes.counts.tolist() == known["histograms"]
    each = [float(x) for x in known["per_teacher_total_leakage"]]
    assert totals(known_votes, noise) == pytest.approx(each, rel=1e-12)
    assert leakage_matrix(known_votes, noise).sum(axis=1) == pytest.approx(each, rel=1e-12)
    assert worst_by_query(known_votes, noise).sum() == pytest.approx(float(known["sum_of_per_query_worst"]), rel=1e-12)
    print_figure = public_bound(known_votes.n_queries, known_votes.n_classes, noise)
    assert print_figure.nats == pytest.approx(float(known["data_independent_log_B1_times_Q"]), rel=1e-12)
    assert print_figure.nats < float(known["k_gamma"])


@pytest.mark.parametrize("threshold", [None, Threshold(3, Laplace(1.5))])
def test_totals_are_the_sums_over_the_queries_teacher_by_teacher(votes: Votes, threshold: Threshold | None) -> None:
    matrix, sums = leakage_matrix(votes, NOISE, threshold=threshold), totals(votes, NOISE, threshold=threshold)
    for t in range(votes.n_teachers):
        others = votes.others(t)
        alone = leakage(others, NOISE) if threshold is None else threshold_leakage(others, NOISE, threshold)
        assert matrix[t] == pytest.approx(alone, rel=1e-13)
        assert sums[t] == pytest.approx(alone.sum(), rel=1e-13)
    assert worst_by_query(votes, NOISE, threshold=threshold) == pytest.approx(matrix.max(axis=0), rel=1e-13)
    assert sums.max() <= matrix.max(axis=0).sum()


@pytest.mark.parametrize("law", [Laplace(1.5), Gumbel(1.5), Exponential(1.5), LogisticNoise(1.0), Gaussian(1.5)])
@pytest.mark.parametrize("threshold", [None, Threshold(3, Laplace(1.0))])
def test_who_a_person_is_costs_no_more_than_two_votes_and_may_cost_more_than_one(
    law: Density, threshold: Threshold | None
) -> None:
    """Every table with one person whose teacher is unknown: any one of the others' votes is moved anywhere.

    eq. 2 of [Saeidian21] on the whole channel, with probabilities by integration in multiple precision.
    """
    most = 0.0
    for base in brute.placements(4, 3):
        moved = {
            tuple(v - (k == i) + (k == j) for k, v in enumerate(base)) for i in range(3) if base[i] for j in range(3)
        }
        rows = []
        for v in sorted(moved | {base}):
            answered = 1.0 if threshold is None else float(threshold.noise.sf(threshold.T - max(v)))
            rows.append([*(answered * float(p) for p in brute.wins(v, law)), 1 - answered])
        most = max(most, math.log(np.array(rows).max(axis=0).sum()))
    if threshold is None:  # the bound with refusals leaves room for it here
        assert public_bound(1, 3, law).nats < most
    assert most <= public_bound(1, 3, law, threshold=threshold, shift=IDENTITY_SHIFT).nats


def test_a_sum_is_what_is_leaked_where_every_combination_of_votes_is_possible_and_more_elsewhere() -> None:
    """Lemma 5 on the joint channel of three queries: equality for free votes, a strict bound for three partitions."""
    others = np.array([[3, 1, 1], [2, 2, 1], [0, 4, 1]])
    total = float(leakage(others, NOISE).sum())
    free = np.array(list(itertools.product(range(3), repeat=3)))
    few = np.array([[0, 0, 0], [1, 1, 1], [2, 1, 0]])
    joint, part = joint_channel(others, free, NOISE), joint_channel(others, few, NOISE)
    assert maximal_leakage(joint / joint.sum(axis=1, keepdims=True)) == pytest.approx(total, rel=1e-12)
    assert maximal_leakage(part / part.sum(axis=1, keepdims=True)) < 0.9 * total


def test_queries_that_adapt_can_leak_more_than_the_sum_of_data_dependent_figures() -> None:
    """A student whose second query depends on the first label: it exceeds the sum along its path, but not k log B₁.

    First label 0 leads to a query with consensus, label 1 to one without. The sum along the first path is small.
    """
    first, calm, split = [4, 2], [40, 0], [3, 3]
    P, Q0, Q1 = (joint_channel([v], [[0], [1]], NOISE) for v in (first, calm, split))
    rows = [
        [P[h, y1] * (Q0 if y1 == 0 else Q1)[h2, y2] for y1 in (0, 1) for y2 in (0, 1)] for h in (0, 1) for h2 in (0, 1)
    ]
    joint = maximal_leakage(np.array(rows) / np.array(rows).sum(axis=1, keepdims=True))
    along_the_calm_path = float(leakage([first, calm], NOISE).sum())
    assert along_the_calm_path < joint <= public_bound(2, 2, NOISE).nats


def test_persons_inherit_their_teachers_dose(votes: Votes) -> None:
    sums = totals(votes, NOISE)
    by_person = dose(votes, NOISE, person={"ann": 2, "bob": 2, "eve": 0})
    assert by_person.amounts.tolist() == [sums[2], sums[2], sums[0]]
    assert (by_person.notion, by_person.unit, by_person.standing) == (LEAKAGE, "person", Standing.UPPER_BOUND)
    assert dose(votes, NOISE, ids=list("abcdef")).ids == tuple("abcdef")


def test_one_query_is_exact_and_a_sum_is_an_upper_bound(votes: Votes) -> None:
    first_query = Votes(votes.values[:, :1], 3)
    assert dose(first_query, NOISE).standing is Standing.EXACT
    assert dose(votes, NOISE).standing is Standing.UPPER_BOUND
    assert dose(first_query, NOISE, person={"ann": 0}).standing is Standing.UPPER_BOUND
    assert (dose(first_query, NOISE) + dose(first_query, NOISE)).standing is Standing.UPPER_BOUND


def test_queries_that_adapt_get_the_data_independent_bound_alone(votes: Votes) -> None:
    doses = dose(votes, NOISE, adaptive=True)
    assert set(doses.amounts.tolist()) == {public_bound(8, 3, NOISE).nats}
    assert (doses.amounts >= dose(votes, NOISE).amounts).all()
    assert doses.standing is Standing.UPPER_BOUND


def test_queries_that_adapt_pay_for_the_threshold_as_well() -> None:
    """Votes at the threshold's edge: the exact leakage exceeds the bound of the labels alone, which is invalid here."""
    threshold = Threshold(2.5, Laplace(0.5))
    edge = Votes([[0] * 4, [0] * 4, [1] * 4, [1] * 4, [2] * 4], 3)
    exact, adaptive = dose(edge, NOISE, threshold=threshold), dose(edge, NOISE, threshold=threshold, adaptive=True)
    assert exact.amounts.max() > public_bound(4, 3, NOISE).nats
    assert (adaptive.amounts >= exact.amounts.max()).all()
    assert set(adaptive.amounts.tolist()) == {public_bound(4, 3, NOISE, threshold=threshold).nats}
    persons = dose(edge, NOISE, threshold=threshold, adaptive=True, person={"ann": 4, "bob": 0})
    assert set(persons.amounts.tolist()) == set(adaptive.amounts.tolist())


@pytest.mark.parametrize(
    "noise", [Laplace(3.0), Gaussian(3.0), Gumbel(3.0), Exponential(3.0), LogisticNoise(3.0)], ids=repr
)
@pytest.mark.parametrize("threshold", [None, Threshold(4, Gaussian(2.0))])
def test_the_public_bound_covers_every_teacher_of_any_votes(noise: Density, threshold: Threshold | None) -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        some = Votes(rng.integers(0, 4, (rng.integers(2, 12), 10)), 4)
        assert totals(some, noise, threshold=threshold).max() <= public_bound(10, 4, noise, threshold=threshold).nats
    if threshold is not None:
        assert public_bound(10, 4, noise, threshold=threshold).per_query == threshold_bound(4, noise, threshold)


def test_the_public_bound_is_at_most_gamma_per_query_and_names_itself() -> None:
    bound = public_bound(1000, 10, Laplace(100.0), shift=3)
    assert bound.per_query <= 0.03
    assert bound.nats == pytest.approx(1000 * bound.per_query)
    assert bound.factor == pytest.approx(math.exp(bound.nats))
    assert "upper bound" in repr(bound)
    assert public_bound(10**6, 10, Laplace(1.0)).factor == math.inf


def test_bad_questions_are_refused(votes: Votes) -> None:
    with pytest.raises(CannotMeasure):
        totals(votes, no_noise)  # type: ignore[arg-type]
    with pytest.raises(Refusal, match="from 0 to 5"):
        dose(votes, NOISE, person={"ann": 6})
    with pytest.raises(Refusal, match="not both"):
        dose(votes, NOISE, ids=list("abcdef"), person={"ann": 0})
    with pytest.raises(Refusal, match="n_queries"):
        public_bound(0, 3, NOISE)
    with pytest.raises(Refusal, match="classes"):
        public_bound(1, 1, NOISE)
