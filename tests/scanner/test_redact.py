"""A redacted model predicts the same and holds no people; where that is impossible it is refused."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
import skops.io
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import KNNImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from skops.io import get_untrusted_types

import dosimeter as dm
from dosimeter.core.errors import Refusal
from dosimeter.scanner import scan
from tests.scanner.people import X, Y, dump_model, table
from tests.scanner.test_members import mlflow_folder

ROWS = {f"x{j}": X[:, j] for j in range(30)}


def _load(path: Path):
    return skops.io.load(path, trusted=get_untrusted_types(file=path))


def test_labels_of_the_training_rows_are_removed_and_predictions_stay(tmp_path: Path) -> None:
    model = make_pipeline(StandardScaler(), KMeans(4, n_init=1, random_state=0)).fit(X)
    path = dump_model(model, tmp_path)
    result = dm.scan(path, data=ROWS, redact=tmp_path / "clean.skops")
    assert result.removed == ["steps[1].labels_"]
    clean = _load(tmp_path / "clean.skops")
    assert np.array_equal(clean.predict(X), model.predict(X))
    assert not hasattr(clean[-1], "labels_")
    assert not scan(tmp_path / "clean.skops", table()).values_inside


@pytest.mark.parametrize("model", [SVC(), KNeighborsClassifier()])
def test_a_model_that_predicts_with_its_rows_is_refused_and_nothing_is_written(model, tmp_path: Path) -> None:
    path = dump_model(model.fit(X, Y), tmp_path)
    with pytest.raises(Refusal, match="predicts with"):
        dm.scan(path, redact=tmp_path / "clean.skops")
    assert not (tmp_path / "clean.skops").exists()


def test_rows_that_only_fill_gaps_are_predicted_with(tmp_path: Path) -> None:
    """Without a gap in its input KNNImputer does not look at its rows."""
    gaps = X[:60].copy()
    gaps[::7, 3] = np.nan
    path = dump_model(make_pipeline(KNNImputer(), Ridge()).fit(gaps, Y[:60]), tmp_path)
    with pytest.raises(Refusal, match="predicts with"):
        dm.scan(path, redact=tmp_path / "clean.skops")
    assert not (tmp_path / "clean.skops").exists()


@pytest.mark.parametrize("bounds", [(0, 1), (-1, 3)])
def test_extremes_that_a_shift_and_a_scale_still_say_are_people(bounds, tmp_path: Path) -> None:
    """-min_ / scale_ is the smallest value of each column."""
    scaler = MinMaxScaler(bounds).fit(X)
    path = dump_model(make_pipeline(scaler, Ridge()).fit(X, Y), tmp_path)
    assert np.allclose((bounds[0] - scaler.min_) / scaler.scale_, X.min(axis=0))
    with pytest.raises(Refusal, match="people are still in"):
        dm.scan(path, data=ROWS, redact=tmp_path / "clean.skops")


def test_a_model_that_refuses_some_inputs_is_compared_on_the_others(tmp_path: Path) -> None:
    levels = np.arange(120).reshape(60, 2) % 3
    model = make_pipeline(OneHotEncoder(), KMeans(3, n_init=1, random_state=0)).fit(levels)
    path = dump_model(model, tmp_path)
    assert dm.scan(path, redact=tmp_path / "clean.skops").removed == ["steps[1].labels_"]
    assert np.array_equal(_load(tmp_path / "clean.skops").predict(levels), model.predict(levels))


def test_an_array_that_is_not_looked_into_does_not_stay(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", memory=X[:40], more=np.array([{"a": 1}, None], dtype=object))
    with pytest.raises(Refusal, match="could not be looked into"):
        dm.scan(tmp_path / "m.npz", data=ROWS, redact=tmp_path / "clean.npz")
    assert not (tmp_path / "clean.npz").exists()


def test_a_residual_of_every_row_is_known_by_name(tmp_path: Path) -> None:
    path = dump_model(RidgeCV(store_cv_results=True).fit(X, Y), tmp_path)
    assert dm.scan(path, redact=tmp_path / "clean.skops").removed == ["cv_results_"]


def test_arrays_of_rows_leave_an_npz_and_the_others_stay(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", coef=np.arange(30.0), memory=X[:40])
    result = dm.scan(tmp_path / "m.npz", data=ROWS, redact=tmp_path / "clean.npz")
    assert result.removed == ["memory"]
    with np.load(tmp_path / "clean.npz") as clean:
        assert clean.files == ["coef"]
        assert np.array_equal(clean["coef"], np.arange(30.0))


def test_the_example_leaves_a_mlflow_folder_with_its_entry(tmp_path: Path) -> None:
    root = mlflow_folder(tmp_path / "model", LogisticRegression(max_iter=3000).fit(X / X.std(axis=0), Y))
    (root / "code.txt.gz").write_bytes(gzip.compress(b"an archive stays as it is\n" * 9))
    result = dm.scan(root, redact=tmp_path / "clean")
    assert result.removed == ["input_example.json"]
    assert sorted(path.name for path in (tmp_path / "clean").iterdir()) == [
        "MLmodel", "code.txt.gz", "conda.yaml", "model.pkl", "requirements.txt",
    ]  # fmt: skip
    assert (tmp_path / "clean" / "code.txt.gz").read_bytes() == (root / "code.txt.gz").read_bytes()
    described = (tmp_path / "clean" / "MLmodel").read_text()
    assert "input_example" not in described
    assert "pickled_model: model.pkl" in described
    assert "utc_time_created" in described


def test_a_folder_whose_model_keeps_rows_is_refused_whole(tmp_path: Path) -> None:
    root = mlflow_folder(tmp_path / "model", SVC().fit(X, Y))
    with pytest.raises(Refusal, match="people are still in"):
        dm.scan(root, redact=tmp_path / "clean")
    assert not (tmp_path / "clean").exists()


def test_a_clean_file_and_a_pickle_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", coef=np.zeros(3))
    with pytest.raises(Refusal, match="nothing to remove"):
        dm.scan(tmp_path / "m.npz", redact=tmp_path / "clean.npz")
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(SVC().fit(X, Y)))
    with pytest.raises(Refusal, match="cannot be redacted"):
        dm.scan(tmp_path / "m.pkl", redact=tmp_path / "clean.pkl")


BEFORE_A_PROCESS = {
    "nothing": (),
    "a scaler": (StandardScaler(),),
    "a scaler of some columns": (ColumnTransformer([("s", StandardScaler(), [0, 1])], remainder="passthrough"),),
}


@pytest.mark.parametrize("before", BEFORE_A_PROCESS)
def test_a_gaussian_process_that_answers_as_if_unfitted_without_its_rows_is_refused(
    before: str, tmp_path: Path
) -> None:
    model = make_pipeline(*BEFORE_A_PROCESS[before], GaussianProcessRegressor())
    path = dump_model(model.fit(X[:60, :3] + 1000, X[:60, 4]), tmp_path)
    with pytest.raises(Refusal, match="predicts with"):
        dm.scan(path, redact=tmp_path / "clean.skops")
    assert not (tmp_path / "clean.skops").exists()
