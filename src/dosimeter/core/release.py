"""A release: the values that are published, with the frozen recipe that accounting needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal


@dataclass(frozen=True)
class Recipe:
    """How released values were computed: public constants only, all that accounting needs.

    Parameters
    ----------
    kind : str
        What is released: "weights", "components", "labels", ...
    noise : str
        The noise as text, such as "Gaussian(sigma=0.5)".
    settings : mapping
        Public constants (str, int, float, bool or None) by name.
    not_covered : tuple of str
        Choices made from the data, such as a tuned scale or a standardisation, that no figure of this release covers.
    simulation : bool
        True if the noise came from a seed; such a release is not to be published.

    Raises
    ------
    Refusal
        If a setting is not a plain constant.

    Examples
    --------
    >>> Recipe("weights", noise="Gaussian(sigma=0.5)", settings={"loss": "squared", "l2": 0.01}).settings["l2"]
    0.01
    """

    kind: str
    noise: str
    settings: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    not_covered: tuple[str, ...] = ()
    simulation: bool = False

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in (self.kind, self.noise, *self.settings, *self.not_covered)):
            raise Refusal("a recipe names what is released, its noise, its settings and its gaps in words")
        for name, value in self.settings.items():
            if not (value is None or isinstance(value, str | int | float | bool)):
                raise Refusal(f"a recipe holds plain public constants; {name!r} is {type(value).__name__}")
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))

    def __reduce__(self) -> tuple[type[Recipe], tuple[object, ...]]:
        # A read-only view can be neither copied nor sent to another process, so it is rebuilt there.
        return Recipe, (self.kind, self.noise, dict(self.settings), self.not_covered, self.simulation)


@dataclass(frozen=True, eq=False)
class Release:
    """Released values and their recipe; never training data.

    Parameters
    ----------
    values : mapping of str to array
        The released arrays by name, after noise; stored read-only, as float64, or as they are if their type is a signed
        integer: labels are whole numbers, and a hundred million of them fit into bytes.
    recipe : Recipe
        How they were computed.

    Raises
    ------
    Refusal
        If a value is not finite.

    Examples
    --------
    >>> r = Release({"coef": np.array([0.5, -1.0])}, Recipe("weights", "Gaussian(sigma=0.5)"))
    >>> r
    <Release of weights (coef: 2), Gaussian(sigma=0.5)>
    """

    values: Mapping[str, NDArray[Any]]
    recipe: Recipe

    def __post_init__(self) -> None:
        arrays = {name: np.array(value, dtype=_stored_type(value)) for name, value in self.values.items()}
        for name, value in arrays.items():
            if not np.isfinite(value).all():
                raise Refusal(f"released values must be finite; {name!r} is not")
            value.setflags(write=False)
        object.__setattr__(self, "values", MappingProxyType(arrays))

    def __reduce__(self) -> tuple[type[Release], tuple[object, ...]]:
        return Release, (dict(self.values), self.recipe)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{k}: {' x '.join(map(str, v.shape)) or 1}" for k, v in self.values.items())
        stamp = ", simulation, not for release" if self.recipe.simulation else ""
        return f"<Release of {self.recipe.kind} ({shapes}), {self.recipe.noise}{stamp}>"


def _stored_type(value: Any) -> np.dtype[Any]:
    whole = isinstance(value, np.ndarray) and value.dtype.kind == "i"
    return np.dtype(value.dtype if whole else np.float64)
