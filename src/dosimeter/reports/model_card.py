"""A section for a model card, in Markdown: the external edition's settings, guarantee, and what is not covered.

No heading of level one, so that it fits into any card: `skops.card.Card(model).add(**{"Privacy": to_card(result)})`.
"""

from __future__ import annotations

import re
from functools import singledispatch
from typing import Any

from dosimeter.core.text import safe_text
from dosimeter.reports.document import document
from dosimeter.reports.layout import Code, DefinitionList, Drawing, Gauge, Grid, Notes, Paragraph, Tiles
from dosimeter.results.parts import BookingRecord
from dosimeter.results.result import Result

_MARKS = re.compile(r"([\\`*_\[\]<>|~&$])")
LEDGER = "head of the ledger at this release"


def to_card(result: Result, head: str | None = None) -> str:
    """Markdown from the external edition. head: the ledger's current head, if the booking has none or an older one."""
    booked = getattr(result, "booked", None)
    if head is not None and isinstance(booked, BookingRecord):
        result, head = result.with_fields(booked=booked.model_copy(update={"head": head})), None
    report = document(result, "external")
    lines = [escape(report.verdict.text)]
    for section in report.on("card"):
        lines += ["", f"**{escape(section.heading)}**"]
        for part in section.parts:
            lines += ["", *markdown(part)]
    if head is not None:
        lines += ["", f"{LEDGER}: {escape(head)}"]
    lines += ["", f"Made by dosimeter {escape(result.version)} from public constants and the noised release alone."]
    return "\n".join(lines) + "\n"


@singledispatch
def markdown(part: Any) -> list[str]:
    """The lines of one part."""
    raise TypeError(f"a model card cannot show {type(part).__name__}")


@markdown.register
def _(part: Paragraph) -> list[str]:
    return [escape(part.text)]


@markdown.register
def _(part: Tiles) -> list[str]:
    return [f"* {escape(tile.label)}: {escape(tile.value)}. {escape(tile.note)}".rstrip() for tile in part.tiles]


@markdown.register
def _(part: Notes) -> list[str]:
    return [f"* {escape(entry)}" for entry in part.entries]


@markdown.register
def _(part: DefinitionList) -> list[str]:
    return ["| | |", "|---|---|", *(f"| {escape(name)} | {escape(value)} |" for name, value in part.pairs)]


@markdown.register
def _(part: Code) -> list[str]:
    return [f"    {safe_text(part.text, 1000)}"]


@markdown.register
def _(part: Grid) -> list[str]:
    rows = [[escape(row[0]), *(escape(text) for text, _ in part.cells(row))] for row in part.rows]
    head = [escape(heading) or " " for heading in part.headings]
    return ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows)]


@markdown.register
def _(part: Drawing) -> list[str]:
    return []


@markdown.register
def _(part: Gauge) -> list[str]:
    return [escape(f"{part.title}: {part.says}")]


def escape(text: Any) -> str:
    """One line in which nothing is markup: names of columns come from a table."""
    return _MARKS.sub(r"\\\1", safe_text(text, 1000))
