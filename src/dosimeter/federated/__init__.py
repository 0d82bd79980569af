"""[Geyer19]: federated training that hides whole clients. docs/federated.md has the proofs and the limits."""

from dosimeter.federated.accountant import Spend
from dosimeter.federated.arrivals import Block, Sent
from dosimeter.federated.audit import CanaryAudit, audit
from dosimeter.federated.baseline import NotPrivate, alone
from dosimeter.federated.budget import Budget, BudgetSpent, Figure, noise_needed, rounds_allowed
from dosimeter.federated.clip import clip, clip_rows
from dosimeter.federated.cohort import FixedSize, Poisson
from dosimeter.federated.curator import Curator
from dosimeter.federated.diagnostics import Spread
from dosimeter.federated.dose import ClientDose
from dosimeter.federated.history import History, Round
from dosimeter.federated.individual import Norms, charge
from dosimeter.federated.local import Local
from dosimeter.federated.modules import TorchLearner
from dosimeter.federated.networks import Network
from dosimeter.federated.partition import by_column, dirichlet, iid, two_shards
from dosimeter.federated.personal import Personal, personalise
from dosimeter.federated.published import AsPublished
from dosimeter.federated.quantile import FixedClip, QuantileClip
from dosimeter.federated.schedule import Constant, Given, Ramp
from dosimeter.federated.simulate import simulate
from dosimeter.federated.state import State
from dosimeter.federated.tasks import Task

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
    "History",
    "Local",
    "Network",
    "Norms",
    "NotPrivate",
    "Personal",
    "Poisson",
    "QuantileClip",
    "Ramp",
    "Round",
    "Sent",
    "Spend",
    "Spread",
    "State",
    "Task",
    "TorchLearner",
    "alone",
    "audit",
    "by_column",
    "charge",
    "clip",
    "clip_rows",
    "dirichlet",
    "iid",
    "noise_needed",
    "personalise",
    "rounds_allowed",
    "simulate",
    "two_shards",
]
