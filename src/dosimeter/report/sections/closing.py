"""What every report ends with: an attack's result, the ledger, what is assumed and not covered, how to do it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dosimeter.report.layout import Code, DefinitionList, Grid, Notes, Part, Section, Words, number
from dosimeter.report.verdicts import nothing_left

NOT_BOOKED = "Not booked in a ledger: nobody's total over several releases is known here."
NOT_RELEASED = "Not booked: nothing was released."
ASSUMED = "Assumptions and what is not covered"


def closing(told: Mapping[str, Any]) -> list[Section]:
    """The last sections, each where the facts have it."""
    made = [_statistics(told), _ledger(told), _assumed(told), _again(told)]
    return [section for section in made if section.parts]


def release(pairs: Sequence[tuple[str, Any]]) -> DefinitionList:
    """Names and values, those left out that the edition does not have."""
    return DefinitionList(tuple((name, text(value)) for name, value in pairs if value is not None and value != ""))


def text(value: Any) -> str:
    """A value of the facts in words."""
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value))
    return number(value) if isinstance(value, str | int | float) else str(value)


def _statistics(told: Mapping[str, Any]) -> Section:
    found = told.get("statistics") or {}
    parts: list[Part] = [Words(str(found["says"]), tone="bad")] if "says" in found else []
    plain = [(_words(key), value) for key, value in found.items() if key != "says" and not _is_table(value)]
    if plain:
        parts.append(release([(key, _flat(value)) for key, value in plain]))
    parts += [_table(_words(key), value) for key, value in found.items() if _is_table(value)]
    return Section("Statistics that were asked for", tuple(parts))


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _table(caption: str, rows: Sequence[Mapping[str, Any]]) -> Grid:
    keys = list(dict.fromkeys(key for row in rows for key in row))
    cells = tuple(tuple(_flat(row.get(key)) for key in keys) for row in rows)
    return Grid(caption, tuple(map(_words, keys)), cells)


def _flat(value: Any) -> Any:
    if isinstance(value, Mapping):
        return "; ".join(f"{_words(key)} {text(one)}" for key, one in value.items())
    return text(value) if isinstance(value, list | tuple) else value


def _words(key: str) -> str:
    return key.replace("_", " ")


def _ledger(told: Mapping[str, Any]) -> Section:
    booked = told.get("booked")
    parts: list[Part] = []
    if booked:
        pairs = [("booked as", booked.get("name")), ("entry", booked.get("seq")), ("head", booked.get("head"))]
        parts.append(release(pairs))
        parts.append(
            Words(
                "Whoever keeps this head can later prove that nothing before it was removed from the book.", quiet=True
            )
        )
    elif booked is False:
        parts.append(Words(NOT_RELEASED if nothing_left(told) else NOT_BOOKED))
    return Section("What the ledger says so far", tuple(parts))


def _assumed(told: Mapping[str, Any]) -> Section:
    parts: list[Part] = []
    for key, heading in (
        ("assumptions", "The figures hold if this is so:"),
        ("not_covered", "Not covered:"),
        ("withheld", "Withheld from this edition, because this run made it depend on the data:"),
        ("remarks", "Remarks:"),
    ):
        notes = told.get(key) or []
        if notes:
            parts += [Words(heading), Notes(tuple(map(str, notes)))]
    return Section(ASSUMED, tuple(parts))


def _again(told: Mapping[str, Any]) -> Section:
    asked = told.get("reproduce") or {}
    parts: list[Part] = []
    if asked.get("command"):
        parts.append(Code(str(asked["command"])))
    libraries = asked.get("libraries") or {}
    pairs = [
        ("dosimeter", asked.get("version") or told.get("version")),
        ("Python", asked.get("python")),
        ("libraries", ", ".join(f"{name} {version}" for name, version in libraries.items())),
        ("SHA-256 of the table", asked.get("table")),
        ("SHA-256 of the released file", told.get("artefact")),
        ("SHA-256 of the network beside it", told.get("artefact_beside")),
    ]
    parts.append(release(pairs))
    return Section("How to reproduce it", tuple(parts))


def attacked(one: Mapping[str, Any], name: str) -> tuple[str, float, float, float, float]:
    """(name, figure, low, high, control) of an attack, for a table and for `charts.dots`."""
    return name, float(one["figure"]), float(one["low"]), float(one["high"]), float(one["control"])
