"""Start-up of every verb against an interpreter that imports typer alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from harness.registry import Ratio, Settings, row
from harness.timing import processor_seconds
from startup import commands, seconds

PEER = [sys.executable, "-c", "import typer, typer.main"]
FEW = ("dosimeter", "dosimeter --version", "dosimeter measure --help", "dosimeter fix --help")


@row("startup", "Start-up of a command against python with typer alone")
def against_python(settings: Settings) -> Iterator[Ratio]:
    """Seconds of the processor of whole processes."""
    for name, arguments in commands().items():
        if settings.quick and name not in FEW:
            continue
        pairs = [(seconds(arguments), processor_seconds(PEER)) for _ in range(settings.runs)]
        ours, peer = (min(side) for side in zip(*pairs, strict=True))
        yield Ratio(name, ours, peer, "python that imports typer")
