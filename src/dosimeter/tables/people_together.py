"""All rows of a person in one block: a figure of a person needs all their rows at once.

If the rows of every person are adjacent, parts are cut between two people and no row moves. If they are not, one pass
writes every row into one of many files by a hash of its person, so that each file has all rows of its people and fits
into memory; the files are then the parts. That takes as much room on the disk as the columns have.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.engine import term
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import Location
from dosimeter.engines.checkpoint import create_private, read_sealed, storage_faults, write_sealed
from dosimeter.tables.table import Table


@term
@dataclass(frozen=True)
class PersonRuns:
    """Runs of rows of one person; those of consecutive blocks add."""

    first: str
    last: str
    starts: tuple[NDArray[np.uint64], ...]
    """A hash of the person of each run, block by block: joined once, since each join copies them all."""
    cuts: NDArray[np.int64]
    """A row of each block at which a person begins, if the block has one."""

    @classmethod
    def of(cls, table: Table, person: str) -> PersonRuns:
        """Of a block."""
        ids = table[person]
        begins = np.concatenate([[True], np.asarray(ids[1:] != ids[:-1], dtype=bool)])
        at = np.flatnonzero(begins)
        hashes = np.array([person_hash(str(name)) for name in ids[at].tolist()], dtype=np.uint64)
        cuts = np.array([int(table.rows[at[1]]) if len(at) > 1 else -1, int(table.rows[0])], dtype=np.int64)
        return cls(str(ids[0]), str(ids[-1]), (hashes,), cuts)

    def __add__(self, other: PersonRuns) -> PersonRuns:
        continues = self.last == other.first
        begin, *later = other.starts
        starts = (*self.starts, begin[1:] if continues else begin, *later)
        # Of the later block the first two entries are where its second and its first person begin.
        cut = other.cuts[0] if continues else other.cuts[1]
        cuts = [self.cuts, other.cuts[2:] if cut < 0 else np.concatenate([[cut], other.cuts[2:]])]
        return PersonRuns(self.first, other.last, starts, np.concatenate(cuts).astype(np.int64))

    @property
    def adjacent(self) -> bool:
        """Whether the rows of every person are next to each other. Two people of one hash count as one person."""
        return self.people == sum(len(hashes) for hashes in self.starts)

    @property
    def people(self) -> int:
        """How many people there are."""
        return len(np.unique(np.concatenate(self.starts)))

    @property
    def boundaries(self) -> NDArray[np.int64]:
        """Rows at which a person begins, ascending: about one for each block."""
        return self.cuts[1:]


@term
@dataclass(frozen=True)
class RunLengths:
    """Runs of rows of one person, by a hash of the person and the number of rows; those of blocks add.

    Arrays are joined once, at the end: joining them block by block would copy them again and again.
    """

    pieces: tuple[tuple[NDArray[np.uint64], NDArray[np.int64]], ...]

    @classmethod
    def of(cls, table: Table, person: str) -> RunLengths:
        """Of a block."""
        ids = table[person]
        at = np.concatenate([[0], np.flatnonzero(np.asarray(ids[1:] != ids[:-1], dtype=bool)) + 1])
        hashes = np.array([person_hash(str(name)) for name in ids[at].tolist()], dtype=np.uint64)
        return cls(((hashes, np.diff(np.append(at, len(ids))).astype(np.int64)),))

    def __add__(self, other: RunLengths) -> RunLengths:
        return RunLengths((*self.pieces, *other.pieces))

    @property
    def rows_of_people(self) -> NDArray[np.int64]:
        """(people,) rows of each person."""
        _, person = np.unique(np.concatenate([hashes for hashes, _ in self.pieces]), return_inverse=True)
        lengths = np.concatenate([lengths for _, lengths in self.pieces])
        return np.bincount(person, weights=lengths).astype(np.int64)


def person_hash(name: str) -> int:
    """64 bits, the same in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class WholePeoplePart:
    """The tables of a part that holds all rows of its people, cut between two people."""

    part: Any
    person: str

    @property
    def rows(self) -> int:
        """Rows."""
        return int(self.part.rows)

    def blocks(self) -> Iterator[Table]:
        """Blocks of whole people; a person with more rows than a block makes a longer one."""
        rest: Table | None = None
        for table in self.part.blocks():
            joined = table if rest is None else join_tables([rest, table])
            ids = joined[self.person]
            changes = np.flatnonzero(np.asarray(ids[1:] != ids[:-1], dtype=bool))
            if not changes.size:
                rest = joined
                continue
            cut = int(changes[-1]) + 1
            yield joined.take(np.arange(cut))
            rest = joined.take(np.arange(cut, joined.n))
        if rest is not None:
            yield rest


def join_tables(tables: Sequence[Table]) -> Table:
    """One table after the other, with the same columns."""
    names = tables[0].names
    columns = tuple(np.concatenate([table[name] for table in tables]) for name in names)
    return Table(names, columns, np.concatenate([table.rows for table in tables]), texts=tables[0].texts)


@dataclass(frozen=True)
class PartChain:
    """Parts that are read one after the other as one."""

    pieces: tuple[Any, ...]

    @property
    def rows(self) -> int:
        """Rows."""
        return sum(int(piece.rows) for piece in self.pieces)

    def blocks(self) -> Iterator[Any]:
        """The blocks of all pieces."""
        for piece in self.pieces:
            yield from piece.blocks()


def cut_between_people(parts: Sequence[Any], boundaries: NDArray[np.int64]) -> list[Any]:
    """The parts of a source, moved so that each begins with a person. boundaries: rows at which a person begins.

    Parts that cannot be cut are joined with the one before.
    """
    starts = [int(part.first) for part in parts]
    ends = [*starts[1:], starts[-1] + int(parts[-1].rows)]
    cuts = [starts[0]]
    for start in starts[1:]:
        k = int(np.searchsorted(boundaries, start))
        if k < len(boundaries) and int(boundaries[k]) > cuts[-1]:
            cuts.append(int(boundaries[k]))
    cuts.append(ends[-1])
    return [
        PartChain(
            tuple(
                part.between(max(low, start), min(high, end))
                for part, start, end in zip(parts, starts, ends, strict=True)
                if max(low, start) < min(high, end)
            )
        )
        for low, high in pairwise(cuts)
    ]


# --- rows that are not adjacent ---


@dataclass(frozen=True)
class BucketPart:
    """The rows of some people, brought together in one file."""

    path: Path
    person: str
    rows: int
    checksum: int
    block_rows: int

    def blocks(self) -> Iterator[Table]:
        """The people in the order of their first rows, in blocks of whole people."""
        table = _read_bucket(self.path, self.checksum)
        _, number = np.unique(table[self.person].astype(str), return_inverse=True)
        first = np.full(int(number.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(first, number, table.rows)
        table = table.take(np.lexsort((table.rows, first[number])))
        ids = table[self.person]
        begins = np.concatenate([[0], np.flatnonzero(np.asarray(ids[1:] != ids[:-1], dtype=bool)) + 1, [table.n]])
        at = 0
        while at < len(begins) - 1:
            last = max(at + 1, int(np.searchsorted(begins, begins[at] + self.block_rows, side="right")) - 1)
            yield table.take(np.arange(begins[at], begins[last]))
            at = last


def bring_people_together(
    parts: Sequence[Any], person: str, folder: Path, *, buckets: int, block_rows: int
) -> list[BucketPart]:
    """Write every row into one of `buckets` files by a hash of its person; done once for a folder."""
    done = folder / "people.json"
    if not done.exists():
        with storage_faults(folder):
            written = _write_buckets(parts, person, folder, buckets)
        write_sealed(done, json.dumps(written).encode())
    written = json.loads(read_sealed(done, _damaged(done)))
    return [
        BucketPart(_bucket(folder, k), person, rows, checksum, block_rows)
        for k, (rows, checksum) in enumerate(written)
        if rows
    ]


def _damaged(path: Path) -> Refusal:
    return Location(str(path)).refusal("is damaged", "delete its folder and start again")


def _bucket(folder: Path, k: int) -> Path:
    return folder / f"people-{k:05d}.arrows"


def _write_buckets(parts: Sequence[Any], person: str, folder: Path, buckets: int) -> list[tuple[int, int]]:
    """Rows and checksum of each file."""
    try:
        import pyarrow as pa
    except ImportError:
        raise Refusal(
            f"the rows of a person are not adjacent ({option('person')}), and bringing them together needs pyarrow: "
            "pip install 'dosimeter[parquet]', or sort the table by person"
        ) from None
    sizes, writers = [0] * buckets, {}
    try:
        for part in parts:
            for table in part.blocks():
                hashes = np.array([person_hash(str(name)) for name in table[person].tolist()], dtype=np.uint64)
                bucket = (hashes % np.uint64(buckets)).astype(np.intp)
                order = np.argsort(bucket, kind="stable")
                ends = np.cumsum(np.bincount(bucket, minlength=buckets))
                for k in np.unique(bucket).tolist():
                    some = table.take(order[ends[k - 1] if k else 0 : ends[k]])
                    arrays = [pa.array(some.rows.astype(np.int64)), *(pa.array(c) for c in some.columns)]
                    batch = pa.record_batch(arrays, names=["", *some.names])
                    if k not in writers:
                        os.close(create_private(_bucket(folder, k)))
                        stream = pa.OSFile(str(_bucket(folder, k)), "wb")
                        writers[k] = (pa.ipc.new_stream(stream, batch.schema), stream)
                    writers[k][0].write_batch(batch)
                    sizes[k] += some.n
    finally:
        for writer, stream in writers.values():
            writer.close()
            stream.close()
    return [(rows, _checksum(_bucket(folder, k)) if rows else 0) for k, rows in enumerate(sizes)]


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            checksum = zlib.crc32(piece, checksum)
    return checksum


def _read_bucket(path: Path, checksum: int) -> Table:
    """A damaged file is refused before pyarrow sees it: reading one can end the process."""
    import pyarrow as pa

    if not path.exists() or _checksum(path) != checksum:
        raise _damaged(path)
    with pa.memory_map(str(path)) as stream:
        frame = pa.ipc.open_stream(stream).read_all()
        names = frame.schema.names[1:]
        columns = []
        for name in names:
            column = frame.column(name)
            if pa.types.is_string(column.type):
                columns.append(_shared(column))
            else:
                columns.append(np.array(column.to_numpy()))
        rows = np.array(frame.column(0).to_numpy(), dtype=np.intp)
    return Table(tuple(names), tuple(columns), rows)


def _shared(column: Any) -> NDArray[Any]:
    coded = column.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if hasattr(coded, "chunks") else coded
    levels = np.array([*coded.dictionary.to_pylist(), None], dtype=object)[:-1]
    return np.asarray(levels[coded.indices.to_numpy()])
