"""The verbs on good input: figures, files, exit codes."""

from __future__ import annotations

import csv as csv_module
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.cli.main import run
from dosimeter.tables.bounds_file import read_bounds
from dosimeter.workflows.check_policy import read_policy
from tests import forked

from .test_bad_input import AGE, BMI, PEOPLE, csv


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(csv(PEOPLE))
    return path


def facts_of(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("writing", [(0, 1), (1, 2), ("nein", "ja"), ("false", "true"), (0.5, 7.3)])
def test_a_rare_value_above_the_limit_is_above_it_however_it_is_written(writing, tmp_path, capsys):
    """A column of two values was read by its deviation: within the limit beside a category that was above it."""
    rng = np.random.default_rng(3)
    hiv = np.zeros(200, dtype=int)
    hiv[[5, 90]] = 1
    age = rng.normal(50, 10, 200)
    score = age / 10 + hiv + rng.normal(size=200)
    rows = [f"{a:.3f},{writing[h]},{s:.4f}" for a, h, s in zip(age, hiv, score, strict=True)]
    path = tmp_path / "rare.csv"
    path.write_text("\n".join(["age,hiv,score", *rows]) + "\n")
    words = ["measure", str(path), "--target", "score", "--l2", "0", "--scale", "1", "--json", "-", "-q"]
    assert run([*words]) == 0
    facts = facts_of(capsys)
    (category,) = [one for one in facts["columns"] if one["kind"] == "category"]
    seen = np.array([row.split(",")[::2] for row in rows], dtype=float)
    A = np.column_stack([(seen[:, 0] - seen[:, 0].mean()) / seen[:, 0].std(), hiv - 0.5, np.ones(200)])
    steps = []
    for row in range(200):
        up, down = A.copy(), A.copy()
        up[row, 1] += 1e-4
        down[row, 1] -= 1e-4
        both = [np.linalg.lstsq(B, seen[:, 1], rcond=None)[0] for B in (up, down)]
        steps.append(np.linalg.norm(both[0] - both[1]) / 2e-4)
    assert category["highest"] == pytest.approx(max(steps), rel=1e-6)
    assert facts["dose"]["highest"] >= category["highest"]
    assert run([*words, "--max-dose", str(0.99 * category["highest"])]) == 1
    capsys.readouterr()
    assert run([*words, "--max-dose", str(1.0001 * facts["dose"]["highest"])]) == 0


def test_the_figures_are_those_of_the_arrays(people, capsys):
    options = "--target dose --exclude id --exclude sex --exclude ill --l2 0.02 --scale 0.5 --json - --quiet"
    assert run(["measure", str(people), *options.split()]) == 0
    facts = facts_of(capsys)
    raw = np.column_stack([AGE, BMI])
    X = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    y = PEOPLE["dose"]
    fit = glm.fit(X, y, glm.Squared(), 0.02, intercept=True)
    both = np.array([True, True])
    eta = glm.measure(fit, X, y, dm.Gaussian(0.5), target_unit=y.std(), scaled=both).examples
    assert facts["dose"]["highest"] == pytest.approx(eta.max(), rel=1e-9)
    assert facts["dose"]["typical"] == pytest.approx(np.median(eta), rel=1e-9)
    assert facts["dose"]["highest_row"] == int(eta.argmax()) + 1
    cells = glm.measure(fit, X, y, dm.Gaussian(0.5), input_map=np.diag(1 / raw.std(axis=0)), scaled=both).cells
    by_name = {c["column"]: c for c in facts["columns"]}
    assert by_name["age"]["least_deviation"] == pytest.approx(1 / cells[:, 0].max(), rel=1e-9)
    assert by_name["bmi"]["typical_deviation"] == pytest.approx(np.median(1 / cells[:, 1]), rel=1e-9)


def test_persons_with_several_rows_are_one_unit(people, tmp_path, capsys):
    out = tmp_path / "doses.csv"
    options = "--target dose --person id --scale 0.5 --json - --quiet --doses-out"
    assert run(["measure", str(people), *options.split(), str(out)]) == 0
    facts = facts_of(capsys)
    assert (facts["unit"], facts["people"], facts["rows"]) == ("person", 20, 40)
    with out.open(newline="") as handle:
        rows = list(csv_module.DictReader(handle))
    assert [row["person"] for row in rows] == [f"p{i}" for i in range(20)]
    assert max(float(row["eta_in_standard_deviations"]) for row in rows) == pytest.approx(
        facts["dose"]["highest"], rel=1e-12
    )
    if os.name == "posix":
        assert out.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("limit", "code"), [("1e-6", 1), ("1e6", 0)])
def test_the_exit_code_says_whether_the_limit_holds(limit, code, people, capsys):
    arguments = [
        "measure",
        str(people),
        "--target",
        "ill",
        "--person",
        "id",
        "--scale",
        "0.5",
        "--max-dose",
        limit,
    ]
    assert run(arguments) == code
    assert ("20 of 20 people have a dose above the limit" in capsys.readouterr().out) == (code == 1)


def test_an_exact_release_is_answered_honestly(people, capsys):
    assert run(["measure", str(people), "--target", "dose", "--person", "id", "--json", "-", "--quiet"]) == 0
    facts = facts_of(capsys)
    assert facts["dose"]["highest"] == "unbounded"
    assert [n["highest"] for n in facts["noise_needed"]] == [0.3, 1.0]
    assert 0.1 < facts["scaler"]["floor"] < 0.3  # no noise brings 40 rows to 0.1 where the scaler was fitted on them
    scale = facts["noise_needed"][1]["scale"]
    assert (
        run(
            [
                "measure",
                str(people),
                "--target",
                "dose",
                "--person",
                "id",
                "--scale",
                str(scale),
                "--json",
                "-",
                "-q",
            ]
        )
        == 0
    )
    assert facts_of(capsys)["dose"]["highest"] == pytest.approx(1.0, rel=1e-9)
    assert run(["measure", str(people), "--target", "dose", "--person", "id", "--max-dose", "5"]) == 1
    assert "Unbounded: the exact weights are released" in capsys.readouterr().out


@pytest.mark.parametrize(("target", "loss"), [("ill", "logistic"), ("sex", "logistic"), ("dose", "squared")])
def test_the_loss_follows_the_target(target, loss, people, capsys):
    assert (
        run(["measure", str(people), "--target", target, "--exclude", "id", "--scale", "1", "--json", "-", "-q"]) == 0
    )
    assert facts_of(capsys)["model"]["loss"] == loss


def test_three_classes_are_a_softmax(tmp_path, capsys):
    rng = np.random.default_rng(1)
    path = tmp_path / "three.csv"
    path.write_text(csv({"a": AGE, "b": BMI, "kind": rng.choice(["x", "y", "z"], 40)}))
    assert run(["measure", str(path), "--target", "kind", "--scale", "1", "--json", "-", "-q"]) == 0
    assert facts_of(capsys)["model"]["loss"] == "softmax"


def test_a_fitted_pipeline_from_a_file_is_measured_by_its_source_columns(people, tmp_path, capsys):
    import pandas as pd
    import skops.io as sio
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame = pd.read_csv(people)
    before = make_column_transformer((StandardScaler(), ["age", "bmi"]), (OneHotEncoder(drop="first"), ["sex"]))
    model = make_pipeline(before, Ridge(alpha=1.0)).fit(frame[["age", "bmi", "sex"]], frame["dose"])
    sio.dump(model, tmp_path / "model.skops")
    arguments = [
        "measure",
        str(people),
        "--target",
        "dose",
        "--model",
        str(tmp_path / "model.skops"),
        "--scale",
        "0.5",
    ]
    assert run([*arguments, "--unit", "raw", "--json", "-", "-q"]) == 0
    facts = facts_of(capsys)
    assert {c["column"] for c in facts["columns"]} == {"age", "bmi", "sex"}
    leak = dm.measure(model, frame[["age", "bmi", "sex"]], frame["dose"], noise=dm.Gaussian(0.5))
    assert facts["dose"]["highest"] == pytest.approx(leak.examples.max(), rel=1e-9)


def test_bare_coefficients_from_a_file_are_measured(people, tmp_path, capsys):
    X = np.column_stack([AGE, BMI])
    fit = glm.fit(X, PEOPLE["dose"], glm.Squared(), 0.1, intercept=True)
    given = {"loss": "squared", "l2": 0.1, "intercept": fit.w[2], "coef": {"age": fit.w[0], "bmi": fit.w[1]}}
    (tmp_path / "w.json").write_text(json.dumps(given))
    arguments = [
        "measure",
        str(people),
        "--target",
        "dose",
        "--model",
        str(tmp_path / "w.json"),
        "--scale",
        "1",
        "--unit",
        "raw",
    ]
    assert run([*arguments, "--json", "-", "-q"]) == 0
    eta = glm.measure(fit, X, PEOPLE["dose"], dm.Gaussian(1.0)).examples
    assert facts_of(capsys)["dose"]["highest"] == pytest.approx(eta.max(), rel=1e-9)


def test_parquet_gives_the_figures_of_the_csv(people, tmp_path, capsys):
    pandas = pytest.importorskip("pandas")
    pandas.read_csv(people).to_parquet(tmp_path / "people.parquet")
    found = []
    for path in (people, tmp_path / "people.parquet"):
        assert run(["measure", str(path), *"--target dose --person id --scale 1 --json - -q".split()]) == 0
        found.append(facts_of(capsys))
    assert found[0] == found[1]


def test_rows_with_holes_are_refused_with_their_place_or_dropped_on_request(tmp_path, capsys):
    path = tmp_path / "holes.csv"
    bmi = [str(v) for v in BMI]
    bmi[6] = ""
    path.write_text(csv({"age": AGE, "bmi": bmi, "dose": PEOPLE["dose"]}))
    assert run(["measure", str(path), "--target", "dose"]) == 2
    line = capsys.readouterr().err
    assert "row 7" in line
    assert "bmi" in line
    assert run(["measure", str(path), *"--target dose --missing drop --scale 1 --json - -q".split()]) == 0
    facts = facts_of(capsys)
    assert (facts["rows"], facts["dropped_rows"]) == (39, 1)


def test_row_numbers_are_those_of_the_file_when_rows_were_dropped(tmp_path, capsys):
    path = tmp_path / "holes.csv"
    age = AGE.copy()
    age[30] = 1000.0  # far out, so the most exposed
    bmi = [str(v) for v in BMI]
    bmi[3] = ""
    path.write_text(csv({"age": age, "bmi": bmi, "dose": PEOPLE["dose"]}))
    assert run(["measure", str(path), *"--target dose --missing drop --scale 1 --json - -q".split()]) == 0
    assert facts_of(capsys)["dose"]["highest_row"] == 31


def test_ids_are_shown_only_on_request(people, capsys):
    arguments = ["measure", str(people), "--target", "dose", "--person", "id", "--scale", "1"]
    assert run(arguments) == 0
    hidden = capsys.readouterr().out
    assert "person p" not in hidden
    assert "the person of row" in hidden
    assert run([*arguments, "--show-ids"]) == 0
    assert "person p" in capsys.readouterr().out


def test_no_cell_of_the_table_appears_in_what_is_shown_or_written(tmp_path, capsys):
    rng = np.random.default_rng(5)
    x = rng.normal(0, 1, 50) * 7919 + 104729
    names = [f"canary{i:03d}" for i in range(25)] * 2
    path = tmp_path / "t.csv"
    path.write_text(csv({"who": names, "x": x, "y": x / 7919 + rng.normal(0, 1, 50)}))
    assert (
        run(
            [
                "measure",
                str(path),
                "--target",
                "y",
                "--person",
                "who",
                "--scale",
                "1",
                "--json",
                str(tmp_path / "f.json"),
            ]
        )
        == 0
    )
    seen = capsys.readouterr()
    text = seen.out + seen.err + (tmp_path / "f.json").read_text()
    assert not [v for v in x if f"{v}" in text]
    assert "canary" not in text


def test_demo_tells_the_whole_story(capsys, tmp_path):
    assert run(["demo", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for words in (
        "typical",
        "worst 1 %",
        "highest",
        "What a dose means",
        "without the release",
        "the limit",
        "Groups",
        "Columns that leak most",
        "Checked by attack",
        "Verdict",
        "Not covered",
    ):
        assert words in shown


def test_demo_ends_with_exit_0_whatever_the_verdict(capsys, tmp_path):
    for limit in ("0.001", "1000"):
        assert run(["demo", "--max-dose", limit, "--out", str(tmp_path), "--json", "-", "-q"]) == 0
        assert facts_of(capsys)["verdict"]["within"] == (limit == "1000")


def test_settings_come_from_the_file_the_environment_and_the_options_in_that_order(people, monkeypatch, capsys):
    (people.parent / "dosimeter.toml").write_text('[measure]\nscale = 0.5\ntarget = "dose"\nperson = "id"\n')
    monkeypatch.chdir(people.parent)
    noises = []
    for environment, options in ((None, []), ("0.25", []), ("0.25", ["--scale", "0.125"])):
        if environment:
            monkeypatch.setenv("DOSIMETER_MEASURE_SCALE", environment)
        assert run(["measure", str(people), "--json", "-", "-q", *options]) == 0
        noises.append(facts_of(capsys)["noise"])
    assert noises == ["Gaussian(sigma=0.5)", "Gaussian(sigma=0.25)", "Gaussian(sigma=0.125)"]


def test_settings_that_an_editor_began_with_a_byte_order_mark_are_read(people, monkeypatch, capsys):
    files = {
        "dosimeter": "[measure]\nscale = 0.5\ntarget = 'dose'\nperson = 'id'\n",
        "b": "[age]\nlower = 0\nupper = 120\n",
    }
    for name, text in (*files.items(), ("policy", "max-dose = 1\n")):
        (people.parent / f"{name}.toml").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    monkeypatch.chdir(people.parent)
    assert read_bounds("b.toml").columns["age"].upper == 120
    assert read_policy("policy.toml").max_dose == 1
    assert run(["measure", str(people), "--json", "-", "-q"]) == 0
    assert facts_of(capsys)["noise"] == "Gaussian(sigma=0.5)"


def command(*arguments, **how):
    return subprocess.run(
        [sys.executable, "-m", "dosimeter", *map(str, arguments)], capture_output=True, text=True, **how
    )


def test_help_and_version_import_nothing_heavy():
    heavy = ["numpy", "scipy", "sklearn", "narwhals", "dp_accounting", "skops"]
    code = (
        "import sys; from dosimeter.cli.main import run; run(['--help']); "
        f"print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "measure" in shown.stdout
    assert shown.stderr.strip() == "[]"
    assert command("--version").stdout == f"dosimeter {dm.__version__}\n"


def test_a_table_is_measured_without_importing_libraries_that_it_does_not_need(people):
    heavy = ["sklearn", "pandas", "pyarrow", "polars", "statsmodels", "scipy.stats", "scipy.optimize", "skops"]
    code = (
        "import sys; from dosimeter.cli.main import run; "
        f"run(['measure', {str(people)!r}, '--target', 'dose', '--person', 'id', '--scale', '1', '-q']); "
        f"print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stderr.strip() == "[]"


def test_a_closed_pipe_is_no_error(tmp_path):
    shell = f'"{sys.executable}" -m dosimeter demo --out "{tmp_path}" --json - 2>/dev/null | head -n 1'
    if os.name == "posix":
        shown = subprocess.run(shell, shell=True, capture_output=True, text=True)
        assert shown.stdout == "{\n"
        assert "Traceback" not in shown.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals as on POSIX")
def test_ctrl_c_leaves_no_half_written_file(tmp_path):
    rng = np.random.default_rng(2)
    path, out = tmp_path / "big.csv", tmp_path / "out.csv"
    data = rng.standard_normal((20_000, 12)).round(4)
    path.write_text(
        ",".join([*(f"c{j}" for j in range(11)), "y"]) + "\n" + "\n".join(",".join(map(str, r)) for r in data) + "\n"
    )
    command = ["measure", path, "--target", "y", "--scale", "1", "--doses-out", out]
    # The last one interrupts itself when the file is complete and has not got its name.
    late = (
        "import os, signal, sys; from dosimeter.cli.main import main; rename = os.replace\n"
        "os.replace = lambda *names: (os.kill(os.getpid(), signal.SIGINT), rename(*names))\n"
        "main(sys.argv[1:])\n"
    )
    for wait in (0.1, 0.3, 0.6, None):
        start = ["-m", "dosimeter"] if wait is not None else ["-c", late]
        job = forked.start([*start, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if wait is not None:
            time.sleep(wait)
            job.send_signal(signal.SIGINT)
        _, errors = job.communicate()
        if out.exists():  # it was quicker than the signal: then the file is whole
            assert len(out.read_text().splitlines()) == 20_001
            out.unlink()
        assert sorted(p.name for p in tmp_path.iterdir()) == ["big.csv"]
    assert job.returncode == 130
    assert b"Traceback" not in errors
