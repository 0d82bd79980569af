"""Files that only their author's code can open (pickle, joblib, torch, R): their bytes are searched for the table."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from dosimeter.core.location import Location
from dosimeter.scanner.finding import Finding, Match, Severity
from dosimeter.scanner.search import ByteMatch, ByteSearch, Cells
from dosimeter.scanner.unpack import Unread, streams
from dosimeter.tables.table import Table

CLOSED = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".rds", ".rdata", ".h5", ".hdf5", ".ubj", ".pmml")
_WHY = "cells of the table are in these bytes, whatever the file calls them"
_HDF5 = "an HDF5 file is searched as it is: compressed parts and links are not followed"

_OLD_PROTOCOL = "a pickle of protocol 0 to 2 writes the bytes of arrays as text: they are not searched"


def is_closed(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this name is searched as bytes."""
    return Path(path).suffix.lower() in CLOSED


def closed_findings(data: bytes, table: Table, limit: int, source: Location) -> tuple[list[Finding], list[Unread], int]:
    """What of the table is in the bytes, what was not looked into, and the number of streams."""
    pieces, unread = streams(data, limit, source)
    search = ByteSearch(Cells.of(table), len(pieces))
    findings: list[Finding] = []
    for place, content in pieces:
        if content.startswith(b"\x89HDF"):
            unread.append((place, _HDF5))
        if b"_codecs\nencode\n" in content:
            unread.append((place, _OLD_PROTOCOL))
        matches, problems = search.search(content)
        unread += [(place, problem) for problem in problems]
        findings += [_finding(place, match, table, search) for match in matches]
    order = sorted(findings, key=lambda finding: finding.severity != "rows")
    return order, unread, len(pieces)


def _finding(place: str, match: ByteMatch, table: Table, search: ByteSearch) -> Finding:
    severity: Severity = "rows" if match.is_rows else "values of single people"
    held = match.rows if match.is_rows else np.empty(0, np.intp)
    rows = tuple(sorted((table.rows[held] + 1).tolist()))
    remark = f"probability by accident {match.probability:.1g}"
    how = f"{match.encoding}; {len(match.cells)} of {search.searched} cells that can be distinguished from coincidences"
    match_summary = Match(
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
        place, severity, match.encoding, _WHY, len(rows) or len(match.cells), "", (), "matched", match_summary, remark
    )
