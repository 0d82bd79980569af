"""Chance: every permutation of a small table by hand, and the false positives of many tables that leak nothing."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom, chisquare, rankdata

from dosimeter import pca
from dosimeter.core.errors import Refusal
from dosimeter.pca.null_distribution import (
    People,
    auc_of_small_residuals,
    midranks,
    permutation_auc,
    permute_membership,
)

NEVER = 1e-6
"""Error rate of each statistical test here."""


@pytest.mark.parametrize("values", [5, 40, 10**6])
def test_midranks_are_those_of_scipy(values):
    row = np.random.default_rng(values).integers(0, values, 500).astype(float)
    np.testing.assert_array_equal(midranks(row), rankdata(row))
    row[::7] = np.inf
    np.testing.assert_array_equal(midranks(row), rankdata(row))


def test_the_auc_of_a_permutation_counts_pairs():
    rng = np.random.default_rng(0)
    S = rng.integers(0, 9, (3, 12)).astype(float)
    permuted = permute_membership(People.of(None, 5, 7), rng, 20)
    auc = permutation_auc(np.array([midranks(row) for row in S]), permuted)
    for t in range(20):
        for k in range(3):
            pairs = np.subtract.outer(S[k, permuted[:, t]], S[k, ~permuted[:, t]])
            assert auc[t, k] == pytest.approx(np.mean((pairs < 0) + 0.5 * (pairs == 0)), abs=1e-14)


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
    assert auc_of_small_residuals(row, 20) == pytest.approx(np.mean(pairs + 0.5 * equal), abs=1e-14)


def test_every_permutation_of_a_small_table_is_equally_likely():
    members, strangers = np.array([[1.0, 0.2], [2.0, 0.1]]), np.array([[0.5, 0.4], [1.5, 0.7]])
    pool, counts = np.vstack([members, strangers]), {}
    for pair in combinations(range(4), 2):
        chosen = np.isin(np.arange(4), pair)
        counts[tuple(chosen)] = pca.auc_by_components(np.eye(2), pool[chosen], pool[~chosen]).max()
    trials = 3000
    maxima = pca.null_band(np.eye(2), members, strangers, np.random.default_rng(1), trials).maxima
    values, hits = np.unique(maxima, return_counts=True)
    expected = np.array([sum(np.isclose(f, v) for f in counts.values()) / 6 * trials for v in values])
    assert expected.sum() == pytest.approx(trials)
    assert chisquare(hits, expected).pvalue > NEVER
    true_deal = np.isclose(values, counts[(True, True, False, False)])  # permuted as it was in one trial of ten
    assert chisquare(hits, 0.9 * expected + 0.1 * trials * true_deal).pvalue < NEVER


def strangers_only(seed, n=60, d=12):
    """Components of other people, and two groups of strangers."""
    rng = np.random.default_rng(seed)
    scale = 0.8 ** np.arange(d)
    return pca.components_of(rng.standard_normal((40, d)) * scale), *(rng.standard_normal((2, n, d)) * scale)


@pytest.fixture(scope="module")
def nothing_leaks():
    """300 tables: the p-value of the largest AUC, and whether a test of the best k would reject if k had been fixed."""
    p, naive, maxima, bands = [], [], [], []
    for seed in range(300):
        directions, first, second = strangers_only(seed)
        rng = np.random.default_rng([seed, 1])
        result = pca.attack(directions, first, second, rng, trials=99, k=1)
        p.append(result.p_value)
        naive.append(result.maximum > result.null.high_at(result.best_k))
        maxima.append(result.maximum)
        bands.append(result.null.bias)
    return {"p": np.array(p), "naive": np.array(naive), "maxima": np.array(maxima), "bands": np.array(bands)}


def test_where_nothing_leaks_the_alarm_is_as_rare_as_it_says(nothing_leaks):
    alarms = int((nothing_leaks["p"] <= 0.05).sum())
    low, high = binom.ppf([NEVER / 2, 1 - NEVER / 2], 300, 0.05)
    assert low <= alarms <= high


def test_the_best_k_treated_as_fixed_rejects_too_often(nothing_leaks):
    assert int(nothing_leaks["naive"].sum()) > binom.ppf(1 - NEVER, 300, 0.05)


def test_the_band_of_one_table_is_what_fresh_strangers_show(nothing_leaks):
    """Mean of the largest AUC: of fresh pairs of strangers, and as predicted by each table's permutations."""
    maxima, bands = nothing_leaks["maxima"], nothing_leaks["bands"]
    error = maxima.std(ddof=1) / np.sqrt(len(maxima))
    assert abs(maxima.mean() - bands.mean()) < 4.9 * error
    assert bands.mean() > 0.5 + 4.9 * error  # and not ½, the naive guess


def test_every_permutation_of_people_with_unequal_rows_is_equally_likely():
    pool = np.array([[1.0, 0.2], [2.0, 0.1], [1.1, 0.3], [0.5, 0.4], [1.5, 0.7], [0.6, 0.2], [0.1, 0.9]])
    whose = np.array(["ann", "ann", "bob", "cem", "cem", "cem", "dia"])
    drawn = []
    for pair in combinations(("ann", "bob", "cem", "dia"), 2):
        chosen = np.isin(whose, pair)
        drawn.append(pca.auc_by_components(np.eye(2), pool[chosen], pool[~chosen]).max())
    trials = 3000
    band = pca.null_band(np.eye(2), pool[:3], pool[3:], np.random.default_rng(1), trials, groups=whose.tolist())
    values, hits = np.unique(band.maxima.round(12), return_counts=True)
    expected = np.array([np.isclose(drawn, v).sum() / 6 * trials for v in values])
    assert expected.sum() == pytest.approx(trials)
    assert chisquare(hits, expected).pvalue > NEVER
    by_rows = pca.null_band(np.eye(2), pool[:3], pool[3:], np.random.default_rng(1), trials).maxima.round(12)
    assert not np.isin(by_rows, values).all()


def test_people_with_similar_rows_are_no_alarm_if_people_are_permuted():
    """20 members and 20 strangers, 25 rows each, components of other people: 5 % by person, about half by rows."""
    by_person, by_row, tables = 0, 0, 200
    whose = np.repeat(np.arange(40), 25).tolist()
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        directions = pca.components_of(rng.standard_normal((30, 4)))
        rows = np.repeat(rng.standard_normal((40, 4)), 25, axis=0) + rng.normal(0, 0.1, (1000, 4))
        first, second = rows[:500], rows[500:]
        by_person += pca.attack(directions, first, second, rng, trials=99, k=1, groups=whose).beats_chance
        by_row += pca.attack(directions, first, second, rng, trials=99, k=1).beats_chance
    low, high = binom.ppf([NEVER / 2, 1 - NEVER / 2], tables, 0.05)
    assert low <= by_person <= high
    assert by_row > 2 * high


def test_k_is_chosen_and_evaluated_on_different_people():
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((12, 3))
    whose = ["a", "a", "b", "b", "b", "c", "x", "y", "y", "y", "z", "z"]
    result = pca.attack(np.eye(3), rows[:6], rows[6:], rng, trials=9, groups=whose)
    read = [i for i, name in enumerate(whose) if name in ("b", "y")]  # the second of three on either side
    again = pca.scores(np.eye(3), rows[read[:3]], rows[read[3:]], result.k)
    assert result.scores.figure == again.figure
    assert len(result.scores.members) == len(result.scores.strangers) == 3


def test_people_on_both_sides_or_too_few_are_refused():
    rng, rows = np.random.default_rng(0), np.random.default_rng(1).standard_normal((6, 2))
    with pytest.raises(Refusal, match="split the rows by person"):
        pca.null_band(np.eye(2), rows[:3], rows[3:], rng, 9, groups=["a", "b", "c", "c", "d", "e"])
    with pytest.raises(Refusal, match="person of each of 6 rows"):
        pca.null_band(np.eye(2), rows[:3], rows[3:], rng, 9, groups=["a"])
    with pytest.raises(Refusal, match=r"0 members and 1 strangers are left .*: pass k"):
        pca.attack(np.eye(2), rows[:3], rows[3:], rng, trials=9, groups=["a", "a", "a", "x", "y", "z"])
    with pytest.raises(Refusal, match="pass k"):
        pca.attack(np.eye(2), rows[:3], rows[3:], rng, trials=9)
    for k in (None, 1):
        with pytest.raises(Refusal, match="1 members and 3 strangers are too few"):
            pca.attack(np.eye(2), rows[:1], rows[3:], rng, trials=9, k=k)
    assert len(pca.attack(np.eye(2), rows[:2], rows[3:], rng, trials=9, k=1).scores.members) == 2


def test_members_stand_out_of_the_band_of_fresh_strangers():
    rng = np.random.default_rng(3)
    members, first, second = rng.standard_normal((3, 40, 25))
    directions = pca.components_of(members)
    band = pca.null_band(directions, first, second, rng)
    assert pca.auc_by_components(directions, members, first).max() > band.maxima.max()
    mixed = pca.null_band(directions, members, first, rng)
    assert abs(mixed.high() - band.high()) < 0.05


def test_bands_refuse_what_they_cannot_answer():
    band = pca.null_band(np.eye(2), np.ones((3, 2)), np.zeros((3, 2)), np.random.default_rng(0), 9)
    with pytest.raises(Refusal, match="level"):
        band.high(1.0)
    with pytest.raises(Refusal, match="between 0 and 2"):
        band.high_at(3)
    with pytest.raises(Refusal, match="trial"):
        pca.null_band(np.eye(2), np.ones((3, 2)), np.zeros((3, 2)), np.random.default_rng(0), 0)
