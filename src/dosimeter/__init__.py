"""How much a released model gives away about each person it was trained on.

The names below are imported when first used, so that `dosimeter --help` answers at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dosimeter import federated as federated
    from dosimeter import glm as glm
    from dosimeter import pate as pate
    from dosimeter import pca as pca
    from dosimeter.core.channel import maximal_leakage as maximal_leakage
    from dosimeter.core.covariance import CorrelatedGaussian as CorrelatedGaussian
    from dosimeter.core.dose import Dose as Dose
    from dosimeter.core.noise import Exponential as Exponential
    from dosimeter.core.noise import Gaussian as Gaussian
    from dosimeter.core.noise import Gumbel as Gumbel
    from dosimeter.core.noise import Laplace as Laplace
    from dosimeter.core.noise import LogisticNoise as LogisticNoise
    from dosimeter.core.noise import no_noise as no_noise
    from dosimeter.core.refusal import CannotMeasure as CannotMeasure
    from dosimeter.core.refusal import Refusal as Refusal
    from dosimeter.core.release import Release as Release
    from dosimeter.frames.measure import measure as measure

__version__ = "0.1.0"

_HOME = {
    "CannotMeasure": "core.refusal",
    "CorrelatedGaussian": "core.covariance",
    "Dose": "core.dose",
    "Exponential": "core.noise",
    "Gaussian": "core.noise",
    "Gumbel": "core.noise",
    "Laplace": "core.noise",
    "LogisticNoise": "core.noise",
    "Refusal": "core.refusal",
    "Release": "core.release",
    "maximal_leakage": "core.channel",
    "measure": "frames.measure",
    "no_noise": "core.noise",
}
_SLICES = ("federated", "glm", "pate", "pca")

__all__ = ["__version__", *_HOME, *_SLICES]


def __getattr__(name: str) -> Any:
    if name in _SLICES:
        return import_module(f"dosimeter.{name}")
    if name in _HOME:
        return getattr(import_module(f"dosimeter.{_HOME[name]}"), name)
    raise AttributeError(f"module 'dosimeter' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
