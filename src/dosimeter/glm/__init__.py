"""[Hannun21]: generalised linear models whose weights are released with noise, and what they leak."""

from dosimeter.glm.answer_attacks import answers_inversion, answers_membership, answers_presence
from dosimeter.glm.answer_channel import AnswerChannel
from dosimeter.glm.answer_information import Answer, AnswerInformation, independent_queries
from dosimeter.glm.answer_reference import ReferenceQueries
from dosimeter.glm.answers import leakage_of_answers, measure_answers
from dosimeter.glm.attribute_inversion import white_box
from dosimeter.glm.binary_losses import ComplementaryLogLog, Probit
from dosimeter.glm.calibrate import calibrate
from dosimeter.glm.column_scale_floor import ColumnScaleMoves
from dosimeter.glm.composition import compose
from dosimeter.glm.count_losses import NegativeBinomial
from dosimeter.glm.cox import Cox, CoxFit, fit_cox, fit_cox_at
from dosimeter.glm.cox_jacobian import measure_cox
from dosimeter.glm.cross_validation import HeldOut, cross_validate
from dosimeter.glm.estimating_equations import EstimatingEquations, Kink, Solution
from dosimeter.glm.estimating_jacobian import EstimatingJacobian, measure_solution
from dosimeter.glm.fisher import measure
from dosimeter.glm.fit import fit, fit_at
from dosimeter.glm.gaussian_naive_bayes import GaussianNaiveBayes
from dosimeter.glm.huber_regression import HuberRegression
from dosimeter.glm.inversion_problem import Candidates
from dosimeter.glm.irfil import irfil
from dosimeter.glm.joint_outputs import JointOutputs, several_outputs
from dosimeter.glm.known_cells import with_known
from dosimeter.glm.leakage import Leakage
from dosimeter.glm.linear_discriminant import LinearDiscriminant
from dosimeter.glm.loss import LOSSES, Logistic, Poisson, ScalarLoss, Squared, TargetKind, register
from dosimeter.glm.map_parts import Levels, Slopes
from dosimeter.glm.margin_losses import Huber, SquaredEpsilonInsensitive, SquaredHinge
from dosimeter.glm.membership import membership, shaped_membership
from dosimeter.glm.minimiser import Fit
from dosimeter.glm.noise_choice import Choice, choose
from dosimeter.glm.one_versus_rest import one_versus_rest
from dosimeter.glm.penalty import Penalty, penalty
from dosimeter.glm.person_fisher import fisher_blocks
from dosimeter.glm.positive_losses import Gamma, InverseGaussian, Tweedie
from dosimeter.glm.prediction_inversion import black_box
from dosimeter.glm.release_plan import ReleasePlan
from dosimeter.glm.release_planning import plan
from dosimeter.glm.released_map import ReleasedMap
from dosimeter.glm.reweighted_leakage import total_leakage
from dosimeter.glm.ridge_outputs import ridge_classifier, ridge_outputs
from dosimeter.glm.route import choose_route
from dosimeter.glm.row_maps import RowMap
from dosimeter.glm.sensitivity import differential_privacy
from dosimeter.glm.shape_calibration import best_exponent, calibrate_shape, frontier
from dosimeter.glm.shaped_noise import shape_noise
from dosimeter.glm.softmax import Softmax
from dosimeter.glm.sparse_weights import SparseWeights
from dosimeter.glm.wide_fit import WideFit
from dosimeter.glm.wide_leakage import RowCells, WideLeakage

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
