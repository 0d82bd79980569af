"""Models of several outputs on a sparse table that is not written out: bounds around the exact joint release."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import dosimeter as dm
from dosimeter.adapters.words import design as word_design

RNG = np.random.default_rng(9)
X = sparse.random_array((21, 258), density=0.08, format="csr", rng=RNG)
X.data[:] = RNG.integers(1, 4, X.nnz)
CLASSES = np.resize(["a", "b", "c"], 21)
NUMBERS = RNG.normal(size=(21, 2))
MODELS = {
    "one against the rest": (OneVsRestClassifier(LogisticRegression(tol=1e-10, max_iter=2000)), CLASSES),
    "squared hinge": (LinearSVC(C=0.2, tol=1e-10, max_iter=200_000), CLASSES),
    "ridge classifier": (RidgeClassifier(alpha=2.0), CLASSES),
    "several targets": (Ridge(alpha=2.0), NUMBERS),
    "a model for each target": (MultiOutputRegressor(Ridge(alpha=2.0)), NUMBERS),
}


@pytest.mark.parametrize("name", MODELS)
def test_several_outputs_are_bounded_from_above_and_their_cells_are_exact(name, monkeypatch):
    model, y = MODELS[name]
    fitted = model.fit(X, y)
    options = {"person": [f"p{k // 2}" for k in range(21)], "noise": dm.Gaussian(0.5)}
    exact = dm.measure(fitted, X, y, **options)
    monkeypatch.setattr(word_design, "WRITTEN_OUT", 0)
    leak = dm.measure(fitted, X, y, **options)
    for reading in ("examples", "labels"):
        ours, theirs = (np.asarray(getattr(k, reading)) for k in (leak, exact))
        assert (ours >= theirs * (1 - 1e-7)).all(), reading
        assert (ours <= 2.0 * theirs).all(), reading
    lower, _ = leak.leak.bracket
    assert (lower <= np.asarray(exact.examples) * (1 + 1e-7)).all()
    people, theirs = (np.array(list(k.persons.values())) for k in (leak, exact))
    assert (people >= theirs * (1 - 1e-7)).all()
    cells = np.linalg.norm(exact.leak.jacobian.dense(np.array([4]))[0][:, : X.shape[1]], axis=0)
    np.testing.assert_allclose(leak.leak.cells_of([4])[0], cells, rtol=1e-6)
    assert "upper bounds" in " ".join(leak.notes)
    assert leak.result(limit=1.0).to_json()


@pytest.mark.parametrize("written_out", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_every_output_tells_of_the_scales_that_all_were_fitted_with(name, written_out, monkeypatch):
    """The floor of the same scaler on the same table as an array: √outputs times that of one."""
    model, y = MODELS[name]
    few = X[:, :6]
    few = sparse.csr_array(few.toarray() + np.arange(126).reshape(21, 6) % 7)
    pipeline = make_pipeline(StandardScaler(with_mean=False), model)
    dense = dm.measure(pipeline.fit(few.toarray(), y), few.toarray(), y, noise=dm.Gaussian(0.5))
    if not written_out:
        monkeypatch.setattr(word_design, "WRITTEN_OUT", 0)
    leak = dm.measure(pipeline.fit(few, y), few, y, noise=dm.Gaussian(0.5))
    np.testing.assert_allclose(leak.left, dense.left, rtol=1e-6)
    one = dm.measure(
        make_pipeline(StandardScaler(with_mean=False), Ridge()).fit(few, NUMBERS[:, 0]), few, NUMBERS[:, 0],
        noise=dm.Gaussian(0.5),
    )  # fmt: skip
    outputs = 2 if y is NUMBERS else 3
    np.testing.assert_allclose(leak.left, np.sqrt(outputs) * one.left, rtol=1e-6)
