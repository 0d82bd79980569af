"""Text pipelines of the list, with refits on moved counts as their oracle: everything before the model is frozen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from coverage_cases import BINARY, NUMBER, Array, Case, N, linear_parts, newton, squared_hinge

WORDS = [f"w{k:02d}" for k in range(16)]


def texts(seed: int = 8) -> pd.DataFrame:
    """One column of short texts."""
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, len(WORDS) + 1) ** 0.6
    sizes = rng.integers(3, 10, N)
    return pd.DataFrame({"text": [" ".join(rng.choice(WORDS, size=s, p=shares / shares.sum())) for s in sizes]})


TEXTS = texts()


def text_models() -> Iterator[Case]:
    """Vectorizers, what follows them, and the models behind them."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler
    from sklearn.svm import LinearSVC

    exact = LogisticRegression(solver="newton-cholesky", tol=1e-12)
    ridge = Ridge(alpha=0.5)
    yield _case("CountVectorizer, LogisticRegression", make_pipeline(CountVectorizer(), LogisticRegression()), exact)
    yield _case("TfidfVectorizer, LogisticRegression", make_pipeline(TfidfVectorizer(), LogisticRegression()), exact)
    hashing = HashingVectorizer(n_features=32)
    yield _case("HashingVectorizer, LogisticRegression", make_pipeline(hashing, LogisticRegression()), exact)
    yield _case("TfidfVectorizer, Ridge", make_pipeline(TfidfVectorizer(), ridge), ridge, NUMBER)
    yield _case("CountVectorizer, TfidfTransformer", make_pipeline(CountVectorizer(), TfidfTransformer(), ridge), ridge)
    yield _case("MaxAbsScaler behind counts", make_pipeline(CountVectorizer(), MaxAbsScaler(), ridge), ridge, NUMBER)
    scaled = make_pipeline(CountVectorizer(), StandardScaler(with_mean=False), ridge)
    yield _case("StandardScaler(with_mean=False) behind counts", scaled, ridge, NUMBER)
    projected = make_pipeline(TfidfVectorizer(), TruncatedSVD(4, random_state=0), ridge)
    yield _case("TruncatedSVD behind TF-IDF", projected, ridge, NUMBER)
    yield _case(
        "TfidfVectorizer, RidgeClassifier", make_pipeline(TfidfVectorizer(), RidgeClassifier()), RidgeClassifier()
    )
    svc = make_pipeline(TfidfVectorizer(), LinearSVC(dual=False, tol=1e-12))
    yield _case("TfidfVectorizer, LinearSVC", svc, newton(squared_hinge, 1.0, 1.0))


def _case(name: str, pipeline: Any, refit: Any, y: Array = BINARY) -> Case:
    solve: Callable[[Array, Array], Array] = (
        (lambda X, t: linear_parts(clone(refit).fit(X, t))) if hasattr(refit, "fit") else refit
    )
    return Case(
        name, "texts", lambda Z, t: clone(pipeline).fit(Z["text"], t), solve, y, frame=TEXTS, label_moves=False,
        cell_oracle=lambda model, row: _counts_moved(model, row, y, solve),
    )  # fmt: skip


def _counts_moved(model: Any, row: int, y: Array, solve: Callable[[Array, Array], Array]) -> float:
    """The largest singular value of the released numbers' derivative by all counts of a row."""
    counts, weigh = _counts(model[0])
    columns = []
    for j in range(counts.shape[1]):
        slopes = []
        for h in (2e-3, 1e-3):
            ends = []
            for sign in (1, -1):
                moved = counts.copy()
                moved[row, j] += sign * h
                X = weigh(moved)
                for step in model[1:-1]:
                    X = step.transform(X)
                    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
                ends.append(solve(X, y))
            slopes.append((ends[0] - ends[1]) / (2 * h))
        columns.append((4 * slopes[1] - slopes[0]) / 3)
    return float(np.linalg.norm(np.array(columns), 2))


def _counts(vectorizer: Any) -> tuple[Array, Callable[[Array], Array]]:
    """The counts, and what the vectorizer makes of them as fitted."""
    from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
    from sklearn.preprocessing import normalize

    raw = TEXTS["text"].tolist()
    if isinstance(vectorizer, HashingVectorizer):
        plain = clone(vectorizer).set_params(norm=None)
        return np.asarray(plain.transform(raw).toarray()), lambda counts: np.asarray(normalize(counts))
    counts = np.asarray(CountVectorizer.transform(vectorizer, raw).toarray(), dtype=float)
    if not isinstance(vectorizer, TfidfVectorizer):
        return counts, lambda moved: moved
    weights = TfidfTransformer()
    weights.idf_ = vectorizer.idf_
    return counts, lambda moved: np.asarray(weights.transform(moved).toarray())
