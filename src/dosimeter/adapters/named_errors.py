"""Refusals about numbered columns, reworded with the names of the columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text

_NUMBERED = re.compile(r"\bcolumns? (\d+(?:, \d+)*)")


@contextmanager
def name_columns_in_refusals(names: Sequence[str]) -> Iterator[None]:
    """Refusals raised inside name the columns of the design, `names`, instead of their numbers."""
    try:
        yield
    except Refusal as refusal:
        message = name_columns(str(refusal), names)
        if message == str(refusal):
            raise
        raise type(refusal)(message) from None


def name_columns(message: str, names: Sequence[str]) -> str:
    """The message with names instead of the positions after "columns"; the position after the last is the intercept.

    >>> name_columns("linearly dependent (columns 0, 2; the intercept counts as the last): drop one", ["kg", "lb"])
    'linearly dependent (columns kg, the intercept): drop one'
    """
    known = [*map(safe_text, names), "the intercept"]

    def name_match(match: re.Match[str]) -> str:
        positions = [int(k) for k in match[1].split(", ")]
        if max(positions) >= len(known):
            return match[0]
        return match[0][: match.start(1) - match.start()] + ", ".join(known[k] for k in positions)

    named_message = _NUMBERED.sub(name_match, message)
    return message if named_message == message else named_message.replace("; the intercept counts as the last", "")
