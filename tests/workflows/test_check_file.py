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
from dosimeter.reports.document import document
from dosimeter.workflows.check_file import long_texts
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
