"""Bad files: one line with file, row group and row, exit code 2, nothing written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dosimeter as dm
from dosimeter.cli.main import run
from dosimeter.core.errors import Refusal
from dosimeter.engines import memory
from dosimeter.engines.parquet_source import ParquetSource
from tests.engines.tables import assert_same_figures, people, written

NAMES = ("score", "age", "city", "ill")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_ROWS", 16)


def columns(n: int = 1000) -> dict[str, Any]:
    return {name: column for name, column in people(n).items() if name in NAMES}


VERBS = {
    "measure": ("--target", "ill", "--scale", "0.1"),
    "fix": ("--target", "ill", "--max-dose", "1"),
    "pca": ("--epsilon", "1", "--not-private"),
}


def refused(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str, verb: str = "measure") -> str:
    """The one line of a refusal; nothing is written."""
    out = tmp_path / "written"
    out.mkdir()
    released = ["--doses-out", str(out / "d.parquet")] if verb == "measure" else ["--out", str(out / "m.skops")]
    files = ["--json", str(out / "r.json"), *released]
    code = run([verb, str(table), *VERBS[verb], "--engine", "blocks", *files, *more])
    shown = capsys.readouterr()
    assert code == 2
    assert not list(out.iterdir())
    (line,) = shown.err.strip().splitlines()
    return line


@pytest.mark.parametrize("verb", VERBS)
def test_a_number_that_is_missing_far_down(tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    rows = columns(16 * 800)
    rows["age"][16 * 700 + 3] = np.nan
    line = refused(written(tmp_path / "t.parquet", rows, rows=160), tmp_path, capsys, verb=verb)
    assert f"t.parquet, row group 70: missing value (row {16 * 700 + 4}, column age)" in line


@pytest.mark.parametrize("verb", VERBS)
def test_a_number_that_is_not_finite(tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    rows = columns()
    rows["score"][937] = np.inf
    line = refused(written(tmp_path / "t.parquet", rows, rows=100), tmp_path, capsys, verb=verb)
    assert "t.parquet, row group 9: number that is not finite (row 938, column score)" in line


@pytest.mark.parametrize("verb", VERBS)
def test_a_truncated_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    table = written(tmp_path / "t.parquet", columns())
    table.write_bytes(table.read_bytes()[:-100])
    assert "t.parquet: cannot be read as Parquet" in refused(table, tmp_path, capsys, verb=verb)


@pytest.mark.parametrize("verb", VERBS)
def test_a_row_group_that_was_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    table = written(tmp_path / "t.parquet", columns(), rows=100)
    group = pq.ParquetFile(table).metadata.row_group(4).column(1)
    content = bytearray(table.read_bytes())
    start = group.dictionary_page_offset or group.data_page_offset
    content[start : start + group.total_compressed_size] = b"\xff" * group.total_compressed_size
    table.write_bytes(bytes(content))
    assert "t.parquet, row group 4: cannot be read as Parquet" in refused(table, tmp_path, capsys, verb=verb)


def test_a_damaged_entry_of_a_column_in_the_footer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """pyarrow ends the whole process when it is asked for the size of such a column."""
    table = written(tmp_path / "t.parquet", columns())
    content, optional = table.read_bytes(), b"\x25\x02\x18\x03age"
    assert content.count(optional) == 1
    table.write_bytes(content.replace(optional, b"\x25\x7f\x18\x03age"))
    assert "t.parquet, row group 0: cannot be read as Parquet" in refused(table, tmp_path, capsys)
    with pytest.raises(Refusal, match="cannot be read as Parquet"):
        ParquetSource.of(table, 4096)  # a row group that is too large as a whole: its columns are looked at


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("change", ["kind", "less", "more"])
def test_a_schema_that_changes_within_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str, verb: str
) -> None:
    folder, rows = tmp_path / "folder", columns()
    folder.mkdir()
    written(folder / "a.parquet", rows)
    if change == "kind":
        rows["age"] = rows["age"].astype(str)
    elif change == "less":
        del rows["age"]
    else:
        rows["weight"] = rows["age"]
    written(folder / "b.parquet", rows)
    line = refused(folder, tmp_path, capsys, verb=verb)
    assert "b.parquet" in line
    assert "same columns" in line
    assert ("age" if change != "more" else "weight") in line


@pytest.mark.parametrize("verb", ["measure", "fix"])
def test_a_class_that_first_appears_in_the_last_block(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    rows = columns()
    rows["ill"] = rows["ill"].astype(object)
    rows["ill"][998] = "perhaps"
    line = refused(written(tmp_path / "t.parquet", rows, rows=100), tmp_path, capsys, "--loss", "logistic", verb=verb)
    assert "t.parquet, row group 9: the target ill has 3 values and logistic needs two" in line
    assert "perhaps first in row 999" in line


def test_a_label_that_first_appears_in_the_last_block_is_a_level(tmp_path: Path) -> None:
    rows = columns()
    rows["city"] = rows["city"].astype(object)
    rows["city"][990:] = "Linz"
    table = written(tmp_path / "t.parquet", rows, rows=100)
    leak = dm.measure(table, target="ill", noise=dm.Gaussian(0.1), engine="blocks")
    assert "city=Linz" in leak.model.design.names
    levels = {group.group for group in leak.result().groups if group.column == "city"}
    assert levels == {"= Ulm", "= Graz", "= Bonn", "= Wien", "= Linz"}


def test_a_label_of_the_last_block_is_a_component_if_bounds_are_read_off_and_unlisted_if_they_are_declared(
    tmp_path: Path,
) -> None:
    rows = columns()
    rows["city"] = rows["city"].astype(object)
    rows["city"][990:] = "Linz"
    table = written(tmp_path / "t.parquet", rows, rows=100)
    options = {"epsilon": 1.0, "exclude": ("ill", "age"), "engine": "blocks"}
    read = dm.components(table, not_private=True, **options)
    assert read.result.components.columns == 1 + 5
    bounds = {"score": {"lower": -3, "upper": 3}, "city": {"levels": ["Ulm", "Graz", "Bonn", "Wien"]}}
    declared = dm.components(table, bounds=bounds, **options)
    assert declared.result.components.columns == 1 + 4
    assert declared.result.internal.labels_outside_the_list == 10


def test_a_row_group_that_is_too_large_is_refused_with_a_command_that_works(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = tmp_path / "large.parquet"
    n = 9_000_000
    pq.write_table(pa.table({"x": rng.normal(size=n), "y": rng.normal(size=n)}), table, row_group_size=n)
    with pytest.raises(Refusal, match="smaller row groups: python -c"):
        dm.measure(table, target="y", engine="blocks", memory="256MB")


def test_an_empty_folder_and_a_file_without_rows(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(Refusal, match="no Parquet file"):
        dm.measure(tmp_path / "empty", target="y")
    table = written(tmp_path / "t.parquet", {name: column[:0] for name, column in columns().items()})
    with pytest.raises(Refusal, match="there is no row"):
        dm.measure(table, target="ill", engine="blocks")


@pytest.mark.parametrize("memory_text", ["1MB", "much", "-2GB"])
def test_too_little_memory_is_refused(tmp_path: Path, memory_text: str) -> None:
    table = written(tmp_path / "t.parquet", columns())
    with pytest.raises(Refusal, match="such as 2GB"):
        dm.measure(table, target="ill", memory=memory_text)


def test_files_that_do_not_belong_to_the_table_are_not_read(tmp_path: Path) -> None:
    """What a job that was stopped leaves behind would count people twice, and their figures would be too low."""
    rows = columns(600)
    table = tmp_path / "table"
    (table / "_temporary" / "0").mkdir(parents=True)
    written(table / "a.parquet", {name: column[:300] for name, column in rows.items()})
    written(table / "b.parquet", {name: column[300:] for name, column in rows.items()})
    whole = written(tmp_path / "whole.parquet", rows)
    for name in ("_temporary/0/a.parquet", ".b.parquet.crc.parquet", "_old.parquet"):
        written(table / name, rows)
    options: dict[str, Any] = {"target": "ill", "noise": dm.Gaussian(0.1)}
    found = dm.measure(table, **options).result(limit=1.0)
    assert_same_figures(dm.measure(whole, engine="memory", **options).result(limit=1.0), found)


@pytest.mark.parametrize(
    ("left", "kind"),
    [("_delta_log/0.json", "Delta Lake"), (".hoodie/x", "Hudi"), ("metadata/v1.metadata.json", "Iceberg")],
)
def test_a_folder_that_keeps_earlier_versions_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], left: str, kind: str
) -> None:
    folder = tmp_path / "folder"
    (folder / left).parent.mkdir(parents=True)
    (folder / left).touch()
    written(folder / "a.parquet", columns())
    assert f"this is a table of {kind}" in refused(folder, tmp_path, capsys)


def test_a_column_in_the_names_of_subfolders_is_left_out_only_if_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, folder = columns(), tmp_path / "folder"
    for k, site in enumerate(("A", "B")):
        (folder / f"site={site}").mkdir(parents=True)
        written(folder / f"site={site}" / "x.parquet", {name: column[k::2] for name, column in rows.items()})
    line = refused(folder, tmp_path, capsys)
    assert "the values of site are in the names of subfolders" in line
    assert "--exclude site" in line
    leak = dm.measure(folder, target="ill", exclude="site", noise=dm.Gaussian(0.1))
    assert sum(len(block["eta"]) for block in leak.doses()) == 1000
    with pytest.raises(Refusal, match="no column town"):
        dm.measure(folder, target="ill", exclude=("site", "town"))


def test_a_file_of_a_folder_with_a_column_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, rows = tmp_path / "folder", columns()
    folder.mkdir()
    written(folder / "a.parquet", rows)
    twice = pa.Table.from_arrays([*map(pa.array, rows.values()), pa.array(rows["age"])], names=[*rows, "age"])
    pq.write_table(twice, folder / "b.parquet")
    assert "b.parquet: two columns have the same name (column age)" in refused(folder, tmp_path, capsys)


def test_a_column_with_the_name_of_a_field_inside_another_is_read_by_its_name(tmp_path: Path) -> None:
    rows = columns()
    nested = pa.array([{"age": 1.0, "sex": "f"}] * 1000)
    table, plain = tmp_path / "nested.parquet", written(tmp_path / "plain.parquet", {**rows, "s.age": rows["age"] ** 2})
    pq.write_table(pa.table({"s": nested, **rows, "s.age": rows["age"] ** 2}), table, row_group_size=100)
    options: dict[str, Any] = {"target": "ill", "noise": dm.Gaussian(0.1)}
    found = dm.measure(table, engine="blocks", exclude="s", **options).result(limit=1.0)
    assert_same_figures(dm.measure(plain, engine="memory", **options).result(limit=1.0), found)


def test_gaps_are_not_counted_in_one_block_as_if_it_were_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = columns()
    rows["age"][:100] = np.nan
    line = refused(written(tmp_path / "t.parquet", rows, rows=100), tmp_path, capsys)
    assert "row group 0: missing value (row 1, column age)" in line
    assert "(--missing drop)" in line


def test_a_table_without_a_complete_row_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = columns()
    rows["age"][:] = np.nan
    line = refused(written(tmp_path / "t.parquet", rows, rows=100), tmp_path, capsys, "--missing", "drop")
    assert "t.parquet: every row has a missing value: leave the emptiest column out (--exclude)" in line
