"""The mechanism: values in, the same values with noise out, on the grid, for release."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.density import Array
from dosimeter.core.errors import Refusal
from dosimeter.noise_addition.bits import Bits, fresh
from dosimeter.noise_addition.exact import correlated, independent
from dosimeter.noise_addition.grid import as_values, checked_grid, in_steps, least_scale
from dosimeter.noise_addition.inverse_cdf import law_of

_MOST_STEPS_OF_A_ROW = 2.0**45
_COMPANY = 512


def noisy(values: ArrayLike, noise: object, *, grid: float | None = None) -> Array:
    """g·round((values + b)/g), b the ideal real noise: what may leave the building, in the shape of `values`.

    The noise is independent from entry to entry; for `CorrelatedGaussian` of dimension p the last axis of `values` has
    p entries that share one draw of N(0, LLᵀ), L its float64 Cholesky factor. `grid` is g, a power of two; None takes
    `grid_of(noise)`. Rounding after the noise is post-processing, so every figure of the ideal noise holds. The bits
    come from the operating system; there is no seed.

    >>> from dosimeter.core.noise import Gaussian
    >>> y = noisy([0.5, -1.0], Gaussian(0.1))
    >>> y.shape, bool(np.all(y % 2.0**-20 == 0)), bool(np.all(y == noisy([0.5, -1.0], Gaussian(0.1))))
    ((2,), True, False)
    """
    return drawn(as_values(values), noise, checked_grid(grid, noise), fresh())


def drawn(w: Array, noise: object, g: float, bits: Bits) -> Array:
    """g·round((w + b)/g) with b from the given bits; w checked by `as_values`, g by `checked_grid`."""
    steps = in_steps(w, g)
    if isinstance(noise, CorrelatedGaussian):
        A, p = _factor(w, noise, g), noise.dimension
        rounded = correlated(_in_company(steps.reshape(-1, p)), A, bits)
    else:
        rounded = independent(_in_company(steps.reshape(-1, 1)).ravel(), law_of(noise), least_scale(noise) / g, bits)
    released = rounded.ravel()[: w.size] * g
    released += 0.0  # a zero has no sign: -0.0 would tell on which side of 0 the value or the noise was
    return released.reshape(w.shape)


def _in_company(rows: Array) -> Array:
    """The rows with rows of zeros after them, up to 512 entries, whose draws are thrown away.

    `ndtri` takes another branch for one draw in four: alone, a draw's time and size had a rank correlation of 0.07;
    among 512 others, whose time is not known, 0.01 to 0.02. It costs 10 microseconds.
    """
    p = rows.shape[1]
    together = np.zeros((max(len(rows), -(-_COMPANY // p)), p))
    together[: len(rows)] = rows
    return together


def _factor(w: Array, noise: CorrelatedGaussian, g: float) -> Array:
    """L/g, (p, p), exact; refused where the values or the spread of the deviations do not fit."""
    p = noise.dimension
    if w.ndim == 0 or w.shape[-1] != p:
        raise Refusal(f"{noise}: the last axis of the values must have {p} entries, not {w.shape}")
    A: Array = noise.cholesky / g
    if not np.abs(A).sum(axis=1).max() < _MOST_STEPS_OF_A_ROW:
        raise Refusal(f"{noise}: the grid {g!r} is too fine for its largest deviation; pass a coarser grid=")
    return A
