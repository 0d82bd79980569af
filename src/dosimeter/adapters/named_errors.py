"""Refusals about numbered columns, told in the columns' names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text

_NUMBERED = re.compile(r"\bcolumns? (\d+(?:, \d+)*)")


@contextmanager
def columns_named(names: Sequence[str]) -> Iterator[None]:
    """Refusals raised inside speak of `names`, the columns of the design."""
    try:
        yield
    except Refusal as why:
        told = with_names(str(why), names)
        if told == str(why):
            raise
        raise type(why)(told) from None


def with_names(message: str, names: Sequence[str]) -> str:
    """Positions after the word "columns" as names; the one after the last is the intercept.

    >>> with_names("linearly dependent (columns 0, 2; the intercept counts as the last): drop one", ["kg", "lb"])
    'linearly dependent (columns kg, the intercept): drop one'
    """
    known = [*map(safe_text, names), "the intercept"]

    def named(found: re.Match[str]) -> str:
        positions = [int(k) for k in found[1].split(", ")]
        if max(positions) >= len(known):
            return found[0]
        return found[0][: found.start(1) - found.start()] + ", ".join(known[k] for k in positions)

    told = _NUMBERED.sub(named, message)
    return message if told == message else told.replace("; the intercept counts as the last", "")
