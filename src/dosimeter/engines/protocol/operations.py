"""The fixed list of what a coordinator may ask a site. A name that is not in it is refused at the site.

An operation says which parameters a question carries and what an answer holds. What a site computes for it is written
where the rows are (`models/site_desk.py`); nothing of it travels.
"""

from __future__ import annotations

from dataclasses import dataclass

from dosimeter.engines.protocol.fields import Layout, Malformed, Sizes, most_bytes
from dosimeter.engines.protocol.message import OVERHEAD


@dataclass(frozen=True)
class Operation:
    """One entry of the list."""

    name: str
    question: Layout
    answer: Layout
    says: str
    """What the answer tells the coordinator, in a sentence for the page on who sees what."""

    def question_bytes(self, sizes: Sizes) -> int:
        """The largest length of a question."""
        return OVERHEAD + most_bytes(self.question, sizes)

    def answer_bytes(self, sizes: Sizes) -> int:
        """The largest length of an answer."""
        return OVERHEAD + most_bytes(self.answer, sizes)


OPERATIONS: dict[str, Operation] = {}


def operation(name: str, question: Layout, answer: Layout, *, says: str) -> Operation:
    """Enter an operation into the list."""
    if name in OPERATIONS:
        raise ValueError(f"the operation {name} is listed twice")
    OPERATIONS[name] = Operation(name, question, answer, says)
    return OPERATIONS[name]


def operation_named(name: str) -> Operation:
    """The operation of this name; refused if it is not in the list."""
    if name not in OPERATIONS:
        raise Malformed("an operation that is not in the list")
    return OPERATIONS[name]


def largest_question(sizes: Sizes) -> int:
    """Bytes of the largest question that a site takes; of the operations whose dimensions have a size."""
    return max(each.question_bytes(sizes) for each in OPERATIONS.values() if _is_sized(each, sizes))


def _is_sized(listed: Operation, sizes: Sizes) -> bool:
    fields = (*listed.question.values(), *listed.answer.values())
    return all(name in sizes for field in fields for name in getattr(field, "shape", ()) if isinstance(name, str))
