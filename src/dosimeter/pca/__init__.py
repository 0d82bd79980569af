"""[Zari22]: principal components, what they tell about membership, and components that resist."""

from dosimeter.pca.components import Components, components, components_of, mean, second_moment, second_moment_of_blocks

__all__ = ["Components", "components", "components_of", "mean", "second_moment", "second_moment_of_blocks"]
