"""Chance: every deal of a small table by hand, and the false alarms of many tables on which nothing leaks."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom, chisquare, rankdata

from dosimeter import pca
from dosimeter.core.refusal import Refusal
from dosimeter.pca.null_band import deal, dealt_auc, midranks, small_beats

NEVER = 1e-6
"""Error rate of each statistical test here."""


@pytest.mark.parametrize("values", [5, 40, 10**6])
def test_midranks_are_those_of_scipy(values):
    row = np.random.default_rng(values).integers(0, values, 500).astype(float)
    np.testing.assert_array_equal(midranks(row), rankdata(row))
    row[::7] = np.inf
    np.testing.assert_array_equal(midranks(row), rankdata(row))


def test_the_auc_of_a_deal_counts_pairs():
    rng = np.random.default_rng(0)
    S = rng.integers(0, 9, (3, 12)).astype(float)
    deals = deal(12, 5, rng, 20)
    found = dealt_auc(np.array([midranks(row) for row in S]), deals)
    for t in range(20):
        for k in range(3):
            pairs = np.subtract.outer(S[k, deals[:, t]], S[k, ~deals[:, t]])
            assert found[t, k] == pytest.approx(np.mean((pairs < 0) + 0.5 * (pairs == 0)), abs=1e-14)


@pytest.mark.parametrize("kind", ["apart", "tied", "neighbours", "zeros and infinity"])
def test_one_sort_counts_the_same_pairs(kind):
    rng = np.random.default_rng(2)
    row = rng.random(41)
    if kind == "tied":
        row = rng.integers(0, 9, 41) / 8
    if kind == "neighbours":  # a member and a stranger that differ in the last bit alone
        row[30] = np.nextafter(row[3], np.inf)
        row[31] = np.nextafter(row[4], 0.0)
    if kind == "zeros and infinity":
        row[[2, 5, 25]], row[[7, 33]] = 0.0, np.inf
    pairs = row[:20, None] < row[None, 20:]
    equal = row[:20, None] == row[None, 20:]
    assert small_beats(row, 20) == pytest.approx(np.mean(pairs + 0.5 * equal), abs=1e-14)


def test_every_deal_of_a_small_table_is_equally_likely():
    members, strangers = np.array([[1.0, 0.2], [2.0, 0.1]]), np.array([[0.5, 0.4], [1.5, 0.7]])
    pool, found = np.vstack([members, strangers]), {}
    for pair in combinations(range(4), 2):
        chosen = np.isin(np.arange(4), pair)
        found[tuple(chosen)] = pca.auc_by_components(np.eye(2), pool[chosen], pool[~chosen]).max()
    trials = 3000
    maxima = pca.null_band(np.eye(2), members, strangers, np.random.default_rng(1), trials).maxima
    values, hits = np.unique(maxima, return_counts=True)
    expected = np.array([sum(np.isclose(f, v) for f in found.values()) / 6 * trials for v in values])
    assert expected.sum() == pytest.approx(trials)
    assert chisquare(hits, expected).pvalue > NEVER
    true_deal = np.isclose(values, found[(True, True, False, False)])  # dealt as it was in one trial of ten
    assert chisquare(hits, 0.9 * expected + 0.1 * trials * true_deal).pvalue < NEVER


def strangers_only(seed, n=60, d=12):
    """Components of somebody else, and two groups that are both not there."""
    rng = np.random.default_rng(seed)
    scale = 0.8 ** np.arange(d)
    return pca.components_of(rng.standard_normal((40, d)) * scale), *(rng.standard_normal((2, n, d)) * scale)


@pytest.fixture(scope="module")
def nothing_leaks():
    """300 tables: the p-value of the largest AUC, and whether a test of the best k as if it were fixed would cry."""
    p, naive, maxima, bands = [], [], [], []
    for seed in range(300):
        found, first, second = strangers_only(seed)
        rng = np.random.default_rng([seed, 1])
        result = pca.attack(found, first, second, rng, trials=99, k=1)
        p.append(result.p_value)
        naive.append(result.maximum > result.null.high_at(result.best_k))
        maxima.append(result.maximum)
        bands.append(result.null.bias)
    return {"p": np.array(p), "naive": np.array(naive), "maxima": np.array(maxima), "bands": np.array(bands)}


def test_where_nothing_leaks_the_alarm_is_as_rare_as_it_says(nothing_leaks):
    alarms = int((nothing_leaks["p"] <= 0.05).sum())
    low, high = binom.ppf([NEVER / 2, 1 - NEVER / 2], 300, 0.05)
    assert low <= alarms <= high


def test_the_best_k_taken_for_a_fixed_one_cries_too_often(nothing_leaks):
    assert int(nothing_leaks["naive"].sum()) > binom.ppf(1 - NEVER, 300, 0.05)


def test_the_band_of_one_table_is_what_fresh_strangers_show(nothing_leaks):
    """Mean of the largest AUC: of fresh pairs of strangers, and as each table's own deals foretell it."""
    maxima, bands = nothing_leaks["maxima"], nothing_leaks["bands"]
    error = maxima.std(ddof=1) / np.sqrt(len(maxima))
    assert abs(maxima.mean() - bands.mean()) < 4.9 * error
    assert bands.mean() > 0.5 + 4.9 * error  # and ½, the plain guess, is not it


def test_members_stand_out_of_the_band_of_fresh_strangers():
    rng = np.random.default_rng(3)
    members, first, second = rng.standard_normal((3, 40, 25))
    found = pca.components_of(members)
    band = pca.null_band(found, first, second, rng)
    assert pca.auc_by_components(found, members, first).max() > band.maxima.max()
    mixed = pca.null_band(found, members, first, rng)
    assert abs(mixed.high() - band.high()) < 0.05


def test_bands_refuse_what_they_cannot_answer():
    band = pca.null_band(np.eye(2), np.ones((3, 2)), np.zeros((3, 2)), np.random.default_rng(0), 9)
    with pytest.raises(Refusal, match="level"):
        band.high(1.0)
    with pytest.raises(Refusal, match="between 0 and 2"):
        band.high_at(3)
    with pytest.raises(Refusal, match="trial"):
        pca.null_band(np.eye(2), np.ones((3, 2)), np.zeros((3, 2)), np.random.default_rng(0), 0)
