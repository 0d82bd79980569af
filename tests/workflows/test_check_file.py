"""Files that are not what they are called, or hold more than they show: none of them passes."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import dosimeter as dm
from dosimeter.federated.history import History, Round
from dosimeter.files.consortium_journal import Journal
from dosimeter.files.csv_export import write_csv
from dosimeter.files.federated_checkpoint import write_state
from dosimeter.files.pate_checkpoint import write_progress
from dosimeter.pate.ensemble import Progress
from dosimeter.reports.document import document
from dosimeter.results.ledger import LedgerReleases, PersonAnswer, ledger_csv, ledger_json
from dosimeter.workflows.check_file import long_texts
from dosimeter.workflows.federated_release import history_columns
from tests.files.test_federated_checkpoint import trained
from tests.workflows.test_check import design, patients, tidy

ALLOW = 'exact = "allow"\nunread = "allow"\n'
TERMS = ["(Intercept)", "age", "bmi"]


@pytest.fixture(scope="module")
def people():
    frame = patients()
    frame["patient"] = [f"NHS-{7919 * k % 99991:05d}" for k in range(len(frame))]
    return frame


@pytest.fixture
def verdicts(people, tmp_path):
    """Checks files by name under a policy that leaves nothing to a person, with the table and without."""

    def check(files, *, table=True, policy=ALLOW):
        out = tmp_path / "out"
        out.mkdir()
        people.to_csv(tmp_path / "patients.csv", index=False)
        data = '[data]\ntable = "patients.csv"\ntarget = "cost"\nperson = "patient"\n' if table else ""
        (tmp_path / "p.toml").write_text(policy + data)
        for name, content in files.items():
            (out / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return {file.file: file for file in dm.check(out, policy=tmp_path / "p.toml").files}

    return check


def zip_of(members, comment=b""):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = comment
    return buffer.getvalue()


def regression(people):
    fit = sm.OLS(people.cost.to_numpy(), design(people)[:, :3]).fit()
    return tidy(fit, TERMS)


def test_rows_are_found_whatever_a_file_is_called(people, verdicts):
    text = people.head(30).to_csv(index=False)
    numbers = people[["age", "bmi", "cost"]].to_numpy()
    array = io.BytesIO()
    np.save(array, np.zeros(3))
    named = gzip.compress(b"no people")[10:]
    files = {
        "plot.png": text,
        "readme.md": text,
        "page.html": f"<html>{people.head(30).to_html()}</html>",
        "no-ending": text,
        ".hidden": text,
        "model.skops": text,
        "model.onnx": text,
        "broken.json": text,
        "pickle.json": pickle.dumps(numbers),
        "pickle.html": pickle.dumps(numbers),
        "old.json": json.dumps({"schema": "dosimeter.of-another-time/9", "rows": numbers[:9].tolist()}),
        "coef.json": json.dumps({"loss": "squared", "coef": {"age": 1.0}, "note": people.patient.tolist()}),
        "behind.npy": array.getvalue() + numbers.tobytes(),
        "name.gz": b"\x1f\x8b\x08\x08\0\0\0\0\0\xff" + text.encode() + b"\0" + named,
        "comment.zip": zip_of({"a.npy": array.getvalue()}, text.encode()[:60_000]),
        "comment.csv": "# " + ", ".join(people.patient[:9]) + "\n" + regression(people).to_csv(index=False),
    }
    assert {name: file.verdict for name, file in verdicts(files).items()} == dict.fromkeys(files, "fail")


def test_the_same_files_without_people_pass_where_the_policy_leaves_them_to_nobody(verdicts):
    files = {"plot.png": b"\x89PNG\r\n", "readme.md": "# Methods", "page.html": "<html>done</html>", "a.json": "{}"}
    assert {file.verdict for file in verdicts(files).values()} == {"pass"}


def test_a_dose_file_and_an_internal_result_are_known_by_their_content(people, tmp_path, verdicts):
    released = dm.fix(people, "cost", person="patient", exclude=["ill"], max_dose=1.0, even_if_useless=True)
    released.write_doses(str(tmp_path / "doses.json"))
    result = dm.measure(people, target="cost", person="patient", exclude=["ill"], noise=dm.Gaussian(1.0)).result()
    doses, internal = (tmp_path / "doses.json").read_text(), result.to_json()
    files = {"doses.txt": doses, "doses": doses, "result.csv": internal, "result": internal, "result.bak": internal}
    assert {name: file.verdict for name, file in verdicts(files).items()} == dict.fromkeys(files, "fail")


def internal_files(people, folder):
    """What verbs write for those who keep the data, each by the function that the verb calls."""
    options = {"target": "cost", "exclude": ["patient", "ill"], "noise": dm.Gaussian(1.0)}
    by_row = dm.measure(people, **options)
    by_person = dm.measure(people, **(options | {"exclude": ["ill"], "person": "patient"}))
    write_csv(folder / "rows.csv", by_row.dose_columns())
    write_csv(folder / "persons.csv", by_person.dose_columns())
    numbers = people.drop(columns=["patient", "ill", "ward"])
    numbers.to_parquet(folder.parent / "numbers.parquet")
    blocks = dm.measure(folder.parent / "numbers.parquet", target="cost", noise=dm.Gaussian(1.0), engine="blocks")
    blocks.write_doses(folder / "blocks.parquet")
    write_csv(folder / "nats.csv", {"row": [1, 2], "nats": np.array([0.5, 0.25])})  # columns of `doses_sheet`
    write_csv(folder / "history.csv", history_columns(History((Round(*range(13)),), None, None, ""), tested=False))
    write_csv(folder / "tested.csv", history_columns(History((Round(*range(13)),), None, None, ""), tested=True))
    votes = Progress(np.zeros((2, 2), dtype=np.int32), np.array([2, 2], dtype=np.int32), 2, "0" * 64)
    write_progress(folder / "votes.npz", votes)
    write_state(folder / "training.npz", trained(), "name")
    Journal(folder, b"study").keep()
    with dm.Ledger.create(folder / "ledger.db") as ledger:
        ledger.book(
            dm.fix(people, "cost", person="patient", exclude=["ill"], scale=1.0, even_if_useless=True), name="a"
        )
        (folder / "export.csv").write_text(ledger_csv(ledger))
        (folder / "export.json").write_text(ledger_json(ledger))
        (folder / "person.html").write_text(PersonAnswer.of(ledger, "NHS-00000").to_html("internal"))
        (folder / "list.html").write_text(LedgerReleases.of(ledger).to_html("internal"))
    result = by_person.result()
    (folder / "printed.log").write_text(str(result))
    cell = {"cell_type": "code", "outputs": [{"data": {"text/html": [by_person._repr_html_()]}}]}
    (folder / "notebook.ipynb").write_text(json.dumps({"cells": [cell]}))
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith("ledger.db")}


def test_every_internal_file_of_a_verb_fails_whatever_the_policy_leaves_open(people, tmp_path, verdicts):
    (tmp_path / "own").mkdir()
    files = internal_files(people, tmp_path / "own")
    assert len(files) >= 13
    renamed = {"doses": files["rows.csv"], "a.zip": zip_of({"x.csv": files["rows.csv"]}),
               "b.zip": zip_of({"x.log": files["printed.log"]})}  # fmt: skip
    # A spreadsheet program writes another delimiter, quotes and a mark at the start.
    text = files["persons.csv"].decode().replace(",", ";").replace("person;", '"person";', 1)
    renamed["saved.csv"] = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    renamed["export.txt"] = files["export.json"]
    found = verdicts(files | renamed, table=False)
    assert {name: file.verdict for name, file in found.items()} == dict.fromkeys(files | renamed, "fail")


def test_a_result_of_another_version_is_for_a_person_whatever_is_allowed(verdicts):
    files = {"old.json": '{"schema": "dosimeter.measurement/2", "dose": {"highest": 3.0}}'}
    assert verdicts(files, table=False)["old.json"].verdict == "review"


def test_files_that_only_speak_of_doses_are_not_taken_for_them(verdicts):
    files = {
        "notes.txt": "The doses were measured: eta_in_standard_deviations is a column of another file.",
        "table.csv": "person,age\nann,44\nbob,51\n",
        "rounds.csv": "round,accuracy\n1,0.5\n2,0.6\n",
        "check.py": 'NOTE = "Internal: computed from the data without protection. Do not publish."',
        "empty.txt": b"",
    }
    assert {name: file.verdict for name, file in verdicts(files, table=False).items()} == dict.fromkeys(files, "pass")


def test_doses_ledgers_and_internal_pages_in_an_archive_fail_and_other_texts_are_counted(people, tmp_path, verdicts):
    with dm.Ledger.create(tmp_path / "ledger.db"):
        pass
    result = dm.measure(people, target="cost", person="patient", exclude=["ill"], noise=dm.Gaussian(1.0)).result()
    book = (tmp_path / "ledger.db").read_bytes()
    files = {
        "ledger.zip": zip_of({"x/book.bin": book}),
        "inner.zip": zip_of({"x.zip": zip_of({"book": book})}),
        "page.zip": zip_of({"page.html": result.to_html("internal")}),
        "texts.zip": zip_of({"table.csv": "a,b\n1,2\n", "notes.txt": "done"}),
    }
    found = verdicts(files)
    assert {name: file.verdict for name, file in found.items()} == {
        "ledger.zip": "fail", "inner.zip": "fail", "page.zip": "fail", "texts.zip": "pass"
    }  # fmt: skip
    assert any("2 files inside are no models" in reason for reason in found["texts.zip"].reasons)


def test_texts_that_could_carry_a_table_keep_a_result_from_passing_without_one(people, verdicts):
    result = dm.measure(people, target="cost", person="patient", exclude=["ill"], noise=dm.Gaussian(1.0)).result()
    page = json.loads(json.dumps(document(result, "external").figures))
    assert not long_texts(page)
    text = people[["patient", "age", "bmi"]].to_csv(index=False)
    files = {
        "as-it-is.json": page,
        "says.json": {**page, "says": text[:1500]},
        "sentence.json": {**page, "sentence": pickle.dumps(people.age.to_numpy()).hex()},
        "withheld.json": {**page, "withheld": [" ".join(people.patient)]},
        "not-covered.json": {**page, "not_covered": text.splitlines()[:60]},
    }
    found = verdicts({name: json.dumps(content) for name, content in files.items()}, table=False)
    expected = {name: "pass" if name == "as-it-is.json" else "review" for name in files}
    assert {name: file.verdict for name, file in found.items()} == expected
    assert "figures are those that it states" in found["as-it-is.json"].reasons[0]


def test_a_link_is_for_a_person_whatever_is_allowed(people, tmp_path):
    (tmp_path / "out").mkdir()
    os.symlink(tmp_path, tmp_path / "out" / "link.csv")
    for rule, verdict in (("allow", "review"), ("review", "review"), ("fail", "fail")):
        (tmp_path / "p.toml").write_text(f'unread = "{rule}"\n')
        (file,) = dm.check(tmp_path / "out", policy=tmp_path / "p.toml").files
        assert file.verdict == verdict


def test_columns_that_are_called_limits_and_are_none_are_for_a_person(people, verdicts):
    table = regression(people)
    half = 1.97 * table["std.error"]
    limits = {"conf.low": table.estimate - half, "conf.high": table.estimate + half}
    ratios = {"2.5 %": np.exp(table.estimate - half), "97.5 %": np.exp(table.estimate + half)}
    rows = {"conf.low": people.age[:3].to_numpy(), "conf.high": people.bmi[:3].to_numpy()}
    files = {name: pd.DataFrame({**table, **more}).to_csv(index=False) for name, more in (
        ("limits.csv", limits), ("ratios.csv", ratios), ("rows.csv", rows))}  # fmt: skip
    reasons = {name: " ".join(file.reasons) for name, file in verdicts(files, table=False).items()}
    assert "no part of a coefficient table" not in reasons["limits.csv"] + reasons["ratios.csv"]
    assert "no part of a coefficient table (conf.low, conf.high)" in reasons["rows.csv"]
