"""Fisher information of the noisy second moment: against finite differences, random scores, and refits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

import dosimeter as dm
from dosimeter.attacks.result import Scores
from dosimeter.core.notion import FISHER, LEAKAGE, MEMBERSHIP, Standing
from dosimeter.pca.bounds import Bounds
from dosimeter.pca.components import second_moment
from dosimeter.pca.fisher import measure
from dosimeter.pca.mechanisms import AnalyticGaussian, LaplaceJoint, LaplaceSplit, PLDLaplace
from dosimeter.pca.published_mechanisms import LaplaceScalar
from dosimeter.pca.release import release
from dosimeter.pca.secular import diagonal_plus_rank_one, projected_diagonal_eigenvalue

D = 4
RNG = np.random.default_rng(0)
X = RNG.uniform(-1.5, 1.5, size=(30, D)) * [1.0, 2.0, 0.5, 1.0]
X[3, 1:] = 0.0
X[4] = 0.0
LOW = np.tril_indices(D)
BOUNDS = {
    "nothing clipped": Bounds([-2.0, -4.0, -1.0, -2.0], [2.0, 4.0, 1.0, 2.0]),
    "cells clamped": Bounds([-1.0, -2.0, -0.5, -1.0], [1.0, 2.0, 0.5, 1.0]),
    "rows shortened": Bounds(row_norm=1.3),
    "both": Bounds([-1.0, -2.0, -0.5, -1.0], [1.0, 2.0, 0.5, 1.0], row_norm=1.3),
    "askew": Bounds([-2.0, -4.0, -1.0, -2.0], [3.0, 5.0, 1.0, 2.0], centre=0.1),
}
MECHANISMS = [
    AnalyticGaussian(1.0, 1e-4),
    LaplaceJoint(1.0),
    LaplaceScalar(1.0),
    LaplaceSplit(1.0),
    PLDLaplace(1.0, 1e-4),
]
every_release = pytest.mark.parametrize(
    ("bounds", "mechanism"), [(b, m) for b in BOUNDS for m in MECHANISMS], ids=lambda v: str(v)[:13]
)


def leak_of(bounds, mechanism, rows=X):
    return measure(release(rows, mechanism, bounds=bounds), rows)


def moved_entries(private_pca, rows, i, k, h):
    """(α,) central difference of A's lower triangle with cell (i, k), through clipping."""
    up, down = rows.copy(), rows.copy()
    up[i, k] += h
    down[i, k] -= h
    A = [second_moment(private_pca.box.clip(v).rows, n=private_pca.n_samples)[LOW] for v in (up, down)]
    return (A[0] - A[1]) / (2 * h)


def by_differences(leak, rows, h=1e-6):
    """Fisher information about the numbers of `rows`, by differences of A, without the closed form."""
    private_pca = leak.private_pca
    J = (
        np.array([moved_entries(private_pca, X, i, k, h) for i in rows for k in range(D)]).T
        / private_pca.scales[LOW][:, None]
    )
    return J.T @ J


@every_release
def test_rows_and_cells_agree_with_finite_differences_through_the_clipping(bounds, mechanism):
    leak = leak_of(BOUNDS[bounds], mechanism)
    examples, cells = leak.examples, leak.cells
    clipped = 0
    for i in range(len(X)):
        F = by_differences(leak, [i])
        top = math.sqrt(max(np.linalg.eigvalsh(F)[-1], 0.0))
        size = max(top, examples.max() * 1e-6)
        assert examples[i] == pytest.approx(top, abs=1e-6 * size)
        np.testing.assert_allclose(cells[i], np.sqrt(np.diag(F)), atol=2e-6 * size)
        np.testing.assert_allclose(leak.matrix([i]), F, atol=1e-5 * size**2)
        clipped += int(leak.clipped.clamped[i].any() or leak.clipped.factor[i] < 1)
    assert (clipped > 0) == (bounds not in ("nothing clipped", "askew"))


@every_release
def test_the_covariance_of_the_score_is_the_information(bounds, mechanism):
    leak = leak_of(BOUNDS[bounds], mechanism)
    row, draws = 7, 200_000
    law, b = mechanism.law(1.0), leak.private_pca.scales[LOW]
    J = np.array([moved_entries(leak.private_pca, X, row, k, 1e-6) for k in range(D)]).T
    # score of x = Σ_e dA_e/dx · (-p'/p)(noise_e)
    scores = -law.score(law.draw(np.random.default_rng(1), (draws, len(b)))) / b @ J
    empirical = scores.T @ scores / draws
    F = leak.matrix([row])
    tolerance = 6 * np.sqrt((np.outer(np.diag(F), np.diag(F)) * 3 + 1e-12) / draws)
    assert (np.abs(empirical - F) <= tolerance).all()
    top = np.linalg.eigvalsh(empirical)[-1]
    if top > 1e-9:
        assert abs(math.sqrt(top) / leak.examples[row] - 1) < 0.02  # 5 % in the scale would be 5 % here
        assert abs(math.sqrt(top) / (1.05 * leak.examples[row]) - 1) > 0.02


def test_the_formula_of_one_scale_is_the_known_one():
    leak = leak_of(BOUNDS["nothing clipped"], AnalyticGaussian(1.0, 1e-4))
    s, N = leak.private_pca.scales[0, 0], len(X)
    x = X[5]
    known = (x @ x * np.eye(D) + np.outer(x, x) + 2 * np.diag(x**2)) / (N * s) ** 2
    np.testing.assert_allclose(leak.matrix([5]), known, rtol=1e-12)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("mechanism", [AnalyticGaussian(1.0, 1e-4), LaplaceSplit(1.0)])
def test_a_person_with_several_rows_has_their_stacked_information(bounds, mechanism):
    leak = leak_of(BOUNDS[bounds], mechanism)
    person = ["ann" if i % 3 == 0 else "bob" if i == 1 else f"p{i}" for i in range(len(X))]
    dose = leak.dose(person)
    figures = dict(zip(dose.ids, dose.figures, strict=True))
    anns = [i for i in range(len(X)) if i % 3 == 0]
    assert figures["ann"] == pytest.approx(math.sqrt(np.linalg.eigvalsh(by_differences(leak, anns))[-1]), rel=1e-5)
    assert figures["bob"] == pytest.approx(leak.examples[1], rel=1e-12)
    assert figures["ann"] >= leak.examples[anns].max()
    assert (dose.unit, dose.standing) == ("person", Standing.EXACT)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_many_rows_of_one_person_by_products_agree_with_their_matrix(bounds):
    rows = np.random.default_rng(2).uniform(-1.5, 1.5, size=(300, D))  # 1,200 unknowns: too many for the small matrix
    leak = leak_of(BOUNDS[bounds], LaplaceSplit(1.0), rows)
    eta = leak.group(["one"] * 300)["one"]
    assert eta == pytest.approx(math.sqrt(np.linalg.eigvalsh(leak.matrix(range(300)))[-1]), rel=1e-8)


def test_membership_is_the_distance_of_the_matrices_with_and_without_the_row():
    leak = leak_of(BOUNDS["both"], AnalyticGaussian(1.0, 1e-4))
    private_pca, mu = leak.private_pca, leak.membership
    clip = private_pca.box.clip
    for i in range(len(X)):
        gone = second_moment(clip(X).rows, n=30) - second_moment(clip(np.delete(X, i, axis=0)).rows, n=30)
        assert mu[i] == pytest.approx(np.linalg.norm(gone[LOW]) / private_pca.scales[0, 0], rel=1e-9, abs=1e-12)


def test_no_membership_exceeds_what_the_budget_allows():
    """μ of the worst possible row: at most that of the Gaussian mechanism, for a row added or removed."""
    private_pca = release(
        X, AnalyticGaussian(0.5, 1e-4, "add-or-remove-one"), bounds=Bounds(row_norm=1.3), n_samples=30
    )
    mu = measure(private_pca, X).membership
    e = np.vstack([1.3 * np.eye(D), X[:26]])
    worst = measure(release(e, private_pca.mechanism, bounds=Bounds(row_norm=1.3), n_samples=30), e).membership
    from dp_accounting.gaussian_mechanism import get_sigma_gaussian

    assert mu.max() <= worst.max() * (1 + 1e-12)
    assert worst.max() == pytest.approx(1 / get_sigma_gaussian(0.5, 1e-4), rel=1e-6)


def test_the_best_attack_on_the_matrix_reaches_its_auc_and_no_more():
    private_pca = release(X, AnalyticGaussian(30.0, 1e-4), bounds=BOUNDS["nothing clipped"])
    leak = measure(private_pca, X)
    row = int(np.argmax(leak.membership))
    delta = np.outer(leak.clipped.rows[row], leak.clipped.rows[row])[LOW] / (30 * private_pca.scales[0, 0])
    rng, trials = np.random.default_rng(4), 20_000
    played = Scores(
        "likelihood ratio",
        (delta + rng.standard_normal((trials, len(delta)))) @ delta,
        rng.standard_normal((trials, len(delta))) @ delta,
    )
    assert played.figure == pytest.approx(leak.auc[row], abs=0.012)  # four standard errors
    assert leak.auc[row] == pytest.approx(norm.cdf(np.linalg.norm(delta) / math.sqrt(2)), rel=1e-12)


def test_the_membership_of_a_person_is_that_of_all_their_rows():
    leak = leak_of(BOUNDS["cells clamped"], AnalyticGaussian(1.0, 1e-4))
    labels = ["ann"] * 10 + [str(i) for i in range(20)]
    mu = leak.group_membership(labels)
    Z = leak.clipped.rows
    gone = second_moment(Z, n=30) - second_moment(Z[10:], n=30)
    assert mu["ann"] == pytest.approx(np.linalg.norm(gone[LOW]) / leak.private_pca.scales[0, 0], rel=1e-9)
    assert mu["3"] == pytest.approx(leak.membership[13], rel=1e-12)
    dose = leak.dose(labels, notion=MEMBERSHIP)
    assert dict(zip(dose.ids, dose.figures, strict=True))["ann"] == pytest.approx(mu["ann"])


def test_laplace_noise_has_no_mu():
    with pytest.raises(dm.CannotMeasure, match="no μ"):
        _ = leak_of(BOUNDS["both"], LaplaceJoint(1.0)).membership


def test_the_components_are_bounded_by_the_matrix_and_the_dose_says_so():
    leak = leak_of(BOUNDS["both"], AnalyticGaussian(1.0, 1e-4))
    assert leak.dose().standing is Standing.EXACT
    assert leak.dose(of="components").standing is Standing.UPPER_BOUND
    branded = measure(release(X, AnalyticGaussian(1.0, 1e-4), private=False), X).dose()
    assert branded.standing is Standing.UNACCOUNTED
    assert branded.not_covered
    for wrong in ({"of": "weights"}, {"notion": LEAKAGE}):
        with pytest.raises(dm.Refusal):
            leak.dose(**wrong)
    with pytest.raises(dm.Refusal, match="labels"):
        leak.group(["a"])


def test_a_published_entry_without_noise_is_unbounded():
    flat = Bounds([1.0, 0.0], [1.0, 1.0], centre=0.0)
    rows = np.tile([1.0, 0.3], (10, 1))
    with pytest.raises(dm.CannotMeasure, match="unbounded"):
        measure(release(rows, LaplaceScalar(1.0), bounds=flat), rows)


def test_a_column_that_cannot_vary_leaks_nothing():
    rows = RNG.uniform(size=(20, 3))
    leak = leak_of(Bounds([0.0, 0.5, 0.0], [1.0, 0.5, 1.0]), LaplaceSplit(1.0), rows)
    assert (leak.cells[:, 1] == 0).all()
    assert (leak.examples > 0).all()


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_the_secular_equation_gives_the_eigenvalue_of_lapack_also_where_poles_meet(d):
    rng = np.random.default_rng(d)
    rows = rng.exponential(size=(400, d)) * 10.0 ** rng.integers(-3, 3, size=(400, 1))
    y = rng.standard_normal((400, d)) * 10.0 ** rng.integers(-4, 4, size=(400, d))
    rows[:100, 0] = rows[:100].max(axis=1)  # ties
    y[50:150][np.arange(100), rows[50:150].argmax(axis=1)] = 0.0  # nothing at the largest
    y[150:160] = 0.0
    known = [np.linalg.eigvalsh(np.diag(a) + np.outer(b, b))[-1] for a, b in zip(rows, y, strict=True)]
    np.testing.assert_allclose(diagonal_plus_rank_one(rows, y), known, rtol=1e-13)


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_the_eigenvalue_across_the_row_is_that_of_lapack(d):
    rng = np.random.default_rng(d)
    p = rng.exponential(size=(300, d)) ** 3
    p[:60, 0] = p[:60].max(axis=1)
    p[60:90] = np.eye(d)[0]
    p /= p.sum(axis=1, keepdims=True)
    P = [np.eye(d) - np.outer(np.sqrt(q), np.sqrt(q)) for q in p]
    known = [np.linalg.eigvalsh(B @ np.diag(q) @ B)[-1] for B, q in zip(P, p, strict=True)]
    np.testing.assert_allclose(projected_diagonal_eigenvalue(p), known, atol=1e-14)


def test_the_dose_of_rows_in_the_notion_of_fisher_adds_over_releases():
    leak = leak_of(BOUNDS["both"], AnalyticGaussian(1.0, 1e-4))
    twice = leak.dose(notion=FISHER) + leak.dose()
    np.testing.assert_allclose(twice.figures, math.sqrt(2) * leak.examples, rtol=1e-12)
