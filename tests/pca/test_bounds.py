"""Bounds and clipping: clipped rows stay within the declared bounds, and what cannot be clipped is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.pca.bounds import Bounds, bounds_of
from dosimeter.pca.mechanisms import AnalyticGaussian
from dosimeter.pca.release import release


def norm_squared(row) -> Fraction:
    return sum((Fraction(float(v)) ** 2 for v in row), Fraction(0))


@pytest.mark.parametrize("d", [1, 3, 17])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e200])
def test_no_shortened_row_is_longer_than_declared_not_even_by_rounding(d, size):
    X = size * np.random.default_rng(d).standard_normal((300, d))
    C = 0.7 * size
    clipped = Bounds(row_norm=C).over(d).clip(X)
    assert max(norm_squared(z) for z in clipped.rows) <= Fraction(C) ** 2
    long = np.linalg.norm(X / size, axis=1) > 0.7
    # Exact arithmetic again: a scaled row is at C up to 1e-14 of it, a short one is unchanged.
    assert all(norm_squared(z) > Fraction(C) ** 2 * Fraction(0.9999999999999) for z in clipped.rows[long])
    np.testing.assert_array_equal(clipped.rows[~long], X[~long])
    assert clipped.changed_share == long.mean()


def test_cells_are_clamped_then_centred_then_the_row_is_shortened():
    box = Bounds([0.0, 0.0], [2.0, 10.0], row_norm=2.0).over(2)
    clipped = box.clip([[5.0, 5.0], [1.0, 9.0], [1.5, 5.5]])
    # Centre (1, 5). (5, 5) -> (2, 5) -> (1, 0); (1, 9) -> (0, 4) -> (0, 2); the last is untouched.
    np.testing.assert_allclose(clipped.rows, [[1.0, 0.0], [0.0, 2.0], [0.5, 0.5]], rtol=1e-14)
    assert clipped.clamped.tolist() == [[True, False], [False, False], [False, False]]
    np.testing.assert_allclose(clipped.factor, [1.0, 0.5, 1.0], rtol=1e-14)
    assert clipped.changed_share == pytest.approx(2 / 3)


def test_a_norm_that_the_box_implies_shortens_nothing():
    box = Bounds(-1.0, 1.0, row_norm=2.0).over(4)
    assert not box.shortens
    assert box.length == 2.0
    assert (box.clip(np.ones((1, 4))).factor == 1).all()


def test_a_shortened_row_may_leave_a_box_that_does_not_hold_the_centre():
    box = Bounds(5.0, 6.0, row_norm=1.0, centre=0.0).over(2)
    assert box.low.tolist() == [0.0, 0.0]
    clipped = box.clip([[5.0, 6.0]])
    assert ((clipped.rows >= box.low) & (clipped.rows <= box.high)).all()


def test_centred_rows_stay_within_low_and_high_for_awkward_numbers():
    rng = np.random.default_rng(0)
    lower = rng.standard_normal(50) / 3
    upper = lower + rng.exponential(size=50) / 7
    box = Bounds(lower, upper).over(50)
    Z = box.clip(10 * rng.standard_normal((400, 50))).rows
    assert ((box.low <= Z) & (box.high >= Z)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_refused_with_its_cell(bad):
    X = np.zeros((3, 2))
    X[2, 1] = bad
    with pytest.raises(dm.Refusal, match=r"X\[2, 1\]"):
        Bounds(-1.0, 1.0).over(2).clip(X)


@pytest.mark.parametrize(
    "bounds",
    [
        {},
        {"lower": 0.0},
        {"upper": 1.0},
        {"row_norm": 0.0},
        {"row_norm": float("inf")},
        {"lower": float("-inf"), "upper": 1.0},
        {"lower": [[0.0]], "upper": 1.0},
        {"lower": 1.0, "upper": 0.0},
        {"lower": [0.0, 0.0, 0.0], "upper": 1.0},
        {"lower": 0.0, "upper": 1.0, "centre": [0.0]},
        {"lower": 0.0, "upper": 1.0, "centre": float("nan")},
    ],
    ids=str,
)
def test_impossible_bounds_are_refused(bounds):
    with pytest.raises(dm.Refusal):
        release(np.zeros((3, 2)), AnalyticGaussian(1.0, 1e-6), bounds=Bounds(**bounds))


def test_a_table_of_another_width_is_refused():
    with pytest.raises(dm.Refusal, match="3 columns"):
        Bounds(0.0, 1.0).over(3).clip(np.zeros((2, 2)))


def test_bounds_read_from_the_table_clip_nothing():
    X = np.random.default_rng(0).standard_normal((40, 3))
    assert bounds_of(X).over(3).clip(X).changed_share == 0.0


@pytest.mark.parametrize(
    "bounds",
    [
        {"lower": -1e308, "upper": 1e308},
        {"lower": -1e150, "upper": 1e150},
        {"lower": 0.0, "upper": 1e-161},
        {"lower": 0.0, "upper": [1e-160, 1.0]},
        {"lower": 0.0, "upper": 1.0, "centre": 1e300},
        {"row_norm": 1e-160},
        {"row_norm": 1e200},
    ],
)
def test_bounds_whose_products_float64_cannot_hold_are_refused(bounds: dict[str, Any]) -> None:
    with pytest.raises(dm.Refusal, match="unit"):
        release(np.zeros((3, 2)), AnalyticGaussian(1.0, 1e-6), bounds=Bounds(**bounds))
