"""A result in a notebook: the short sections as one HTML fragment, without scripts."""

from __future__ import annotations

from dosimeter.reports.document import document
from dosimeter.reports.layout import Document
from dosimeter.reports.markup import render
from dosimeter.results.result import Result


def to_notebook(result: Result) -> str:
    """HTML for `_repr_html_`. The internal edition: a notebook that shows it is as private as the table."""
    return as_fragment(document(result, "internal"))


def as_fragment(report: Document) -> str:
    """The HTML of a document that was made before, in its own edition."""
    return str(render("notebook.html.j2", page=report))
