"""Where results go: JSON to stdout or a file, text to the terminal."""

from __future__ import annotations

import json as json_module
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from dosimeter.results.result import Result
    from dosimeter.workflows.booking import BookingOutcome

_BLANKS = re.compile(r"[ \t]+(?=\n)")


def console(quiet: bool = False, color: bool = True, json: str | None = None) -> Console:
    """Where text for people goes: stdout, or stderr when stdout carries JSON. Rich itself obeys NO_COLOR."""
    from rich.console import Console

    stream: Any = sys.stderr if json == "-" else sys.stdout
    file: Any = _ProgressAware(stream) if stream.isatty() else _Trimmed(stream)
    return Console(file=file, quiet=quiet, highlight=False, markup=False, no_color=None if color else True)


class _ProgressAware:
    """A terminal whose progress line is wiped before anything else is written."""

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
    """A stream without blanks at the ends of lines: rich pads tables to the console's width."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Whole lines at a time, as rich writes them."""
        self._stream.write(_BLANKS.sub("", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def show(
    result: Result,
    *,
    quiet: bool = False,
    color: bool = True,
    json: str | None = None,
    inputs: Iterable[str | os.PathLike[str]] = (),
    written: Sequence[Path] = (),
    outcome: BookingOutcome | None = None,
    heading: str = "",
    footer: Sequence[str] = (),
) -> None:
    """Write a verb's result as JSON if asked, then print it with what was written and booked."""
    if json is not None:
        write_json(result, json, inputs=inputs)
    if quiet:
        return
    from dosimeter.core.text import safe_text
    from dosimeter.reports.terminal import Lines, to_terminal

    out = console(quiet, color, json)
    if heading:
        out.print(f"{heading}\n")
    to_terminal(result, out)
    lines = Lines()
    for k, line in enumerate(() if outcome is None else outcome.ways_out):
        lines.add("" if k else "Refused", line.removeprefix("refused: "), "red")
    status = "" if outcome is None or not outcome.text else f" ({outcome.text})"
    if status and not written and outcome is not None and outcome.booked:
        lines.add("Ledger", outcome.text)
    for k, path in enumerate(written):
        lines.add("" if k else "Written", f"{safe_text(path, 120)}{'' if k else status}")
    for remark in () if outcome is None else outcome.remarks:
        if remark not in getattr(result, "remarks", ()):
            lines.add("", remark, "dim")
    lines.print(out)
    for line in footer:
        out.print(line, soft_wrap=True)


def step_printer(quiet: bool = False) -> Callable[[str], None]:
    """Prints one line with its time for each step of a long command, on stderr."""
    from datetime import datetime

    from dosimeter.cli.progress import wipe
    from dosimeter.core.text import safe_text

    def say(text: str) -> None:
        if not quiet:
            wipe()
            now = datetime.now().strftime("%H:%M:%S")
            print(f"{now} {safe_text(text, width=400)}", file=sys.stderr, flush=True)

    return say


def warn(text: str, quiet: bool = False) -> None:
    """A warning before the work begins, on stderr."""
    from dosimeter.cli.progress import wipe
    from dosimeter.core.text import safe_text

    if not quiet:
        wipe()
        print(f"dosimeter: warning: {safe_text(text, width=2000)}", file=sys.stderr, flush=True)


def write_json(result: Any, place: str, inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
    """A result, or plain values, as JSON: to stdout if `place` is "-", else to a file written whole or not at all."""
    from dosimeter.results.result import Result
    from dosimeter.results.to_json import to_json

    if isinstance(result, Result):
        text = result.to_json()
    else:
        text = json_module.dumps(to_json(result), indent=2, ensure_ascii=True, allow_nan=False) + "\n"
    if place == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    from dosimeter.files.atomic import write_text

    write_text(place, text, inputs=inputs)
