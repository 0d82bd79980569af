"""The pass that parses a text table into a file of columns, and what must be known of the whole of it.

The kind of a column, and whether a cell is refused, depends on all rows: a column is text if most of its cells are. So
rows are read back only after the pass. Its state is small and can be kept: a conversion that was stopped goes on.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import Location
from dosimeter.engines.checkpoint import read_sealed, write_sealed
from dosimeter.files.file_checks import os_error_refusal
from dosimeter.tables.column_file import ColumnFile
from dosimeter.tables.csv_column import truth_spellings
from dosimeter.tables.csv_scan import Column, CsvOptions, CsvScan
from dosimeter.tables.table import missing_value_refusal, no_complete_row

COLUMNS, STATE = "columns.bin", "columns.json"
EVERY = 5.0
"""Seconds of work that a stop may lose."""
_DIGEST_BYTES = 2**20


class Conversion:
    """A text table on its way into a file of columns."""

    def __init__(self, file: Path, source: Location, options: CsvOptions, block_rows: int) -> None:
        self._file, self._source, self._options, self._block_rows = file, source, options, block_rows
        self.columns: list[Column] = []
        self._facts = RowFacts([])

    def run(self, folder: Path, *, keep: bool) -> ColumnFile:
        """Parse the file. keep: under a name in the folder, going on with what is there."""
        before = self._file.stat()
        with _refusing(folder):
            stream = _kept_stream(folder) if keep else tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - lives on
        state = _State(folder, self._file, self._source) if keep else None
        try:
            out = self._scanned(stream, state, folder)
        except OSError as error:
            stream.close()
            raise os_error_refusal(error, self._source, "read") from None
        except BaseException:
            stream.close()
            raise
        weakref.finalize(out, stream.close)
        after = self._file.stat()
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise self._source.refusal("the file changed while it was read", "start again")
        return out

    def _scanned(self, stream: BinaryIO, state: _State | None, folder: Path) -> ColumnFile:
        kept = {} if state is None else state.load()
        verbatim = frozenset(kept.get("verbatim", ()))
        while True:
            scan = CsvScan.begin(self._file, self._source, self._options, verbatim)
            self.columns = list(scan.columns.values())
            self._facts = RowFacts([column.name for column in self.columns])
            out = _opened(stream, kept, folder)
            if kept:
                scan.offset, scan.rows = kept["offset"], kept["rows"]
                self._restore(kept)
            if not kept.get("complete"):
                self._scan(scan, out, state, folder, verbatim)
            reread = frozenset(column.name for column in self.columns if column.needs_reread)
            if not reread:
                return out
            verbatim, kept = reread, {}
            if state is not None:
                state.forget()

    def _scan(
        self, scan: CsvScan, out: ColumnFile, state: _State | None, folder: Path, verbatim: frozenset[str]
    ) -> None:
        pending: list[list[tuple[NDArray[Any], NDArray[np.bool_]]]] = []
        saved = time.monotonic()

        def save(complete: bool) -> None:
            nonlocal saved
            self._write(pending, out, folder)
            if state is not None:
                stands = {"offset": scan.offset, "rows": scan.rows, "complete": complete, "verbatim": sorted(verbatim)}
                state.save(out, {**stands, **self._counts()})
            saved = time.monotonic()

        def after_block() -> None:
            pending.append([column.take() for column in self.columns])
            if state is not None and time.monotonic() - saved > EVERY:
                save(False)
            elif sum(map(_rows, pending)) + _rows(pending[-1]) > self._block_rows:  # the next is about as long
                self._write(pending, out, folder)

        scan.run(after_block)
        save(True)

    def _write(
        self, pending: list[list[tuple[NDArray[Any], NDArray[np.bool_]]]], out: ColumnFile, folder: Path
    ) -> None:
        """Write what was read as segments of at most `block_rows` rows, and note what must be known of it."""
        joined = [_join([block[j] for block in pending]) for j in range(len(self.columns))] if pending else []
        pending.clear()
        n = len(joined[0][1]) if joined else 0
        with _refusing(folder):
            for i in range(0, n, self._block_rows):
                some = slice(i, i + self._block_rows)
                values = [value[some] for value, _ in joined]
                out.append(values, self._facts.add(values, [missing[some] for _, missing in joined]))

    def _counts(self) -> dict[str, Any]:
        return {"columns": [column.counts for column in self.columns], "facts": self._facts.as_json()}

    def _restore(self, kept: dict[str, Any]) -> None:
        for column, counts in zip(self.columns, kept["columns"], strict=True):
            column.restore(counts)
        self._facts.restore(kept["facts"])

    def check(self, missing: str) -> None:
        """Refuse what a table in memory refuses, with the same words."""
        facts = self._facts
        if missing == "refuse" and facts.incomplete:
            row, j = facts.first_incomplete
            names = [column.name for column in self.columns]
            gaps = dict(zip(names, facts.missing, strict=True))
            raise missing_value_refusal(row, names[j], facts.incomplete, facts.rows, gaps, self._source)
        if facts.rows == facts.incomplete:
            raise no_complete_row(self.columns[int(np.argmax(facts.missing))].name, self._source)
        for column, not_finite in zip(self.columns, facts.not_finite, strict=True):
            column.check(not_finite, self._source)

    def kinds(self) -> tuple[int | None, ...]:
        """Of each column the spelling of true and false in all its complete rows; None for any other column."""
        return tuple(
            spellings[0] if column.is_text and not column.exact and spellings else None
            for column, spellings in zip(self.columns, self._facts.spellings, strict=True)
        )


class RowFacts:
    """What is known of the rows so far: how many are incomplete, and of each column its first unusable number."""

    def __init__(self, names: list[str]) -> None:
        self.rows = self.incomplete = 0
        self.first_incomplete = [-1, -1]
        """Row, and position of its first column without a value."""
        self.missing = [0] * len(names)
        self.not_finite = [-1] * len(names)
        """First complete row with a number that is not finite."""
        self.spellings = [[0, 1, 2] for _ in names]
        """Ways in which every cell of the complete rows is true or false."""

    def add(self, values: list[NDArray[Any]], missing: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """(n,) which of these rows are incomplete."""
        absent = np.logical_or.reduce(missing)
        if absent.any():
            if not self.incomplete:
                row = int(np.argmax(absent))
                self.first_incomplete = [self.rows + row, next(j for j, mask in enumerate(missing) if mask[row])]
            self.incomplete += int(absent.sum())
            self.missing = [count + int(mask.sum()) for count, mask in zip(self.missing, missing, strict=True)]
        for j, column in enumerate(values):
            if column.dtype == object:
                if self.spellings[j]:
                    cells = set(column[~absent].tolist())
                    self.spellings[j] = [k for k in truth_spellings(cells) if k in self.spellings[j]]
            elif self.not_finite[j] < 0 and not _all_finite(column):
                bad = np.flatnonzero(~np.isfinite(column) & ~absent)
                self.not_finite[j] = self.rows + int(bad[0]) if bad.size else -1
        self.rows += len(absent)
        return np.asarray(absent)

    def as_json(self) -> dict[str, Any]:
        """Everything."""
        return dict(vars(self))

    def restore(self, kept: dict[str, Any]) -> None:
        """Go on with these facts."""
        vars(self).update(kept)


class _State:
    """How far a conversion is, in a file that is written whole; a fingerprint of the bytes read belongs to it."""

    def __init__(self, folder: Path, file: Path, source: Location) -> None:
        self._path, self._file, self._source = folder / STATE, file, source
        self._digest, self._read = hashlib.blake2b(digest_size=16), 0

    def load(self) -> dict[str, Any]:
        """The last state, {} if there is none; refused if the file begins otherwise than then."""
        if not self._path.exists():
            return {}
        kept: dict[str, Any] = json.loads(read_sealed(self._path, _damaged(self._path.parent)))
        if self._digest_until(kept["offset"]) != kept["digest"]:
            todo = "name an empty folder, or delete that of the checkpoint"
            raise self._source.refusal("the file is not the one that the checkpoint was begun with", todo)
        return kept

    def forget(self) -> None:
        """The file is read again from its start."""
        self._path.unlink(missing_ok=True)

    def save(self, out: ColumnFile, state: dict[str, Any]) -> None:
        """Columns first, then the state that speaks of them."""
        out.sync()
        content = {**state, "digest": self._digest_until(state["offset"]), "end": out.end}
        write_sealed(self._path, json.dumps(content).encode())

    def _digest_until(self, offset: int) -> str:
        if offset < self._read:  # it is read again from its start
            self._digest, self._read = hashlib.blake2b(digest_size=16), 0
        with self._file.open("rb") as stream:
            stream.seek(self._read)
            while self._read < offset and (piece := stream.read(min(_DIGEST_BYTES, offset - self._read))):
                self._digest.update(piece)
                self._read += len(piece)
        return self._digest.hexdigest()


def _opened(stream: BinaryIO, kept: dict[str, Any], folder: Path) -> ColumnFile:
    try:
        with _refusing(folder):
            return ColumnFile(stream, kept.get("end", 0))
    except ValueError:
        raise _damaged(folder) from None


def _damaged(folder: Path) -> Refusal:
    return Location(f"{option('checkpoint')} {folder}").refusal("is damaged", "delete it and start again")


def _kept_stream(folder: Path) -> BinaryIO:
    number = os.open(folder / COLUMNS, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
    return os.fdopen(number, "r+b")


class _refusing:
    """Errors of writing the columns, as a refusal that names the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, OSError):
            place = Location(str(self._folder))
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                todo = f"name a folder with more by TMPDIR or {option('checkpoint')}"
                raise place.refusal("no room for the columns of the table, 8 bytes a number", todo) from None
            raise os_error_refusal(error, place, "write to") from None


def _rows(block: list[tuple[NDArray[Any], NDArray[np.bool_]]]) -> int:
    return len(block[0][1])


def _all_finite(column: NDArray[Any]) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(column.sum()) or np.isfinite(column).all())


def _join(blocks: list[tuple[NDArray[Any], NDArray[np.bool_]]]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """One column over several blocks; a missing cell among texts is an empty text.

    Numbers among texts are discarded: such a column is read again verbatim, or refused.
    """
    pieces = [value for value, _ in blocks]
    if any(piece.dtype == object for piece in pieces):
        pieces = [p if p.dtype == object else np.full(len(p), "", dtype=object) for p in pieces]
    values = np.concatenate(pieces)
    missing = np.concatenate([mask for _, mask in blocks])
    if values.dtype == object and missing.any():
        values[missing] = ""
    return values, missing
