"""Questions that wait for a gateway, and the batch that answers several of them in one transaction."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.tables.table import Table


def _closed_lock() -> Any:
    """A lock that someone else opens: a third of the time of an Event."""
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(eq=False)
class Question:
    """The queries of one caller: as asked, encoded, and the most that their answers can say."""

    table: Table
    rows: FloatArray
    information: glm.AnswerInformation
    served: bool = False
    leads: bool = False
    """Whether its caller is to serve those who wait."""
    _values: Any = None
    _refusal: Exception | None = None
    _signal: Any = field(default_factory=_closed_lock)

    def hand_out(self, values: Any) -> None:
        """Its answers, booked."""
        self._values, self.served = values, True

    def refuse(self, refusal: Exception) -> None:
        """Why it has no answers."""
        self._refusal, self.served = refusal, True

    def wait(self) -> None:
        """Until it is served, or its caller is to serve."""
        self._signal.acquire()

    def wake(self) -> None:
        """End `wait`."""
        self._signal.release()

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


class WaitingLine:
    """Callers who wait while others are served. The next group is all who came meanwhile, and one of them serves it.

    serve: serves every question of a group; an exception leaves those that it did not serve to the next caller.
    most: answers in one group, unless one question has more.
    """

    def __init__(self, serve: Callable[[list[Question]], None], most: int) -> None:
        self._serve, self._most = serve, most
        self._mutex = threading.Lock()
        self._waiting: deque[Question] = deque()
        self._is_led = False

    def ask(self, question: Question) -> Any:
        """The answers, once they are booked."""
        with self._mutex:
            self._waiting.append(question)
            question.leads, self._is_led = not self._is_led, True
        try:
            if not question.leads:
                question.wait()
            if question.leads:
                self._lead(question)
        except BaseException:
            self._leave(question)
            raise
        return question.result()

    def _lead(self, leader: Question) -> None:
        with self._mutex:
            group, answers = list[Question](), 0
            while self._waiting and (not group or answers + self._waiting[0].information.answers <= self._most):
                group.append(self._waiting.popleft())
                answers += group[-1].information.answers
        try:
            self._serve(group)
        finally:
            with self._mutex:
                leader.leads = False
                self._waiting.extendleft(question for question in reversed(group) if not question.served)
                self._appoint()
            for question in group:
                if question.served and question is not leader:
                    question.wake()

    def _appoint(self) -> None:
        """Let the first who waits serve the others."""
        self._is_led = bool(self._waiting)
        if self._waiting:
            self._waiting[0].leads = True
            self._waiting[0].wake()

    def _leave(self, question: Question) -> None:
        """A caller was interrupted: if it was to serve, someone else does."""
        with self._mutex:
            if question in self._waiting:
                self._waiting.remove(question)
            if question.leads:
                question.leads = False
                self._appoint()
