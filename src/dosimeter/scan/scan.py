"""`scan`: a file opened by its kind, its parts recognised and, with a table, compared."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.location import Location
from dosimeter.core.progress import counted, stage
from dosimeter.core.text import safe_text
from dosimeter.files.archive import Archive
from dosimeter.files.file_checks import GIBIBYTE, cannot, first_bytes, refuse_pickle, regular_file
from dosimeter.scan.classify import merged, recognise, siblings_of
from dosimeter.scan.compare import Comparison, compared
from dosimeter.scan.contents import Contents, FileArray
from dosimeter.scan.embedded_text import unfolded
from dosimeter.scan.finding import SEVERITIES, Finding
from dosimeter.scan.json_arrays import read_json
from dosimeter.scan.known_attributes import ELSEWHERE, EXTREME
from dosimeter.scan.npy import read_npy, read_npz
from dosimeter.scan.onnx import read_onnx
from dosimeter.scan.safetensors import read_safetensors
from dosimeter.scan.skops import read_skops
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
"""Parts that are compared with a table: a forest of a thousand trees has fewer, and each takes milliseconds."""
_MAGIC = {".skops": b"PK", ".npz": b"PK", ".npy": b"\x93NUMPY"}
_TORCH = (".pt", ".pth", ".ckpt", ".bin")
_SAVE_TORCH = "save the weights with safetensors.torch.save_file(model.state_dict(), 'model.safetensors')"


@dataclass(frozen=True)
class Scan:
    """What was found in a file, worst first. unread: (place, why) of what was not looked into.

    compared: rows of the table it was compared with, 0 without one.
    """

    kind: str
    findings: tuple[Finding, ...]
    unread: tuple[tuple[str, str], ...]
    compared: int = 0
    looked: int = 1
    """Arrays and lists that were looked into."""

    @property
    def rows_inside(self) -> bool:
        """Whether the file holds whole rows: known to, or found in the table."""
        return any(one.rows_inside for one in self.findings)

    @property
    def values_inside(self) -> bool:
        """Whether the file holds values of single people: leaves of one person, quantiles, extremes of the table.

        Extremes that may have been declared count only where the table that was given has them.
        """
        values = [one for one in self.findings if one.severity == "values of single people"]
        return any(one.certainty != "possible" and one.why not in (EXTREME, ELSEWHERE) for one in values)

    @property
    def named(self) -> tuple[int, ...]:
        """Rows of the table, counted from 1, that lie in the file as a whole."""
        found = (one.match.rows for one in self.findings if one.rows_inside and one.match is not None)
        return tuple(sorted({row for rows in found for row in rows}))

    def facts(self) -> dict[str, Any]:
        """As a plain dict."""
        return {
            "kind": self.kind,
            "rows_inside": self.rows_inside,
            "single_values_inside": self.values_inside,
            "compared_with_rows": self.compared,
            "rows_found": list(self.named),
            "findings": [one.facts() for one in self.findings],
            "not_looked_into": [{"place": place, "why": why} for place, why in self.unread],
        }


def scan(
    path: str | os.PathLike[str],
    table: Table | None = None,
    *,
    tolerance: float | None = None,
    limit: int = GIBIBYTE,
) -> Scan:
    """What a .skops, .onnx, .safetensors, .npz, .npy or .json file holds about people.

    table: the training table, to name the rows found; tolerance: relative, by default what the file's own precision
    allows; limit: bytes of the file, and of what it declares to hold. A pickle is refused unopened.
    """
    stage(f"reading {safe_text(Path(path).name, 40)}")
    contents = contents_of(path, limit=limit)
    stage("looking for people")
    siblings = siblings_of(contents)
    found = recognise(contents)
    if table is not None:
        stage("comparing with the table")
        chosen, unread = _chosen(contents, found)
        # A stranger's numbers may lie at the ends of float64: what overflows equals nobody's.
        with np.errstate(all="ignore"):
            comparison = Comparison(table, contents, tolerance)
            checked = [
                (compared(one, part, comparison, siblings[part.holder]) if id(part) in chosen else one, part)
                for one, part in counted(found)
            ]
            done = {id(part) for _, part in found}
            rest = [part for part in contents.parts if id(part) in chosen - done]
            found = [*checked, *_unnamed(rest, comparison, siblings)]
        rows = {one.place for one, _ in found if one.severity == "rows"}
        found = [(_settled(one, rows), part) for one, part in found]
        contents = replace(contents, unread=(*contents.unread, *unread))
    findings = merged([one for one, _ in found])
    ranked = sorted(findings, key=lambda one: (SEVERITIES.index(one.severity), one.certainty == "possible"))
    return Scan(contents.kind, tuple(ranked), contents.unread, 0 if table is None else table.n, len(contents.parts))


def contents_of(path: str | os.PathLike[str], *, limit: int = GIBIBYTE) -> Contents:
    """Everything in the file that can be read without running anything."""
    kind = Path(path).suffix.lower()
    file, source = regular_file(path, limit)
    if kind in _TORCH:
        what = f"a {kind} file may run its author's code when it is opened, so it is not opened"
        raise source.refusal(what, _SAVE_TORCH)
    # A header of 128 bytes begins as a pickle does; the brace behind its length is no pickle's.
    tensors = kind == ".safetensors" and first_bytes(file, source)[8:9] == b"{"
    if kind not in (".npy", ".npz") and not tensors:
        refuse_pickle(file, source, model=True)
    if kind not in _READERS:
        named = f"the ending {safe_text(kind, 20)}" if kind else "a name without ending"
        raise source.refusal(f"{named} is not a model file that can be looked into", f"give {', '.join(KINDS)}")
    if not first_bytes(file, source).startswith(_MAGIC.get(kind, b"")):
        raise source.refusal(f"not a {kind} file", "check the name")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise cannot(error, source, "read") from None
    found = _READERS[kind](data, limit, source)
    written, unread = unfolded(found.parts)
    return replace(found, parts=(*found.parts, *written), unread=(*found.unread, *unread))


def _chosen(contents: Contents, found: list[tuple[Finding, FileArray]]) -> tuple[set[int], tuple[tuple[str, str], ...]]:
    """The parts that are compared with the table, by id, the largest first; and what is said of the others."""
    every = {id(part): part for part in (*contents.parts, *(part for _, part in found))}
    ranked = sorted((part for part in every.values() if part.texts or part.numeric), key=lambda part: -_size(part))
    left = ranked[MOST_COMPARED:]
    why = f"beyond {MOST_COMPARED} arrays and lists, the largest first, nothing is compared with the table"
    return {id(part) for part in ranked[:MOST_COMPARED]}, ((f"{len(left)} small parts", why),) if left else ()


def _size(part: FileArray) -> int:
    return len(part.texts) or part.values.size


def _unnamed(parts: list[FileArray], comparison: Comparison, siblings: Any) -> list[tuple[Finding, FileArray]]:
    """Weights and arrays without a name of their own are compared as well, and told where they hold rows."""
    made = []
    stage("comparing what has no name")
    for part in counted(list(parts)):
        match = comparison.lines(part, siblings[part.holder])
        if match is not None and match.beyond_accident:
            why = "rows of the table lie here, whatever it is called"
            found = Finding(part.place, "rows", "numbers", why, match.found, part.owner, part.shape)
            made.append((found.matched(match), part))
    return made


def _settled(finding: Finding, rows: set[str]) -> Finding:
    """What could be rows and matched no better than by accident stays a possibility; what did match are rows.

    rows: the places where rows were found.
    """
    match = finding.match
    if match is None or finding.severity not in ("rows", "statistics"):
        return finding
    if finding.severity == "rows":
        if match.beyond_accident:
            return finding
        return replace(finding, certainty="possible" if finding.what == "numbers" else "known")
    if finding.place in rows:
        return replace(finding, match=None, certainty="known")
    why = "rows of the table lie here: means of one person each"
    return replace(finding, severity="rows", why=why, count=match.found)
