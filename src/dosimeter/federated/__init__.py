"""[Geyer19]: federated training that hides whole clients. docs/federated.md has the proofs and the limits."""

from dosimeter.federated.accountant import Spend
from dosimeter.federated.arrivals import Block, Sent
from dosimeter.federated.audit import CanaryAudit, audit
from dosimeter.federated.budget import Budget, BudgetSpent, Figure, noise_needed, rounds_allowed
from dosimeter.federated.clip import clip, clip_rows
from dosimeter.federated.cohort import FixedSize, Poisson
from dosimeter.federated.curator import Curator
from dosimeter.federated.diagnostics import Spread
from dosimeter.federated.dose import ClientDose
from dosimeter.federated.individual import Norms, charge
from dosimeter.federated.published import AsPublished
from dosimeter.federated.quantile import FixedClip, QuantileClip
from dosimeter.federated.schedule import Constant, Given, Ramp
from dosimeter.federated.state import State

__all__ = [
    "AsPublished",
    "Block",
    "Budget",
    "BudgetSpent",
    "CanaryAudit",
    "ClientDose",
    "Constant",
    "Curator",
    "Figure",
    "FixedClip",
    "FixedSize",
    "Given",
    "Norms",
    "Poisson",
    "QuantileClip",
    "Ramp",
    "Sent",
    "Spend",
    "Spread",
    "State",
    "audit",
    "charge",
    "clip",
    "clip_rows",
    "noise_needed",
    "rounds_allowed",
]
