"""Every kind of table that is read in blocks has the figures of the same table in memory."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import dosimeter as dm
from dosimeter.cli.main import run
from dosimeter.core.errors import Refusal
from dosimeter.engines import memory
from dosimeter.engines.parquet_source import ParquetSource
from dosimeter.tables.block_reading import BlockReading, content_digest, table_parts
from dosimeter.tables.people_together import cut_between_people
from dosimeter.workflows import block_table
from tests.engines.tables import assert_same_figures, people, written

NAMES = ("score", "age", "city", "ill", "adjacent")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_ROWS", 128)


def columns(n: int = 700) -> dict[str, Any]:
    return {name: column for name, column in people(n).items() if name in NAMES}


@pytest.mark.parametrize("person", [None, "adjacent"])
@pytest.mark.parametrize("kind", ["LazyFrame", "scanned", "dataset", "dataset in memory"])
def test_frames_that_are_not_in_memory(tmp_path: Path, kind: str, person: str | None) -> None:
    rows = columns()
    path = written(tmp_path / "t.parquet", rows, rows=100)
    frame: Any = {
        "LazyFrame": lambda: pl.LazyFrame(rows),
        "scanned": lambda: pl.scan_parquet(path),
        "dataset": lambda: ds.dataset(path),
        "dataset in memory": lambda: ds.dataset(pa.table(rows)),
    }[kind]()
    options: dict[str, Any] = {"target": "ill", "noise": dm.Gaussian(0.1)}
    options |= {"exclude": "adjacent"} if person is None else {"person": person}
    whole = dm.measure(path, engine="memory", **options).result(limit=0.3)
    assert_same_figures(whole, dm.measure(frame, **options).result(limit=0.3))


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_that_is_mapped_into_memory(tmp_path: Path, order: Any) -> None:
    rng = np.random.default_rng(0)
    X = np.asarray(rng.normal(size=(600, 4)), order=order)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    whole = dm.measure(X, target="x3", noise=dm.Laplace(0.1)).result()
    assert_same_figures(whole, dm.measure(mapped, target="x3", noise=dm.Laplace(0.1)).result())


def test_the_size_of_the_table_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "t.parquet", columns())
    options: dict[str, Any] = {"target": "ill", "exclude": "adjacent", "noise": dm.Gaussian(0.1), "memory": "256MB"}
    assert type(dm.measure(path, **options)).__name__ == "ModelLeakage"
    monkeypatch.setattr(block_table, "SHARE", (256 << 20) // (700 * 8 * len(NAMES)) + 1)
    assert type(dm.measure(path, **options)).__name__ == "BlockLeakage"


def test_parts_can_be_pickled_and_read_elsewhere(tmp_path: Path) -> None:
    path = written(tmp_path / "t.parquet", columns(), rows=100)
    source = ParquetSource.of(path, 1 << 30)
    parts = pickle.loads(pickle.dumps(source.parts(("age", "score"), 64)))  # noqa: S301
    ages = np.concatenate([np.asarray(block.columns["age"]) for part in parts for block in part.blocks()])
    assert np.array_equal(ages, columns()["age"])
    assert [part.rows for part in parts] == [100] * 7
    assert max(block.n for part in parts for block in part.blocks()) == 64


@pytest.mark.parametrize("boundaries", [[0, 103, 250, 401, 699], [0], [0, 99, 100, 101]])
def test_parts_are_cut_between_people_without_losing_a_row(tmp_path: Path, boundaries: list[int]) -> None:
    path = written(tmp_path / "t.parquet", columns(), rows=100)
    parts = cut_between_people(ParquetSource.of(path, 1 << 30).parts(("age",), 64), np.array(boundaries))
    blocks = [block for part in parts for block in part.blocks()]
    assert np.array_equal(np.concatenate([np.asarray(b.columns["age"]) for b in blocks]), columns()["age"])
    assert [b.first for b in blocks] == np.cumsum([0, *(b.n for b in blocks)])[:-1].tolist()
    assert {next(part.blocks()).first for part in parts} <= set(boundaries)


def test_the_command_line_reads_a_folder_and_writes_doses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    rows = columns()
    for k in range(2):
        written(folder / f"{k}.parquet", {name: c[k * 350 : (k + 1) * 350] for name, c in rows.items()})
    doses = tmp_path / "doses.parquet"
    options = ["--target", "ill", "--person", "adjacent", "--scale", "0.1", "--max-dose", "100", "--group", "city"]
    assert run(["measure", str(folder), *options, "--doses-out", str(doses)]) == 0
    assert "doses.parquet" in "".join(capsys.readouterr().out.split())
    assert set(pl.read_parquet(doses).columns) == {"person", "eta_in_standard_deviations"}
    assert run(["measure", str(folder), *options[:6], "--max-dose", "1e-9"]) == 1


def test_options_for_another_engine_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "t.parquet", columns())
    with pytest.raises(Refusal, match="pass both, or neither"):
        dm.measure(path, target="ill", engine="memory", checkpoint=tmp_path / "c")
    with pytest.raises(Refusal, match="not read in blocks"):
        dm.measure(columns(), target="ill", engine="blocks")
    with pytest.raises(Refusal, match="name a column of it"):
        dm.measure(path, y=np.zeros(700), engine="blocks")


# --- text files ---


def as_csv(path: Path, columns: dict[str, Any]) -> Path:
    pl.DataFrame(columns).write_csv(path)
    return path


@pytest.mark.parametrize("person", [None, "adjacent", "scattered"])
def test_a_text_file_has_the_figures_of_the_same_file_in_memory(tmp_path: Path, person: str | None) -> None:
    rows = {name: column for name, column in people(700).items() if name in (*NAMES, "smokes", "scattered")}
    path = as_csv(tmp_path / "t.csv", rows)
    options: dict[str, Any] = {"target": "ill", "noise": dm.Gaussian(0.1), "person": person}
    options |= {"exclude": tuple({"adjacent", "scattered"} - {person})}
    whole = dm.measure(path, engine="memory", **options).result(limit=0.3, groups="city")
    assert_same_figures(whole, dm.measure(path, engine="blocks", **options).result(limit=0.3, groups="city"))


def test_a_text_file_under_declared_bounds_has_gaps_where_cells_cannot_be_read(tmp_path: Path) -> None:
    rows = {name: column for name, column in columns().items() if name != "adjacent"}
    path = as_csv(tmp_path / "t.csv", rows)
    lines = path.read_text().splitlines()
    lines[5], lines[300], lines[301] = "abc,1,Ulm,yes", "1,2", '"1,2,Ulm,no'
    path.write_text("\n".join(lines) + "\n")
    bounds = {"score": (-3.0, 3.0), "age": (0.0, 90.0), "city": ["Graz", "Ulm", "Wien", "Bonn"], "ill": ["no", "yes"]}
    options: dict[str, Any] = {"target": "ill", "noise": dm.Gaussian(0.1), "bounds": bounds, "missing": "drop"}
    whole = dm.measure(path, engine="memory", **options).result()
    blocks = dm.measure(path, engine="blocks", **options).result()
    assert_same_figures(whole, blocks)


def test_the_size_of_a_text_file_decides_how_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = as_csv(tmp_path / "t.csv", {name: columns()[name] for name in ("score", "age")})
    assert "BlockLeakage" not in repr(dm.measure(path, target="age", noise=dm.Gaussian(1.0)))
    monkeypatch.setattr(block_table, "SHARE", 10**9)
    assert "BlockLeakage" in repr(dm.measure(path, target="age", noise=dm.Gaussian(1.0)))
    filled = dm.measure(path, target="age", noise=dm.Gaussian(1.0), missing="impute")
    assert "BlockLeakage" not in repr(filled)  # only tables in memory are filled
    with pytest.raises(Refusal, match="not read by workers"):
        dm.measure(path, target="age", engine="dask")


def test_a_block_without_a_listed_class_is_no_fault(tmp_path: Path) -> None:
    rows = {name: column for name, column in columns().items() if name in ("score", "age", "ill")}
    rows["ill"] = np.where((np.arange(700) > 200) & (np.arange(700) < 500), "unknown", rows["ill"])
    bounds = {"score": (-3.0, 3.0), "age": (0.0, 90.0), "ill": ["no", "yes"]}
    options: dict[str, Any] = {"target": "ill", "noise": dm.Gaussian(0.1), "bounds": bounds, "missing": "drop"}
    for path in (as_csv(tmp_path / "t.csv", rows), written(tmp_path / "t.parquet", rows)):
        whole = dm.measure(path, engine="memory", **options).result()
        assert_same_figures(whole, dm.measure(path, engine="blocks", **options).result())


def test_a_bad_cell_far_down_a_text_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {name: columns()[name] for name in ("score", "age")}
    path = as_csv(tmp_path / "t.csv", rows)
    lines = path.read_text().splitlines()
    lines[650] = "abc,1"
    path.write_text("\n".join(lines) + "\n")
    command = ["measure", str(path), "--target", "age", "--scale", "0.1", "--engine", "blocks"]
    assert run([*command, "--json", str(tmp_path / "r.json")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "t.csv: text in a number column (row 650, column score)" in line
    assert not (tmp_path / "r.json").exists()


def test_a_text_file_that_changed_has_another_checkpoint(tmp_path: Path) -> None:
    path = as_csv(tmp_path / "t.csv", {name: columns()[name] for name in ("score", "age")})
    options: dict[str, Any] = {"target": "age", "noise": dm.Gaussian(1.0), "checkpoint": tmp_path / "work"}
    first = dm.measure(path, **options).result()
    assert first.to_json() == dm.measure(path, **options).result().to_json()
    path.write_text(path.read_text() + "1.0,2.0\n")
    with pytest.raises(Refusal, match="another table"):
        dm.measure(path, **options)


@pytest.mark.parametrize("kind", ["LazyFrame in memory", "LazyFrame of a file", "dataset", "mapped array"])
@pytest.mark.parametrize("verb", ["measure", "fix"])
def test_a_checkpoint_is_not_that_of_another_table_of_the_same_form(tmp_path: Path, kind: str, verb: str) -> None:
    """Same columns, rows and place: with the first table's sums an outlier of the second would not be seen."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=(400, 2))
    second = first.copy()
    second[-1, 0] = 50.0

    def frame(values: np.ndarray) -> Any:
        table = pl.DataFrame(values, schema=["x0", "x1"])
        if kind == "LazyFrame in memory":
            return table.lazy()
        if kind == "dataset":
            return ds.dataset(table.to_arrow())
        if kind == "mapped array":
            np.save(tmp_path / "t.npy", values)
            return np.load(tmp_path / "t.npy", mmap_mode="r")
        table.write_parquet(tmp_path / "t.parquet")
        return pl.scan_parquet(tmp_path / "t.parquet")

    def run(values: np.ndarray) -> float:
        options: dict[str, Any] = {"target": "x1", "checkpoint": tmp_path / "work"}
        if verb == "measure":
            return float(dm.measure(frame(values), noise=dm.Gaussian(0.1), **options).result().dose.highest)
        return float(dm.fix(frame(values), scale=0.1, even_if_useless=True, **options).result.dose.highest)

    highest = run(first)
    assert run(first) == highest  # its own work is found again
    with pytest.raises(Refusal, match="belongs to another table"):
        run(second)


def test_a_digest_of_the_values_does_not_depend_on_the_blocks(tmp_path: Path) -> None:
    columns = people(300)

    def digest(rows: int, **changed: Any) -> str:
        table = written(tmp_path / "t.parquet", {**columns, **changed}, rows)
        source = ParquetSource.of(table, 1 << 30)
        return content_digest(table_parts(source.parts(source.names, rows), BlockReading()))

    assert len({digest(100), digest(37), digest(300)}) == 1
    joined = columns["city"].astype(object)
    joined[:2] = ["Ulm", "Graz"]
    other = joined.copy()
    other[:2] = ["UlmG", "raz"]
    assert digest(100, city=joined) != digest(100, city=other)
    assert digest(100, score=np.roll(columns["score"], 1)) != digest(100)


@pytest.mark.parametrize("kind", ["file", "folder", "LazyFrame"])
def test_a_table_that_is_written_again_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The second pass would read other rows than the first, and the figures would be of neither table."""
    table = tmp_path / "t.parquet"
    rows = columns(400)
    written(table, rows, rows=100)
    text = tmp_path / "t.csv"
    pl.DataFrame(rows).write_csv(text)
    summarise = block_table._summarise

    def written_meanwhile(*arguments: Any) -> Any:
        result = summarise(*arguments)
        if kind == "LazyFrame":  # of its files only the number of rows is known
            pl.DataFrame(columns(401)).write_csv(text)
        else:
            written(table, {**rows, "score": rows["score"][::-1].copy()}, rows=100)
            os.utime(table, ns=(0, 0))  # also on a disk that keeps coarse times
        return result

    monkeypatch.setattr(block_table, "_summarise", written_meanwhile)
    frame = {"file": table, "folder": tmp_path, "LazyFrame": pl.scan_csv(text)}[kind]
    with pytest.raises(Refusal, match=r"run (the command|it) again"):
        dm.measure(frame, target="ill", noise=dm.Gaussian(0.1), engine="blocks").result()


def test_a_dataset_with_a_column_twice_is_refused() -> None:
    column = pa.array([1.0, 2.0])
    twice = pa.Table.from_arrays([column, column, column], names=["a", "a", "y"])
    with pytest.raises(Refusal, match="two columns have the same name"):
        dm.measure(ds.dataset(twice), target="y", noise=dm.Gaussian(0.1))


def test_a_frame_with_another_order_in_each_pass_is_refused() -> None:
    """A group_by of polars keeps no order, and passes are joined by row numbers."""
    seeds = iter(range(100))
    rows = pl.DataFrame(columns(400))
    shuffled = rows.lazy().map_batches(lambda frame: frame.sample(fraction=1.0, shuffle=True, seed=next(seeds)))
    with pytest.raises(Refusal, match="another order of its rows, each time it is read: sort it"):
        dm.measure(shuffled, target="ill", noise=dm.Gaussian(0.1)).result()
    ordered = shuffled.sort("score")
    whole = dm.measure(rows.sort("score"), target="ill", noise=dm.Gaussian(0.1)).result(limit=1.0)
    assert_same_figures(whole, dm.measure(ordered, target="ill", noise=dm.Gaussian(0.1)).result(limit=1.0))
