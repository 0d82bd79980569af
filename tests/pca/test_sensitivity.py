"""Sensitivity by brute force: no pair of rows moves Σ zzᵀ further, and where it is exact some pair reaches it."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.pca.bounds import Bounds
from dosimeter.pca.sensitivity import NEIGHBOURS, sensitivity

BOXES = {
    "symmetric": Bounds([-1.0, -2.0, -0.5], [1.0, 2.0, 0.5]),
    "askew": Bounds([-1.0, -2.0, 0.0], [3.0, 0.5, 1.0], centre=0.0),
    "far": Bounds([5.0, 5.0, 1.0], [6.0, 7.0, 1.0], centre=0.0),
    "flat": Bounds([0.0, 3.0, -1.0], [2.0, 3.0, 1.0]),
    "norm": Bounds(row_norm=1.5),
    "both": Bounds([-1.0, -2.0, -0.5], [1.0, 2.0, 0.5], row_norm=1.5),
    "both, far": Bounds([5.0, 5.0, 1.0], [6.0, 7.0, 1.0], centre=0.0, row_norm=4.0),
}
LOW = np.tril_indices(3)


def rows_of(box, rng):
    """Rows of the box: corners, axes, and random ones, clipped as a release would."""
    wide = (
        np.where(np.isfinite(box.lower), box.lower, -2 * box.norm),
        np.where(np.isfinite(box.upper), box.upper, 2 * box.norm),
    )
    corners = np.array(list(product(*zip(*wide, strict=True))))
    middle = np.array(list(product(*[(l, 0.5 * (l + u), u, np.clip(c, l, u)) for l, u, c in
                                     zip(*wide, box.centre, strict=True)])))  # fmt: skip
    random = rng.uniform(*wide, size=(400, 3))
    return box.clip(np.vstack([corners, middle, random])).rows


def moves(Z, neighbours):
    """(pairs, α) changes of the lower triangle of Σ zzᵀ."""
    each = np.einsum("ni,nj->nij", Z, Z)[:, *LOW]
    return each if neighbours == "add-or-remove-one" else (each[:, None] - each[None]).reshape(-1, len(LOW[0]))


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_no_pair_of_rows_moves_the_sum_further(name, neighbours):
    box = BOXES[name].over(3)
    bound = sensitivity(box, neighbours)
    moved = moves(rows_of(box, np.random.default_rng(1)), neighbours)
    slack = 1 + 1e-12
    assert (np.abs(moved).max(axis=0) <= bound.entries[LOW] * slack).all()
    assert np.abs(moved).sum(axis=1).max() <= bound.l1 * slack
    assert np.linalg.norm(moved, axis=1).max() <= bound.l2 * slack


@pytest.mark.parametrize("name", ["symmetric", "askew", "far", "flat"])
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_within_a_box_some_pair_of_corners_moves_each_entry_that_far(name, neighbours):
    box = BOXES[name].over(3)
    moved = moves(rows_of(box, np.random.default_rng(1)), neighbours)
    np.testing.assert_allclose(np.abs(moved).max(axis=0), sensitivity(box, neighbours).entries[LOW], atol=1e-15)


@pytest.mark.parametrize("name", BOXES)
def test_a_row_more_or_less_can_reach_the_two_norm(name):
    box = BOXES[name].over(3)
    bound = sensitivity(box, "add-or-remove-one").l2
    # By ascent from many starts: maximise over the polytope in w = z².
    rng = np.random.default_rng(2)
    caps, room = box.reach**2, box.norm**2 if box.shortens else np.inf
    best = 0.0
    for order in (rng.permutation(3) for _ in range(50)):
        w, left = np.zeros(3), room
        for k in order:
            w[k] = min(caps[k], left)
            left -= w[k]
        best = max(best, np.sqrt((w.sum() ** 2 + (w**2).sum()) / 2))
    assert bound == pytest.approx(best, rel=1e-12)


def test_replacing_a_row_of_fixed_length_is_tight_at_two_axes():
    bound = sensitivity(Bounds(row_norm=2.0).over(3), "replace-one").l2
    e = 2 * np.eye(3)
    moved = (np.outer(e[0], e[0]) - np.outer(e[1], e[1]))[LOW]
    assert np.linalg.norm(moved) == pytest.approx(bound, rel=1e-15)


def test_replacing_a_row_of_a_symmetric_box_is_tight_at_orthogonal_corners():
    bound = sensitivity(Bounds(-1.0, 1.0).over(4), "replace-one").l2
    z, other = np.array([1.0, 1.0, 1.0, 1.0]), np.array([1.0, 1.0, -1.0, -1.0])
    moved = (np.outer(z, z) - np.outer(other, other))[np.tril_indices(4)]
    assert np.linalg.norm(moved) == pytest.approx(bound, rel=1e-15)
    assert bound == 4.0  # √2 C², with C the length of the box's corner, would be 5.66


def test_the_papers_formula_is_eleven_times_too_small_for_five_to_six_and_enough_in_the_middle():
    far, middle = Bounds(5.0, 6.0, centre=0.0).over(2), Bounds(5.0, 6.0).over(2)
    assert sensitivity(far, "replace-one").entries[0, 0] == pytest.approx(11 * far.spread[0] ** 2)
    assert sensitivity(middle, "replace-one").entries[0, 0] == pytest.approx(middle.spread[0] ** 2 / 4)
    assert sensitivity(middle, "replace-one").entries[1, 0] == pytest.approx(middle.spread[0] ** 2 / 2)


@pytest.mark.parametrize("seed", range(5))
def test_the_sum_that_float64_computes_stays_within_the_rounding_that_is_charged(seed):
    rng = np.random.default_rng(seed)
    n = 500
    Z = Bounds(-1.0, 1.0).over(2).clip(rng.uniform(-1, 1, size=(n, 2))).rows
    exact = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in Z)
    computed = Fraction(float((Z.T @ Z)[1, 0]))
    plain, charged = (sensitivity(Bounds(-1.0, 1.0).over(2), "replace-one", rows).entries[1, 0] for rows in (0, n))
    assert 2 * abs(computed - exact) <= Fraction(float(charged - plain))
    assert charged / plain - 1 < 1e-10  # and it costs nothing


def test_an_unknown_relation_is_refused():
    with pytest.raises(dm.Refusal, match="cousins"):
        sensitivity(Bounds(0.0, 1.0).over(2), "cousins")
