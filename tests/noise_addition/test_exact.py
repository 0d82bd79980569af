"""The rounding is that of the ideal noise: the same integer as multiple precision, whether refined or not."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.noise import Gaussian
from dosimeter.noise_addition import exact
from dosimeter.noise_addition.inverse_cdf import GAUSSIAN, LAWS
from dosimeter.noise_addition.simulation import seeded
from tests.noise_addition.forged import LAWS as NOISES
from tests.noise_addition.forged import ideal, mp, nearest, then_zeros


@pytest.fixture
def refined(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The answers of every refinement that was made."""
    made: list[int] = []

    def counted(*args: object) -> int:
        made.append(settle(*args))  # type: ignore[arg-type]
        return made[-1]

    settle = exact.settle
    monkeypatch.setattr(exact, "settle", counted)
    return made


def words(n: int, seed: int) -> np.ndarray:
    return seeded(np.random.default_rng(seed))(n).copy()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("factor", "share"), [(2.0**16 * 1.7, 0), (2.0**33, 0.5), (2.0**40, 1)])
def test_independent_noise_rounds_as_in_multiple_precision(
    noise: type, factor: float, share: float, refined: list[int]
) -> None:
    """On the default grid none of 60 entries is refined, on a fine one some are, on the finest all of them."""
    some = words(60, 5)
    steps = np.random.default_rng(6).uniform(-1e9, 1e9, 60)
    got = exact.independent(steps, LAWS[noise], factor, then_zeros(some))
    want = [nearest(mp.mpf(s) + factor * ideal(noise, int(u))) for s, u in zip(steps, some, strict=True)]
    assert [int(k) for k in got] == want
    assert (len(refined) == 60) if share == 1 else (len(refined) <= share * 60)


@pytest.mark.parametrize("noise", NOISES)
def test_an_entry_next_to_a_tie_is_refined_on_the_default_grid(noise: type, refined: list[int]) -> None:
    """Values are set so that w + b is within 2^-36 steps of a tie, on either side: float64 alone would toss a coin."""
    factor, some = 2.0**16, words(40, 8)
    draws = [ideal(noise, int(u)) for u in some]
    ties = np.array([float(mp.floor(factor * x) + 0.5 - factor * x) for x in draws])
    got = exact.independent(ties, LAWS[noise], factor, then_zeros(some))
    assert [int(k) for k in got] == [nearest(mp.mpf(t) + factor * x) for t, x in zip(ties, draws, strict=True)]
    assert len(refined) == 40


@pytest.mark.parametrize("noise", NOISES)
def test_a_word_of_zeros_is_refined_and_gives_a_finite_answer(noise: type, refined: list[int]) -> None:
    first = then_zeros(np.array([0, 0, 1 << 50, 7], np.uint64))
    got = exact.independent(np.zeros(1), LAWS[noise], 2.0**16, first)
    assert int(got[0]) == nearest(mp.mpf(2) ** 16 * ideal(noise, 0, [0, 1 << 50, 7]))
    assert len(refined) == 1


def test_the_integer_part_of_a_value_takes_no_part() -> None:
    """A shift by whole steps shifts the answer and does nothing else, up to 2^44 steps."""
    steps, some = np.random.default_rng(1).uniform(-2, 2, 500), words(500, 2)
    steps = np.round(steps, 2) // 2.0**-8 * 2.0**-8  # parts that survive the shift exactly
    near, far = (exact.independent(steps + k, GAUSSIAN, 2.0**16, then_zeros(some)) for k in (0.0, 2.0**44))
    assert np.array_equal(far - 2.0**44, near)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, some = np.linspace(-50, 50, 1000), words(1000, 3)
    whole = exact.independent(steps, GAUSSIAN, 2.0**16, then_zeros(some))
    monkeypatch.setattr(exact, "_BLOCK", 7)
    assert np.array_equal(exact.independent(steps, GAUSSIAN, 2.0**16, then_zeros(some)), whole)


def mixed(p: int) -> np.ndarray:
    """A lower triangular factor with zeros, of scale one."""
    L = np.tril(np.random.default_rng(p).standard_normal((p, p)))
    L[3, 1] = 0.0
    return L


@pytest.mark.parametrize(("factor", "least"), [(2.0**16, 0), (2.0**34, 1), (2.0**40, 25)])
def test_correlated_noise_rounds_as_in_multiple_precision(factor: float, least: int, refined: list[int]) -> None:
    p, n = 6, 5
    A, some = mixed(p) * factor, words(n * p, 4)
    steps = np.random.default_rng(6).uniform(-1e6, 1e6, (n, p))
    got = exact.correlated(steps, A, then_zeros(some))
    z = np.array([ideal(Gaussian, int(u)) for u in some], dtype=object).reshape(n, p)
    for i in range(n):
        for j in range(p):
            row = mp.fsum(mp.mpf(A[j, k]) * z[i, k] for k in range(p))
            assert int(got[i, j]) == nearest(mp.mpf(steps[i, j]) + row)
    assert len(refined) >= least
    assert (factor > 2.0**16) or not refined


def test_a_rare_word_refines_the_rows_that_use_it_and_no_others(refined: list[int]) -> None:
    p = 6
    A, some = mixed(p) * 2.0**16, words(p, 4)
    some[1] = 12345  # T = 1.3e-15: its 63 bits have 14 digits less than the others'
    got = exact.correlated(np.zeros((1, p)), A, then_zeros(some))[0]
    z = [ideal(Gaussian, int(u)) for u in some]
    assert [int(k) for k in got] == [nearest(mp.fsum(mp.mpf(A[j, k]) * z[k] for k in range(p))) for j in range(p)]
    assert len(refined) == np.count_nonzero(A[:, 1]) == 4


def test_correlated_entries_next_to_a_tie_are_refined(refined: list[int]) -> None:
    p = 4
    A, some = np.linalg.cholesky(np.eye(p) + 1.0) * 2.0**16, words(p, 9)
    z = [ideal(Gaussian, int(u)) for u in some]
    rows = [mp.fsum(mp.mpf(A[j, k]) * z[k] for k in range(p)) for j in range(p)]
    ties = np.array([float(mp.floor(row) + 0.5 - row) for row in rows])
    got = exact.correlated(ties[None], A, then_zeros(some))[0]
    assert [int(k) for k in got] == [nearest(mp.mpf(t) + row) for t, row in zip(ties, rows, strict=True)]
    assert len(refined) == p


def test_one_dimension_of_correlated_noise_is_gaussian_noise() -> None:
    steps, some = np.linspace(-3, 3, 200), words(200, 1)
    one = exact.correlated(steps[:, None], CorrelatedGaussian([[4.0]]).cholesky * 2.0**15, then_zeros(some))
    assert np.array_equal(one[:, 0], exact.independent(steps, GAUSSIAN, 2.0**16, then_zeros(some)))


@pytest.mark.parametrize("noise", NOISES)
def test_a_word_with_few_bits_of_its_tail_is_refined(noise: type, refined: list[int]) -> None:
    """Below T = 2^-21 the 63 bits leave log T too open for the filter's bound; from there on they do not."""
    few = np.array([12345, (1 << 42) - 1, 1 << 43], np.uint64)
    got = exact.independent(np.zeros(3), LAWS[noise], 2.0**16, then_zeros(few))
    assert [int(k) for k in got] == [nearest(mp.mpf(2) ** 16 * ideal(noise, int(u))) for u in few]
    assert len(refined) == 2


def test_a_large_value_is_settled_as_easily_as_a_small_one(refined: list[int]) -> None:
    """2^44 steps from 0 and within 2^-9 of a tie, half an ulp of the sum: without the split all would be refined."""
    factor, some = 2.0**16, words(60, 12)
    draws = [ideal(Gaussian, int(u)) for u in some]
    ties = np.array([float(mp.floor(factor * x) + 0.5 - factor * x) for x in draws])
    steps = 2.0**44 + np.rint(ties * 2**8) / 2**8
    got = exact.independent(steps, GAUSSIAN, factor, then_zeros(some))
    assert [int(k) for k in got] == [nearest(mp.mpf(s) + factor * x) for s, x in zip(steps, draws, strict=True)]
    assert not refined
