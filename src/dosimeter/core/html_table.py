"""A small HTML table for notebooks: names and values, escaped, without styles or scripts."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from dosimeter.core.text import safe_text


def html_table(caption: str, rows: Iterable[tuple[str, object]]) -> str:
    """A table of two columns under a caption. Nothing in it is read as markup.

    >>> html_table("dose", [("highest", "<b>")])
    '<table><caption>dose</caption><tr><th>highest</th><td>&lt;b&gt;</td></tr></table>'
    """
    cells = (f"<tr><th>{_cell(name)}</th><td>{_cell(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{_cell(caption)}</caption>{''.join(cells)}</table>"


def _cell(value: object) -> str:
    return escape(safe_text(f"{value:.4g}" if isinstance(value, float) else value, 200))
