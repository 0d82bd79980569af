"""Folded draws: the exact rounding by another road, their law, and a rounding that does not see the map.

There is no seed in the tests of the law, so each says how often it errs.
"""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import special, stats

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian, Laplace, no_noise
from dosimeter.noise_addition import folded, noisy, simulate
from dosimeter.noise_addition.linear_map import SIGNIFICANT, significant, unchanged
from dosimeter.noise_addition.simulation import seeded
from tests.noise_addition.forged import LAWS, ideal, then_zeros

W = np.array([0.3, -1.7, 1e-3, 40.0, 0.0])
SCALES = (17.3, 1e-3, 0.1, 2.0 / 3.0)
CENTRES = (38.6, 1e-2, -7.7, 1e4)


def standardised(scales=SCALES, centres=CENTRES):
    """The fold of a scaler: w/s for each column, and the intercept less Σ m w/s."""
    rows = [{j: 1 / Fraction(s)} for j, s in enumerate(scales)]
    shift = {j: -Fraction(m) / Fraction(s) for j, (m, s) in enumerate(zip(centres, scales, strict=True))}
    return [*rows, {**shift, len(scales): Fraction(1)}]


def rounded(x: mpmath.mpf) -> float:
    """To 40 significant bits, by whole numbers: ties to even, which the tests never meet."""
    mantissa, exponent = mpmath.frexp(x)
    return float(mpmath.ldexp(mpmath.nint(mpmath.ldexp(mantissa, SIGNIFICANT)), exponent - SIGNIFICANT))


@pytest.mark.parametrize("law", LAWS)
def test_the_numbers_are_those_of_the_ideal_draw_rounded_once(law):
    """Bits that are known: T is m/2^63 exactly, and the quantile is taken in 700 bits by another formula."""
    rng, scale = np.random.default_rng(1), 0.37
    with mpmath.workprec(700):
        for _ in range(40):
            words = rng.integers(0, 2**64, len(W), dtype=np.uint64)
            v = [
                mpmath.mpf(float(w)) + mpmath.mpf(scale) * ideal(law, int(word))
                for w, word in zip(W, words, strict=True)
            ]
            expected = [rounded(v[j] / mpmath.mpf(s)) for j, s in enumerate(SCALES)]
            fall = sum(
                v[j] * mpmath.mpf(m) / mpmath.mpf(s) for j, (m, s) in enumerate(zip(CENTRES, SCALES, strict=True))
            )
            got = folded(W, law(scale), standardised(), bits=then_zeros(words))
            assert got.tolist() == [*expected, rounded(v[4] - fall)]


def test_shaped_noise_is_one_draw_mapped_exactly():
    rng = np.random.default_rng(2)
    A = rng.normal(size=(5, 5))
    noise = CorrelatedGaussian(A @ A.T + np.eye(5))
    with mpmath.workprec(700):
        for _ in range(20):
            words = rng.integers(0, 2**64, 5, dtype=np.uint64)
            z = [ideal(Gaussian, int(word)) for word in words]
            v = [
                mpmath.mpf(float(W[j])) + sum(mpmath.mpf(float(noise.cholesky[j, k])) * z[k] for k in range(5))
                for j in range(5)
            ]
            got = folded(W, noise, standardised(), bits=then_zeros(words))
            assert got[:4].tolist() == [rounded(v[j] / mpmath.mpf(s)) for j, s in enumerate(SCALES)]


@pytest.mark.parametrize("noise", [Gaussian(0.3), Laplace(0.3)], ids=repr)
def test_the_same_bits_give_what_the_grid_gives_to_half_a_step(noise):
    """Another program for the same draw: float64 quantiles on a grid 25 bits below the scale."""
    values = np.linspace(-2, 2, 600)  # no fewer than the company that small draws get
    on_grid = simulate(values, noise, np.random.default_rng(5), grid=2.0**-27)
    got = folded(values, noise, unchanged(600), bits=seeded(np.random.default_rng(5)))
    np.testing.assert_allclose(got, on_grid, rtol=0, atol=2.0**-28 + 2.0**-38)
    assert (got != on_grid).mean() > 0.9


@pytest.mark.parametrize(("noise", "n"), [(Gaussian(0.7), 8000), (Laplace(0.7), 16000)], ids=repr)
def test_the_law_is_accepted_and_slightly_wrong_ones_are_not(noise, n):
    """Kolmogorov–Smirnov on w/s, and on what the intercept hides when the means are known: the noise of b itself.

    The right law is called wrong once in 1e9. A scale of 1.3 is at least 0.048 away and a shift of 0.15 scales 0.06:
    √n D is 5.3 or more with a deviation below ½, and 1.95 is enough for p < 1e-3, so a miss is beyond six deviations.
    """
    s, m, w = 17.3, 38.6, 0.3
    rows = [{j: 1 / Fraction(s)} for j in range(n // 2)]
    rows += [{j + n // 2: Fraction(1), j: -Fraction(m) / Fraction(s)} for j in range(n // 2)]
    drawn = folded(np.full(2 * (n // 2), w), noise, rows)
    found = np.concatenate([drawn[: n // 2] * s, drawn[n // 2 :] + m * drawn[: n // 2]]) - w
    assert stats.kstest(found, noise.cdf).pvalue > 1e-9
    for half in np.split(found, 2):
        assert stats.kstest(half, noise.cdf).pvalue > 1e-9
    assert stats.kstest(found / 1.3, noise.cdf).pvalue < 1e-3
    assert stats.kstest(found - 0.15 * 0.7, noise.cdf).pvalue < 1e-3


def test_the_covariance_of_shaped_noise_goes_through_the_map():
    """Wishart: (n-1) vᵀSv / vᵀΣv is chi-square for any v fixed beforehand; five of them, each cut at 1e-7 a side."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(3, 3))
    noise = CorrelatedGaussian(A @ A.T + 0.5 * np.eye(3))
    rows = standardised((2.5, 0.04), (1.0, -30.0))
    draws = np.array([folded(np.array([1.0, -1.0, 0.5]), noise, rows) for _ in range(1000)])
    F = np.array([[float(row.get(j, 0)) for j in range(3)] for row in rows])
    due, seen = F @ noise.covariance @ F.T, np.cov(draws.T)
    for v in np.vstack([np.eye(3), rng.normal(size=(2, 3)) / np.sqrt(np.diag(due))]):
        q = (len(draws) - 1) * (v @ seen @ v) / (v @ due @ v)
        low, high = stats.chi2.ppf([1e-7, 1 - 1e-7], len(draws) - 1)
        assert low < q < high


def test_every_number_has_forty_bits_whatever_the_map_and_their_last_ones_are_even():
    """Chi-square of the last four bits over all numbers, for the number itself and for number times true scale."""
    counts = np.zeros((3, 16))
    for s in (0.1, 17.3, 1e-7, 3.1, 1e6 / 7):
        got = folded(np.full(600, 0.3), Laplace(0.1), [{j: 1 / Fraction(s)} for j in range(600)])
        assert significant(got).max() <= SIGNIFICANT
        assert significant(got).max() == SIGNIFICANT
        mantissa = np.ldexp(np.frexp(np.abs(got))[0], SIGNIFICANT).astype(np.int64)
        again = np.ldexp(np.frexp(np.abs(got * s))[0], SIGNIFICANT)
        counts[0] += np.bincount(mantissa % 16, minlength=16)
        counts[1] += np.bincount(np.rint(again).astype(np.int64) % 16, minlength=16)
        # The control: rounded on the grid first and divided afterwards, a third of the bits are zeros at the true s.
        old = noisy(np.full(600, 0.3), Laplace(0.1)) / s
        back = np.rint(np.ldexp(np.frexp(np.abs(old * s))[0], SIGNIFICANT)).astype(np.int64)
        counts[2] += np.bincount(back % 16, minlength=16)
    due = counts.sum(axis=1, keepdims=True) / 16
    p = special.chdtrc(15, ((counts - due) ** 2 / due).sum(axis=1))
    assert p[0] > 1e-9
    assert p[1] > 1e-9
    assert p[2] < 1e-100


def test_bits_of_the_system_differ_each_time_and_a_generator_repeats():
    noise, rows = Gaussian(0.1), standardised()
    assert not (folded(W, noise, rows) == folded(W, noise, rows)).any()
    one, two = (folded(W, noise, rows, bits=seeded(np.random.default_rng(4))) for _ in range(2))
    assert (one == two).all()


def test_numbers_are_counted_in_bits():
    rng = np.random.default_rng(6)
    values = np.concatenate([rng.normal(size=50) * 10.0 ** rng.integers(-200, 200, 50), [1.0, -3.0, 2.0**-1000, 0.0]])
    for value, bits in zip(values.tolist(), significant(values).tolist(), strict=True):
        top = Fraction(value).numerator
        assert bits == len(bin(abs(top)).removeprefix("0b").rstrip("0"))


@pytest.mark.parametrize(
    ("weights", "noise", "rows"),
    [
        ([1.0], no_noise, unchanged(1)),
        ([1.0], "gaussian", unchanged(1)),
        ([np.nan], Gaussian(1.0), unchanged(1)),
        ([[1.0]], Gaussian(1.0), unchanged(1)),
        ([], Gaussian(1.0), []),
        ([1.0], Gaussian(1.0), unchanged(2)),
        ([1.0], Gaussian(1.0), [{}]),
        ([1.0], Gaussian(1.0), [{0: 0.5}]),
        ([1.0], Gaussian(1.0), [{0: Fraction(0)}]),
        ([1.0], CorrelatedGaussian(np.eye(2)), unchanged(1)),
    ],
)
def test_what_cannot_be_folded_is_refused(weights, noise, rows):
    with pytest.raises(Refusal):
        folded(weights, noise, rows)
