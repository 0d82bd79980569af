"""The grid depends on the public scale alone, and what does not fit on it is refused without being shown."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian, Laplace, no_noise
from dosimeter.noise_addition import add_noise, grid_of


@given(st.floats(min_value=1e-150, max_value=1e150))
def test_the_step_is_a_power_of_two_between_16_and_17_bits_below_the_scale(scale: float) -> None:
    g = grid_of(Gaussian(scale))
    assert math.frexp(g)[0] == 0.5
    assert 2.0**16 <= scale / g < 2.0**17
    assert grid_of(Laplace(scale)) == g


def test_correlated_noise_takes_its_least_deviation() -> None:
    assert grid_of(CorrelatedGaussian([[4.0, 0.1], [0.1, 0.09]])) == grid_of(Gaussian(0.3))


def test_an_exact_release_has_nothing_to_draw() -> None:
    for call in (lambda: grid_of(no_noise), lambda: add_noise([1.0], no_noise)):
        with pytest.raises(Refusal, match="nothing to draw"):
            call()


def test_what_is_not_a_noise_is_refused() -> None:
    with pytest.raises(Refusal, match="Gaussian"):
        grid_of(0.1)


@pytest.mark.parametrize("grid", [0.0, -0.5, 0.3, math.nan, math.inf, True, "0.5", 2.0**-60, 2.0**60])
def test_a_grid_that_is_no_power_of_two_near_the_scale_is_refused(grid: object) -> None:
    with pytest.raises(Refusal, match="grid="):
        add_noise([1.0], Gaussian(1.0), grid=grid)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_refused_with_its_place(bad: float) -> None:
    with pytest.raises(Refusal, match=r"values\[1, 0\]"):
        add_noise([[0.0], [bad]], Gaussian(1.0))


@pytest.mark.parametrize(
    "values",
    [["a"], [None], [1j], [True], np.array([1.0], np.longdouble), [2**53 + 1], [-(2**63)], np.array(["2020"], "M8")],
)
def test_what_float64_cannot_hold_is_refused(values: object) -> None:
    with pytest.raises(Refusal, match="float64"):
        add_noise(values, Gaussian(1.0))  # type: ignore[arg-type]


def test_a_value_too_large_for_the_grid_is_refused_and_not_shown() -> None:
    limit = 2.0**45 * grid_of(Gaussian(1.0))
    assert np.isfinite(add_noise([np.nextafter(limit, 0)], Gaussian(1.0))).all()
    with pytest.raises(Refusal, match=r"values\[1\]") as refused:
        add_noise([0.0, -limit], Gaussian(1.0))
    assert str(limit) not in str(refused.value)
    with pytest.raises(Refusal, match=r"2\^45"):  # w/g overflows
        add_noise([1e308], Gaussian(1e-150))


def test_small_types_are_promoted_without_change() -> None:
    assert add_noise(np.float32([0.1]), Gaussian(1e-6)).dtype == np.float64
    assert abs(add_noise(np.float32([0.1]), Gaussian(1e-9))[0] - float(np.float32(0.1))) < 3e-8
    assert abs(add_noise([3], Gaussian(1e-8))[0] - 3) < 3e-7


def test_a_density_without_an_inverse_cdf_has_no_grid() -> None:
    """A subclass is another distribution: it cannot be drawn, and is refused before anything is scaled to it."""

    class Third(Gaussian):
        pass

    with pytest.raises(Refusal, match="cannot be drawn for a release: use Gaussian"):
        grid_of(Third(1.0))
