"""The law of a million draws, and tests that would notice another law.

There is no seed, so every test says how often it errs. Kolmogorov–Smirnov: a batch of n = 1e6 votes against a law when
its distance D exceeds 2.225e-3, which the right law does with probability 1e-4 (2 exp(-2nD²)); seven batches vote.

    right law called wrong   35 (1e-4)⁴ = 3e-15
    wrong law called right   where the laws differ most the empirical cdf is normal with deviation at most 5e-4, so that
                             a batch misses with these probabilities, and four of seven must:
      shift ±0.01            Gaussian 2.1e-4, Laplace 1.7e-8, Gumbel 1.2e-3, Exponential 0       -> at most 7e-11
      scale 1.02             Gaussian 2e-14, Laplace 7e-5, Gumbel 3e-15, Exponential 2e-27       -> at most 1e-15

One batch alone, cut at 1e-6 (2.69e-3), would miss a Gaussian's shift once in 209 and a Gumbel's once in 50.
(The logistic law's deviation is 1.8 scales: its shift is 0.02.) Chi-square tests are cut at 1e-12: 80 tests, 8e-11.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from dosimeter.core.density import Density
from dosimeter.core.noise import Gaussian, Gumbel, Laplace, LogisticNoise
from dosimeter.noise_addition import add_noise, grid_of
from tests.noise_addition.forged import NOISES

N = 1_000_000
CUT = np.sqrt(-np.log(1e-4 / 2) / (2 * N))
CENTRES = [0.0, 0.25, -0.25, 1.0, np.nextafter(1.0, 0), 0.1, -1 / 3, 1e-9, 2.0**-17, 1234.5]


def distance(ordered: np.ndarray, law: Density, shift: float = 0.0) -> float:
    """Kolmogorov's D of the ordered draws against the law moved by the shift."""
    F, n = law.cdf(ordered - shift), len(ordered)
    k = np.arange(n + 1) / n
    return float(max((k[1:] - F).max(), (F - k[:-1]).max()))


@pytest.mark.parametrize("noise", NOISES)
def test_the_law_is_accepted_and_its_neighbours_are_not(noise: type) -> None:
    law, shift = noise(0.7), 0.7 * (0.02 if noise is LogisticNoise else 0.01)
    votes = np.zeros(4, int)
    for _ in range(7):
        b = np.sort(add_noise(np.full(N, 0.3), law) - 0.3)
        others = [distance(b, law.with_scale(0.7 * 1.02)), distance(b, law, shift), distance(b, law, -shift)]
        votes += np.array([distance(b, law), *others]) > CUT
    assert votes[0] <= 3
    assert (votes[1:] >= 4).all()


def p_of_residues(k: np.ndarray) -> float:
    """Least p of the chi-square tests that k mod 2, 4, 8, 16 are uniform."""
    counts = np.bincount((k.astype(np.int64) % 16), minlength=16)
    tests = [counts.reshape(16 // m, m).sum(axis=0) for m in (2, 4, 8, 16)]
    return min(float(special.chdtrc(len(c) - 1, ((c - c.mean()) ** 2).sum() / c.mean())) for c in tests)


@pytest.mark.parametrize("law", [Gaussian(0.1), Laplace(0.1)], ids=repr)
def test_the_low_bits_of_a_million_outputs_are_uniform_around_every_centre(law: Density) -> None:
    for centre in CENTRES:
        k = add_noise(np.full(N, centre), law) / grid_of(law)
        assert np.array_equal(k, np.rint(k))
        assert p_of_residues(k) > 1e-12


def test_the_low_bits_of_noise_that_was_rounded_twice_are_not() -> None:
    """The check can fail: values first rounded to two steps keep even numbers a little more often."""
    g = grid_of(Gaussian(0.1))
    b = np.random.default_rng(1).normal(0, 0.1, N)
    assert p_of_residues(np.rint(b / g)) > 1e-12
    assert p_of_residues(2 * np.rint(b / (2 * g)) + (np.arange(N) % 100 == 0)) < 1e-12


def test_the_tail_of_a_million_draws_is_there() -> None:
    """Beyond 4 deviations 63.3 are due, beyond 9 scales of a Gumbel 123.4 on the right, and none on its left."""
    far = int((np.abs(add_noise(np.zeros(N), Gaussian(1.0))) > 4).sum())
    assert 15 < far < 140  # Poisson: 1e-13 and 1e-16
    right = add_noise(np.zeros(N), Gumbel(1.0))
    assert int((right > 9).sum()) in range(50, 230)  # 123.4 are due: 1e-13, 1e-18
    assert right.min() > -4.5  # exp(-exp(4.5)) is 1e-39


def test_opendp_draws_the_same_law_on_the_same_grid() -> None:
    """Two-sample Kolmogorov–Smirnov, cut at 1e-10: 2e4 of OpenDP's exact discrete draws against 1e6 of ours.

    At these sizes it would notice a scale error of about 15 % with certainty: an oracle for gross errors.
    """
    dp = pytest.importorskip("opendp.prelude", reason="OpenDP is not installed")
    dp.enable_features("contrib")
    m, scale = 20_000, 2.0**-4
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=m)
    for make, metric, law in (
        (dp.m.make_gaussian, dp.l2_distance(T=float), Gaussian(scale)),
        (dp.m.make_laplace, dp.l1_distance(T=float), Laplace(scale)),
    ):
        theirs = np.array(make(space, metric, scale=scale, k=-20)([0.25] * m))
        ours = add_noise(np.full(N, 0.25), law)
        assert grid_of(law) == 2.0**-20
        assert np.array_equal(theirs * 2.0**20, np.rint(theirs * 2.0**20))
        assert stats.ks_2samp(theirs, ours, method="asymp").pvalue > 1e-10
