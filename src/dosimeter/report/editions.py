"""The two editions of a report: internal has everything; external has what is marked public, and nothing else.

External is made by a list of what may leave and never by a list of what may not, so a new field stays inside until
somebody has thought about it. docs/report-editions.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from dosimeter.report.statistics import statistics as dose_statistics
from dosimeter.report.verdicts import for_everybody, for_the_house
from dosimeter.results.registry import KINDS, fields, read
from dosimeter.results.to_json import plain
from dosimeter.results.visibility import mark_of

SAYS = {
    "external": (
        "External edition: settings, guarantees and what follows from the noised release. Whatever else was read off "
        "the data is named under “not covered”."
    ),
    "internal": "Internal: computed from the data without protection. Do not publish.",
}


def external(facts: Mapping[str, Any], statistics: bool = False) -> dict[str, Any]:
    """What may be handed to anybody: public fields, a verdict about the limit that was kept, what is withheld.

    statistics: on request, statistics of doses for groups of ten or more, rounded, under "statistics"; they are
    computed from the data without protection and say so.
    """
    model, whole = read(facts), plain(dict(facts))
    out = {
        "edition": "external",
        "says": SAYS["external"],
        "sentence": for_everybody(whole),
        **_public(model, whole),
        "withheld": _sentences(_withheld(model, whole)),
    }
    if statistics:
        out["statistics"] = dose_statistics(whole)
    return out


def internal(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Everything, with its verdict in a sentence."""
    read(facts)
    whole = plain(dict(facts))
    return {"edition": "internal", "says": SAYS["internal"], "sentence": for_the_house(whole), **whole}


def _public(model: BaseModel, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a model that are set and may leave, part by part."""
    out: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        mark, value = mark_of(field), getattr(model, name)
        if name in model.model_fields_set and value is not None and mark is not None and mark.lets_out(facts):
            out[field.alias or name] = _plain(value, facts)
    return out


def _plain(value: Any, facts: Mapping[str, Any]) -> Any:
    if isinstance(value, BaseModel):
        return _public(value, facts)
    if isinstance(value, list):
        return [_plain(one, facts) for one in value]
    return plain(value)


def _sentences(found: Iterator[tuple[str, str]]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for path, why in found:
        by_reason.setdefault(why, []).append(path)
    return [f"{', '.join(paths)}: {why}" for why, paths in by_reason.items()]


def _withheld(model: BaseModel, facts: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Fields that are public of other runs and not of this one, with the reason."""
    for name, field in type(model).model_fields.items():
        mark, value = mark_of(field), getattr(model, name)
        if value is None or mark is None or mark.edition == "internal":
            continue
        if mark.unless and not mark.lets_out(facts):
            yield f"{path}{name}", mark.unless
        elif isinstance(value, BaseModel) and mark.lets_out(facts):
            yield from _withheld(value, facts, f"{path}{name}.")


def table() -> str:
    """Every field, its edition and the reason, as Markdown for docs/report-editions.md; an internal part is a line."""
    lines = []
    for kind, model in KINDS.items():
        lines += [f"### {kind}", "", "| field | edition | why |", "|---|---|---|"]
        inside: tuple[str, ...] = ()
        for path, mark in fields(model):
            if path.startswith(inside):
                continue
            edition = "public" if mark.when is None else f"public, unless {mark.unless or 'it was not kept'}"
            lines.append(f"| `{path}` | {edition if mark.edition == 'public' else 'internal'} | {mark.why} |")
            inside = inside if mark.edition == "public" else (*inside, f"{path}.")
        lines.append("")
    return "\n".join(lines)
