"""[Geyer19]: federated training that hides whole clients. docs/federated.md has the proofs and the limits."""

from dosimeter.federated.accountant import Spend
from dosimeter.federated.arrivals import Block, Sent
from dosimeter.federated.budget import Budget, BudgetSpent, Figure, noise_needed, rounds_allowed
from dosimeter.federated.clip import clip, clip_rows
from dosimeter.federated.cohort import FixedSize, Poisson
from dosimeter.federated.curator import Curator
from dosimeter.federated.diagnostics import Spread
from dosimeter.federated.dose import ClientDose
from dosimeter.federated.quantile import FixedClip, QuantileClip
from dosimeter.federated.schedule import Constant, Given, Ramp
from dosimeter.federated.state import State

__all__ = [
    "Block",
    "Budget",
    "BudgetSpent",
    "ClientDose",
    "Constant",
    "Curator",
    "Figure",
    "FixedClip",
    "FixedSize",
    "Given",
    "Poisson",
    "QuantileClip",
    "Ramp",
    "Sent",
    "Spend",
    "Spread",
    "State",
    "clip",
    "clip_rows",
    "noise_needed",
    "rounds_allowed",
]
