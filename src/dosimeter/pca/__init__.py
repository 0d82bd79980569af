"""[Zari22]: principal components, how well they reveal membership, and private components."""

from dosimeter.pca.bounds import Bounds
from dosimeter.pca.calibration import crossover, eps_prime
from dosimeter.pca.components import Components, components, components_of, mean, second_moment, second_moment_of_blocks
from dosimeter.pca.distributed import (
    AggregatedComponents,
    NoisyMoment,
    aggregate,
    join,
    noisy_moment,
)
from dosimeter.pca.fisher import MomentLeakage, measure
from dosimeter.pca.interception import InterceptionAttack, intercept_by_party_count, intercept_each, share_out
from dosimeter.pca.likelihood import Population, leverage, leverage_scores, likelihood_ratio
from dosimeter.pca.mechanisms import AnalyticGaussian, LaplaceJoint, LaplaceSplit, PLDLaplace
from dosimeter.pca.membership import (
    MembershipByComponents,
    attack,
    auc_by_components,
    decide,
    reconstruction_error,
    scores,
)
from dosimeter.pca.null_distribution import NullBand, null_band
from dosimeter.pca.published_mechanisms import AnalyzeGauss, LaplaceAdvanced, LaplaceScalar, LaplaceVector
from dosimeter.pca.reconstruction import as_components
from dosimeter.pca.release import PrivateComponents, release
from dosimeter.pca.suspects import MembershipRanking, rank_suspects
from dosimeter.pca.utility import explained_variance, random_subspace, rank_for_variance, utility

__all__ = [
    "AggregatedComponents",
    "AnalyticGaussian",
    "AnalyzeGauss",
    "Bounds",
    "Components",
    "InterceptionAttack",
    "LaplaceAdvanced",
    "LaplaceJoint",
    "LaplaceScalar",
    "LaplaceSplit",
    "LaplaceVector",
    "MembershipByComponents",
    "MembershipRanking",
    "MomentLeakage",
    "NoisyMoment",
    "NullBand",
    "PLDLaplace",
    "Population",
    "PrivateComponents",
    "aggregate",
    "as_components",
    "attack",
    "auc_by_components",
    "components",
    "components_of",
    "crossover",
    "decide",
    "eps_prime",
    "explained_variance",
    "intercept_by_party_count",
    "intercept_each",
    "join",
    "leverage",
    "leverage_scores",
    "likelihood_ratio",
    "mean",
    "measure",
    "noisy_moment",
    "null_band",
    "random_subspace",
    "rank_for_variance",
    "rank_suspects",
    "reconstruction_error",
    "release",
    "scores",
    "second_moment",
    "second_moment_of_blocks",
    "share_out",
    "utility",
]
