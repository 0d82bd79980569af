"""The release: named values with noise added, and the recipe that accounting needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.density import Array
from dosimeter.core.errors import Refusal
from dosimeter.core.release import Recipe, Release
from dosimeter.noise_addition.grid import as_values, resolve_grid
from dosimeter.noise_addition.mechanism import add_noise
from dosimeter.noise_addition.simulation import Generator, simulate


def release(
    values: Mapping[str, ArrayLike],
    noise: object,
    *,
    kind: str,
    settings: Mapping[str, str | int | float | bool | None],
    not_covered: Iterable[str] = (),
    rng: Generator | None = None,
    grid: float | None = None,
) -> Release:
    """A `Release` of the named values with noise added; the recipe's settings gain the `grid`.

    Under `CorrelatedGaussian` the values, in the order of the mapping and each in C order, are the p entries of one
    draw. With an `rng` it is a simulation, marked as such; without one the bits come from the operating system.

    Parameters
    ----------
    values : mapping of str to array_like
        What is to be released, by name.
    noise : Noise
        The law of the noise, with its scale.
    kind : str
        What the values are, such as "weights".
    settings : mapping
        Public constants of the recipe.
    not_covered : iterable of str, optional
        What the figures of this release do not cover.
    rng : numpy.random.Generator, optional
        Makes it a simulation.
    grid : float, optional
        A power of two to which the values are rounded; default `grid_of(noise)`.

    Returns
    -------
    Release
        The noised values with their recipe.

    Raises
    ------
    Refusal
        If there is nothing to release, the settings have a grid of their own, or the noise cannot be drawn.

    Examples
    --------
    >>> from dosimeter.core.noise import Gaussian
    >>> r = release({"coef": [0.5, -1.0]}, Gaussian(0.5), kind="weights", settings={"l2": 0.01})
    >>> r, dict(r.recipe.settings)
    (<Release of weights (coef: 2), Gaussian(sigma=0.5)>, {'l2': 0.01, 'grid': 7.62939453125e-06})
    """
    if not values:
        raise Refusal("values is empty: nothing to release")
    if "grid" in settings:
        raise Refusal("settings: 'grid' is recorded automatically; pass it as grid=")
    if isinstance(not_covered, str):
        raise Refusal(f"not_covered={not_covered!r}: must be a list of sentences, not one string")
    g = resolve_grid(grid, noise)
    recipe = Recipe(kind, repr(noise), {**settings, "grid": g}, tuple(not_covered), simulation=rng is not None)
    arrays = {name: as_values(value) for name, value in values.items()}
    flat = np.concatenate([a.ravel() for a in arrays.values()])
    if isinstance(noise, CorrelatedGaussian) and flat.size != noise.dimension:
        raise Refusal(f"{noise}: there are {flat.size} values to release, not {noise.dimension}")
    noised = add_noise(flat, noise, grid=g) if rng is None else simulate(flat, noise, rng, grid=g)
    return Release(_split(noised, arrays), recipe)


def _split(flat: Array, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The flat array cut into the shapes of the named arrays."""
    ends = np.cumsum([a.size for a in arrays.values()])[:-1]
    pieces = np.split(flat, ends)
    return {name: piece.reshape(a.shape) for (name, a), piece in zip(arrays.items(), pieces, strict=True)}
