"""A category of many levels on a large table: the indicators stay sparse, and every figure is that of the array."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import dosimeter as dm
from dosimeter.adapters.steps import feature, one_hot
from dosimeter.models import given_model

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


def test_three_classes_are_written_out_if_small_and_refused_by_name_if_not(stays_sparse, monkeypatch):
    y = RNG.integers(0, 3, N)
    model = pipeline(LogisticRegression()).fit(FRAME, y)
    assert isinstance(dm.measure(model, FRAME, y, noise=dm.Gaussian(0.5)).design.X, np.ndarray)
    monkeypatch.setattr(given_model, "WRITTEN_OUT", 0)
    with pytest.raises(dm.CannotMeasure, match="columns of indicators is not measured"):
        dm.measure(model, FRAME, y, noise=dm.Gaussian(0.5))
