"""Bad files and bad options through the command line: exit 2, one line, no traceback, nothing written."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from dosimeter.cli.main import run

from ..tables.corpus import DANGEROUS, JSON, TABLES, Canary

rng = np.random.default_rng(0)


def csv(columns):
    rows = zip(*columns.values(), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"


AGE, BMI = rng.normal(50, 10, 40).round(2), rng.normal(25, 4, 40).round(2)
PEOPLE = {
    "id": [f"p{i // 2}" for i in range(40)],
    "age": AGE,
    "bmi": BMI,
    "sex": rng.choice(["f", "m"], 40),
    "ill": (AGE + BMI + rng.normal(0, 5, 40) > 75).astype(int),
    "dose": (AGE * 0.3 + BMI + rng.normal(0, 1, 40)).round(3),
}


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(csv(PEOPLE))
    return path


@pytest.mark.parametrize("case", list(TABLES))
def test_a_bad_table_ends_with_exit_2_and_one_line(case, tmp_path, refused):
    name, content, _ = TABLES[case]
    folder = tmp_path / "in"
    folder.mkdir()
    path = folder / name
    try:
        path.write_bytes(content)
    except OSError:
        pytest.skip("this file system does not take the name")
    refused(["measure", path, "--target", "city", "--doses-out", tmp_path / "d.csv", "--json", tmp_path / "f.json"])


@pytest.mark.parametrize("case", list(JSON))
def test_bad_coefficients_end_with_exit_2_and_one_line(case, people, tmp_path, refused):
    model = tmp_path / "model.json"
    model.write_bytes(JSON[case][0])
    refused(["measure", people, "--target", "dose", "--model", model, "--doses-out", tmp_path / "d.csv"])


@pytest.mark.parametrize("name", DANGEROUS)
@pytest.mark.parametrize("role", ["table", "model"])
def test_a_pickle_never_runs(name, role, people, tmp_path, refused):
    canary, bad = tmp_path / "canary", tmp_path / name
    bad.write_bytes(pickle.dumps(Canary(canary)))
    if role == "table":
        refused(["measure", bad, "--target", "dose"])
    else:
        refused(["measure", people, "--target", "dose", "--model", bad])
    assert not canary.exists()


OPTIONS = {
    "no target": [],
    "unknown target": ["--target", "doze"],
    "unknown person": ["--target", "dose", "--person", "idd"],
    "unknown nominal": ["--target", "dose", "--categorical", "sexx"],
    "unknown drop": ["--target", "dose", "--exclude", "nothing"],
    "unknown tied": ["--target", "dose", "--person", "id", "--tied", "nothing"],
    "unknown group": ["--target", "dose", "--group", "nothing"],
    "tied without person": ["--target", "dose", "--tied", "sex"],
    "tied column that varies": ["--target", "dose", "--person", "id", "--tied", "age"],
    "an identifier as a column": ["--target", "dose"],
    "target dropped": ["--target", "dose", "--exclude", "dose"],
    "person is the target": ["--target", "dose", "--person", "dose"],
    "unknown loss": ["--target", "dose", "--loss", "hinge"],
    "logistic of an amount": ["--target", "dose", "--loss", "logistic", "--person", "id"],
    "squared of text": ["--target", "sex", "--loss", "squared", "--person", "id"],
    "negative l2": ["--target", "dose", "--l2", "-1"],
    "nan l2": ["--target", "dose", "--l2", "nan"],
    "text l2": ["--target", "dose", "--l2", "much"],
    "unknown noise": ["--target", "dose", "--noise", "pink", "--scale", "1"],
    "zero scale": ["--target", "dose", "--scale", "0"],
    "negative scale": ["--target", "dose", "--scale", "-1"],
    "infinite scale": ["--target", "dose", "--scale", "inf"],
    "nan scale": ["--target", "dose", "--scale", "nan"],
    "zero limit": ["--target", "dose", "--max-dose", "0"],
    "nan limit": ["--target", "dose", "--max-dose", "nan"],
    "unknown unit": ["--target", "dose", "--unit", "inch"],
    "unknown missing": ["--target", "dose", "--missing", "guess"],
    "two-letter delimiter": ["--target", "dose", "--delimiter", "ab"],
    "wrong delimiter": ["--target", "dose", "--delimiter", ";"],
    "misspelt option": ["--taget", "dose"],
    "option without value": ["--target"],
    "a second table": ["other.csv", "--target", "dose"],
    "hostile column name": ["--target", "\x1b[2J<script>"],
    "no such model": ["--target", "dose", "--model", "nowhere.skops"],
    "model of another kind": ["--target", "dose", "--model", "model.onnx"],
    "out in a folder that is not there": ["--target", "dose", "--doses-out", "nowhere/at/all.csv"],
    "json in a folder that is not there": ["--target", "dose", "--json", "nowhere/at/all.json"],
}


@pytest.mark.parametrize("case", list(OPTIONS))
def test_a_bad_option_ends_with_exit_2_and_one_line(case, people, refused):
    refused(["measure", people, *OPTIONS[case]])


def test_an_output_that_is_the_input_is_refused(people, tmp_path, refused):
    for option in ("--doses-out", "--json"):
        refused(["measure", people, "--target", "dose", "--person", "id", option, people])
    os.link(people, tmp_path / "same.csv")
    refused(["measure", people, "--target", "dose", "--person", "id", "--doses-out", tmp_path / "same.csv"])


def test_two_outputs_in_one_file_are_refused(people, tmp_path, refused):
    refused(["measure", people, "--target", "dose", "--doses-out", tmp_path / "x", "--json", tmp_path / "x"])


def test_an_unknown_verb_and_no_paper_data_are_refused(refused):
    refused(["mesure", "people.csv"])
    refused(["reproduce", "nobody99"])
    refused(["reproduce", "hannun21", "--data", "nowhere"])
    refused(["demo", "--scale", "0"])
    refused(["demo", "--max-dose", "nan"])


def test_a_bad_settings_file_is_refused(people, monkeypatch, refused):
    (people.parent / "dosimeter.toml").write_text("measure = [")
    monkeypatch.chdir(people.parent)
    refused(["measure", people, "--target", "dose", "--person", "id"])


def test_tables_that_have_no_minimiser_are_refused(tmp_path, refused):
    separated = tmp_path / "separated.csv"
    separated.write_text(csv({"x": range(20), "ill": [0] * 10 + [1] * 10}))
    assert "l2 > 0" in refused(["measure", separated, "--target", "ill", "--l2", "0"])
    twice = tmp_path / "twice.csv"
    twice.write_text(csv({"x": AGE, "again": AGE, "y": BMI}))
    assert "linearly dependent" in refused(["measure", twice, "--target", "y", "--l2", "0"])
    constant = tmp_path / "constant.csv"
    constant.write_text(csv({"x": AGE, "y": [1.0] * 40}))
    refused(["measure", constant, "--target", "y"])
    few = tmp_path / "few.csv"
    few.write_text(csv({f"x{j}": rng.normal(size=3).round(3) for j in range(5)} | {"y": [1.0, 2.0, 4.0]}))
    refused(["measure", few, "--target", "y", "--l2", "0"])


def test_the_same_tables_are_measured_where_a_penalty_helps(tmp_path, capsys):
    twice = tmp_path / "twice.csv"
    twice.write_text(csv({"x": AGE, "again": AGE, "flat": [1] * 40, "y": BMI}))
    assert run(["measure", str(twice), "--target", "y", "--scale", "0.1"]) == 0
    assert "flat" in capsys.readouterr().out  # a constant column is left out, and said so


def test_a_model_that_cannot_be_measured_ends_with_exit_3(people, tmp_path, refused):
    import skops.io as sio
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import BayesianRidge

    X = np.column_stack([AGE, BMI])
    for model in (
        RandomForestRegressor(n_estimators=2).fit(X, PEOPLE["dose"]),
        BayesianRidge().fit(X, PEOPLE["dose"]),
    ):
        path = tmp_path / "model.skops"
        sio.dump(model, path)
        line = refused(["measure", people, "--target", "dose", "--model", path], code=3)
        assert line.count(". ") <= 1


def test_the_one_sided_exponential_ends_with_exit_3(people, refused):
    line = refused(
        ["measure", people, "--target", "dose", "--person", "id", "--noise", "exponential", "--scale", "1"],
        code=3,
    )
    assert "eq. 6" in line


def test_hostile_names_are_shown_harmlessly(tmp_path, capsys):
    nasty = "\x1b[31mage\u202e[bold]<b>"
    path = tmp_path / "n.csv"
    path.write_text(csv({f'"{nasty}"': AGE, "bmi": BMI, "dose": PEOPLE["dose"]}))
    assert run(["measure", str(path), "--target", "dose", "--scale", "0.1", "--no-color"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\\x1b[31mage\\u202e[bold]" in shown


def test_the_corpus_is_as_large_as_promised():
    assert len(TABLES) + len(JSON) + len(DANGEROUS) + len(OPTIONS) >= 120


def test_a_model_whose_parts_do_not_fit_each_other_is_refused(people, tmp_path, refused):
    import skops.io as sio
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = np.column_stack([AGE, BMI])
    for alter in (
        lambda model: setattr(model[-1], "coef_", np.array(["a", "b"])),
        lambda model: setattr(model[0], "scale_", np.ones(3)),
        lambda model: setattr(model[0], "mean_", np.ones((2, 2))),
        lambda model: delattr(model[-1], "intercept_"),
    ):
        model = make_pipeline(StandardScaler(), Ridge()).fit(X, PEOPLE["dose"])
        alter(model)
        path = tmp_path / "model.skops"
        sio.dump(model, path)
        words = ["measure", people, "--target", "dose", "--exclude", "id", "--exclude", "sex", "--exclude", "ill"]
        refused([*words, "--model", path])
        refused(["fix", *words[1:], "--model", path, "--max-dose", "1", "--out", tmp_path / "out.skops"])
        assert not (tmp_path / "out.skops").exists()
