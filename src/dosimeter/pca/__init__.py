"""[Zari22]: principal components, what they tell about membership, and components that resist."""

from dosimeter.pca.components import Components, components, components_of, mean, second_moment, second_moment_of_blocks
from dosimeter.pca.distributed import Interceptions, aggregate, by_parties, intercept_each, share_out
from dosimeter.pca.likelihood import Population, leverage, leverage_scores, likelihood_ratio
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
from dosimeter.pca.residuals import intercepted

__all__ = [
    "Components",
    "Interceptions",
    "MembershipByComponents",
    "NullBand",
    "Population",
    "Suspects",
    "aggregate",
    "attack",
    "auc_by_components",
    "by_parties",
    "components",
    "components_of",
    "decide",
    "intercept_each",
    "intercepted",
    "leverage",
    "leverage_scores",
    "likelihood_ratio",
    "mean",
    "null_band",
    "reconstruction_error",
    "scores",
    "second_moment",
    "second_moment_of_blocks",
    "share_out",
    "suspects",
]
