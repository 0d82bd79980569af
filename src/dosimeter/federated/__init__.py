"""[Geyer19]: federated training that protects whole clients. Proofs and limits: docs/explanation/federated.md."""

from dosimeter.federated.accountant import Spend
from dosimeter.federated.adaptive_clipping import FixedClip, QuantileClip
from dosimeter.federated.audit import audit, audit_patients
from dosimeter.federated.baseline import FedAvgBaseline, local_only_accuracy
from dosimeter.federated.budget import BudgetSpent, EpsilonFigure, PrivacyBudget, noise_needed, rounds_allowed
from dosimeter.federated.canary_audit import CanaryAudit
from dosimeter.federated.client_dose import ClientDose
from dosimeter.federated.client_messages import ClientUpdate, UpdateBatch
from dosimeter.federated.client_sampling import FixedSizeSampling, PoissonSampling
from dosimeter.federated.client_update import client_update
from dosimeter.federated.clip import clip, clip_rows
from dosimeter.federated.curator import Curator
from dosimeter.federated.history import History, Round
from dosimeter.federated.individual_accounting import ClientNorms, charge
from dosimeter.federated.local_training import LocalSGD
from dosimeter.federated.networks import Network
from dosimeter.federated.partition import by_column, dirichlet, iid, two_shards
from dosimeter.federated.patient_rounds import PatientTask, train_patients
from dosimeter.federated.patient_updates import PatientRows, patient_updates
from dosimeter.federated.personalisation import PersonalisationResult, personalise
from dosimeter.federated.schedule import Constant, ListedSchedule, Ramp
from dosimeter.federated.several_sites import epsilon_at_sites
from dosimeter.federated.simulate import simulate
from dosimeter.federated.site_sums import RoundRequest, SiteSum, decode_sum, draw_patients, encode_sum, site_sum
from dosimeter.federated.state import State
from dosimeter.federated.task import Task
from dosimeter.federated.torch_learner import TorchLearner
from dosimeter.federated.update_statistics import UpdateStatistics

__all__ = [
    "BudgetSpent",
    "CanaryAudit",
    "ClientDose",
    "ClientNorms",
    "ClientUpdate",
    "Constant",
    "Curator",
    "EpsilonFigure",
    "FedAvgBaseline",
    "FixedClip",
    "FixedSizeSampling",
    "History",
    "ListedSchedule",
    "LocalSGD",
    "Network",
    "PatientRows",
    "PatientTask",
    "PersonalisationResult",
    "PoissonSampling",
    "PrivacyBudget",
    "QuantileClip",
    "Ramp",
    "Round",
    "RoundRequest",
    "SiteSum",
    "Spend",
    "State",
    "Task",
    "TorchLearner",
    "UpdateBatch",
    "UpdateStatistics",
    "audit",
    "audit_patients",
    "by_column",
    "charge",
    "client_update",
    "clip",
    "clip_rows",
    "decode_sum",
    "dirichlet",
    "draw_patients",
    "encode_sum",
    "epsilon_at_sites",
    "iid",
    "local_only_accuracy",
    "noise_needed",
    "patient_updates",
    "personalise",
    "rounds_allowed",
    "simulate",
    "site_sum",
    "train_patients",
    "two_shards",
]
