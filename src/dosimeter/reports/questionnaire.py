"""A page that answers the points of a questionnaire from results, and says of every other point that it does not.

Answers are taken from the reports of the results in the same edition, so nothing internal can stand in an external
page. Only what was computed is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.core.version import __version__
from dosimeter.reports.document import document
from dosimeter.reports.layout import Code, Document, Grid, Notes, Paragraph, Part, Section, VerdictBanner
from dosimeter.results.editions import SAYS, Edition
from dosimeter.results.result import Result
from dosimeter.results.to_json import JsonObject

NOT_COMPUTED = "Not computed in these results."


@dataclass(frozen=True, eq=False)
class Evidence:
    """One result: what kind it is, what it says in one sentence, and its fields in this edition."""

    kind: str
    """The schema's name without its number: "dosimeter.attack"."""
    title: str
    sentence: str
    figures: JsonObject

    @classmethod
    def of(cls, result: Result, edition: Edition) -> Evidence:
        """Of a result in an edition."""
        report = document(result, edition)
        figures = dict(report.figures)
        return cls(result.schema_name.split("/")[0], report.title, report.verdict.text, figures)

    def field(self, *path: str) -> Any:
        """A field of the result; None if this edition, or this kind of result, does not have it."""
        value: Any = self.figures
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value


@dataclass(frozen=True)
class Point:
    """One point of a questionnaire: what it asks, how it is answered, and what to run if it is not."""

    heading: str
    question: str
    answer: Callable[[Sequence[Evidence]], list[Part]]
    """Parts from the evidence; [] if it holds no answer."""
    otherwise: str = ""
    command: str = ""


@dataclass(frozen=True)
class Questionnaire:
    """Points under a title."""

    title: str
    claim: str
    points: tuple[Point, ...]

    def document(self, results: Sequence[Result], edition: Edition) -> Document:
        """The page: every point with what was computed, or that nothing was."""
        evidence = [Evidence.of(result, edition) for result in results]
        answers = [point.answer(evidence) for point in self.points]
        count = sum(map(bool, answers))
        sentence = f"{count} of {len(self.points)} points have a computed answer. {self.claim}"
        sections = [
            Section(point.heading, (Paragraph(point.question, quiet=True), *(parts or _nothing(point))))
            for point, parts in zip(self.points, answers, strict=True)
        ]
        used = Section("Results that this page draws on", (Notes(tuple(f"{e.title} ({e.kind})" for e in evidence)),))
        figures: JsonObject = {
            "edition": edition,
            "says": SAYS[edition],
            "sentence": sentence,
            "version": __version__,
            "template": self.title,
            "points": {point.heading: bool(parts) for point, parts in zip(self.points, answers, strict=True)},
            "results": [e.figures for e in evidence],
        }
        return Document(self.title, edition, VerdictBanner(sentence), (*sections, used), SAYS[edition], figures)


def _nothing(point: Point) -> list[Part]:
    parts: list[Part] = [Paragraph(f"{NOT_COMPUTED} {point.otherwise}".strip())]
    return [*parts, Code(point.command)] if point.command else parts


def sentences(evidence: Sequence[Evidence], kinds: Sequence[str]) -> list[Part]:
    """What results of these kinds say."""
    chosen = [e for e in evidence if e.kind in kinds]
    return [Notes(tuple(f"{e.title}: {e.sentence}" for e in chosen))] if chosen else []


def gather(evidence: Sequence[Evidence], *path: str) -> list[str]:
    """The texts of one field over all results, each once."""
    texts: list[str] = []
    for e in evidence:
        value = e.field(*path)
        texts += [str(entry) for entry in (value if isinstance(value, list) else [value]) if entry not in (None, "")]
    return list(dict.fromkeys(texts))


def as_table(caption: str, headings: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> list[Part]:
    """A table, if it has rows."""
    return [Grid(caption, headings, tuple(tuple(row) for row in rows))] if rows else []


def template_of(name: str) -> Questionnaire:
    """A questionnaire by its name; one that is not known is refused."""
    from dosimeter.reports.aisvs import AISVS
    from dosimeter.reports.edpb import EDPB

    known = {"edpb": EDPB, "aisvs": AISVS}
    if name not in known:
        raise Refusal(f"{option('template', safe_text(name))}: use {' or '.join(known)}")
    return known[name]
