"""Simulation: the same grid and the same rounding with bits from a generator that is passed in. Not for release."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.density import Array, as_generator
from dosimeter.noise_addition.bits import Bits
from dosimeter.noise_addition.grid import as_values, checked_grid
from dosimeter.noise_addition.mechanism import drawn

Generator = np.random.Generator


def simulate(values: ArrayLike, noise: object, rng: Generator, *, grid: float | None = None) -> Array:
    """`noisy` with the generator's bits: repeatable, so for experiments only; whoever has the seed has the values.

    >>> from dosimeter.core.noise import Laplace
    >>> once, again = (simulate([1.0, 2.0], Laplace(0.5), np.random.default_rng(1)) for _ in range(2))
    >>> bool((once == again).all())
    True
    """
    return drawn(as_values(values), noise, checked_grid(grid, noise), seeded(rng))


def seeded(rng: Generator) -> Bits:
    """Words from a numpy Generator, the same on every machine."""
    source = as_generator(rng)
    return lambda n: np.frombuffer(source.bytes(8 * n), dtype="<u8").astype(np.uint64, copy=False)
