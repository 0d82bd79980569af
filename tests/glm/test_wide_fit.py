"""Every route finds the minimiser, that of the dense path and of scikit-learn, without writing the table out."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

import dosimeter as dm
from dosimeter import glm

from .wide_problems import wide_tables

ROUTES = ["primal", "dual", "iterative"]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("table", list(wide_tables()), ids=lambda t: t.name)
def test_the_minimiser_is_that_of_the_dense_path(table, route):
    dense, ours = table.fit(route="primal"), table.fit(table.sparse, route=route)
    np.testing.assert_allclose(ours.w, dense.w, atol=1e-11)
    np.testing.assert_allclose(ours.margin, dense.margin, atol=1e-11)
    np.testing.assert_allclose(ours.residual, dense.residual, atol=1e-11)
    assert ours.decrement < 1e-10
    np.testing.assert_allclose(ours.fingerprint, dense.fingerprint, atol=1e-12)
    np.testing.assert_allclose(ours.reach, dense.reach, rtol=1e-9)


@pytest.mark.parametrize("route", ROUTES)
def test_the_minimiser_is_that_of_scikit_learn(route):
    rng = np.random.default_rng(3)
    X = sparse.csr_array(rng.poisson(0.3, (60, 150)).astype(float))
    n = X.shape[0]
    margin = X @ rng.standard_normal(150) * 0.3
    two, count = (margin > 0).astype(float), rng.poisson(np.exp(np.clip(margin, -2, 2))).astype(float)
    fits = [
        (glm.Logistic(), two, LogisticRegression(C=0.5, tol=1e-12, max_iter=5000), 2.0),
        (glm.Poisson(), count, PoissonRegressor(alpha=0.1, tol=1e-12, max_iter=5000), 0.1 * n),
        (glm.Squared(), margin, Ridge(alpha=3.0, tol=1e-12, solver="sparse_cg"), 3.0),
    ]
    for loss, y, model, ridge in fits:
        model.fit(X, y)
        ours = glm.fit(X, y, loss, ridge / n, intercept=True, route=route)
        np.testing.assert_allclose(ours.coef, np.ravel(model.coef_), atol=1e-5)
        np.testing.assert_allclose(ours.w[-1], np.ravel(model.intercept_)[0], atol=1e-5)


@pytest.mark.parametrize("route", ROUTES)
def test_given_parameters_state_how_far_off_they_are(route):
    table = next(wide_tables())
    best = table.fit(table.sparse, route=route)
    off = best.w + 0.01 * np.cos(np.arange(len(best.w)))
    X, options = table.X, {"sample_weight": table.sample_weight, "intercept": table.intercept}
    ours = glm.fit_at(table.sparse, table.y, table.loss, off, table.l2, route=route, **options)
    dense = glm.fit_at(X, table.y, table.loss, off, table.l2, route="primal", **options)
    assert ours.iterations == 0
    assert ours.decrement == pytest.approx(dense.decrement, rel=1e-6)
    assert ours.gradient_norm == pytest.approx(dense.gradient_norm, rel=1e-9)


def test_an_earlier_fit_makes_the_next_one_cheap():
    table = next(t for t in wide_tables() if t.loss.name == "logistic")
    first = table.fit(table.sparse, route="dual")
    assert table.fit(table.sparse, route="dual", start=first.w).iterations < first.iterations


@pytest.mark.parametrize(("route", "n"), [("dual", 300), ("iterative", 600)])
def test_the_table_is_never_written_out(route, n):
    rng, d = np.random.default_rng(0), 80_000
    X = sparse.random_array((n, d), density=4e-4, format="csr", rng=rng)
    y = (rng.random(n) < 0.5).astype(float)
    tracemalloc.start()
    leak = glm.measure(glm.fit(X, y, glm.Logistic(), 0.01, intercept=True, route=route), X, y, dm.Gaussian(1.0))
    assert leak.examples.shape == (n,)
    assert leak.dataset > 0
    assert leak.labels.shape == (n,)
    assert len(leak.top_cells([0, 1], 3)) == 2
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * d * 8 / 2


def test_what_has_no_minimiser_or_no_route_is_refused():
    X, y = sparse.csr_array(np.eye(4, 6) + 1.0), np.array([0.0, 1.0, 0.0, 1.0])
    for route in ("dual", "iterative"):
        with pytest.raises(dm.Refusal, match="4 rows cannot determine 6 parameters"):
            glm.fit(X, y, glm.Squared(), 0.0, route=route)
    for route in ("dual", "iterative"):
        with pytest.raises(dm.Refusal, match="needs a penalty"):
            glm.fit(X.T, np.arange(6.0), glm.Squared(), 0.0, route=route)
    with pytest.raises(dm.Refusal, match="separate the targets is not checked"):
        glm.fit(X.T, np.arange(6) % 2, glm.Logistic(), 0.0)
    with pytest.raises(dm.Refusal, match="linearly dependent"):
        glm.fit(sparse.csr_array(np.ones((6, 2))), np.arange(6.0), glm.Squared(), 0.0)
    with pytest.raises(dm.Refusal, match="zero in every row"):
        glm.fit(sparse.csr_array(np.eye(6)[:, :3] * [1.0, 0.0, 1.0]), np.arange(6.0), glm.Squared(), 0.0)
    with pytest.raises(dm.Refusal, match="every row has class 1"):
        glm.fit(X, np.ones(4), glm.Logistic(), 0.1, intercept=True)
    with pytest.raises(dm.Refusal, match="needs a loss of"):
        glm.fit(X, y, object(), 0.1)
    with pytest.raises(dm.Refusal, match="l2 must be"):
        glm.fit(X, y, glm.Squared(), -1.0)
    with pytest.raises(dm.Refusal, match="of shape"):
        glm.fit_at(X, y, glm.Squared(), np.zeros(5), 0.1)
    with pytest.raises(dm.Refusal, match="leave the engine out"):
        glm.fit(X, y, glm.Squared(), 0.1, engine=object())
    with pytest.raises(dm.Refusal, match="not finite at these parameters"):
        glm.fit_at(X, y, glm.Poisson(), np.full(6, 400.0), 0.1)


def test_an_unpenalised_sparse_table_with_few_columns_is_fitted():
    rng = np.random.default_rng(0)
    X, y = rng.poisson(1.0, (40, 4)).astype(float), rng.standard_normal(40)
    ours = glm.fit(sparse.csr_array(X), y, glm.Squared(), intercept=True)
    truth = np.linalg.lstsq(np.column_stack([X, np.ones(40)]), y, rcond=None)[0]
    np.testing.assert_allclose(ours.w, truth, atol=1e-12)


def test_readings_that_need_the_factor_name_the_route():
    table = next(wide_tables())
    fitted = table.fit(table.sparse, route="dual")
    with pytest.raises(dm.CannotMeasure, match=r'dual route does not form.*route="primal"'):
        glm.membership(fitted, table.X, table.y, dm.Gaussian(1.0))
    assert fitted.condition > 1
    assert "12 rows" in repr(fitted)
