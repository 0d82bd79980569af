"""`scan`: a file opened by its kind, its parts recognised and, with a table, compared."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dosimeter.frames.source import Source
from dosimeter.frames.table import Table
from dosimeter.io.gate import GIBIBYTE, cannot, first_bytes, refuse_pickle, regular_file
from dosimeter.io.text import harmless
from dosimeter.scan.archive import Archive
from dosimeter.scan.arrays import read_npy, read_npz
from dosimeter.scan.compare import Comparison, compared
from dosimeter.scan.finding import SEVERITIES, Finding
from dosimeter.scan.objects import read_json
from dosimeter.scan.onnx import read_onnx
from dosimeter.scan.part import Contents, Part
from dosimeter.scan.recognise import merged, recognise, siblings_of
from dosimeter.scan.skops import read_skops
from dosimeter.scan.tensors import read_safetensors
from dosimeter.scan.texts import unfolded

_READERS: dict[str, Callable[[bytes, int, Source], Contents]] = {
    ".skops": lambda data, limit, source: read_skops(Archive(data, limit, source), source),
    ".onnx": lambda data, limit, source: read_onnx(data, source),
    ".safetensors": lambda data, limit, source: read_safetensors(data, source),
    ".npz": lambda data, limit, source: read_npz(Archive(data, limit, source)),
    ".npy": lambda data, limit, source: read_npy(data),
    ".json": lambda data, limit, source: read_json(data, source),
}
KINDS = tuple(_READERS)
_MAGIC = {".skops": b"PK", ".npz": b"PK", ".npy": b"\x93NUMPY"}
_TORCH = (".pt", ".pth", ".ckpt", ".bin")
_SAVE_TORCH = "save the weights with safetensors.torch.save_file(model.state_dict(), 'model.safetensors')"


@dataclass(frozen=True)
class Scan:
    """What was found in a file, worst first. unread: (place, why) of what was not opened.

    compared: rows of the table it was compared with, 0 without one.
    """

    kind: str
    findings: tuple[Finding, ...]
    unread: tuple[tuple[str, str], ...]
    compared: int = 0

    @property
    def rows_inside(self) -> bool:
        """Whether the file holds whole rows: known to, or found in the table."""
        return any(one.rows_inside for one in self.findings)

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
            "compared_with_rows": self.compared,
            "rows_found": list(self.named),
            "findings": [one.facts() for one in self.findings],
            "not_opened": [{"place": place, "why": why} for place, why in self.unread],
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
    contents = contents_of(path, limit=limit)
    siblings = siblings_of(contents)
    found = recognise(contents)
    if table is not None:
        comparison = Comparison(table, contents, tolerance)
        checked = [(compared(one, part, comparison, siblings[part.holder]), part) for one, part in found]
        found = [*checked, *_unnamed(contents, {id(part) for _, part in found}, comparison, siblings)]
        found = [(_settled(one, [other for other, _ in found]), part) for one, part in found]
    findings = merged([one for one, _ in found])
    ranked = sorted(findings, key=lambda one: (SEVERITIES.index(one.severity), one.certainty == "possible"))
    return Scan(contents.kind, tuple(ranked), contents.unread, 0 if table is None else table.n)


def contents_of(path: str | os.PathLike[str], *, limit: int = GIBIBYTE) -> Contents:
    """Everything in the file that can be read without running anything."""
    kind = Path(path).suffix.lower()
    file, source = regular_file(path, limit)
    if kind in _TORCH:
        what = f"a {kind} file may run its author's code when it is opened, so it is not opened"
        raise source.refusal(what, _SAVE_TORCH)
    if kind not in (".npy", ".npz"):
        refuse_pickle(file, source, model=True)
    if kind not in _READERS:
        named = f"the ending {harmless(kind, 20)}" if kind else "a name without ending"
        raise source.refusal(f"{named} is not a model file that can be looked into", f"give {', '.join(KINDS)}")
    if not first_bytes(file, source).startswith(_MAGIC.get(kind, b"")):
        raise source.refusal(f"not a {kind} file", "check the name")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise cannot(error, source, "read") from None
    found = _READERS[kind](data, limit, source)
    return replace(found, parts=(*found.parts, *unfolded(found.parts)))


def _unnamed(contents: Contents, done: set[int], comparison: Comparison, siblings: Any) -> list[tuple[Finding, Part]]:
    """Weights and arrays without a name of their own are compared as well, and told where they hold rows."""
    made = []
    for part in contents.parts:
        match = None if id(part) in done else comparison.lines(part, siblings[part.holder])
        if match is not None and match.beyond_accident:
            why = "rows of the table lie here, whatever it is called"
            found = Finding(part.place, "rows", "numbers", why, match.found, part.owner, part.shape)
            made.append((found.matched(match), part))
    return made


def _settled(finding: Finding, found: list[Finding]) -> Finding:
    """What could be rows and matched no better than by accident stays a possibility; what did match are rows."""
    match = finding.match
    if match is None or finding.severity not in ("rows", "statistics"):
        return finding
    if finding.severity == "rows":
        if match.beyond_accident:
            return finding
        return replace(finding, certainty="possible" if finding.what == "numbers" else "known")
    if any(one.place == finding.place and one.severity == "rows" for one in found):
        return replace(finding, match=None, certainty="known")
    why = "rows of the table lie here: means of one person each"
    return replace(finding, severity="rows", why=why, count=match.found)
