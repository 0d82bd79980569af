"""`scan`: read a file by its kind, classify its arrays and, with a table, compare them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.location import Location
from dosimeter.core.progress import stage, track
from dosimeter.core.text import safe_text
from dosimeter.files.archive import Archive
from dosimeter.files.file_checks import GIBIBYTE, first_bytes, os_error_refusal, read_bytes, refuse_pickle, regular_file
from dosimeter.scanner.classify import classify, merge_similar, siblings_of
from dosimeter.scanner.closed_files import closed_findings, is_closed
from dosimeter.scanner.compare import Comparison, compare
from dosimeter.scanner.contents import Contents, FileArray
from dosimeter.scanner.embedded_text import arrays_in_text
from dosimeter.scanner.finding import SEVERITIES, Finding
from dosimeter.scanner.json_arrays import read_json
from dosimeter.scanner.known_attributes import EXTREME, NOT_IN_TABLE
from dosimeter.scanner.npy import read_npy, read_npz
from dosimeter.scanner.onnx import read_onnx
from dosimeter.scanner.safetensors import read_safetensors
from dosimeter.scanner.skops import read_skops
from dosimeter.tables.table import Table

_READERS: dict[str, Callable[[bytes, int, Location], Contents]] = {
    ".skops": lambda data, limit, source: read_skops(Archive(data, limit, source), source),
    ".onnx": lambda data, limit, source: read_onnx(data, source),
    ".safetensors": lambda data, limit, source: read_safetensors(data, source),
    ".npz": lambda data, limit, source: read_npz(Archive(data, limit, source)),
    ".npy": lambda data, limit, source: read_npy(data),
    ".json": lambda data, limit, source: read_json(data, source),
}
KINDS = tuple(_READERS)
MOST_COMPARED = 3000
"""Arrays that are compared with a table: a forest of a thousand trees has fewer, and each takes milliseconds."""
_MAGIC = {".skops": b"PK", ".npz": b"PK", ".npy": b"\x93NUMPY"}
_TORCH = (".pt", ".pth", ".ckpt", ".bin")
_SAVE_TORCH = "save the weights with safetensors.torch.save_file(model.state_dict(), 'model.safetensors')"


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
) -> Scan:
    """Scan a model file for what it holds about people.

    Parameters
    ----------
    path : path
        A .skops, .onnx, .safetensors, .npz, .npy or .json file. With a table also a pickle, .joblib, .pt or .rds file:
        its bytes are searched, and it is never unpickled.
    table : Table, optional
        The training table, to tell which of its rows are in the file.
    tolerance : float, optional
        Relative difference of equal numbers; by default what the precision of the file allows.
    limit : int, default 1 GiB
        Most bytes of the file, and of what it declares to contain.

    Returns
    -------
    Scan

    Raises
    ------
    Refusal
        If the file is a pickle and there is no table, of unknown kind, damaged, or too large.

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
    if table is not None and is_closed(path):
        return scan_closed(path, table, limit)
    contents = contents_of(path, limit=limit)
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
        findings = [(_decide(finding, rows), part) for finding, part in findings]
        contents = replace(contents, unread=(*contents.unread, *unread))
    merged_findings = merge_similar([finding for finding, _ in findings])
    ranked = sorted(
        merged_findings, key=lambda finding: (SEVERITIES.index(finding.severity), finding.certainty == "possible")
    )
    return Scan(contents.kind, tuple(ranked), contents.unread, 0 if table is None else table.n, len(contents.parts))


def scan_closed(path: str | os.PathLike[str], table: Table, limit: int = GIBIBYTE) -> Scan:
    """Search the bytes of a file that only its author's code can open."""
    file, source = regular_file(path, limit)
    findings, unread, read = closed_findings(read_bytes(file, source), table, limit, source)
    kind = file.suffix.lower().removeprefix(".")
    return Scan(f"{kind}, searched as bytes", tuple(findings), tuple(unread), table.n, read)


def contents_of(path: str | os.PathLike[str], *, limit: int = GIBIBYTE) -> Contents:
    """Everything in the file that can be read without running any of its code."""
    kind = Path(path).suffix.lower()
    file, source = regular_file(path, limit)
    if kind in _TORCH:
        problem = f"a {kind} file may run its author's code when it is opened, so it is not opened"
        raise source.refusal(problem, _SAVE_TORCH)
    # A header of 128 bytes starts like a pickle; the brace after its length does not occur in one.
    tensors = kind == ".safetensors" and first_bytes(file, source)[8:9] == b"{"
    if kind not in (".npy", ".npz") and not tensors:
        refuse_pickle(file, source, model=True)
    if kind not in _READERS:
        ending = f"the ending {safe_text(kind, 20)}" if kind else "a name without ending"
        raise source.refusal(f"{ending} is not that of a model file that can be scanned", f"give {', '.join(KINDS)}")
    if not first_bytes(file, source).startswith(_MAGIC.get(kind, b"")):
        raise source.refusal(f"not a {kind} file", "check the name")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise os_error_refusal(error, source, "read") from None
    contents = _READERS[kind](data, limit, source)
    embedded, unread = arrays_in_text(contents.parts)
    return replace(contents, parts=(*contents.parts, *embedded), unread=(*contents.unread, *unread))


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
