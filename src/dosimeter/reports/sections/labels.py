"""The sections about labels by noisy vote (`pate`)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.reports.charts import Axis, Series, drawing
from dosimeter.reports.document import View, banner, dose_statistics, public_verdict, sections
from dosimeter.reports.frame import table_of
from dosimeter.reports.layout import (
    EVERYWHERE,
    PAGE,
    Drawing,
    Gauge,
    Grid,
    Paragraph,
    Part,
    Section,
    VerdictBanner,
    number,
)
from dosimeter.reports.plot import drawing_of
from dosimeter.reports.sections.closing import closing, optional, settings
from dosimeter.reports.sections.doses import WIDE, amount, histogram
from dosimeter.reports.statistics import histogram as open_histogram
from dosimeter.reports.statistics import rounded, size, warned
from dosimeter.reports.verdicts import UNLISTED, figure
from dosimeter.results.labels import InternalVoteFigures, LabelRelease, PublishedBound
from dosimeter.results.parts import SMALLEST
from dosimeter.results.to_json import JsonObject

NATS = "nats"
OBSERVED = "for the votes that were cast"
BOUND = "bound for every table"
HENCE = {
    "": "",
    "any person in it, given who is in the table": ", hence about any one person's, given who is in the table,",
    "any row in it, given how many rows there are": ", hence about any one row's, given how many rows there are,",
}
"""What follows for people, by the unit of the figure."""


@public_verdict.register
def _(result: LabelRelease) -> str:
    bound = result.publishable
    if not _is_claimed(bound):
        return f"No figure is claimed for these labels: {UNLISTED}."
    return (
        f"The labels leak at most {figure(bound.nats)} nats about any one {bound.unit}: no attacker's chance of a "
        f"right guess grows by more than a factor {figure(bound.factor)} ({bound.standing})."
    )


@banner.register
def _(result: LabelRelease, view: View) -> VerdictBanner:
    """The bound, and the exact figures in the internal edition."""
    bound, inside = result.publishable, _inside(result)
    if not bound.shows("nats"):
        return VerdictBanner(view.sentence, "bad")
    exact = () if inside is None else (("typical", inside.typical_nats), ("highest", inside.highest_nats))
    marks = tuple((name, nats) for name, nats in exact if nats > 0)
    gauge = Gauge.of("nats: the bound for every table", bound.nats, None, (*marks, ("bound", bound.nats)))
    return VerdictBanner(view.sentence, "" if view.released and _is_claimed(bound) else "bad", gauge)


@dose_statistics.register
def _(result: LabelRelease) -> JsonObject:
    inside = result.internal
    if inside.distribution is None or size(inside.distribution) < 2 * SMALLEST:
        return warned({})
    return warned({"typical_nats": rounded(inside.typical_nats), "histogram": open_histogram(inside.distribution)})


@sections.register
def _(result: LabelRelease, view: View) -> list[Section]:
    bound, inside = result.publishable, _inside(result)
    return [
        Section("What was promised", tuple(_promised(result, view)), EVERYWHERE),
        Section("Bound and exact", () if inside is None else tuple(_exact(bound, inside))),
        Section("Leakage by query", () if inside is None else tuple(_by_query(inside)), PAGE),
        Section("Leakage by teacher", () if inside is None else tuple(_by_teacher(inside, bound)), PAGE),
        Section("What the labels are worth", tuple(_worth(result, inside))),
        Section("Teachers and rows", () if inside is None else tuple(_counts(bound, inside))),
        *closing(result, view),
    ]


def _inside(result: LabelRelease) -> InternalVoteFigures | None:
    inside: InternalVoteFigures | None = optional(result, "internal")
    return inside


def _is_claimed(bound: PublishedBound) -> bool:
    return bound.standing != "unaccounted"


def _promised(result: LabelRelease, view: View) -> list[Part]:
    bound = result.publishable
    if not _is_claimed(bound):
        return [*([Paragraph(_nothing_to_publish(bound), tone="bad")] if view.internal else []), _labelled(result)]
    parts: list[Part] = [Paragraph(_meaning(bound)), _labelled(result)]
    parts.append(
        Paragraph(
            f"Beside it, never added to it: (ε, δ) = ({number(amount(bound.epsilon))}, {bound.delta:g}), "
            f"{bound.neighbours} ({bound.adjacency}), {bound.epsilon_standing}.",
            quiet=True,
        )
    )
    return parts


def _meaning(bound: PublishedBound) -> str:
    """About persons only if the parts are known here to be disjoint by person."""
    nats, hence = number(bound.nats), HENCE[bound.unit.partition(", and so ")[2]]
    return (
        f"At most {nats} nats: no attacker's chance of a right guess about any one teacher's data{hence} grows by more "
        f"than a factor e^{nats} = {number(amount(bound.factor))}. The bound is the same for every table, also if "
        "queries depend on earlier answers."
    )


def _nothing_to_publish(bound: PublishedBound) -> str:
    return (
        "Nothing to publish: the classes were read off the private table, so one person's label changes the noise and "
        f"every figure. List them with {option('classes')}. If these {bound.classes} classes had been listed "
        f"in advance: at most {number(bound.nats)} nats, (ε, δ) = ({number(amount(bound.epsilon))}, {bound.delta:g})."
    )


def _labelled(result: LabelRelease) -> Part:
    bound, inside = result.publishable, _inside(result)
    people = "" if inside is None or inside.unit == "teacher" else f", of {inside.people} people"
    source = optional(result, "source")
    return settings(
        [
            ("labelled", f"{bound.queries} of {result.public_rows} public rows, {bound.refused} refused"),
            ("teachers", f"{bound.teachers}{people}" + (f" ({source})" if source else "")),
            ("classes", optional(bound, "classes")),
            *_claims(bound),
            ("standing", bound.standing if _is_claimed(bound) else f"{bound.standing}: nothing is claimed"),
            ("noise on each count of votes", _short(optional(bound, "noise"))),
            ("answered only if the first class passes", _short(optional(bound, "threshold"))),
        ]
    )


def _claims(bound: PublishedBound) -> list[tuple[str, Any]]:
    if not _is_claimed(bound):
        return []
    nats = optional(bound, "nats_who")
    moved = None if nats is None else f"at most {number(nats)} nats in all: another person instead moves two teachers"
    return [
        ("at most", f"{number(bound.nats)} nats in all, {number(bound.nats_per_query)} per query"),
        ("who the person is included", moved),
        ("a right guess grows by at most a factor", number(amount(bound.factor))),
        ("notion", bound.notion),
        ("unit", bound.unit),
        ("neighbours", bound.neighbours),
    ]


def _short(law: str | None) -> str | None:
    """A law as it prints, with four digits; the JSON has all.

    >>> _short("Laplace(b=4.93261543)")
    'Laplace(b=4.933)'
    """
    return None if law is None else re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda digits: f"{float(digits[0]):.4g}", law)


def _exact(bound: PublishedBound, inside: InternalVoteFigures) -> list[Part]:
    rows = (
        (f"a typical {inside.unit} {OBSERVED}", inside.typical_nats, inside.standing),
        (f"the most exposed {inside.unit} {OBSERVED}", inside.highest_nats, inside.standing),
        ("any table", bound.nats, bound.standing),
    )
    caption = "Nats; figures for the votes that were cast hold for queries fixed in advance"
    parts: list[Part] = [Grid(caption, ("", NATS, "standing"), rows)]
    return parts if inside.distribution is None else parts + histogram(inside.distribution)


def _by_query(inside: InternalVoteFigures) -> list[Drawing]:
    leakage = inside.by_query
    if leakage is None or not leakage.nats:
        return []
    nats = np.array(leakage.nats, dtype=float)
    query = np.arange(1.0, len(nats) + 1)
    log = bool((nats > 0).all() and nats.max() > 30 * nats.min())
    series = [
        Series(OBSERVED, query, nats, kind="points", large=len(nats) < 60),
        Series(BOUND, np.array([query[0] - 0.5, query[-1] + 0.5]), np.full(2, leakage.bound)),
    ]
    says = (
        "Nats of each query about the teacher whom it exposes most, in the order of the answers, beside the bound that "
        f"holds whatever the votes. The first {len(nats)} queries."
    )
    return [drawing("Leakage by query", Axis("query", whole=True), Axis(NATS, log=log), series, says=says, size=WIDE)]


@drawing_of.register
def _(result: LabelRelease) -> Drawing | None:
    return next(iter(_by_query(result.internal)), None)


@table_of.register
def _(result: LabelRelease) -> dict[str, list[Any]]:
    leakage = result.internal.by_query
    if leakage is None:
        raise Refusal("this result has no leakage by query")
    return {"query": list(range(1, len(leakage.nats) + 1)), "nats": [*leakage.nats]}


def _by_teacher(inside: InternalVoteFigures, bound: PublishedBound) -> list[Part]:
    nats = np.array(inside.by_teacher, dtype=float)
    if not nats.size:
        return []
    rank = np.arange(1.0, len(nats) + 1)
    series = [
        Series(OBSERVED, rank, nats, kind="points", large=len(nats) < 60),
        Series(BOUND, np.array([0.5, len(nats) + 0.5]), np.full(2, bound.nats)),
    ]
    says = f"Nats over all queries of the {len(nats)} most exposed teachers, beside the bound."
    axes = Axis("teacher, by rank", whole=True), Axis(NATS, log=bool((nats > 0).all()))
    return [drawing("Leakage by teacher", *axes, series, says=says, size=WIDE)]


def _worth(result: LabelRelease, inside: InternalVoteFigures | None) -> list[Part]:
    accuracy = optional(result, "accuracy")
    names = {"labels": "labels", "student": "the student's answers on the other public rows"}
    shares = {name: None if accuracy is None else optional(accuracy, name) for name in names}
    rows = tuple((names[name], f"{share:.1%}") for name, share in shares.items() if share is not None)
    parts: list[Part] = []
    if rows:
        parts.append(Grid("Right, by the public table's own target", ("right answers", "share"), rows))
    if inside is not None:
        agreement = inside.agreement_with_plain_vote
        parts.append(Paragraph(f"Noisy label = plain vote for {agreement:.0%} of those answered.", quiet=True))
    return parts


def _counts(bound: PublishedBound, inside: InternalVoteFigures) -> list[Part]:
    """Teachers that lack something, and private rows that were left out."""
    notes = []
    if inside.teachers_lacking_a_class:
        notes.append(
            f"{inside.teachers_lacking_a_class} of {bound.teachers} teachers lack a class; "
            f"{inside.teachers_with_one_class} of them have one only and always vote for it."
        )
    if inside.teachers_without_rows:
        notes.append(
            f"{inside.teachers_without_rows} of {bound.teachers} teachers have no rows and vote by a public rule: take "
            "fewer teachers."
        )
    if inside.rows_left_out not in (0, "unknown"):
        notes.append(
            f"Private rows left out for a missing value or an unlisted class: {inside.rows_left_out}; persons without "
            f"a row left: {inside.persons_left_out}."
        )
    return [Paragraph(note, quiet=True) for note in notes]
