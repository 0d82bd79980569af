"""`dosimeter scan`: exit codes, what is shown, and what never is."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, QuantileTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from dosimeter.cli.main import run

rng = np.random.default_rng(3)
X = rng.normal(50, 10, (80, 4))
Y = (X @ [1, -1, 0.5, 0] + rng.normal(0, 5, 80) > 25).astype(int)
IDS = [f"CANARY-{k:03d}" for k in range(80)]
MODELS = {
    "svc": make_pipeline(StandardScaler(), SVC()).fit(X, Y),
    "knn": KNeighborsClassifier().fit(X, Y),
    "linear": make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y),
    "extremes": MinMaxScaler().fit(X),
    "levels": OneHotEncoder().fit(np.array(IDS)[:, None]),
    "tree": DecisionTreeClassifier().fit(X, np.arange(len(X)) % 7 == 0),
    "quantiles": QuantileTransformer(n_quantiles=10).fit(X),
    "means": SimpleImputer(strategy="mean").fit(X),
    "medians": SimpleImputer(strategy="median").fit(X),
}


@pytest.fixture
def given(tmp_path):
    """Models and the table they were fitted on."""
    import skops.io

    for name, model in MODELS.items():
        skops.io.dump(model, tmp_path / f"{name}.skops")
    rows = [
        ["id", "a", "b", "c", "d", "ill"],
        *([i, *map(repr, map(float, x)), str(y)] for i, x, y in zip(IDS, X, Y, strict=True)),
    ]
    (tmp_path / "people.csv").write_text("\n".join(",".join(row) for row in rows) + "\n")
    return tmp_path


def scan(folder, name, *more, data=True):
    where = ["--data", folder / "people.csv", "--person", "id"] if data else []
    return run([str(one) for one in ("scan", folder / f"{name}.skops", *where, *more)])


def test_rows_inside_end_with_exit_1_and_none_with_exit_0(given, capsys):
    codes = {name: (scan(given, name, "-q"), scan(given, name, "-q", data=False)) for name in MODELS}
    assert codes == {
        "svc": (1, 1),
        "knn": (1, 1),
        "linear": (0, 0),
        "extremes": (1, 0),  # without a table they may have been declared
        "levels": (1, 0),  # ids of people
        "tree": (1, 1),
        "quantiles": (1, 1),
        "means": (0, 0),
        "medians": (1, 1),
    }
    assert capsys.readouterr().out == ""


def test_single_peoples_values_are_the_verdict_where_no_rows_are(given, capsys):
    assert scan(given, "tree", "--json", "-") == 1
    shown = capsys.readouterr()
    facts = json.loads(shown.out)
    assert (facts["rows_inside"], facts["single_values_inside"]) == (False, True)
    assert "Single people's values inside; no rows found" in shown.err
    assert "leaves of one person" in shown.err


def test_extremes_that_were_declared_are_nobodys(given, capsys):
    import skops.io

    skops.io.dump(MinMaxScaler().fit([[-1e3] * 4, [1e3] * 4]), given / "declared.skops")
    assert scan(given, "declared", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["single_values_inside"] is False


def test_an_array_of_objects_is_not_looked_into_and_that_is_the_verdict(tmp_path, capsys):
    objects = np.array([{"a": 1}, [1, 2]], dtype=object)
    np.save(tmp_path / "m.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "m.npz", kept=objects, w=np.arange(3.0))
    assert run(["scan", str(tmp_path / "m.npy")]) == 3
    words = " ".join(capsys.readouterr().out.split())
    assert "Verdict Not looked into: nothing in this file could be read" in words
    assert "no rows found" not in words
    assert run(["scan", str(tmp_path / "m.npz")]) == 3
    words = " ".join(capsys.readouterr().out.split())
    assert "No rows found in what was looked into; 1 part was not, see below" in words
    assert "Not looked into · kept: an array of objects is a pickle" in words


def test_the_facts_name_the_rows_by_number(given, capsys):
    assert scan(given, "svc", "--json", "-") == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["schema"] == "dosimeter.scan/3"
    assert facts["rows_found"] == sorted((MODELS["svc"][-1].support_ + 1).tolist())
    assert facts["rows_inside"] is True
    first = facts["findings"][0]
    assert (first["place"], first["severity"], first["certainty"]) == ("steps[1].support_vectors_", "rows", "matched")
    assert first["match"]["expected_by_accident"] < 1e-2
    assert facts["not_covered"]


def test_words_go_to_stderr_where_json_goes_to_stdout(given, capsys):
    scan(given, "svc", "--json", "-")
    shown = capsys.readouterr()
    assert "Rows inside" in shown.err
    json.loads(shown.out)


def test_neither_ids_nor_values_are_shown_unless_asked(given, capsys):
    for name in MODELS:
        scan(given, name, "--json", str(given / f"{name}.json"))
        shown = capsys.readouterr()
        everything = shown.out + shown.err + (given / f"{name}.json").read_text()
        assert "CANARY" not in everything
        assert not any(f"{value:.6g}" in everything for value in X.ravel())


def test_ids_are_shown_when_asked(given, capsys):
    assert scan(given, "knn", "--show-ids", "--json", "-") == 1
    assert json.loads(capsys.readouterr().out)["ids_found"] == IDS
    scan(given, "svc", "--show-ids", "--json", "-")
    found = json.loads(capsys.readouterr().out)["ids_found"]
    assert found == [IDS[k] for k in sorted(MODELS["svc"][-1].support_)]


def test_a_list_of_ids_inside_a_model_is_told_with_its_rows(given, capsys):
    where = ["scan", given / "levels.skops", "--data", given / "people.csv", "--json", "-"]
    assert run([str(one) for one in where]) == 1
    facts = json.loads(capsys.readouterr().out)
    levels = next(one for one in facts["findings"] if one["place"].startswith("categories_"))
    assert (levels["severity"], levels["match"]["rows_alone"]) == ("values of single people", list(range(1, 81)))


def test_a_tolerance_finds_rows_that_were_rounded(given, capsys):
    np.save(given / "m.npy", X.round(2))
    table = ["--data", str(given / "people.csv"), "--person", "id", "--exclude", "ill", "-q"]
    assert run(["scan", str(given / "m.npy"), *table]) == 0
    assert run(["scan", str(given / "m.npy"), *table, "--tolerance", "1e-3"]) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--person", "id"], "pass --data"),
        (["--show-ids"], "pass --data and --person"),
        (["--tolerance", "0"], "above 0"),
        (["--tolerance", "nan"], "above 0"),
        (["--data", "nowhere.csv"], "no such file"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, said, given, refused):
    assert said in refused(["scan", given / "knn.skops", *options])


def test_a_person_column_that_is_not_there_is_refused(given, refused):
    line = refused(["scan", given / "knn.skops", "--data", given / "people.csv", "--person", "name"])
    assert "no column name" in line


@pytest.mark.parametrize("name", ["m.onnx", "m.skops", "m.json"])
def test_a_pickle_under_a_false_name_is_refused_in_one_line(name, given, refused):
    (given / name).write_bytes(pickle.dumps({"a": 1}))
    refused(["scan", given / name])


@pytest.mark.parametrize("name", ["m.pkl", "m.joblib", "m.pt", "m"])
def test_a_pickle_is_read_without_being_opened(name, given, capsys):
    (given / name).write_bytes(pickle.dumps({"a": 1}))
    assert run(["scan", str(given / name)]) == 0
    (given / name).write_bytes(pickle.dumps({"support_vectors_": X}))
    assert run(["scan", str(given / name)]) == 1
    assert "read without running anything in it" in capsys.readouterr().out


def test_the_output_is_never_the_input(given, refused):
    refused(["scan", given / "knn.skops", "--json", given / "knn.skops"])
    refused(["scan", given / "knn.skops", "--data", given / "people.csv", "--json", given / "people.csv"])


def test_hostile_names_inside_a_file_are_shown_harmless(given, capsys):
    (given / "m.json").write_text(json.dumps({"\x1b[2J\u202e": X.tolist(), "[red]": X.tolist()}))
    assert (
        run(["scan", str(given / "m.json"), "--data", str(given / "people.csv"), "--exclude", "id", "--exclude", "ill"])
        == 1
    )
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[red]" in shown
