"""Questions that wait for a gateway, and the batch that answers several of them in one transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.tables.table import Table


@dataclass(eq=False)
class Question:
    """The queries of one caller: as asked, encoded, and the most that their answers can say."""

    table: Table
    rows: FloatArray
    information: glm.AnswerInformation
    served: bool = False
    _values: Any = None
    _refusal: Exception | None = None

    def hand_out(self, values: Any) -> None:
        """Its answers, booked."""
        self._values, self.served = values, True

    def refuse(self, refusal: Exception) -> None:
        """Why it has no answers."""
        self._refusal, self.served = refusal, True

    def result(self) -> Any:
        """The answers, or the refusal."""
        if self._refusal is not None:
            raise self._refusal
        return self._values


@dataclass(frozen=True, eq=False)
class Batch:
    """Answers to a group of questions, drawn and not yet handed out."""

    name: str
    questions: list[Question]
    values: Any
    information: glm.AnswerInformation
    """Of all answers of the gateway, these included."""
    amount: float
    """Of the same, in the gateway's unit."""
    level: int
    """Steps that are booked with this batch."""

    @property
    def artefact(self) -> bytes:
        """The queries as they were asked, and the answers: what left."""
        tables = [question.table for question in self.questions]
        queries = {name: [cell for table in tables for cell in table[name].tolist()] for name in tables[0].names}
        return json.dumps({"queries": queries, "answers": self.values.tolist()}, allow_nan=False).encode()

    def hand_out(self) -> None:
        """Give each question its own answers."""
        start = 0
        for question in self.questions:
            end = start + question.table.n
            question.hand_out(self.values[start:end])
            start = end
