"""[Hannun21]: generalised linear models whose weights are released with noise, and what they leak."""

from dosimeter.glm.answers.answer_attacks import answers_inversion, answers_membership, answers_presence
from dosimeter.glm.answers.answer_channel import AnswerChannel
from dosimeter.glm.answers.answer_information import Answer, AnswerInformation, independent_queries
from dosimeter.glm.answers.answer_reference import ReferenceQueries
from dosimeter.glm.answers.answers import leakage_of_answers, measure_answers
from dosimeter.glm.attacks.attribute_inversion import white_box
from dosimeter.glm.attacks.inversion_problem import Candidates
from dosimeter.glm.attacks.membership import membership, shaped_membership
from dosimeter.glm.attacks.prediction_inversion import black_box
from dosimeter.glm.composition import compose
from dosimeter.glm.cox.cox import Cox, CoxFit, fit_cox, fit_cox_at
from dosimeter.glm.cox.cox_jacobian import measure_cox
from dosimeter.glm.equations.estimating_equations import EstimatingEquations, Kink, Solution
from dosimeter.glm.equations.estimating_jacobian import EstimatingJacobian, measure_solution
from dosimeter.glm.equations.gaussian_naive_bayes import GaussianNaiveBayes
from dosimeter.glm.equations.huber_regression import HuberRegression
from dosimeter.glm.equations.joint_outputs import JointOutputs, several_outputs
from dosimeter.glm.equations.linear_discriminant import LinearDiscriminant
from dosimeter.glm.equations.one_versus_rest import one_versus_rest
from dosimeter.glm.equations.released_map import ReleasedMap
from dosimeter.glm.equations.ridge_outputs import ridge_classifier, ridge_outputs
from dosimeter.glm.equations.sparse_weights import SparseWeights
from dosimeter.glm.fisher import measure
from dosimeter.glm.fitting.fit import fit, fit_at
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.fitting.penalty import Penalty, penalty
from dosimeter.glm.fitting.route import choose_route
from dosimeter.glm.fitting.wide_fit import WideFit
from dosimeter.glm.jacobians.known_cells import with_known
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.jacobians.person_fisher import fisher_blocks
from dosimeter.glm.losses.binary_losses import ComplementaryLogLog, Probit
from dosimeter.glm.losses.count_losses import NegativeBinomial
from dosimeter.glm.losses.loss import LOSSES, Logistic, Poisson, ScalarLoss, Squared, TargetKind, register
from dosimeter.glm.losses.margin_losses import Huber, SquaredEpsilonInsensitive, SquaredHinge
from dosimeter.glm.losses.positive_losses import Gamma, InverseGaussian, Tweedie
from dosimeter.glm.losses.softmax import Softmax
from dosimeter.glm.releases.calibrate import calibrate
from dosimeter.glm.releases.cross_validation import HeldOut, cross_validate
from dosimeter.glm.releases.noise_choice import Choice, choose
from dosimeter.glm.releases.release_plan import ReleasePlan
from dosimeter.glm.releases.release_planning import plan
from dosimeter.glm.releases.sensitivity import differential_privacy
from dosimeter.glm.releases.shape_calibration import best_exponent, calibrate_shape, frontier
from dosimeter.glm.releases.shaped_noise import shape_noise
from dosimeter.glm.reweighting.irfil import irfil
from dosimeter.glm.reweighting.reweighted_leakage import total_leakage
from dosimeter.glm.row_maps.map_parts import Levels, Slopes
from dosimeter.glm.row_maps.row_maps import RowMap
from dosimeter.glm.scalers.column_scale_floor import ColumnScaleMoves
from dosimeter.glm.wide.wide_leakage import RowCells, WideLeakage

__all__ = [
    "LOSSES",
    "Answer",
    "AnswerChannel",
    "AnswerInformation",
    "Candidates",
    "Choice",
    "ColumnScaleMoves",
    "ComplementaryLogLog",
    "Cox",
    "CoxFit",
    "EstimatingEquations",
    "EstimatingJacobian",
    "Fit",
    "Gamma",
    "GaussianNaiveBayes",
    "HeldOut",
    "Huber",
    "HuberRegression",
    "InverseGaussian",
    "JointOutputs",
    "Kink",
    "Leakage",
    "Levels",
    "LinearDiscriminant",
    "Logistic",
    "NegativeBinomial",
    "Penalty",
    "Poisson",
    "Probit",
    "ReferenceQueries",
    "ReleasePlan",
    "ReleasedMap",
    "RowCells",
    "RowMap",
    "ScalarLoss",
    "Slopes",
    "Softmax",
    "Solution",
    "SparseWeights",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "TargetKind",
    "Tweedie",
    "WideFit",
    "WideLeakage",
    "answers_inversion",
    "answers_membership",
    "answers_presence",
    "best_exponent",
    "black_box",
    "calibrate",
    "calibrate_shape",
    "choose",
    "choose_route",
    "compose",
    "cross_validate",
    "differential_privacy",
    "fisher_blocks",
    "fit",
    "fit_at",
    "fit_cox",
    "fit_cox_at",
    "frontier",
    "independent_queries",
    "irfil",
    "leakage_of_answers",
    "measure",
    "measure_answers",
    "measure_cox",
    "measure_solution",
    "membership",
    "one_versus_rest",
    "penalty",
    "plan",
    "register",
    "ridge_classifier",
    "ridge_outputs",
    "several_outputs",
    "shape_noise",
    "shaped_membership",
    "total_leakage",
    "white_box",
    "with_known",
]
