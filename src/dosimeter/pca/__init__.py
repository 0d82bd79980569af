"""[Zari22]: principal components, what they tell about membership, and components that resist."""

from dosimeter.pca.clipping import Bounds
from dosimeter.pca.components import Components, components, components_of, mean, second_moment, second_moment_of_blocks
from dosimeter.pca.distributed import (
    Interceptions,
    Joined,
    NoisyMoment,
    aggregate,
    by_parties,
    intercept_each,
    join,
    noisy_moment,
    share_out,
)
from dosimeter.pca.fisher import MomentLeakage, measure
from dosimeter.pca.likelihood import Population, leverage, leverage_scores, likelihood_ratio
from dosimeter.pca.mechanisms import (
    AnalyticGauss,
    AnalyzeGauss,
    LaplaceAdvanced,
    LaplaceJoint,
    LaplacePriced,
    LaplaceScalar,
    LaplaceSplit,
    LaplaceVector,
)
from dosimeter.pca.membership import (
    MembershipByComponents,
    Suspects,
    attack,
    auc_by_components,
    decide,
    reconstruction_error,
    scores,
    suspects,
)
from dosimeter.pca.null_band import NullBand, null_band
from dosimeter.pca.private import PrivateComponents, release
from dosimeter.pca.residuals import intercepted
from dosimeter.pca.scales import crossover, eps_prime
from dosimeter.pca.utility import captured_energy, energy_rank, random_subspace, utility

__all__ = [
    "AnalyticGauss",
    "AnalyzeGauss",
    "Bounds",
    "Components",
    "Interceptions",
    "Joined",
    "LaplaceAdvanced",
    "LaplaceJoint",
    "LaplacePriced",
    "LaplaceScalar",
    "LaplaceSplit",
    "LaplaceVector",
    "MembershipByComponents",
    "MomentLeakage",
    "NoisyMoment",
    "NullBand",
    "Population",
    "PrivateComponents",
    "Suspects",
    "aggregate",
    "attack",
    "auc_by_components",
    "by_parties",
    "captured_energy",
    "components",
    "components_of",
    "crossover",
    "decide",
    "energy_rank",
    "eps_prime",
    "intercept_each",
    "intercepted",
    "join",
    "leverage",
    "leverage_scores",
    "likelihood_ratio",
    "mean",
    "measure",
    "noisy_moment",
    "null_band",
    "random_subspace",
    "reconstruction_error",
    "release",
    "scores",
    "second_moment",
    "second_moment_of_blocks",
    "share_out",
    "suspects",
    "utility",
]
