"""How far a long computation is: said to whoever listens, shown by nobody here.

A verb listens (`listening`); what takes long names its stage and, where it is known, how much of it is done. Without a
listener it costs a look at a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Listener = Callable[[str | None, float | None], None]
"""(stage, share done): the stage None for the one that was named last, the share None where it is not known."""

_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within it, every `stage` and every counted loop is told to the listener.

    >>> heard = []
    >>> with listening(lambda stage, done: heard.append((stage, done))):
    ...     stage("fitting")
    ...     list(counted("ab"))
    ['a', 'b']
    >>> heard
    [('fitting', None), (None, 0.0), (None, 0.5), (None, 1.0)]
    """
    before = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(before)


def stage(name: str, done: float | None = None) -> None:
    """What is being done now, and the share of it that is done."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(name, done)


def part(done: float | None) -> None:
    """The share of the stage that is done."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(None, done)


def counted(items: Iterable[T], total: int | None = None) -> Iterator[T]:
    """The items; the share behind is told before each and at the end. total: how many, where they have no length."""
    listener = _LISTENER.get()
    if listener is None:
        yield from items
        return
    many = len(items) if total is None and isinstance(items, Sized) else total
    k = -1
    for k, item in enumerate(items):
        listener(None, None if not many else min(1.0, k / many))
        yield item
    listener(None, None if not many else min(1.0, (k + 1) / many))
