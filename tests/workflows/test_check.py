"""`check` on a folder with everything that people want to take out of an environment."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import socket
import subprocess
import threading

import numpy as np
import pandas as pd
import pytest
import skops.io as sio
import statsmodels.api as sm
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import dosimeter as dm
from dosimeter.cli.main import run
from dosimeter.reports.document import document
from dosimeter.workflows.check_regression import leverages
from tests.scanner.test_written_rows import refuse_listing

TERMS = ["(Intercept)", "age", "bmi", "wards", "wardw", "hiv"]
POLICY = """
max-dose = 1.0
booked = "review"
[data]
table = "patients.csv"
target = "cost"
person = "patient"
[[release]]
file = "model-*.skops"
target = "ill"
[[release]]
file = "logit.csv"
loss = "logistic"
target = "ill"
[ledger]
url = "ledger.db"
"""


def patients(n=240):
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "patient": [f"p{i}" for i in range(n)],
            "age": rng.normal(50, 10, n).round(4),
            "bmi": rng.normal(25, 4, n).round(4),
            "ward": rng.choice(["n", "s", "w"], n, p=[0.5, 0.45, 0.05]),
            "hiv": (np.arange(n) % 80 == 3).astype(int),
        }
    )
    people["cost"] = (people.age * 0.1 + people.hiv + rng.normal(size=n)).round(5)
    people["ill"] = (people.cost > people.cost.median()).astype(int)
    return people


def tidy(fit, terms):
    columns = {"estimate": fit.params, "std.error": fit.bse, "statistic": fit.tvalues, "p.value": fit.pvalues}
    return pd.DataFrame({"term": terms, **columns})


def design(people):
    columns = [np.ones(len(people)), people.age, people.bmi, people.ward == "s", people.ward == "w", people.hiv]
    return np.column_stack(columns).astype(float)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """The folder of the policy, with `outgoing` inside."""
    root = tmp_path_factory.mktemp("desk")
    out = root / "outgoing"
    (out / "sub").mkdir(parents=True)
    people = patients()
    people.to_csv(root / "patients.csv", index=False)
    X = people[["age", "bmi"]]
    logistic = LogisticRegression().fit(X, people.ill)
    sio.dump(logistic, out / "model-a.skops")
    sio.dump(SVC().fit(X, people.ill), out / "svc.skops")
    (out / "clean.pkl").write_bytes(pickle.dumps(logistic))
    np.save(out / "rows.npy", X.to_numpy())
    np.savez(out / "weights.npz", w=np.arange(5.0))
    D = design(people)
    full, small = sm.OLS(people.cost.to_numpy(), D).fit(), sm.OLS(people.cost.to_numpy(), D[:, :3]).fit()
    tidy(full, TERMS).to_csv(out / "r-tidy.csv", index=False)
    pd.DataFrame(full.cov_params(), index=TERMS, columns=TERMS).to_csv(out / "r-vcov.csv")
    stata = {"parm": ["_cons", "age", "bmi"], "estimate": small.params, "stderr": small.bse, "dof": small.df_resid}
    pd.DataFrame(stata).to_csv(out / "stata.csv", index=False)
    sas = {"Variable": ["Intercept", "age", "bmi"], "DF": 1, "Estimate": small.params, "StdErr": small.bse,
           "tValue": small.tvalues, "Probt": small.pvalues}  # fmt: skip
    pd.DataFrame(sas).to_csv(out / "sas.csv", index=False)
    tidy(sm.Logit(people.ill.to_numpy(), D[:, :3]).fit(disp=0), ["(Intercept)", "age", "bmi"]).to_csv(
        out / "logit.csv", index=False
    )
    few = sm.OLS(people.cost.to_numpy()[:8], D[:8, :3]).fit()
    tidy(few, ["(Intercept)", "age", "bmi"]).to_csv(out / "few.csv", index=False)
    people.head(20).to_csv(out / "sub" / "extract.csv", index=False)
    result = dm.measure(people, target="cost", person="patient", exclude=["ill"], noise=dm.Gaussian(1.0)).result()
    (out / "result.json").write_text(result.to_json())
    (out / "internal.html").write_text(result.to_html("internal"))
    (out / "external.html").write_text(result.to_html("external"))
    (out / "external.json").write_text(json.dumps(document(result, "external").figures))
    released = dm.fix(people, "cost", person="patient", exclude=["ill"], max_dose=1.0, even_if_useless=True)
    with dm.Ledger.create(root / "ledger.db") as ledger:
        ledger.book(released, name="june")
    released.write(str(out / "june.skops"))
    released.write_doses(str(out / "doses.json"))
    (out / "copy.db").write_bytes((root / "ledger.db").read_bytes())
    (out / "plot.png").write_bytes(b"\x89PNG\r\n")
    os.symlink("/etc/hostname", out / "link.csv")
    (root / "policy.toml").write_text(POLICY)
    return root


@pytest.fixture(scope="module")
def report(desk):
    return dm.check(desk / "outgoing", policy=desk / "policy.toml")


VERDICTS = {
    "clean.pkl": "review", "copy.db": "fail", "doses.json": "fail", "external.html": "review",
    "external.json": "pass", "few.csv": "fail", "internal.html": "fail", "june.skops": "pass", "link.csv": "review",
    "logit.csv": "review", "model-a.skops": "review", "plot.png": "review", "r-tidy.csv": "fail",
    "r-vcov.csv": "fail", "result.json": "fail", "rows.npy": "fail", "sas.csv": "review", "stata.csv": "review",
    "sub/extract.csv": "fail", "svc.skops": "fail", "weights.npz": "review",
}  # fmt: skip


def by_name(report):
    return {file.file: file for file in report.files}


def test_every_kind_of_file_gets_its_verdict(report):
    assert {name: file.verdict for name, file in by_name(report).items()} == VERDICTS
    assert (report.failed, report.review, report.passed) == (10, 9, 2)
    assert report.exit_code == 1
    assert all(file.reasons for file in report.files)


def test_a_covariance_with_enough_degrees_of_freedom_gives_three_people_away(report):
    file = by_name(report)["r-tidy.csv"]
    facts = file.regression
    assert (facts.residual_df, facts.rows, facts.degrees_of_freedom_kept) == (234, 240, True)
    people = patients()
    assert people.hiv.sum() == 3
    assert "hiv: 3" in facts.counts
    pairs = [int((people.hiv * (people.ward == ward)).sum()) for ward in "sw"]
    assert facts.smallest == min(count for count in [3, *pairs] if count)
    assert f"a count of {facts.smallest}" in file.reasons[0]
    assert "say nothing about a single person" in file.reasons[0]


def test_doses_are_those_of_measure(report, desk):
    people = patients()
    leak = dm.measure(LogisticRegression().fit(people[["age", "bmi"]], people.ill), people, "ill", person="patient")
    needed = {need.highest: need.scale for need in leak.result(limit=1.0).noise_needed}
    file = by_name(report)["model-a.skops"]
    assert file.dose == "unbounded"
    assert file.noise_needed == pytest.approx(needed[1.0], rel=1e-6)
    with dm.Ledger.open(desk / "ledger.db") as ledger:
        highest = max(ledger.person(who).totals[0].reading for who in people.patient)
    assert by_name(report)["june.skops"].dose == pytest.approx(highest, rel=1e-9)
    assert by_name(report)["june.skops"].booked == "june"


def test_leverages_are_the_change_of_a_fitted_value_with_its_target():
    people = patients(40)
    D = design(people)[:, :3]
    names = dict(zip("abc", D.T, strict=True))
    y = people.cost.to_numpy()
    for row in (0, 7, 31):
        moved = y.copy()
        moved[row] += 1.0
        change = D[row] @ (np.linalg.lstsq(D, moved, rcond=None)[0] - np.linalg.lstsq(D, y, rcond=None)[0])
        assert leverages(names)[row] == pytest.approx(change, rel=1e-9)


def test_an_indicator_of_one_person_passes_degrees_of_freedom_and_fails_here(tmp_path):
    people = patients()
    people["rare"] = (np.arange(len(people)) == 17).astype(int)
    people.to_csv(tmp_path / "patients.csv", index=False)
    X = np.column_stack([np.ones(len(people)), people.age, people.rare]).astype(float)
    fit = sm.OLS(people.cost.to_numpy(), X).fit()
    (tmp_path / "out").mkdir()
    tidy(fit, ["(Intercept)", "age", "rare"]).to_csv(tmp_path / "out" / "model.csv", index=False)
    (tmp_path / "p.toml").write_text('[data]\ntable = "patients.csv"\ntarget = "cost"\nperson = "patient"\n')
    (file,) = dm.check(tmp_path / "out", policy=tmp_path / "p.toml").files
    assert (file.verdict, file.regression.degrees_of_freedom_kept, file.regression.alone) == ("fail", True, 1)
    assert file.regression.leverage == pytest.approx(1.0, abs=1e-9)
    without = np.delete(X[:, :2], 17, axis=0)
    w = np.linalg.lstsq(without, np.delete(people.cost.to_numpy(), 17), rcond=None)[0]
    assert people.cost[17] == pytest.approx(X[17, :2] @ w + fit.params[2], abs=1e-9)  # it does follow exactly


def test_a_noised_table_within_the_limit_passes_and_another_table_is_noticed(desk, tmp_path):
    people = patients()
    (tmp_path / "out").mkdir()
    fit = sm.OLS(people.cost.to_numpy(), design(people)[:, :3]).fit()
    table = tidy(fit, ["(Intercept)", "age", "bmi"])
    noised = table.assign(estimate=table.estimate + np.random.default_rng(5).normal(0, 50.0, 3))
    noised.to_csv(tmp_path / "out" / "model.csv", index=False)
    data = f'[data]\ntable = "{desk / "patients.csv"}"\ntarget = "cost"\nperson = "patient"\n'
    noise = '[[release]]\nfile = "model.csv"\nnoise = "gaussian"\nscale = 50.0\n'
    (tmp_path / "p.toml").write_text(f"max-dose = 1.0\n{data}{noise}")
    (file,) = dm.check(tmp_path / "out", policy=tmp_path / "p.toml").files
    assert file.verdict == "pass", file.reasons
    assert 0 < file.dose < 1.0
    table.to_csv(tmp_path / "out" / "model.csv", index=False)
    (file,) = dm.check(tmp_path / "out", policy=tmp_path / "p.toml").files
    assert file.verdict == "fail"
    assert "noise of scale 50 is not in the file" in file.reasons[0]
    other = people.assign(cost=people.cost[::-1].to_numpy())
    other.to_csv(tmp_path / "other.csv", index=False)
    (tmp_path / "p.toml").write_text(data.replace(str(desk / "patients.csv"), "other.csv"))
    (file,) = dm.check(tmp_path / "out", policy=tmp_path / "p.toml").files
    assert file.verdict == "review"
    assert "not the minimum" in " ".join(file.reasons)


def test_without_a_table_the_file_alone_is_judged(desk):
    report = dm.check(desk / "outgoing")
    files = by_name(report)
    assert "hiv: 3" in files["r-tidy.csv"].regression.counts
    assert files["r-tidy.csv"].regression.leverage is None
    assert files["sub/extract.csv"].verdict == "review"
    assert files["svc.skops"].verdict == "fail"
    assert "not compared" in " ".join(files["weights.npz"].reasons)


def test_the_page_shows_degrees_of_freedom_beside_the_verdict(report):
    page = document(report, "internal")
    (section,) = [s for s in page.sections if s.heading.startswith("Regressions")]
    rows = {row[0]: row for row in section.parts[1].rows}
    assert rows["r-tidy.csv"][1:3] == ("pass", "fail")
    assert rows["few.csv"][1] == "fail"
    outside = document(report, "external")
    assert "files" not in outside.figures
    assert "hiv" not in json.dumps(outside.figures)


def test_the_command_line_writes_one_page_outside_the_folder(desk, tmp_path, capsys):
    command = ["check", str(desk / "outgoing"), "--policy", str(desk / "policy.toml")]
    assert run([*command, "--out", str(tmp_path / "page.html"), "--json", str(tmp_path / "check.json"), "-q"]) == 1
    assert "r-tidy.csv" in (tmp_path / "page.html").read_text()
    assert json.loads((tmp_path / "check.json").read_text())["schema"] == "dosimeter.check/3"
    assert run([*command, "--out", str(desk / "outgoing" / "page.html")]) == 2
    assert "must not leave" in capsys.readouterr().err
    assert not (desk / "outgoing" / "page.html").exists()


@pytest.mark.parametrize(
    ("policy", "needle"),
    [
        ("max-dos = 1", "did you mean max-dose"),
        ("max-dose = -1", "above 0"),
        ("max-dose = true", "above 0"),
        ('exact = "maybe"', "fail, review, allow"),
        ("least-count = 1.5", "whole number"),
        ("[data]\ntarget = 'x'", "no table"),
        ("[[release]]\nnoise = 'gaussian'", "no file"),
        ("[[release]]\nfile = 'a'\nnoise = 'gaussian'", "no scale"),
        ("[[release]]\nfile = 'a'\nnoise = 'cauchy'\nscale = 1", "cauchy"),
        ("[[release]]\nfile = 'a'\nloss = 'cauchy'", "loss"),
        ("release = 1", "release"),
        ("not toml", "TOML"),
        ("exclude = " + "[" * 3000, "TOML"),
    ],
)
def test_a_policy_that_could_be_misread_is_refused(policy, needle, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.txt").write_text("x")
    (tmp_path / "p.toml").write_text(policy)
    with pytest.raises(dm.Refusal, match=needle):
        dm.check(tmp_path / "out", policy=tmp_path / "p.toml")


SKOPS = """[[release]]
file = "*.skops"
target = "ill"
noise = "gaussian"
scale = 0.5
"""


@pytest.mark.parametrize(("scale", "verdict"), [(0.0, "fail"), (0.005, "fail"), (0.5, "pass"), (50.0, "review")])
def test_a_model_must_hold_the_noise_that_the_policy_states(scale, verdict, desk, tmp_path):
    people = patients()
    model = LogisticRegression(tol=1e-10, max_iter=1000).fit(people[["age", "bmi"]], people.ill)
    rng = np.random.default_rng(1)
    model.coef_ = model.coef_ + rng.normal(0, scale, model.coef_.shape)
    model.intercept_ = model.intercept_ + rng.normal(0, scale, 1)
    (tmp_path / "out").mkdir()
    sio.dump(model, tmp_path / "out" / "m.skops")
    data = f'[data]\ntable = "{desk / "patients.csv"}"\ntarget = "cost"\nperson = "patient"\n'
    (tmp_path / "p.toml").write_text(data + SKOPS)
    (file,) = dm.check(tmp_path / "out", policy=tmp_path / "p.toml").files
    assert file.verdict == verdict, file.reasons


def hidden(rows):
    """Results that say that everything in them is public, and hold rows."""
    page = {"schema": "dosimeter.measurement/3", "edition": "external"}
    return {
        "undeclared": {"schema": "dosimeter.federated-plan/3", "rows": rows},
        "of another type": {**page, "noise": rows},
        "in a sentence": {**page, "sentence": rows},
        "among the reasons": {**page, "withheld": [rows]},
        "as text": {**page, "not_covered": [str(row) for row in rows]},
        "in statistics": {**page, "statistics": {"means": rows}},
    }


@pytest.mark.parametrize("where", hidden([]))
def test_rows_in_a_public_field_of_a_result_do_not_pass(where, desk, tmp_path):
    rows = patients()[["age", "bmi", "cost"]].to_numpy().tolist()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "result.json").write_text(json.dumps(hidden(rows)[where]))
    (tmp_path / "p.toml").write_text(
        f'[data]\ntable = "{desk / "patients.csv"}"\ntarget = "cost"\nperson = "patient"\n'
    )
    (file,) = dm.check(tmp_path / "out", policy=tmp_path / "p.toml").files
    assert file.verdict == "fail"
    (alone,) = dm.check(tmp_path / "out").files
    assert alone.verdict == {"as text": "review", "in statistics": "review"}.get(where, "fail")


def test_columns_beside_the_coefficients_are_for_a_person(tmp_path):
    people = patients()
    fit = sm.OLS(people.cost.to_numpy(), design(people)[:, :3]).fit()
    table = tidy(fit, ["(Intercept)", "age", "bmi"])
    limits = {"conf.low": fit.conf_int()[:, 0], "conf.high": fit.conf_int()[:, 1], "2.5 %": fit.conf_int()[:, 0]}
    table.assign(**limits).to_csv(tmp_path / "limits.csv", index=False)
    table.assign(row17=people.iloc[17][["age", "bmi", "cost"]].tolist()).to_csv(tmp_path / "more.csv", index=False)
    files = by_name(dm.check(tmp_path))
    assert not any("no part of a coefficient table" in reason for reason in files["limits.csv"].reasons)
    assert "columns that are no part of a coefficient table (row17)" in files["more.csv"].reasons


def test_each_covariance_is_judged_with_the_table_whose_errors_it_has(tmp_path):
    people = patients()
    X = np.column_stack([np.ones(240), people.age, people.hiv]).astype(float)
    terms = ["(Intercept)", "age", "hiv"]
    many = X.copy()
    many[:, 2] = np.arange(240) % 2
    for name, columns in (("few", X), ("many", many)):
        fit = sm.OLS(people.cost.to_numpy(), columns).fit()
        tidy(fit, terms).to_csv(tmp_path / f"{name}.csv", index=False)
        pd.DataFrame(fit.cov_params(), index=terms, columns=terms).to_csv(tmp_path / f"{name}-vcov.csv")
        pd.DataFrame(3.7 * fit.cov_params(), index=terms, columns=terms).to_csv(tmp_path / f"{name}-other.csv")
    files = by_name(dm.check(tmp_path))
    assert (files["few.csv"].regression.covariance, files["few.csv"].regression.smallest) == ("few-vcov.csv", 3)
    assert (files["many.csv"].regression.covariance, files["many.csv"].regression.smallest) == ("many-vcov.csv", 120)
    assert [files[name].verdict for name in ("few-vcov.csv", "many-vcov.csv")] == ["fail", "pass"]
    assert "standard errors" in files["few-other.csv"].reasons[0]
    assert files["few-other.csv"].verdict == "review"


def test_more_degrees_of_freedom_than_the_tests_show_are_not_believed(tmp_path):
    people = patients()
    fit = sm.OLS(people.cost.to_numpy()[:8], design(people)[:8, :3]).fit()
    tidy(fit, ["(Intercept)", "age", "bmi"]).assign(dof=234).to_csv(tmp_path / "few.csv", index=False)
    (file,) = dm.check(tmp_path).files
    assert file.verdict == "fail"
    assert "5 residual degrees of freedom" in file.reasons[0]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("renamed.csv", lambda people: people[["age", "bmi"]].rename(columns=str.upper).to_csv(index=False)),
        ("comma.csv", lambda people: people[["age", "bmi"]].to_csv(index=False, sep=";", decimal=",", header=False)),
        ("spaces.txt", lambda people: people[["bmi", "cost"]].to_csv(index=False, sep=" ", header=False)),
        ("ids.vocab", lambda people: "\n".join(f"id-{name}-x" for name in people.patient)),
        ("ids.json", lambda people: json.dumps({"train": [f"id-{name}-x" for name in people.patient]})),
    ],
)
def test_rows_and_ids_of_people_in_a_text_fail(name, written, tmp_path):
    people = patients()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text(written(people))
    twice = pd.concat([people, people])  # every person has two rows
    twice.assign(patient=[f"id-{who}-x" for who in twice.patient]).to_csv(tmp_path / "patients.csv", index=False)
    (tmp_path / "p.toml").write_text('[data]\ntable = "patients.csv"\ntarget = "cost"\nperson = "patient"\n')
    (file,) = dm.check(tmp_path / "out", policy=tmp_path / "p.toml").files
    assert file.verdict == "fail", file.reasons


def test_a_text_model_with_leaves_of_one_person_fails(tmp_path):
    lines = [
        "tree",
        "version=v4",
        "num_class=1",
        "",
        "Tree=0",
        "num_leaves=3",
        "leaf_count=1 40 1",
        "threshold=31.2 54.7",
    ]
    (tmp_path / "model.txt").write_text("\n".join(lines))
    (file,) = dm.check(tmp_path).files
    assert file.verdict == "fail"
    assert "single people" in file.reasons[0]


R = """
people <- read.csv("patients.csv")
fit <- lm(cost ~ age + bmi + ward + hiv, data = people)
write.csv(coef(summary(fit)), "out/r.csv")
write.csv(vcov(fit), "out/r-vcov.csv")
logit <- glm(ill ~ age + bmi, data = people, family = binomial)
write.csv(coef(summary(logit)), "out/glm.csv")
"""


def test_files_that_r_itself_wrote_are_read(tmp_path):
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("Rscript is not installed: files of R are made by hand in the other tests")
    people = patients()
    people.to_csv(tmp_path / "patients.csv", index=False)
    (tmp_path / "out").mkdir()
    (tmp_path / "make.R").write_text(R)
    subprocess.run([rscript, "--vanilla", "make.R"], cwd=tmp_path, check=True, capture_output=True, timeout=600)
    data = '[data]\ntable = "patients.csv"\ntarget = "cost"\nperson = "patient"\n'
    glm = '[[release]]\nfile = "glm.csv"\nloss = "logistic"\ntarget = "ill"\n'
    (tmp_path / "p.toml").write_text(data + glm)
    files = by_name(dm.check(tmp_path / "out", policy=tmp_path / "p.toml"))
    facts = files["r.csv"].regression
    assert (facts.residual_df, facts.rows, facts.covariance) == (234, 240, "r-vcov.csv")
    assert "hiv: 3" in facts.counts
    D = design(people)
    hat = np.einsum("np,np->n", D @ np.linalg.inv(D.T @ D), D)
    assert facts.leverage == pytest.approx(hat.max(), rel=1e-8)
    assert files["r.csv"].dose == "unbounded"
    assert files["glm.csv"].dose == "unbounded"
    assert files["glm.csv"].verdict == "review"


def test_a_pipe_and_a_socket_are_not_opened(tmp_path, monkeypatch):
    """The end of a pipe that no one writes to never comes."""
    os.mkfifo(tmp_path / "pipe.csv")
    with monkeypatch.context() as short, socket.socket(socket.AF_UNIX) as server:
        short.chdir(tmp_path)  # an address has at most 107 letters
        server.bind("socket.tsv")
    opened = threading.Thread(target=lambda: os.close(os.open(tmp_path / "pipe.csv", os.O_WRONLY)), daemon=True)
    opened.start()  # it waits until someone reads
    files = by_name(dm.check(tmp_path))
    assert opened.is_alive()
    reader = os.open(tmp_path / "pipe.csv", os.O_RDONLY | os.O_NONBLOCK)
    opened.join()  # also if it opens the pipe only now
    os.close(reader)
    assert {name: file.verdict for name, file in files.items()} == {"pipe.csv": "review", "socket.tsv": "review"}
    assert "a pipe, socket or device" in files["pipe.csv"].reasons[0]


def test_a_folder_that_cannot_be_listed_is_refused(tmp_path, monkeypatch):
    (tmp_path / "private").mkdir()
    (tmp_path / "a.txt").write_text("x")
    refuse_listing(monkeypatch, "private")
    with pytest.raises(dm.Refusal, match=r"private.*permission"):
        dm.check(tmp_path)


def test_records_of_texts_fail_where_exact_weights_may_leave(tmp_path):
    people = patients()
    people.to_csv(tmp_path / "patients.csv", index=False)
    (tmp_path / "out").mkdir()
    rows = people[["age", "bmi", "cost"]].head(20).astype(str).to_dict("records")
    (tmp_path / "out" / "notes.json").write_text(json.dumps(rows))
    (tmp_path / "p.toml").write_text('exact = "allow"\n[data]\ntable = "patients.csv"\ntarget = "cost"\n')
    (file,) = dm.check(tmp_path / "out", policy=tmp_path / "p.toml").files
    assert (file.verdict, file.rows_found) == ("fail", 20)


@pytest.mark.parametrize("digits", [3, 4, 6])
def test_a_rounded_covariance_of_three_people_does_not_pass(digits, tmp_path):
    people = patients()
    people.to_csv(tmp_path / "patients.csv", index=False)
    (tmp_path / "out").mkdir()
    terms = ["(Intercept)", "age", "bmi", "hiv"]
    fit = sm.OLS(people.cost.to_numpy(), design(people)[:, [0, 1, 2, 5]]).fit()
    tidy(fit, terms).to_csv(tmp_path / "out" / "m.csv", index=False)
    rounded = pd.DataFrame(fit.cov_params(), index=terms, columns=terms).map(lambda x: float(f"{x:.{digits}g}"))
    rounded.to_csv(tmp_path / "out" / "v.csv")
    (tmp_path / "p.toml").write_text('exact = "allow"\n[data]\ntable = "patients.csv"\ntarget = "cost"\n')
    verdicts = {file.verdict for file in dm.check(tmp_path / "out", policy=tmp_path / "p.toml").files}
    assert "pass" not in verdicts
    many = tidy(fit, terms).assign(n=24_000)
    many.to_csv(tmp_path / "out" / "m.csv", index=False)
    verdicts = {file.verdict for file in dm.check(tmp_path / "out", policy=tmp_path / "p.toml").files}
    assert "pass" not in verdicts


def test_an_empty_or_missing_folder_is_refused(tmp_path):
    with pytest.raises(dm.Refusal, match="no file"):
        dm.check(tmp_path)
    with pytest.raises(dm.Refusal, match="not a folder"):
        dm.check(tmp_path / "nowhere")


@pytest.mark.parametrize("scaled_by", ["the table", "public rows"])
def test_a_noised_model_whose_file_holds_the_exact_scaler_of_the_table_fails(tmp_path, scaled_by):
    """At any noise on its weights: from mean_ and all rows but one the missing cell follows exactly."""
    import pandas as pd
    import skops.io as sio
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(4)
    ages, bmi = rng.normal(50, 12, 200), rng.normal(27, 4, 200)
    frame = pd.DataFrame({"age": ages, "bmi": bmi})
    frame["cost"] = 0.1 * ages + bmi + rng.normal(size=200)
    frame.to_csv(tmp_path / "table.csv", index=False)
    own, columns = scaled_by == "the table", frame[["age", "bmi"]]
    scaler = StandardScaler().fit(columns if own else pd.DataFrame({"age": [20, 80.0], "bmi": [18, 40.0]}))
    model = make_pipeline(scaler, Ridge(alpha=3.0).fit(scaler.transform(columns), frame["cost"]))
    model[1].coef_ = model[1].coef_ + rng.normal(0, 1.0, 2)
    model[1].intercept_ = model[1].intercept_ + rng.normal(0, 1.0)
    if own:
        assert 200 * scaler.mean_[0] - ages[1:].sum() == pytest.approx(ages[0], rel=1e-9)
    (tmp_path / "outgoing").mkdir()
    sio.dump(model, tmp_path / "outgoing" / "model.skops")
    (tmp_path / "policy.toml").write_text(
        'max-dose = 0.5\n[data]\ntable = "table.csv"\ntarget = "cost"\n'
        '[[release]]\nfile = "model.skops"\nnoise = "gaussian"\nscale = 1.0\n'
    )
    (checked,) = dm.check(tmp_path / "outgoing", policy=tmp_path / "policy.toml").files
    assert checked.dose < 0.5
    assert checked.verdict == ("fail" if own else "review")
    assert ("solves for a cell at any noise" in " ".join(checked.reasons)) is own


def test_the_verdict_on_a_released_model_that_is_not_booked_begins_with_its_noise(desk, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    shutil.copy(desk / "outgoing" / "june.skops", out / "june.skops")
    shutil.copy(desk / "patients.csv", tmp_path / "patients.csv")
    (tmp_path / "p.toml").write_text('[data]\ntable = "patients.csv"\ntarget = "cost"\nperson = "patient"\n')
    (file,) = dm.check(out, policy=tmp_path / "p.toml").files
    assert file.verdict == "review"
    assert file.reasons[0].startswith("if there is noise in its weights, as in those of `fix`, book the file")
    assert file.reasons[1].startswith("cannot be measured")
