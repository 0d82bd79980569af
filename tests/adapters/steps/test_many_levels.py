"""A category of many levels on a large table: the indicators stay sparse, and every figure is that of the array."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import dosimeter as dm
from dosimeter.adapters.steps import feature, one_hot
from dosimeter.models import given_design

RNG = np.random.default_rng(4)
N = 90
PLACES = np.array([f"z{k:02d}" for k in range(12)])[RNG.permutation(np.resize(np.arange(12), N))]
FRAME = pd.DataFrame({"age": RNG.normal(50.0, 10.0, N), "place": PLACES})
CLASSES = (RNG.random(N) < 0.5).astype(int)
COUNTS = RNG.poisson(1.5, N).astype(float)


def pipeline(model, **encoder):
    columns = make_column_transformer((OneHotEncoder(**encoder), ["place"]), (StandardScaler(), ["age"]))
    return make_pipeline(columns, model)


@pytest.fixture
def stays_sparse(monkeypatch):
    monkeypatch.setattr(feature, "LARGE", 0)
    monkeypatch.setattr(one_hot, "MANY", 2)


MODELS = {
    "logistic": (pipeline(LogisticRegression()), CLASSES),
    "first level dropped": (pipeline(LogisticRegression(), drop="first"), CLASSES),
    "rare levels pooled": (pipeline(LogisticRegression(), min_frequency=8), CLASSES),
    "poisson": (pipeline(PoissonRegressor(alpha=0.1, max_iter=1000)), COUNTS),
    "ridge": (pipeline(Ridge(alpha=0.5)), COUNTS),
    "penalised intercept": (pipeline(LinearSVC(C=0.3, tol=1e-8, max_iter=100_000)), CLASSES),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_category_that_stays_sparse_has_the_figures_of_the_array(name, stays_sparse, monkeypatch):
    model, y = MODELS[name]
    fitted = model.fit(FRAME, y)
    options = {"person": [f"p{k // 2}" for k in range(N)], "noise": dm.Gaussian(0.5)}
    leak = dm.measure(fitted, FRAME, y, **options)
    assert sparse.issparse(leak.design.X)
    monkeypatch.setattr(feature, "LARGE", 1 << 24)
    oracle = dm.measure(fitted, FRAME, y, **options)
    assert isinstance(oracle.design.X, np.ndarray)
    for reading in ("examples", "labels"):
        np.testing.assert_allclose(getattr(leak, reading), getattr(oracle, reading), rtol=1e-7)
    np.testing.assert_allclose(leak.cells[["age", "place"]], oracle.cells[["age", "place"]], rtol=1e-7)
    np.testing.assert_allclose(list(leak.persons.values()), list(oracle.persons.values()), rtol=1e-7)
    assert leak.attributes == pytest.approx(oracle.attributes, rel=1e-7)
    assert leak.dataset == pytest.approx(oracle.dataset, rel=1e-7)
    assert leak.result(limit=1.0).to_json()


@pytest.mark.parametrize("shared", [True, False])
def test_a_place_that_all_rows_of_a_person_share_has_the_figures_of_the_array(shared, stays_sparse, monkeypatch):
    model, y = MODELS["logistic"]
    frame = FRAME.assign(place=np.sort(PLACES))
    who = [f"{place}-{k // 3}" for k, place in enumerate(frame["place"])]  # one, two or three rows each
    fitted = model.fit(frame, y)
    options = {"person": who, "noise": dm.Gaussian(0.5), **({} if shared else {"not_tied": ["place"]})}
    leak = dm.measure(fitted, frame, y, **options)
    monkeypatch.setattr(feature, "LARGE", 1 << 24)
    oracle = dm.measure(fitted, frame, y, **options)
    assert leak.tied == oracle.tied == (("place",) if shared else ())
    np.testing.assert_allclose(leak.cells, oracle.cells, rtol=1e-9)
    assert leak.persons == pytest.approx(oracle.persons, rel=1e-9)
    assert leak.attributes == pytest.approx(oracle.attributes, rel=1e-9)
    assert leak.dataset == pytest.approx(oracle.dataset, rel=1e-9)
    np.testing.assert_allclose(leak.left, oracle.left, rtol=1e-9)


def test_what_a_scaler_leaves_beside_indicators_is_that_of_the_array(stays_sparse, monkeypatch):
    for scaler in (StandardScaler(), MinMaxScaler()):
        columns = make_column_transformer((OneHotEncoder(), ["place"]), (scaler, ["age"]))
        model = make_pipeline(columns, LogisticRegression()).fit(FRAME, CLASSES)
        leak = dm.measure(model, FRAME, CLASSES, noise=dm.Gaussian(0.5))
        with monkeypatch.context() as written_out:
            written_out.setattr(feature, "LARGE", 1 << 24)
            oracle = dm.measure(model, FRAME, CLASSES, noise=dm.Gaussian(0.5))
        assert sparse.issparse(leak.design.X)
        assert not sparse.issparse(oracle.design.X)
        assert oracle.left.max() > 0
        np.testing.assert_allclose(leak.left, oracle.left, rtol=1e-9)
        counted = oracle.result(limit=1.0).scaler.counted
        assert counted > oracle.left.max()
        assert leak.result(limit=1.0).scaler.counted == pytest.approx(counted, rel=1e-9)
    model, y = MODELS["logistic"]
    with pytest.raises(dm.CannotMeasure, match="not available beside a category of this many levels"):
        dm.measure(model.fit(FRAME, y), FRAME, y, noise=dm.Gaussian(0.5), scaler="total")


def test_three_classes_are_written_out_if_small_and_refused_by_name_if_not(stays_sparse, monkeypatch):
    y = RNG.integers(0, 3, N)
    model = pipeline(LogisticRegression()).fit(FRAME, y)
    assert isinstance(dm.measure(model, FRAME, y, noise=dm.Gaussian(0.5)).design.X, np.ndarray)
    monkeypatch.setattr(given_design, "WRITTEN_OUT", 0)
    with pytest.raises(dm.CannotMeasure, match="columns of indicators is not measured"):
        dm.measure(model, FRAME, y, noise=dm.Gaussian(0.5))
