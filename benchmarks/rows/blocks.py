"""One Newton pass over a table in blocks against a plain loop over the same blocks of the same file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from blocks import COLUMNS, generate, one_pass
from harness.registry import Ratio, Settings, row


@row("blocks", "A Newton pass over a file in blocks against a plain loop over it")
def against_passes(settings: Settings) -> Iterator[Ratio]:
    """Of `benchmarks/blocks.py`, which also shows peak memory and how time grows."""
    rows = 500_000 if settings.quick else 5_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        generate(path, rows)
        seconds = one_pass(path, min(settings.runs, 3))
    limit = None if settings.quick else 1.3
    name = f"one pass, {rows:,} x {COLUMNS}"
    yield Ratio(name, seconds["ours_cpu"], seconds["bare_cpu"], "pyarrow's blocks, gradient and Hessian", limit)
    if "polars_cpu" in seconds:
        against = "polars' batches, gradient and Hessian"
        yield Ratio(f"{name}, polars", seconds["ours_cpu"], seconds["polars_cpu"], against, limit)
