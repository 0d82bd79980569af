"""Tables that are not in memory and not a Parquet file: arrays on disk, polars LazyFrames, Arrow datasets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.engines.dask_source import DaskSource, is_dask
from dosimeter.engines.raw_block import BlockSource, RawBlock


@dataclass(frozen=True, eq=False)
class ArrayPart:
    """Consecutive rows of a 2-D array, which may be a file that is mapped into memory."""

    array: Any
    names: tuple[str, ...]
    columns: tuple[str, ...]
    first: int
    rows: int

    def between(self, low: int, high: int) -> ArrayPart:
        """Those of its rows that have these numbers in the whole table."""
        return replace(self, first=low, rows=high - low)

    def blocks(self) -> Iterator[RawBlock]:
        """One block: the part is as long as a block."""
        some = self.array[self.first : self.first + self.rows]
        columns = {name: some[:, self.names.index(name)] for name in self.columns}
        yield RawBlock(columns, self.first, Location("array", first=self.first))


@dataclass(frozen=True, eq=False)
class ArraySource:
    """A 2-D array; its columns are x0, x1, ..."""

    array: Any
    label: str = "array"

    @property
    def names(self) -> tuple[str, ...]:
        """x0, x1, ..."""
        return tuple(f"x{j}" for j in range(self.array.shape[1]))

    @property
    def rows(self) -> int:
        """Rows."""
        return int(self.array.shape[0])

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return int(8 * self.array.shape[1])

    @property
    def identity(self) -> str:
        """The file behind the array, if it is mapped."""
        name = getattr(self.array, "filename", None)
        return f"{name}:{self.array.shape}:{self.array.dtype}"

    def place_of(self, row: int) -> Location:
        """The array."""
        return Location(self.label)

    def parts(self, columns: Sequence[str], block_rows: int) -> Sequence[ArrayPart]:
        """Parts of one block each."""
        n = self.rows
        return [
            ArrayPart(self.array, self.names, tuple(columns), i, min(block_rows, n - i))
            for i in range(0, n, block_rows)
        ]


@dataclass(frozen=True, eq=False)
class StreamPart:
    """A table that can only be read from its start: one part with many blocks."""

    frame: Any
    columns: tuple[str, ...]
    block_rows: int
    rows: int
    first: int = 0
    digests: list[int] = field(default_factory=list)
    """Of the rows and their order in the first pass."""

    def between(self, low: int, high: int) -> StreamPart:
        """The whole: it can only be read from its start."""
        return self

    def blocks(self) -> Iterator[RawBlock]:
        """Batches of polars or Arrow, cut to the size of a block."""
        first, digest, label = 0, 0, type(self.frame).__name__
        try:
            for batch in self._batches():
                digest = (digest + _digest_of_rows(batch, first)) % 2**64
                for i in range(0, len(batch), self.block_rows):
                    some = batch[i : i + self.block_rows]
                    columns = {name: some[name] for name in self.columns}
                    yield RawBlock(columns, first + i, Location(label, first=first + i))
                first += len(batch)
            if first != self.rows:
                fault = f"it has {first} rows and had {self.rows} when they were counted"
                raise Location(label).refusal(fault, "do not write to its files meanwhile, and run it again")
            self.digests.append(digest)
            if digest != self.digests[0]:
                fault = "it has other rows, or another order of its rows, each time it is read"
                todo = "sort it (a join or group_by takes maintain_order), or write it to a file first"
                raise Location(label).refusal(fault, todo)
        except Refusal:
            raise
        except Exception as error:  # polars and pyarrow raise many kinds of errors
            raise Location(label, first=first).refusal(
                f"cannot be read ({safe_text(error, 100)})", "check it"
            ) from None

    def _batches(self) -> Iterator[Any]:
        if hasattr(self.frame, "collect_batches"):
            lazy = self.frame.select(list(self.columns))
            yield from lazy.collect_batches(chunk_size=self.block_rows, maintain_order=True)
            return
        import pyarrow.dataset as ds

        options = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True, buffer_size=1 << 20)
        yield from self.frame.to_batches(
            columns=list(self.columns),
            batch_size=self.block_rows,
            batch_readahead=1,
            fragment_readahead=1,
            fragment_scan_options=options if _is_parquet(self.frame) else None,
            use_threads=False,
        )


@dataclass(frozen=True, eq=False)
class StreamSource:
    """A polars LazyFrame or an Arrow dataset."""

    frame: Any
    label: str
    names: tuple[str, ...]
    rows: int
    row_bytes: int
    identity: str

    @classmethod
    def of(cls, frame: Any) -> StreamSource:
        """Counts the rows."""
        label = type(frame).__name__
        if hasattr(frame, "collect_schema"):
            import polars as pl

            names = tuple(frame.collect_schema().names())
            rows = int(frame.select(pl.len()).collect().item())
            identity = f"{label}:{frame.explain()}:{rows}"
        else:
            names = tuple(frame.schema.names)
            Location(label).check_names(names)  # Arrow counts no rows if two columns have one name
            rows = int(frame.count_rows())
            identity = f"{label}:{getattr(frame, 'files', '')}:{rows}"
        return cls(frame, label, names, rows, 8 * len(names), identity)

    def place_of(self, row: int) -> Location:
        """The frame."""
        return Location(self.label)

    def parts(self, columns: Sequence[str], block_rows: int) -> Sequence[StreamPart]:
        """One part."""
        return [StreamPart(self.frame, tuple(columns), block_rows, self.rows)]


def _digest_of_rows(batch: Any, first: int) -> int:
    """A digest of the rows of a polars batch and their places, which adds over batches; 0 of any other.

    Each pass over a LazyFrame runs its plan anew, and a join or a group_by gives its rows in any order.
    """
    if not hasattr(batch, "hash_rows"):
        return 0
    names = [name for name, kind in batch.schema.items() if str(kind) in _HASHED]
    if not names:
        return 0
    hashes = batch.select(names).hash_rows(seed=1).to_numpy().astype(np.uint64)
    places = 2 * np.arange(first, first + len(hashes), dtype=np.uint64) + np.uint64(1)
    return int((hashes * places).sum(dtype=np.uint64))


_HASHED = frozenset("Float32 Float64 Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 Boolean String".split())
"""Kinds of polars columns whose hashes depend on their values alone."""


def _is_parquet(dataset: Any) -> bool:
    return getattr(getattr(dataset, "format", None), "default_extname", "") == "parquet"


def frame_source(frame: Any) -> BlockSource | None:
    """The source of a LazyFrame, a dataset, a mapped array or a Dask collection; None for anything else."""
    if is_dask(frame):
        return DaskSource.of(frame)
    kind = f"{type(frame).__module__}.{type(frame).__name__}"
    if isinstance(frame, np.memmap) and frame.ndim == 2:
        return ArraySource(frame)
    if kind.startswith("polars.") and hasattr(frame, "collect_batches"):
        return StreamSource.of(frame)
    if kind.startswith("pyarrow._dataset.") and hasattr(frame, "to_batches"):
        return StreamSource.of(frame)
    return None
