"""Entries that 64 bits cannot round: more bits and more digits give the same result as multiple precision."""

from __future__ import annotations

import threading

import mpmath
import numpy as np
import pytest

from dosimeter.noise_addition import multiprecision
from dosimeter.noise_addition.inverse_cdf import GAUSSIAN, INVERSE_CDFS
from dosimeter.noise_addition.multiprecision import Draw, round_exactly
from dosimeter.noise_addition.simulation import seeded_bits
from tests.noise_addition.forged import NOISES, ideal, mp, nearest, then_zeros


def known(n: int, seed: int) -> list[int]:
    return [int(word) for word in seeded_bits(np.random.default_rng(seed))(n)]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("q", [64, 128, 256])
def test_the_ball_holds_the_ideal_draw_and_is_small(noise: type, q: int) -> None:
    for seed in range(6):
        first, *more = known(6, seed)
        x, radius = Draw(INVERSE_CDFS[noise], first, then_zeros(np.array(more, np.uint64))).ball(q)
        assert abs(ideal(noise, first, more) - x) < radius
        assert radius < mp.mpf(2) ** (4 - q)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("side", [0, 1])
def test_a_tail_of_zeros_in_front_costs_more_words_and_nothing_else(noise: type, side: int) -> None:
    """T about 2^-131, which 64 bits alone would read as 0."""
    more = [0, 1 << 60, 12345, 6789]
    x, radius = Draw(INVERSE_CDFS[noise], side << 63, then_zeros(np.array(more, np.uint64))).ball(64)
    assert abs(ideal(noise, side << 63, more) - x) < radius < 1e-17


@pytest.mark.parametrize("m", [(1 << 63) - 1, 1 << 62, 1 << 42, 1])
def test_newton_finds_the_normal_quantile_at_every_precision(m: int) -> None:
    for q in (64, 512):
        x, radius = Draw(GAUSSIAN, m, then_zeros(np.array([], np.uint64))).ball(q)
        with mp.workprec(2 * q + 200):
            lower = mp.make_mpf(x._mpf_) / -mp.sqrt(2)  # negating it in its context would round it
            assert abs(mp.erfc(lower) / (mp.mpf(m) / mp.mpf(2) ** 63) - 1) < mp.mpf(2) ** (2 - q)
        assert radius < mp.mpf(2) ** (4 - q)


def test_the_tail_detects_a_wrong_candidate() -> None:
    """The certificate does not rely on the inverse: if it is off by 1e-6, the ball grows to contain the exact draw."""
    from dataclasses import replace

    wrong = replace(GAUSSIAN, inverse_tail=lambda mp, T, upper: GAUSSIAN.inverse_tail(mp, T, upper) + mp.mpf("1e-6"))
    word, *more = known(6, 3)
    x, radius = Draw(wrong, word, then_zeros(np.array(more, np.uint64))).ball(64)
    assert 1e-6 < radius < 1e-4
    assert abs(ideal(NOISES[0], word, more) - x) < radius


@pytest.mark.parametrize("noise", NOISES)
def test_a_sum_next_to_a_tie_takes_bits_until_it_is_settled(noise: type) -> None:
    """The fraction is 2^-k off a tie of the ideal draw, k up to 200, beyond what float64 and 64 bits can decide."""
    word, *more = known(12, 11)
    x = ideal(noise, word, more)
    tie = mp.floor(x) + 0.5 - x
    for k in (30, 100, 200):
        for sign in (-1, 1):
            draw = Draw(INVERSE_CDFS[noise], word, then_zeros(np.array(more, np.uint64)))
            fraction = tie + sign * mp.mpf(2) ** -k
            assert round_exactly(fraction, [1.0], [draw]) == nearest(x + fraction) == mp.floor(x) + (sign > 0)  # type: ignore[arg-type]


def test_the_precision_of_mpmath_is_left_alone_and_threads_have_their_own() -> None:
    before = mpmath.mp.prec
    assert Draw(GAUSSIAN, 1 << 60, then_zeros(np.array([], np.uint64))).ball(300)
    assert mpmath.mp.prec == before
    contexts: list[object] = []
    other = threading.Thread(target=lambda: contexts.append(multiprecision.context()))
    other.start()
    other.join()
    assert contexts[0] is not multiprecision.context()
