"""Sparse and wide tables against the dense route: the dual is equal in every figure, the iterative one encloses it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge

import dosimeter as dm
from dosimeter import glm
from dosimeter.glm.jacobians import sparse_jacobian

LOSSES = {"squared": glm.Squared(), "logistic": glm.Logistic(), "poisson": glm.Poisson(), "gamma": glm.Gamma()}


def problem(loss, n=30, d=50, seed=0, density=0.3):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, density=density, random_state=rng, data_rvs=lambda k: rng.integers(1, 4, k).astype(float))
    X = X.tocsr()
    margin = 0.3 * (X @ rng.normal(size=d))
    y = {
        "squared": lambda: margin + rng.normal(size=n),
        "logistic": lambda: (rng.random(n) < 1 / (1 + np.exp(-margin))).astype(float),
        "poisson": lambda: rng.poisson(np.exp(np.clip(margin, -2, 2))).astype(float),
        "gamma": lambda: rng.gamma(3.0, np.exp(np.clip(margin, -2, 2)) / 3.0) + 0.01,
    }[loss]()
    return X, y, rng.uniform(0.5, 2.0, n)


def both(loss, route, intercept, weighted, noise, **size):
    X, y, weight = problem(loss, **size)
    options = {"intercept": intercept, "sample_weight": weight if weighted else None}
    dense = glm.fit(X.toarray(), y, LOSSES[loss], 0.05, **options)
    wide = glm.fit(X, y, LOSSES[loss], 0.05, route=route, **options)
    return glm.measure(dense, X.toarray(), y, noise), glm.measure(wide, X, y, noise), dense, wide


@pytest.mark.parametrize("noise", [dm.Gaussian(0.2), dm.Laplace(0.3)], ids=str)
@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("route", ["dual", "primal"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_exact_routes_have_the_figures_of_the_dense_one(loss, route, weighted, intercept, noise):
    oracle, leak, dense, wide = both(loss, route, intercept, weighted, noise)
    np.testing.assert_allclose(wide.w, dense.w, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(leak.examples, oracle.examples, rtol=1e-8)
    np.testing.assert_allclose(leak.labels, oracle.labels, rtol=1e-8)
    np.testing.assert_allclose(leak.without_target().examples, oracle.without_target().examples, rtol=1e-8)
    assert leak.dataset == pytest.approx(oracle.dataset, rel=1e-8)
    groups = np.arange(30) // 3
    ours, theirs = (list(k.group(groups, tied_target=True).values()) for k in (leak, oracle))
    np.testing.assert_allclose(ours, theirs, rtol=1e-7)
    np.testing.assert_allclose(leak.cells_of([0, 7]), oracle.cells[[0, 7]], rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_iterative_route_brackets_the_exact_figure_of_every_row(loss, intercept):
    oracle, leak, dense, wide = both(loss, "iterative", intercept, True, dm.Gaussian(0.2))
    np.testing.assert_allclose(wide.w, dense.w, rtol=1e-6, atol=1e-8)
    lower, upper = leak.bracket
    assert (lower <= oracle.examples * (1 + 1e-9)).all()
    assert (oracle.examples <= upper * (1 + 1e-9)).all()
    assert leak.standing.value == "upper bound"
    assert (leak.labels >= oracle.labels * (1 - 1e-9)).all()
    assert leak.dataset >= oracle.dataset * (1 - 1e-9)
    people = np.arange(30) // 3
    for bound, exact in zip(leak.group(people).values(), oracle.group(people).values(), strict=True):
        assert bound >= exact * (1 - 1e-9)
    assert leak.dose().standing.value == "upper bound"


def test_the_worst_words_of_a_row_are_its_largest_cells():
    oracle, leak, _, _ = both("logistic", "dual", True, False, dm.Gaussian(0.2))
    (worst,) = leak.top_cells([4], k=3)
    X, _, _ = problem("logistic")
    stored = np.flatnonzero(X[[4]].toarray()[0])
    expected = stored[np.argsort(-oracle.cells[4][stored])][:3]
    np.testing.assert_array_equal(worst.columns, expected)
    absent = np.setdiff1d(np.arange(50), stored)
    assert worst.zero_eta == pytest.approx(oracle.cells[4][absent].max(), rel=1e-8)


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_a_sparse_row_moves_the_weights_as_a_refit_by_scikit_learn_shows(kind):
    X, y, _ = problem("squared" if kind == "ridge" else "logistic")
    loss = LOSSES["squared" if kind == "ridge" else "logistic"]
    model = {
        "ridge": lambda X: Ridge(alpha=30 * 0.05, fit_intercept=False, tol=1e-14, solver="sparse_cg").fit(X, y).coef_,
        "logistic": lambda X: LogisticRegression(
            C=1 / (30 * 0.05), fit_intercept=False, solver="newton-cholesky", tol=1e-13
        ).fit(X.toarray(), y).coef_[0],
    }[kind]  # fmt: skip
    leak = glm.measure(glm.fit(X, y, loss, 0.05, route="dual"), X, y, dm.Gaussian(1.0))
    for row, column in ((0, 3), (5, 20)):
        step = sparse.csr_matrix(([1e-3], ([row], [column])), shape=X.shape)
        slope = (model((X + step).tocsr()) - model((X - step).tocsr())) / 2e-3
        assert leak.cells_of([row])[0, column] == pytest.approx(np.linalg.norm(slope), rel=1e-5)


def test_what_the_wide_routes_do_not_have_is_refused_by_name():
    X, y, _ = problem("squared")
    with pytest.raises(dm.CannotMeasure, match="offset"):
        glm.fit(X, y, glm.Squared(), 0.05, offset=np.ones(30))
    with pytest.raises(dm.CannotMeasure, match="sparse"):
        glm.fit(X, y, glm.Squared(), np.full(50, 0.05))
    with pytest.raises(dm.Refusal, match="route"):
        glm.fit(X, y, glm.Squared(), 0.05, route="sideways")


@pytest.mark.parametrize("loss", [glm.Huber(), glm.SquaredEpsilonInsensitive(0.3)])
@pytest.mark.parametrize("route", ["primal", "dual"])
def test_a_loss_with_kinks_has_the_figures_of_the_dense_route(loss, route):
    X, y, _ = problem("squared")
    wide, dense = glm.fit(X, y, loss, 0.05, route=route), glm.fit(X.toarray(), y, loss, 0.05)
    assert wide.w == pytest.approx(dense.w, rel=1e-9, abs=1e-12)
    leak, other = glm.measure(wide, X, y, dm.Gaussian(0.5)), glm.measure(dense, X.toarray(), y, dm.Gaussian(0.5))
    assert leak.examples == pytest.approx(other.examples, rel=1e-8)
    assert leak.kink_distances == pytest.approx(other.kink_distances, rel=1e-8)


@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("loss", LOSSES)
def test_groups_that_share_some_columns_and_single_columns_have_the_dense_figures(loss, intercept):
    """A primal sparse table: groups are a diagonal and a part of low rank, whichever part of the columns is shared."""
    dense, wide, _, _ = both(loss, "primal", intercept, True, dm.Gaussian(0.2), n=120, d=12)
    groups = np.repeat(np.arange(48), 3)[:120] // np.repeat([1, 2], 60)  # of three rows and of six
    for tied in ((), (0, 3), tuple(range(9)), tuple(range(12))):
        for label in (False, True):
            options = {"tied": tied, "tied_target": label}
            assert wide.group(groups, **options) == pytest.approx(dense.group(groups, **options), rel=1e-9)
    for j in range(12):
        assert wide.jacobian.column_norm(j) == pytest.approx(dense.attributes[j], rel=1e-9)


def test_a_sum_over_sparse_rows_that_would_lose_digits_is_taken_over_the_moves_instead(monkeypatch):
    _, wide, _, _ = both("logistic", "primal", True, False, dm.Gaussian(0.2), n=120, d=12)
    jacobian = wide.jacobian
    assert jacobian._gram_in_columns(jacobian.X, -jacobian.a) is None
    quick = jacobian.column_sums()
    monkeypatch.setattr(sparse_jacobian, "LOST_IN_GRAM", 0.0)
    assert jacobian._gram_in_columns(jacobian.X, jacobian.a**2) is None
    for sums, oracle in zip(quick, jacobian.column_sums(), strict=True):
        np.testing.assert_allclose(sums, oracle, rtol=1e-10, atol=1e-13)
