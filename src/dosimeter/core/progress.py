"""Progress of a long computation, reported to a listener.

A command installs a listener with `listening`. Long computations name their stage and, if known, the share completed.
Without a listener this costs one variable lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Listener = Callable[[str | None, float | None], None]
"""(stage, share completed): the stage is None for the current one, the share is None if unknown."""

_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Inside this context, every stage and every counted loop is reported to the listener.

    >>> reports = []
    >>> with listening(lambda stage, share: reports.append((stage, share))):
    ...     stage("fitting")
    ...     list(track("ab"))
    ['a', 'b']
    >>> reports
    [('fitting', None), (None, 0.0), (None, 0.5), (None, 1.0)]
    """
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def stage(name: str, share: float | None = None) -> None:
    """Report that a stage begins, and the share of it that is completed."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(name, share)


def advance(share: float | None) -> None:
    """Report the completed share of the current stage."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(None, share)


def note(detail: str) -> None:
    """Report a detail of the current stage, such as a speed, to a listener that shows details."""
    show = getattr(_LISTENER.get(), "note", None)
    if show is not None:
        show(detail)


def track(items: Iterable[T], total: int | None = None) -> Iterator[T]:
    """Yield the items and report the completed share before each and at the end. total: their number, if unsized."""
    listener = _LISTENER.get()
    if listener is None:
        yield from items
        return
    count = len(items) if total is None and isinstance(items, Sized) else total
    k = -1
    for k, item in enumerate(items):
        listener(None, None if not count else min(1.0, k / count))
        yield item
    listener(None, None if not count else min(1.0, (k + 1) / count))
