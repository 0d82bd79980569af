"""`scan`: read a file by its kind, classify its arrays and, with a table, compare them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import Location
from dosimeter.core.progress import stage, track
from dosimeter.core.text import safe_text
from dosimeter.files.archive import Archive
from dosimeter.files.file_checks import GIBIBYTE, read_bytes, regular_file
from dosimeter.scanner.classify import classify, merge_similar, siblings_of
from dosimeter.scanner.closed_files import ClosedFile, byte_findings, found_in, read_closed, without_table
from dosimeter.scanner.compare import Comparison, compare
from dosimeter.scanner.contents import Contents, FileArray
from dosimeter.scanner.embedded_text import arrays_in_text
from dosimeter.scanner.finding import SEVERITIES, Finding
from dosimeter.scanner.json_arrays import read_json
from dosimeter.scanner.known_attributes import EXTREME, NOT_IN_TABLE, ONE_PERSONS_TEXTS, WHOLE_ROWS, WORD_LISTS
from dosimeter.scanner.members import ALONE, Member, members_of
from dosimeter.scanner.npy import read_npy, read_npz
from dosimeter.scanner.onnx import read_onnx
from dosimeter.scanner.pickles import is_pickle
from dosimeter.scanner.safetensors import read_safetensors
from dosimeter.scanner.search import FEWEST_TEXTS, ByteSearch
from dosimeter.scanner.skops import read_skops
from dosimeter.scanner.surplus import as_parts, surplus_of
from dosimeter.scanner.text_search import text_findings
from dosimeter.scanner.unpack import is_zip, streams, unpacked_limit
from dosimeter.scanner.wrapped_files import joined
from dosimeter.tables.table import Table


def _archive(data: bytes, limit: int, source: Location) -> Archive:
    """A zip archive that may unpack to as much as its own size allows."""
    return Archive(data, unpacked_limit(limit, len(data)), source)


_READERS: dict[str, Callable[[bytes, int, Location], Contents]] = {
    ".skops": lambda data, limit, source: read_skops(_archive(data, limit, source), source),
    ".onnx": lambda data, limit, source: read_onnx(data, source),
    ".safetensors": lambda data, limit, source: read_safetensors(data, source),
    ".npz": lambda data, limit, source: read_npz(_archive(data, limit, source)),
    ".npy": lambda data, limit, source: read_npy(data),
    ".json": lambda data, limit, source: read_json(data, source),
}
KINDS = tuple(_READERS)
_IDS_IN_BYTES = (".onnx", ".safetensors", ".npy")
"""Formats whose reader skips texts, of fields that it does not know."""
CLOSED = (
    ".pkl", ".pickle", ".joblib", ".pt", ".pth", ".rds", ".rdata", ".rda", ".h5", ".hdf5", ".ubj", ".pmml", ".txt",
    ".model", ".bst", ".vocab",
)  # fmt: skip
"""Endings of files that are read or searched without being opened; a pickle is one whatever its name."""
MOST_COMPARED = 3000
"""Arrays that are compared with a table: a forest of a thousand trees has fewer, and each takes milliseconds."""
_MAGIC = {".skops": b"PK", ".npz": b"PK", ".npy": b"\x93NUMPY"}
_EXAMPLES = ("input_example", "serving_input_example")
"""Files of MLflow that hold rows on purpose: examples of the input, as a rule the first rows of the training table."""
_TABLES = (".csv", ".parquet", ".feather", ".arrow", ".sas7bdat", ".dta", ".sav", ".xlsx")
_ONLY_BYTES = "only its bytes can be searched, for the cells of a table"


@dataclass(frozen=True)
class Scan:
    """What a scan found in a file, worst first.

    Parameters
    ----------
    kind : str
        Kind of the file.
    findings : tuple of Finding
        Worst first.
    unread : tuple of (str, str)
        Place and reason of everything that was not read.
    table_rows : int, default 0
        Rows of the table it was compared with; 0 without one.
    arrays_read : int, default 1
        Arrays and lists that were read.

    Examples
    --------
    >>> Scan("npz", (), ()).rows_inside
    False
    """

    kind: str
    findings: tuple[Finding, ...]
    unread: tuple[tuple[str, str], ...]
    table_rows: int = 0
    arrays_read: int = 1

    @property
    def rows_inside(self) -> bool:
        """True if the file holds whole rows: known by name, or matched with the table."""
        return any(finding.rows_inside for finding in self.findings)

    @property
    def values_inside(self) -> bool:
        """True if the file holds values of single people: leaves of one person, quantiles, extremes of the table.

        Extremes that may have been declared count only if they are values of the table.
        """
        values = [finding for finding in self.findings if finding.severity == "values of single people"]
        return any(finding.certainty != "possible" and finding.why not in (EXTREME, NOT_IN_TABLE) for finding in values)

    @property
    def matched_rows(self) -> tuple[int, ...]:
        """Numbers of the table's rows, from 1, that are in the file as a whole."""
        row_numbers = (
            finding.match.rows for finding in self.findings if finding.rows_inside and finding.match is not None
        )
        return tuple(sorted({row for rows in row_numbers for row in rows}))

    def to_dict(self) -> dict[str, Any]:
        """As a plain dict."""
        return {
            "kind": self.kind,
            "rows_inside": self.rows_inside,
            "single_values_inside": self.values_inside,
            "compared_with_rows": self.table_rows,
            "rows_found": list(self.matched_rows),
            "findings": [finding.to_dict() for finding in self.findings],
            "not_looked_into": [{"place": place, "why": why} for place, why in self.unread],
        }


def scan(
    path: str | os.PathLike[str],
    table: Table | None = None,
    *,
    tolerance: float | None = None,
    limit: int = GIBIBYTE,
    kind: str | None = None,
) -> Scan:
    """Scan a model file for what it holds about people.

    Parameters
    ----------
    path : path
        A .skops, .onnx, .safetensors, .npz, .npy or .json file; a pickle, .joblib, .pt or .rds file, which is read
        without running anything in it; with a table also .h5, .ubj and .pmml, whose bytes are searched. Or a folder,
        a .zip or a .tar of such files.
    table : Table, optional
        The training table, to tell which of its rows are in the file.
    tolerance : float, optional
        Relative difference of equal numbers; by default what the precision of the file allows.
    limit : int, default 1 GiB
        Most bytes of the file, and of what it declares to contain.
    kind : str, optional
        Read a single file as one of this ending (".txt": its bytes are searched), whatever its name.

    Returns
    -------
    Scan

    Raises
    ------
    Refusal
        If the file is of unknown kind, damaged, or too large, or if only its bytes could be searched and there is no
        table.

    Notes
    -----
    Attributes of fitted models are known by name (`known_attributes`). A match with the table counts if as many matches
    would occur by accident with a probability below 1e-6 (docs/explanation/scan.md).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.npz")
    ...     np.savez(path, coef=np.zeros(3), support_vectors_=np.eye(3))
    ...     result = scan(path)
    >>> result.rows_inside, [finding.place for finding in result.findings]
    (True, ['support_vectors_'])
    """
    stage(f"reading {safe_text(Path(path).name, 40)}")
    members, unread, source = members_of(path, limit)
    if [member.name for member in members] == [""]:
        name = Path(path).name if kind is None else Path(path).stem + kind
        return _ranked(_scan_member(Member(name, members[0].data), table, tolerance, limit, source))
    scans = [_scan_part(member, table, tolerance, limit) for member in track(members)]
    findings = tuple(finding for part in scans for finding in part.findings)
    if table is not None:
        findings = (*findings, *_people_in_names(members, table))
    kinds = sorted({part.kind for part in scans if part.kind})
    return _ranked(
        Scan(
            f"{len(members)} files ({', '.join(kinds)})" if kinds else f"{len(members)} files",
            findings,
            (*unread, *(entry for part in scans for entry in part.unread)),
            0 if table is None else table.n,
            sum(part.arrays_read for part in scans),
        )
    )


def _people_in_names(members: list[Member], table: Table) -> list[Finding]:
    """Ids that are names of files: one file for each person, say."""
    names = "\n".join(member.name for member in members).encode("utf-8", "replace")
    return found_in([("names of the files", names)], ByteSearch.of(table), table)[0]


def _ranked(result: Scan) -> Scan:
    """The findings with the worst first."""
    order = sorted(
        result.findings, key=lambda finding: (SEVERITIES.index(finding.severity), finding.certainty == "possible")
    )
    return replace(result, findings=tuple(order))


def _scan_part(member: Member, table: Table | None, tolerance: float | None, limit: int) -> Scan:
    """One file of several, its places under its name; one that cannot be read is listed."""
    name = safe_text(member.name, 120)
    if not member.data:
        return Scan("", (), (), 0, 0)
    try:
        result = _scan_member(member, table, tolerance, limit, Location(name, first=1))
    except Refusal as why:
        reason = str(why).removeprefix(f"{name}: ")
        return Scan("", (), ((name, safe_text(reason, 200)),), 0, 0)
    named = tuple(replace(finding, place=f"{name}: {finding.place}") for finding in result.findings)
    unread = tuple((f"{name}: {place}" if place != name else name, why) for place, why in result.unread)
    return replace(result, findings=(*_by_file_name(member, named), *named), unread=unread)


def _by_file_name(member: Member, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Files whose name says that they hold rows."""
    file = Path(member.name)
    name = safe_text(member.name, 120)
    if any(finding.rows_inside for finding in findings):
        return ()
    if file.stem in _EXAMPLES:
        return (Finding(name, "rows", "an example of the input", WHOLE_ROWS, 1),)
    if file.suffix.lower() in _TABLES:
        return (Finding(name, "rows", "a table", WHOLE_ROWS, 1, certainty="possible"),)
    return ()


def _scan_member(member: Member, table: Table | None, tolerance: float | None, limit: int, source: Location) -> Scan:
    """Scan one file by its name and its first bytes."""
    kind, data = Path(member.name).suffix.lower(), member.data
    if kind in _READERS:
        # A header of 128 bytes starts like a pickle; the brace after its length does not occur in one.
        if is_pickle(data) and not (kind == ".safetensors" and data[8:9] == b"{"):
            raise source.refusal(f"not a {kind} file but a pickle, which may run its author's code", "name it .pkl")
        contents = _open_contents(kind, data, limit, source)
        result = _compared(contents, table, tolerance)
        if table is None or result.matched_rows:
            return result
        result = _with_texts(result, contents, table, unpacked_limit(limit, len(data)), source)
        rest, not_searched = _in_all_bytes(kind, data, table, limit, source)
        return replace(result, findings=(*result.findings, *rest), unread=(*result.unread, *not_searched))
    alone = source.label != safe_text(member.name, 120)
    if alone and kind not in CLOSED and not is_pickle(data):
        ending = f"the ending {safe_text(kind, 20)}" if kind else "a name without ending"
        known = ", ".join((*KINDS, *CLOSED[:6]))
        raise source.refusal(f"{ending} is not that of a model file that can be scanned", f"give {known}")
    file = read_closed(data, limit, source)
    if table is None:
        if alone and not file.contents.parts:
            raise source.refusal(_ONLY_BYTES, f"pass the training table ({option('data')})")
        contents = replace(file.contents, unread=(*file.contents.unread, *without_table(file)))
        return _compared(contents, None, tolerance)
    result = _searched(file, kind, table, tolerance)
    return (
        result
        if result.matched_rows
        else _with_texts(result, file.contents, table, unpacked_limit(limit, len(data)), source)
    )


def _in_all_bytes(
    kind: str, data: bytes, table: Table, limit: int, source: Location
) -> tuple[list[Finding], list[tuple[str, str]]]:
    """What no comparison of arrays finds: a column alone, and what the reader of a format skips.

    Members of an archive are searched unpacked. Ids were looked for in the texts: a vocabulary is one of these bytes.
    """
    stage("searching all bytes")
    pieces, unread = streams(data, limit, source) if is_zip(data) else ([(ALONE, data)], [])
    pieces = joined(pieces, "all members")
    with_ids = kind in _IDS_IN_BYTES
    findings, problems = found_in(pieces, ByteSearch.of(table, len(pieces), texts=with_ids), table)
    return findings, [*unread, *problems]


def _with_texts(result: Scan, contents: Contents, table: Table, limit: int, source: Location) -> Scan:
    """What is written in the texts of an open format, if no row was found in its arrays."""
    stage("searching the texts")
    in_texts, unread = text_findings(contents.parts, table, limit, source)
    return replace(result, findings=(*result.findings, *in_texts), unread=(*result.unread, *unread))


def _searched(file: ClosedFile, kind: str, table: Table, tolerance: float | None) -> Scan:
    """Named arrays are compared with the table, and all bytes are searched for its cells."""
    named = _compared(file.contents, table, tolerance)
    in_bytes, unread = byte_findings(file, table)
    called = file.contents.kind or kind.removeprefix(".")
    return Scan(
        f"{called}, searched as bytes", (*named.findings, *in_bytes), (*named.unread, *unread), table.n,
        max(1, named.arrays_read),
    )  # fmt: skip


def _compared(contents: Contents, table: Table | None, tolerance: float | None) -> Scan:
    """Classify the arrays and, with a table, compare them."""
    stage("looking for people")
    siblings = siblings_of(contents)
    findings = classify(contents)
    if table is not None:
        stage("comparing with the table")
        to_compare, unread = _arrays_to_compare(contents, findings)
        # Untrusted numbers may lie at the limits of float64: what overflows matches no row.
        with np.errstate(all="ignore"):
            comparison = Comparison(table, contents, tolerance)
            checked = [
                (compare(finding, part, comparison, siblings[part.holder]) if id(part) in to_compare else finding, part)
                for finding, part in track(findings)
            ]
            classified = {id(part) for _, part in findings}
            rest = [part for part in contents.parts if id(part) in to_compare - classified]
            findings = [*checked, *_compare_unnamed(rest, comparison, siblings)]
        rows = {finding.place for finding, _ in findings if finding.severity == "rows"}
        findings = [(_decide(_named_people(finding, part), rows), part) for finding, part in findings]
        contents = replace(contents, unread=(*contents.unread, *unread))
    merged = merge_similar([finding for finding, _ in findings])
    return Scan(contents.kind, tuple(merged), contents.unread, 0 if table is None else table.n, len(contents.parts))


def contents_of(path: str | os.PathLike[str], *, limit: int = GIBIBYTE) -> Contents:
    """Everything in one file that can be read without running any of its code."""
    kind = Path(path).suffix.lower()
    file, source = regular_file(path, limit)
    data = read_bytes(file, source)
    return _open_contents(kind, data, limit, source) if kind in _READERS else read_closed(data, limit, source).contents


def _open_contents(kind: str, data: bytes, limit: int, source: Location) -> Contents:
    """The arrays of a file of an open format, and those written in its texts."""
    if not data.startswith(_MAGIC.get(kind, b"")):
        raise source.refusal(f"not a {kind} file", "check the name")
    contents = _READERS[kind](data, limit, source)
    embedded, unread = arrays_in_text(contents.parts)
    outside, unknown = as_parts(surplus_of(data)) if is_zip(data) else ((), ())
    parts, problems = (*contents.parts, *embedded, *outside), (*contents.unread, *unread, *unknown)
    return replace(contents, parts=parts, unread=problems)


def _arrays_to_compare(
    contents: Contents, findings: list[tuple[Finding, FileArray]]
) -> tuple[set[int], tuple[tuple[str, str], ...]]:
    """The ids of the arrays to compare with the table, the largest first, and a note about the rest."""
    parts = {id(part): part for part in (*contents.parts, *(part for _, part in findings))}
    ranked = sorted((part for part in parts.values() if part.texts or part.numeric), key=lambda part: -_size(part))
    rest = ranked[MOST_COMPARED:]
    why = f"only the {MOST_COMPARED} largest arrays and lists are compared with the table"
    return {id(part) for part in ranked[:MOST_COMPARED]}, ((f"{len(rest)} small arrays", why),) if rest else ()


def _size(part: FileArray) -> int:
    return len(part.texts) or part.values.size


def _compare_unnamed(parts: list[FileArray], comparison: Comparison, siblings: Any) -> list[tuple[Finding, FileArray]]:
    """Compare weights and arrays without a known name as well; report those that hold rows."""
    findings = []
    stage("comparing unnamed arrays")
    for part in track(list(parts)):
        match = comparison.match_rows(part, siblings[part.holder])
        if match is not None and match.beyond_accident:
            why = "rows of the table are here, whatever the name"
            finding = Finding(part.place, "rows", "numbers", why, match.matched, part.owner, part.shape)
            findings.append((finding.with_match(match), part))
    return findings


def _named_people(finding: Finding, part: FileArray) -> Finding:
    """A list of texts that mostly single rows have: names and ids. A few words of a vocabulary are none."""
    match = finding.match
    if finding.severity != "lists" or match is None or not part.texts or part.name in WORD_LISTS:
        return finding
    if len(match.unique_rows) < FEWEST_TEXTS or 2 * len(match.unique_rows) < match.matched:
        return finding
    return replace(finding, severity="values of single people", why=ONE_PERSONS_TEXTS, count=len(match.unique_rows))


def _decide(finding: Finding, rows: set[str]) -> Finding:
    """Decide what the match means: rows, if beyond accident; otherwise possible or known by name.

    rows: the places where rows were found.
    """
    match = finding.match
    if match is None or finding.severity not in ("rows", "statistics"):
        return finding
    if finding.severity == "rows":
        if match.beyond_accident:
            return finding
        return replace(finding, certainty="possible" if finding.content == "numbers" else "known")
    if finding.place in rows:
        return replace(finding, match=None, certainty="known")
    why = "rows of the table are here: means of one person each"
    return replace(finding, severity="rows", why=why, count=match.matched)
