"""Entries that 64 bits do not settle: more bits, more digits, the same answer as multiple precision from the start."""

from __future__ import annotations

import threading

import mpmath
import numpy as np
import pytest

from dosimeter.noise_addition import multiprecision as refine
from dosimeter.noise_addition.inverse_cdf import GAUSSIAN, LAWS
from dosimeter.noise_addition.multiprecision import Draw, settle
from dosimeter.noise_addition.simulation import seeded
from tests.noise_addition.forged import LAWS as NOISES
from tests.noise_addition.forged import ideal, mp, nearest, then_zeros


def known(n: int, seed: int) -> list[int]:
    return [int(word) for word in seeded(np.random.default_rng(seed))(n)]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("q", [64, 128, 256])
def test_the_ball_holds_the_ideal_draw_and_is_small(noise: type, q: int) -> None:
    for seed in range(6):
        first, *more = known(6, seed)
        x, radius = Draw(LAWS[noise], first, then_zeros(np.array(more, np.uint64))).ball(q)
        assert abs(ideal(noise, first, more) - x) < radius
        assert radius < mp.mpf(2) ** (4 - q)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("side", [0, 1])
def test_a_tail_of_zeros_in_front_costs_more_words_and_nothing_else(noise: type, side: int) -> None:
    """T about 2^-131, which float64 words alone would call 0."""
    more = [0, 1 << 60, 12345, 6789]
    x, radius = Draw(LAWS[noise], side << 63, then_zeros(np.array(more, np.uint64))).ball(64)
    assert abs(ideal(noise, side << 63, more) - x) < radius < 1e-17


@pytest.mark.parametrize("m", [(1 << 63) - 1, 1 << 62, 1 << 42, 1])
def test_newton_finds_the_normal_quantile_at_every_precision(m: int) -> None:
    for q in (64, 512):
        x, radius = Draw(GAUSSIAN, m, then_zeros(np.array([], np.uint64))).ball(q)
        with mp.workprec(2 * q + 200):
            lower = mp.make_mpf(x._mpf_) / -mp.sqrt(2)  # a sign change in its own context would round it
            assert abs(mp.erfc(lower) / (mp.mpf(m) / mp.mpf(2) ** 63) - 1) < mp.mpf(2) ** (2 - q)
        assert radius < mp.mpf(2) ** (4 - q)


def test_a_wrong_candidate_is_found_out_by_the_tail() -> None:
    """The certificate does not believe the inverse: moved by 1e-6, the ball grows to hold the right answer."""
    from dataclasses import replace

    wrong = replace(GAUSSIAN, inverse=lambda mp, T, upper: GAUSSIAN.inverse(mp, T, upper) + mp.mpf("1e-6"))
    word, *more = known(6, 3)
    x, radius = Draw(wrong, word, then_zeros(np.array(more, np.uint64))).ball(64)
    assert 1e-6 < radius < 1e-4
    assert abs(ideal(NOISES[0], word, more) - x) < radius


@pytest.mark.parametrize("noise", NOISES)
def test_a_sum_next_to_a_tie_takes_bits_until_it_is_settled(noise: type) -> None:
    """The part is set 2^-k off the tie of the ideal draw, k up to 200: first float64 and then 64 bits cannot tell."""
    word, *more = known(12, 11)
    x = ideal(noise, word, more)
    tie = mp.floor(x) + 0.5 - x
    for k in (30, 100, 200):
        for sign in (-1, 1):
            draw = Draw(LAWS[noise], word, then_zeros(np.array(more, np.uint64)))
            part = tie + sign * mp.mpf(2) ** -k
            assert settle(part, [1.0], [draw]) == nearest(x + part) == mp.floor(x) + (sign > 0)  # type: ignore[arg-type]


def test_the_digits_of_others_are_left_alone_and_threads_have_their_own() -> None:
    before = mpmath.mp.prec
    assert Draw(GAUSSIAN, 1 << 60, then_zeros(np.array([], np.uint64))).ball(300)
    assert mpmath.mp.prec == before
    seen: list[object] = []
    other = threading.Thread(target=lambda: seen.append(refine.context()))
    other.start()
    other.join()
    assert seen[0] is not refine.context()
