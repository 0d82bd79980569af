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
from dosimeter.scanner.search import ByteMatch, ByteSearch
from dosimeter.scanner.text_models import is_lightgbm, read_lightgbm, read_lines
from dosimeter.scanner.unpack import DEEPEST, Stream, Unread, streams, unpacked_limit
from dosimeter.scanner.wrapped_files import bytes_in, decoded, decoded_lists, joined, unwrapped
from dosimeter.tables.table import Table

_WHY = "cells of the table are in these bytes, whatever the file calls them"
_HDF5 = "an HDF5 file is searched as it is: shuffled parts and links are not followed"
_ENCODED = {
    b"PAR1": "a Parquet file", b"ARROW1": "an Arrow file", b"SQLite format 3": "an SQLite database",
    b"ORC": "an ORC file", b"Obj\x01": "an Avro file", b"\xd0\xcf\x11\xe0": "an old Office file",
}  # fmt: skip
_FORMATS = (*_ENCODED, b"\x89HDF")
_AS_IT_IS = "is searched as it is: what is compressed or encoded in it is not found"
_OPAQUE = "only its bytes can be searched: pass the training table"
_PICKLE = "its instructions are not followed"
_ASCII = "R data in text form, which is not followed"
_R_TEXT = (b"A\n2\n", b"A\n3\n", b"RDA2\nA\n", b"RDA3\nA\n")
_BYTES_AS_TEXT = 2
"""Protocol of pickles up to which bytes are written as a text."""
_LONGEST_TEXT = 2**25
_SHORTEST_OPAQUE = 1024
"""Bytes inside an object that are reported if nothing is known about them: the code of a function has fewer."""


@dataclass(frozen=True)
class ClosedFile:
    """What was read without running anything: arrays, and the streams of bytes that a table can be looked for in."""

    contents: Contents
    streams: list[Stream]
    opaque: tuple[str, ...]
    """Places of which only the bytes are known."""


def read_closed(data: bytes, limit: int, source: Location) -> ClosedFile:
    """Unpack all layers, and read what can be read in each, also in files that an object holds as bytes or as text."""
    pieces, unread = streams(data, limit, source)
    torch = _torch(data, limit, source)
    if torch is not None:
        return ClosedFile(replace(torch, unread=(*unread, *torch.unread)), pieces, ())
    parts: list[FileArray] = []
    kinds: list[str] = []
    opaque: list[str] = []
    alone = len(pieces) == 1
    left = unpacked_limit(limit, len(data))
    queue = [(place, content, "" if alone else f"{place}: ", 0) for place, content in reversed(pieces)]
    while queue:
        place, content, prefix, depth = queue.pop()
        read, problem = _structured(content)
        if depth and (read is None or read.kind == "text"):  # bytes inside an object: searched, or searched as texts
            if len(content) >= _SHORTEST_OPAQUE:
                opaque.append(place)
            unread += [(place, problem)] if problem and content.startswith(_FORMATS) else []
            continue
        if read is None:
            opaque.append(place)
            unread += [(place, problem)] if problem else []
        else:
            kinds.append(read.kind)
            parts += [replace(part, place=prefix + part.place, holder=prefix + part.holder) for part in read.parts]
            unread += [(prefix + where, why) for where, why in read.unread]
        if depth >= DEEPEST:
            unread.append((place, f"nested more than {DEEPEST} deep: what is further inside is not read"))
            continue
        as_stored, written = _files_in_text(content) if read is None or read.kind == "text" else _files_in(read)
        inner, problems = unwrapped([*as_stored, *written], place, left, source)
        left -= sum(len(below) for _, below in inner)
        unread += problems
        newer = content[:1] == b"\x80" and content[1] > _BYTES_AS_TEXT
        searched = set(map(id, as_stored)) if newer or is_r_data(content) else set()
        pieces += joined([piece for piece in inner if id(piece[1]) not in searched], f"{place}: wrapped files")
        queue += [(where, below, f"{where}: ", depth + 1) for where, below in reversed(inner)]
    return ClosedFile(Contents(" and ".join(dict.fromkeys(kinds)), tuple(parts), tuple(unread)), pieces, tuple(opaque))


def _files_in(read: Contents) -> tuple[list[bytes], list[bytes]]:
    """What an object holds that may be a file: bytes and a model as text, as they are stored; and wrapped texts."""
    texts = [part.texts[0] for part in read.parts if len(part.texts) == 1]
    models = [text.encode("utf-8", "replace") for text in texts if is_lightgbm(text[:40].encode("utf-8", "replace"))]
    as_bytes = list(bytes_in(read.parts, "V"))
    digits = (body.decode("ascii") for body in as_bytes if body.isascii())  # b64encode returns bytes
    lists = (part.texts for part in read.parts if len(part.texts) > 1)
    return [*as_bytes, *models], [*decoded(texts), *decoded(digits), *decoded_lists(lists)]


def _files_in_text(content: bytes) -> tuple[list[bytes], list[bytes]]:
    """What a file of text holds as digits of base64 or hexadecimal ones: PMML and XML have no other way."""
    if len(content) > _LONGEST_TEXT or not content.isascii() or b"\0" in content:
        return [], []
    return [], list(decoded([content.decode("ascii")]))


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
    if content.startswith(_R_TEXT):
        return None, _ASCII
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
    return found_in(file.streams, ByteSearch.of(table, len(file.streams)), table)


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
