"""Every law of a noise, on every noise, at scales from 1e-3 to 1e3.

Oracles: quadrature, 50 digits, finite differences.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad

from dosimeter.core.errors import CannotMeasure
from dosimeter.core.noise import NOISES, Density, Exponential, Gaussian, Gumbel, Laplace, LogisticNoise

SCALES = (1e-3, 0.05, 1.0, 40.0, 1e3)


@dataclass(frozen=True)
class Row:
    """What the laws below need to know of one density, at scale one, typed apart from the package."""

    definition: Callable[[mp.mpf], mp.mpf]
    """The density in multiple precision: the only formula that is typed here."""
    left: float
    right: float
    """Between left and right lies all but 1e-16 of the law."""
    far: tuple[tuple[float, int, float], ...]
    """Points in the tails, the side of the small mass, and the local decay length."""


EXPONENTIAL_TAIL = ((2, 1, 1), (40, 1, 1), (1000, 1, 1))
TWO_EXPONENTIAL_TAILS = ((-1000, -1, 1), (-40, -1, 1), (-2, -1, 1), *EXPONENTIAL_TAIL)
ROWS: dict[type[Density], Row] = {
    Gaussian: Row(
        lambda z: mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi),
        -9.0,
        9.0,
        ((-200, -1, 1 / 200), (-40, -1, 1 / 40), (-9, -1, 0.1), (9, 1, 0.1), (40, 1, 1 / 40), (200, 1, 1 / 200)),
    ),
    Laplace: Row(lambda z: mp.exp(-abs(z)) / 2, -40.0, 40.0, TWO_EXPONENTIAL_TAILS),
    Gumbel: Row(
        lambda z: mp.exp(-z - mp.exp(-z)),
        -4.0,
        40.0,
        ((-6, -1, math.exp(-6)), (-3, -1, math.exp(-3)), (2, 1, 1), (40, 1, 1), (745, 1, 1), (1000, 1, 1)),
    ),
    Exponential: Row(lambda z: mp.exp(-z) if z >= 0 else mp.mpf(0), 0.0, 40.0, EXPONENTIAL_TAIL),
    LogisticNoise: Row(lambda z: mp.exp(-abs(z)) / (1 + mp.exp(-abs(z))) ** 2, -40.0, 40.0, TWO_EXPONENTIAL_TAILS),
}
"""The row of each law: a new one needs one row here, and every law below then runs on it."""

UNITS: tuple[Density, ...] = tuple(law(1.0) for law in NOISES.values())
LAWS = tuple(law.with_scale(scale) for law in UNITS for scale in SCALES)
REGULAR = tuple(law for law in LAWS if law.regular)

every_law = pytest.mark.parametrize("law", LAWS, ids=str)
every_unit = pytest.mark.parametrize("law", UNITS, ids=str)
every_regular_law = pytest.mark.parametrize("law", REGULAR, ids=str)


def test_every_noise_has_a_row() -> None:
    missing = [name for name, law in NOISES.items() if law not in ROWS]
    assert not missing, f"add a row to ROWS for {', '.join(missing)}"


def expectation(law: Density, f: Callable[[float], float]) -> float:
    """E f(noise) by quadrature over the support, split at the kink."""
    s = law.scale
    ends = sorted({ROWS[type(law)].left * s, 0.0, 3 * s, ROWS[type(law)].right * s})
    pieces = itertools.pairwise(ends)
    return sum(quad(lambda x: f(x) * float(law.pdf(x)), a, b, epsabs=0, epsrel=1e-11, limit=200)[0] for a, b in pieces)


def grid(law: Density, n: int = 41) -> np.ndarray:
    """Points over the bulk of the law, none of them at the kink."""
    return law.quantile(np.linspace(0.003, 0.998, n))


@every_law
def test_the_density_integrates_to_one(law: Density) -> None:
    assert expectation(law, lambda x: 1.0) == pytest.approx(1.0, abs=1e-10)


@every_law
def test_the_density_is_the_defined_one(law: Density) -> None:
    x = grid(law)
    expected = [float(ROWS[type(law)].definition(mp.mpf(v) / mp.mpf(law.scale)) / mp.mpf(law.scale)) for v in x]
    np.testing.assert_allclose(law.pdf(x), expected, rtol=1e-13)
    np.testing.assert_allclose(law.logpdf(x), np.log(expected), atol=1e-12)


@every_law
def test_the_cdf_is_the_integral_of_the_density(law: Density) -> None:
    x = grid(law, 12)
    for a, b in itertools.pairwise(x):
        area = quad(lambda t: float(law.pdf(t)), a, b, points=[0.0] if a < 0 < b else None, epsrel=1e-12)[0]
        assert law.cdf(b) - law.cdf(a) == pytest.approx(area, abs=1e-12)


@every_law
def test_the_density_is_the_slope_of_the_cdf(law: Density) -> None:
    x, h = grid(law), 1e-5 * law.scale
    slope = (law.cdf(x + h) - law.cdf(x - h)) / (2 * h)
    np.testing.assert_allclose(slope, law.pdf(x), rtol=1e-6)


@every_law
def test_cdf_and_sf_sum_to_one_and_agree_with_their_logarithms(law: Density) -> None:
    x = grid(law)
    np.testing.assert_allclose(law.cdf(x) + law.sf(x), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.exp(law.logcdf(x)), law.cdf(x), rtol=1e-12)
    np.testing.assert_allclose(np.exp(law.logsf(x)), law.sf(x), rtol=1e-12)


def tail(density: Callable[[mp.mpf], mp.mpf], z: mp.mpf, side: int, decay: mp.mpf) -> mp.mpf:
    """Mass beyond z on one side in 50 digits, by quadrature over pieces of the local decay length."""
    steps = [0, 1, 3, 6, 12, 24, 48, 96, 180]  # exp(-180) is 1e-78 of what lies at z
    ends = [z + side * k * decay for k in steps]
    height = density(z)  # taken out, because mp.quad stops at an absolute error
    return height * side * mp.quad(lambda x: density(x) / height, ends)


@every_unit
def test_the_logarithms_keep_their_digits_far_in_the_tails(law: Density) -> None:
    density = ROWS[type(law)].definition
    with mp.workdps(50):
        for z, side, decay in ROWS[type(law)].far:
            mass = tail(density, mp.mpf(z), side, mp.mpf(decay))
            small, large = float(mp.log(mass)), float(mp.log1p(-mass))
            got = (law.logcdf(z), law.logsf(z)) if side < 0 else (law.logsf(z), law.logcdf(z))
            assert float(got[0]) == pytest.approx(small, rel=1e-14), f"the small side at {z}"
            # where the small mass is below the least float64 the logarithm of the rest is 0
            assert float(got[1]) == pytest.approx(large, rel=1e-12, abs=1e-307), f"the large side at {z}"


def test_an_exponential_keeps_its_digits_next_to_its_jump() -> None:
    with mp.workdps(50):
        for z in (1e-300, 1e-20, 1e-5, 0.5, 0.6931, 0.6932, 0.7):
            assert float(Exponential(1.0).logcdf(z)) == pytest.approx(float(mp.log(-mp.expm1(-mp.mpf(z)))), rel=1e-14)


@every_law
def test_at_the_ends_of_the_line_everything_has_a_limit_and_nothing_is_nan(law: Density) -> None:
    ends = np.array([-np.inf, np.inf])
    assert law.pdf(ends).tolist() == [0.0, 0.0]
    assert law.logpdf(ends).tolist() == [-np.inf, -np.inf]
    assert law.cdf(ends).tolist() == [0.0, 1.0]
    assert law.sf(ends).tolist() == [1.0, 0.0]
    assert law.logcdf(ends).tolist() == [-np.inf, 0.0]
    assert law.logsf(ends).tolist() == [0.0, -np.inf]
    assert not np.isnan(law.logsf(np.array([-1e300, -800.0, 800.0, 1e300]) * law.scale)).any()


@every_law
def test_the_quantile_inverts_the_cdf(law: Density) -> None:
    u = np.array([1e-300, 1e-12, 1e-3, 0.25, 0.4999, 0.5, 0.5001, 0.75, 0.999, 1 - 1e-9])
    np.testing.assert_allclose(law.cdf(law.quantile(u)), u, rtol=5e-12)
    x = grid(law)
    np.testing.assert_allclose(law.quantile(law.cdf(x)), x, rtol=1e-10, atol=1e-10 * law.scale)
    assert law.cdf(law.quantile(np.array([0.0, 1.0]))).tolist() == [0.0, 1.0]


@every_law
def test_the_score_is_the_slope_of_the_log_density(law: Density) -> None:
    x, h = grid(law), 1e-5 * law.scale
    slope = (law.logpdf(x + h) - law.logpdf(x - h)) / (2 * h)
    np.testing.assert_allclose(law.score(x), slope, rtol=1e-6, atol=1e-6 / law.scale)


@every_law
def test_a_law_is_symmetric_where_it_says_so(law: Density) -> None:
    x = np.linspace(0.01, 8.0, 50) * law.scale
    assert law.symmetric == bool(np.allclose(law.pdf(x), law.pdf(-x), rtol=1e-13, atol=0.0))
    if law.symmetric:
        assert expectation(law, lambda x: x) == pytest.approx(0.0, abs=1e-10 * law.scale)


@every_regular_law
def test_the_score_has_mean_zero(law: Density) -> None:
    """Eq. 6 of [Hannun21]."""
    assert expectation(law, lambda x: float(law.score(x))) * law.scale == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize("scale", SCALES)
def test_the_one_sided_exponential_breaks_eq_6_and_its_information_is_refused(scale: float) -> None:
    law = Exponential(scale)
    assert not law.regular
    assert expectation(law, lambda x: float(law.score(x))) == pytest.approx(-1 / scale, rel=1e-10)
    assert expectation(law, lambda x: float(law.score(x)) ** 2) == pytest.approx(1 / scale**2, rel=1e-10)
    with pytest.raises(CannotMeasure, match=r"eq\. 6"):
        _ = law.fisher_information
    with pytest.raises(CannotMeasure, match=r"eq\. 6"):
        law.whiten(np.eye(2))


@every_regular_law
def test_the_fisher_information_is_the_mean_square_of_the_score(law: Density) -> None:
    measured = expectation(law, lambda x: float(law.score(x)) ** 2)
    assert law.fisher_information == pytest.approx(measured, rel=1e-9)


def hellinger(law: Density, shift: float) -> float:
    """∫ (√p(x) - √p(x - shift))² dx, which looks at no derivative."""

    def gap(x: float) -> float:
        return float(np.sqrt(law.pdf(x)) - np.sqrt(law.pdf(x - shift))) ** 2

    s = law.scale
    # √p decays half as fast as p
    ends = sorted({2 * ROWS[type(law)].left * s, 0.0, shift, 3 * s, 2 * ROWS[type(law)].right * s})
    return sum(quad(gap, a, b, epsabs=0, epsrel=1e-8, limit=200)[0] for a, b in itertools.pairwise(ends))


@every_regular_law
def test_the_fisher_information_is_the_curvature_of_the_hellinger_distance(law: Density) -> None:
    """4 H²(p, p shifted by h) / h² -> E[(log p)'²]: the distance of shifted copies, without a score."""
    h = 1e-3 * law.scale
    assert 4 * hellinger(law, h) / h**2 == pytest.approx(law.fisher_information, rel=2e-3)


def test_the_hellinger_distance_of_a_jump_grows_without_limit() -> None:
    """Of order h and not h²: why the exponential has no Fisher information whatever its score says."""
    law = Exponential(1.0)
    coarse, fine = (4 * hellinger(law, h) / h**2 for h in (1e-2, 1e-3))
    assert coarse > 300
    assert fine == pytest.approx(10 * coarse, rel=0.01)


@every_law
def test_the_variance_is_the_mean_square_about_the_mean(law: Density) -> None:
    mean = expectation(law, lambda x: x)
    measured = expectation(law, lambda x: (x - mean) ** 2)
    assert law.variance == pytest.approx(measured, rel=1e-9)


@every_regular_law
def test_no_law_beats_the_bound_of_its_information(law: Density) -> None:
    """Cramér-Rao for the location: variance x information >= 1, with equality for the Gaussian alone."""
    product = law.variance * law.fisher_information
    assert product >= 1 - 1e-12
    assert (product == pytest.approx(1.0)) == isinstance(law, Gaussian)


@dataclass(frozen=True)
class Cauchy(Density):
    """A law from outside, which is not log-concave: what the check below must find out."""

    s: float

    log_concave = False
    _parameter = "s"
    _unit_variance = math.inf
    _unit_information = 0.5

    def _logpdf(self, z: np.ndarray) -> np.ndarray:
        return -np.log(math.pi) - np.log1p(z * z)

    def _cdf(self, z: np.ndarray) -> np.ndarray:
        return 0.5 + np.arctan(z) / math.pi

    def _logcdf(self, z: np.ndarray) -> np.ndarray:
        return np.log(self._cdf(z))

    def _score(self, z: np.ndarray) -> np.ndarray:
        return -2 * z / (1 + z * z)

    def _quantile(self, u: np.ndarray) -> np.ndarray:
        return np.tan(math.pi * (u - 0.5))

    def _draw(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> np.ndarray:
        return rng.standard_cauchy(size)


@pytest.mark.parametrize("law", [*LAWS, Cauchy(1.0)], ids=str)
def test_log_concavity_is_what_the_law_says(law: Density) -> None:
    """Second differences of log p over the support, at three step widths."""
    concave = True
    for step in (0.01, 0.1, 1.0):
        z = np.arange(max(-3.0, ROWS[type(law)].left if type(law) in ROWS else -3.0), 30.0, step)
        value = law.logpdf(z * law.scale)
        second = value[2:] - 2 * value[1:-1] + value[:-2]
        concave &= bool((second <= 1e-11).all())
    assert concave == law.log_concave


def test_a_law_from_outside_works_at_the_seam() -> None:
    law = Cauchy(2.0)
    measured = quad(lambda x: float(law.score(x)) ** 2 * float(law.pdf(x)), -math.inf, math.inf)[0]
    assert law.fisher_information == pytest.approx(measured, rel=1e-8)
    np.testing.assert_allclose(law.whiten(np.eye(2)), np.eye(2) * math.sqrt(measured), rtol=1e-8)


@every_law
def test_a_scale_stretches_the_unit_law(law: Density) -> None:
    unit, s = law.with_scale(1.0), law.scale
    x = grid(law)
    np.testing.assert_allclose(law.pdf(x), unit.pdf(x / s) / s, rtol=1e-13)
    np.testing.assert_allclose(law.cdf(x), unit.cdf(x / s), rtol=1e-13)
    np.testing.assert_allclose(law.score(x), unit.score(x / s) / s, rtol=1e-13)
    assert law.variance == pytest.approx(unit.variance * s**2)
    assert law.with_scale(1.0).with_scale(s) == law
    draws = [n.draw(np.random.default_rng(5), (3, 2)) for n in (law, unit)]
    np.testing.assert_allclose(draws[0], s * draws[1], rtol=1e-14)


@every_regular_law
def test_whitening_gives_the_square_root_of_the_information(law: Density) -> None:
    J = np.array([[1.0, 2.0], [0.0, -3.0], [4.0, 0.5]])
    W = law.whiten(J)
    per_value = expectation(law, lambda x: float(law.score(x)) ** 2)
    np.testing.assert_allclose(W.T @ W, per_value * np.array([[17.0, 4.0], [4.0, 13.25]]), rtol=1e-9)


# Kolmogorov-Smirnov at n = 2e5 with an error rate of 1e-3 per law (the seed is fixed, so it is decided once).
# P(D > d) <= 2 exp(-2 n d²), so a right sampler stays below 0.00436. The least visible of the wrong ones, the
# logistic law shifted by 0.03, lies at 0.0075: three standard deviations of D beyond.
N = 200_000
CRITICAL = math.sqrt(math.log(2 / 1e-3) / (2 * N))


def kolmogorov(law: Density, sample: np.ndarray) -> float:
    u = law.cdf(np.sort(sample))
    steps = np.arange(N + 1) / N
    return float(max((steps[1:] - u).max(), (u - steps[:-1]).max()))


@every_unit
def test_draws_follow_the_cdf_and_the_test_would_see_a_wrong_scale_or_a_shift(law: Density) -> None:
    law = law.with_scale(0.05)
    sample = law.draw(np.random.default_rng(20), N)
    assert kolmogorov(law, sample) < CRITICAL
    assert kolmogorov(law, sample * 1.05) > CRITICAL
    assert kolmogorov(law, sample / 1.05) > CRITICAL
    assert kolmogorov(law, sample + 0.03 * law.scale) > CRITICAL
    assert kolmogorov(law, sample - 0.03 * law.scale) > CRITICAL
