"""The result of `measure --release predictions`: what answers to queries leak about each person."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from dosimeter.core.notion import Standing
from dosimeter.results.measurement import Doses, LinearModel, Measurement
from dosimeter.results.visibility import FORM, GIVEN, STATISTIC, WORDS, ResultModel, present, public

if TYPE_CHECKING:
    from dosimeter.glm import Answer, AnswerInformation
    from dosimeter.models.fit_table import TableFit
    from dosimeter.models.table_leakage import TableLeakage

QUERIES = public("follows from the public queries and the form of the model alone")
ANSWERS = {
    "margins": "each margin",
    "predictions": "each predicted number",
    "labels": "each margin, before the class is taken",
}
"""What is answered -> what the noise is on."""
ASSUMED = (
    "the queries are public: that they were asked says nothing about the table",
    "nothing else of the model is released: no weights, no fitted scaler, no other answers",
)
FLAT = (
    "queries lie near the table: far outside, a probability near 0 or 1 and a label have almost no figure, and still "
    "show the sign of a margin (a gateway charges them at their steepest)"
)
BOUND = (
    "the class of several margins has no closed form under this noise: its figures are those of the noised margins, "
    "an upper bound; Gumbel noise has one"
)


class Answered(ResultModel):
    """The queries and their answers."""

    answer: Annotated[str, GIVEN]
    """margins, predictions or labels."""
    queries: Annotated[int, QUERIES]
    """How many were answered."""
    parameters: Annotated[int, FORM]
    """Of the model."""
    independent: Annotated[int, QUERIES]
    """Independent functions of the parameters that the queries ask for."""
    left: Annotated[int, QUERIES]
    """Independent functions that no query asks for yet: at 0 exact answers determine all parameters."""
    standing: Annotated[str, WORDS]
    """exact, or upper bound if such answers have no closed form."""
    batches: Annotated[int | None, STATISTIC] = None
    """How often such a list could be answered, each time with fresh noise, until someone passes the limit."""


class AnswersMeasurement(Measurement):
    """What answers to public queries leak."""

    schema_name: ClassVar[str] = "dosimeter.answers/3"
    title: ClassVar[str] = "What the answers of this model leak"
    released: ClassVar[str] = "answers"

    answers: Annotated[Answered | None, GIVEN] = None

    def of_queries(
        self,
        leak: TableLeakage,
        fit: TableFit | None,
        answer: Answer,
        information: AnswerInformation,
        independent: int,
    ) -> Self:
        """The figures of `Measurement.of`, with what the queries ask for. independent: from the queries alone."""
        parameters = int(leak.fit.w.size)
        bound = [BOUND] if information.standing is Standing.UPPER_BOUND else []
        limit = None if self.verdict is None else self.verdict.limit
        return self.with_fields(
            model=LinearModel.of(leak, fit),
            noise_on=ANSWERS[answer.value],
            assumptions=[*self.assumptions, *ASSUMED, *([FLAT] if _can_be_flat(leak, answer) else [])],
            remarks=[*bound, *self.remarks],
            answers=Answered(
                answer=answer.value,
                queries=information.answers,
                parameters=parameters,
                independent=independent,
                left=parameters - independent,
                standing=information.standing.value,
                **present(batches=_batches(self.dose, limit)),
            ),
        )


def _can_be_flat(leak: TableLeakage, answer: Answer) -> bool:
    """Whether an answer bends: a label, or a prediction that is not the margin itself."""
    margin_itself = answer.value == "margins" or getattr(leak.fit.loss, "steepest_prediction", None) == 1.0
    return answer.value == "labels" or not margin_itself


def _batches(dose: Doses, limit: float | None) -> int | None:
    """How many such lists a limit allows: η² of independent answers to the same queries add."""
    if limit is None or isinstance(dose.highest, str) or dose.highest <= 0:
        return None
    return min(math.floor((limit / dose.highest) ** 2 * (1 + 1e-12)), 10**9)
