"""Formats of other libraries, in files that these libraries write: XGBoost, PMML, tokenizers, MLflow, joblib with lz4.

Libraries that are not among those of the tests are skipped; `pip install xgboost tokenizers sentencepiece nyoka` has
them all.
"""

from __future__ import annotations

import json
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from dosimeter.scanner import scan
from dosimeter.tables.table import Table
from tests.scanner.people import NAMES, X, Y, table

NAMED = [f"{first} {last}" for first in ("Ada", "Bela", "Cleo", "Dora", "Egon") for last in ("Quist", "Roth", "Sand")]
PATIENTS = Table.of({"name": NAMED, "surname": [f"{name.split()[1]}{k}x" for k, name in enumerate(NAMED)], "x": Y[:15]})


def booster(**options):
    xgboost = pytest.importorskip("xgboost")
    features = xgboost.DMatrix(X[:200], Y[:200], feature_names=list(NAMES))
    return xgboost.train({"max_depth": 3, "nthread": 1, "seed": 0, **options}, features, num_boost_round=4)


@pytest.mark.parametrize("kind", ["json", "ubj"])
def test_rows_kept_as_an_attribute_of_an_xgboost_model_are_found(kind: str, tmp_path: Path) -> None:
    model = booster()
    model.set_attr(kept=json.dumps(X[20:60].tolist()))
    model.save_model(tmp_path / f"m.{kind}")
    assert scan(tmp_path / f"m.{kind}", table()).matched_rows == tuple(range(21, 61))


@pytest.mark.parametrize("kind", ["json", "ubj"])
def test_an_xgboost_model_holds_no_rows_and_its_cut_points_are_named(kind: str, tmp_path: Path) -> None:
    booster().save_model(tmp_path / f"m.{kind}")
    result = scan(tmp_path / f"m.{kind}", table())
    assert not result.rows_inside
    if kind == "ubj":  # a binary form of the same: searched with a table alone
        return
    alone = scan(tmp_path / f"m.{kind}")
    assert "cut points" in {finding.content for finding in alone.findings}
    places = {finding.place for finding in alone.findings if finding.content == "cut points"}
    assert all("split_conditions" in place for place in places)


@pytest.mark.filterwarnings("ignore")
def test_the_neighbours_of_a_pmml_file_are_found(tmp_path: Path) -> None:
    """PMML of nearest neighbours holds the training rows as text."""
    pytest.importorskip("nyoka")
    import pandas as pd
    from nyoka import skl_to_pmml
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import Pipeline

    frame = pd.DataFrame(X[:50, :5], columns=NAMES[:5])
    model = Pipeline([("model", KNeighborsClassifier())]).fit(frame, Y[:50])
    skl_to_pmml(model, list(NAMES[:5]), "ill", str(tmp_path / "m.pmml"))
    people = Table.of(dict(zip(NAMES[:5], X[:, :5].T, strict=True)))
    # Rows with a whole number have too few others to be told from coincidences.
    found = set(scan(tmp_path / "m.pmml", people).matched_rows)
    assert found <= set(range(1, 51))
    assert len(found) >= 40
    other = Table.of(dict(zip(NAMES[:5], X[300:, :5].T, strict=True)))
    assert not scan(tmp_path / "m.pmml", other).rows_inside


def tokenizer():
    tokenizers = pytest.importorskip("tokenizers")
    result = tokenizers.Tokenizer(tokenizers.models.WordLevel(unk_token="[UNK]"))
    result.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.WordLevelTrainer(special_tokens=["[UNK]"])
    result.train_from_iterator([f"patient {name}" for name in PATIENTS["surname"]], trainer)
    return result


def test_names_in_a_tokenizer_are_found(tmp_path: Path) -> None:
    tokenizer().save(str(tmp_path / "tokenizer.json"))
    result = scan(tmp_path / "tokenizer.json", PATIENTS)
    held = [finding for finding in result.findings if finding.match is not None and finding.match.unique_rows]
    assert any(finding.match.unique_rows == tuple(range(1, 16)) for finding in held)
    words = [finding for finding in scan(tmp_path / "tokenizer.json").findings if finding.severity == "lists"]
    assert any(finding.count == 17 for finding in words)  # the names, "patient" and the unknown word


def test_names_in_a_vocabulary_file_are_found(tmp_path: Path) -> None:
    words = sorted(tokenizer().get_vocab())
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    result = scan(tmp_path / "vocab.txt", PATIENTS)
    held = [finding for finding in result.findings if finding.match is not None]
    assert any(finding.match.unique_rows == tuple(range(1, 16)) for finding in held)
    assert any(finding.severity == "lists" for finding in scan(tmp_path / "vocab.txt").findings)


def test_names_in_a_sentencepiece_model_are_found(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    texts = [name for name in PATIENTS["surname"] for _ in range(40)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=str(tmp_path / "m"), model_type="word", vocab_size=18,
        minloglevel=2,
    )  # fmt: skip
    result = scan(tmp_path / "m.model", PATIENTS)
    assert result.values_inside
    assert max(finding.count for finding in result.findings) == 15
    assert scan(tmp_path / "m.vocab", PATIENTS).findings


def test_support_vectors_are_found_in_lz4_of_joblib(tmp_path: Path) -> None:
    pytest.importorskip("lz4")
    model = SVC().fit(X, Y)
    joblib.dump(model, tmp_path / "m.joblib", compress=("lz4", 3))
    assert scan(tmp_path / "m.joblib", table()).matched_rows == tuple(sorted(model.support_ + 1))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-be"])
def test_ids_are_found_in_wide_texts_of_both_byte_orders_at_every_offset(encoding: str, tmp_path: Path) -> None:
    ids = [f"patient-{k:04d}" for k in range(50)]
    people = Table.of({"id": ids, "x": np.arange(50.0)})
    for shift in range(4):
        body = b"\x80\x04" + b"\x01" * shift + "\n".join(ids[:9]).encode(encoding)
        (tmp_path / "m.pkl").write_bytes(body)
        result = scan(tmp_path / "m.pkl", people)
        assert (result.values_inside, result.findings[0].count) == (True, 9)


@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", ">f4", "<f2", ">f2", "<i8", ">i8", "<i4", ">i4", "<i2", ">i2"])
def test_cells_are_found_at_each_of_eight_offsets(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    people = {"age": rng.integers(18, 90, 400).astype(float), "visits": rng.integers(0, 12, 400).astype(float)}
    body = np.concatenate([column.astype(kind) for column in people.values()]).tobytes()
    for shift in range(8):
        (tmp_path / "m.pkl").write_bytes(rng.bytes(1000 + shift) + body + rng.bytes(999))
        assert scan(tmp_path / "m.pkl", Table.of(people)).matched_rows == tuple(range(1, 401))


@pytest.mark.filterwarnings("ignore")
def test_the_example_in_an_mlflow_model_is_found_and_the_model_is_clean(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    import pandas as pd

    frame = pd.DataFrame(X, columns=NAMES)
    model = LogisticRegression(max_iter=5000).fit(frame, Y)
    mlflow.sklearn.save_model(model, str(tmp_path / "with"), input_example=frame[:5])
    mlflow.sklearn.save_model(model, str(tmp_path / "without"))
    result = scan(tmp_path / "with", table())
    assert result.matched_rows == (1, 2, 3, 4, 5)
    assert scan(tmp_path / "with").rows_inside
    clean = scan(tmp_path / "without", table())
    assert (clean.rows_inside, clean.values_inside) == (False, False)
