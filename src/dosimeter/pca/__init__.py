"""[Zari22]: principal components, what they tell about membership, and components that resist."""

from dosimeter.pca.components import Components, components, components_of, mean, second_moment, second_moment_of_blocks
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
    "MembershipByComponents",
    "NullBand",
    "Suspects",
    "attack",
    "auc_by_components",
    "components",
    "components_of",
    "decide",
    "intercepted",
    "mean",
    "null_band",
    "reconstruction_error",
    "scores",
    "second_moment",
    "second_moment_of_blocks",
    "suspects",
]
