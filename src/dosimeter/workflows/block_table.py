"""Which tables are read in blocks, with which engine, and the parts that a verb reads."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.engine import Engine, NoBlocks
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import Location
from dosimeter.core.progress import stage
from dosimeter.core.text import safe_text
from dosimeter.core.version import __version__
from dosimeter.engines.dask_source import DaskSource, is_dask
from dosimeter.engines.frame_sources import ArraySource, StreamSource, frame_source
from dosimeter.engines.memory import memory_bytes, rows_of_block
from dosimeter.engines.parquet_source import ENDINGS, ParquetSource
from dosimeter.engines.raw_block import BlockSource
from dosimeter.engines.registry import MEMORY, EngineOptions, check_engine, create_engine
from dosimeter.models.column_control import MOST_ROWS
from dosimeter.tables.block_reading import BlockReading, TablePart, content_digest, table_parts
from dosimeter.tables.csv_source import ENDINGS as TEXT_ENDINGS
from dosimeter.tables.csv_source import CsvFile
from dosimeter.tables.people_together import (
    PersonRuns,
    WholePeoplePart,
    bring_people_together,
    cut_between_people,
)
from dosimeter.tables.table import Table
from dosimeter.tables.table_summary import ColumnSummary, MixedSummary, SampledRows, SummaryOptions, summarise
from dosimeter.workflows.people_table import is_path

TableSource = BlockSource | CsvFile
"""A table in blocks, or a text file that is turned into one when it is opened."""
DASK = "dask"
SHARE = 6
"""A table in memory takes about this many times its numbers: columns, design, factors, figures by cell."""


@dataclass(frozen=True)
class Place:
    """Where a verb computes: options that every verb shares."""

    engine: str | None = None
    """None: by the size of the table."""
    memory: str | int | None = None
    checkpoint: str | os.PathLike[str] | None = None
    scheduler: str | None = None
    """Address of a cluster's scheduler."""

    @property
    def bytes(self) -> int:
        """The memory that may be used."""
        return memory_bytes(self.memory)


def block_source(
    data: Any, place: Place, *, delimiter: str = ",", decimal: str = ".", whole: bool = False
) -> TableSource | None:
    """The source of a table that is to be read in blocks; None if it is read whole.

    By default tables that cannot be in memory (a folder, a LazyFrame, a dataset, a mapped array) are read in blocks,
    and Parquet and text files whose numbers would take more than the memory. whole: other options ask for what blocks
    cannot do, so a text file is read whole unless an engine is named.
    """
    chosen = _chosen_engine(data, place)
    memory = place.bytes
    if chosen == MEMORY:
        if place.checkpoint is not None:
            raise Refusal(f"{option('checkpoint')} is for {option('engine', 'blocks')}: pass both, or neither")
        return None
    source = frame_source(data)
    if source is None and is_path(data):
        path = Path(data).resolve() if chosen == DASK else Path(data)  # workers are elsewhere
        if path.is_dir() or path.suffix.lower() in ENDINGS:
            source = ParquetSource.of(path, memory)
            if chosen is None and place.checkpoint is None and not path.is_dir() and _fits(source, memory):
                return None
        elif path.suffix.lower() in TEXT_ENDINGS and chosen == DASK:
            raise Refusal(f"{option('engine', DASK)}: a text file is not read by workers: write it as Parquet first")
        elif path.suffix.lower() in TEXT_ENDINGS:
            text = CsvFile.of(path, delimiter, decimal)
            small = whole or _fits(text, memory)
            return None if chosen is None and place.checkpoint is None and small else text
    if source is None and (chosen is not None or place.checkpoint is not None):
        raise Refusal(
            f"{option('engine', chosen or 'blocks')}: this table is not read in blocks: give a .csv or .parquet file, "
            "a folder of Parquet files, a polars LazyFrame, an Arrow dataset or an array that is mapped into memory"
        )
    if chosen == DASK and not isinstance(source, ParquetSource | DaskSource):
        raise Refusal(
            f"{option('engine', DASK)}: give a Parquet file or folder that the workers can read, or a Dask collection"
        )
    return source


def _chosen_engine(data: Any, place: Place) -> str | None:
    """The engine that was named, or the only one that fits; None to choose by size."""
    chosen = None if place.engine is None else check_engine(place.engine)
    if place.scheduler is not None and (chosen not in (None, DASK) or is_dask(data)):
        todo = "open a distributed.Client" if is_dask(data) else f"use {option('engine', DASK)}, or leave it out"
        raise Refusal(f"{option('scheduler')} is for files that a cluster reads: {todo}")
    if is_dask(data) and chosen not in (None, DASK):
        raise Refusal(f"{option('engine', chosen)}: a Dask collection is measured where it is: leave the option out")
    return check_engine(DASK) if place.scheduler is not None or is_dask(data) else chosen


def refuse_given_model(data: Any, place: Place) -> None:
    """A given model is measured in memory: refuse options and tables of another engine."""
    if place.checkpoint is not None or place.scheduler is not None or place.engine not in (None, MEMORY):
        raise Refusal(
            f"{option('model')} is measured in memory: leave {option('engine')} and {option('checkpoint')} out"
        )
    if frame_source(data) is not None or (is_path(data) and Path(data).is_dir()):
        raise Refusal(f"{option('model')} is measured in memory: pass a file or a dataframe with the training rows")


def _fits(source: TableSource, memory: int) -> bool:
    return source.rows * 8 * len(source.names) * SHARE <= memory


class TemporaryFolder:
    """A folder that is deleted with this object, readable by its owner only."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="dosimeter-"))
        weakref.finalize(self, shutil.rmtree, self.path, True)


@dataclass(frozen=True, eq=False)
class BlockTable:
    """A table in parts, after its first pass."""

    source: BlockSource
    engine: Engine
    parts: list[Any]
    """Parts whose blocks are tables; with a person, of whole people."""
    n: int
    summaries: dict[str, ColumnSummary]
    sample: Table
    """Evenly spaced rows."""
    folder: Path
    """Where readings are kept."""
    people: int | None = None
    """People with a complete row; None if no person was named."""
    keep: Any = field(repr=False, default=None)
    """Holds a temporary folder as long as the table."""

    def sample_block(self, person: str | None) -> Table:
        """A few rows, for constants of a block's leakage that no row changes."""
        few = self.sample.take(np.arange(min(2, self.sample.n)))
        if person is None:
            return few
        few = few.drop([name for name in few.names if name == person])
        ids = np.array(["a", "b", None], dtype=object)[: few.n]
        return Table((*few.names, person), (*few.columns, ids), few.rows)

    @property
    def dropped(self) -> int:
        """Rows that were left out for missing values."""
        return self.source.rows - self.n


def open_blocks(
    source: TableSource,
    place: Place,
    *,
    reading: BlockReading,
    exclude: Sequence[str],
    needed: Sequence[str],
    person: str | None,
    bounds: dict[str, tuple[float, float]],
    levels: dict[str, tuple[str, ...]],
    task: str,
    sampled: bool = True,
) -> BlockTable:
    """Read the table once: kinds, moments and levels of its columns, and how the rows of people lie.

    sampled: keep some evenly spaced rows.
    """
    label = Location(source.label)
    _refuse_partitions(source, exclude, label)
    partitions = getattr(source, "partitions", ())
    label.check_known([*(name for name in exclude if name not in partitions), *needed], source.names)
    columns = [name for name in source.names if name not in exclude]
    temporary = TemporaryFolder() if place.checkpoint is None else None
    folder = Path(place.checkpoint or ".") if temporary is None else temporary.path
    memory, name = place.bytes, _chosen_engine(getattr(source, "collection", None), place) or "blocks"
    block_rows = rows_of_block(len(columns), memory)
    checkpoint = None if place.checkpoint is None else folder
    identity = source.identity
    if checkpoint is not None and isinstance(source, ArraySource | StreamSource):  # they do not say what they hold
        stage("reading the table, so that its checkpoint is known again")
        identity += content_digest(table_parts(source.parts(columns, block_rows), reading))
    identity = hashlib.sha256(f"{__version__}|{identity}|{task}|{memory}".encode()).hexdigest()
    engine = create_engine(name, EngineOptions(memory, checkpoint, identity, place.scheduler, folder))
    if isinstance(source, CsvFile):
        source = source.convert(reading, exclude, folder, block_rows, keep=checkpoint is not None)
    if source.rows < 2:
        raise label.refusal("there is no row" if source.rows == 0 else "there is only one row", "give at least two")
    raw = source.parts(columns, block_rows)
    parts: list[Any] = table_parts(raw, reading)
    options = SummaryOptions(bounds, levels, _evenly_spaced(source.rows if sampled else 0))
    stage("reading the columns")
    try:
        n, sample, runs, summaries = _summarise(engine, parts, columns, options, person, label)
    except NoBlocks:
        listed = "" if reading.classes is None else f", or a class of {safe_text(reading.target)} that is not listed"
        fault = f"every row has a missing value{listed}"
        raise label.refusal(fault, f"leave the emptiest column out ({option('exclude')})") from None
    if n < 2:
        raise label.refusal("only one row is left", "give at least two people")
    if sampled and n < source.rows:  # some rows are left out: evenly spaced ones among the others
        stage("reading some rows")
        (sample,) = engine.sum_over(parts, partial(_sampled, chosen=_kept_rows(engine, parts, n)))
    if person is not None and runs is not None:
        if not runs.adjacent and getattr(engine, "rows_stay", False):
            fault = f"the rows of a person are not adjacent ({option('person')}), and a cluster moves no rows"
            raise label.refusal(fault, "sort the table by person first")
        parts = _whole_people(raw, parts, runs, person, reading, folder, source, block_rows, memory)
    people = None if runs is None else runs.people
    return BlockTable(source, engine, parts, n, summaries, sample.table, folder, people, temporary)


def _refuse_partitions(source: TableSource, exclude: Sequence[str], label: Location) -> None:
    """Refuse columns that only the names of subfolders hold, unless they are left out."""
    for name in getattr(source, "partitions", ()):
        if name not in exclude:
            raise label.refusal(
                f"the values of {safe_text(name)} are in the names of subfolders, which are not read",
                f"write the column into the files, or leave it out ({option('exclude', safe_text(name))})",
            )


def _evenly_spaced(n: int) -> Any:
    """As `column_control.explain_table` takes them of a table in memory."""
    if n <= MOST_ROWS:
        return np.arange(n, dtype=np.int64)
    return np.linspace(0, n - 1, MOST_ROWS).astype(np.int64)


def _kept_rows(engine: Engine, parts: Sequence[Any], n: int) -> Any:
    """Numbers of evenly spaced rows among the n that are left."""
    numbers = np.concatenate(engine.map_over(parts, _row_numbers))
    return numbers[_evenly_spaced(n)]


def _row_numbers(table: Table) -> Any:
    return table.rows.astype(np.int64)


def _sampled(table: Table, chosen: Any) -> tuple[SampledRows]:
    return (SampledRows.of(table, chosen),)


def _first_terms(table: Table, options: SummaryOptions, person: str | None) -> tuple[Any, ...]:
    whole = table if person is None else table.drop([person])
    terms = summarise(whole, options)
    return terms if person is None else (PersonRuns.of(table, person), *terms)


def _summarise(
    engine: Engine,
    parts: Sequence[Any],
    columns: Sequence[str],
    options: SummaryOptions,
    person: str | None,
    label: Location,
) -> tuple[int, SampledRows, PersonRuns | None, dict[str, ColumnSummary]]:
    terms = engine.sum_over(parts, partial(_first_terms, options=options, person=person))
    runs, terms = (None, terms) if person is None else (terms[0], terms[1:])
    names = [name for name in columns if name != person]
    for name, summary in zip(names, terms[2:], strict=True):
        if isinstance(summary, MixedSummary):
            fault = f"values of kind {' and '.join(summary.kinds)} in different parts of the table"
            raise label.refusal(fault, f"give the column one kind, or leave it out ({option('exclude')})", column=name)
    return int(terms[0]), terms[1], runs, dict(zip(names, terms[2:], strict=True))


def _whole_people(
    raw: Sequence[Any],
    parts: Sequence[TablePart],
    runs: PersonRuns,
    person: str,
    reading: BlockReading,
    folder: Path,
    source: BlockSource,
    block_rows: int,
    memory: int,
) -> list[Any]:
    """Parts of which every block has all rows of its people."""
    if runs.adjacent:
        cut = cut_between_people(raw, runs.boundaries)
        return [WholePeoplePart(part, person) for part in table_parts(cut, reading)]
    stage("bringing the rows of each person together")
    needed = source.rows * max(8, source.row_bytes) * 4
    buckets = int(np.clip(4 * needed // memory, 1, 500))
    return list(bring_people_together(parts, person, folder, buckets=buckets, block_rows=block_rows))
