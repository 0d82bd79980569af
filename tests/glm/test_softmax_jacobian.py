"""Softmax readings without written-out Jacobians: every one against the Jacobian written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.category import simplex
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.glm.fitting import softmax_newton
from dosimeter.glm.jacobians import softmax_jacobian
from dosimeter.glm.jacobians.category_steps import shared_step_norms, step_norms
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian, largest_singular_values

from .problems import adversarial, ordinary

NONE = np.empty(0, dtype=np.intp)
CLOSE = dict(rtol=1e-9, atol=0.0)


class WrittenOut(DenseJacobian):
    """The oracle: only `dense` is taken from the Jacobian, as many rows and columns as are needed."""

    def __init__(self, inner):
        self.inner, self.n, self.m = inner, inner.n, inner.m
        self.target_width, self.width = inner.target_width, inner.width

    def dense(self, rows):
        return self.inner.dense(rows)


@pytest.fixture(scope="module")
def digits():
    """899 rows of 64 pixels, ten classes: 585 released values."""
    X, y = load_digits(return_X_y=True)
    X, y = X[::2] / 16.0, y[::2].astype(float)
    fit = glm.fit(X, y, glm.Softmax(10, "mean"), 1.0 / len(X), intercept=True)
    jacobian = glm.measure(fit, X, y, dm.Gaussian(1.0)).jacobian
    assert not jacobian.small
    return jacobian


@pytest.fixture(scope="module")
def oracle(digits):
    return WrittenOut(digits)


EVERY = np.arange(64, dtype=np.intp)
TARGET = np.arange(64, 74, dtype=np.intp)


@pytest.mark.parametrize("include_target", [True, False])
def test_every_row_of_the_digits(digits, oracle, include_target):
    ours, truth = (j.row_norms(EVERY, include_target) for j in (digits, oracle))
    np.testing.assert_allclose(ours, truth, rtol=2e-10)


def test_some_columns_of_every_row(digits, oracle):
    some = EVERY[18:46]
    np.testing.assert_allclose(digits.row_norms(some, False), oracle.row_norms(some, False), **CLOSE)
    np.testing.assert_allclose(digits.row_norms(some[:2], True), oracle.row_norms(some[:2], True), **CLOSE)
    np.testing.assert_allclose(digits.row_norms(some[:1], False), oracle.row_norms(some[:1], False), **CLOSE)
    assert not digits.row_norms(NONE, False).any()


def test_labels_and_cells(digits, oracle):
    np.testing.assert_allclose(digits.target_norms(), oracle.target_norms(), **CLOSE)
    ours, truth = digits.cell_norms(EVERY), oracle.cell_norms(EVERY)
    # Cells far below their row's figure are right to a share of that figure.
    np.testing.assert_allclose(ours, truth, rtol=1e-9, atol=1e-13 * truth.max())
    assert digits.cell_norms(NONE).shape == (digits.n, 0)


GROUPS = {
    "every cell its own": (EVERY, True, NONE),
    "without targets": (EVERY, False, NONE),
    "some columns shared": (EVERY[6:], True, EVERY[:6]),
    "columns and target shared": (EVERY[6:], False, np.concatenate([EVERY[:6], TARGET])),
    "everything shared": (NONE, False, np.concatenate([EVERY, TARGET])),
    "targets alone": (NONE, True, NONE),
    "shared targets alone": (NONE, False, TARGET),
}


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("size", [2, 5])
def test_groups_of_rows(digits, oracle, name, size):
    rows = np.random.default_rng(size).permutation(digits.n)[: 12 * size].reshape(-1, size)
    columns, include_target, tied = GROUPS[name]
    ours = digits.norms_together(rows, columns, include_target, tied)
    np.testing.assert_allclose(ours, oracle.norms_together(rows, columns, include_target, tied), **CLOSE)


@pytest.mark.parametrize("name", GROUPS)
def test_many_rows_together(digits, oracle, name):
    rows = np.random.default_rng(7).permutation(digits.n)[:150]
    columns, include_target, tied = GROUPS[name]
    truth = oracle.outer(rows, columns, include_target, tied)
    ours = digits.outer(rows, columns, include_target, tied)
    np.testing.assert_allclose(ours, truth, atol=1e-11 * np.abs(truth).max())
    expected = np.sqrt(np.linalg.eigvalsh(truth)[-1])
    assert digits.together(rows, columns, include_target, tied) == pytest.approx(expected, rel=1e-9)


def test_any_set_of_cells(digits, oracle):
    few = np.arange(300)
    mask = np.zeros((digits.n, 65), dtype=bool)
    mask[few] = np.random.default_rng(8).random((300, 65)) < 0.3
    truth = oracle.outer_mask(mask)
    np.testing.assert_allclose(digits.outer_mask(mask), truth, atol=1e-11 * np.abs(truth).max())
    assert digits.together_mask(mask) == pytest.approx(np.sqrt(np.linalg.eigvalsh(truth)[-1]), rel=1e-9)


def test_columns_over_all_rows(digits):
    narrow = replace(digits, P=np.ascontiguousarray(digits.P[:, 19:22]))
    np.testing.assert_allclose(narrow.column_norms(), WrittenOut(narrow).column_norms(), **CLOSE)


def test_steps_of_categories(digits, oracle):
    plain = step_norms.dispatch(object)
    classes = np.eye(10) / np.sqrt(2.0)
    for columns, vertices in ((EVERY[20:24], simplex(5)), (TARGET, classes), (EVERY[20:21], np.array([[-0.5], [0.5]]))):
        np.testing.assert_allclose(step_norms(digits, columns, vertices), plain(oracle, columns, vertices), **CLOSE)
        groups = [np.array([3, 10, 800]), np.array([5]), np.array([7, 8])]
        ours = shared_step_norms(digits, groups, columns, vertices)
        np.testing.assert_allclose(ours, shared_step_norms(oracle, groups, columns, vertices), **CLOSE)


SOFTMAX = [p for p in (*ordinary(d=4), *adversarial()) if isinstance(p.loss, glm.Softmax)]


@pytest.mark.parametrize("problem", SOFTMAX, ids=lambda p: p.name)
@pytest.mark.parametrize("correlated", [False, True])
def test_small_tables_of_every_contrast_weight_and_noise(problem, correlated, monkeypatch):
    monkeypatch.setattr(softmax_jacobian, "SMALL", 0)
    fit = problem.fit()
    root = np.random.default_rng(0).standard_normal((fit.w.size, fit.w.size)) + 3 * np.eye(fit.w.size)
    noise = CorrelatedGaussian(root @ root.T) if correlated else dm.Gaussian(0.3)
    ours = glm.measure(fit, problem.X, problem.y, noise, target_unit=0.7).jacobian
    truth, every = WrittenOut(ours), np.arange(ours.m, dtype=np.intp)
    for include_target in (True, False):
        np.testing.assert_allclose(
            ours.row_norms(every, include_target), truth.row_norms(every, include_target), **CLOSE
        )
    np.testing.assert_allclose(ours.target_norms(), truth.target_norms(), **CLOSE)
    np.testing.assert_allclose(ours.cell_norms(every), truth.cell_norms(every), rtol=1e-8)
    rows = np.arange(24).reshape(-1, 3)
    np.testing.assert_allclose(
        ours.norms_together(rows, every[1:], True, every[:1]),
        truth.norms_together(rows, every[1:], True, every[:1]),
        **CLOSE,
    )
    np.testing.assert_allclose(ours.column_norms(), truth.column_norms(), **CLOSE)


def test_rows_without_weight_leak_nothing(monkeypatch):
    monkeypatch.setattr(softmax_jacobian, "SMALL", 0)
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((40, 3)), rng.integers(0, 3, 40).astype(float)
    weight = np.repeat([1.0, 0.0], 20)
    leak = glm.measure(glm.fit(X, y, glm.Softmax(3, 0), 0.1, sample_weight=weight), X, y, dm.Gaussian(1.0))
    assert (leak.examples[:20] > 0).all()
    assert not leak.examples[20:].any()
    assert not leak.cells[20:].any()
    assert not leak.labels[20:].any()


def cancelling(jacobian, shares):
    """Rows whose two terms nearly cancel: ρ and z chosen so that S'g ⊗ z + ρ ⊗ b is a small share of either."""
    B, G = jacobian.B[:, :1], jacobian.G[:, 0]
    n = len(shares)
    S = np.broadcast_to(jacobian.S[0] + np.eye(len(G)), (n, len(G), len(G)))
    noise = np.random.default_rng(0).standard_normal((n, len(B)))
    Z = -B.T + shares[:, None] * np.linalg.norm(B) * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    X = np.linalg.solve(jacobian.factor.matrix.T, Z.T).T
    rho = S @ G
    return replace(
        jacobian, X=np.ascontiguousarray(X), S=S, rho=rho, weight=np.ones(n), y=np.zeros(n), P=jacobian.P[:, :1]
    )


def test_rows_whose_terms_cancel_keep_their_digits(monkeypatch):
    monkeypatch.setattr(softmax_jacobian, "SMALL", 0)
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((60, 5)), rng.integers(0, 4, 60).astype(float)
    leak = glm.measure(glm.fit(X, y, glm.Softmax(4, "mean"), 0.1), X, y, dm.Gaussian(1.0))
    shares = 10.0 ** -np.arange(0, 9)
    jacobian = cancelling(leak.jacobian, shares)
    assert jacobian.P.shape == (5, 1)
    # In twice the precision, from the definition.
    N, A = (M.astype(np.longdouble) for M in (jacobian.N, jacobian.factor.matrix))
    b, g = A.T @ jacobian.P[:, 0], jacobian.V.T.astype(np.longdouble) @ jacobian.P[:, 0]
    truth = [
        np.linalg.norm((N @ (np.outer(S @ g, A.T @ x) + np.outer(rho, b)).ravel()).astype(float))
        for x, S, rho in zip(jacobian.X.astype(np.longdouble), jacobian.S, jacobian.rho, strict=True)
    ]
    error = np.abs(jacobian.cell_norms(np.array([0]))[:, 0] / truth - 1.0)
    # What is left is the rounding of x itself, 1e-16 of the terms.
    assert (error <= 1e-14 / shares + 1e-9).all()
    assert error[-1] < 1e-6


def test_the_readings_of_a_leakage_stay_in_order(digits):
    leak = glm.Leakage(digits, dm.Gaussian(1.0))
    pairs = np.arange(leak.n) // 2
    people = np.array(list(leak.group(pairs).values()))
    rows = leak.examples
    assert (leak.without_target().examples <= rows * (1 + 1e-9)).all()
    assert (leak.cells.max(axis=1) <= rows * (1 + 1e-9)).all()
    assert (people >= np.maximum.reduceat(rows, np.arange(0, leak.n, 2)) * (1 - 1e-9)).all()
    assert leak.dataset >= people.max() * (1 - 1e-9)


def test_a_hard_row_is_solved_by_all_of_its_eigenvalues(digits, monkeypatch):
    """Rows in which the bounded rest is the largest part: few unknowns move the margins, the residual is large."""
    loud = replace(digits, rho=50.0 * digits.rho[:40], S=digits.S[:40], X=digits.X[:40], weight=digits.weight[:40])
    calls = []
    original = softmax_jacobian.SoftmaxJacobian._all_eigenvalues

    def counted(self, *arguments):
        calls.append(len(arguments[-1]))
        return original(self, *arguments)

    monkeypatch.setattr(softmax_jacobian.SoftmaxJacobian, "_all_eigenvalues", counted)
    truth = np.concatenate([largest_singular_values(loud.dense(np.array([i]))) for i in range(40)])
    np.testing.assert_allclose(loud.row_norms(EVERY, True), truth, **CLOSE)
    assert sum(calls) > 0


@pytest.mark.parametrize("loss", [glm.Softmax(4, "mean"), glm.Softmax(4, 1), glm.Softmax(4)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_without_hessians_ends_where_newton_ends(loss, weighted, monkeypatch):
    rng = np.random.default_rng(9)
    X = rng.standard_normal((400, 6)) * np.array([1.0, 1.0, 30.0, 1.0, 0.01, 1.0])
    y = (X[:, 0] + X[:, 1] + rng.standard_normal(400) > np.array([[-1.0], [0.0], [1.0]])).sum(axis=0).astype(float)
    weight = rng.uniform(0.0, 2.0, 400) * (rng.random(400) < 0.9) if weighted else None
    intercept = loss.reference is not None
    options = dict(l2=1e-4, sample_weight=weight, intercept=intercept)
    newton = glm.fit(X, y, loss, **options)
    monkeypatch.setattr(softmax_newton, "LARGE", 0.0)
    monkeypatch.setattr(softmax_newton, "SLOW", 2)  # so that the preconditioner is used too
    ours = glm.fit(X, y, loss, **options)
    np.testing.assert_allclose(ours.w, newton.w, rtol=1e-9, atol=1e-12 * np.abs(newton.w).max())
    np.testing.assert_allclose(ours.inner @ ours.inner.T, newton.inner @ newton.inner.T, rtol=1e-8, atol=1e-10)
    assert ours.gradient_norm < 1e-10
    assert ours.decrement < 1e-12


def test_a_large_softmax_without_a_finite_minimiser_is_refused(monkeypatch):
    monkeypatch.setattr(softmax_newton, "LARGE", 0.0)
    X = np.repeat(np.eye(3), 20, axis=0) + 1e-3 * np.random.default_rng(1).standard_normal((60, 3))
    with pytest.raises(dm.Refusal):
        glm.fit(X, np.repeat([0.0, 1.0, 2.0], 20), glm.Softmax(3, 0), 0.0)
