"""A page for a terminal: headings beside what they say, or above it where the terminal is narrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

NARROW = 70
"""Below this many columns a heading stands on a line of its own, so that words are not broken letter by letter."""


class Page:
    """Lines under headings, printed at once."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Any]] = []

    def add(self, heading: str, body: str | Table, style: str = "") -> None:
        """A heading ("" to continue the last) and what it says: words, or a small table."""
        self.rows.append((heading, text(body, style) if isinstance(body, str) else body))

    def show(self, console: Console) -> None:
        """Print, in the shape that the console's width allows."""
        from rich.padding import Padding
        from rich.table import Table

        if console.width < NARROW:
            for heading, body in self.rows:
                if heading:
                    console.print(text(heading, "bold"))
                console.print(Padding(body, (0, 0, 0, 2)))
            return
        grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True, style="bold")
        grid.add_column(overflow="fold")
        for heading, body in self.rows:
            grid.add_row(heading, body)
        console.print(grid)


def small(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]], left: int = 1) -> Table:
    """A small table: the first `left` columns to the left, figures to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=any(headings))
    for k, heading in enumerate(headings):
        table.add_column(heading, justify="left" if k < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(text(cell) for cell in row))
    return table


def text(words: str, style: str = "") -> Text:
    """Words as they are: no markup is read in them."""
    from rich.text import Text

    return Text(words, style=style)
