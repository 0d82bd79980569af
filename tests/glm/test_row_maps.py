"""Maps that differ from row to row: every reading against refits through the map, and against Jacobians written out."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.category import coordinates, simplex
from dosimeter.glm.jacobians.farthest_levels import FEW, FactoredLevels, largest_distances
from dosimeter.glm.row_maps.mapped_jacobian import MappedJacobian

RNG = np.random.default_rng(31)
N, SIGMA, L2 = 30, 0.4, 0.05
Z = RNG.normal(size=(N, 2))
LEVEL = RNG.integers(0, 3, N)
WHO = [i // 3 for i in range(N)]


def columns(Z: Any, level: Any) -> Any:
    """Four columns: two bend, one is plain, and a category of three levels moves two of them, once times a number."""
    shift, factor = np.array([0.0, 0.7, -0.4])[level], np.array([1.0, 1.5, 0.6])[level]
    return np.column_stack([np.sin(Z[:, 0]) + shift, np.exp(0.5 * Z[:, 0]) * Z[:, 1], 0.8 * Z[:, 1], factor * Z[:, 1]])


X = columns(Z, LEVEL)
SCORE = X @ [0.8, -0.5, 0.3, 0.4] + RNG.normal(size=N)
TARGETS: dict[str, tuple[Any, Any]] = {
    "squared": (glm.Squared(), SCORE),
    "logistic": (glm.Logistic(), (SCORE > 0).astype(float)),
    "poisson": (glm.Poisson(), RNG.poisson(np.exp(SCORE / 3)).astype(float)),
    "softmax": (glm.Softmax(3, "mean"), np.digitize(SCORE, [-0.6, 0.6]).astype(float)),
}


def slopes(rows: Any) -> Any:
    """Entries (column, unknown): (0, 0), (1, 0), (1, 1), (3, 1)."""
    a, b = Z[rows].T
    factor = np.array([1.0, 1.5, 0.6])[LEVEL[rows]]
    return np.column_stack([np.cos(a), 0.5 * np.exp(0.5 * a) * b, np.exp(0.5 * a), factor])


def at_levels(rows: Any) -> Any:
    """(k, 2, 3) columns 0 and 3 at every level."""
    each = [columns(Z[rows], np.full(len(rows), level))[:, [0, 3]] for level in range(3)]
    return np.stack(each, axis=2)


def row_map() -> glm.RowMap:
    constant = np.zeros((4, 4))
    constant[2, 1] = 0.8
    index = np.array
    return glm.RowMap(
        constant,
        (glm.Slopes(index([0, 1, 1, 3]), index([0, 0, 1, 1]), slopes),),
        (glm.Levels(index([0, 3]), index([2, 3]), at_levels, index([0, 1])),),
    )


def weights(name: str, X: Any) -> Any:
    loss, y = TARGETS[name]
    return np.ravel(glm.fit(X, y, loss, L2, intercept=True).w, order="F")


def refit(name: str, row: int, j: int, h: float = 1e-3) -> Any:
    """d weights / d number by refits through the map."""

    def move(t: float) -> Any:
        moved = Z.copy()
        moved[row, j] += t
        return weights(name, columns(moved, LEVEL))

    return (8 * (move(h) - move(-h)) - (move(2 * h) - move(-2 * h))) / (12 * h)


def refit_step(name: str, row: int, a: int, b: int, h: float = 1e-3) -> Any:
    """The linearised move of the weights from level a to level b."""
    dx = [columns(Z[[row]], np.array([level]))[0] for level in (a, b)]

    def move(t: float) -> Any:
        moved = X.copy()
        moved[row] += t * (dx[1] - dx[0])
        return weights(name, moved)

    return (8 * (move(h) - move(-h)) - (move(2 * h) - move(-2 * h))) / (12 * h)


def measured(name: str, **options: Any) -> glm.Leakage:
    loss, y = TARGETS[name]
    fit = glm.fit(X, y, loss, L2, intercept=True)
    return glm.measure(fit, X, y, dm.Gaussian(SIGMA), **{"input_map": row_map(), **options})


@pytest.mark.parametrize("name", TARGETS)
def test_every_figure_of_a_row_is_that_of_refits_through_its_map(name: str) -> None:
    leak, V = measured(name, include_target=False), simplex(3)
    for row in (0, 11):
        numbers = np.column_stack([refit(name, row, j) for j in (0, 1)]) / SIGMA
        steps = {(a, b): refit_step(name, row, a, b) / SIGMA for a, b in combinations(range(3), 2)}
        # Two steps from level 0 give the directions of the category's coordinates.
        coordinate_moves = np.linalg.solve(V[1:] - V[0], np.array([steps[0, 1], steps[0, 2]])).T
        np.testing.assert_allclose(leak.cells[row, :2], np.linalg.norm(numbers, axis=0), rtol=1e-6)
        largest = max(float(np.linalg.norm(step)) for step in steps.values())
        assert leak.category([2, 3])[row] == pytest.approx(largest, rel=1e-6)
        whole = np.linalg.norm(np.column_stack([numbers, coordinate_moves]), 2)
        assert leak.examples[row] == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize("name", TARGETS)
def test_readings_together_are_those_of_stacked_jacobians(name: str) -> None:
    leak = measured(name)
    J, m = leak.jacobian.dense(slice(None)), leak.m
    np.testing.assert_allclose(leak.examples, np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-10)
    np.testing.assert_allclose(leak.cells, np.linalg.norm(J[:, :, :m], axis=1), rtol=1e-10)
    np.testing.assert_allclose(leak.attribute([0, 2]), np.linalg.norm(J[:, :, [0, 2]], 2, axis=(1, 2)), rtol=1e-10)
    flat = J.transpose(1, 0, 2).reshape(J.shape[1], -1)
    assert leak.dataset == pytest.approx(np.linalg.norm(flat, 2), rel=1e-10)
    for j in range(m):
        assert leak.attributes[j] == pytest.approx(np.linalg.norm(J[:, :, j].T, 2), rel=1e-10)
    by_person, targets = leak.group(WHO, tied=[0], tied_target=True), list(range(m, J.shape[2]))
    for person in (0, 4):
        part = J[np.array(WHO) == person]
        shared = part[:, :, [0, *targets]].sum(axis=0)
        free = part[:, :, [1, 2, 3]].transpose(1, 0, 2).reshape(J.shape[1], -1)
        assert by_person[person] == pytest.approx(np.linalg.norm(np.hstack([shared, free]), 2), rel=1e-10)
    mask = RNG.random((N, m + 1)) < 0.5
    spread = np.concatenate([mask[:, :m], np.repeat(mask[:, m:], len(targets), axis=1)], axis=1)
    kept = (J * spread[:, None, :]).transpose(1, 0, 2).reshape(J.shape[1], -1)
    assert leak.mask(mask) == pytest.approx(np.linalg.norm(kept, 2), rel=1e-10)
    groups = [np.array([0, 1, 2]), np.array([7]), np.arange(10, 20)]
    V = simplex(3)
    known = [
        max(np.linalg.norm(J[rows][:, :, 2:4].sum(axis=0) @ (V[b] - V[a])) for a, b in combinations(range(3), 2))
        for rows in groups
    ]
    np.testing.assert_allclose(leak.category([2, 3], V, groups), known, rtol=1e-10)
    hidden = RNG.random((N, m)) < 0.3
    shown = J * ~np.concatenate([hidden, np.zeros((N, len(targets)), dtype=bool)], axis=1)[:, None, :]
    np.testing.assert_allclose(glm.with_known(leak, hidden).examples, np.linalg.norm(shown, 2, axis=(1, 2)), rtol=1e-10)


@pytest.mark.parametrize("name", TARGETS)
def test_a_map_that_is_the_same_on_every_row_gives_the_figures_of_a_constant_map(name: str) -> None:
    P = RNG.normal(size=(4, 3))
    rows = glm.RowMap.of(4, 3, lambda rows: np.broadcast_to(P, (len(rows), 4, 3)))
    one, each = measured(name, input_map=P), measured(name, input_map=rows)
    for part in ("examples", "cells", "labels", "attributes"):
        np.testing.assert_allclose(getattr(each, part), getattr(one, part), rtol=1e-9)
    assert each.dataset == pytest.approx(one.dataset, rel=1e-9)
    assert each.group(WHO, tied=[1]) == pytest.approx(one.group(WHO, tied=[1]), rel=1e-9)
    both = glm.compose([each, each])
    np.testing.assert_allclose(both.examples, np.sqrt(2) * one.examples, rtol=1e-9)
    with pytest.raises(dm.Refusal, match="same units"):
        glm.compose([each, measured(name)])


@pytest.mark.parametrize("name", ["squared", "logistic", "softmax"])
def test_a_fitted_scaler_behind_maps_is_that_of_the_constant_map(name: str) -> None:
    loss, y = TARGETS[name]
    S = (X - X.mean(axis=0)) / X.std(axis=0)
    fit = glm.fit(S, y, loss, L2, intercept=True)
    P = np.diag(1 / X.std(axis=0))
    rows = glm.RowMap.of(4, 4, lambda rows: np.broadcast_to(P, (len(rows), 4, 4)))
    options: dict[str, Any] = {"scaled": np.array([True, True, False, True])}
    one = glm.measure(fit, S, y, dm.Gaussian(SIGMA), input_map=P, **options)
    each = glm.measure(fit, S, y, dm.Gaussian(SIGMA), input_map=rows, **options)
    from dosimeter.glm.scalers.fitted_scaler import floor_of, frozen_of

    np.testing.assert_allclose(each.examples, one.examples, rtol=1e-9)
    np.testing.assert_allclose(frozen_of(each).examples, frozen_of(one).examples, rtol=1e-9)
    floors = [floor_of(leak) for leak in (each, one)]
    assert floors[0] is not None
    assert floors[1] is not None
    np.testing.assert_allclose(floors[0].cells, floors[1].cells, rtol=1e-9)
    with pytest.raises(dm.Refusal, match="calibrate"):
        each.scale_for(1.0)


def test_units_scale_numbers_and_categories_have_none() -> None:
    leak = measured("squared", input_map=row_map().in_units(np.array([2.0, 3.0, 1.0, 1.0])))
    np.testing.assert_allclose(leak.cells, measured("squared").cells * [2.0, 3.0, 1.0, 1.0], rtol=1e-12)
    with pytest.raises(dm.Refusal, match="step"):
        row_map().in_units(np.array([1.0, 1.0, 2.0, 1.0]))


def test_a_map_of_another_table_or_without_a_number_is_refused() -> None:
    with pytest.raises(dm.Refusal, match="4 columns"):
        measured("squared", input_map=glm.RowMap.of(3, 1, lambda rows: np.ones((len(rows), 3, 1))))
    broken = glm.RowMap.of(4, 1, lambda rows: np.where(rows[:, None, None] == 7, np.inf, np.ones((len(rows), 4, 1))))
    with pytest.raises(dm.Refusal, match="row 7"):
        _ = measured("squared", input_map=broken).examples


def test_no_array_of_all_rows_columns_and_unknowns_is_made() -> None:
    n, d, m = 4000, 40, 40
    seen: list[int] = []

    def maps(rows: Any) -> Any:
        seen.append(len(rows))
        return np.broadcast_to(np.eye(d, m), (len(rows), d, m)) * (1.0 + rows[:, None, None] / n)

    wide = RNG.normal(size=(n, d))
    y = wide[:, 0] + RNG.normal(size=n)
    fit = glm.fit(wide, y, glm.Squared(), 0.1, intercept=True)
    leak = glm.measure(fit, wide, y, dm.Gaussian(1.0), input_map=glm.RowMap.of(d, m, maps))
    plain = glm.measure(fit, wide, y, dm.Gaussian(1.0))
    np.testing.assert_allclose(leak.cells, plain.cells * (1.0 + np.arange(n)[:, None] / n), rtol=1e-9)
    # So many unknowns that norms are taken by products: against the Jacobians themselves.
    rows = np.array([0, 77, 3999])
    written_out = np.linalg.norm(leak.jacobian.dense(rows), 2, axis=(1, 2))
    np.testing.assert_allclose(leak.examples[rows], written_out, rtol=1e-9)
    some = leak.jacobian.dense(rows)[:, :, 3:35]
    np.testing.assert_allclose(leak.attribute(range(3, 35))[rows], np.linalg.norm(some, 2, axis=(1, 2)), rtol=1e-9)
    assert max(seen) < n / 2
    assert isinstance(leak.jacobian, MappedJacobian)


# --- many levels -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [2, 3, 9])
def test_coordinates_are_the_map_that_takes_levels_to_their_points(levels: int) -> None:
    points, V = RNG.normal(size=(4, levels)), simplex(levels)
    at = coordinates(points) @ V.T
    np.testing.assert_allclose(at - at[:, :1], points - points[:, :1], atol=1e-12)


@pytest.mark.parametrize("kind", ["cloud", "orthogonal", "line", "equal"])
def test_the_farthest_two_of_many_levels_are_those_of_all_pairs(kind: str) -> None:
    K = FEW + 40
    points = {
        "cloud": RNG.normal(size=(3, 5, K)),
        "orthogonal": np.broadcast_to(np.eye(K), (1, K, K)) * RNG.uniform(0.9, 1.0, K),
        "line": RNG.normal(size=(2, 4, 1)) * RNG.normal(size=K),
        "equal": np.zeros((2, 3, K)),
    }[kind]
    points = points - points.mean(axis=2, keepdims=True)
    all_pairs = [pdist(Y.T).max() for Y in points]
    np.testing.assert_allclose(largest_distances(points), all_pairs, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("spread", [0.0, 0.1, 3.0])
def test_the_largest_step_of_many_factored_levels_is_that_of_all_pairs(spread: float) -> None:
    K, q = FEW + 30, 12
    beta = RNG.normal(size=(q, K)) * RNG.choice([0.2, 1.0], K)
    gamma = spread * RNG.normal(size=K)
    beta, gamma = beta - beta.mean(axis=1, keepdims=True), gamma - gamma.mean()
    U, s, r = RNG.normal(size=(6, q)), RNG.normal(size=6), RNG.normal(size=6)
    squares, _ = FactoredLevels(gamma, beta).largest_squares(U @ beta, np.sum(U * U, axis=1), s, r)
    for i in range(6):
        Y = s[i] * np.outer(U[i], gamma) + r[i] * beta
        known = (np.linalg.norm(Y[:, :, None] - Y[:, None, :], axis=0) ** 2).max()
        assert squares[i] == pytest.approx(known, rel=1e-10)


def test_a_category_of_many_levels_has_the_figure_of_dense_jacobians() -> None:
    K, n = FEW + 20, 700
    level = np.concatenate([np.arange(K), RNG.integers(0, K, n - K)])
    V = simplex(K)
    wide = np.column_stack([V[level][:, :6], RNG.normal(size=n)])  # six of its coordinates are columns
    y = wide @ RNG.normal(size=7) + RNG.normal(size=n)
    P = np.zeros((7, K))
    P[:6, :6], P[6, K - 1] = np.eye(6), 1.0
    fit = glm.fit(wide, y, glm.Squared(), 0.1, intercept=True)
    leak = glm.measure(fit, wide, y, dm.Gaussian(1.0), input_map=P)
    block = list(range(K - 1))
    figures, J = leak.category(block, V), leak.jacobian.dense(np.array([0, 300, 699]))
    for k, row in enumerate((0, 300, 699)):
        images = J[k][:, block] @ V.T
        known = np.linalg.norm(images[:, :, None] - images[:, None, :], axis=0).max()
        assert figures[row] == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1.0])
@pytest.mark.parametrize("clustered", [False, True])
def test_norms_by_products_are_those_of_written_out_jacobians(clustered: bool, scale: float) -> None:
    """Columns that are alike have singular values close together, and a small residual leaves the label alone."""
    n, d = 90, 40
    wide = np.linalg.qr(RNG.normal(size=(n, d)))[0] if clustered else RNG.normal(size=(n, d)) * np.geomspace(1, 1e3, d)
    y = wide @ RNG.normal(size=d) + scale * RNG.normal(size=n)
    fit = glm.fit(wide, y, glm.Squared(), 1e-4)
    bends = np.exp(0.3 * RNG.normal(size=(n, d)))
    maps = glm.RowMap(np.zeros((d, d)), (glm.Slopes(np.arange(d), np.arange(d), lambda rows: bends[rows]),))
    leak = glm.measure(fit, wide, y, dm.Gaussian(1.0), input_map=maps)
    written_out = np.linalg.norm(leak.jacobian.dense(slice(None)), 2, axis=(1, 2))
    np.testing.assert_allclose(leak.examples, written_out, rtol=1e-9)
    np.testing.assert_allclose(
        leak.cells, np.linalg.norm(leak.jacobian.dense(slice(None))[:, :, :d], axis=1), rtol=1e-8
    )
