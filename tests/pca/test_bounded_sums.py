"""Sums with a known rounding error: against exact fractions, on rows that all round the same way."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dosimeter.core.engine import LocalEngine, split
from dosimeter.pca.bounded_sums import BLOCK, ROUNDINGS, PairwiseSum, moments, root_weights
from dosimeter.pca.bounds import ROUNDING, Bounds
from dosimeter.pca.mechanism import true_sensitivity
from dosimeter.pca.mechanisms import AnalyticGaussian
from dosimeter.pca.sensitivity import NEIGHBOURS, sensitivity

UNIT = Bounds(-1.0, 1.0).over(2)


def exact(Y, r):
    """Σ y_i y_j of the lower triangle and Σ r y_i, as fractions."""
    products, sums = [Fraction(0)] * 3, [Fraction(0)] * 2
    for (a, b), w in zip(Y.tolist(), r.tolist(), strict=True):
        x, y, q = Fraction(a), Fraction(b), Fraction(w)
        products = [products[0] + x * x, products[1] + x * y, products[2] + y * y]
        sums = [sums[0] + q * x, sums[1] + q * y]
    return products, sums


def rounded_up(n):
    """Rows whose products and partial sums all round upwards where they can: thirds, just above a power of two."""
    return np.tile([np.nextafter(1 / 3, 1), 1 - 2.0**-53], (n, 1))


HOSTILE = {
    "random": lambda n: np.random.default_rng(n).uniform(-1, 1, (n, 2)),
    "one way": rounded_up,
    "corners": lambda n: np.tile([1.0, 1.0], (n, 1)) - np.random.default_rng(1).integers(0, 4, (n, 2)) * 2.0**-53,
    "large and small": lambda n: np.where(np.arange(n)[:, None] % BLOCK == 0, 1.0, 2.0**-27 + 2.0**-50) * [1.0, 1.0],
    "cancelling": lambda n: rounded_up(n) * np.where(np.arange(n)[:, None] % 2, 1.0, -1.0) * [1.0, 1 / 7],
}


@pytest.mark.parametrize("rows", list(HOSTILE))
@pytest.mark.parametrize("n", [5, BLOCK + 1, 20_000])
def test_the_computed_sums_are_within_the_rounding_that_is_charged(rows, n):
    Z = UNIT.clip(HOSTILE[rows](n)).rows
    r = np.ones(n)
    S, s = moments(split((Z, r), 3000), LocalEngine())
    products, sums = exact(Z, r)
    off = max(abs(Fraction(float(S[i, j])) - p) for (i, j), p in zip(((0, 0), (1, 0), (1, 1)), products, strict=True))
    mean_off = max(abs(Fraction(float(a)) - b) for a, b in zip(s, sums, strict=True))
    plain, charged = (sensitivity(UNIT, "replace-one", k) for k in (0, n))
    room = Fraction(float(charged.entries[0, 0])) - Fraction(float(plain.entries[0, 0]))
    # Two tables are summed: each may be off by half of what is charged.
    assert 2 * off <= room
    assert 2 * mean_off <= Fraction(charged.mean_l2) - Fraction(plain.mean_l2)
    assert np.linalg.norm([float(off)] * 3) * 2 <= charged.l2 - plain.l2 + 1e-300


def test_the_charge_is_needed_because_rounding_does_build_up():
    """One running sum over all rows, which would be charged n roundings, exceeds what eight roundings allow."""
    n = 200_000
    Z = rounded_up(n)[:, :1]
    true = n * Fraction(float(Z[0, 0])) ** 2
    running = 0.0
    for x in (Z[:, 0] ** 2).tolist():
        running += x
    running_error = abs(Fraction(running) - true)
    S, _ = moments([(Z, np.ones(n))], LocalEngine())
    pairwise_error = abs(Fraction(float(S[0, 0])) - true)
    assert running_error > 8 * Fraction(ROUNDING) * true
    assert pairwise_error < running_error
    assert pairwise_error <= ROUNDINGS * Fraction(ROUNDING) * true


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="the oracle needs more digits than what it checks")
def test_millions_of_rows_against_long_double():
    n = 2_000_000
    Z = UNIT.clip(np.random.default_rng(0).uniform(0.9, 1.0, (n, 2))).rows
    S, s = moments(split((Z, np.ones(n)), 100_000), LocalEngine())
    long = Z.astype(np.longdouble)
    true = np.array([(long[:, 0] ** 2).sum(), (long[:, 0] * long[:, 1]).sum(), (long[:, 1] ** 2).sum()])
    allowed = n * ROUNDINGS * ROUNDING
    assert np.abs(S[np.tril_indices(2)] - true).max() <= allowed
    assert np.abs(s - long.sum(axis=0)).max() <= allowed


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("bounds", [Bounds(-1.0, 1.0), Bounds(row_norm=1.0)], ids=["box", "norm"])
def test_a_hundred_million_rows_cost_a_thousandth_more_noise(bounds, neighbours):
    """A charge of one rounding a row made the noise 36 times wider at 1e8 rows of 60 columns within a norm."""
    box, n = bounds.over(60), 10**8
    plain = sensitivity(box, neighbours)
    scale = AnalyticGaussian(1.0, 1e-6, neighbours).scales(box, n)[0, 0]
    unit = AnalyticGaussian(1.0, 1e-6, neighbours).scales(box, 1)[0, 0]
    assert 1 <= scale * n / unit < 1.001
    charged = true_sensitivity(AnalyticGaussian(1.0, 1e-6, neighbours), box, n)
    for name in ("l1", "l2", "mean_l1", "mean_l2"):
        assert 1 <= getattr(charged, name) / getattr(plain, name) < 1.001


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 64, 1000])
def test_every_part_goes_through_few_additions_in_any_order(parts):
    """Counted by adding (value, depth): one by one, as an engine does it, and as a tree."""

    class Counted(np.ndarray):
        def __add__(self, other):
            a, b = np.asarray(self), np.asarray(other)
            return np.array([a[0] + b[0], max(a[1], b[1]) + 1]).view(Counted)

    leaves = [PairwiseSum.of(np.array([1.0, 0.0]).view(Counted)) for _ in range(parts)]
    in_line = sum(leaves, PairwiseSum(()))
    tree = list(leaves)
    while len(tree) > 1:
        tree = [a + b for a, b in zip(tree[::2], tree[1::2], strict=False)] + (tree[-1:] if len(tree) % 2 else [])
    for total in (in_line.total, tree[0].total):
        assert total[0] == parts
        assert total[1] <= 2 * np.log2(parts) + 1


def test_the_weights_of_a_person_never_add_up_to_more_than_one():
    person = [k for k in range(1, 120) for _ in range(k)] + [None] * 4
    roots, people = root_weights(person)
    assert people == 119
    assert (roots[-4:] == 0).all()
    for k in range(1, 120):
        roots_of_k = [Fraction(float(r)) for r, owner in zip(roots, person, strict=True) if owner == k]
        total = sum(r * r for r in roots_of_k)
        assert total <= 1
        assert 1 - total <= 24 * Fraction(ROUNDING)
    twice = [Fraction(float(r)) ** 2 for r in np.full(3, 1 / np.sqrt(3))]  # without the lowered roots
    assert sum(twice) != 1
