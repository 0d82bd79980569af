"""Parties: smaller tables leak more, and the sum of their messages leaks less."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from dosimeter import pca
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian
from dosimeter.pca.distributed import no_protection, simulate_noise
from dosimeter.pca.mechanisms import AnalyticGaussian, LaplaceJoint
from dosimeter.pca.release import release


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


def test_smaller_parties_are_attacked_more_easily():
    attacks = pca.intercept_by_party_count(
        people(1, 480), people(2, 480), [1, 4, 12], np.random.default_rng(0), trials=39
    )
    means = [attacks[c].maxima.mean() for c in (1, 4, 12)]
    assert means[0] < means[1] - 0.05 < means[2] - 0.1
    assert attacks[12].above_chance == 12
    assert len(attacks[4].parties) == 4
    assert (attacks[12].by_chance > attacks[1].by_chance.max()).all()  # small groups: higher also by chance
    assert "12 above chance" in repr(attacks[12])


def test_an_unprotected_sum_has_the_components_of_all_rows_together():
    X = people(3, 90)
    together = pca.components_of(X, centred=False)
    joined = pca.aggregate([X[:20], X[20:21], X[21:]], no_protection)
    np.testing.assert_allclose(joined.values, together.values, rtol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(joined.vectors * together.vectors, axis=0)), 1, atol=1e-10)


def test_a_public_centre_is_the_same_for_all():
    X = people(4, 60) + 3
    c = np.full(20, 3.0)
    joined = pca.aggregate([X[:10], X[10:]], no_protection, centre=c)
    np.testing.assert_array_equal(joined.mean, c)
    np.testing.assert_allclose(joined.values, pca.components(pca.second_moment(X, c)).values, rtol=1e-10)


def test_noise_of_the_sum_is_the_parties_noise_by_their_shares():
    """Two parties of 10 and 30 rows: variance (1² + 3²)/4² of one party's, within the chi-square range at 1e-6."""
    parts = [np.zeros((10, 60)), np.zeros((30, 60))]
    draws = []
    protect = simulate_noise(Gaussian(1.0), np.random.default_rng(5))

    def watched(A, n):
        draws.append(protect(A, n))
        return draws[-1]

    values = pca.aggregate(parts, watched)
    total = (10 * draws[0] + 30 * draws[1]) / 40
    np.testing.assert_array_equal(draws[0], draws[0].T)
    entries = total[np.tril_indices(60)]
    low, high = chi2.ppf([5e-7, 1 - 5e-7], len(entries))
    for variance, holds in ((10 / 16, True), (1 / 2, False)):  # equal shares would give a half
        assert bool(low <= np.sum(entries**2) / variance <= high) is holds
    np.testing.assert_allclose(values.values[0], np.linalg.eigvalsh(total).max(), rtol=1e-10)


def test_only_the_noisy_sum_hides_what_each_party_would_leak():
    members, strangers = people(6, 240), people(7, 240)
    rng = np.random.default_rng(8)
    parts = pca.share_out(members, 8, rng)
    caught = pca.intercept_each(parts, strangers, rng, trials=39)
    assert caught.above_chance == 8
    hidden = pca.aggregate(parts, simulate_noise(Gaussian(2.0), rng))
    assert pca.attack(hidden, members, strangers, rng, trials=99).p_value > 0.01
    bare = pca.attack(pca.aggregate(parts, no_protection), members, strangers, rng, trials=99)
    assert bare.maximum < caught.maxima.min()


def test_no_parties_or_other_columns_are_refused():
    with pytest.raises(Refusal, match="no parties"):
        pca.aggregate([], no_protection)
    with pytest.raises(Refusal, match="no parties"):
        pca.intercept_each([], people(0, 4), np.random.default_rng(0))
    with pytest.raises(Refusal, match="same columns"):
        pca.aggregate([people(0, 4, 3), people(0, 4, 2)], no_protection)


HELD = pca.Bounds(-1.0, 1.0)


@pytest.mark.parametrize("mechanism", [AnalyticGaussian(1.0, 1e-6), LaplaceJoint(1.0)], ids=["gaussian", "laplace"])
def test_the_variance_of_the_sum_is_the_sum_of_the_parties(mechanism):
    """Real draws of parties of 10, 30 and 60 empty rows: N²·variance is Σ N_p² variance_p, within 7 standard errors."""
    sizes, draws = (10, 30, 60), 300
    joined = [
        pca.join([pca.noisy_moment(np.zeros((n, 12)), mechanism, bounds=HELD) for n in sizes]) for _ in range(draws)
    ]
    assert not joined[0].simulation
    messages = joined[0].messages
    entries = np.tril_indices(12)
    squares = np.array([j.second_moment[entries] ** 2 for j in joined])
    by_hand = sum(n**2 * m.variances[entries] for n, m in zip(sizes, messages, strict=True)) / 100**2
    np.testing.assert_allclose(joined[0].variances[entries], by_hand, rtol=1e-12)
    unit = squares / by_hand
    error = unit.std() / np.sqrt(unit.size)
    assert abs(unit.mean() - 1) < 7 * error  # 23,400 squares of real draws: once in 10¹¹ runs
    equal = sum(m.variances[entries] for m in messages) / 9  # equal weights
    assert abs((squares / equal).mean() - 1) > 30 * (squares / equal).std() / np.sqrt(unit.size)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-or-remove-one"])
def test_each_party_has_the_guarantee_of_its_mechanism_and_clips_its_rows(neighbours):
    mechanism = AnalyticGaussian(0.7, 1e-6, neighbours)
    n = None if neighbours == "replace-one" else 25
    far = people(9, 25, 5) * 100
    alone = release(far, mechanism, bounds=HELD, n_samples=n)
    sent = pca.noisy_moment(far, mechanism, bounds=HELD, n_samples=n)
    assert sent.epsilon == alone.epsilon() <= 0.7
    assert (sent.dose.adjacency, sent.dose.event) == (neighbours, alone.dose.event)
    np.testing.assert_array_equal(sent.scales, alone.scales)
    clipped = np.clip(far, -1, 1)
    off = sent.release.values["second_moment"] - clipped.T @ clipped / 25
    assert np.abs(off / sent.scales).max() < 7  # 15 normal numbers: once in 10¹⁰ runs
    assert not [name for name in vars(sent) if "clipped" in name]
    other = pca.noisy_moment(
        people(10, 40, 5), AnalyticGaussian(0.2, 1e-6, neighbours), bounds=HELD, n_samples=n and 40
    )
    assert pca.join([sent, other]).epsilon == sent.epsilon


def test_with_little_noise_the_sum_has_the_components_of_all_rows():
    X = people(11, 20_000, 4) / 5
    parts = [X[:4000], X[4000:]]
    joined = pca.join([pca.noisy_moment(part, AnalyticGaussian(1e5, 1e-6), bounds=HELD) for part in parts])
    together = pca.components(pca.second_moment(np.clip(X, -1, 1)))
    np.testing.assert_allclose(np.abs(np.sum(joined.components.vectors * together.vectors, axis=0)), 1, atol=1e-6)


def test_messages_that_do_not_fit_are_refused_and_a_seed_is_reported():
    def send(X, bounds=HELD, mechanism=None, **options):
        return pca.noisy_moment(X, mechanism or AnalyticGaussian(1.0, 1e-6), bounds=bounds, **options)

    first = send(people(0, 9, 3))
    with pytest.raises(Refusal, match="no parties"):
        pca.join([])
    for other in (send(people(0, 9, 2)), send(people(0, 9, 3), pca.Bounds(0.0, 1.0))):
        with pytest.raises(Refusal, match="same public centre"):
            pca.join([first, other])
    hidden = send(people(0, 9, 3), mechanism=AnalyticGaussian(1.0, 1e-6, "add-or-remove-one"), n_samples=9)
    with pytest.raises(Refusal, match="same neighbours"):
        pca.join([first, hidden])
    played = pca.join([first, send(people(0, 9, 3), rng=np.random.default_rng(0))])
    assert played.simulation
    assert "not for release" in repr(played)
