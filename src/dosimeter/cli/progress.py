"""One line on a terminal that says what a verb is doing, how far it is, and the time left if it is known.

On stderr, only if that is a terminal, after two seconds; never with --quiet or --json -. The line is wiped before
anything else is written and when the verb ends.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

AFTER = 2.0
"""Seconds before the line is shown."""
EVERY = 0.25
TRUSTED = 0.02
"""Share of a stage from which on its time left is guessed."""


class Line:
    """The line, drawn by its own thread, so that it also shows during one long matrix product."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._stage = ""
        self._done: float | None = None
        self._detail = ""
        self._since = self._first = time.monotonic()
        self._shown = False
        self._thread = threading.Thread(target=self._draw_on, daemon=True)

    def __call__(self, stage: str | None, share: float | None) -> None:
        """Called by `core.progress` with the stage and the share that is finished."""
        with self._lock:
            if stage is not None and stage != self._stage:
                self._stage, self._since = stage, time.monotonic()
                self._done, self._detail = None, ""
            if share is not None and self._done is not None and share < self._done:
                self._since = time.monotonic()  # another pass over the same rows
            self._done = share

    def note(self, detail: str) -> None:
        """Called by `core.progress` with a detail of the stage, such as a speed."""
        with self._lock:
            self._detail = detail

    def start(self) -> None:
        """Begin to draw."""
        self._thread.start()

    def end(self) -> None:
        """Wipe the line and draw no more."""
        self._ended.set()
        self._thread.join()
        self.wipe()

    def wipe(self) -> None:
        """Take the line away, so that something else can be written."""
        with self._lock:
            if self._shown:
                self._write("\r\x1b[2K")
                self._shown = False

    def _draw_on(self) -> None:
        if self._ended.wait(AFTER):
            return
        while True:
            with self._lock:
                if self._stage:
                    width = shutil.get_terminal_size((80, 24)).columns
                    self._write("\r\x1b[2K" + self._text()[: max(10, width - 1)])
                    self._shown = True
            if self._ended.wait(EVERY):
                return

    def _text(self) -> str:
        now = time.monotonic()
        share, spent = self._done, now - self._since
        if share is None:
            return f"{self._stage} ({_seconds(now - self._first)})"
        left = f", {_seconds(spent * (1 - share) / share)} left" if TRUSTED <= share < 1 and spent > 1 else ""
        detail = f", {self._detail}" if self._detail else ""
        return f"{self._stage}: {100 * share:.0f} %{detail}{left} ({_seconds(now - self._first)})"

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # a terminal that went away
            self._ended.set()


def _seconds(amount: float) -> str:
    """
    >>> _seconds(7.4), _seconds(125.0), _seconds(7300.0)
    ('7 s', '2 min 05 s', '2 h 01 min')
    """
    whole = round(amount)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


_LINE: Line | None = None


def wipe() -> None:
    """Take the line away, if there is one: called before text is written."""
    if _LINE is not None:
        _LINE.wipe()


@contextmanager
def shown(options: Mapping[str, object]) -> Iterator[None]:
    """Show the line while one verb runs. options: the verb's; --quiet and --json - switch it off."""
    global _LINE
    if options.get("quiet") or options.get("json") == "-" or not sys.stderr.isatty() or _LINE is not None:
        yield
        return
    from dosimeter.core.progress import listening

    _LINE = line = Line(sys.stderr)
    line.start()
    try:
        with listening(line):
            yield
    finally:
        _LINE = None
        line.end()
