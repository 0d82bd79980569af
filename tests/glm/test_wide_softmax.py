"""Several classes on a sparse table: exact routes against the dense one and refits, bounds around the exact figures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import dosimeter as dm
from dosimeter import glm
from dosimeter.adapters.words import design as word_design
from dosimeter.core.notion import Standing

UNIT = 2**0.5
"""Of a class among several."""
SHAPES = {"more columns": (24, 40), "more rows": (40, 10), "one column more": (20, 21)}


def problem(n, d, classes, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, density=0.3, random_state=rng, data_rvs=lambda k: rng.integers(1, 4, k).astype(float))
    y = rng.permutation(np.resize(np.arange(classes), n)).astype(float)
    weight = rng.uniform(0.5, 2.0, n)
    weight[3] = 0.0
    return sparse.csr_array(X), y, weight


def readings(shape, classes, intercept, weighted, route, noise):
    X, y, weight = problem(*SHAPES[shape], classes)
    options = {"intercept": intercept, "sample_weight": weight if weighted else None}
    loss = glm.Softmax(classes, "mean")
    dense = glm.fit(X.toarray(), y, loss, 0.05, **options)
    wide = glm.fit(X, y, loss, 0.05, route=route, **options)
    np.testing.assert_allclose(wide.w, dense.w, rtol=1e-7, atol=1e-9)
    return (
        glm.measure(dense, X.toarray(), y, noise, target_unit=UNIT),
        glm.measure(wide, X, y, noise, target_unit=UNIT),
        wide,
    )


def figures(leak, classes):
    """Every reading of rows and of groups, as arrays."""
    n = leak.n
    groups = np.arange(n) // 3
    steps = np.eye(classes) / UNIT
    shared = [np.arange(k, k + 2) for k in range(0, 6, 2)]
    return {
        "rows": leak.examples,
        "cells of a row": leak.without_target().examples,
        "targets": leak.labels,
        "groups": np.array(list(leak.group(groups).values())),
        "groups with one target": np.array(list(leak.group(groups, tied_target=True).values())),
        "table": np.array([leak.dataset]),
        "classes": leak.category(leak.target_positions, steps),
        "shared classes": leak.category(leak.target_positions, steps, shared),
    }


@pytest.mark.parametrize("noise", [dm.Gaussian(0.2), dm.Laplace(0.3)], ids=str)
@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_exact_routes_have_the_figures_of_the_dense_one(shape, intercept, noise):
    oracle, leak, wide = readings(shape, 4, intercept, True, None, noise)
    assert wide.route.value == ("primal" if shape == "more rows" else "dual")
    assert leak.standing is Standing.EXACT
    theirs = figures(oracle, 4)
    for name, values in figures(leak, 4).items():
        np.testing.assert_allclose(values, theirs[name], rtol=1e-8, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(leak.cells_of([0, 7]), oracle.cells[[0, 7]], rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("classes", [3, 5])
@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_enclose_the_exact_figures(shape, classes, intercept, weighted):
    oracle, leak, _ = readings(shape, classes, intercept, weighted, "iterative", dm.Gaussian(0.2))
    assert leak.standing is Standing.UPPER_BOUND
    lower, upper = leak.bracket
    assert (lower <= oracle.examples * (1 + 1e-9)).all()
    np.testing.assert_array_equal(upper, leak.examples)
    theirs = figures(oracle, classes)
    for name, values in figures(leak, classes).items():
        assert (values >= theirs[name] * (1 - 1e-9)).all(), name
    assert (leak.cells_of([0, 7]) >= oracle.cells[[0, 7]] * (1 - 1e-9)).all()
    assert (leak.attributes >= oracle.attributes * (1 - 1e-9)).all()
    if shape == "more columns":
        assert (upper <= 2.5 * oracle.examples + 1e-12).all()


def test_a_penalty_close_to_zero_and_certain_rows_stay_enclosed():
    X, _, _ = problem(24, 40, 3)
    y = np.asarray(X[:, [0, 1, 2]].toarray().argmax(axis=1), dtype=float)
    loss = glm.Softmax(3, "mean")
    dense = glm.measure(glm.fit(X.toarray(), y, loss, 1e-6), X.toarray(), y, dm.Gaussian(1.0))
    leak = glm.measure(glm.fit(X, y, loss, 1e-6, route="iterative"), X, y, dm.Gaussian(1.0))
    assert (leak.examples >= dense.examples * (1 - 1e-6)).all()
    assert (leak.bracket[0] <= dense.examples * (1 + 1e-6)).all()


def test_routes_without_a_penalty_or_with_other_parameters_are_refused():
    X, y, _ = problem(40, 10, 3)
    loss = glm.Softmax(3, "mean")
    with pytest.raises(dm.Refusal, match="needs a penalty"):
        glm.fit(X, y, loss, 0.0, route="iterative")
    with pytest.raises(dm.Refusal, match="shape"):
        glm.fit_at(X, y, loss, np.zeros((3, 3)), 0.1)


@pytest.fixture
def nothing_written_out(monkeypatch):
    monkeypatch.setattr(word_design, "WRITTEN_OUT", 0)


@pytest.mark.parametrize("shape", [(30, 257), (300, 257)], ids=["more columns", "more rows"])
def test_cells_of_a_sparse_model_of_three_classes_are_those_of_refits(nothing_written_out, shape):
    n, d = shape
    X, y, _ = problem(n, d, 3)
    exact = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=500)
    leak = dm.measure(LogisticRegression(max_iter=500).fit(X, y), X, y, noise=dm.Gaussian(1.0))
    ours = leak.leak.cells_of([5])[0]

    def weights(row, column, move):
        moved = X.toarray()
        moved[row, column] += move
        model = exact.fit(moved, y)
        return np.column_stack([model.coef_, model.intercept_])

    columns = [int(X[[5]].indices[0]), int(np.flatnonzero(X[[5]].toarray()[0] == 0)[0])]
    for column in columns:
        wide, narrow = ((weights(5, column, h) - weights(5, column, -h)) / (2 * h) for h in (2e-3, 1e-3))
        assert ours[column] == pytest.approx(float(np.linalg.norm((4 * narrow - wide) / 3)), rel=1e-6)


TEXTS = [" ".join(np.random.default_rng(k).choice([f"w{j}" for j in range(30)], size=6)) for k in range(45)]
CLASSES = np.array(["a", "b", "c"])[np.random.default_rng(1).integers(0, 3, 45)]


@pytest.mark.parametrize(
    "steps", [(CountVectorizer(),), (TfidfVectorizer(),), (CountVectorizer(), MaxAbsScaler())],
    ids=["counts", "tf-idf", "scaled counts"],
)  # fmt: skip
def test_texts_of_three_classes_are_never_below_the_figures_of_the_table_written_out(steps, monkeypatch):
    model = make_pipeline(*steps, LogisticRegression(max_iter=1000)).fit(TEXTS, CLASSES)
    persons = [f"p{k // 2}" for k in range(45)]
    exact = dm.measure(model, TEXTS, CLASSES, person=persons, noise=dm.Gaussian(0.5))
    monkeypatch.setattr(word_design, "WRITTEN_OUT", 0)
    leak = dm.measure(model, TEXTS, CLASSES, person=persons, noise=dm.Gaussian(0.5))
    equal = len(steps) == 1 and type(steps[0]) is CountVectorizer
    for name in ("examples", "labels"):
        ours, theirs = (np.asarray(getattr(k, name)) for k in (leak, exact))
        assert (ours >= theirs * (1 - 1e-7)).all(), name
        if equal:
            np.testing.assert_allclose(ours, theirs, rtol=1e-7)
    people, theirs = (np.array(list(k.persons.values())) for k in (leak, exact))
    assert (people >= theirs * (1 - 1e-7)).all()
    assert ("upper bounds" in " ".join(leak.notes)) is not equal
    words = leak.words_frame(rows=[0], k=3)
    assert len(words["word"]) == 3
    result = leak.result(limit=1.0)
    assert result.to_json()
