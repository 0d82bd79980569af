"""Folders and archives of files, and models written as text."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from dosimeter.core.errors import Refusal
from dosimeter.scanner import scan
from tests.scanner.people import NAMES, X, Y, table


def mlflow_folder(root: Path, model: object) -> Path:
    """A folder as mlflow.sklearn.save_model writes it."""
    root.mkdir()
    (root / "model.pkl").write_bytes(pickle.dumps(model))
    (root / "conda.yaml").write_text("channels:\n- conda-forge\ndependencies:\n- python=3.11\n")
    (root / "requirements.txt").write_text("scikit-learn==1.7\nnumpy\n")
    rows = {"columns": list(NAMES), "data": X[:3].tolist()}
    (root / "input_example.json").write_text(json.dumps(rows))
    (root / "MLmodel").write_text(
        "flavors:\n  sklearn:\n    pickled_model: model.pkl\nsaved_input_example_info:\n"
        "  artifact_path: input_example.json\n  type: dataframe\nutc_time_created: '2026'\n"
    )
    return root


def test_the_example_of_a_mlflow_folder_is_found_with_and_without_a_table(tmp_path: Path) -> None:
    root = mlflow_folder(tmp_path / "model", LogisticRegression(max_iter=3000).fit(X / X.std(axis=0), Y))
    result = scan(root, table())
    assert result.matched_rows == (1, 2, 3)
    assert {finding.place.split(":")[0] for finding in result.findings if finding.rows_inside} == {"input_example.json"}
    alone = [finding for finding in scan(root).findings if finding.rows_inside]
    assert [finding.place for finding in alone] == ["input_example.json"]


def test_rows_in_a_pickle_of_a_folder_are_named_with_their_file(tmp_path: Path) -> None:
    model = SVC().fit(X, Y)
    root = mlflow_folder(tmp_path / "model", model)
    result = scan(root, table())
    assert set(model.support_ + 1) <= set(result.matched_rows)
    assert any(finding.place == "model.pkl: support_vectors_" for finding in result.findings)


def test_a_link_in_a_folder_is_listed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.npy").write_bytes(b"")
    np.save(tmp_path / "secret.npy", X[:9])
    root = tmp_path / "model"
    root.mkdir()
    np.savez(root / "m.npz", coef=np.zeros(3))
    (root / "link.npy").symlink_to(tmp_path / "secret.npy")
    (root / "up").symlink_to(tmp_path)
    result = scan(root, table())
    assert not result.rows_inside
    assert sorted(place for place, _ in result.unread) == ["link.npy", "up"]


def _packed(kind: str, members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    else:
        with tarfile.open(fileobj=buffer, mode=f"w:{kind.partition('.')[2]}") as tar:
            for name, data in members.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tar.bz2", "tar.xz"])
def test_the_files_of_an_archive_are_scanned_each_by_its_kind(kind: str, tmp_path: Path) -> None:
    array = io.BytesIO()
    np.savez(array, keys=X[20:30])
    members = {
        "deep/model.npz": array.getvalue(),
        "model.skops": skops.io.dumps(SVC().fit(X[:99], Y[:99])),
        "note.txt": b"line one\nline two\n",
        "empty": b"",
    }
    (tmp_path / f"m.{kind}").write_bytes(_packed(kind, members))
    result = scan(tmp_path / f"m.{kind}", table())
    places = {finding.place for finding in result.findings if finding.rows_inside}
    assert {"deep/model.npz: keys", "model.skops: support_vectors_"} <= places
    assert set(range(21, 31)) <= set(result.matched_rows)


def test_one_damaged_file_of_an_archive_is_listed_and_the_others_are_scanned(tmp_path: Path) -> None:
    members = {"a.skops": b"PK\x03\x04 no archive", "b.npy": _npy(X[:9])}
    (tmp_path / "m.zip").write_bytes(_packed("zip", members))
    result = scan(tmp_path / "m.zip", table())
    assert result.matched_rows == tuple(range(1, 10))
    assert [place for place, _ in result.unread] == ["a.skops"]


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(Refusal, match="there is no file in it"):
        scan(tmp_path / "nothing")


def test_leaves_of_one_person_in_a_lightgbm_text_are_counted(tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    features, target = rng.normal(size=(60, 3)), rng.normal(size=60)
    options = {"min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0, "num_leaves": 31, "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(options, lightgbm.Dataset(features, target), num_boost_round=2)
    (tmp_path / "m.txt").write_text(booster.model_to_string())
    leaves = booster.trees_to_dataframe()
    singles = int((leaves["count"][leaves.left_child.isna()] == 1).sum())
    result = scan(tmp_path / "m.txt")
    (finding,) = [finding for finding in result.findings if finding.content == "leaves of one person"]
    assert singles > 0
    assert finding.count == singles
    assert result.values_inside


def test_rows_compressed_in_an_hdf5_file_are_found(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file.create_dataset("rows", data=X[:100], compression="gzip", chunks=(25, 30))
        file.create_dataset("weights", data=np.zeros(5))
    assert scan(tmp_path / "m.h5", table()).matched_rows == tuple(range(1, 101))
    with pytest.raises(Refusal, match="only its bytes can be searched"):
        scan(tmp_path / "m.h5")
