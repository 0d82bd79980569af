"""A Dask DataFrame or Array as a table in parts: a part is a partition, which stays on its worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.engines.raw_block import RawBlock


@dataclass(frozen=True, eq=False)
class PartitionPart:
    """One partition. On a worker `frame` is the partition itself; elsewhere it is Dask's promise of it."""

    frame: Any
    label: str
    number: int
    columns: tuple[str, ...]
    positions: tuple[int, ...]
    first: int
    """Number of the part's first row in the whole table."""
    begin: int
    rows: int
    """Rows of the partition that belong to the part, from `begin` on."""
    size: int
    """Rows of the partition."""
    block_rows: int

    def between(self, low: int, high: int) -> PartitionPart:
        """Those of its rows that have these numbers in the whole table."""
        return replace(self, begin=self.begin + low - self.first, first=low, rows=high - low)

    def blocks(self) -> Iterator[RawBlock]:
        """Blocks of at most `block_rows` rows."""
        frame = self.frame.compute() if hasattr(self.frame, "compute") else self.frame
        if len(frame) != self.size:
            fault = f"it has {len(frame)} rows and had {self.size} when they were counted"
            raise self._place(0).refusal(fault, "a Dask collection must give the same rows each time; persist it")
        positions = self._positions_in(frame)
        for start in range(0, self.rows, self.block_rows):
            at = self.begin + start
            some = frame[at : min(at + self.block_rows, self.begin + self.rows)]
            columns = {name: _column(some, j) for name, j in zip(self.columns, positions, strict=True)}
            yield RawBlock(columns, self.first + start, self._place(at))

    def _positions_in(self, frame: Any) -> Sequence[int]:
        """Where the columns are in this partition: Dask does not check that it has them in the collection's order."""
        if isinstance(frame, np.ndarray):
            if frame.ndim != 2 or max(self.positions, default=-1) >= frame.shape[1]:
                fault = f"it is an array of shape {safe_text(frame.shape)}"
                raise self._place(0).refusal(fault, SAME_COLUMNS)
            return self.positions
        names = [str(name) for name in frame.columns]
        refuse_other_columns(self._place(0), names, self.columns)
        return [names.index(name) for name in self.columns]

    def _place(self, start: int) -> Location:
        return Location(f"{self.label}, partition {self.number}", first=1 + start)


SAME_COLUMNS = "all partitions of a Dask collection must have its columns"


def refuse_other_columns(place: Location, held: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse a partition that does not have each wanted column once; their order may differ."""
    for name in wanted:
        if held.count(name) != 1:
            fault = "it has two columns" if name in held else "it has no column"
            raise place.refusal(f"{fault} {safe_text(name)}", SAME_COLUMNS)


def _size_and_names(frame: Any) -> tuple[int, tuple[str, ...]]:
    return len(frame), tuple(str(name) for name in frame.columns)


def _computed(label: str, tasks: Sequence[Any]) -> tuple[Any, ...]:
    """The values of tasks that compute the partitions for the first time: its own errors show here."""
    import dask

    try:
        return tuple(dask.compute(*tasks))
    except Refusal:
        raise
    except Exception as error:  # of any kind; its text may quote cells
        fault = f"a partition cannot be computed ({type(error).__name__})"
        raise Location(label).refusal(fault, "look at collection.compute()") from None


def _column(frame: Any, j: int) -> Any:
    """An array of numpy, or of Arrow for anything but plain numbers."""
    if isinstance(frame, np.ndarray):
        return frame[:, j]
    series = frame.iloc[:, j]
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "fiub":
        return series.to_numpy()
    import pyarrow as pa

    values = pa.Array.from_pandas(series)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


@dataclass(frozen=True, eq=False)
class DaskSource:
    """A Dask collection of rows. Its rows are counted once, where they are."""

    collection: Any
    label: str
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    """Rows of each partition."""
    row_bytes: int
    identity: str

    @classmethod
    def of(cls, collection: Any) -> DaskSource:
        """Counts the rows of each partition; refused if it is not a table."""
        import dask
        from dask.base import tokenize

        label = f"Dask {type(collection).__name__}"
        if hasattr(collection, "map_partitions"):
            names = tuple(str(name) for name in collection.columns)
            Location(label).check_names(names)
            counted = _computed(label, [dask.delayed(_size_and_names)(part) for part in collection.to_delayed()])
            sizes = tuple(size for size, _ in counted)
            for k, (_, held) in enumerate(counted):
                refuse_other_columns(Location(f"{label}, partition {k}"), held, names)
        else:
            if collection.ndim != 2:
                shape = safe_text(collection.shape)
                raise Location(label).refusal(f"an array of shape {shape} is no table", "give rows and columns")
            names = tuple(f"x{j}" for j in range(int(collection.shape[1])))
            collection = collection.rechunk({1: -1})
            known = not any(np.isnan(size) for size in collection.chunks[0])
            chunks = [] if known else collection.to_delayed().ravel()
            counted = _computed(label, [dask.delayed(len)(part) for part in chunks])
            sizes = tuple(int(size) for size in collection.chunks[0]) if known else counted
        if not sum(sizes):
            raise Refusal(f"{label}: there are no rows")
        token = tokenize(collection)
        return cls(collection, label, names, tuple(map(int, sizes)), 8 * len(names), f"{label}:{token}:{sum(sizes)}")

    @property
    def rows(self) -> int:
        """Rows."""
        return sum(self.sizes)

    def place_of(self, row: int) -> Location:
        """The partition of a row; rows are counted from its start."""
        ends = np.cumsum(self.sizes)
        k = min(int(np.searchsorted(ends, row, side="right")), len(ends) - 1)
        return Location(f"{self.label}, partition {k}", first=1 - int(ends[k] - self.sizes[k]))

    def parts(self, columns: Sequence[str], block_rows: int) -> Sequence[PartitionPart]:
        """One part for each partition that has rows. Only the columns in question are read from their source."""
        whole = not hasattr(self.collection, "map_partitions")
        partitions = self.collection.to_delayed().ravel() if whole else self.collection[list(columns)].to_delayed()
        positions = tuple(self.names.index(name) if whole else j for j, name in enumerate(columns))
        parts, first = [], 0
        for k, (partition, rows) in enumerate(zip(partitions, self.sizes, strict=True)):
            if rows:
                wanted = tuple(columns)
                part = PartitionPart(partition, self.label, k, wanted, positions, first, 0, rows, rows, block_rows)
                parts.append(part)
            first += rows
        return parts


def is_dask(frame: Any) -> bool:
    """Whether it is a Dask DataFrame or Array; Dask is not imported."""
    return type(frame).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(frame, "to_delayed")
