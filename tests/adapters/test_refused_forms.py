"""Models of known classes in a form that is not read: each refusal says which form, and what to do instead."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dosimeter as dm

RNG = np.random.default_rng(2)
FRAME = pd.DataFrame(RNG.normal(size=(60, 3)), columns=["age", "bmi", "crp"])
BINARY = (FRAME["age"] + RNG.logistic(size=60) > 0).astype(int).to_numpy()
NUMBERS = RNG.normal(size=(60, 2))


def refused(model, y, message):
    with pytest.raises(dm.CannotMeasure, match=message):
        dm.measure(model, FRAME, y, noise=dm.Gaussian(1.0))


def test_pipelines_inside_a_model_for_each_output_belong_before_it():
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    three = np.digitize(FRAME["age"], [-0.5, 0.5])
    refused(OneVsRestClassifier(inner).fit(FRAME, three), three, "put them first")
    several = MultiOutputRegressor(make_pipeline(StandardScaler(), Ridge())).fit(FRAME, NUMBERS)
    refused(several, NUMBERS, "put them first")


def test_a_chain_of_models_is_refused_with_the_model_to_use():
    refused(RegressorChain(Ridge()).fit(FRAME, NUMBERS), NUMBERS, "fit MultiOutputRegressor")


def test_an_l1_penalty_of_statsmodels_is_named_and_the_table_is_not_blamed():
    sm = pytest.importorskip("statsmodels.api")
    results = sm.Logit(BINARY, sm.add_constant(FRAME)).fit_regularized(alpha=1.0, disp=0)
    refused(results, BINARY, "has an L1 penalty")


def test_a_generalised_additive_model_is_named():
    sm = pytest.importorskip("statsmodels.api")
    splines = sm.gam.BSplines(FRAME[["bmi"]], df=[5], degree=[3])
    results = sm.GLMGam(BINARY, sm.add_constant(FRAME[["age"]]), smoother=splines, family=sm.families.Binomial()).fit()
    with pytest.raises(dm.Refusal, match="GLMGam"):
        dm.measure(results, FRAME, BINARY, noise=dm.Gaussian(1.0))


def test_fix_of_a_sparse_table_names_the_private_models():
    with pytest.raises(dm.CannotMeasure, match="PrivateLogisticRegression"):
        dm.fix(sparse.eye_array(6, format="csr"), "y", max_dose=1.0)


@pytest.mark.parametrize("columns", [40, 300])
def test_a_pandas_frame_of_sparse_columns_is_read_as_the_same_numbers(columns):
    X = sparse.random_array((50, columns), density=0.1, format="csr", rng=np.random.default_rng(1))
    # Not from_spmatrix: with some versions of pandas its columns are missing values instead of zeros.
    dense = pd.DataFrame(X.toarray(), columns=[f"c{j}" for j in range(columns)])
    frame = dense.astype(pd.SparseDtype("float64", 0.0))
    y = np.resize([0, 1, 1], 50)
    exact = LogisticRegression(tol=1e-10, max_iter=1000)
    oracle = dm.measure(exact.fit(X, y), X, y, noise=dm.Gaussian(1.0))
    leak = dm.measure(exact.fit(frame, y), frame, y, noise=dm.Gaussian(1.0))
    np.testing.assert_allclose(np.asarray(leak.examples), np.asarray(oracle.examples), rtol=1e-7)


def test_a_pickle_is_named_as_one_and_not_taken_for_a_table(tmp_path):
    file = tmp_path / "model.pkl"
    file.write_bytes(b"\x80\x04N.")
    with pytest.raises(dm.Refusal, match="may run its author's code"):
        dm.measure(str(file), FRAME, BINARY, noise=dm.Gaussian(1.0))


def test_a_model_without_a_figure_is_refused_before_its_target_is_asked_for():
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(3, random_state=0).fit(FRAME, BINARY)
    with pytest.raises(dm.CannotMeasure, match="dosimeter pate"):
        dm.measure(model, FRAME, noise=dm.Gaussian(1.0))
    with pytest.raises(dm.Refusal, match="name what the model predicts"):
        dm.measure(LogisticRegression().fit(FRAME, BINARY), FRAME, noise=dm.Gaussian(1.0))
