"""What a site answers: the operations of its kind of study, computed with its rows, and nothing else.

`answer` takes the bytes of a question and returns the bytes of an answer. It never raises: whatever goes wrong becomes
a status without a text, and the reason is said at the site, without a cell of the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dosimeter.core.errors import Refusal, StorageFault
from dosimeter.core.text import safe_text
from dosimeter.engines.consortium_operations import FINISH, MATCH
from dosimeter.engines.protocol.assembly import Values
from dosimeter.engines.protocol.fields import Malformed, pack, unpack
from dosimeter.engines.protocol.message import Message, Status, read_message
from dosimeter.engines.protocol.operations import operation_named
from dosimeter.files.atomic import write_bytes
from dosimeter.files.consortium_config import LARGEST_SHARE, MOST_QUESTIONS
from dosimeter.files.consortium_journal import ROUNDS_OF_A_RUN
from dosimeter.ledger import Ledger
from dosimeter.models.site_booking import SiteBooking
from dosimeter.models.site_exposure import people_digests, refuse_exposed
from dosimeter.models.site_memory import Declined, SiteMemory
from dosimeter.models.site_model import Handler, SiteModel
from dosimeter.models.site_moments import NoisySiteMoments, SiteMoments
from dosimeter.models.site_table import FEWEST_PEOPLE, SiteTable
from dosimeter.models.site_training import SiteTraining
from dosimeter.tables.consortium_schema import (
    COMPONENTS,
    MODEL,
    NOISY_COMPONENTS,
    NOISY_MODEL,
    TRAINING,
    ConsortiumSchema,
)
from dosimeter.tables.person_ids import id_remarks_of_people

STUDIES: dict[str, Callable[[ConsortiumSchema, SiteBooking], Any]] = {
    MODEL: SiteModel,
    NOISY_MODEL: NoisySiteMoments,
    COMPONENTS: SiteMoments,
    NOISY_COMPONENTS: NoisySiteMoments,
    TRAINING: SiteTraining,
}
"""Kind of study -> what answers it. A site answers the operations of its kind, and no other of the list."""


@dataclass
class SiteDesk:
    """One site of one study: its table, its ledger, and a folder for what must survive a restart."""

    schema: ConsortiumSchema
    number: int
    read: Callable[[], SiteTable]
    """Reads and checks the table."""
    ledger: Callable[[], Ledger]
    """Opens the ledger."""
    folder: Path
    say: Callable[[str], None]
    """Tells the people at the site, in one line without a cell of the table."""
    most_questions: int = MOST_QUESTIONS
    """Of one study: a fit takes ten to thirty. Each is an exact sum at weights that the coordinator chooses."""
    largest_share: float = LARGEST_SHARE
    """Of one patient in an exact sum."""
    finished: bool | None = None
    """Whether the study ended with a release; None while it runs."""
    _table: SiteTable | None = field(default=None, repr=False)
    _seen_table: tuple[int, str] = field(default=(-1, ""), repr=False)

    def answer(self, data: bytes) -> bytes:
        """The answer to a question, whatever it is; empty if the bytes are no question to this site."""
        try:
            question = read_message(data)
        except Malformed:
            self.say("a message that is none of this protocol was dropped")
            return b""
        status, body = self._status(question)
        return question.answer(status, body).pack()

    def _status(self, question: Message) -> tuple[Status, bytes]:
        name = safe_text(question.operation)
        try:
            self._check(question)
            operation = operation_named(question.operation)
            values = unpack(operation.question, question.body, self.schema.sizes)
        except (Declined, Malformed) as fault:
            self.say(f"{name}: not answered: {fault}")
            return Status.REFUSED, b""
        except Exception as fault:
            self.say(f"{name}: failed{_reason(fault)}")
            return Status.FAILED, b""
        table = self._table_or_reason()
        if table is None:
            return Status.NO_MATCH, b""
        try:
            if question.operation not in (MATCH.name, FINISH.name):
                self._refuse_changed_table(question.round, table)
            return Status.DONE, pack(operation.answer, self._run(question.operation, values, table), self.schema.sizes)
        except Declined as fault:
            self.say(f"{name}: not answered: {fault}")
            return Status.REFUSED, b""
        except Exception as fault:
            self.say(f"{name}: failed{_reason(fault)}")
            return Status.FAILED, b""

    def look(self) -> None:
        """Read the table before the first question, and say what is wrong or how many patients there are."""
        table = self._table_or_reason()
        if table is None:
            return
        text = f"the table matches the schema: {table.people} patients in {table.table.n} rows"
        if table.table.dropped:
            text += f"; {table.table.dropped} rows with a missing value are left out"
        if table.clipped:
            text += f"; {table.clipped} cells beyond the agreed bounds count as the bound"
        self.say(text)
        for remark in id_remarks_of_people(table.ids or ()):
            self.say(remark)

    def _table_or_reason(self) -> SiteTable | None:
        """The table; None if it does not match, after the reason was said here."""
        try:
            return self._checked_table()
        except Exception as fault:
            reason = str(fault) if isinstance(fault, Refusal) else type(fault).__name__
            self.say(f"this site does not match the schema: {safe_text(reason, 300)}")
            return None

    def _check(self, question: Message) -> None:
        if question.status is not None or question.site != self.number:
            raise Declined("a message to another site")
        if question.study != self.schema.digest:
            raise Declined("the coordinator has another schema file than this site")
        self._memory.admit(question, counts=question.operation != FINISH.name)

    @property
    def _memory(self) -> SiteMemory:
        return SiteMemory(self.folder, self.schema.digest, self.most_questions)

    def _checked_table(self) -> SiteTable:
        if self._table is None:
            table = self.read()
            summed = self.study.summed(table)
            if summed is not None:
                refuse_exposed(summed, table.people_of_rows, self.largest_share)
            self._table = table
        return self._table

    def _refuse_changed_table(self, number: int, table: SiteTable) -> None:
        """Sums of one run come from one table: a mixture would be the sums of none.

        Between runs a table may change, but from none whose sums have left in a few patients: the difference of the
        sums would be theirs.
        """
        path, run = self.folder / "table.json", number // ROUNDS_OF_A_RUN
        if (run, table.digest) == self._seen_table:
            return
        summed = self.study.summed(table)
        people = [] if summed is None else people_digests(summed, table.ids)
        first = {"run": -1, "sha256": "", "people": []}
        before: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else first
        earlier: list[list[str]] = before.get("earlier", [])
        if before["sha256"] not in ("", table.digest):
            if before["run"] == run:
                raise Declined("the table has changed within a run: start the coordinator again")
            earlier = [*(each for each in earlier if each != before["people"]), before["people"]]
        if summed is not None and any(_differ_in_few(then, people) for then in earlier):
            few = f"the table differs in fewer than {FEWEST_PEOPLE} patients from one whose sums have left"
            raise Declined(f"{few}: restore it")
        facts = {"run": run, "sha256": table.digest, "people": people, "earlier": earlier}
        write_bytes(path, json.dumps(facts).encode())
        self._seen_table = (run, table.digest)

    @cached_property
    def study(self) -> Any:
        """What answers this kind of study."""
        books = SiteBooking(self.schema, self.number, self.ledger, self.folder, self.say, self._memory)
        return STUDIES[self.schema.kind](self.schema, books)

    @cached_property
    def _handlers(self) -> dict[str, Handler]:
        return {MATCH.name: lambda values, table: {}, FINISH.name: self._finish, **self.study.handlers}

    def _run(self, name: str, values: Values, table: SiteTable) -> Values:
        if name not in self._handlers:
            raise Declined("an operation of another kind of study")
        return self._handlers[name](values, table)

    def _finish(self, values: Values, table: SiteTable) -> Values:
        self.finished = bool(values["released"])
        self.say("the study has ended: " + ("released" if self.finished else "nothing was released"))
        return {}


def _reason(fault: Exception) -> str:
    """What to say of a failure: the text of a disk or ledger at fault, else its kind, since a text may quote a cell."""
    return f": {safe_text(fault, 300)}" if isinstance(fault, StorageFault) else f" ({type(fault).__name__})"


def _differ_in_few(then: list[str], now: list[str]) -> bool:
    """Whether two tables differ, and in few patients; each is the digests of its patients."""
    gone, new = set(then) - set(now), set(now) - set(then)
    return 0 < max(len(gone), len(new)) < FEWEST_PEOPLE
