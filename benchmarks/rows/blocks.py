"""Tables larger than memory against plain passes over the same file, if `benchmarks/blocks.py` has them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from harness.registry import Ratio, Settings, Skipped, row


@row("blocks", "A table in blocks against plain passes over the file")
def against_passes(settings: Settings) -> Iterator[Ratio | Skipped]:
    """`blocks.ratios(quick)` gives (name, our seconds, the peer's, what the peer does) for each comparison."""
    if importlib.util.find_spec("blocks") is None:
        yield Skipped("blocks", "there is no benchmarks/blocks.py")
        return
    module: Any = import_module("blocks")
    if not hasattr(module, "ratios"):
        yield Skipped("blocks", "benchmarks/blocks.py has no function `ratios(quick)`")
        return
    for name, ours, peer, against in module.ratios(settings.quick):
        yield Ratio(name, ours, peer, against)
