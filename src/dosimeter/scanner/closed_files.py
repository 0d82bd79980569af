"""Files that only their author's code can open (pickle, joblib, torch, R).

Their instructions are read without running any (`pickles`, `r_data`), which gives arrays under their names. With a
table their bytes are searched for its cells as well, whatever the file calls them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.files.archive import Archive
from dosimeter.scanner.contents import Contents, FileArray
from dosimeter.scanner.finding import Finding, Match, Severity
from dosimeter.scanner.pickle_program import NotAPickle
from dosimeter.scanner.pickles import is_pickle, read_pickle, read_torch
from dosimeter.scanner.r_data import NotRData, is_r_data, read_r_data
from dosimeter.scanner.search import ByteMatch, ByteSearch, Cells
from dosimeter.scanner.text_models import is_lightgbm, read_lightgbm, read_lines
from dosimeter.scanner.unpack import Stream, Unread, streams, unpacked_limit
from dosimeter.tables.table import Table

_WHY = "cells of the table are in these bytes, whatever the file calls them"
_HDF5 = "an HDF5 file is searched as it is: shuffled parts and links are not followed"
_ENCODED = {
    b"PAR1": "a Parquet file", b"ARROW1": "an Arrow file", b"SQLite format 3": "an SQLite database",
    b"ORC": "an ORC file", b"Obj\x01": "an Avro file", b"\xd0\xcf\x11\xe0": "an old Office file",
}  # fmt: skip
_AS_IT_IS = "is searched as it is: what is compressed or encoded in it is not found"
_OPAQUE = "only its bytes can be searched: pass the training table"
_PICKLE = "its instructions are not followed"


@dataclass(frozen=True)
class ClosedFile:
    """What was read without running anything: arrays, and the streams of bytes that a table can be looked for in."""

    contents: Contents
    streams: list[Stream]
    opaque: tuple[str, ...]
    """Places of which only the bytes are known."""


def read_closed(data: bytes, limit: int, source: Location) -> ClosedFile:
    """Unpack all layers, and read what can be read in each."""
    pieces, unread = streams(data, limit, source)
    torch = _torch(data, limit, source)
    parts: list[FileArray] = list(torch.parts) if torch else []
    kinds = ["torch"] if torch else []
    opaque: list[str] = []
    unread += list(torch.unread) if torch else []
    for place, content in pieces:
        if torch is not None:
            continue
        read, problem = _structured(content)
        if read is None:
            opaque.append(place)
            unread += [(place, problem)] if problem else []
            continue
        prefix = "" if len(pieces) == 1 else f"{place}: "
        kinds.append(read.kind)
        parts += [replace(part, place=prefix + part.place, holder=prefix + part.holder) for part in read.parts]
        unread += [(prefix + where, why) for where, why in read.unread]
    return ClosedFile(Contents(" and ".join(dict.fromkeys(kinds)), tuple(parts), tuple(unread)), pieces, tuple(opaque))


def _torch(data: bytes, limit: int, source: Location) -> Contents | None:
    """The tensors, if this is a file of torch that can be read."""
    if not data.startswith(b"PK\x03\x04"):
        return None
    archive = Archive(data, unpacked_limit(limit, len(data)), source)
    if not any(name.endswith("data.pkl") for name in archive.names):
        return None
    try:
        return replace(read_torch(archive, source), kind="torch")
    except (NotAPickle, Refusal):
        return None


def _structured(content: bytes) -> tuple[Contents | None, str]:
    """What the bytes describe, or None and what is to be said about it."""
    if is_r_data(content):
        try:
            return read_r_data(content), ""
        except NotRData as why:
            return None, f"R data that is not followed: {why}"
    if is_pickle(content) or content.endswith(b"."):  # protocol 0 has no signature, but every pickle has this end
        try:
            return read_pickle(content), ""
        except NotAPickle as why:
            if is_pickle(content):
                return None, f"{_PICKLE}: {why}"
    if is_lightgbm(content):
        return read_lightgbm(content), ""
    if content.startswith(b"\x89HDF"):
        return None, _HDF5
    encoded = next((kind for magic, kind in _ENCODED.items() if content.startswith(magic)), None)
    if encoded is not None:
        return None, f"{encoded} {_AS_IT_IS}"
    return read_lines(content), ""


def without_table(file: ClosedFile) -> list[Unread]:
    """What stays unknown if there is no table to look for."""
    known = {place for place, _ in file.contents.unread}
    return [(place, _OPAQUE) for place in file.opaque if place not in known]


def byte_findings(file: ClosedFile, table: Table) -> tuple[list[Finding], list[Unread]]:
    """What of the table is in the bytes, and what was not looked into."""
    return found_in(file.streams, ByteSearch(Cells.of(table), len(file.streams)), table)


def found_in(pieces: list[Stream], search: ByteSearch, table: Table) -> tuple[list[Finding], list[Unread]]:
    """What of the table is in each piece, rows first, and what was not looked into."""
    findings: list[Finding] = []
    unread: list[Unread] = []
    for place, content in pieces:
        matches, problems = search.search(content)
        unread += [(place, problem) for problem in problems]
        findings += [_finding(place, match, table, search) for match in matches]
    # A text of two bytes a letter in one byte order is nearly one in the other: the fuller reading comes first.
    return sorted(findings, key=lambda finding: (finding.severity != "rows", -finding.count)), unread


def _finding(place: str, match: ByteMatch, table: Table, search: ByteSearch) -> Finding:
    severity: Severity = "rows" if match.is_rows else "values of single people"
    held = match.rows if match.is_rows else np.empty(0, np.intp)
    rows = tuple(sorted((table.rows[held] + 1).tolist()))
    remark = f"probability by accident {match.probability:.1g}"
    how = f"{match.encoding}; {len(match.cells)} of {search.searched} cells that can be distinguished from coincidences"
    in_table = Match(
        len(rows) or len(match.cells),
        len(rows) or search.searched,
        rows,
        rows,
        how,
        max(1, match.columns),
        table.n,
        match.expected,
        match.encoding != "written numbers",
        match.is_rows,
    )
    return Finding(
        place, severity, match.encoding, _WHY, len(rows) or len(match.cells), "", (), "matched", in_table, remark
    )
