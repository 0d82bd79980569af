"""A chart of a result on its own: drawn by a notebook, or written as one HTML file that fetches nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.reports.charts import figure
from dosimeter.reports.document import load_sections
from dosimeter.reports.layout import Drawing
from dosimeter.reports.markup import render, visible
from dosimeter.reports.standalone_page import standalone_page
from dosimeter.results.editions import says
from dosimeter.results.result import Result
from dosimeter.results.to_json import JsonObject

MIME = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
"""Notebooks know this version. Nothing in our charts needs a later one."""


@dataclass(frozen=True, eq=False)
class Plot:
    """A chart. A notebook draws it; `write` makes a page of it. As private as the result.

    >>> from dosimeter.reports.layout import Grid
    >>> drawing = Drawing("Doses", {"mark": "bar"}, Grid("Doses", ("",), ()))
    >>> Plot(drawing, "Internal: do not publish.")._repr_mimebundle_()["text/plain"]
    '<Plot: Doses>'
    """

    drawing: Drawing
    says: str
    """What its figures are: internal, unless the result is made of public numbers alone."""

    @property
    def spec(self) -> JsonObject:
        """The Vega-Lite specification. Untrusted text is data in it, never an expression."""
        return {**visible(dict(self.drawing.spec)), "$schema": SCHEMA}

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a page with the chart and its figures as a table, readable by its owner only."""
        from dosimeter.files.atomic import write_text

        body = render("plot.html.j2", says=self.says, chart=figure(self.drawing))
        write_text(path, standalone_page(self.drawing.title, body))

    def __repr__(self) -> str:
        return f"<Plot: {self.drawing.title}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> JsonObject:
        return {MIME: self.spec, "text/plain": repr(self)}


@singledispatch
def drawing_of(result: Result) -> Drawing | None:
    """The main chart of a result. A result type registers its own; one that has none is refused."""
    raise Refusal(f"{type(result).__name__} has no chart of its own: use to_html()")


def plot(result: Result) -> Plot:
    """The main chart of a result."""
    load_sections()
    drawing = drawing_of(result)
    if drawing is None:
        raise Refusal("no one has a dose above 0: there is nothing to draw")
    return Plot(drawing, says(result, "internal"))
