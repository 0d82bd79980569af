"""Parties: smaller tables tell more, and the sum of what they send tells less."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from dosimeter import pca
from dosimeter.core.noise import Gaussian
from dosimeter.core.refusal import Refusal
from dosimeter.pca.distributed import simulated, unprotected


def people(seed, n, d=20):
    return np.random.default_rng(seed).standard_normal((n, d)) * 0.9 ** np.arange(d)


def test_every_row_goes_to_one_party():
    X = np.arange(22.0).reshape(11, 2)
    parts = pca.share_out(X, 4, np.random.default_rng(0))
    assert sorted(len(p) for p in parts) == [2, 3, 3, 3]
    np.testing.assert_array_equal(np.sort(np.vstack(parts)[:, 0]), X[:, 0])
    for count in (0, 6):
        with pytest.raises(Refusal, match="1 to 5 parties"):
            pca.share_out(X, count, np.random.default_rng(0))


def test_more_parties_are_told_apart_more_easily():
    found = pca.by_parties(people(1, 480), people(2, 480), [1, 4, 12], np.random.default_rng(0), trials=39)
    means = [found[c].maxima.mean() for c in (1, 4, 12)]
    assert means[0] < means[1] - 0.05 < means[2] - 0.1
    assert found[12].told_apart == 12
    assert len(found[4].parties) == 4
    assert (found[12].by_chance > found[1].by_chance.max()).all()  # small groups: chance itself reaches higher
    assert "12 told apart" in repr(found[12])


def test_an_unprotected_sum_has_the_components_of_all_rows_together():
    X = people(3, 90)
    together = pca.components_of(X, centred=False)
    joined = pca.aggregate([X[:20], X[20:21], X[21:]], unprotected)
    np.testing.assert_allclose(joined.values, together.values, rtol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(joined.vectors * together.vectors, axis=0)), 1, atol=1e-10)


def test_a_public_centre_is_the_same_for_all():
    X = people(4, 60) + 3
    c = np.full(20, 3.0)
    joined = pca.aggregate([X[:10], X[10:]], unprotected, centre=c)
    np.testing.assert_array_equal(joined.mean, c)
    np.testing.assert_allclose(joined.values, pca.components(pca.second_moment(X, c)).values, rtol=1e-10)


def test_noise_of_the_sum_is_that_of_each_party_by_its_share():
    """Two parties of 10 and 30 rows: variance (1² + 3²)/4² of one party's, within the chi-square range at 1e-6."""
    parts = [np.zeros((10, 60)), np.zeros((30, 60))]
    seen = []
    protect = simulated(Gaussian(1.0), np.random.default_rng(5))

    def watched(A, n):
        seen.append(protect(A, n))
        return seen[-1]

    values = pca.aggregate(parts, watched)
    total = (10 * seen[0] + 30 * seen[1]) / 40
    np.testing.assert_array_equal(seen[0], seen[0].T)
    entries = total[np.tril_indices(60)]
    low, high = chi2.ppf([5e-7, 1 - 5e-7], len(entries))
    for variance, holds in ((10 / 16, True), (1 / 2, False)):  # a half would be equal shares
        assert bool(low <= np.sum(entries**2) / variance <= high) is holds
    np.testing.assert_allclose(values.values[0], np.linalg.eigvalsh(total).max(), rtol=1e-10)


def test_only_the_sum_with_noise_hides_what_each_party_would_tell():
    members, strangers = people(6, 240), people(7, 240)
    rng = np.random.default_rng(8)
    parts = pca.share_out(members, 8, rng)
    caught = pca.intercept_each(parts, strangers, rng, trials=39)
    assert caught.told_apart == 8
    hidden = pca.aggregate(parts, simulated(Gaussian(2.0), rng))
    assert pca.attack(hidden, members, strangers, rng, trials=99).p_value > 0.01
    bare = pca.attack(pca.aggregate(parts, unprotected), members, strangers, rng, trials=99)
    assert bare.maximum < caught.maxima.min()


def test_no_parties_or_other_columns_are_refused():
    with pytest.raises(Refusal, match="no parties"):
        pca.aggregate([], unprotected)
    with pytest.raises(Refusal, match="no parties"):
        pca.intercept_each([], people(0, 4), np.random.default_rng(0))
    with pytest.raises(Refusal, match="same columns"):
        pca.aggregate([people(0, 4, 3), people(0, 4, 2)], unprotected)
