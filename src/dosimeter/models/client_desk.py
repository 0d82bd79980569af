"""What a client of a training answers: its update, computed from its own rows, and nothing else.

`answer` never raises. Whatever goes wrong becomes a status without a text, and the reason is said at the client. A
client trains on one model for a round. If the same round comes with another model, its noise was drawn twice, or the
coordinator asks for more than was agreed: the client refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dosimeter.core.errors import Refusal, StorageFault
from dosimeter.core.face import speaking
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.engines.client_operations import ENDED, TRAIN
from dosimeter.engines.protocol.fields import Malformed, pack, unpack
from dosimeter.engines.protocol.message import Message, Status, read_message
from dosimeter.federated.client_update import client_update
from dosimeter.models.federated_training import Job
from dosimeter.models.site_memory import Declined, admit_round
from dosimeter.tables.classes import keep_listed_classes
from dosimeter.tables.client_rows import declared_encoding, encode_client_rows
from dosimeter.tables.declared_bounds import Declaration
from dosimeter.tables.read import read_table, table_names

ROUND = "round.json"
Rows = tuple[Any, Any]
"""(X, y) as the encoding has them."""


@dataclass
class ClientDesk:
    """One client of one training: its rows, and a folder for what must survive a restart."""

    study: bytes
    number: int
    """Its number on the roster, from 1."""
    job: Job
    """What was agreed; it has no rows."""
    read: Callable[[], Rows]
    """Reads the client's rows."""
    folder: Path
    say: Callable[[str], None]
    """Tells the people at the client, in one line without a cell of the table."""
    finished: bool | None = None
    """Whether the training ended with a release; None while it runs."""
    _rows: Rows | None = field(default=None, repr=False)

    @property
    def sizes(self) -> dict[str, int]:
        """The dimension that messages name."""
        return {"parameters": self.job.network.size}

    @property
    def most_question(self) -> int:
        """Bytes of the largest question."""
        return max(each.question_bytes(self.sizes) for each in (TRAIN, ENDED))

    def answer(self, data: bytes) -> bytes:
        """The answer to a question; empty if the bytes are no question to this client."""
        try:
            question = read_message(data)
        except Malformed:
            self.say("a message that is none of this protocol was dropped")
            return b""
        try:
            return question.answer(Status.DONE, self._body(question)).pack()
        except (Declined, Malformed) as fault:
            self.say(f"{safe_text(question.operation)}: not answered: {fault}")
            return question.answer(Status.REFUSED).pack()
        except StorageFault as fault:
            self.say(f"{safe_text(question.operation)}: failed: {safe_text(fault, 300)}")
            return question.answer(Status.FAILED).pack()
        except Exception as fault:  # its text may quote a cell
            self.say(f"{safe_text(question.operation)}: failed ({type(fault).__name__})")
            return question.answer(Status.FAILED).pack()

    def look(self) -> None:
        """Read the rows before the first question, and say what is wrong or how many there are."""
        try:
            self._rows = self._checked_rows()
            self.say(f"the table matches the schema: {len(self._rows[1])} rows")
        except Declined as fault:
            self.say(str(fault))
        except Exception as fault:  # its text may quote a cell
            self.say(f"this client's table cannot be read ({type(fault).__name__})")

    def _body(self, question: Message) -> bytes:
        if question.status is not None or question.site != self.number:
            raise Declined("a message to another client")
        if question.study != self.study:
            raise Declined("the coordinator has another schema file than this client")
        if question.operation == ENDED.name:
            self.finished = bool(unpack(ENDED.question, question.body, {})["released"])
            self.say("the training has ended: " + ("released" if self.finished else "nothing was released"))
            return b""
        if question.operation != TRAIN.name:
            raise Declined("an operation that is not in the list")
        model = unpack(TRAIN.question, question.body, self.sizes)["model"]
        self._check_round(question)
        if self._rows is None:
            self._rows = self._checked_rows()
        update = client_update(self.job.network, self.job.local, model, *self._rows, t=question.round)
        self.say(f"round {question.round}: an update was sent")
        return pack(TRAIN.answer, {"update": update}, self.sizes)

    def _checked_rows(self) -> Rows:
        try:
            return self.read()
        except Refusal as fault:
            raise Declined(f"this client's table does not match the schema: {safe_text(fault, 300)}") from None

    def _check_round(self, question: Message) -> None:
        """Refuse an older round, one beyond the agreed number, and the same round with another model."""
        if question.round >= self.job.terms.rounds:
            raise Declined(f"round {question.round} of {self.job.terms.rounds} agreed ones")
        admit_round(self.folder / ROUND, question.round, question.body)


def client_rows(
    path: Path,
    columns: Mapping[str, Declaration],
    target: str,
    *,
    missing: Any = "drop",
    delimiter: str = ",",
    decimal: str = ".",
) -> Rows:
    """(X, y) of a table whose rows all belong to one client; columns that were not agreed on are not read.

    A gap, and a class that is not declared, leave the row out. No cell is quoted in a refusal.
    """
    with speaking("config file"):
        source, names = Location(path.name, first=1), table_names(path, delimiter=delimiter)
        source.check_known(columns, names)
        texts = [name for name, column in columns.items() if isinstance(column, tuple)]
        table = read_table(
            path,
            text=texts,
            drop=[name for name in names if name not in columns],
            declared=[name for name in columns if name not in texts],
            missing=missing,
            delimiter=delimiter,
            decimal=decimal,
        )
        encoding = declared_encoding(columns, target)
        if encoding.classes:
            table = keep_listed_classes(
                table, target, encoding.classes, leave_out=missing == "drop", source=source, names=True
            )
        rows = encode_client_rows(table, encoding, None)
        return rows.X, rows.y
