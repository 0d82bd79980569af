"""Curves, areas and intervals, compared with counting, scipy, quadrature and repetition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score, roc_curve

from dosimeter.attacks import roc
from dosimeter.core.errors import Refusal


@pytest.mark.parametrize(("hits", "trials"), [(0, 7), (7, 7), (3, 11), (50, 1000)])
def test_the_interval_of_a_proportion_is_that_of_scipy(hits, trials):
    known = stats.binomtest(hits, trials).proportion_ci(0.9, "exact")
    ours = roc.proportion(hits, trials, 0.9)
    np.testing.assert_allclose([ours.low, ours.high], [known.low, known.high], rtol=1e-10)


def test_the_curve_and_the_area_are_those_of_scikit_learn_with_ties():
    rng = np.random.default_rng(0)
    members, strangers = rng.integers(0, 12, 300) + 2.0, rng.integers(0, 12, 200) + 0.0
    label, score = np.repeat([1, 0], [300, 200]), np.concatenate([members, strangers])
    fpr, tpr = roc.curve(members, strangers)
    known = roc_curve(label, score, drop_intermediate=False)
    np.testing.assert_allclose(fpr, known[0])
    np.testing.assert_allclose(tpr, known[1])
    area, _ = roc.auc(members, strangers)
    assert area == pytest.approx(roc_auc_score(label, score), rel=1e-12)
    assert area == pytest.approx(np.trapezoid(tpr, fpr), rel=1e-12)


def test_infinite_scores_are_ranked_and_not_refused():
    area, _ = roc.auc(np.array([np.inf, np.inf, 0.0]), np.array([-np.inf, 0.0, -1.0]))
    assert area == pytest.approx((3 + 3 + 2.5) / 9)


def test_the_intervals_cover_as_often_as_they_say():
    """600 repetitions at 95 %: fewer than 92 % covered would be a fault (three standard errors)."""
    rng = np.random.default_rng(1)
    truth_auc, truth_tpr = stats.norm.cdf(1 / np.sqrt(2)), stats.norm.cdf(1 + stats.norm.ppf(0.05))
    covered = np.zeros(2)
    for _ in range(600):
        members, strangers = rng.standard_normal(80) + 1, rng.standard_normal(400)
        covered += [
            roc.auc(members, strangers)[1].contains(truth_auc),
            roc.tpr_at(members, strangers, 0.05)[1].contains(truth_tpr),
        ]
    assert (covered / 600 > 0.92).all()
    assert covered[0] / 600 < 0.985  # DeLong's is not merely wide


def test_a_perfect_attack_has_an_interval_too():
    area, interval = roc.auc(np.arange(10.0) + 100, np.arange(20.0))
    assert area == 1.0
    assert interval.low == pytest.approx(stats.binomtest(10, 10).proportion_ci(method="exact").low)
    assert interval.high == 1.0


def test_a_rate_too_low_for_the_number_of_strangers_is_refused():
    with pytest.raises(Refusal, match="at least 1000 strangers"):
        roc.tpr_at(np.arange(5.0), np.arange(500.0), 0.001)


def test_no_more_strangers_than_allowed_lie_above_the_threshold():
    strangers = np.repeat([0.0, 1.0], [95, 5])
    tpr, _ = roc.tpr_at(np.array([0.5, 1.0, 2.0, 0.0]), strangers, 0.05)
    assert tpr == 0.75  # the threshold is 0: the five at 1 are just allowed
    tpr, _ = roc.tpr_at(np.array([0.5, 1.0, 2.0, 0.0]), strangers, 0.04)
    assert tpr == 0.25  # the tie at 1 does not fit into four


@pytest.mark.parametrize("shift", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("ratio", [0.05, 0.7, 0.999999, 1.0, 1.5, 20.0])
def test_two_gaussians_have_the_curve_of_their_likelihood_ratio(shift, ratio):
    """Compared with brute force: rank a fine grid of observations by the ratio and sum both densities."""
    edges = np.linspace(-45, 45, 2_000_001)
    t = (edges[1:] + edges[:-1]) / 2
    strangers, member = (np.diff(stats.norm.cdf(edges, m, s)) for m, s in ((0, 1), (shift, np.sqrt(ratio))))
    score = stats.norm.logpdf(t, shift, np.sqrt(ratio)) - stats.norm.logpdf(t)
    order = np.argsort(-score, kind="stable")
    fpr, tpr = (np.append(0.0, np.cumsum(v[order])) for v in (strangers, member))
    ours = roc.TwoGaussians(np.array([shift]), np.array([ratio]))
    assert ours.auc[0] == pytest.approx(np.trapezoid(tpr, fpr), abs=2e-6)
    for rate in (0.001, 0.1, 0.6):
        assert ours.tpr(rate)[0] == pytest.approx(np.interp(rate, fpr, tpr), abs=2e-4)


def test_a_row_without_noise_is_always_detected():
    test = roc.TwoGaussians(np.array([np.inf, 0.0]), np.array([1.0, 1.0]))
    assert test.auc.tolist() == [1.0, 0.5]
    assert test.tpr(0.01)[0] == 1.0
    assert test.tpr(0.01)[1] == pytest.approx(0.01)


def test_a_negative_shift_or_ratio_is_refused():
    with pytest.raises(Refusal):
        roc.TwoGaussians(np.array([-1.0]), np.array([1.0]))
    with pytest.raises(Refusal):
        roc.TwoGaussians(np.array([1.0]), np.array([0.0]))
