"""The grid: every released value is a whole number of steps g, a power of two fixed by the public scale alone."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.density import Array, Density
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import NoNoise
from dosimeter.noise_addition.inverse_cdf import inverse_cdf_of

# Sixteen bits below the scale: rounding adds variance g²/12, at most 2e-11 of the scale's square.
_BITS_BELOW = 16
# Values below 2^45 steps and noise below 2^40 steps: whole numbers of steps are exact in float64, with a margin.
_MOST_STEPS = 2.0**45
_MOST_STEPS_OF_NOISE = 2.0**40


def grid_of(noise: object) -> float:
    """g = 2^(⌊log₂ scale⌋ − 16), from the noise alone and never from the values.

    For `CorrelatedGaussian` the scale is the least standard deviation, √min Σᵢᵢ. If Σ was computed from the data, so
    is this g: pass a public one instead.

    Parameters
    ----------
    noise : Noise
        The law of the noise, with its scale.

    Returns
    -------
    float
        A power of two.

    Raises
    ------
    Refusal
        If the noise cannot be drawn.

    Examples
    --------
    >>> from dosimeter.core.noise import Gaussian
    >>> grid_of(Gaussian(1.0)) == 2.0**-16, grid_of(Gaussian(0.3)) == 2.0**-18
    (True, True)
    """
    return math.ldexp(1.0, math.frexp(least_scale(noise))[1] - 1 - _BITS_BELOW)


def least_scale(noise: object) -> float:
    """The scale of the noise, or the least standard deviation of correlated noise."""
    if isinstance(noise, NoNoise):
        raise Refusal("no_noise: nothing to draw; the values would be released exactly")
    if isinstance(noise, CorrelatedGaussian):
        return math.sqrt(float(np.diag(noise.covariance).min()))
    if isinstance(noise, Density):
        inverse_cdf_of(noise)  # refuse early what cannot be drawn
        return noise.scale
    raise Refusal(f"noise must be one of dosimeter's, such as Gaussian(0.1), not {noise!r}")


def resolve_grid(grid: Any, noise: object) -> float:
    """The step g: `grid` if it is a power of two that fits the noise, `grid_of(noise)` if it is None."""
    scale = least_scale(noise)
    if grid is None:
        return grid_of(noise)
    if isinstance(grid, bool) or not isinstance(grid, Real):
        raise Refusal(f"grid={grid!r}: must be a power of two such as {grid_of(noise)!r}, or None")
    g = float(grid)
    if not 0 < g < math.inf or math.frexp(g)[0] != 0.5:
        raise Refusal(f"grid={grid!r}: must be a power of two such as {grid_of(noise)!r}, or None")
    if not 1 / _MOST_STEPS_OF_NOISE <= g / scale <= _MOST_STEPS_OF_NOISE:
        raise Refusal(f"grid={grid!r}: must lie within 2^±40 of the scale {scale!r}; None gives {grid_of(noise)!r}")
    return g


def as_values(values: ArrayLike) -> Array:
    """The values as float64, any shape; refused if that would change one, or if one is not finite."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
        raise Refusal(f"values must be real numbers that float64 can hold, not {array.dtype}")
    if array.dtype.kind != "f" and array.size and max(abs(int(array.max())), abs(int(array.min()))) > 2**53:
        raise Refusal("values must be real numbers that float64 can hold; an integer above 2^53 is not: divide first")
    w = array.astype(np.float64)
    if not np.isfinite(w).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(w))[0])
        raise Refusal(f"values{list(place)} is {w[place]}; every value must be finite before noise is added")
    return w


def in_steps(w: Array, g: float) -> Array:
    """w/g, exact because g is a power of two; refused at 2^45 steps or more.

    The message names the position and not the value: a value without noise is never shown, not even on stderr.
    """
    with np.errstate(over="ignore", under="ignore"):  # an error below 2^-1022 steps is negligible
        steps: Array = w / g
    if steps.size and not np.abs(steps).max() < _MOST_STEPS:
        place = tuple(int(i) for i in np.argwhere(~(np.abs(steps) < _MOST_STEPS))[0])
        raise Refusal(
            f"values{list(place)} is 2^45 or more steps of the grid {g!r} from 0: pass a coarser grid=, "
            "or release the difference from a public centre"
        )
    return steps
