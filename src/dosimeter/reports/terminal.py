"""A report in a terminal: headings, and their text and small tables indented below them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from dosimeter.core.text import safe_text
from dosimeter.reports.document import document
from dosimeter.reports.layout import (
    Code,
    DefinitionList,
    Document,
    Drawing,
    Gauge,
    Grid,
    Notes,
    Paragraph,
    Section,
    Tiles,
)
from dosimeter.results.result import Result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

LONGEST = 600
"""Characters of one text."""
MOST_ROWS = 8
"""Rows of a table that a terminal shows; the page has all of them."""
Rendered = list[tuple[Any, str]]
"""(text or a rich table, style); resolved when the renderers below are registered."""
STYLES = {"good": "green", "bad": "red", "": ""}


def to_terminal(result: Result, console: Console) -> None:
    """Print the internal report of a result."""
    show(document(result, "internal"), console)


def to_text(result: Result, width: int = 100) -> str:
    """The same as plain text."""
    from rich.console import Console

    stream = io.StringIO()
    to_terminal(result, Console(file=stream, width=width, highlight=False, markup=False, no_color=True))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def show(report: Document, console: Console) -> None:
    """Print the sections of a document that are short enough for a terminal, the verdict first."""
    lines = Lines()
    show_verdict(report, lines)
    for section in report.on("terminal"):
        add_section(lines, section)
    lines.print(console)


def show_verdict(report: Document, lines: Lines) -> None:
    """The verdict, and what this edition holds."""
    lines.add("Verdict", safe_text(report.verdict.text, LONGEST), STYLES[report.verdict.tone])
    lines.add("", safe_text(report.says, LONGEST), "dim")


def add_section(lines: Lines, section: Section) -> None:
    """The parts of a section under its heading."""
    heading = section.heading
    for part in section.parts:
        for body, style in rendered(part):
            lines.add(heading, body, style)
            heading = ""


class Lines:
    """Text and small tables under headings, printed at once."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Any]] = []

    def add(self, heading: str, body: str | Table, style: str = "") -> None:
        """A heading ("" to continue the last) and its text or small table."""
        self.rows.append((heading, plain_text(body, style) if isinstance(body, str) else body))

    def print(self, console: Console) -> None:
        """Each heading on a line of its own, its text indented below it."""
        from rich.padding import Padding

        for heading, body in self.rows:
            if heading:
                console.print(plain_text(heading, "bold"))
            console.print(Padding(body, (0, 0, 0, 2)))


@singledispatch
def rendered(part: Any) -> Rendered:
    """(text or table, style) of one part."""
    raise TypeError(f"a terminal cannot show {type(part).__name__}")


@rendered.register
def _(part: Paragraph) -> Rendered:
    return [(safe_text(part.text, LONGEST), "dim" if part.quiet else STYLES[part.tone])]


@rendered.register
def _(part: Tiles) -> Rendered:
    rows = [(safe_text(tile.label), safe_text(tile.value), safe_text(tile.note, LONGEST)) for tile in part.tiles]
    return [(small_table(("", "", ""), rows, left=3), "")]


@rendered.register
def _(part: Notes) -> Rendered:
    return [(f"· {safe_text(entry, LONGEST)}", "dim") for entry in part.entries]


@rendered.register
def _(part: DefinitionList) -> Rendered:
    rows = [(safe_text(name), safe_text(value, LONGEST)) for name, value in part.pairs]
    return [(small_table(("", ""), rows, left=2), "")] if rows else []


@rendered.register
def _(part: Code) -> Rendered:
    return [(safe_text(part.text, LONGEST), "dim")]


@rendered.register
def _(part: Grid) -> Rendered:
    if part.folded:
        return []
    figures = [numeric for _, numeric in part.heads]
    left = figures.index(True) if True in figures else len(figures)
    shown = part.rows if part.whole else part.rows[:MOST_ROWS]
    width = LONGEST if part.whole else 80
    rows = [(safe_text(row[0], width), *(safe_text(text, width) for text, _ in part.cells(row))) for row in shown]
    more = len(part.rows) - len(shown)
    table: Rendered = [(small_table(part.headings, rows, left), "")]
    return [*table, *([(f"{more} more on the page", "dim")] if more > 0 else [])]


@rendered.register
def _(part: Drawing) -> Rendered:
    return []


@rendered.register
def _(part: Gauge) -> Rendered:
    return [(f"{part.title}: {part.says}", STYLES[part.tone])]


def small_table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]], left: int = 1) -> Table:
    """A small table: the first `left` columns to the left, figures to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=any(headings))
    for k, heading in enumerate(headings):
        table.add_column(plain_text(safe_text(heading)), justify="left" if k < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(plain_text(cell) for cell in row))
    return table


def plain_text(text: str, style: str = "") -> Text:
    """Text as it is: no markup in it is interpreted."""
    from rich.text import Text

    return Text(text, style=style)
