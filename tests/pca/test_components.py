"""Second moments and components against exact integers, the SVD of the data, and shapes that break other code."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field

import numpy as np
import pytest

from dosimeter import pca
from dosimeter.core.engine import LocalEngine
from dosimeter.core.errors import Refusal
from dosimeter.pca.components import _fix_signs


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64, bool])
def test_sums_are_exact_where_the_numbers_are_whole(dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2 if dtype is bool else 256, (20_001, 60)).astype(dtype)
    whole = X.astype(np.int64).T @ X.astype(np.int64)
    np.testing.assert_array_equal(pca.second_moment(X), whole / len(X))


def test_float32_rows_are_summed_in_float64():
    X = np.full((5000, 2), 1 + 2.0**-12, dtype=np.float32)
    assert pca.second_moment(X)[0, 1] == (1 + 2.0**-12) ** 2
    assert float(np.float32((1 + 2.0**-12) ** 2)) != (1 + 2.0**-12) ** 2


def test_the_matrix_is_symmetric_to_the_last_bit():
    X = np.random.default_rng(1).standard_normal((3000, 37))
    A = pca.second_moment(X, centre=X.mean(axis=0))
    np.testing.assert_array_equal(A, A.T)
    np.testing.assert_allclose(A, np.cov(X.T, bias=True), rtol=1e-12, atol=1e-14)


@dataclass
class Backwards:
    """An engine that takes the blocks from the end, as a cluster might."""

    sizes: list[int] = field(default_factory=list)

    def sum_over(self, blocks, f):
        blocks = list(blocks)
        self.sizes += [len(b[0]) for b in blocks]
        return LocalEngine().sum_over(blocks[::-1], f)

    def map_over(self, blocks, f):
        return LocalEngine().map_over(blocks, f)


def test_the_engine_takes_the_sums_block_by_block():
    X = np.random.default_rng(2).standard_normal((70_000, 64))
    engine = Backwards()
    A = pca.second_moment(X, engine=engine)
    assert len(engine.sizes) > 1
    assert sum(engine.sizes) == len(X)
    np.testing.assert_allclose(A, pca.second_moment(X), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(pca.mean(X, engine), X.mean(axis=0), rtol=0, atol=1e-15)


def test_blocks_from_elsewhere_give_the_same():
    X = np.random.default_rng(3).standard_normal((100, 4))
    blocks = [(X[:30],), (X[30:31],), (X[31:],)]
    np.testing.assert_allclose(pca.second_moment_of_blocks(blocks), pca.second_moment(X), rtol=1e-13)


def test_memory_is_that_of_a_block():
    X = np.ones((400_000, 40), dtype=np.float32)  # 64 MB; 128 MB as float64
    tracemalloc.start()
    pca.second_moment(X, centre=np.zeros(40))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 30e6


def test_a_public_number_of_rows_divides():
    np.testing.assert_array_equal(pca.second_moment([[1.0], [3.0]], n=5), [[2.0]])
    with pytest.raises(Refusal, match="> 0"):
        pca.second_moment([[1.0]], n=0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("centre", [None, np.ones(64)])
def test_a_number_that_is_not_finite_is_refused_with_its_cell(bad, centre):
    X = np.ones((40_000, 64))
    X[37_003, 5] = bad
    with pytest.raises(Refusal, match=r"X\[37003, 5\] is -?(nan|inf)"):
        pca.second_moment(X, centre)
    with pytest.raises(Refusal, match=r"X\[37003, 5\]"):
        pca.mean(X)


@pytest.mark.parametrize("X", [np.ones(5), np.ones((0, 3)), np.ones((3, 0)), np.array([["a"]]), np.ones((2, 2, 2))])
def test_anything_but_a_table_of_numbers_is_refused(X):
    with pytest.raises(Refusal, match="must"):
        pca.second_moment(X)


def test_squares_that_overflow_and_centres_that_do_not_fit_are_refused():
    with pytest.raises(Refusal, match="overflow"):
        pca.second_moment([[1e200], [1.0]])
    with pytest.raises(Refusal, match="one number for each of 2 columns"):
        pca.second_moment(np.ones((3, 2)), centre=[1.0])


@pytest.mark.parametrize(("n", "d"), [(300, 12), (12, 12), (7, 30)])
def test_components_are_the_right_singular_vectors_of_the_data(n, d):
    X = np.random.default_rng(n).standard_normal((n, d)) * np.linspace(3, 1, d) + 5
    directions = pca.components_of(X)
    _, s, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    assert directions.rank == min(n - 1, d)
    np.testing.assert_allclose(directions.values[: directions.rank], (s**2 / n)[: directions.rank], rtol=1e-9)
    assert (directions.values[directions.rank :] == 0).all()
    aligned = np.abs(np.sum(directions.vectors[:, : directions.rank] * Vt[: directions.rank].T, axis=0))
    np.testing.assert_allclose(aligned, 1, atol=1e-9)
    np.testing.assert_allclose(directions.vectors.T @ directions.vectors, np.eye(d), atol=1e-13)


def test_uncentred_components_keep_the_mean_in_the_first():
    X = np.random.default_rng(4).standard_normal((50, 3)) + np.array([100.0, 0.0, 0.0])
    directions = pca.components_of(X, centred=False)
    assert abs(directions.vectors[0, 0]) > 0.999
    assert not directions.mean.any()


def test_every_component_has_its_largest_entry_positive():
    rng = np.random.default_rng(5)
    B = rng.standard_normal((9, 9))
    V = pca.components(B + B.T).vectors
    largest = V[np.abs(V).argmax(axis=0), np.arange(9)]
    assert (largest > 0).all()
    np.testing.assert_array_equal(_fix_signs(np.array([[-0.5, 0.5], [0.5, -0.5]])), [[0.5, 0.5], [-0.5, -0.5]])


def test_signs_do_not_depend_on_those_of_lapack():
    V = np.linalg.qr(np.random.default_rng(6).standard_normal((6, 6)))[0]
    flips = np.array([1, -1, -1, 1, -1, 1.0])
    np.testing.assert_array_equal(_fix_signs(V), _fix_signs(V * flips))


def test_rank_reveals_constant_and_repeated_columns():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((40, 3))
    wide = np.column_stack([X, np.full(40, 3.5), X[:, 0] + X[:, 1], np.zeros(40)])
    assert pca.components_of(wide).rank == 3
    assert pca.components_of(np.full((5, 2), 7.0)).rank == 0


def test_a_noisy_matrix_keeps_its_order_and_loses_its_negative_eigenvalues():
    Q = np.linalg.qr(np.random.default_rng(8).standard_normal((5, 5)))[0]
    S = Q @ np.diag([2.0, 0.5, -0.1, -3.0, 0.0]) @ Q.T
    directions = pca.components((S + S.T) / 2)
    assert directions.rank == 4
    np.testing.assert_allclose(directions.values, [2.0, 0.5, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(
        np.abs(np.sum(directions.vectors * Q, axis=0)), 1, atol=1e-9
    )  # the null direction is last


def test_a_matrix_that_is_not_a_second_moment_is_refused():
    with pytest.raises(Refusal, match="not symmetric"):
        pca.components([[1.0, 0.5], [0.4, 1.0]])
    with pytest.raises(Refusal, match="square"):
        pca.components(np.ones((2, 3)))
    with pytest.raises(Refusal, match=r"\[0, 1\] is nan"):
        pca.components([[1.0, np.nan], [np.nan, 1.0]])


def test_a_selection_is_a_part_of_the_components():
    directions = pca.components(np.diag([4.0, 3.0, 2.0, 0.0]))
    np.testing.assert_array_equal(directions.select([2, 0]).values, [2.0, 4.0])
    np.testing.assert_array_equal(directions.select(2).vectors, np.eye(4)[:, :2])
    assert directions.select([1]).rank == 1
    for which in ([3], [-1], [0, 0], [], 0):
        with pytest.raises(Refusal):
            directions.select(which)


def test_components_cannot_be_changed():
    directions = pca.components(np.eye(2))
    with pytest.raises(ValueError, match="read-only"):
        directions.vectors[0, 0] = 2.0


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e10 + 0.1, -7.7e-9])
def test_equal_rows_have_no_direction(value):
    directions = pca.components_of(np.full((7, 3), value))
    assert directions.rank == 0
    np.testing.assert_array_equal(directions.mean, np.full(3, value))
    X = np.random.default_rng(0).standard_normal((50, 3))
    X[:, 1] = value
    assert pca.components_of(X).rank == 2


def test_a_sum_that_overflows_is_refused():
    with pytest.raises(Refusal, match="sum of the rows overflows"):
        pca.mean(np.full((4, 2), 1e308))
