"""What the laws do not say: refusals, plain words, the exact release, correlated noise, the import."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import (
    NOISES,
    Density,
    Exponential,
    Gaussian,
    Gumbel,
    Laplace,
    LogisticNoise,
    Noise,
    NoNoise,
    no_noise,
)

every_class = pytest.mark.parametrize("law", NOISES.values(), ids=NOISES)


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@every_class
@pytest.mark.parametrize("scale", [0, 0.0, -1.0, float("nan"), float("inf"), 10**400])
def test_a_scale_that_is_not_positive_and_finite_is_refused(law: type[Density], scale: float) -> None:
    with pytest.raises(Refusal, match=r"finite and > 0; use no_noise for an exact release"):
        law(scale)  # type: ignore[call-arg]


@every_class
@pytest.mark.parametrize("scale", [True, np.True_, "0.05", None, 1j, np.array([1.0]), [1.0]])
def test_a_scale_that_is_not_a_real_number_is_refused(law: type[Density], scale: object) -> None:
    with pytest.raises(Refusal, match="must be a real number"):
        law(scale)  # type: ignore[call-arg]


@pytest.mark.parametrize("scale", [1e-151, 5e-324, 1e151])
def test_a_scale_whose_square_is_no_ordinary_number_is_refused(scale: float) -> None:
    with pytest.raises(Refusal, match="release in another unit"):
        Gaussian(scale)


def test_a_refusal_names_the_value() -> None:
    with pytest.raises(Refusal, match=r"Laplace\(b=-2\)"):
        Laplace(-2)
    with pytest.raises(Refusal, match=r"Gaussian\(sigma=True\)"):
        Gaussian(True)
    with pytest.raises(Refusal, match=r"Gumbel\(s=0\)"):
        Gumbel(1.0).with_scale(0)


@pytest.mark.parametrize("scale", [2, np.float32(2), np.int64(2), Fraction(2), 2.0])
def test_every_kind_of_real_number_becomes_a_float(scale: float) -> None:
    law = Gaussian(scale)
    assert type(law.sigma) is float
    assert law == Gaussian(2.0)
    assert hash(law) == hash(Gaussian(2.0))


def test_a_noise_says_its_law_plainly() -> None:
    laws = (Gaussian(0.05), Laplace(2), Gumbel(1e-3), Exponential(3), LogisticNoise(1), no_noise)
    assert [str(law) for law in laws] == [
        "Gaussian(sigma=0.05)",
        "Laplace(b=2.0)",
        "Gumbel(s=0.001)",
        "Exponential(s=3.0)",
        "LogisticNoise(s=1.0)",
        "no_noise",
    ]
    assert repr(CorrelatedGaussian(np.eye(3))) == "CorrelatedGaussian(covariance 3 x 3, trace=3)"


def test_laws_with_the_same_scale_are_not_the_same_noise() -> None:
    assert len({Gaussian(1.0), Laplace(1.0), Gumbel(1.0), Exponential(1.0), LogisticNoise(1.0), no_noise}) == 6


@every_class
def test_a_noise_is_frozen_and_survives_a_pickle(law: type[Density]) -> None:
    noise = law(0.5)  # type: ignore[call-arg]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(noise, dataclasses.fields(noise)[0].name, 1.0)
    assert pickle.loads(pickle.dumps(noise)) == noise  # noqa: S301
    assert isinstance(noise, Noise)


@pytest.mark.parametrize("u", [-1e-9, 1.0000001, float("nan")])
def test_a_quantile_outside_the_unit_interval_is_refused(u: float) -> None:
    with pytest.raises(Refusal, match=r"u must lie in \[0, 1\]"):
        Gaussian(1.0).quantile([0.5, u])


@every_class
def test_shapes_come_back_as_they_went_in(law: type[Density]) -> None:
    noise = law(0.5)  # type: ignore[call-arg]
    for name in ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "score", "quantile"):
        f = getattr(noise, name)
        assert isinstance(f(0.3), float), name
        assert f([[0.1, 0.2, 0.3]]).shape == (1, 3), name
        assert f(np.zeros((0, 2))).shape == (0, 2), name
    assert noise.draw(rng(), (4, 2)).shape == (4, 2)
    assert noise.draw(rng(), 4).shape == (4,)
    assert np.shape(noise.draw(rng())) == ()


def test_arguments_are_left_as_they_were() -> None:
    x, J = np.array([-1.0, 2.0]), np.eye(2)
    for law in NOISES.values():
        law(0.5).pdf(x)  # type: ignore[call-arg]
    Gaussian(0.5).whiten(J)
    assert x.tolist() == [-1.0, 2.0]
    assert J.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_randomness_must_be_handed_in() -> None:
    for noise in (Gaussian(1.0), CorrelatedGaussian(np.eye(2))):
        with pytest.raises(Refusal, match="numpy Generator"):
            noise.draw(7, 3)  # type: ignore[arg-type]


def test_a_jacobian_with_a_hole_is_refused() -> None:
    with pytest.raises(Refusal, match=r"nan at \(1, 0\)"):
        Gaussian(1.0).whiten([[1.0, 2.0], [float("nan"), 0.0]])


def test_the_least_of_twenty_one_sided_releases_beats_the_bound_that_is_refused() -> None:
    """Its variance is 0.0025 where Cramér-Rao would claim at least 0.05, which a Gaussian mean obeys."""
    releases = Exponential(1.0).draw(rng(), (100_000, 20))
    estimates = releases.min(axis=1) - 1 / 20
    assert abs(estimates.mean()) < 5 * 0.05 / np.sqrt(100_000)
    assert estimates.var() == pytest.approx(0.0025, rel=0.05)
    means = Gaussian(1.0).draw(rng(), (100_000, 20)).mean(axis=1)
    assert means.var() == pytest.approx(1 / (20 * Gaussian(1.0).fisher_information), rel=0.05)


def test_the_refusal_of_the_exponential_says_what_quadrature_would_give() -> None:
    with pytest.raises(CannotMeasure, match=r"jumps at 0.*mean -0\.5.*eq\. 6.*would give 0\.25"):
        _ = Exponential(2.0).fisher_information


# ---------------------------------------------------------------- the exact release


def test_there_is_one_exact_release_however_it_travels() -> None:
    assert copy.deepcopy(no_noise) is no_noise
    assert pickle.loads(pickle.dumps(no_noise)) is no_noise  # noqa: S301
    assert NoNoise() == no_noise
    assert isinstance(no_noise, Noise)


def test_an_exact_release_has_unbounded_information() -> None:
    assert no_noise.fisher_information == float("inf")
    assert (no_noise.scale, no_noise.variance) == (0.0, 0.0)
    assert no_noise.draw(rng(), (2, 2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(CannotMeasure, match="unbounded"):
        no_noise.whiten(np.eye(2))


# ---------------------------------------------------------------- correlated noise


def covariance(p: int) -> np.ndarray:
    A = rng().standard_normal((p, p))
    return A @ A.T + np.eye(p)


def test_whitened_correlated_noise_is_the_inverse_covariance_seen_through_the_jacobian() -> None:
    Sigma, J = covariance(4), rng().standard_normal((4, 3))
    W = CorrelatedGaussian(Sigma).whiten(J)
    np.testing.assert_allclose(W.T @ W, J.T @ np.linalg.inv(Sigma) @ J, rtol=1e-12)


def test_a_stack_of_jacobians_is_whitened_one_by_one() -> None:
    noise, J = CorrelatedGaussian(covariance(4)), rng().standard_normal((5, 2, 4, 3))
    W = noise.whiten(J)
    assert W.shape == J.shape
    np.testing.assert_allclose(W[3, 1], noise.whiten(J[3, 1]), rtol=1e-13)
    np.testing.assert_allclose(noise.whiten(J[0, 0, :, 2]), W[0, 0, :, 2], rtol=1e-13)


def test_a_diagonal_covariance_is_independent_noise() -> None:
    J = rng().standard_normal((3, 2))
    both = CorrelatedGaussian(0.05**2 * np.eye(3)).whiten(J), Gaussian(0.05).whiten(J)
    np.testing.assert_allclose(*both, rtol=1e-13)


def test_correlated_draws_have_the_covariance() -> None:
    Sigma = covariance(3)
    sample = CorrelatedGaussian(Sigma).draw(rng(), 200_000)
    assert sample.shape == (200_000, 3)
    # standard error of a covariance is at most √2 λ_max/√n, 0.0032 λ_max; twice the noise would be seen
    assert np.abs(np.cov(sample.T) - Sigma).max() < 5 * np.sqrt(2 / 200_000) * np.linalg.norm(Sigma, 2)


def test_correlated_noise_is_equal_by_value_and_cannot_be_changed() -> None:
    Sigma = covariance(3)
    noise = CorrelatedGaussian(Sigma)
    assert noise == CorrelatedGaussian(Sigma.tolist())
    assert hash(noise) == hash(CorrelatedGaussian(Sigma.copy()))
    assert hash(CorrelatedGaussian([[1, -0.0], [0.0, 1]])) == hash(CorrelatedGaussian(np.eye(2)))
    assert noise != CorrelatedGaussian(2 * Sigma)
    assert noise != Gaussian(1.0)
    Sigma[0, 0] = 99.0
    assert noise.covariance[0, 0] != 99.0
    with pytest.raises(ValueError, match="read-only"):
        noise.covariance[0, 0] = 1.0
    returned = pickle.loads(pickle.dumps(noise))  # noqa: S301
    assert returned == noise
    assert not returned.covariance.flags.writeable
    assert isinstance(noise, Noise)


@pytest.mark.parametrize(
    ("covariance", "why"),
    [
        (1.0, r"must be \(p, p\)"),
        (np.ones((2, 3)), r"must be \(p, p\), not \(2, 3\)"),
        (np.zeros((0, 0)), r"must be \(p, p\)"),
        ([[1.0, float("nan")], [0.0, 1.0]], r"nan at \(0, 1\)"),
        ([[1.0, 0.5], [0.4, 1.0]], r"not symmetric, 0\.5 at \(0, 1\)"),
        ([[1.0, 2.0], [2.0, 1.0]], "not positive definite"),
        ([[1.0, 0.0], [0.0, 0.0]], "not positive definite"),
        ([[1.0, 1.0], [1.0, 1.0]], "not positive definite"),
        ([[1.0, 1.0 - 1e-16], [1.0 - 1e-16, 1.0]], "not positive definite to working precision"),
    ],
)
def test_a_matrix_that_is_no_covariance_is_refused(covariance: object, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        CorrelatedGaussian(covariance)  # type: ignore[arg-type]


def test_a_jacobian_of_another_release_is_refused() -> None:
    with pytest.raises(Refusal, match=r"J must be \(3,\) or \(..., 3, k\), not \(2, 3\)"):
        CorrelatedGaussian(np.eye(3)).whiten(np.ones((2, 3)))


def test_the_import_brings_numpy_and_the_special_functions_only() -> None:
    heavy = ("scipy.stats", "scipy.linalg", "scipy.optimize", "pandas", "sklearn")
    # Older versions of scipy.special bring scipy.linalg themselves.
    program = (
        "import sys, scipy.special; theirs = set(sys.modules); import dosimeter.core.noise; "
        f"print([m for m in {heavy} if m in sys.modules and m not in theirs])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
