"""Where results go: JSON to stdout or a file, words to the terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dosimeter.results.to_json import plain as plain

if TYPE_CHECKING:
    from rich.console import Console

_BLANKS = re.compile(r"[ \t]+(?=\n)")


def console(quiet: bool = False, color: bool = True, json: str | None = None) -> Console:
    """Where words for people go: stdout, or stderr when stdout carries JSON. NO_COLOR is obeyed by rich itself."""
    from rich.console import Console

    stream: Any = sys.stderr if json == "-" else sys.stdout
    file: Any = _Alone(stream) if stream.isatty() else _Trimmed(stream)
    return Console(file=file, quiet=quiet, highlight=False, markup=False, no_color=None if color else True)


class _Alone:
    """A terminal on which no line of progress stands beside what is written."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Wipe the line, then write."""
        from dosimeter.cli.progress import wipe

        wipe()
        self._stream.write(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Trimmed:
    """A stream whose lines end where their words end: rich fills tables with blanks up to the console's width."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Whole lines at a time, as rich writes them."""
        self._stream.write(_BLANKS.sub("", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def write_json(facts: Any, where: str, inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Facts as JSON, to stdout where `where` is "-", else to a file written whole or not at all."""
    text = json.dumps(plain(facts), indent=2, ensure_ascii=True, allow_nan=False) + "\n"
    if where == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    from dosimeter.files.atomic import write_text

    write_text(where, text, inputs=inputs)
