"""A private mean in the same budget, and a guarantee for all rows of a person: sensitivity, cost, attack, use."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

import dosimeter as dm
from dosimeter import pca
from dosimeter.core.notion import MEMBERSHIP
from dosimeter.pca.accounting import cost, event
from dosimeter.pca.bounds import Bounds
from dosimeter.pca.fisher import measure
from dosimeter.pca.mechanism import true_sensitivity
from dosimeter.pca.mechanisms import AnalyticGaussian, LaplaceJoint, LaplaceSplit, PLDLaplace
from dosimeter.pca.published_mechanisms import AnalyzeGauss
from dosimeter.pca.release import release
from dosimeter.pca.sensitivity import NEIGHBOURS, sensitivity

from .test_release import scale_error
from .test_sensitivity import BOXES, LOW, rows_of

SHARED = [
    make
    for neighbours in NEIGHBOURS
    for make in (
        AnalyticGaussian(1.0, 1e-3, neighbours, 0.1),
        AnalyticGaussian(1.0, 1e-3, neighbours, 0.5),
        LaplaceJoint(1.0, neighbours, 0.1),
        LaplaceSplit(1.0, 0.0, neighbours, 0.2),
        LaplaceSplit(1.0, 1e-3, neighbours, 0.2),
        PLDLaplace(1.0, 1e-3, neighbours, 0.1),
    )
]


# ------------------------------------------------------------------ sensitivity by brute force


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_no_pair_of_rows_moves_the_mean_further(name, neighbours):
    box = BOXES[name].over(3)
    bound, Z = sensitivity(box, neighbours), rows_of(BOXES[name].over(3), np.random.default_rng(1))
    moved = Z if neighbours == "add-or-remove-one" else (Z[:, None] - Z[None]).reshape(-1, 3)
    assert np.abs(moved).sum(axis=1).max() <= bound.mean_l1 * (1 + 1e-12)
    assert np.linalg.norm(moved, axis=1).max() <= bound.mean_l2 * (1 + 1e-12)
    if not box.shortens:  # and some pair of corners reaches it
        assert np.abs(moved).sum(axis=1).max() == pytest.approx(bound.mean_l1, rel=1e-12)
        assert np.linalg.norm(moved, axis=1).max() == pytest.approx(bound.mean_l2, rel=1e-12)


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_no_person_moves_the_sums_further_than_one_row_could_and_unweighted_rows_would(name, neighbours):
    """Sums of people with 1 to 9 rows, corners among them; one row's charge includes the rounding of the weights."""
    rng, box = np.random.default_rng(2), BOXES[name].over(3)
    bound, Z = sensitivity(box, neighbours, 1), rows_of(box, rng)
    sums = []
    for k in (1, 1, 2, 3, 9) * 40:
        mine = Z[rng.integers(0, 40, k)]
        roots, people = pca.bounded_sums.root_weights(["me"] * k)
        assert people == 1
        Y = mine * roots[:, None]
        sums.append(np.concatenate([(Y.T @ Y)[LOW], roots @ Y]))
    each = np.array(sums)
    moved = each if neighbours == "add-or-remove-one" else (each[:, None] - each[None]).reshape(-1, 9)
    slack = 1 + 1e-12
    assert (np.abs(moved[:, :6]).max(axis=0) <= bound.entries[LOW] * slack).all()
    assert np.linalg.norm(moved[:, :6], axis=1).max() <= bound.l2 * slack
    assert np.abs(moved[:, :6]).sum(axis=1).max() <= bound.l1 * slack
    assert np.linalg.norm(moved[:, 6:], axis=1).max() <= bound.mean_l2 * slack
    nine = np.concatenate([9 * np.outer(z, z)[LOW][None] for z in Z])
    assert np.linalg.norm(nine, axis=1).max() > bound.l2  # nine rows of weight 1 would exceed it


@pytest.mark.parametrize("mechanism", SHARED, ids=repr)
def test_a_person_replaced_changes_nothing_that_is_public_and_moves_the_release_within_the_sensitivity(mechanism):
    """The same random bits on two tables that differ in one person's rows, and in their number."""
    rng = np.random.default_rng(0)
    bounds, d, people = Bounds(-1.0, 1.0), 3, 30
    ids = [f"p{i // 2}" for i in range(2 * people)]
    X = rng.uniform(-1.2, 1.2, (len(ids), d))
    keep = [i for i, person in enumerate(ids) if person != "p4"]
    other = np.vstack([X[keep], np.full((5, d), 50.0)]), [*(ids[i] for i in keep), *["p4"] * 5]
    N = people if mechanism.relation == "add-or-remove-one" else None
    first, second = (
        release(rows, mechanism, bounds=bounds, person=person, n_samples=N, rng=np.random.default_rng(5))
        for rows, person in ((X, ids), other)
    )
    assert first.n_samples == second.n_samples == people
    assert first.unit == first.dose.unit == "person"
    assert first.release.recipe == second.release.recipe
    assert first.remarks == second.remarks
    assert first.dose == second.dose
    np.testing.assert_array_equal(first.scales, second.scales)
    assert first.mean_scale == second.mean_scale > 0
    moved = true_sensitivity(mechanism, bounds.over(d), people)
    step = 2.0**-16 * math.sqrt(6)
    difference = (first.second_moment - second.second_moment)[LOW] * people
    assert 0 < np.linalg.norm(difference) <= moved.l2 + step * people * first.scales.max()
    shift = (first.release.values["mean"] - second.release.values["mean"]) * people
    assert 0 < np.linalg.norm(shift) <= moved.mean_l2 + step * people * first.mean_scale
    by_hand = np.clip(X[8:10], -1, 1).mean(axis=0) - 1.0
    np.testing.assert_allclose(shift, by_hand, atol=2.0**-15 * people * first.mean_scale)


# ------------------------------------------------------------------ the law of the noise, and its cost


@pytest.mark.parametrize("mechanism", [SHARED[0], SHARED[2], SHARED[5]], ids=repr)
def test_the_noise_on_the_mean_has_its_law_and_a_scale_five_percent_off_is_rejected(mechanism):
    rng, d, draws = np.random.default_rng(7), 60, 500
    X = np.random.default_rng(0).uniform(-1, 1, (50, d))
    releases = [release(X, mechanism, bounds=Bounds(-1.0, 1.0), rng=rng) for _ in range(draws)]
    units = np.array([m.release.values["mean"] - X.mean(axis=0) for m in releases]) / releases[0].mean_scale
    law = mechanism.law(1.0)
    assert stats.kstest(units.ravel(), law.cdf).pvalue > 1e-6  # 30,000 draws
    assert abs(scale_error(units, law)) < 5
    for wrong in (0.95, 1.05):
        assert abs(scale_error(units / wrong, law)) > 6
    A = np.array([m.second_moment[:d, 0] for m in releases])
    cross = np.corrcoef(units.T, A.T)[:d, d:]
    assert np.abs(cross).max() < 6 / math.sqrt(draws)  # 3600 of them: the mean has its own noise


@pytest.mark.parametrize("mechanism", SHARED, ids=repr)
@pytest.mark.parametrize("bounds", [Bounds(-1.0, 1.0), Bounds(5.0, 6.0, centre=0.0), Bounds(row_norm=2.0)])
def test_both_together_keep_the_budget_and_do_not_waste_it(mechanism, bounds):
    rows = np.random.default_rng(1).uniform(-1, 1, size=(60, 5))
    N = 60 if mechanism.relation == "add-or-remove-one" else None
    private_pca = release(rows, mechanism, bounds=bounds, n_samples=N)
    assert private_pca.holds
    assert private_pca.epsilon() <= 1 + 1e-9
    if isinstance(mechanism, AnalyticGaussian | LaplaceJoint):
        assert private_pca.epsilon() > 0.999
    # dp-accounting's composition of the event gives at least 0.98 of ours and at most ours.
    assert private_pca.dose.epsilon(mechanism.budget_delta or 1e-9) <= private_pca.epsilon() * 1.002 + 1e-9


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_the_gaussian_pair_is_exact_by_quadrature_and_a_mean_that_is_not_charged_is_caught(neighbours):
    C, N, epsilon, delta, share = 2.0, 50, 1.5, 1e-4, 0.3
    box = Bounds(row_norm=C).over(3)
    mechanism = AnalyticGaussian(epsilon, delta, neighbours, share)
    moved = sensitivity(box, neighbours)
    free = AnalyticGaussian(epsilon, delta, neighbours).scales(box, N)[0, 0]
    for scale, fits in ((mechanism.scales(box, N)[0, 0], True), (free, False)):
        # More than any pair can do: both move by their full sensitivity at once.
        shift = math.hypot(moved.l2 / (N * scale), moved.mean_l2 / (N * mechanism.mean_scale(box, N)))
        with mpmath.workdps(30):

            def gap(x, shift=shift):
                return mpmath.npdf(x, shift, 1) - mpmath.exp(epsilon) * mpmath.npdf(x, 0, 1)

            crossing = epsilon / shift + shift / 2
            real = mpmath.quad(gap, [crossing, crossing + 2, crossing + 8, mpmath.inf])
        assert (real <= delta) is fits
        if fits:
            assert real == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("mechanism", [LaplaceJoint(0.8, mean_share=0.25), LaplaceSplit(0.8, mean_share=0.25)])
def test_pure_privacy_holds_for_densities_of_both_at_corner_pairs(mechanism):
    box, N = Bounds(-1.0, 1.0).over(3), 20
    b = np.concatenate([mechanism.scales(box, N)[LOW], np.full(3, mechanism.mean_scale(box, N))])
    corners = np.array(np.meshgrid(*[(-1.0, 1.0)] * 3)).reshape(3, -1).T
    each = np.hstack([np.einsum("ni,nj->nij", corners, corners)[:, *LOW], corners]) / N
    losses = (np.abs((each[:, None] - each[None]).reshape(-1, 9)) / b).sum(axis=1)
    assert losses.max() <= 0.8
    assert losses.max() > 0.8 * 0.25  # the mean's part is reached


def test_an_attack_on_both_gets_what_the_pair_allows_and_no_more_than_the_budget():
    """The best test of (mean, matrix) for one known pair of tables, on fresh releases: below the upper bound, and near.

    The pair C e₁ against C e₂ moves the matrix as far as any, and the mean by √½ of the most: 0.95 of the budget in μ².
    """
    N, draws, C, share = 20, 2000, 1.0, 0.1
    mechanism = AnalyticGaussian(2.0, 1e-3, mean_share=share)
    rest = np.random.default_rng(1).uniform(-0.4, 0.4, (N - 1, 3))
    tables = [np.vstack([rest, C * np.eye(3)[j]]) for j in (0, 1)]
    rng = np.random.default_rng(3)
    releases = [[release(T, mechanism, bounds=Bounds(row_norm=C), rng=rng) for _ in range(draws)] for T in tables]
    first = releases[0][0]
    widths = np.concatenate([first.scales[LOW], np.full(3, first.mean_scale)])
    statistics = [
        np.array([np.concatenate([m.second_moment[LOW], m.release.values["mean"]]) for m in ms]) / widths
        for ms in releases
    ]
    exact = [np.concatenate([(T.T @ T / N)[LOW], T.mean(axis=0)]) / widths for T in tables]
    direction = exact[1] - exact[0]
    mu = float(np.linalg.norm(direction))
    budget = 1 / pca.calibration.gaussian_deviation(2.0, 1e-3)
    assert 0.97 < mu / budget < 1 + 1e-9
    a, b = (s @ direction for s in statistics)
    auc = np.searchsorted(np.sort(a), b).mean() / draws
    error = 6 * math.sqrt(1 / 12 / draws * 2)
    assert abs(auc - stats.norm.cdf(mu / math.sqrt(2))) < error / 2
    matrix_alone = float(np.linalg.norm(direction[:6]))
    assert stats.norm.cdf(budget * 1.2 / math.sqrt(2)) - auc > error / 4, "noise a fifth too small would be seen"
    assert matrix_alone < mu


def test_a_noise_law_without_accounting_is_refused():
    class Third(AnalyticGaussian):
        law = dm.LogisticNoise

    mechanism, box = Third(1.0, 1e-3), Bounds(-1.0, 1.0).over(2)
    moved, scales = true_sensitivity(mechanism, box, 10), np.ones((2, 2))
    for ask in (lambda: cost(mechanism, scales, moved, 10, 1e-3), lambda: event(mechanism, scales, moved, 10)):
        with pytest.raises(dm.Refusal, match="LogisticNoise"):
            ask()
    with pytest.raises(dm.Refusal, match="LogisticNoise"):
        release(np.zeros((10, 2)), mechanism, bounds=Bounds(-1.0, 1.0))


@pytest.mark.parametrize("share", [-0.1, 0.95, 1.0, float("nan"), True])
def test_a_share_that_leaves_nothing_is_refused_and_published_mechanisms_have_none(share):
    with pytest.raises(dm.Refusal, match="mean_share"):
        AnalyticGaussian(1.0, 1e-3, mean_share=share)
    assert AnalyzeGauss(1.0, 1e-3).share == 0


# ------------------------------------------------------------------ what it is for


def far_from_the_centre(n=100_000):
    """Rows whose mean is far from the middle of their bounds, and whose variance is across that direction."""
    rng = np.random.default_rng(4)
    return np.clip(0.8 + rng.standard_normal((n, 5)) * [0.02, 0.12, 0.02, 0.02, 0.02], -1, 1)


def share_of_variance(X, private_pca):
    v = private_pca.components.vectors[:, 0]
    return float(v @ np.cov(X.T) @ v / np.linalg.eigvalsh(np.cov(X.T))[-1])


def test_about_the_mean_the_first_component_is_that_of_the_variance_and_about_the_centre_it_is_the_mean():
    X = far_from_the_centre()
    with_mean, without = (
        release(X, AnalyticGaussian(8.0, 1e-6, mean_share=share), bounds=Bounds(-1.0, 1.0)) for share in (0.1, 0.0)
    )
    assert share_of_variance(X, with_mean) > 0.9
    assert share_of_variance(X, without) < 0.4
    np.testing.assert_allclose(with_mean.components.mean, X.mean(axis=0), atol=0.02)
    assert (without.components.mean == 0).all()
    assert with_mean.epsilon(1e-6) == pytest.approx(without.epsilon(1e-6), rel=1e-9)


def test_on_adult_a_tenth_of_the_budget_for_the_mean_finds_the_first_direction(papers_data):
    """Column ranges taken as if they were public: what docs/explanation/pca.md says about Adult."""
    from dosimeter.datasets.papers import adult_codes

    X = adult_codes(papers_data)[1]
    low, high = X.min(axis=0), X.max(axis=0)
    Z = 2 * (X - low) / (high - low) - 1
    mechanisms = {share: AnalyticGaussian(1.0, 1e-6, mean_share=share) for share in (0.0, 0.1)}
    held = {
        share: share_of_variance(Z, release(Z, mechanism, bounds=Bounds(-1.0, 1.0), rng=np.random.default_rng(0)))
        for share, mechanism in mechanisms.items()
    }
    assert held[0.0] < 0.25
    assert held[0.1] > 0.97


def test_with_hardly_any_noise_the_components_are_those_of_the_covariance():
    X = far_from_the_centre()
    private_pca = release(X, AnalyticGaussian(1e6, 1e-3, mean_share=0.1), bounds=Bounds(-1.0, 1.0))
    exact = pca.components_of(X)
    np.testing.assert_allclose(private_pca.components.values, exact.values, rtol=1e-2)
    np.testing.assert_allclose(np.abs(np.sum(private_pca.components.vectors * exact.vectors, axis=0))[0], 1, atol=1e-4)


def test_if_noise_dominates_the_mean_the_components_are_no_worse_than_about_the_centre():
    """Sixty rows, a small mean: the squared noise is not mistaken for a mean."""
    X = np.random.default_rng(5).standard_normal((60, 6)) * [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]
    A = np.cov(X.T)
    rng, shares = np.random.default_rng(6), {0.0: [], 0.1: []}
    for share, kept in shares.items():
        for _ in range(200):
            private_pca = release(X, AnalyticGaussian(3.0, 1e-3, mean_share=share), bounds=Bounds(-1.0, 1.0), rng=rng)
            kept.append(share_of_variance(X, private_pca))
    error = math.hypot(*(np.std(kept) / math.sqrt(200) for kept in shares.values()))
    assert np.mean(shares[0.1]) > np.mean(shares[0.0]) - 0.05 - 4 * error
    assert np.trace(A) > 0


def test_people_with_few_rows_weigh_as_much_as_people_with_many():
    ids = ["many"] * 900 + [f"p{i}" for i in range(99)]
    X = np.vstack([np.tile([1.0, 0.0], (900, 1)), np.tile([0.0, 1.0], (99, 1))])
    private_pca = release(X, AnalyticGaussian(1e5, 1e-3), bounds=Bounds(-1.0, 1.0), person=ids)
    np.testing.assert_allclose(private_pca.second_moment, np.diag([0.01, 0.99]), atol=7 * private_pca.scales[0, 0])
    assert private_pca.scales[0, 0] < 1e-3


def test_rows_without_a_person_count_for_nothing_and_missing_people_count_as_the_centre():
    X = np.tile([1.0, 0.0], (4, 1))
    bounds = Bounds([0.0, 0.0], [1.0, 1.0], centre=[0.5, 0.0])
    loud = AnalyticGaussian(1e6, 1e-3, mean_share=0.5)
    private_pca = release(X, loud, bounds=bounds, person=["a", "b", None, None], n_samples=4)
    # Seven scales: wrong once in 10¹¹ runs.
    np.testing.assert_allclose(private_pca.second_moment[0, 0], 2 * 0.25 / 4, atol=7 * private_pca.scales[0, 0])
    np.testing.assert_allclose(private_pca.release.values["mean"], [0.75, 0.0], atol=7 * private_pca.mean_scale)
    assert private_pca.mean_scale < 0.01
    with pytest.raises(dm.Refusal, match="more people than the declared"):
        release(X, loud, bounds=bounds, person=["a", "b", "c", "d"], n_samples=3)
    with pytest.raises(dm.Refusal, match="no row has a person"):
        release(X, loud, bounds=bounds, person=[None] * 4)
    with pytest.raises(dm.Refusal, match="4 rows need one person each"):
        release(X, loud, bounds=bounds, person=["a"])


# ------------------------------------------------------------------ what it reveals about each row and person

TABLE = np.random.default_rng(0).uniform(-1.5, 1.5, size=(24, 4)) * [1.0, 2.0, 0.5, 1.0]
OWNERS = [f"p{i // 3}" if i < 18 else f"q{i}" for i in range(24)]
HELD = {
    "nothing clipped": Bounds([-2.0, -4.0, -1.0, -2.0], [2.0, 4.0, 1.0, 2.0]),
    "cells clamped": Bounds([-1.0, -2.0, -0.5, -1.0], [1.0, 2.0, 0.5, 1.0]),
    "rows shortened": Bounds(row_norm=1.3),
    "both": Bounds([-1.0, -2.0, -0.5, -1.0], [1.0, 2.0, 0.5, 1.0], row_norm=1.3),
}
T4 = np.tril_indices(4)


def exact_values(private_pca, rows, person):
    """(α + d,) what is released, before its noise, over the noise's scale: summed by hand, person by person."""
    Z = private_pca.box.clip(rows).rows
    people = list(range(len(Z))) if person is None else person
    A, m = np.zeros((4, 4)), np.zeros(4)
    for name in dict.fromkeys(people):
        mine = Z[[i for i, other in enumerate(people) if other == name]]
        A, m = A + mine.T @ mine / len(mine), m + mine.mean(axis=0)
    N = private_pca.n_samples
    return np.concatenate([A[T4] / N / private_pca.scales[T4], m / N / private_pca.mean_scale])


def by_differences(private_pca, person, rows, h=1e-6):
    columns = []
    for i in rows:
        for k in range(4):
            up, down = TABLE.copy(), TABLE.copy()
            up[i, k] += h
            down[i, k] -= h
            columns.append((exact_values(private_pca, up, person) - exact_values(private_pca, down, person)) / (2 * h))
    J = np.array(columns).T
    return J.T @ J


@pytest.mark.parametrize("bounds", HELD)
@pytest.mark.parametrize("person", [None, OWNERS], ids=["rows", "people"])
@pytest.mark.parametrize("mechanism", [AnalyticGaussian(1.0, 1e-4, mean_share=0.4), LaplaceJoint(1.0, mean_share=0.4),
                                       LaplaceSplit(1.0, mean_share=0.4)], ids=repr)  # fmt: skip
def test_rows_and_people_agree_with_finite_differences_of_matrix_and_mean(bounds, person, mechanism):
    private_pca = release(TABLE, mechanism, bounds=HELD[bounds], person=person)
    leak = measure(private_pca, TABLE, person)
    examples, cells = leak.examples, leak.cells
    for i in range(len(TABLE)):
        F = by_differences(private_pca, person, [i])
        size = max(math.sqrt(np.linalg.eigvalsh(F)[-1]), examples.max() * 1e-6)
        assert examples[i] == pytest.approx(math.sqrt(np.linalg.eigvalsh(F)[-1]), abs=2e-6 * size)
        np.testing.assert_allclose(cells[i], np.sqrt(np.diag(F)), atol=3e-6 * size)
        np.testing.assert_allclose(leak.matrix([i]), F, atol=1e-5 * size**2)
    groups = leak.group(OWNERS)
    for name in ("p0", "p3", "q20"):
        mine = [i for i, other in enumerate(OWNERS) if other == name]
        top = math.sqrt(np.linalg.eigvalsh(by_differences(private_pca, person, mine))[-1])
        assert groups[name] == pytest.approx(top, rel=1e-5)
        operator = leak._product(np.array(mine), np.eye(4 * len(mine))[1].reshape(len(mine), 4))
        np.testing.assert_allclose(operator.ravel(), leak.matrix(mine)[1], atol=1e-9 * top**2)


@pytest.mark.parametrize("person", [None, OWNERS], ids=["rows", "people"])
def test_the_presence_of_a_person_is_what_leaving_them_out_moves(person):
    private_pca = release(
        TABLE, AnalyticGaussian(1.0, 1e-4, mean_share=0.4), bounds=HELD["cells clamped"], person=person
    )
    leak = measure(private_pca, TABLE, person)
    everybody = exact_values(private_pca, TABLE, person)
    for name, mu in leak.group_membership(OWNERS).items():
        rest = [i for i, other in enumerate(OWNERS) if other != name]
        left = exact_values(private_pca, TABLE[rest], None if person is None else [OWNERS[i] for i in rest])
        assert mu == pytest.approx(float(np.linalg.norm(everybody - left)), rel=1e-9)
    if person is None:
        left = exact_values(private_pca, TABLE[1:], None)
        assert leak.membership[0] == pytest.approx(float(np.linalg.norm(everybody - left)), rel=1e-9)
        assert leak.dose(OWNERS, notion=MEMBERSHIP).unit == "person"
    else:
        with pytest.raises(dm.Refusal, match="whose each row is"):
            leak.dose()
        with pytest.raises(dm.Refusal, match="whose each row is"):
            measure(private_pca, TABLE)


# ------------------------------------------------------------------ parties


def test_parties_that_send_a_mean_are_joined_about_it():
    X = far_from_the_centre()
    # At ε = 1 the share that is lost exceeds a tenth once in thirty draws; it falls as 1/ε².
    bounds, mechanism = Bounds(-1.0, 1.0), AnalyticGaussian(8.0, 1e-6, mean_share=0.1)
    parts = [X[:40_000], X[40_000:]]
    joined = pca.join([pca.noisy_moment(part, mechanism, bounds=bounds) for part in parts])
    assert share_of_variance(X, joined) > 0.9
    np.testing.assert_allclose(joined.components.mean, X.mean(axis=0), atol=0.02)
    plain = pca.noisy_moment(X[:50], AnalyticGaussian(8.0, 1e-6), bounds=bounds)
    with pytest.raises(dm.Refusal, match="mean_share"):
        pca.join([joined.messages[0], plain])


def test_the_joined_guarantee_is_a_pair_that_holds_for_every_party():
    """Each party's ε at its own δ would be a largest ε at no particular δ."""
    X = np.random.default_rng(0).uniform(-1, 1, (60, 3))
    strict = pca.noisy_moment(X[:20], AnalyticGaussian(1.0, 1e-8), bounds=Bounds(-1.0, 1.0))
    loose = pca.noisy_moment(X[20:], AnalyticGaussian(1.0, 1e-2), bounds=Bounds(-1.0, 1.0))
    joined = pca.join([strict, loose])
    assert joined.delta == 1e-2
    assert joined.epsilon == pytest.approx(1.0)
    assert joined.epsilon_at(1e-8) == loose.epsilon_at(1e-8) > 1.5
    for message in (strict, loose):
        assert message.epsilon_at(joined.delta) <= joined.epsilon


@pytest.mark.parametrize(
    "other",
    [Bounds([-1.0] * 3, [1.0, 1.0, 1.0], row_norm=1.5), Bounds([-2.0] * 3, [2.0] * 3), Bounds(row_norm=2.0)],
    ids=["a row norm", "wider bounds", "only a norm"],
)
def test_parties_with_unlike_bounds_about_one_centre_are_refused(other):
    X = np.random.default_rng(0).uniform(-1, 1, (20, 3))
    mechanism = AnalyticGaussian(1.0, 1e-6)
    first = pca.noisy_moment(X, mechanism, bounds=Bounds([-1.0] * 3, [1.0] * 3))
    with pytest.raises(dm.Refusal, match="same bounds"):
        pca.join([first, pca.noisy_moment(X, mechanism, bounds=other)])


def test_parties_of_people_and_of_rows_are_refused():
    X = np.random.default_rng(0).uniform(-1, 1, (20, 3))
    mechanism, bounds = AnalyticGaussian(1.0, 1e-6), Bounds(-1.0, 1.0)
    rows, people = (pca.noisy_moment(X, mechanism, bounds=bounds, person=owners) for owners in (None, list(range(20))))
    with pytest.raises(dm.Refusal, match="unit"):
        pca.join([rows, people])
