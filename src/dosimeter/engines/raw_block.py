"""What a source of blocks yields: columns as the source holds them, and where they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.location import Location


@dataclass(frozen=True, eq=False)
class RawBlock:
    """Consecutive rows of a table, not yet checked or encoded."""

    columns: Mapping[str, Any]
    """Name -> an array of numpy, Arrow or polars."""
    first: int
    """Number of the first row in the whole table, from 0."""
    place: Location
    """File and row group; rows are counted in the file."""
    incomplete: NDArray[np.bool_] | None = None
    """(n,) rows with a missing value, which a checked block leaves out of its columns; None if there is none."""
    checked: bool = False
    """Whether the columns are float64, bool or text already, as the whole table decides."""

    @property
    def n(self) -> int:
        """Rows."""
        return len(next(iter(self.columns.values()))) if self.columns else 0


class SourcePart(Protocol):
    """A part of a source that can be pickled and read again."""

    @property
    def rows(self) -> int: ...
    def blocks(self) -> Iterator[RawBlock]: ...


class BlockSource(Protocol):
    """A table that is read in parts."""

    @property
    def label(self) -> str:
        """What messages call it."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        ...

    @property
    def rows(self) -> int:
        """Rows."""
        ...

    @property
    def row_bytes(self) -> int:
        """About how many bytes a row has in memory."""
        ...

    @property
    def identity(self) -> str:
        """Changes if the table does: files with their sizes and times."""
        ...

    def place_of(self, row: int) -> Location:
        """Where a row of the whole table is, for messages; row numbers from 0 count from there."""
        ...

    def parts(self, columns: Sequence[str], block_rows: int) -> Sequence[SourcePart]:
        """The parts in order, with these columns, in blocks of at most that many rows."""
        ...
