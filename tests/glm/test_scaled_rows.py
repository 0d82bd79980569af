"""Norms of rows through a fitted scaler by correction steps: certified values against written-out Jacobians."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian
from dosimeter.glm.scalers import scaled_rows
from dosimeter.glm.scalers.scaled_rows import ScaledRows, _Block

from .problems import targets

N = 240


def problem(seed, loss, l2, noise, *, copies=0, rare=0, reach=1.0, n=N):
    """A table with nearly equal columns (copies) and rare levels: close eigenvalues, and rows that stand out."""
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((n, 4)) * [1.0, 1.0, 1.0, 5.0]
    numbers[:5] *= 20.0
    for k in range(copies):
        numbers[:, k + 1] = numbers[:, 0] + 10.0 ** -(k + 1) * numbers[:, k + 1]
    levels = np.zeros((n, 3))
    levels[: 3 + rare, 0] = levels[n // 2 :, 1] = levels[:: n // (4 + rare), 2] = 1.0
    X = np.column_stack([(numbers - numbers.mean(axis=0)) / numbers.std(axis=0), levels])
    y = targets(loss, 0.5 * X[:, 0] - 0.4 * X[:, 1] + 0.3 * X[:, 4], rng)
    scaled = np.array([True] * 4 + [False] * 3)
    fit = glm.fit(X, y, loss, l2, intercept=True)
    units = np.diag([reach, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    return glm.measure(fit, X, y, noise, scaled=scaled, input_map=units).jacobian


CASES = [
    (glm.Logistic(), 1e-3, dm.Gaussian(0.1), {}),
    (glm.Logistic(), 1e-5, dm.Gaussian(0.1), {"copies": 2}),
    (glm.Squared(), 0.0, dm.Gaussian(1.0), {"rare": 3}),
    (glm.Squared(), 0.3, dm.Laplace(1.0), {"copies": 3}),
    (glm.Squared(), 0.3, dm.Gumbel(1.0), {}),
    (glm.Poisson(), 0.01, dm.Gaussian(1.0), {"copies": 1, "rare": 1}),
    (glm.Squared(), 0.1, dm.Gaussian(30.0), {}),
    (glm.Squared(), 0.1, dm.Gaussian(3e4), {}),
    (glm.Squared(), 0.1, dm.Gaussian(0.1), {"reach": 1e3}),
]


def rows_of(jacobian, columns, include_target):
    moves = jacobian.moved, jacobian.shifted
    return ScaledRows.of(jacobian.base, jacobian.separate, jacobian.scaler.Z, moves, columns, include_target)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0].name} {c[1]:g} {c[2]} {c[3]}")
@pytest.mark.parametrize("include_target", [True, False])
def test_certified_norms_are_those_of_written_out_jacobians(case, include_target):
    loss, l2, noise, more = case
    for seed in range(3):
        jacobian = problem(seed, loss, l2, noise, **more)
        for columns in (np.arange(7), np.array([5, 0, 3])):
            norms, certified = rows_of(jacobian, columns, include_target).norms(np.arange(N))
            dense = DenseJacobian.row_norms(jacobian, columns, include_target)
            np.testing.assert_allclose(norms[certified], dense[certified], rtol=1e-12)
            every = jacobian.row_norms(columns, include_target)
            np.testing.assert_allclose(every, dense, rtol=1e-12)


def test_an_ordinary_table_is_certified_almost_everywhere():
    jacobian = problem(0, *CASES[0][:3])
    _, certified = rows_of(jacobian, np.arange(7), True).norms(np.arange(N))
    assert certified.mean() > 0.9


LONG = 6000


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0].name} {c[1]:g} {c[2]} {c[3]}")
def test_rows_of_a_long_table_are_certified_to_second_order(case, monkeypatch):
    """One product with each row's matrix is enough for most of them where the scaler's part is small."""
    loss, l2, noise, more = case
    jacobian, products = problem(0, loss, l2, noise, n=LONG, **more), []
    gram = _Block.gram
    monkeypatch.setattr(_Block, "gram", lambda block, x: (products.append(len(x)), gram(block, x))[1])
    norms, certified = rows_of(jacobian, np.arange(7), True).norms(np.arange(LONG))
    dense = DenseJacobian.row_norms(jacobian, np.arange(7), True)
    np.testing.assert_allclose(norms[certified], dense[certified], rtol=2e-13)
    if case in CASES[:3]:
        assert sum(products) < 1.6 * LONG
        assert certified.mean() > 0.9


def test_a_wrong_start_of_a_long_table_is_never_certified_to_second_order():
    """Any vector and any change: what is accepted is the largest eigenvalue."""
    jacobian = problem(0, *CASES[0][:3], n=LONG)
    shared, accepted = rows_of(jacobian, np.arange(7), True), 0
    squares = DenseJacobian.row_norms(jacobian, np.arange(7), True) ** 2
    block = _Block(shared, np.arange(LONG))
    frozen, top = block.frozen()
    rng = np.random.default_rng(0)
    for size in (0.0, 1e-9, 1e-6, 1e-3, 0.1, 1.0, 100.0):
        x = scaled_rows._unit(top + size * rng.standard_normal(top.shape))
        theta, x, residual = scaled_rows._best([x], [block.gram(x)])
        change = block.correction(theta, x, residual)
        gain, lengths = -np.sum(residual * change, axis=1), [np.linalg.norm(v, axis=1) for v in (residual, change)]
        sure = block.certified_with(gain, frozen, theta, *lengths)
        np.testing.assert_allclose((theta + gain)[sure], squares[sure], rtol=1e-12)
        accepted += int(sure.sum())
        below = block.certified_with(gain, frozen, theta / 2, *lengths)  # a value that is no eigenvalue
        assert not below.any()
    assert accepted > LONG / 2


@pytest.mark.parametrize("case", CASES[:4], ids=lambda c: f"{c[0].name} {c[1]:g}")
def test_a_wrong_start_is_never_certified_with_a_lower_value(case, monkeypatch):
    """The certificate does not believe the start: other eigenvectors and random vectors end right, or uncertified."""
    loss, l2, noise, more = case
    jacobian, columns = problem(1, loss, l2, noise, **more), np.arange(7)
    dense = DenseJacobian.row_norms(jacobian, columns, True)
    shared = rows_of(jacobian, columns, True)
    J = jacobian.dense(np.arange(N))
    vectors = np.linalg.eigh(J.transpose(0, 2, 1) @ J)[1]
    turn = np.linalg.svd(jacobian.base.b[:, columns])[2]
    starts = [np.random.default_rng(k).standard_normal((N, 8)) for k in range(4)]
    for k in range(2, 6):  # the eigenvectors below the top one, in the basis of the steps
        start = vectors[:, :, -k].copy()
        start[:, :-1] = start[:, :-1] @ turn.T
        starts.append(start)
    frozen = _Block.frozen
    for start in starts:
        monkeypatch.setattr(
            _Block,
            "frozen",
            lambda block, start=start: (frozen(block)[0], scaled_rows._unit(start[block.rows])),
        )
        norms, certified = shared.norms(np.arange(N))
        np.testing.assert_allclose(norms[certified], dense[certified], rtol=1e-12)


def test_the_inertia_counts_the_eigenvalues_of_the_frozen_matrix():
    jacobian = problem(2, *CASES[1][:3], copies=2)
    shared = rows_of(jacobian, np.arange(7), True)
    block = _Block(shared, np.arange(N))
    J = jacobian.base.dense(np.arange(N))
    values = np.linalg.eigvalsh(J.transpose(0, 2, 1) @ J)
    for share in (0.01, 0.3, 0.9, 0.999):
        between = values[:, -2] + share * (values[:, -1] - values[:, -2])
        apart = values[:, -1] > 1.001 * values[:, -2]
        sure = block.one_above(between)
        assert sure[apart].mean() > 0.9
        assert not block.one_above(1.001 * values[:, -1]).any()
        assert not block.one_above(0.5 * (values[:, -2] + values[:, -3]))[values[:, -2] > 1.001 * values[:, -3]].any()
