"""The verbs that people run, as whole processes, against reading and fitting by pandas and scikit-learn."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.registry import Ratio, Settings, row
from harness.timing import processor_seconds
from verb_tables import write_adult, write_numbers

PEER = """
import sys
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
frame = pd.read_csv(sys.argv[1])
y = frame.pop(sys.argv[2])
columns = make_column_transformer(
    (StandardScaler(), make_column_selector(dtype_include="number")),
    (OneHotEncoder(drop="first", sparse_output=False), make_column_selector(dtype_exclude="number")),
)
make_pipeline(columns, LogisticRegression(max_iter=1000, tol=float(sys.argv[3]))).fit(frame, y)
"""
SAYS = "pandas.read_csv and a LogisticRegression"
DEFAULT, TIGHT = 1e-4, 1e-9
"""Gradients at which scikit-learn stops: its default, and a tight one."""


def dosimeter_seconds(*arguments: str) -> float:
    """Seconds of the processor of a command; 1 is its answer if a limit is exceeded."""
    return processor_seconds([sys.executable, "-m", "dosimeter", *arguments, "--quiet"], codes=(0, 1))


def peer_seconds(table: Path, target: str, tolerance: float = DEFAULT) -> float:
    """Of a process that reads the table and fits the same model."""
    return processor_seconds([sys.executable, "-c", PEER, str(table), target, str(tolerance)])


def pairs(settings: Settings, table: Path, target: str, *arguments: str) -> tuple[float, float]:
    """Least seconds of ours and of the peer, in turns."""
    runs = [(dosimeter_seconds(*arguments), peer_seconds(table, target)) for _ in range(max(1, min(settings.runs, 3)))]
    ours, peer = (min(side) for side in zip(*runs, strict=True))
    return ours, peer


@row("verbs", "measure and fix against pandas and scikit-learn", needs=("adult",))
def against_pandas(settings: Settings) -> Iterator[Ratio]:
    """Processes from start to end, imports included."""
    with tempfile.TemporaryDirectory() as place:
        table, out = Path(place) / "adult.csv", str(Path(place) / "model.skops")
        write_adult(settings.data, table)
        measure = ("measure", str(table), "--target", "income", "--scale", "0.05")
        fix = ("fix", str(table), "--target", "income", "--max-dose", "10", "--out", out)
        yield Ratio("measure, Adult", *pairs(settings, table, "income", *measure), SAYS)
        yield Ratio("fix, Adult", *pairs(settings, table, "income", *fix), SAYS)
        rows, columns = (50_000, 30) if settings.quick else (500_000, 30)
        table = Path(place) / "numbers.csv"
        write_numbers(rows, columns, table)
        measure = ("measure", str(table), "--target", "y", "--scale", "0.05")
        limit = None if settings.quick else 1.0
        ours, peer = pairs(settings, table, "y", *measure)
        equal = min(peer_seconds(table, "y", TIGHT) for _ in range(max(1, min(settings.runs, 3))))
        name = f"measure, {rows:,} x {columns}"
        yield Ratio(name, ours, peer, SAYS, limit)
        yield Ratio(f"{name}, tol {TIGHT:g}", ours, equal, f"{SAYS}, tol={TIGHT:g}", limit)
