"""Made-up texts, and the oracle of a text pipeline: refits of its final estimator on moved counts, all else frozen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.preprocessing import Normalizer

Array = NDArray[Any]
VOCABULARY = [f"w{k:02d}" for k in range(24)]


def documents(n: int = 40, seed: int = 3) -> list[str]:
    """Texts of 3 to 11 words, some of them rare."""
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, len(VOCABULARY) + 1) ** 0.7
    sizes = rng.integers(3, 12, n)
    return [" ".join(rng.choice(VOCABULARY, size=size, p=shares / shares.sum())) for size in sizes]


TEXTS = documents()
RNG = np.random.default_rng(5)
SCORE = np.array([text.count("w00") - text.count("w01") + 0.5 * text.count("w02") for text in TEXTS])
CLASS = (SCORE + RNG.logistic(size=len(TEXTS)) > 0.3).astype(int)
NUMBER = SCORE + RNG.normal(size=len(TEXTS))
PERSON = RNG.integers(0, 15, len(TEXTS))


def counts_of(vectorizer: Any, texts: list[str]) -> Array:
    """(n, m) the counts before TF-IDF and norm."""
    if isinstance(vectorizer, HashingVectorizer):
        return np.asarray(clone(vectorizer).set_params(norm=None).transform(texts).toarray())
    return np.asarray(CountVectorizer.transform(vectorizer, texts).toarray(), dtype=float)


def frozen(vectorizer: Any) -> Callable[[Array], Array]:
    """Counts -> what the vectorizer makes of them, as fitted."""
    if isinstance(vectorizer, TfidfVectorizer):
        weights = TfidfTransformer(norm=vectorizer.norm, use_idf=vectorizer.use_idf)
        if vectorizer.use_idf:
            weights.idf_ = vectorizer.idf_
        else:
            weights.fit(np.ones((1, len(vectorizer.vocabulary_))))
        return lambda counts: np.asarray(weights.transform(counts).toarray())
    if isinstance(vectorizer, HashingVectorizer) and vectorizer.norm:
        return lambda counts: np.asarray(Normalizer(vectorizer.norm).transform(counts))
    return lambda counts: counts


def design_of(pipeline: Any, counts: Array) -> Array:
    """(n, d) the final estimator's columns for moved counts."""
    X = frozen(pipeline[0])(counts)
    for step in pipeline[1:-1]:
        X = step.transform(X)
        X = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
    return X


def moved_weights(
    pipeline: Any, y: Array, row: int, refit: Callable[[Array, Array], Array], *, upwards: bool = False
) -> Array:
    """(p, m) how the released numbers move with each count of a row, by differences of refits.

    upwards: only larger counts are tried, for norms that have a corner at zero."""
    counts = counts_of(pipeline[0], TEXTS)

    def moved(j: int, by: float) -> Array:
        other = counts.copy()
        other[row, j] += by
        return refit(design_of(pipeline, other), y)

    columns = []
    for j in range(counts.shape[1]):
        if upwards:
            start, h = moved(j, 0.0), 3e-4
            # Three points on one side: the error is of third order.
            ends = [moved(j, k * h) - start for k in (1, 2, 3)]
            columns.append((3 * ends[0] - 1.5 * ends[1] + ends[2] / 3) / h)
        else:
            slopes = [(moved(j, h) - moved(j, -h)) / (2 * h) for h in (2e-3, 1e-3)]
            columns.append((4 * slopes[1] - slopes[0]) / 3)
    return np.array(columns).T


def squared_hinge(X: Array, y: Array, C: float = 1.0) -> Array:
    """Weights and intercept of liblinear's squared hinge, its intercept penalised, by Newton's method."""
    Z, signs = np.column_stack([X, np.ones(len(X))]), 2.0 * y - 1.0
    w = np.zeros(Z.shape[1])
    for _ in range(100):
        inside = signs * (Z @ w) < 1.0
        gradient = w - 2 * C * Z[inside].T @ (signs[inside] * (1.0 - signs[inside] * (Z[inside] @ w)))
        step = np.linalg.solve(np.eye(len(w)) + 2 * C * Z[inside].T @ Z[inside], gradient)
        w = w - step
        if np.abs(step).max() < 1e-14:
            break
    return w


def weights_of(model: Any) -> Array:
    """Coefficients and intercepts of a fitted model as one vector."""
    return np.concatenate([np.ravel(model.coef_), np.ravel(model.intercept_)])
