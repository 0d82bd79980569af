"""Every granularity against the dense stacked Jacobian, and the Jacobian against refits."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm

from .problems import DIGITS, FORMULAS, adversarial, ordinary

ONE = dm.Gaussian(1.0)


def refit_jacobian(problem, row, step=1e-5):
    """(q, m [+ 1]) by central differences of the whole fit; one-sided inside [0, 1] or [0, inf) for targets."""
    size = step * max(1.0, np.abs(problem.X[row]).max())

    def weights(X=None, y=None):
        return problem.fit(X, y).w.T.ravel()

    columns = []
    for j in range(problem.X.shape[1]):
        ends = []
        for sign in (1, -1):
            X = problem.X.copy()
            X[row, j] += sign * size
            ends.append(weights(X=X))
        columns.append((ends[0] - ends[1]) / (2 * size))
    if not isinstance(problem.loss, glm.Softmax):
        inward = -1 if problem.loss.target.classes and problem.y[row] == 1 else 1
        near, far = (problem.y.copy() for _ in range(2))
        near[row] += inward * step
        far[row] += 2 * inward * step
        columns.append(inward * (4 * weights(y=near) - 3 * weights() - weights(y=far)) / (2 * step))
    return np.column_stack(columns)


@pytest.mark.parametrize("problem", list(ordinary()), ids=lambda p: p.name)
def test_the_jacobian_is_the_derivative_of_the_refit(problem):
    leak = glm.measure(problem.fit(), problem.X, problem.y, ONE)
    for row in (0, 7):
        truth = refit_jacobian(problem, row)
        ours = leak.jacobian.dense(np.array([row]))[0][:, : truth.shape[1]]
        np.testing.assert_allclose(ours, truth, rtol=1e-5, atol=1e-7 * np.abs(truth).max())


def test_a_softmax_label_moves_the_weights_as_its_soft_label_would():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((30, 2)), rng.integers(0, 2, 30).astype(float)
    two = glm.measure(glm.fit(X, y, glm.Softmax(2, 0), 0.01), X, y, ONE)
    logistic = glm.measure(glm.fit(X, y, glm.Logistic(), 0.01), X, y, ONE)
    # Two classes with a reference are logistic regression; the indicator of class 1 is its target.
    np.testing.assert_allclose(two.labels, logistic.labels, rtol=1e-9)
    np.testing.assert_allclose(two.examples, logistic.examples, rtol=1e-9)
    np.testing.assert_allclose(two.cells, logistic.cells, rtol=1e-9)


def scalars(loss, m, y):
    """Curvature, residual and target derivative of one row, from the definition of the loss in fifty digits."""
    with mp.workdps(50):
        m, y = mp.mpf(float(m)), mp.mpf(float(y))

        def derivative(orders):
            return float(mp.diff(lambda u, v: FORMULAS[loss](DIGITS, u, v), (m, y), orders))

        return derivative((2, 0)), derivative((1, 0)), -derivative((1, 1))


def dense_oracle(problem):
    """(n, q, m + targets) from eq. 18 with an explicit inverse in fifty digits; the refit test covers softmax."""
    fit = problem.fit()
    X = np.column_stack([problem.X, np.ones(fit.n)]) if problem.intercept else problem.X
    d = problem.X.shape[1]
    P = np.eye(X.shape[1])[:, :d]
    omega = fit.sample_weight
    if isinstance(problem.loss, glm.Softmax):
        return glm.measure(fit, problem.X, problem.y, ONE).jacobian.dense(slice(None))
    m, y, w = fit.margin, problem.y, fit.w
    a, r, c = np.array([scalars(problem.loss, u, v) for u, v in zip(m, y, strict=True)]).T
    with mp.workdps(50):
        A = mp.matrix(X.tolist())
        D = mp.diag([mp.mpf(float(v)) for v in omega * a])
        H = A.T * D * A
        for j in range(d):
            H[j, j] += mp.mpf(fit.n) * mp.mpf(problem.l2)
        inverse = H**-1
        U = A * inverse
        if problem.loss.name == "squared":  # weights and residuals do not use our fit
            exact = inverse * (A.T * D * mp.matrix(y.tolist()))
            w = np.array([float(v) for v in exact])
            r = np.array([float(v) for v in A * exact - mp.matrix(y.tolist())])
    Hinv = np.array([[float(v) for v in row] for row in inverse.tolist()])
    U = np.array([[float(v) for v in row] for row in U.tolist()])
    J = np.empty((fit.n, X.shape[1], d + 1))
    J[:, :, :d] = -omega[:, None, None] * (
        a[:, None, None] * U[:, :, None] * w[None, None, :d] + r[:, None, None] * (Hinv @ P)
    )
    J[:, :, d] = (omega * c)[:, None] * U
    return J


def stacked(J):
    return J.transpose(1, 0, 2).reshape(J.shape[1], -1)


def top(J):
    return np.linalg.norm(J, 2)


EVERY = [*ordinary(), *adversarial()]


@pytest.mark.parametrize("problem", EVERY, ids=lambda p: p.name)
def test_every_granularity_agrees_with_the_dense_stacked_jacobian(problem):
    J = dense_oracle(problem)
    leak = glm.measure(problem.fit(), problem.X, problem.y, ONE)
    n, _, k = J.shape
    d = problem.X.shape[1]
    rng = np.random.default_rng(0)
    close = dict(rtol=1e-9, atol=1e-12 * max(np.abs(J).max(), 1e-300))
    np.testing.assert_allclose(leak.examples, [top(j) for j in J], **close)
    np.testing.assert_allclose(leak.without_target().examples, [top(j[:, :d]) for j in J], **close)
    np.testing.assert_allclose(leak.labels, [top(j[:, d:]) for j in J], **close)
    np.testing.assert_allclose(leak.cells, np.linalg.norm(J[:, :, :d], axis=1), **close)
    np.testing.assert_allclose(leak.attributes, [top(J[:, :, j].T) for j in range(d)], **close)
    np.testing.assert_allclose(leak.dataset, top(stacked(J)), **close)
    np.testing.assert_allclose(leak.without_target().dataset, top(stacked(J[:, :, :d])), **close)
    block = [0] if d == 1 else [0, d - 1]
    np.testing.assert_allclose(leak.attribute(block), [top(j[:, block]) for j in J], **close)
    np.testing.assert_allclose(leak.attribute_over(block), top(stacked(J[:, :, block])), **close)
    rows = rng.choice(n, size=n // 2, replace=False)
    np.testing.assert_allclose(
        leak.subset(rows, block), top(stacked(J[np.ix_(rows, range(J.shape[1]), block)])), **close
    )
    np.testing.assert_allclose(leak.subset(rows, include_target=True), top(stacked(J[rows])), **close)
    mask = rng.random((n, d + 1)) < 0.4
    spread = np.concatenate([mask[:, :d], np.repeat(mask[:, d:], k - d, axis=1)], axis=1)
    np.testing.assert_allclose(leak.mask(mask), top(stacked(J * spread[:, None, :])), **close)
    if k == d + 1:
        np.testing.assert_allclose(leak.dfil, np.sqrt(np.sum(J**2, axis=(1, 2)) / k), **close)


@pytest.mark.parametrize("problem", list(ordinary()), ids=lambda p: p.name)
def test_a_person_with_several_rows_has_the_norm_of_their_stacked_jacobians(problem):
    J = dense_oracle(problem)
    leak = glm.measure(problem.fit(), problem.X, problem.y, ONE)
    person = np.random.default_rng(1).integers(0, 15, len(J))
    for tied in ((), (1,), (0, 2)):
        ours = leak.group(person, tied=tied)
        assert list(ours) == list(dict.fromkeys(person.tolist()))
        for name, eta in ours.items():
            mine = J[person == name]
            free = [j for j in range(J.shape[2]) if j not in tied]
            together = np.column_stack([stacked(mine[:, :, free]), mine[:, :, list(tied)].sum(axis=0)])
            assert eta == pytest.approx(top(together), rel=1e-9)


@pytest.mark.parametrize("problem", list(ordinary()), ids=lambda p: p.name)
def test_a_tied_label_is_one_unknown_of_a_person(problem):
    J, d = dense_oracle(problem), problem.X.shape[1]
    leak = glm.measure(problem.fit(), problem.X, problem.y, ONE)
    person = np.random.default_rng(1).integers(0, 15, len(J))
    for tied in ((), (1,)):
        for name, eta in leak.group(person, tied=tied, tied_target=True).items():
            mine = J[person == name]
            free = [j for j in range(d) if j not in tied]
            shared = mine[:, :, [*tied, *range(d, J.shape[2])]].sum(axis=0)
            assert eta == pytest.approx(top(np.column_stack([stacked(mine[:, :, free]), shared])), rel=1e-9)
    assert leak.without_target().group(person, tied_target=True) == leak.without_target().group(person)


def test_a_tied_column_leaks_up_to_root_k_more_than_its_separate_cells():
    rng = np.random.default_rng(4)
    X = np.repeat(rng.standard_normal((10, 2)), 9, axis=0)
    y = np.repeat(X[::9, 0] + rng.standard_normal(10), 9)
    leak = glm.measure(glm.fit(X, y, glm.Squared(), 0.01), X, y, ONE)
    person = np.repeat(np.arange(10), 9)
    apart = np.array(list(leak.group(person, columns=[0]).values()))
    tied = np.array(list(leak.group(person, columns=[0], tied=[0]).values()))
    # Nine identical rows: the Jacobians add to nine times one, the stacked norm is three times one.
    np.testing.assert_allclose(tied / apart, 3.0, rtol=1e-9)


def exact_eta(X, y, l2):
    """(n,) η of ridge regression in sixty digits, by the largest eigenvalue of JJᵀ."""
    out = []
    with mp.workdps(60):
        A, b = mp.matrix(X.tolist()), mp.matrix(y.tolist())
        d = X.shape[1]
        inverse = (A.T * A + len(X) * mp.mpf(l2) * mp.eye(d)) ** -1
        w = inverse * (A.T * b)
        for i in range(len(X)):
            x = A[i, :].T
            r = (w.T * x)[0] - b[i]
            Jx, Jy = inverse * (x * w.T + r * mp.eye(d)), inverse * x
            M = Jx * Jx.T + Jy * Jy.T
            out.append(float(mp.sqrt(max(mp.eigsy(M, eigvals_only=True)))))
    return np.array(out)


@pytest.mark.parametrize("kind", ["noisy target", "perfectly fitted target", "columns of unlike size"])
@pytest.mark.parametrize("decades", [2, 4, 6, 8, 10, 12, 13])
def test_eta_keeps_its_digits_at_high_condition_numbers(decades, kind):
    """The published float32 code reports 5,000 times too little at 1e6; normal equations in float64 fail at 1e8."""
    rng = np.random.default_rng(100 + decades)
    for d in (3, 6):
        U, _, V = np.linalg.svd(rng.standard_normal((15, d)), full_matrices=False)
        X, y = (U * np.logspace(0, -decades, d)) @ V, rng.standard_normal(15)
        if kind == "perfectly fitted target":
            y = X @ np.ones(d)
        if kind == "columns of unlike size":
            X = X * 2.0 ** rng.integers(-36, 37, d)
        ours = glm.measure(glm.fit(X, y, glm.Squared()), X, y, ONE).examples
        truth = exact_eta(X, y, 0)
        np.testing.assert_allclose(ours, truth, rtol=1e-9)


def test_float32_input_is_promoted():
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((40, 3)).astype(np.float32), rng.standard_normal(40).astype(np.float32)
    narrow = glm.measure(glm.fit(X, y, glm.Squared()), X, y, ONE).examples
    X, y = X.astype(float), y.astype(float)
    np.testing.assert_array_equal(narrow, glm.measure(glm.fit(X, y, glm.Squared()), X, y, ONE).examples)


def test_rows_columns_and_units_can_be_permuted_and_rescaled():
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((50, 4)), rng.standard_normal(50)
    leak = glm.measure(glm.fit(X, y, glm.Squared()), X, y, ONE)
    rows, columns = rng.permutation(50), rng.permutation(4)
    moved = glm.measure(glm.fit(X[rows][:, columns], y[rows], glm.Squared()), X[rows][:, columns], y[rows], ONE)
    np.testing.assert_allclose(moved.examples, leak.examples[rows], rtol=1e-9)
    np.testing.assert_allclose(moved.cells, leak.cells[rows][:, columns], rtol=1e-9)
    np.testing.assert_allclose(moved.dataset, leak.dataset, rtol=1e-9)


def test_through_a_scaler_the_figures_are_in_the_original_unit():
    rng = np.random.default_rng(7)
    raw = rng.standard_normal((60, 3)) * [1.0, 20.0, 0.1] + [0.0, 50.0, 3.0]
    y = raw @ [1.0, 0.1, 2.0] + rng.standard_normal(60)
    centre, scale = raw.mean(axis=0), raw.std(axis=0)
    X = (raw - centre) / scale
    leak = glm.measure(glm.fit(X, y, glm.Squared(), 0.01, intercept=True), X, y, ONE, input_map=np.diag(1 / scale))
    step = 1e-4
    for j in range(3):
        moved = raw.copy()
        moved[5, j] += step * scale[j]
        there = glm.fit((moved - centre) / scale, y, glm.Squared(), 0.01, intercept=True).w
        here = glm.fit(X, y, glm.Squared(), 0.01, intercept=True).w
        assert leak.cells[5, j] == pytest.approx(np.linalg.norm(there - here) / (step * scale[j]), rel=1e-3)


def test_a_cell_whose_terms_cancel_is_taken_in_norm_form():
    # One column, one row against many: a g u + r b = 0 at w = (Σxy)/(Σx²) where x moves along its own optimum.
    X = np.array([[1.0], [2.0], [2.0]])
    y = np.array([0.0, 1.0, 1.0])
    # dw/dx₁ = (y₁ - 2 x₁ w)/Σx²; choose y₁ so that it is 1e-9 of its terms.
    S, T = 9.0, 4.0
    y[0] = 2 * T / (S - 2) * (1 + 1e-9)
    leak = glm.measure(glm.fit(X, y, glm.Squared()), X, y, ONE)
    w = mp.mpf(T + 0) / S + mp.mpf(y[0]) / S
    truth = abs((mp.mpf(y[0]) - 2 * w) / S)
    assert leak.cells[0, 0] == pytest.approx(float(truth), rel=1e-5)
    assert 0 < leak.cells[0, 0] < 1e-8
