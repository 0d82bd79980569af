"""The report as one HTML file: an edition of the facts, laid out; nothing is fetched, nothing of a stranger's runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from dosimeter.report import editions
from dosimeter.report.layout import Document, Section, VerdictBanner
from dosimeter.report.markup import render, visible
from dosimeter.report.sections import components, labels, linear
from dosimeter.report.sections import federated as federation
from dosimeter.report.standalone_page import shell

Edition = Literal["external", "internal"]
Slice = tuple[str, Callable[[Mapping[str, Any]], list[Section]], Callable[[Mapping[str, Any]], VerdictBanner]]

SLICES: dict[str, Slice] = {
    "dosimeter.measurement": (linear.TITLE, linear.sections, linear.verdict),
    "dosimeter.repair": (linear.TITLE, linear.sections, linear.verdict),
    "dosimeter.components": (components.TITLE, components.sections, components.verdict),
    "dosimeter.pate": (labels.TITLE, labels.sections, labels.verdict),
    "dosimeter.federate": (federation.TITLE, federation.sections, federation.verdict),
    "dosimeter.federate-plan": (federation.PLAN, federation.sections, federation.verdict),
}
"""The schema's name -> its title, its sections, its verdict."""


def page(facts: Mapping[str, Any], edition: Edition = "external", *, statistics: bool = False) -> str:
    """A whole page. External has only what is marked public; `statistics` adds statistics of doses, on request."""
    return lay_out(document(facts, edition, statistics=statistics))


def document(facts: Mapping[str, Any], edition: Edition = "external", *, statistics: bool = False) -> Document:
    """The report before it is laid out: what a test looks at."""
    told = editions.internal(facts) if edition == "internal" else editions.external(facts, statistics)
    title, sections, verdict = SLICES[str(told["schema"]).split("/")[0]]
    return Document(title, edition, verdict(told), tuple(sections(told)), told)


def lay_out(made: Document) -> str:
    """The page of a document."""
    body = render("report.html.j2", page=made, says=made.facts["says"], visible=visible)
    return shell(f"{made.title} ({made.edition})", body, charts=bool(made.drawings))
