"""Rounds of a curator with clients at the other end of an exchange [Geyer19].

The order of a round never changes: check the budget, draw clients over the whole roster, keep the state, ask those who
were drawn, close the round with what arrived by the deadline, keep the state. A client that is absent, late or
malformed counts as zero, and the noise follows the declared m. The model leaves with the next round, after it was kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.engines.client_operations import ENDED, TRAIN
from dosimeter.engines.protocol.assembly import answers_question
from dosimeter.engines.protocol.exchange import Exchange
from dosimeter.engines.protocol.fields import Malformed, Sizes, pack, unpack
from dosimeter.engines.protocol.message import Message, Status, read_message
from dosimeter.federated import accountant
from dosimeter.federated.budget import BudgetSpent
from dosimeter.federated.client_messages import ClientUpdate
from dosimeter.federated.curator import Curator
from dosimeter.federated.history import History, Round
from dosimeter.federated.networks import Score
from dosimeter.federated.schedule import ScheduleEnded
from dosimeter.federated.state import State

MOST_CLIENTS = (1 << 16) - 1
"""A message has two bytes for the number of a client."""
FAREWELL = 15.0
"""Seconds in which clients learn that the training has ended: those that lost it try again every five."""
KeepState = Callable[[State, Sequence[Round]], None]


@dataclass(frozen=True)
class ClientRounds:
    """A curator, its clients and what carries the messages. Client k of the recipe is number k + 1 on the roster."""

    curator: Curator
    exchange: Exchange
    study: bytes
    """SHA-256 of what was agreed; clients answer no other study."""
    deadline: float
    """Seconds in which the clients of a round answer."""
    keep: KeepState
    """Stores a state. It is called before any client is asked and before a model leaves."""
    score: Callable[[Any], Score] | None = None
    """Accuracy and loss of a model on public rows."""

    def __post_init__(self) -> None:
        if self.curator.cohort.clients > MOST_CLIENTS:
            raise Refusal(f"{self.curator.cohort.clients} clients: a roster has at most {MOST_CLIENTS}")
        if not 0 < self.deadline < 1e7:
            raise Refusal(f"deadline {self.deadline!r}: give seconds above 0")

    def run(self, state: State, rounds: int, progress: Callable[[Round], None] | None = None) -> History:
        """Rounds from this state on, until `rounds` are over or the budget or the schedule ends.

        A state with an open round closes that round first, with the clients that were drawn for it.
        """
        finished: list[Round] = []
        reason = f"{rounds} rounds, as planned"
        while state.is_open or state.round < rounds:
            if not state.is_open:
                try:
                    state = self.curator.open_round(state)
                except (BudgetSpent, ScheduleEnded) as why:
                    reason = str(why)
                    break
                self.keep(state, finished)
            state, entry = self._finish(state)
            finished.append(entry)
            self.keep(state, finished)
            if progress is not None:
                progress(entry)
        return History(tuple(finished), state, self.curator.figure(state), reason)

    def _finish(self, state: State) -> tuple[State, Round]:
        delta = self.curator.budget.delta
        epsilon = accountant.epsilon(state.spent, self.curator.cohort, delta, grid=accountant.WORKING_GRID)
        answers = self._ask(state)
        t, state = state.round, self.curator.close_round(state, self._updates(state, answers))
        last = state.history[-1]
        score = Score(0.0, 0.0) if self.score is None else self.score(state.model)
        return state, Round(
            t, score.accuracy, score.loss, epsilon, delta, last.per_round, last.noise, last.clip,
            last.sampled, last.accepted, last.refused, 0.0, 0.0,
        )  # fmt: skip

    def _ask(self, state: State) -> dict[int, bytes]:
        """What the clients of the open round sent in time, each with its own ticket."""
        if not len(state.participants):
            return {}
        sizes = sizes_of(state)
        body = pack(TRAIN.question, {"model": state.model}, sizes)
        questions = {
            client + 1: Message(self.study, state.round, client + 1, secrets.token_bytes(16), TRAIN.name, body)
            for client in map(int, state.participants)
        }
        return dict(self._exchange(questions, self.deadline, TRAIN.answer_bytes(sizes)))

    def _updates(self, state: State, answers: dict[int, bytes]) -> Iterator[ClientUpdate]:
        """The updates as the curator takes them; one that cannot be read is None, and the curator refuses it."""
        sizes = sizes_of(state)
        for number in sorted(answers):
            yield ClientUpdate(number - 1, _update(answers.pop(number), sizes), state.round)

    def end(self, state: State, released: bool) -> None:
        """Tell the clients that are connected; the others give up by themselves."""
        body = pack(ENDED.question, {"released": released}, {})
        questions = {
            client + 1: Message(self.study, state.round, client + 1, secrets.token_bytes(16), ENDED.name, body)
            for client in range(self.curator.cohort.clients)
        }
        self._exchange(questions, min(FAREWELL, self.deadline), ENDED.answer_bytes({}))

    def _exchange(self, questions: Mapping[int, Message], deadline: float, most: int) -> Mapping[int, bytes]:
        return self.exchange.ask(
            {number: question.pack() for number, question in questions.items()},
            deadline=deadline,
            most=most,
            accept=lambda number, data: answers_question(questions.get(number), data),
        )


def sizes_of(state: State) -> Sizes:
    """The dimension that the messages of a training name."""
    return {"parameters": int(state.model.size)}


def _update(data: bytes, sizes: Sizes) -> Any:
    """(d,) float32; None if the client did not send a finite update of this length."""
    try:
        reply = read_message(data)
        return unpack(TRAIN.answer, reply.body, sizes)["update"] if reply.status is Status.DONE else None
    except Malformed:
        return None
