"""The two facts and the error bound that exactness rests on, against multiple precision."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Exponential, Laplace
from dosimeter.noise_addition.inverse_cdf import ERROR, LAWS, LEAST_TAIL, SLOPE, is_upper, law_of, split
from tests.noise_addition.forged import LAWS as NOISES
from tests.noise_addition.forged import ideal, mp

UPPER = 1 << 63


def words(n: int) -> np.ndarray:
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
    ]  # where ndtri and log change road
    edges = [int(t * 2**63) + k for t in turns if t < 1 for k in (-1, 0, 1)]
    edges += [1 << 42, (1 << 42) + 1, (1 << 63) - 1, (1 << 63) - 2, (1 << 63) - (1 << 9), (1 << 63) - (1 << 20)]
    m = np.concatenate([even, log_even, np.array(edges, np.uint64)])
    m = np.clip(m, np.uint64(1 << 42), np.uint64((1 << 63) - 1))
    return np.concatenate([m, m | np.uint64(UPPER)])


@pytest.mark.parametrize("noise", NOISES)
def test_float64_errs_by_less_than_the_budget_at_every_point_tried(noise: type) -> None:
    """Both ends of the interval of 63 bits lie within ERROR."""
    few = words(150)
    x = LAWS[noise].quantile(split(few), few)
    for word, at in zip(few.tolist(), x.tolist(), strict=True):
        low = ideal(noise, word)
        high = ideal(noise, word, [(1 << 64) - 1])
        assert abs(low - at) < ERROR
        assert abs(high - at) < ERROR


@pytest.mark.parametrize("noise", NOISES)
def test_the_function_alone_errs_by_less_than_its_share(noise: type) -> None:
    """|x - Q(T)| <= SLOPE |log tail(x) - log T| < 2^-42, although SLOPE is up to twenty times the slope there."""
    many = words(4000)
    T = split(many)
    x = LAWS[noise].quantile(T, many)
    with mp.workprec(120):
        for t, at, upper in zip(T.tolist(), x.tolist(), is_upper(many).tolist(), strict=True):
            off = SLOPE * abs(mp.log(LAWS[noise].tail(mp, mp.mpf(at), upper) / t))
            assert off < 2.0**-42


@pytest.mark.parametrize("noise", NOISES)
def test_the_tail_is_that_of_the_density(noise: type) -> None:
    """Against core's cdf and sf: twice the probability beyond x on a side, once for the one-sided exponential."""
    law, density, weight = LAWS[noise], noise(1.0), 1 if noise is Exponential else 2
    for x in (0.1, 0.9, 3.0, 12.0):
        assert float(law.tail(mp, mp.mpf(x), True)) == pytest.approx(weight * float(density.sf(x)), rel=1e-13)
        if weight == 2:
            assert float(law.tail(mp, mp.mpf(-x), False)) == pytest.approx(2 * float(density.cdf(-x)), rel=1e-12)


@pytest.mark.parametrize("noise", NOISES)
def test_the_slope_and_the_reach_hold(noise: type) -> None:
    """|dx/d log T| < 4 down to T = 1e-300 and |x| < 16 from T = 2^-21 on, by differences."""
    law, step = LAWS[noise], mp.mpf(2) ** -60
    with mp.workprec(200):
        for upper in (False, True):
            for t in [*np.geomspace(1e-300, 1, 150), *np.linspace(0.01, 1, 50)]:
                x, before = (law.inverse(mp, mp.mpf(t) * (1 - k * step), upper) for k in (0, 1))
                assert abs(x - before) < SLOPE * step
            assert abs(law.inverse(mp, mp.mpf(LEAST_TAIL), upper)) < 16


@pytest.mark.parametrize("noise", NOISES)
def test_the_slope_holds_past_the_median(noise: type) -> None:
    """Up to T = 3/2, which a candidate of the refinement may reach by rounding: there d log T/dx > 1/4."""
    law, median = LAWS[noise], float(noise(1.0).quantile(0.5)) if noise is not Exponential else 0.0
    with mp.workprec(200):
        for upper, sign in ((True, -1), (False, 1)):
            for x in median + sign * np.linspace(0, 0.4, 20):
                near = [mp.log(law.tail(mp, mp.mpf(x) + k * mp.mpf(2) ** -60, upper)) for k in (0, 1)]
                assert abs(near[1] - near[0]) * mp.mpf(2) ** 60 > 1 / SLOPE


def test_a_density_without_a_law_is_refused() -> None:
    class Own(Laplace):
        pass

    with pytest.raises(Refusal, match="no law"):
        law_of(Own(1.0))
