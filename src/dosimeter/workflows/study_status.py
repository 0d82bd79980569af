"""What a page of a running study shows besides its steps: which sites were heard of, kept up to date while it waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.files.consortium_journal import Journal

EVERY = 2.0
"""Seconds between two writings."""


@contextmanager
def shown_while_it_runs(journal: Journal, facts: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Show these facts again and again: a question may be open for minutes, and its sites come and go."""
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(EVERY):
            with suppress(Refusal, OSError):  # a page is not worth a study
                journal.show(**facts())

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def seconds_since(exchange: Any) -> dict[str, float]:
    """Number of a site -> seconds since it was heard of."""
    now = time.monotonic()
    return {str(site): round(now - when, 1) for site, when in dict(getattr(exchange, "seen", {})).items()}
