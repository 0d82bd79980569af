"""The output has the shape of the input, every entry is on the grid, and zeros have no sign."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Exponential, Gaussian, Laplace
from dosimeter.noise_addition import add_noise, grid_of, simulate
from tests.noise_addition.forged import NOISES


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (4, 5), (2, 3, 4)])
def test_the_shape_is_kept_and_the_values_are_not_changed(shape: tuple[int, ...]) -> None:
    values = np.full(shape, 0.5)
    released = add_noise(values, Gaussian(0.1))
    assert released.shape == shape
    assert released.dtype == np.float64
    assert (values == 0.5).all()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scale", [1e-150, 0.3, 7.0, 1e150])
@pytest.mark.parametrize("shift", [0.0, 0.1, -1e5])
def test_every_entry_is_a_whole_number_of_steps(noise: type, scale: float, shift: float) -> None:
    law = noise(scale)
    g = grid_of(law)
    steps = add_noise(np.full(10_000, shift * scale), law) / g
    assert np.array_equal(steps, np.rint(steps))
    assert len(np.unique(steps)) > 5_000


@pytest.mark.parametrize("grid", [2.0**-30, 0.25, 1.0, 64.0])
def test_a_grid_passed_by_the_caller_is_used_coarse_or_fine(grid: float) -> None:
    steps = add_noise(np.linspace(-5, 5, 2_000), Gaussian(1.0), grid=grid) / grid
    assert np.array_equal(steps, np.rint(steps))


def test_a_zero_has_no_sign() -> None:
    """-0.0 and 0.0, and noise of either sign, must look the same."""
    for value in (0.0, -0.0, 1e-30, -1e-30):
        released = add_noise(np.full(100, value), Gaussian(1.0), grid=64.0)  # every entry rounds to zero
        assert not released.any()
        assert not np.signbit(released).any()


def test_one_sided_noise_never_falls_below_the_value_by_more_than_half_a_step() -> None:
    law = Exponential(1.0)
    assert add_noise(np.full(100_000, 0.3), law).min() >= 0.3 - grid_of(law) / 2


def test_large_values_keep_their_noise() -> None:
    """At 2^44 steps float64 addition would round the noise to 2^-8 of a step; the split does not."""
    centre = 2.0**44 * grid_of(Gaussian(1.0))
    around = add_noise(np.full(100_000, centre), Gaussian(1.0)) - centre
    assert abs(around.std() - 1) < 0.03  # 13 deviations of a standard deviation
    assert len(np.unique(around)) > 50_000


def test_correlated_noise_has_the_covariance_and_many_rows_at_once() -> None:
    """Deviations of 2e5 sample covariances are below 0.4 %; 8 of them would be seen once in 1e14 runs."""
    Sigma = np.array([[4.0, 1.9, 0.0], [1.9, 1.0, -0.1], [0.0, -0.1, 0.25]])
    n = 200_000
    b = add_noise(np.tile([1.0, -2.0, 3.0], (n, 1)), CorrelatedGaussian(Sigma)) - [1.0, -2.0, 3.0]
    deviation = np.sqrt((Sigma**2 + np.outer(np.diag(Sigma), np.diag(Sigma))) / n)
    assert (np.abs(b.T @ b / n - Sigma) < 8 * deviation).all()
    assert add_noise([1.0, -2.0, 3.0], CorrelatedGaussian(Sigma)).shape == (3,)


@pytest.mark.parametrize("shape", [(), (2,), (3, 2)])
def test_correlated_noise_of_another_dimension_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(Refusal, match="3 entries"):
        add_noise(np.zeros(shape), CorrelatedGaussian(np.eye(3)))


def test_deviations_too_far_apart_for_one_grid_are_refused_until_a_coarser_one_is_given() -> None:
    noise = CorrelatedGaussian(np.diag([1.0, 1e20]))
    with pytest.raises(Refusal, match="coarser grid"):
        add_noise(np.zeros(2), noise)
    assert add_noise(np.zeros(2), noise, grid=2.0**-8).shape == (2,)


def test_a_simulation_is_repeatable_and_on_the_same_grid() -> None:
    once, again, other = (simulate(np.zeros(1000), Laplace(0.3), np.random.default_rng(s)) for s in (1, 1, 2))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)
    steps = once / grid_of(Laplace(0.3))
    assert np.array_equal(steps, np.rint(steps))


@pytest.mark.parametrize("rng", [1, None, np.random.RandomState(1)])
def test_a_simulation_takes_a_generator_and_no_seed(rng: object) -> None:
    with pytest.raises(Refusal, match="Generator"):
        simulate([0.0], Gaussian(1.0), rng)  # type: ignore[arg-type]


@pytest.mark.parametrize("g", [2.0**-6, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("part", [0.0, 0.3, 0.5])
def test_rounding_after_the_noise_never_adds_information(g: float, part: float) -> None:
    """Σ p'ₖ²/pₖ over the cells of the grid, by the Gaussian's own cdf: at most 1/σ², and 1 - g²/12 for small steps."""
    law = Gaussian(1.0)
    edges = np.arange(-np.ceil(9 / g), np.ceil(9 / g) + 1) * g + (0.5 - part) * g
    p, slope = np.diff(law.cdf(edges)), np.diff(law.pdf(edges))
    information = (slope[p > 0] ** 2 / p[p > 0]).sum()
    assert information <= 1 + 1e-12
    if g <= 0.5:
        assert information == pytest.approx(1 - g**2 / 12, abs=g**3)
