"""A question to one site and the answer to it, as bytes.

A ticket is 16 random bytes that only this question has. An answer counts if it comes from the site that was asked and
carries the ticket, the round and the operation of the question that is open there. So an old answer, a repeated one,
and one with another site's ticket change nothing.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from dosimeter.engines.protocol.fields import Malformed

MAGIC = b"dosm"
VERSION = 1
_HEAD = struct.Struct("<4sBB32sQH16sBI")
"""Magic, version, kind, study, round, site, ticket, length of the operation's name, length of the body."""
LONGEST_NAME = 40
OVERHEAD = _HEAD.size + LONGEST_NAME
"""Bytes of a message besides its body, at most."""
MOST_ROUNDS = 1 << 62
QUESTION = 0


class Status(IntEnum):
    """What an answer is. All but DONE have no body: the reason stays in the site's own terminal."""

    DONE = 1
    NO_MATCH = 2
    """The site's table does not match the schema."""
    FAILED = 3
    """The site could not compute it."""
    REFUSED = 4
    """The site does not answer this: another study, an older round, too many questions."""


@dataclass(frozen=True)
class Message:
    """A question, or an answer with its status."""

    study: bytes
    """SHA-256 of the schema: both sides talk about the same one."""
    round: int
    """Grows with every question of a study, also over restarts of the coordinator."""
    site: int
    """The site that is asked, from 1."""
    ticket: bytes
    operation: str
    body: bytes = b""
    status: Status | None = None
    """None for a question."""

    @property
    def names_same_question(self) -> tuple[bytes, int, int, bytes, str]:
        """What an answer has in common with its question."""
        return self.study, self.round, self.site, self.ticket, self.operation

    def pack(self) -> bytes:
        """The bytes."""
        name = self.operation.encode("ascii")
        kind = QUESTION if self.status is None else int(self.status)
        head = _HEAD.pack(
            MAGIC, VERSION, kind, self.study, self.round, self.site, self.ticket, len(name), len(self.body)
        )
        return head + name + self.body

    def answer(self, status: Status, body: bytes = b"") -> Message:
        """The answer to this question."""
        return Message(self.study, self.round, self.site, self.ticket, self.operation, body, status)


def read_message(data: bytes) -> Message:
    """The message; every length is checked first.

    >>> message = Message(bytes(32), 1, 2, bytes(16), "newton", b"...")
    >>> read_message(message.pack()) == message
    True
    """
    if len(data) < _HEAD.size:
        raise Malformed("too short for a message")
    magic, version, kind, study, number, site, ticket, name_size, body_size = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise Malformed("not a message of this protocol and version")
    if name_size > LONGEST_NAME or len(data) != _HEAD.size + name_size + body_size:
        raise Malformed("a message of another length than it says")
    if number > MOST_ROUNDS or kind not in (QUESTION, *Status):
        raise Malformed("a message of an unknown kind")
    name = data[_HEAD.size : _HEAD.size + name_size]
    if not name.isascii():
        raise Malformed("the name of an operation is not ASCII")
    body = bytes(data[_HEAD.size + name_size :])
    return Message(study, number, site, ticket, name.decode(), body, None if kind == QUESTION else Status(kind))
