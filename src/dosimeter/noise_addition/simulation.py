"""Simulation: the same grid and rounding, with bits from a generator passed by the caller. Not for release."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.density import Array, as_generator
from dosimeter.noise_addition.bits import Bits
from dosimeter.noise_addition.grid import as_values, resolve_grid
from dosimeter.noise_addition.mechanism import add_noise_from

Generator = np.random.Generator


def simulate(values: ArrayLike, noise: object, rng: Generator, *, grid: float | None = None) -> Array:
    """`add_noise` with the generator's bits. For experiments only: anyone who has the seed can recover the values.

    Parameters
    ----------
    values : array_like
        What the noise is added to.
    noise : Noise
        The law of the noise, with its scale.
    rng : numpy.random.Generator
        The source of bits.
    grid : float, optional
        A power of two; default `grid_of(noise)`.

    Returns
    -------
    ndarray
        Whole multiples of the grid, the same for the same seed on every machine.

    Raises
    ------
    Refusal
        If the noise cannot be drawn.

    Examples
    --------
    >>> from dosimeter.core.noise import Laplace
    >>> once, again = (simulate([1.0, 2.0], Laplace(0.5), np.random.default_rng(1)) for _ in range(2))
    >>> bool((once == again).all())
    True
    """
    return add_noise_from(as_values(values), noise, resolve_grid(grid, noise), seeded_bits(rng))


def seeded_bits(rng: Generator) -> Bits:
    """A source of 64-bit words from a numpy Generator, the same on every machine."""
    source = as_generator(rng)
    return lambda n: np.frombuffer(source.bytes(8 * n), dtype="<u8").astype(np.uint64, copy=False)
