"""The mechanism: adds noise to values for release, on the grid."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.density import Array
from dosimeter.core.errors import Refusal
from dosimeter.noise_addition.bits import Bits, fresh_bits
from dosimeter.noise_addition.exact import add_correlated, add_independent
from dosimeter.noise_addition.grid import as_values, in_steps, least_scale, resolve_grid
from dosimeter.noise_addition.inverse_cdf import inverse_cdf_of

_MOST_STEPS_OF_A_ROW = 2.0**45
_PADDED_SIZE = 512


def add_noise(values: ArrayLike, noise: object, *, grid: float | None = None) -> Array:
    """g·round((values + b)/g), b the ideal real noise: values that may be released, in the shape of `values`.

    The noise is independent for each entry. For `CorrelatedGaussian` of dimension p the last axis of `values` has p
    entries that share one draw of N(0, LLᵀ), L its float64 Cholesky factor. Rounding after the noise is
    post-processing, so every figure of the ideal noise holds. The bits come from the operating system: there is no
    seed.

    Parameters
    ----------
    values : array_like
        What is to be released.
    noise : Noise
        The law of the noise, with its scale.
    grid : float, optional
        g, a power of two; default `grid_of(noise)`.

    Returns
    -------
    ndarray
        Whole multiples of g.

    Raises
    ------
    Refusal
        If the noise cannot be drawn, the grid is no power of two, or a value is not finite.

    Examples
    --------
    >>> from dosimeter.core.noise import Gaussian
    >>> y = add_noise([0.5, -1.0], Gaussian(0.1))
    >>> y.shape, bool(np.all(y % 2.0**-20 == 0)), bool(np.all(y == add_noise([0.5, -1.0], Gaussian(0.1))))
    ((2,), True, False)
    """
    return add_noise_from(as_values(values), noise, resolve_grid(grid, noise), fresh_bits())


def add_noise_from(w: Array, noise: object, g: float, bits: Bits) -> Array:
    """g·round((w + b)/g) with b from these bits; w was checked by `as_values`, g by `resolve_grid`."""
    steps = in_steps(w, g)
    if isinstance(noise, CorrelatedGaussian):
        A, p = _factor(w, noise, g), noise.dimension
        rounded = add_correlated(_pad(steps.reshape(-1, p)), A, bits)
    else:
        rounded = add_independent(
            _pad(steps.reshape(-1, 1)).ravel(), inverse_cdf_of(noise), least_scale(noise) / g, bits
        )
    released = rounded.ravel()[: w.size] * g
    released += 0.0  # no negative zero: its sign would reveal on which side of 0 the value or the noise was
    return released.reshape(w.shape)


def _pad(rows: Array) -> Array:
    """The rows, padded with rows of zeros to 512 entries, whose draws are discarded.

    `ndtri` takes another branch for one draw in four, so the time of a single draw depends on its size: the
    rank correlation was 0.07 for one draw and 0.01 to 0.02 among 512. The padding costs 10 microseconds.
    """
    p = rows.shape[1]
    padded = np.zeros((max(len(rows), -(-_PADDED_SIZE // p)), p))
    padded[: len(rows)] = rows
    return padded


def _factor(w: Array, noise: CorrelatedGaussian, g: float) -> Array:
    """L/g, (p, p), exact; refused if the values do not have p columns or the grid is too fine."""
    p = noise.dimension
    if w.ndim == 0 or w.shape[-1] != p:
        raise Refusal(f"{noise}: the last axis of the values must have {p} entries, not {w.shape}")
    A: Array = noise.cholesky / g
    if not np.abs(A).sum(axis=1).max() < _MOST_STEPS_OF_A_ROW:
        raise Refusal(f"{noise}: the grid {g!r} is too fine for its largest deviation; pass a coarser grid=")
    return A
