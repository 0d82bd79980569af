"""The sections about measured answers: those of a measurement, and what the queries ask for."""

from __future__ import annotations

from typing import Any

from dosimeter.reports.document import View, sections
from dosimeter.reports.layout import EVERYWHERE, Paragraph, Section, number
from dosimeter.reports.sections.closing import optional, settings
from dosimeter.results.answers import Answered, AnswersMeasurement
from dosimeter.results.measurement import Measurement

EXACT_ALL = "Exact answers to these queries determine all parameters of the model."
CHARGED = (
    "Every answer counts, a repeated one too: with fresh noise on each, the mean of k answers has noise of 1/√k of the "
    "scale, and η of k equal answers is √k times that of one."
)


@sections.register
def _(result: AnswersMeasurement, view: View) -> list[Section]:
    of_weights = sections.dispatch(Measurement)(result, view)
    answered: Answered | None = optional(result, "answers")
    if answered is None:
        return list(of_weights)
    queries = (
        settings(_figures(answered)),
        *(() if result.bounded else (Paragraph(_until_known(answered)),)),
        Paragraph(CHARGED, quiet=True),
    )
    return [*of_weights[:1], Section("Queries and answers", queries, EVERYWHERE), *of_weights[1:]]


def _until_known(answered: Answered) -> str:
    """What exact answers determine."""
    if not answered.left:
        return EXACT_ALL
    more = "1 more independent query" if answered.left == 1 else f"{answered.left} more independent queries"
    return (
        f"Exact answers determine {answered.independent} functions of the {answered.parameters} parameters; after "
        f"{more} they determine all."
    )


def _figures(answered: Answered) -> list[tuple[str, Any]]:
    batches = optional(answered, "batches")
    return [
        ("answered", f"{answered.answer}, {answered.queries} queries"),
        ("independent", f"{answered.independent} of {answered.parameters} parameters, {answered.left} left"),
        ("standing of the answers", answered.standing),
        ("such lists until the limit", None if batches is None else number(batches)),
    ]
