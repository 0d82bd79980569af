"""Every kind of table that is read in blocks has the figures of the same table in memory."""

from __future__ import annotations

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
