"""How much a released model leaks about each person it was trained on.

The names below are imported when first used, so that `dosimeter --help` answers at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dosimeter.core.version import __version__ as __version__

if TYPE_CHECKING:
    from dosimeter import federated as federated
    from dosimeter import glm as glm
    from dosimeter import pate as pate
    from dosimeter import pca as pca
    from dosimeter.attacks import AttackResult as AttackResult
    from dosimeter.core.channel import maximal_leakage as maximal_leakage
    from dosimeter.core.covariance import CorrelatedGaussian as CorrelatedGaussian
    from dosimeter.core.dose import Dose as Dose
    from dosimeter.core.errors import CannotMeasure as CannotMeasure
    from dosimeter.core.errors import NoiseWarning as NoiseWarning
    from dosimeter.core.errors import Refusal as Refusal
    from dosimeter.core.noise import Exponential as Exponential
    from dosimeter.core.noise import Gaussian as Gaussian
    from dosimeter.core.noise import Gumbel as Gumbel
    from dosimeter.core.noise import Laplace as Laplace
    from dosimeter.core.noise import LogisticNoise as LogisticNoise
    from dosimeter.core.noise import no_noise as no_noise
    from dosimeter.core.release import Release as Release
    from dosimeter.ledger import Ledger as Ledger
    from dosimeter.reports.report import report as report
    from dosimeter.reproductions.reproduce import reproduce as reproduce
    from dosimeter.workflows.attack import attack as attack
    from dosimeter.workflows.check import check as check
    from dosimeter.workflows.components import bounds_template as bounds_template
    from dosimeter.workflows.components import components as components
    from dosimeter.workflows.consortium_init import create_consortium as create_consortium
    from dosimeter.workflows.consortium_site import run_site as run_site
    from dosimeter.workflows.coordinator import run_coordinator as run_coordinator
    from dosimeter.workflows.federate import federate as federate
    from dosimeter.workflows.federation_plan import plan_federation as plan_federation
    from dosimeter.workflows.fix import fix as fix
    from dosimeter.workflows.gateway import Gateway as Gateway
    from dosimeter.workflows.label import label as label
    from dosimeter.workflows.measure import measure as measure
    from dosimeter.workflows.release import release as release
    from dosimeter.workflows.released import Released as Released
    from dosimeter.workflows.scan import scan as scan


_HOME = {
    "CannotMeasure": "core.errors",
    "CorrelatedGaussian": "core.covariance",
    "Dose": "core.dose",
    "Exponential": "core.noise",
    "Gateway": "workflows.gateway",
    "Gaussian": "core.noise",
    "Gumbel": "core.noise",
    "Laplace": "core.noise",
    "LogisticNoise": "core.noise",
    "NoiseWarning": "core.errors",
    "Refusal": "core.errors",
    "Release": "core.release",
    "bounds_template": "workflows.components",
    "check": "workflows.check",
    "components": "workflows.components",
    "label": "workflows.label",
    "maximal_leakage": "core.channel",
    "attack": "workflows.attack",
    "fix": "workflows.fix",
    "measure": "workflows.measure",
    "create_consortium": "workflows.consortium_init",
    "run_coordinator": "workflows.coordinator",
    "run_site": "workflows.consortium_site",
    "federate": "workflows.federate",
    "no_noise": "core.noise",
    "plan_federation": "workflows.federation_plan",
    "release": "workflows.release",
    "report": "reports.report",
    "reproduce": "reproductions.reproduce",
    "scan": "workflows.scan",
    "Released": "workflows.released",
    "Ledger": "ledger",
    "AttackResult": "attacks",
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
