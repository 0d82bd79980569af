"""The rounding is that of the ideal noise: the same integer as in multiple precision, whether refined or not."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.noise import Gaussian
from dosimeter.noise_addition import exact
from dosimeter.noise_addition.inverse_cdf import GAUSSIAN, INVERSE_CDFS
from dosimeter.noise_addition.simulation import seeded_bits
from tests.noise_addition.forged import NOISES, ideal, mp, nearest, then_zeros


@pytest.fixture
def refined(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The results of all refinements, in order."""
    results: list[int] = []

    def recorded(*args: object) -> int:
        results.append(round_exactly(*args))  # type: ignore[arg-type]
        return results[-1]

    round_exactly = exact.round_exactly
    monkeypatch.setattr(exact, "round_exactly", recorded)
    return results


def draw_words(n: int, seed: int) -> np.ndarray:
    return seeded_bits(np.random.default_rng(seed))(n).copy()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("factor", "share"), [(2.0**16 * 1.7, 0), (2.0**33, 0.5), (2.0**40, 1)])
def test_independent_noise_rounds_as_in_multiple_precision(
    noise: type, factor: float, share: float, refined: list[int]
) -> None:
    """On the default grid none of 60 entries is refined, on a fine one random_words are, on the finest all of them."""
    random_words = draw_words(60, 5)
    steps = np.random.default_rng(6).uniform(-1e9, 1e9, 60)
    got = exact.add_independent(steps, INVERSE_CDFS[noise], factor, then_zeros(random_words))
    want = [nearest(mp.mpf(s) + factor * ideal(noise, int(u))) for s, u in zip(steps, random_words, strict=True)]
    assert [int(k) for k in got] == want
    assert (len(refined) == 60) if share == 1 else (len(refined) <= share * 60)


@pytest.mark.parametrize("noise", NOISES)
def test_an_entry_next_to_a_tie_is_refined_on_the_default_grid(noise: type, refined: list[int]) -> None:
    """Values are set so that w + b is within 2^-36 steps of a tie, on either side: float64 alone would toss a coin."""
    factor, random_words = 2.0**16, draw_words(40, 8)
    draws = [ideal(noise, int(u)) for u in random_words]
    ties = np.array([float(mp.floor(factor * x) + 0.5 - factor * x) for x in draws])
    got = exact.add_independent(ties, INVERSE_CDFS[noise], factor, then_zeros(random_words))
    assert [int(k) for k in got] == [nearest(mp.mpf(t) + factor * x) for t, x in zip(ties, draws, strict=True)]
    assert len(refined) == 40


@pytest.mark.parametrize("noise", NOISES)
def test_a_word_of_zeros_is_refined_and_gives_a_finite_answer(noise: type, refined: list[int]) -> None:
    first = then_zeros(np.array([0, 0, 1 << 50, 7], np.uint64))
    got = exact.add_independent(np.zeros(1), INVERSE_CDFS[noise], 2.0**16, first)
    assert int(got[0]) == nearest(mp.mpf(2) ** 16 * ideal(noise, 0, [0, 1 << 50, 7]))
    assert len(refined) == 1


def test_the_integer_part_of_a_value_takes_no_part() -> None:
    """A shift by whole steps shifts the answer and does nothing else, up to 2^44 steps."""
    steps, random_words = np.random.default_rng(1).uniform(-2, 2, 500), draw_words(500, 2)
    steps = np.round(steps, 2) // 2.0**-8 * 2.0**-8  # parts that survive the shift exactly
    near, far = (exact.add_independent(steps + k, GAUSSIAN, 2.0**16, then_zeros(random_words)) for k in (0.0, 2.0**44))
    assert np.array_equal(far - 2.0**44, near)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, random_words = np.linspace(-50, 50, 1000), draw_words(1000, 3)
    in_one_block = exact.add_independent(steps, GAUSSIAN, 2.0**16, then_zeros(random_words))
    monkeypatch.setattr(exact, "_BLOCK", 7)
    assert np.array_equal(exact.add_independent(steps, GAUSSIAN, 2.0**16, then_zeros(random_words)), in_one_block)


def mixed(p: int) -> np.ndarray:
    """A lower triangular factor with zeros, of scale one."""
    L = np.tril(np.random.default_rng(p).standard_normal((p, p)))
    L[3, 1] = 0.0
    return L


@pytest.mark.parametrize(("factor", "least"), [(2.0**16, 0), (2.0**34, 1), (2.0**40, 25)])
def test_correlated_noise_rounds_as_in_multiple_precision(factor: float, least: int, refined: list[int]) -> None:
    p, n = 6, 5
    A, random_words = mixed(p) * factor, draw_words(n * p, 4)
    steps = np.random.default_rng(6).uniform(-1e6, 1e6, (n, p))
    got = exact.add_correlated(steps, A, then_zeros(random_words))
    z = np.array([ideal(Gaussian, int(u)) for u in random_words], dtype=object).reshape(n, p)
    for i in range(n):
        for j in range(p):
            row = mp.fsum(mp.mpf(A[j, k]) * z[i, k] for k in range(p))
            assert int(got[i, j]) == nearest(mp.mpf(steps[i, j]) + row)
    assert len(refined) >= least
    assert (factor > 2.0**16) or not refined


def test_a_rare_word_refines_the_rows_that_use_it_and_no_others(refined: list[int]) -> None:
    p = 6
    A, random_words = mixed(p) * 2.0**16, draw_words(p, 4)
    random_words[1] = 12345  # T = 1.3e-15: its 63 bits have 14 digits less than the others'
    got = exact.add_correlated(np.zeros((1, p)), A, then_zeros(random_words))[0]
    z = [ideal(Gaussian, int(u)) for u in random_words]
    assert [int(k) for k in got] == [nearest(mp.fsum(mp.mpf(A[j, k]) * z[k] for k in range(p))) for j in range(p)]
    assert len(refined) == np.count_nonzero(A[:, 1]) == 4


def test_correlated_entries_next_to_a_tie_are_refined(refined: list[int]) -> None:
    p = 4
    A, random_words = np.linalg.cholesky(np.eye(p) + 1.0) * 2.0**16, draw_words(p, 9)
    z = [ideal(Gaussian, int(u)) for u in random_words]
    rows = [mp.fsum(mp.mpf(A[j, k]) * z[k] for k in range(p)) for j in range(p)]
    ties = np.array([float(mp.floor(row) + 0.5 - row) for row in rows])
    got = exact.add_correlated(ties[None], A, then_zeros(random_words))[0]
    assert [int(k) for k in got] == [nearest(mp.mpf(t) + row) for t, row in zip(ties, rows, strict=True)]
    assert len(refined) == p


def test_one_dimension_of_correlated_noise_is_gaussian_noise() -> None:
    steps, random_words = np.linspace(-3, 3, 200), draw_words(200, 1)
    correlated = exact.add_correlated(
        steps[:, None], CorrelatedGaussian([[4.0]]).cholesky * 2.0**15, then_zeros(random_words)
    )
    assert np.array_equal(correlated[:, 0], exact.add_independent(steps, GAUSSIAN, 2.0**16, then_zeros(random_words)))


@pytest.mark.parametrize("noise", NOISES)
def test_a_word_with_few_bits_of_its_tail_is_refined(noise: type, refined: list[int]) -> None:
    """Below T = 2^-21 the 63 bits leave log T too open for the filter's bound; from there on they do not."""
    few = np.array([12345, (1 << 42) - 1, 1 << 43], np.uint64)
    got = exact.add_independent(np.zeros(3), INVERSE_CDFS[noise], 2.0**16, then_zeros(few))
    assert [int(k) for k in got] == [nearest(mp.mpf(2) ** 16 * ideal(noise, int(u))) for u in few]
    assert len(refined) == 2


def test_a_large_value_is_settled_as_easily_as_a_small_one(refined: list[int]) -> None:
    """2^44 steps from 0 and within 2^-9 of a tie, half an ulp of the sum: without the split all would be refined."""
    factor, random_words = 2.0**16, draw_words(60, 12)
    draws = [ideal(Gaussian, int(u)) for u in random_words]
    ties = np.array([float(mp.floor(factor * x) + 0.5 - factor * x) for x in draws])
    steps = 2.0**44 + np.rint(ties * 2**8) / 2**8
    got = exact.add_independent(steps, GAUSSIAN, factor, then_zeros(random_words))
    assert [int(k) for k in got] == [nearest(mp.mpf(s) + factor * x) for s, x in zip(steps, draws, strict=True)]
    assert not refined
