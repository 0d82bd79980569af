"""The facts of a labelling, and as a person reads them in a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dosimeter.cli.show import number
from dosimeter.core.text import safe_text
from dosimeter.report.terminal import Page

if TYPE_CHECKING:
    from rich.console import Console

    from dosimeter.models.label_inputs import VoteNoise, VoteSet
    from dosimeter.pate.label import Labels
    from dosimeter.workflows.booking import BookingOutcome

ASSUMED = (
    "the noise is fresh, is drawn by the operating system and stays secret",
    "the public rows are public, and so is how many of them were asked",
    "other labels by the same people's teachers add their own nats",
)


HENCE = {
    "": "",
    "any person in it, given who is in the table": ", hence about any one person's, given who is in the table,",
    "any row in it, given how many rows there are": ", hence about any one row's, given how many rows there are,",
}
"""What follows for people, by the unit of the figure."""


def facts_of(
    cast: VoteSet, labels: Labels, how: VoteNoise, delta: float, student: Any, demo: bool = False
) -> dict[str, Any]:
    """Everything, as a plain dict."""
    from dosimeter.core.version import __version__
    from dosimeter.results.label_figures import voted

    facts = voted(
        cast.votes, labels, how.noise, threshold=how.threshold, delta=delta, teacher_of=cast.teacher_of,
        named=cast.ballot is not None and cast.ballot.persons is not None, declared=cast.declared,
    )  # fmt: skip
    gone = cast.left_out
    facts["internal"] |= {
        "teachers_with_one_class": cast.constant,
        "teachers_lacking_a_class": cast.lacking,
        "teachers_without_rows": cast.empty,
        "rows_left_out": "unknown" if gone is None else gone.rows,
        "persons_left_out": "unknown" if gone is None else gone.persons,
    }
    return {
        "schema": "dosimeter.pate/2",
        "version": __version__,
        "source": cast.source,
        "demo": demo,
        "classes": list(cast.classes),
        **facts,
        "accuracy": {} if cast.ballot is None else cast.ballot.score(labels, student),
        "public_rows": len(cast.keys) if cast.ballot is None else len(cast.ballot.public),
        "not_covered": list(cast.uncovered),
        "assumptions": list(ASSUMED),
        "remarks": [*facts["remarks"], *cast.remarks],
        "booked": False,
    }


def tell(facts: dict[str, Any], words: Console, receipt: BookingOutcome) -> None:
    """The facts in a terminal."""
    if facts["demo"]:
        words.print(f"dosimeter {facts['version']} · pate on digits that ship with scikit-learn, for a look at it\n")
    page, told, kept = Page(), facts["publishable"], facts["internal"]
    refused = f"; {told['refused']} refused" if told["threshold"] else ""
    people = "" if kept["unit"] == "teacher" else f" of {kept['people']} people"
    page.add(
        "labelled",
        f"{told['queries']} of {facts['public_rows']} public rows by {told['teachers']} teachers{people} "
        f"({safe_text(facts['source'])}), {told['classes']} classes{refused}",
    )
    page.add("noise", f"{_short(told['noise'])} on each count of votes" + _threshold(told))
    _accuracy(page, facts)
    if told["standing"] == "unaccounted":
        _nothing_to_publish(page, told)
    else:
        _to_publish(page, told)
    _internal(page, kept, told)
    for heading, notes in (("not covered", facts["not_covered"]), ("remarks", facts["remarks"])):
        for k, note in enumerate(notes):
            page.add(heading if k == 0 else "", safe_text(note, 600), "dim")
    if receipt.refused:
        receipt.refuse(page)
    elif facts["written"]:
        page.add("written", f"{', '.join(map(safe_text, facts['written']))} ({receipt.words})")
    else:
        page.add("written", "nothing: name a file with --out labels.csv")
    page.show(words)
    if facts["demo"]:
        own = "pate patients.csv --target readmitted --classes no,yes --public visitors.csv --person patient_id"
        words.print(
            f'\nyour own tables:  dosimeter {own} --budget "1 nat" --queries 20 --out labels.csv', soft_wrap=True
        )


def _to_publish(page: Page, told: dict[str, Any]) -> None:
    page.add("to publish", _published(told), "bold")
    if told["nats_who"] is not None:
        page.add("", f"who the person is included: at most {number(told['nats_who'])} nats (two teachers change)")
    page.add("", "upper bound, the same for every table, also where queries depend on earlier answers", "dim")
    page.add(
        "",
        f"beside it, never added: (ε, δ) = ({number(told['epsilon'])}, {told['delta']:g}), {told['neighbours']} "
        f"({told['adjacency']}), {told['epsilon_standing']}",
        "dim",
    )


def _nothing_to_publish(page: Page, told: dict[str, Any]) -> None:
    page.add(
        "to publish",
        "nothing: the classes were read off the private table, so one person's label changes the noise and the figure; "
        "list them with --classes",
        "bold",
    )
    page.add(
        "unaccounted",
        f"at most {number(told['nats'])} nats, (ε, δ) = ({number(told['epsilon'])}, {told['delta']:g}), if these "
        f"{told['classes']} classes had been listed beforehand",
        "dim",
    )


def _threshold(told: dict[str, Any]) -> str:
    return f"; answered only where the first class passes {_short(told['threshold'])}" if told["threshold"] else ""


def _short(law: str) -> str:
    """A law as it prints, with four digits; the facts have all."""
    return re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda found: f"{float(found[0]):.4g}", law)


def _published(told: dict[str, Any]) -> str:
    """Of persons only where the parts are known here to be disjoint by person."""
    nats, hence = number(told["nats"]), HENCE[told["unit"].partition(", and so ")[2]]
    return (
        f"at most {nats} nats: nobody's chance of a right guess about any one teacher's data{hence} grows by more than "
        f"a factor e^{nats} = {number(told['factor'])}"
    )


def _accuracy(page: Page, facts: dict[str, Any]) -> None:
    of = {"labels": "of the labels", "student": "of the student's answers on the other public rows"}
    parts = [f"{100 * share:.0f} % {of[who]}" for who, share in facts["accuracy"].items()]
    if parts:
        page.add("right", f"{' and '.join(parts)}, by the public table's own target")


def _internal(page: Page, kept: dict[str, Any], told: dict[str, Any]) -> None:
    page.add(
        "internal",
        f"nats per {kept['unit']} at these very votes: typical {number(kept['typical_nats'])}, highest "
        f"{number(kept['highest_nats'])} ({kept['standing']}, queries fixed beforehand)",
    )
    page.add("", f"noisy label = plain vote for {100 * kept['agreement_with_plain_vote']:.0f} % of those answered")
    if kept["teachers_lacking_a_class"]:
        page.add(
            "",
            f"{kept['teachers_lacking_a_class']} of {told['teachers']} teachers lack a class, "
            f"{kept['teachers_with_one_class']} of them have one only and vote for it always",
        )
    if kept["teachers_without_rows"]:
        page.add(
            "",
            f"{kept['teachers_without_rows']} of {told['teachers']} teachers have no rows and vote by a public rule: "
            "take fewer teachers",
        )
    if kept["rows_left_out"] not in (0, "unknown"):
        page.add(
            "",
            f"private rows left out for a missing value or an unlisted class: {kept['rows_left_out']}; "
            f"persons without a row left: {kept['persons_left_out']}",
        )
    page.add("", "computed from private data without protection: do not publish", "dim")
