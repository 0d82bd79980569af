"""[Hannun21]: generalised linear models whose weights are released with noise, and what they leak."""

from dosimeter.glm.attribute_inversion import Candidates, black_box, white_box
from dosimeter.glm.calibrate import best_exponent, calibrate, calibrate_shape, frontier
from dosimeter.glm.cross_validation import HeldOut, cross_validate
from dosimeter.glm.fisher import compose, measure
from dosimeter.glm.fit import Fit, fit, fit_at
from dosimeter.glm.irfil import irfil
from dosimeter.glm.known_cells import with_known
from dosimeter.glm.leakage import Leakage
from dosimeter.glm.loss import LOSSES, Logistic, Poisson, ScalarLoss, Squared, TargetKind, register
from dosimeter.glm.map_parts import Levels, Slopes
from dosimeter.glm.membership import membership, shaped_membership
from dosimeter.glm.noise_choice import Choice, choose
from dosimeter.glm.penalty import Penalty, penalty
from dosimeter.glm.person_fisher import fisher_blocks
from dosimeter.glm.release_plan import ReleasePlan, plan
from dosimeter.glm.reweighted_leakage import total_leakage
from dosimeter.glm.row_maps import RowMap
from dosimeter.glm.sensitivity import differential_privacy
from dosimeter.glm.shaped_noise import shape_noise
from dosimeter.glm.softmax import Softmax

__all__ = [
    "LOSSES",
    "Candidates",
    "Choice",
    "Fit",
    "HeldOut",
    "Leakage",
    "Levels",
    "Logistic",
    "Penalty",
    "Poisson",
    "ReleasePlan",
    "RowMap",
    "ScalarLoss",
    "Slopes",
    "Softmax",
    "Squared",
    "TargetKind",
    "best_exponent",
    "black_box",
    "calibrate",
    "calibrate_shape",
    "choose",
    "compose",
    "cross_validate",
    "differential_privacy",
    "fisher_blocks",
    "fit",
    "fit_at",
    "frontier",
    "irfil",
    "measure",
    "membership",
    "penalty",
    "plan",
    "register",
    "shape_noise",
    "shaped_membership",
    "total_leakage",
    "white_box",
    "with_known",
]
