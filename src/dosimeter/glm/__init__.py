"""[Hannun21]: generalised linear models whose weights are released with noise, and what they leak."""

from dosimeter.glm.attribute_inversion import Candidates, black_box, white_box
from dosimeter.glm.calibrate import best_exponent, calibrate, calibrate_shape, frontier
from dosimeter.glm.cross_validation import HeldOut, held_out
from dosimeter.glm.fisher import compose, measure
from dosimeter.glm.fit import Fit, at, fit
from dosimeter.glm.irfil import irfil
from dosimeter.glm.known_cells import with_known
from dosimeter.glm.leakage import Leakage
from dosimeter.glm.loss import Logistic, Poisson, Squared
from dosimeter.glm.membership import membership, shaped_membership
from dosimeter.glm.noise_choice import Choice, choose
from dosimeter.glm.penalty import Penalty, penalty
from dosimeter.glm.person_fisher import blocks
from dosimeter.glm.release_plan import ReleasePlan, plan
from dosimeter.glm.reweighted_leakage import honest_leakage
from dosimeter.glm.sensitivity import differential_privacy
from dosimeter.glm.shaped_noise import shaped
from dosimeter.glm.softmax import Softmax

__all__ = [
    "Candidates",
    "Choice",
    "Fit",
    "HeldOut",
    "Leakage",
    "Logistic",
    "Penalty",
    "Poisson",
    "ReleasePlan",
    "Softmax",
    "Squared",
    "at",
    "best_exponent",
    "black_box",
    "blocks",
    "calibrate",
    "calibrate_shape",
    "choose",
    "compose",
    "differential_privacy",
    "fit",
    "frontier",
    "held_out",
    "honest_leakage",
    "irfil",
    "measure",
    "membership",
    "penalty",
    "plan",
    "shaped",
    "shaped_membership",
    "white_box",
    "with_known",
]
