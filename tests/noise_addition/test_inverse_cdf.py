"""The two facts and the error bound that exactness rests on, against multiple precision."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Exponential, Laplace
from dosimeter.noise_addition.inverse_cdf import (
    ERROR,
    INVERSE_CDFS,
    LEAST_TAIL,
    SLOPE,
    inverse_cdf_of,
    is_upper,
    tail_probability,
)
from tests.noise_addition.forged import NOISES, ideal, mp

UPPER = 1 << 63


def draw_words(n: int) -> np.ndarray:
    """n words over both sides: evenly in T, evenly in log T, and at the edges of the float64 branches."""
    rng = np.random.default_rng(20260801)
    even = rng.integers(0, 1 << 63, n // 2, dtype=np.uint64)
    log_even = (2.0 ** rng.uniform(42, 63, n - len(even))).astype(np.uint64)
    turns = [
        2 * np.exp(-2.0),
        2 * (1 - np.exp(-2.0)),
        0.5,
        2.0**-20,
        2 * np.exp(-32.0),
    ]  # where ndtri and log switch to another branch
    edges = [int(t * 2**63) + k for t in turns if t < 1 for k in (-1, 0, 1)]
    edges += [1 << 42, (1 << 42) + 1, (1 << 63) - 1, (1 << 63) - 2, (1 << 63) - (1 << 9), (1 << 63) - (1 << 20)]
    m = np.concatenate([even, log_even, np.array(edges, np.uint64)])
    m = np.clip(m, np.uint64(1 << 42), np.uint64((1 << 63) - 1))
    return np.concatenate([m, m | np.uint64(UPPER)])


@pytest.mark.parametrize("noise", NOISES)
def test_float64_errs_by_less_than_the_budget_at_every_point_tried(noise: type) -> None:
    """Both ends of the interval that 63 bits leave lie within ERROR."""
    few = draw_words(150)
    x = INVERSE_CDFS[noise].quantile(tail_probability(few), few)
    for word, computed in zip(few.tolist(), x.tolist(), strict=True):
        low = ideal(noise, word)
        high = ideal(noise, word, [(1 << 64) - 1])
        assert abs(low - computed) < ERROR
        assert abs(high - computed) < ERROR


@pytest.mark.parametrize("noise", NOISES)
def test_the_function_alone_errs_by_less_than_its_share(noise: type) -> None:
    """|x - Q(T)| <= SLOPE |log tail(x) - log T| < 2^-42, although SLOPE is up to twenty times the slope there."""
    many = draw_words(4000)
    T = tail_probability(many)
    x = INVERSE_CDFS[noise].quantile(T, many)
    with mp.workprec(120):
        for t, computed, upper in zip(T.tolist(), x.tolist(), is_upper(many).tolist(), strict=True):
            error = SLOPE * abs(mp.log(INVERSE_CDFS[noise].tail(mp, mp.mpf(computed), upper) / t))
            assert error < 2.0**-42


@pytest.mark.parametrize("noise", NOISES)
def test_the_tail_is_that_of_the_density(noise: type) -> None:
    """Against core's cdf and sf: twice the probability beyond x on a side, once for the one-sided exponential."""
    inverse_cdf, density, weight = INVERSE_CDFS[noise], noise(1.0), 1 if noise is Exponential else 2
    for x in (0.1, 0.9, 3.0, 12.0):
        assert float(inverse_cdf.tail(mp, mp.mpf(x), True)) == pytest.approx(weight * float(density.sf(x)), rel=1e-13)
        if weight == 2:
            assert float(inverse_cdf.tail(mp, mp.mpf(-x), False)) == pytest.approx(
                2 * float(density.cdf(-x)), rel=1e-12
            )


@pytest.mark.parametrize("noise", NOISES)
def test_the_slope_and_the_reach_hold(noise: type) -> None:
    """|dx/d log T| < 4 down to T = 1e-300 and |x| < 16 from T = 2^-21 on, by differences."""
    inverse_cdf, step = INVERSE_CDFS[noise], mp.mpf(2) ** -60
    with mp.workprec(200):
        for upper in (False, True):
            for t in [*np.geomspace(1e-300, 1, 150), *np.linspace(0.01, 1, 50)]:
                x, before = (inverse_cdf.inverse_tail(mp, mp.mpf(t) * (1 - k * step), upper) for k in (0, 1))
                assert abs(x - before) < SLOPE * step
            assert abs(inverse_cdf.inverse_tail(mp, mp.mpf(LEAST_TAIL), upper)) < 16


@pytest.mark.parametrize("noise", NOISES)
def test_the_slope_holds_past_the_median(noise: type) -> None:
    """Up to T = 3/2, which a candidate of the refinement may reach by rounding: there d log T/dx > 1/4."""
    inverse_cdf, median = INVERSE_CDFS[noise], float(noise(1.0).quantile(0.5)) if noise is not Exponential else 0.0
    with mp.workprec(200):
        for upper, sign in ((True, -1), (False, 1)):
            for x in median + sign * np.linspace(0, 0.4, 20):
                near = [mp.log(inverse_cdf.tail(mp, mp.mpf(x) + k * mp.mpf(2) ** -60, upper)) for k in (0, 1)]
                assert abs(near[1] - near[0]) * mp.mpf(2) ** 60 > 1 / SLOPE


def test_a_density_without_an_inverse_cdf_is_refused() -> None:
    class Own(Laplace):
        pass

    with pytest.raises(Refusal, match="cannot be drawn for a release: use Gaussian"):
        inverse_cdf_of(Own(1.0))
