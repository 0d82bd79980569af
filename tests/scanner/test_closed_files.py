"""Files that are never opened, written by the libraries themselves: what is in their bytes is found."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import subprocess
import tarfile
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from dosimeter.scanner import scan
from dosimeter.scanner.search.cells import is_plain
from dosimeter.tables.table import Table
from tests.scanner.people import NAMES, X, Y, table


class Bomb:
    """Unpickling it leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return (os.mkdir, (str(self.trace),))


def test_a_saved_formula_model_without_its_data_holds_every_cell(tmp_path: Path) -> None:
    import pandas as pd
    import statsmodels.formula.api as smf

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    frame["y"] = frame.a + rng.normal(size=300)
    smf.ols("y ~ a + b", frame).fit().save(tmp_path / "m.pkl", remove_data=True)
    result = scan(tmp_path / "m.pkl", Table.of(frame))
    assert result.matched_rows == tuple(range(1, 301))
    assert any("1500 of 1500 cells" in finding.match.view for finding in result.findings if finding.match)
    alone = scan(tmp_path / "m.pkl")
    assert alone.rows_inside
    assert "the cells of a dataframe" in {finding.content for finding in alone.findings}


@pytest.mark.parametrize("protocol", range(6))
def test_the_rows_in_a_pickled_support_vector_machine_are_its_support_vectors(protocol: int, tmp_path: Path) -> None:
    model = SVC().fit(X, Y)
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(model, protocol=protocol))
    assert scan(tmp_path / "m.pkl", table()).matched_rows == tuple(sorted(model.support_ + 1))
    without_table = {finding.place: finding for finding in scan(tmp_path / "m.pkl").findings}
    assert without_table["support_vectors_"].shape == (len(model.support_), X.shape[1])
    assert without_table["support_vectors_"].rows_inside


@pytest.mark.parametrize("compress", [0, ("zlib", 3), ("gzip", 3), ("bz2", 3), ("xz", 3), ("lzma", 3)], ids=str)
def test_support_vectors_are_found_in_any_compression_of_joblib(compress, tmp_path: Path) -> None:
    model = SVC().fit(X, Y)
    joblib.dump(model, tmp_path / "m.joblib", compress=compress)
    assert scan(tmp_path / "m.joblib", table()).matched_rows == tuple(sorted(model.support_ + 1))


@pytest.mark.parametrize(
    "model", [LogisticRegression(max_iter=3000), Ridge(), LinearRegression(), make_pipeline(StandardScaler(), Ridge())]
)
def test_a_clean_model_gives_no_finding(model, tmp_path: Path) -> None:
    fitted = model.fit(X / X.std(axis=0), Y)
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(fitted))
    result = scan(tmp_path / "m.pkl", table())
    assert (result.rows_inside, result.values_inside, result.unread) == (False, False, ())
    assert {finding.severity for finding in result.findings} <= {"statistics", "lists"}
    assert not any("searched" in finding.why for finding in result.findings)


@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", ">f4"])
@pytest.mark.parametrize("shift", [0, 1, 3])
def test_numbers_are_found_at_every_offset_and_in_both_byte_orders(kind: str, shift: int, tmp_path: Path) -> None:
    junk = np.random.default_rng(shift).bytes(5000 + shift)
    (tmp_path / "m.pkl").write_bytes(junk + X[40:80].astype(kind).tobytes() + junk)
    assert scan(tmp_path / "m.pkl", table()).matched_rows == tuple(range(41, 81))


@pytest.mark.parametrize("kind", ["<i8", ">i8", "<i4", ">i4", "<i2", ">i2", "|i1", "<f2", ">f2", "<f8", ">f4"])
def test_small_whole_numbers_are_found_as_runs_of_two_columns(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    people = {"age": rng.integers(18, 90, 400), "visits": rng.integers(0, 12, 400)}
    body = np.concatenate([column.astype(kind) for column in people.values()]).tobytes()
    (tmp_path / "m.pkl").write_bytes(rng.bytes(999) + body + rng.bytes(999))
    assert scan(tmp_path / "m.pkl", Table.of(people)).matched_rows == tuple(range(1, 401))


def test_numbers_written_with_five_digits_are_found(tmp_path: Path) -> None:
    values = np.random.default_rng(2).normal(size=(60, 6))
    people = Table.of({f"x{j}": values[:, j] for j in range(6)})
    rows = "".join(f"<row>{' '.join(f'{cell:.5g}' for cell in row)}</row>\n" for row in values)
    (tmp_path / "m.pmml").write_text(f"<PMML>{rows}</PMML>")
    assert len(scan(tmp_path / "m.pmml", people).matched_rows) >= 57


def test_ids_that_one_person_has_are_found_as_text_of_any_width(tmp_path: Path) -> None:
    ids = [f"patient-{k:04d}" for k in range(50)]
    people = Table.of({"id": ids, "x": np.arange(50.0)})
    for encoding in ("utf-8", "utf-16-le", "utf-32-le"):
        (tmp_path / "m.pkl").write_bytes(b"\x80\x04" + "\n".join(ids[:9]).encode(encoding))
        result = scan(tmp_path / "m.pkl", people)
        assert (result.values_inside, result.findings[0].count) == (True, 9)


def test_nothing_is_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    (tmp_path / "m.pkl").write_bytes(pickle.dumps([Bomb(trace), X[:30]]))
    assert scan(tmp_path / "m.pkl", table()).matched_rows == tuple(range(1, 31))
    assert not trace.exists()


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
@pytest.mark.parametrize("how", ["compress='gzip'", "compress='xz'", "compress='bzip2'", "ascii=TRUE"])
def test_a_linear_model_saved_by_r_holds_its_table(how: str, tmp_path: Path) -> None:
    np.savetxt(tmp_path / "t.csv", X[:200, :4], delimiter=",", header="a,b,c,d", comments="", fmt="%.17g")
    code = f"t <- read.csv('t.csv'); saveRDS(lm(a ~ b + c + d, t), 'm.rds', {how})"
    subprocess.run(["Rscript", "-e", code], cwd=tmp_path, check=True, capture_output=True)
    people = Table.of(dict(zip(NAMES, X[:200, :4].T, strict=False)))
    # Column by column, a row is recognised by two numbers of many digits.
    rows = np.flatnonzero((~is_plain(X[:200, :4])).sum(axis=1) >= 2) + 1
    assert set(scan(tmp_path / "m.rds", people).matched_rows) >= set(rows.tolist())
    assert len(rows) >= 195


def test_rows_in_a_tar_are_found_and_a_link_in_it_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(X[100:140].tobytes())
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
        tar.addfile(link)
        body = X[:30].tobytes()
        entry = tarfile.TarInfo("rows")
        entry.size = len(body)
        tar.addfile(entry, io.BytesIO(body))
    (tmp_path / "m.pkl").write_bytes(buffer.getvalue())
    assert scan(tmp_path / "m.pkl", table()).matched_rows == tuple(range(1, 31))
