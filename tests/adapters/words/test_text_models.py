"""Figures of text pipelines against refits on moved counts, and against the dense route."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.svm import LinearSVC

import dosimeter as dm
from tests.adapters.words.texts import (
    CLASS,
    NUMBER,
    PERSON,
    TEXTS,
    Array,
    counts_of,
    design_of,
    moved_weights,
    squared_hinge,
    weights_of,
)

LOGISTIC = LogisticRegression(tol=1e-12, solver="newton-cholesky")
SVC = LinearSVC(dual=False, tol=1e-13, max_iter=100_000)
POISSON = PoissonRegressor(solver="newton-cholesky", tol=1e-12)
COUNTS = np.abs(NUMBER).round()
PIPELINES: dict[str, tuple[list[Any], Array]] = {
    "counts": ([CountVectorizer(), LOGISTIC], CLASS),
    "counts, ridge": ([CountVectorizer(), Ridge()], NUMBER),
    "counts, poisson": ([CountVectorizer(), POISSON], COUNTS),
    "counts, ridge classifier": ([CountVectorizer(), RidgeClassifier()], CLASS),
    "counts, svc": ([CountVectorizer(), SVC], CLASS),
    "hashed": ([HashingVectorizer(n_features=32), LOGISTIC], CLASS),
    "hashed, no norm": ([HashingVectorizer(n_features=32, norm=None), Ridge()], NUMBER),
    "hashed, l1": ([HashingVectorizer(n_features=32, norm="l1", alternate_sign=False), Ridge()], NUMBER),
    "tf-idf": ([TfidfVectorizer(), LOGISTIC], CLASS),
    "tf-idf, ridge": ([TfidfVectorizer(), Ridge()], NUMBER),
    "tf-idf, svc": ([TfidfVectorizer(), SVC], CLASS),
    "tf-idf without norm": ([TfidfVectorizer(norm=None), LOGISTIC], CLASS),
    "tf-idf without idf": ([TfidfVectorizer(use_idf=False), LOGISTIC], CLASS),
    "counts, then tf-idf": ([CountVectorizer(), TfidfTransformer(), LOGISTIC], CLASS),
    "scaled by the largest": ([CountVectorizer(), MaxAbsScaler(), LOGISTIC], CLASS),
    "scaled by the deviation": ([TfidfVectorizer(), StandardScaler(with_mean=False), LOGISTIC], CLASS),
    "selected": ([CountVectorizer(), SelectKBest(chi2, k=10), LOGISTIC], CLASS),
    "selected behind a norm": ([TfidfVectorizer(), SelectKBest(chi2, k=10), LOGISTIC], CLASS),
    "projected": ([TfidfVectorizer(), TruncatedSVD(4, random_state=0), LOGISTIC], CLASS),
    "projected and normalised": (
        [TfidfVectorizer(), TruncatedSVD(4, random_state=0), Normalizer(), LOGISTIC],
        CLASS,
    ),
    "projected and standardised": (
        [CountVectorizer(), TruncatedSVD(4, random_state=0), StandardScaler(), Ridge()],
        NUMBER,
    ),
    "three classes": ([TfidfVectorizer(), LOGISTIC], np.digitize(NUMBER, [-0.5, 0.5])),
}


def fitted(name: str) -> tuple[Any, Array]:
    steps, y = PIPELINES[name]
    return make_pipeline(*(clone(step) for step in steps)).fit(TEXTS, y), y


def refit(final: Any) -> Any:
    if isinstance(final, LogisticRegression) and len(final.classes_) > 2:
        contrast = dm.glm.Softmax(len(final.classes_), "mean").contrast
        return lambda X, y: (_rows(clone(final).fit(X, y)).T @ contrast).ravel()
    if isinstance(final, LinearSVC):
        return squared_hinge
    return lambda X, y: weights_of(clone(final).fit(X, y))


def _rows(model: Any) -> Array:
    return np.column_stack([model.coef_, model.intercept_])


@pytest.mark.parametrize("name", PIPELINES)
def test_a_text_has_the_figure_of_refits_on_its_counts(name: str) -> None:
    pipeline, y = fitted(name)
    leak = dm.measure(pipeline, TEXTS, y, noise=dm.Gaussian(1.0))
    row = 17
    J = moved_weights(pipeline, y, row, refit(pipeline[-1]), upwards="l1" in name)
    assert leak.cell("text")[row] == pytest.approx(np.linalg.norm(J, 2), rel=1e-6)


@pytest.mark.parametrize("name", ["counts, ridge", "tf-idf, ridge", "hashed, l1"])
def test_a_row_counts_its_label_too(name: str) -> None:
    pipeline, y = fitted(name)
    leak, again = dm.measure(pipeline, TEXTS, y, noise=dm.Gaussian(1.0)), refit(pipeline[-1])
    X, row = design_of(pipeline, _counts(pipeline)), 4
    up, down = y.copy(), y.copy()
    up[row], down[row] = y[row] + 0.5, y[row] - 0.5
    J = np.column_stack([moved_weights(pipeline, y, row, again, upwards="l1" in name), again(X, up) - again(X, down)])
    assert leak.examples[row] == pytest.approx(np.linalg.norm(J, 2), rel=1e-6)


@pytest.mark.parametrize("name", ["counts, ridge", "tf-idf", "hashed", "selected behind a norm", "projected"])
def test_a_person_has_the_figure_of_all_their_documents(name: str) -> None:
    pipeline, y = fitted(name)
    leak = dm.measure(pipeline, TEXTS, y, person=PERSON, known_target=True, noise=dm.Gaussian(1.0))
    person = int(np.bincount(PERSON).argmax())
    rows = np.flatnonzero(person == PERSON)
    J = np.hstack([moved_weights(pipeline, y, int(row), refit(pipeline[-1])) for row in rows])
    assert len(rows) > 2
    assert leak.persons[person] == pytest.approx(np.linalg.norm(J, 2), rel=1e-6)


@pytest.mark.parametrize("name", ["counts", "tf-idf", "hashed", "projected"])
def test_the_words_of_a_text_have_the_figures_of_their_counts(name: str) -> None:
    pipeline, y = fitted(name)
    leak, row = dm.measure(pipeline, TEXTS, y, noise=dm.Gaussian(1.0)), 11
    norms = np.linalg.norm(moved_weights(pipeline, y, row, refit(pipeline[-1])), axis=0)
    counts = _counts(pipeline)[row]
    frame = leak.words_frame([row], k=100)
    assert len(frame["word"]) == np.count_nonzero(counts)
    assert sorted(frame["eta"]) == pytest.approx(sorted(norms[counts != 0]), rel=1e-6)
    assert (np.diff(frame["eta"]) <= 0).all()
    if name != "hashed":
        places = [pipeline[0].vocabulary_[word] for word in frame["word"]]
        assert list(frame["eta"]) == pytest.approx(norms[places], rel=1e-6)
        assert list(frame["count"]) == list(counts[places])
    absent = leak.words_frame([row], k=1, absent=True)
    assert absent["eta"][0] == pytest.approx(norms[counts == 0].max(), rel=1e-6)


def _counts(pipeline: Any) -> Array:
    return counts_of(pipeline[0], TEXTS)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.csr_array])
def test_a_sparse_table_has_the_figures_of_the_dense_one(kind: Any) -> None:
    X = CountVectorizer().fit_transform(TEXTS)
    model = clone(LOGISTIC).fit(X, CLASS)
    dense = dm.measure(model, X.toarray(), CLASS, noise=dm.Gaussian(0.5))
    leak = dm.measure(model, kind(X), CLASS, noise=dm.Gaussian(0.5))
    assert leak.examples == pytest.approx(dense.examples, rel=1e-9)
    assert leak.cells == pytest.approx(dense.cells, rel=1e-9)


def test_a_scaled_intercept_of_liblinear_behind_counts_is_read_on_a_table_that_is_written_out(monkeypatch):
    """As the weight of a column of that number, by scikit-learn's Newton method."""
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression(solver="liblinear", intercept_scaling=3.0))
    leak = dm.measure(pipeline.fit(TEXTS, CLASS), TEXTS, CLASS, noise=dm.Gaussian(1.0), known_target=True)
    counts = pipeline[0].transform(TEXTS).toarray().astype(float)

    def weights(X: Array) -> Array:
        rows = np.column_stack([X, np.full(len(X), 3.0)])
        model = clone(LOGISTIC).set_params(fit_intercept=False).fit(rows, CLASS)
        return np.append(model.coef_[0, :-1], 3.0 * model.coef_[0, -1])

    moves = []
    for j in range(counts.shape[1]):
        step = np.zeros_like(counts)
        step[2, j] = 1e-4
        moves.append((weights(counts + step) - weights(counts - step)) / 2e-4)
    largest = np.linalg.svd(np.array(moves), compute_uv=False)[0]
    assert np.asarray(leak.examples)[2] == pytest.approx(largest, rel=1e-5)
    monkeypatch.setattr("dosimeter.adapters.words.design.WRITTEN_OUT", 10)
    with pytest.raises(dm.CannotMeasure, match="a penalty for each weight, such as intercept_scaling other than 1"):
        dm.measure(pipeline, TEXTS, CLASS, noise=dm.Gaussian(1.0))
