"""What every report ends with: requested statistics, the ledger, assumptions and gaps, how to run it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dosimeter.reports.document import View
from dosimeter.reports.layout import (
    BRIEF,
    EVERYWHERE,
    PAGE,
    PRINTED,
    SHORT,
    Code,
    DefinitionList,
    Grid,
    Notes,
    Paragraph,
    Part,
    Section,
    number,
)
from dosimeter.results.parts import AttackSummary, BookingRecord
from dosimeter.results.result import Result
from dosimeter.results.to_json import JsonObject

NOT_BOOKED = "Not booked in a ledger: what other releases leaked about the same people is not known here."
NOT_RELEASED = "Not booked: nothing was released."
HEAD = "Anyone who keeps this head can later prove that nothing before it was removed from the ledger."
ASSUMPTIONS = "Assumptions and what is not covered"
LISTS = (
    ("not_covered", "Not covered:"),
    ("withheld", "Withheld from this edition, because this run made it depend on the data:"),
    ("assumptions", "The figures hold if this is so:"),
    ("remarks", "Remarks:"),
)


def closing(result: Result, view: View) -> list[Section]:
    """The last sections, each if the result has it."""
    return [
        Section("Requested statistics", tuple(_statistics(view.statistics)), PAGE),
        Section("Ledger", tuple(_ledger(result, view)), EVERYWHERE),
        Section("Not covered", tuple(_notes(result, "not_covered")), SHORT),
        Section("Remarks", tuple(_notes(result, "remarks")), SHORT),
        Section(ASSUMPTIONS, tuple(_assumptions(result, view)), PRINTED),
        Section("How to reproduce it", tuple(_again(result)), PAGE),
        *(() if view.internal else (Section("Files", tuple(_digests(result)), frozenset({"card"})),)),
    ]


def settings(pairs: Iterable[tuple[str, Any]]) -> DefinitionList:
    """Names and values; pairs without a value are left out."""
    return DefinitionList(tuple((name, text(value)) for name, value in pairs if value is not None and value != ""))


def text(value: Any) -> str:
    """A value of a result as text."""
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value))
    return number(value) if isinstance(value, str | int | float) else str(value)


def optional(result: Any, name: str) -> Any:
    """A field that this edition may not show: its value, or None."""
    return getattr(result, name) if name in type(result).model_fields and result.shows(name) else None


def _statistics(statistics: JsonObject) -> list[Part]:
    parts: list[Part] = [Paragraph(str(statistics["says"]), tone="bad")] if "says" in statistics else []
    plain = [(_words(key), value) for key, value in statistics.items() if key != "says" and not _is_table(value)]
    if plain:
        parts.append(settings([(key, _flat(value)) for key, value in plain]))
    return parts + [_table(_words(key), value) for key, value in statistics.items() if _is_table(value)]


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _table(caption: str, rows: Sequence[JsonObject]) -> Grid:
    keys = list(dict.fromkeys(key for row in rows for key in row))
    cells = tuple(tuple(_flat(row.get(key)) for key in keys) for row in rows)
    return Grid(caption, tuple(map(_words, keys)), cells)


def _flat(value: Any) -> Any:
    if isinstance(value, Mapping):
        return "; ".join(f"{_words(key)} {text(inner)}" for key, inner in value.items())
    return text(value) if isinstance(value, list | tuple) else value


def _words(key: str) -> str:
    return key.replace("_", " ")


def _ledger(result: Result, view: View) -> list[Part]:
    booked = optional(result, "booked")
    if isinstance(booked, BookingRecord):
        pairs = [("booked as", booked.name), ("entry", booked.seq), ("head", booked.head)]
        return [settings(pairs), Paragraph(HEAD, quiet=True)]
    if booked is False:
        return [Paragraph(NOT_BOOKED if view.released else NOT_RELEASED)]
    return []


def _notes(result: Result, name: str) -> list[Part]:
    """The notes of one kind; the heading already says that they are not covered."""
    notes = dict.fromkeys(str(note).removesuffix(": not covered") for note in optional(result, name) or ())
    return [Notes(tuple(notes))] if notes else []


def _assumptions(result: Result, view: View) -> list[Part]:
    """Each note once, under the first heading that has it."""
    parts: list[Part] = []
    shown: set[str] = set()
    for name, heading in LISTS:
        listed = view.withheld if name == "withheld" else optional(result, name) or ()
        notes = tuple(str(note) for note in listed if str(note) not in shown)
        shown.update(notes)
        if name == "not_covered":  # the heading says it
            notes = tuple(note.removesuffix(": not covered") for note in notes)
        if notes:
            parts += [Paragraph(heading), Notes(notes)]
    return parts


def _again(result: Result) -> list[Part]:
    provenance = result.reproduce if result.shows("reproduce") else None
    parts: list[Part] = []
    if provenance is not None and provenance.command:
        parts.append(Code(provenance.command))
    libraries = {} if provenance is None else optional(provenance, "libraries") or {}
    pairs = [
        ("dosimeter", result.version),
        ("Python", provenance and optional(provenance, "python")),
        ("libraries", ", ".join(f"{name} {version}" for name, version in libraries.items())),
        ("SHA-256 of the table", provenance and optional(provenance, "table")),
    ]
    return [*parts, settings(pairs), *_digests(result)]


def _digests(result: Result) -> list[Part]:
    pairs = [
        ("SHA-256 of the released file", optional(result, "artefact")),
        ("SHA-256 of the network beside it", optional(result, "artefact_beside")),
    ]
    return [settings(pairs)] if any(value for _, value in pairs) else []


def attack_row(attack: AttackSummary, name: str) -> tuple[str, float, float, float, float]:
    """(name, figure, low, high, control) of an attack, for a table and for `charts.dots`."""
    return name, attack.figure, attack.low, attack.high, attack.control


__all__ = ["ASSUMPTIONS", "BRIEF", "attack_row", "closing", "optional", "settings", "text"]
