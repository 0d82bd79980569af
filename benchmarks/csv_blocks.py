"""What a CSV file costs that is read in blocks: processor seconds against the same file read whole.

    python benchmarks/csv_blocks.py [--rows 2e5] [--repeat 3]

20 columns, 12 of them normal deviates written in full and 8 whole numbers; the second table has a label and a person
too. Parsing into the file of columns and one pass over it are compared with the reader of a file that is read whole.
Ratios are of one process, each the least of several runs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dosimeter.tables.block_reading import BlockReading, table_parts
from dosimeter.tables.csv import read_csv
from dosimeter.tables.csv_source import CsvFile, CsvSource

BLOCK_ROWS = 1 << 16
MOST = 1.5
"""Times the reader of a whole file."""


def generate(path: Path, rows: int, *, labels: bool) -> None:
    """Write a table."""
    rng = np.random.default_rng(0)
    with path.open("w") as out:
        out.write(",".join([*(f"x{j}" for j in range(20)), *(["city", "person"] if labels else [])]) + "\n")
        for i in range(rows):
            row = rng.normal(size=20)
            cells = [*map(repr, row[:12].tolist()), *(str(round(10 * u)) for u in row[12:].tolist())]
            out.write(",".join([*cells, *([("Ulm", "Graz", "Bonn")[i % 3], f"p{i // 2}"] if labels else [])]) + "\n")


def least_seconds(work: Callable[[], object], repeat: int) -> float:
    """Processor seconds of the quickest run."""
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def read_back(source: CsvSource, reading: BlockReading) -> int:
    """Rows of one pass over the columns."""
    return sum(
        table.n for part in table_parts(source.parts(source.names, BLOCK_ROWS), reading) for table in part.blocks()
    )


def compare(folder: Path, rows: int, repeat: int, *, labels: bool) -> float:
    """Print the ratios of one table; that of parsing it."""
    path = folder / "table.csv"
    generate(path, rows, labels=labels)
    reading = BlockReading(text=("person",) if labels else ())

    def convert() -> CsvSource:
        return CsvFile.of(path).convert(reading, (), folder, BLOCK_ROWS, keep=False)

    whole = least_seconds(lambda: read_csv(path, text=reading.text), repeat)
    once, source = least_seconds(convert, repeat), convert()
    back = least_seconds(lambda: read_back(source, reading), repeat)
    kind = "numbers, a label and a person" if labels else "numbers"
    print(f"{kind}: whole {whole:.2f} s, parsed into columns {once / whole:.2f} x, a pass {back / whole:.4f} x")
    return once / whole


def main() -> int:
    """Print a line for each table; 1 if parsing into columns takes too long."""
    parser = argparse.ArgumentParser(description="CSV files in blocks against CSV files in memory.")
    parser.add_argument("--rows", type=float, default=2e5)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        ratios = [compare(Path(name), int(options.rows), options.repeat, labels=labels) for labels in (False, True)]
    return int(max(ratios) > MOST)


if __name__ == "__main__":
    raise SystemExit(main())
