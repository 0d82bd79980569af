"""The sections about labels by noisy vote (`pate`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dosimeter.report.charts import Axis, Series, drawing
from dosimeter.report.layout import Gauge, Grid, Part, Section, VerdictBanner, Words, number
from dosimeter.report.sections.closing import closing, release
from dosimeter.report.sections.doses import MANY, WIDE, amount, distribution, ranked
from dosimeter.report.verdicts import nothing_left

TITLE = "What these labels give away"
NATS = "nats"


def sections(told: Mapping[str, Any]) -> list[Section]:
    """Top to bottom; what the edition does not have stays away."""
    inside = told.get("internal") or {}
    made = [
        Section("What was promised", tuple(_promise(told))),
        Section("Bound and exact", tuple(_exact(told["publishable"], inside))),
        Section("Leakage by query", tuple(_by_query(inside.get("by_query")))),
        Section("Leakage by teacher", tuple(_by_teacher(inside, told["publishable"]))),
        Section("What the labels are worth", tuple(_worth(told, inside))),
    ]
    return [*(one for one in made if one.parts), *closing(told)]


def verdict(told: Mapping[str, Any]) -> VerdictBanner:
    """The sentence of the edition; the bound, and the exact figures where they may be shown."""
    inside, found = told.get("internal") or {}, told["publishable"]
    if "nats" not in found:
        return VerdictBanner(str(told["sentence"]), "bad")
    nats = float(found["nats"])
    marks = [(name, float(inside[key])) for name, key in (("typical", "typical_nats"),) if inside.get(key, 0) > 0]
    if inside.get("highest_nats", 0) > 0:
        marks.append(("highest", float(inside["highest_nats"])))
    gauge = Gauge.of("nats: the bound for every table", nats, None, (*marks, ("bound", nats)))
    return VerdictBanner(str(told["sentence"]), "bad" if nothing_left(told) or not _claimed(found) else "", gauge)


def _claimed(found: Mapping[str, Any]) -> bool:
    return bool(found["standing"] != "unaccounted")


def _promise(told: Mapping[str, Any]) -> list[Part]:
    found = told["publishable"]
    if "nats" not in found:
        return [
            release(
                [
                    ("standing", f"{found['standing']}: nothing is claimed"),
                    ("teachers", found["teachers"]),
                    ("queries", f"{found['queries']}, {found['refused']} refused"),
                    ("public rows", told.get("public_rows")),
                ]
            )
        ]
    return [
        release(
            [
                ("at most", f"{number(found['nats'])} nats in all, {number(found['nats_per_query'])} per query"),
                ("who the person is included", _who(found)),
                ("a right guess grows by at most a factor", number(amount(found["factor"]))),
                ("notion", found["notion"]),
                ("unit", found["unit"]),
                ("neighbours", found["neighbours"]),
                ("standing", found["standing"]),
                ("noise on each count of votes", found["noise"]),
                ("answered only where", found.get("threshold")),
                ("teachers", found["teachers"]),
                ("queries", f"{found['queries']}, {found['refused']} refused"),
                ("classes", found["classes"]),
                ("public rows", told.get("public_rows")),
            ]
        ),
        Words(
            f"Beside it, never added to it: (ε, δ) = ({number(amount(found['epsilon']))}, {found['delta']:g}), "
            f"{found['adjacency']} ({found['epsilon_standing']}).",
            quiet=True,
        ),
    ]


def _who(found: Mapping[str, Any]) -> str | None:
    nats = found.get("nats_who")
    return None if nats is None else f"at most {number(nats)} nats in all: another person instead moves two teachers"


def _exact(bound: Mapping[str, Any], inside: Mapping[str, Any]) -> list[Part]:
    if not inside:
        return []
    unit = inside["unit"]
    rows = (
        (f"a typical {unit} at these very votes", float(inside["typical_nats"]), inside["standing"]),
        (f"the most exposed {unit} at these very votes", float(inside["highest_nats"]), inside["standing"]),
        ("any table whatever", float(bound["nats"]), bound["standing"]),
    )
    parts: list[Part] = [
        Grid("Nats; figures at these votes hold for queries fixed beforehand", ("", NATS, "standing"), rows)
    ]
    if inside.get("distribution"):
        parts += distribution(inside["distribution"])
    return parts + ranked(inside.get("ranked") or [], unit, of=NATS)


def _by_query(found: Mapping[str, Any] | None) -> list[Part]:
    if not found or not found["nats"]:
        return []
    nats = np.array(found["nats"], dtype=float)
    at = np.arange(1.0, len(nats) + 1)
    ends = np.array([at[0] - 0.5, at[-1] + 0.5])
    log = bool((nats > 0).all() and nats.max() > 30 * nats.min())
    series = [
        Series("at these very votes", at, nats, kind="points", large=len(nats) < 60),
        Series("bound for every table", ends, np.full(2, float(found["bound"]))),
    ]
    says = (
        "Nats of each query about the teacher whom it exposes most, in the order of the answers, beside the bound that "
        f"holds whatever the votes. The first {len(nats)} queries."
    )
    return [drawing("Leakage by query", Axis("query", whole=True), Axis(NATS, log=log), series, says=says, size=WIDE)]


def _by_teacher(inside: Mapping[str, Any], bound: Mapping[str, Any]) -> list[Part]:
    nats = np.array(inside.get("by_teacher") or [], dtype=float)
    if not nats.size:
        return []
    at = np.arange(1.0, len(nats) + 1)
    log = bool((nats > 0).all())
    series = [
        Series("at these very votes", at, nats, kind="points", large=len(nats) < 60),
        Series("bound for every table", np.array([0.5, len(nats) + 0.5]), np.full(2, float(bound["nats"]))),
    ]
    says = f"Nats over all queries of the {len(nats)} {MANY['teacher']} about whom most is told, beside the bound."
    return [
        drawing(
            "Leakage by teacher",
            Axis("teacher, by rank", whole=True),
            Axis(NATS, log=log),
            series,
            says=says,
            size=WIDE,
        )
    ]


def _worth(told: Mapping[str, Any], inside: Mapping[str, Any]) -> list[Part]:
    found = told.get("accuracy") or {}
    of = {"labels": "labels", "student": "the student's answers on the other public rows"}
    rows = tuple((of[key], f"{found[key]:.1%}") for key in of if found.get(key) is not None)
    parts: list[Part] = []
    if rows:
        parts.append(Grid("Right, by the public table's own target", ("", "share"), rows))
    if inside:
        agreement = inside["agreement_with_plain_vote"]
        parts.append(Words(f"Noisy label = plain vote for {agreement:.0%} of those answered.", quiet=True))
    return parts
