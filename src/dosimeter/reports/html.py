"""The report as one HTML file. It fetches nothing, and no untrusted text in it runs."""

from __future__ import annotations

from dosimeter.reports.document import document
from dosimeter.reports.layout import Document
from dosimeter.reports.markup import render, visible
from dosimeter.reports.standalone_page import standalone_page
from dosimeter.results.editions import Edition
from dosimeter.results.result import Result


def to_html(result: Result, edition: Edition = "external", *, statistics: bool = False) -> str:
    """A whole page. External has only what is marked public; `statistics` adds statistics of doses, on request."""
    return lay_out(document(result, edition, statistics=statistics))


def lay_out(report: Document) -> str:
    """The page of a document."""
    body = render("report.html.j2", page=report, visible=visible)
    return standalone_page(f"{report.title} ({report.edition})", body, charts=bool(report.drawings))
