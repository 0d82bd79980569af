"""Steps of texts: vectorizers, which are read on sparse tables (`adapters/words/`), and TF-IDF on columns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from dosimeter.adapters.steps.feature import Features
from dosimeter.adapters.steps.normalizer import read_normalizer
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Run, require_fitted, step_name
from dosimeter.core.errors import CannotMeasure


@step(
    "CountVectorizer",
    "TfidfVectorizer",
    "HashingVectorizer",
    route=Route.DERIVATIVE,
    remark="the unknown is a row's vector of counts, by its derivative; vocabulary and idf are held fixed; first in a "
    "pipeline, in a FeatureUnion, or as one branch of a ColumnTransformer",
)
def read_vectorizer(vectorizer: Any, features: Features, run: Run) -> Features:
    """Texts never come here as columns."""
    raise CannotMeasure(
        f"{step_name(vectorizer)} is read first in a pipeline, in a FeatureUnion, or as one branch of a "
        "ColumnTransformer, and not behind another step"
    )


@step("TfidfTransformer", route=Route.DERIVATIVE, remark="idf held fixed; the norm by its derivative")
def read_tfidf(transformer: Any, features: Features, run: Run) -> Features:
    if transformer.sublinear_tf:
        raise CannotMeasure("TfidfTransformer with sublinear_tf is read behind a CountVectorizer only")
    if transformer.use_idf:
        idf = np.asarray(require_fitted(transformer, "idf_", len(features)), dtype=np.float64)
        features = tuple(f.affine(float(k), 0.0, "idf weights") for f, k in zip(features, idf, strict=True))
    norm = transformer.norm
    return read_normalizer(SimpleNamespace(norm=norm), features, run) if norm else features
