"""What `dm.measure(..., release="predictions")` returns: figures of answers in the table's own names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dosimeter import glm
from dosimeter.core.checks import positive
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.face import option
from dosimeter.core.noise import Noise
from dosimeter.core.notion import Standing
from dosimeter.core.text import safe_text
from dosimeter.models.answering_model import AnsweringModel, Asked
from dosimeter.results.answers import AnswersMeasurement
from dosimeter.tables.table import Table
from dosimeter.workflows.model_leakage import ModelLeakage
from dosimeter.workflows.people_table import Names, as_names

RELEASES = ("weights", "predictions")
"""What may be released of a model."""


def asked_queries(
    release: str, queries: Any, answer: str | None, noise: Any, *, blocks: bool = False, scaler: str | None = None
) -> Asked | None:
    """What is asked; None for a release of weights. Options that contradict each other are refused."""
    if release not in RELEASES:
        raise Refusal(f"{option('release', safe_text(release))}: use {' or '.join(RELEASES)}")
    predictions = option("release", "predictions")
    if release == "weights":
        for name, value in (("queries", queries), ("answer", answer)):
            if value is not None:
                raise Refusal(f"{option(name)} is for {predictions}: pass both, or neither")
        return None
    if queries is None:
        raise Refusal(f"{predictions} needs the public rows that are answered: pass {option('queries')}")
    if blocks:
        raise Refusal(f"{predictions} is measured in memory: use {option('engine', 'memory')}")
    if scaler is not None:
        through = "answers go through a fitted scaler where there is one"
        raise Refusal(f"{option('scaler', safe_text(scaler))} is for released weights; {through}: leave it out")
    return Asked(queries, answer_kind(answer), noise)


def answer_kind(answer: str | None) -> glm.Answer:
    """What a query is answered with, by its name."""
    if answer is not None and answer not in list(glm.Answer):
        raise Refusal(f"{option('answer', safe_text(answer))}: use {', '.join(glm.Answer)}")
    return glm.Answer(answer or "predictions")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AnswersLeakage(ModelLeakage):
    """η of answers to queries, by cell, row, person, column and group. As private as the table.

    >>> import dosimeter as dm
    >>> people = {"who": ["a", "b", "b", "c"], "age": [30, 41, 52, 68], "cost": [1.0, 2.0, 2.5, 4.5]}
    >>> queries = {"age": [35, 60]}
    >>> leak = dm.measure(people, target="cost", person="who", release="predictions", queries=queries,
    ...                   noise=dm.Gaussian(1.0))
    >>> leak
    <AnswersLeakage of 4 rows of 3 persons x 1 columns, Gaussian(sigma=1.0), in standard deviations, exact>
    >>> leak.result(limit=5.0).answers.left
    0
    """

    model: AnsweringModel
    information: glm.AnswerInformation
    """Of all answers together."""
    answer: glm.Answer
    answer_noise: Noise
    independent: int
    """Independent functions of the parameters that the queries ask for."""

    @classmethod
    def of_queries(cls, model: AnsweringModel, asked: Asked, table: Table, **fields: Any) -> AnswersLeakage:
        """fields: as of `ModelLeakage.of`."""
        queries = model.table(asked.queries, asked.delimiter, asked.decimal)
        rows = model.encode(queries)
        information = model.information(rows, asked.noise, asked.answer)
        plain = ModelLeakage.of(model.leakage(information), table, **fields)
        return cls(
            **plain.__dict__,
            model=model.with_reference(queries),
            information=information,
            answer=asked.answer,
            answer_noise=asked.noise,
            independent=glm.independent_queries(model.fit, rows),
        )

    @property
    def noise(self) -> Any:
        """The noise on each answer."""
        return self.answer_noise

    @property
    def standing(self) -> Standing:
        """The weaker of that of the model's figures and that of its answers."""
        return super().standing.weaker(self.information.standing)

    def scale_for(self, target: float) -> float:
        """The scale of the noise at which the highest person (or row) has η = target; it depends on the data."""
        if self.answer is glm.Answer.LABELS:
            raise CannotMeasure("the figure of a label does not fall as 1/scale: try scales one by one")
        scale = float(self.noise.scale) if self.leak.has_noise else 1.0
        return float(self.unit_scale_eta.max()) * scale / positive("target", target)

    def figures_at(self, law: Any, scale: float) -> Any:
        """(people,) figures with another noise on each answer."""
        noise = law(scale)
        if self.answer is glm.Answer.LABELS:
            raise CannotMeasure("the figure of a label does not fall as 1/scale: measure again with the other noise")
        known = self.noise.fisher_information if self.leak.has_noise else 1.0
        return self.unit_scale_eta * math.sqrt(noise.fisher_information / known)

    def result(self, limit: float | None = None, groups: Names = (), show_ids: bool = False) -> AnswersMeasurement:
        """Everything that was measured, as one typed result: `.to_html()`, `.to_json()`, `.to_text()`.

        Parameters
        ----------
        limit
            Highest η allowed for a person; the verdict says whether it is kept.
        groups
            Columns whose groups are compared, besides those of the model.
        show_ids
            List the most exposed people by their ids instead of their rows.
        """
        asked_for = as_names(groups)
        if limit is not None:
            positive("limit", limit)
        result = AnswersMeasurement.of(self, self._with(asked_for), limit=limit, groups=asked_for, show_ids=show_ids)
        return result.of_queries(self, self.table_fit, self.answer, self.information, self.independent)
