"""The coordinator's side of the protocol: ask every site, wait until the deadline, check every answer.

Whatever is wrong with an answer ends the computation with one line that names the site by its number and no value. A
sum over fewer sites than the roster has would be another model, so a site that does not answer also ends it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.engines.protocol.exchange import Exchange
from dosimeter.engines.protocol.fields import Malformed, Sizes, pack, unpack
from dosimeter.engines.protocol.message import Message, Status, read_message
from dosimeter.engines.protocol.operations import operation_named

Values = dict[str, Any]
SAYS = {
    Status.NO_MATCH: "does not match the schema; its own terminal says where",
    Status.FAILED: "could not compute {operation}; its own terminal says why",
    Status.REFUSED: "refused {operation}; its own terminal says why",
}


class SiteFault(Refusal):
    """A site did not answer, or its answer is not one. Nothing was released."""


class Assembly:
    """The sites of one study, asked through an exchange."""

    def __init__(
        self, exchange: Exchange, study: bytes, sites: Sequence[int], sizes: Sizes, *, deadline: float, first_round: int
    ) -> None:
        self.sites = tuple(sites)
        self.sizes = sizes
        self._exchange = exchange
        self._study = study
        self._deadline = deadline
        self.round = first_round
        """Of the last question."""
        self.watch: Callable[[str], None] = lambda operation: None
        """Called with the name of each operation before it is asked."""

    def ask(
        self,
        name: str,
        values: Values | None = None,
        *,
        check: Callable[[int, Values], None] | None = None,
        deadline: float | None = None,
    ) -> dict[int, Values]:
        """The checked answers of all sites to one operation, in the order of the roster.

        check: refuses an answer that no table within the schema gives, with a `Refusal`.
        """
        seconds = self._deadline if deadline is None else deadline
        replies = self._replies(name, values or {}, seconds)
        absent = [site for site in self.sites if site not in replies]
        if absent:
            listed = ", ".join(map(str, absent))
            subject = f"site {listed}" if len(absent) == 1 else f"sites {listed}"
            raise SiteFault(f"{subject} did not answer {name} within {seconds:g} s")
        return {site: self._checked(site, name, replies[site], check) for site in self.sites}

    def ask_present(
        self,
        name: str,
        values: Values | None = None,
        *,
        check: Callable[[int, Values], None] | None = None,
        deadline: float | None = None,
    ) -> tuple[dict[int, Values], dict[int, str]]:
        """The checked answers that arrived, and why others are missing: for sums in which an absent site is zero."""
        seconds = self._deadline if deadline is None else deadline
        replies = self._replies(name, values or {}, seconds)
        answers: dict[int, Values] = {}
        faults: dict[int, str] = {}
        for site in self.sites:
            try:
                if site not in replies:
                    raise SiteFault(f"site {site} did not answer {name} within {seconds:g} s")
                answers[site] = self._checked(site, name, replies[site], check)
            except SiteFault as fault:
                faults[site] = str(fault)
        return answers, faults

    def _checked(self, site: int, name: str, reply: Message, check: Callable[[int, Values], None] | None) -> Values:
        if reply.status is not Status.DONE:
            status = reply.status or Status.FAILED
            raise SiteFault(f"site {site} {SAYS[status].format(operation=name)}")
        return self._values(site, name, reply, check)

    def _replies(self, name: str, values: Values, deadline: float) -> dict[int, Message]:
        operation = operation_named(name)
        body = pack(operation.question, values, self.sizes)
        self.round += 1
        self.watch(name)
        open_questions = {
            site: Message(self._study, self.round, site, secrets.token_bytes(16), name, body) for site in self.sites
        }
        answers = self._exchange.ask(
            {site: question.pack() for site, question in open_questions.items()},
            deadline=deadline,
            most=operation.answer_bytes(self.sizes),
            accept=lambda site, data: answers_question(open_questions.get(site), data),
        )
        return {site: read_message(answers[site]) for site in self.sites if site in answers}

    def _values(self, site: int, name: str, reply: Message, check: Callable[[int, Values], None] | None) -> Values:
        try:
            values = unpack(operation_named(name).answer, reply.body, self.sizes)
            if check is not None:
                check(site, values)
        except Malformed as fault:
            raise SiteFault(f"site {site} sent {fault} as {name}") from None
        return values


def answers_question(question: Message | None, data: bytes) -> bool:
    """Whether bytes are an answer to this question: its ticket, round, study, site and operation."""
    try:
        answer = read_message(data)
    except Malformed:
        return False
    return (
        question is not None
        and answer.status is not None
        and answer.names_same_question == question.names_same_question
        and secrets.compare_digest(answer.ticket, question.ticket)
    )


def add_in_order(answers: Mapping[int, Values], name: str) -> Any:
    """The sum of one field over the sites, in the order of the roster."""
    fields = [answer[name] for answer in answers.values()]
    total = fields[0]
    for each in fields[1:]:
        total = total + each
    return total
