"""Answers of a given model behind a scaler of its own table, against refits of scaler and model together."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

import dosimeter as dm

RNG = np.random.default_rng(3)
N = 20
X = RNG.normal([50.0, 3.0], [12.0, 1.0], (N, 2))
X[0, 0] = 140.0  # one row far out
AMOUNT = 3 + 0.1 * X[:, 0] + X[:, 1] + RNG.normal(size=N)
ILL = (np.median(AMOUNT) < AMOUNT).astype(int)
THIRDS = np.digitize(AMOUNT, np.quantile(AMOUNT, [0.3, 0.7]))
QUERIES = np.array([[60.0, 3.0], [20.0, 5.0], [100.0, 2.0]])
NEWTON = {"tol": 1e-12, "max_iter": 100_000}


def ridge(*steps):
    return make_pipeline(*steps, Ridge(alpha=2.0))


def mixed():
    return make_column_transformer((StandardScaler(), [0]), (MinMaxScaler(), [1]))


MODELS = {
    "MinMaxScaler": (lambda: ridge(MinMaxScaler()), AMOUNT),
    "MaxAbsScaler": (lambda: ridge(MaxAbsScaler()), AMOUNT),
    "RobustScaler": (lambda: ridge(RobustScaler()), AMOUNT),
    "a mean alone": (lambda: ridge(StandardScaler(with_std=False)), AMOUNT),
    "a deviation alone": (lambda: ridge(StandardScaler(with_mean=False)), AMOUNT),
    "two scalers side by side": (lambda: ridge(mixed()), AMOUNT),
    "a deviation alone, no intercept": (
        lambda: make_pipeline(StandardScaler(with_mean=False), Ridge(alpha=2.0, fit_intercept=False)),
        AMOUNT,
    ),
    "a penalised intercept": (
        lambda: make_pipeline(StandardScaler(), LogisticRegression(solver="liblinear", **NEWTON)),
        ILL,
    ),
    "a penalised intercept behind a range": (
        lambda: make_pipeline(MinMaxScaler(), LogisticRegression(solver="liblinear", **NEWTON)),
        ILL,
    ),
    "three classes behind a range": (
        lambda: make_pipeline(MinMaxScaler(), LogisticRegression(solver="newton-cg", **NEWTON)),
        THIRDS,
    ),
}


def margins(model, y):
    return np.ravel(model.predict(QUERIES) if y is AMOUNT else model.decision_function(QUERIES))


def refits(made, y, cells, sides=(1, -1), table=X):
    """(answers, cells) differences of the margins, each cell moved by its column's deviation."""
    step, columns = 1e-4, []
    for row, column in cells:
        both = []
        for side in sides:
            moved = table.copy()
            moved[row, column] += side * step * table[:, column].std()
            both.append(margins(made().fit(moved, y), y))
        columns.append((both[0] - both[1]) / (step * (sides[0] - sides[1])))
    return np.column_stack(columns)


def answered(made, y, table=X, **options):
    settings = {"release": "predictions", "answer": "margins", "queries": QUERIES, "known_target": True, "unit": "sd"}
    return dm.measure(made().fit(table, y), table, y, noise=dm.Gaussian(0.5), **settings, **options)


@pytest.mark.parametrize("name", MODELS)
def test_the_figure_of_answers_goes_through_the_scaler(name):
    made, y = MODELS[name]
    leak = answered(made, y)
    assert leak.not_covered == ()
    for row in (0, 5, int(np.argmin(X[:, 1]))):
        J = refits(made, y, [(row, 0), (row, 1)])
        assert leak.examples[row] == pytest.approx(np.linalg.norm(J, 2) / 0.5, rel=2e-4)
        np.testing.assert_allclose(leak.cells[row], np.linalg.norm(J, axis=0) / 0.5, rtol=2e-4)


@pytest.mark.parametrize("name", ["MinMaxScaler", "two scalers side by side", "a penalised intercept"])
def test_the_rows_of_a_person_move_the_scaler_together_and_a_gateway_books_it(name, tmp_path):
    made, y = MODELS[name]
    ids = [f"p{k // 2}" for k in range(N)]
    leak = answered(made, y, person=ids)
    J = refits(made, y, [(row, column) for row in (0, 1) for column in (0, 1)])
    assert leak.persons["p0"] == pytest.approx(np.linalg.norm(J, 2) / 0.5, rel=2e-4)
    with dm.Ledger.create(tmp_path / "ledger.db") as ledger:
        gateway = dm.Gateway(leak, ledger, budget=50.0)
        gateway.answer({"x0": QUERIES[:, 0].tolist(), "x1": QUERIES[:, 1].tolist()})
        assert gateway.doses["p0"] == pytest.approx(leak.persons["p0"], rel=1e-9)


@pytest.mark.parametrize("name", ["MinMaxScaler", "three classes behind a range"])
def test_every_reading_of_answers_is_there_with_the_target_too(name):
    """The target moves no scaler: its own figure is that of the table scaled beforehand."""
    made, y = MODELS[name]
    model = made().fit(X, y)
    settings = {"release": "predictions", "answer": "margins", "unit": "sd", "noise": dm.Gaussian(0.5)}
    leak = dm.measure(model, X, y, queries=QUERIES, **settings)
    scaled = dm.measure(model[-1], model[0].transform(X), y, queries=model[0].transform(QUERIES), **settings)
    np.testing.assert_allclose(leak.labels, scaled.labels, rtol=1e-6)
    assert (leak.examples >= np.maximum(leak.labels, leak.cells.max(axis=1)) * (1 - 1e-9)).all()
    assert leak.result(limit=1000.0).verdict.within
    assert leak.dataset >= max(leak.attributes.values())


def test_rows_that_share_an_extreme_have_the_larger_of_their_two_derivatives():
    """Outwards the range moves, inwards it stays."""
    table = X.copy()
    table[1, 0] = table[0, 0]
    leak = answered(MODELS["MinMaxScaler"][0], AMOUNT, table)
    sides = [
        np.linalg.norm(refits(MODELS["MinMaxScaler"][0], AMOUNT, [(1, 0)], one, table)) for one in ((1, 0), (0, -1))
    ]
    assert abs(sides[0] - sides[1]) > 0.1 * max(sides)
    assert leak.cells[1, 0] == pytest.approx(max(sides) / 0.5, rel=1e-3)


def test_a_scaler_that_centres_a_model_without_an_intercept_is_refused():
    with pytest.raises(dm.CannotMeasure, match="without an intercept"):
        answered(lambda: make_pipeline(StandardScaler(), Ridge(fit_intercept=False)), AMOUNT)


def test_steps_that_are_not_derived_are_said():
    leak = answered(lambda: ridge(StandardScaler(), PolynomialFeatures(2, include_bias=False)), AMOUNT)
    assert any("what answers tell through statistics" in remark for remark in leak.remarks)
    assert leak.standing.value == "unaccounted"


def test_a_scaler_of_public_rows_adds_nothing():
    public = MinMaxScaler().fit([[0.0, 0.0], [200.0, 10.0]])
    own = Ridge(alpha=2.0).fit(public.transform(X), AMOUNT)
    options = {"release": "predictions", "queries": QUERIES, "noise": dm.Gaussian(0.5)}
    behind = dm.measure(make_pipeline(public, own), X, AMOUNT, **options)
    alone = dm.measure(own, public.transform(X), AMOUNT, **options | {"queries": public.transform(QUERIES)})
    np.testing.assert_allclose(behind.labels, alone.labels, rtol=1e-9)
