"""[Saeidian21]: labels voted by teachers (PATE), and what a noisy vote leaks about one of them."""

from dosimeter.pate.accounting import epsilon
from dosimeter.pate.adversary import guess_partition, guess_votes
from dosimeter.pate.bounds import (
    Bound,
    bound,
    data_dependent_bound,
    data_independent_bound,
    overtaking_bound,
    uniform_bound,
)
from dosimeter.pate.budget import nats, plan, queries_within
from dosimeter.pate.doses import dose, public_bound
from dosimeter.pate.ensemble import Progress, Teachers, TeacherTraining
from dosimeter.pate.label import Labels, label
from dosimeter.pate.leakage import leakage, win_probabilities
from dosimeter.pate.partition import Partition
from dosimeter.pate.student import LearningCurve, Student
from dosimeter.pate.threshold import Threshold, free_threshold, threshold_bound, threshold_leakage
from dosimeter.pate.votes import Votes

__all__ = [
    "Bound",
    "Labels",
    "LearningCurve",
    "Partition",
    "Progress",
    "Student",
    "TeacherTraining",
    "Teachers",
    "Threshold",
    "Votes",
    "bound",
    "data_dependent_bound",
    "data_independent_bound",
    "dose",
    "epsilon",
    "free_threshold",
    "guess_partition",
    "guess_votes",
    "label",
    "leakage",
    "nats",
    "overtaking_bound",
    "plan",
    "public_bound",
    "queries_within",
    "threshold_bound",
    "threshold_leakage",
    "uniform_bound",
    "win_probabilities",
]
