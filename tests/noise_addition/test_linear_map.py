"""The noisy linear map: exact rounding checked in another way, its distribution, and a rounding independent of the map.

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
from dosimeter.noise_addition import add_noise, noisy_linear_map, simulate
from dosimeter.noise_addition.linear_map import SIGNIFICANT, identity_rows, significant_bits
from dosimeter.noise_addition.simulation import seeded_bits
from tests.noise_addition.forged import NOISES, ideal, then_zeros

W = np.array([0.3, -1.7, 1e-3, 40.0, 0.0])
SCALES = (17.3, 1e-3, 0.1, 2.0 / 3.0)
CENTRES = (38.6, 1e-2, -7.7, 1e4)


def standardised(scales=SCALES, centres=CENTRES):
    """The map of a scaler: w/s for each column, and the intercept minus Σ m w/s."""
    rows = [{j: 1 / Fraction(s)} for j, s in enumerate(scales)]
    shift = {j: -Fraction(m) / Fraction(s) for j, (m, s) in enumerate(zip(centres, scales, strict=True))}
    return [*rows, {**shift, len(scales): Fraction(1)}]


def rounded(x: mpmath.mpf) -> float:
    """Rounded to 40 significant bits by integer arithmetic; ties to even, which do not occur in the tests."""
    mantissa, exponent = mpmath.frexp(x)
    return float(mpmath.ldexp(mpmath.nint(mpmath.ldexp(mantissa, SIGNIFICANT)), exponent - SIGNIFICANT))


@pytest.mark.parametrize("law", NOISES)
def test_the_numbers_are_those_of_the_ideal_draw_rounded_once(law):
    """Known bits: T is exactly m/2^63, and the quantile is computed with 700 bits by another formula."""
    rng, scale = np.random.default_rng(1), 0.37
    with mpmath.workprec(700):
        for _ in range(40):
            random_words = rng.integers(0, 2**64, len(W), dtype=np.uint64)
            v = [
                mpmath.mpf(float(w)) + mpmath.mpf(scale) * ideal(law, int(word))
                for w, word in zip(W, random_words, strict=True)
            ]
            expected = [rounded(v[j] / mpmath.mpf(s)) for j, s in enumerate(SCALES)]
            fall = sum(
                v[j] * mpmath.mpf(m) / mpmath.mpf(s) for j, (m, s) in enumerate(zip(CENTRES, SCALES, strict=True))
            )
            got = noisy_linear_map(W, law(scale), standardised(), bits=then_zeros(random_words))
            assert got.tolist() == [*expected, rounded(v[4] - fall)]


def test_shaped_noise_is_one_draw_mapped_exactly():
    rng = np.random.default_rng(2)
    A = rng.normal(size=(5, 5))
    noise = CorrelatedGaussian(A @ A.T + np.eye(5))
    with mpmath.workprec(700):
        for _ in range(20):
            random_words = rng.integers(0, 2**64, 5, dtype=np.uint64)
            z = [ideal(Gaussian, int(word)) for word in random_words]
            v = [
                mpmath.mpf(float(W[j])) + sum(mpmath.mpf(float(noise.cholesky[j, k])) * z[k] for k in range(5))
                for j in range(5)
            ]
            got = noisy_linear_map(W, noise, standardised(), bits=then_zeros(random_words))
            assert got[:4].tolist() == [rounded(v[j] / mpmath.mpf(s)) for j, s in enumerate(SCALES)]


@pytest.mark.parametrize("noise", [Gaussian(0.3), Laplace(0.3)], ids=repr)
def test_the_same_bits_give_what_the_grid_gives_to_half_a_step(noise):
    """Compared with another algorithm for the same draw: float64 quantiles on a grid 25 bits below the scale."""
    values = np.linspace(-2, 2, 600)  # at least the size to which small draws are padded
    on_grid = simulate(values, noise, np.random.default_rng(5), grid=2.0**-27)
    got = noisy_linear_map(values, noise, identity_rows(600), bits=seeded_bits(np.random.default_rng(5)))
    np.testing.assert_allclose(got, on_grid, rtol=0, atol=2.0**-28 + 2.0**-38)
    assert (got != on_grid).mean() > 0.9


@pytest.mark.parametrize(
    ("noise", "n"), [(Gaussian(0.7), 8000), pytest.param(Laplace(0.7), 16000, marks=pytest.mark.slow)], ids=repr
)
def test_the_law_is_accepted_and_slightly_wrong_ones_are_not(noise, n):
    """Kolmogorov–Smirnov on w/s, and on what the intercept hides when the means are known: the noise of b itself.

    The right law is called wrong once in 1e11. A scale of 1.3 is at least 0.048 away and a shift of 0.15 scales 0.06:
    √n D is 5.3 or more with a deviation below ½, and 1.95 is enough for p < 1e-3, so a miss is beyond six deviations.
    """
    s, m, w = 17.3, 38.6, 0.3
    rows = [{j: 1 / Fraction(s)} for j in range(n // 2)]
    rows += [{j + n // 2: Fraction(1), j: -Fraction(m) / Fraction(s)} for j in range(n // 2)]
    drawn = noisy_linear_map(np.full(2 * (n // 2), w), noise, rows)
    noise_drawn = np.concatenate([drawn[: n // 2] * s, drawn[n // 2 :] + m * drawn[: n // 2]]) - w
    assert stats.kstest(noise_drawn, noise.cdf).pvalue > 1e-12
    for half in np.split(noise_drawn, 2):
        assert stats.kstest(half, noise.cdf).pvalue > 1e-12
    assert stats.kstest(noise_drawn / 1.3, noise.cdf).pvalue < 1e-3
    assert stats.kstest(noise_drawn - 0.15 * 0.7, noise.cdf).pvalue < 1e-3


def test_the_covariance_of_shaped_noise_goes_through_the_map():
    """Wishart: (n-1) vᵀSv / vᵀΣv is chi-square for any fixed v; five of them, each tested at 1e-11 per side."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(3, 3))
    noise = CorrelatedGaussian(A @ A.T + 0.5 * np.eye(3))
    rows = standardised((2.5, 0.04), (1.0, -30.0))
    draws = np.array([noisy_linear_map(np.array([1.0, -1.0, 0.5]), noise, rows) for _ in range(1000)])
    F = np.array([[float(row.get(j, 0)) for j in range(3)] for row in rows])
    expected, sample_covariance = F @ noise.covariance @ F.T, np.cov(draws.T)
    for v in np.vstack([np.eye(3), rng.normal(size=(2, 3)) / np.sqrt(np.diag(expected))]):
        q = (len(draws) - 1) * (v @ sample_covariance @ v) / (v @ expected @ v)
        low, high = stats.chi2.ppf(1e-11, len(draws) - 1), stats.chi2.isf(1e-11, len(draws) - 1)
        assert low < q < high


def test_every_number_has_forty_bits_for_any_map_and_fair_last_bits():
    """Chi-square test of the last four bits, for the number itself and for number times true scale."""
    counts = np.zeros((3, 16))
    for s in (0.1, 17.3, 1e-7, 3.1, 1e6 / 7):
        got = noisy_linear_map(np.full(600, 0.3), Laplace(0.1), [{j: 1 / Fraction(s)} for j in range(600)])
        assert significant_bits(got).max() <= SIGNIFICANT
        assert significant_bits(got).max() == SIGNIFICANT
        mantissa = np.ldexp(np.frexp(np.abs(got))[0], SIGNIFICANT).astype(np.int64)
        again = np.ldexp(np.frexp(np.abs(got * s))[0], SIGNIFICANT)
        counts[0] += np.bincount(mantissa % 16, minlength=16)
        counts[1] += np.bincount(np.rint(again).astype(np.int64) % 16, minlength=16)
        # The control: rounded on the grid and divided afterwards, a third of the bits are zero at the true s.
        old = add_noise(np.full(600, 0.3), Laplace(0.1)) / s
        back = np.rint(np.ldexp(np.frexp(np.abs(old * s))[0], SIGNIFICANT)).astype(np.int64)
        counts[2] += np.bincount(back % 16, minlength=16)
    due = counts.sum(axis=1, keepdims=True) / 16
    p = special.chdtrc(15, ((counts - due) ** 2 / due).sum(axis=1))
    assert p[0] > 1e-11
    assert p[1] > 1e-11
    assert p[2] < 1e-100


def test_bits_of_the_system_differ_each_time_and_a_generator_repeats():
    noise, rows = Gaussian(0.1), standardised()
    assert not (noisy_linear_map(W, noise, rows) == noisy_linear_map(W, noise, rows)).any()
    first, second = (noisy_linear_map(W, noise, rows, bits=seeded_bits(np.random.default_rng(4))) for _ in range(2))
    assert (first == second).all()


def test_significant_bits_are_counted():
    rng = np.random.default_rng(6)
    values = np.concatenate([rng.normal(size=50) * 10.0 ** rng.integers(-200, 200, 50), [1.0, -3.0, 2.0**-1000, 0.0]])
    for value, bits in zip(values.tolist(), significant_bits(values).tolist(), strict=True):
        top = Fraction(value).numerator
        assert bits == len(bin(abs(top)).removeprefix("0b").rstrip("0"))


@pytest.mark.parametrize(
    ("weights", "noise", "rows"),
    [
        ([1.0], no_noise, identity_rows(1)),
        ([1.0], "gaussian", identity_rows(1)),
        ([np.nan], Gaussian(1.0), identity_rows(1)),
        ([[1.0]], Gaussian(1.0), identity_rows(1)),
        ([], Gaussian(1.0), []),
        ([1.0], Gaussian(1.0), identity_rows(2)),
        ([1.0], Gaussian(1.0), [{}]),
        ([1.0], Gaussian(1.0), [{0: 0.5}]),
        ([1.0], Gaussian(1.0), [{0: Fraction(0)}]),
        ([1.0], CorrelatedGaussian(np.eye(2)), identity_rows(1)),
    ],
)
def test_bad_input_is_refused(weights, noise, rows):
    with pytest.raises(Refusal):
        noisy_linear_map(weights, noise, rows)
