"""The engine of one process that reads a table a block at a time and can go on after a stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from dosimeter.core.engine import NoBlocks, Terms, add_terms, blocks_of
from dosimeter.core.progress import advance, note
from dosimeter.engines.checkpoint import Checkpoint, PassState
from dosimeter.engines.fingerprint import fingerprint
from dosimeter.engines.registry import EngineOptions, engine

T = TypeVar("T")
EVERY = 2.0
"""Seconds of work that a stop may lose, besides the part that was being read."""


class BlocksEngine:
    """One pass after another over parts; a checkpoint keeps the state of each.

    >>> import numpy as np
    >>> from dosimeter.core.engine import split
    >>> BlocksEngine().sum_over(split((np.arange(4.0),), rows=3), lambda b: (float(b[0].sum()), len(b[0])))
    (6.0, 4)
    """

    def __init__(self, checkpoint: Checkpoint | None = None) -> None:
        self._checkpoint = checkpoint
        self.passes = 0
        """Passes so far."""

    def sum_over(self, blocks: Iterable[Any], f: Callable[[Any], Terms]) -> Terms:
        """Entrywise sum of f(block)."""
        key = f"sum-{fingerprint(f)}" if self._checkpoint is not None else ""
        total: Terms | None = self._run(blocks, key, lambda sum_so_far, block: add_terms(sum_so_far, f(block)))
        if total is None:
            raise NoBlocks
        return total

    def map_over(self, blocks: Iterable[Any], f: Callable[[Any], T]) -> list[T]:
        """f(block) for each block, in order."""

        def append(so_far: list[T] | None, block: Any) -> list[T]:
            results = [] if so_far is None else so_far
            results.append(f(block))
            return results

        return self._run(blocks, f"map-{fingerprint(f)}" if self._checkpoint is not None else "", append) or []

    def _run(self, items: Iterable[Any], key: str, step: Callable[[Any, Any], Any]) -> Any:
        self.passes += 1
        kept = PassState(0, False, None) if self._checkpoint is None else self._checkpoint.load(key)
        if kept.complete:
            return kept.value
        parts = list(items)
        value, watch = kept.value, _Watch(parts, kept.finished)
        saved = time.monotonic()
        for k in range(kept.finished, len(parts)):
            for block in blocks_of(parts[k : k + 1]):
                value = step(value, block)
                watch.count(block)
            watch.finish(k)
            if self._checkpoint is not None and time.monotonic() - saved > EVERY:
                self._checkpoint.save(key, PassState(k + 1, False, value))
                saved = time.monotonic()
        if self._checkpoint is not None:
            self._checkpoint.save(key, PassState(len(parts), True, value))
        return value


class _Watch:
    """Reports the share of the rows that is finished, and the rows per second."""

    def __init__(self, parts: list[Any], finished: int) -> None:
        self._sizes = [int(getattr(part, "rows", 1)) for part in parts]
        self._total = max(1, sum(self._sizes))
        self._before = self._base = sum(self._sizes[:finished])
        self._within = 0
        self._since = time.monotonic()
        advance(self._base / self._total)

    def count(self, block: Any) -> None:
        self._within += rows_in(block)
        done = min(self._total, self._before + self._within)
        spent = time.monotonic() - self._since
        advance(done / self._total)
        if spent > 1.0:
            note(f"{readable((done - self._base) / spent)} rows/s")

    def finish(self, k: int) -> None:
        self._before += self._sizes[k]
        self._within = 0
        advance(self._before / self._total)


def rows_in(block: Any) -> int:
    """Rows of a block: of a tuple of arrays, or of an object that says it."""
    if isinstance(block, tuple):
        return len(block[0])
    return int(getattr(block, "n", 1))


def readable(number: float) -> str:
    """
    >>> readable(950.0), readable(12_300.0), readable(4_560_000.0)
    ('950', '12 thousand', '4.6 million')
    """
    if number >= 1e6:
        return f"{number / 1e6:.1f} million"
    return f"{number / 1e3:.0f} thousand" if number >= 1e4 else f"{number:.0f}"


@engine("blocks")
def blocks_engine(options: EngineOptions) -> BlocksEngine:
    """One process, one block at a time."""
    return BlocksEngine(None if options.checkpoint is None else Checkpoint(options.checkpoint, options.task))
