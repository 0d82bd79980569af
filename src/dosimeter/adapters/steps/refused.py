"""Steps without a figure, and why."""

from __future__ import annotations

from dosimeter.adapters.steps.registry import refuse

refuse(
    "NMF",
    "MiniBatchNMF",
    "LatentDirichletAllocation",
    "DictionaryLearning",
    "MiniBatchDictionaryLearning",
    "SparseCoder",
    why="solves a problem with bounds or corners for every row, by iterations that stop early, so its output has no "
    "exact derivative; use PCA or TruncatedSVD",
)
refuse(
    "Isomap",
    "LocallyLinearEmbedding",
    "KNeighborsTransformer",
    "RadiusNeighborsTransformer",
    why="chooses neighbours among the stored rows, so its output jumps when a value moves; use PCA or a kernel map",
)
refuse(
    "RandomTreesEmbedding",
    why="sends every row to leaves of trees, so its output jumps when a value moves; use KBinsDiscretizer",
)
refuse(
    "FeatureHasher",
    "DictVectorizer",
    "PatchExtractor",
    why="takes nested records apart, whose cells have no derivative and no fixed levels; encode the columns first",
)
