"""Which models and steps are measured, which are refused and why, and the worst error against refits.

    python benchmarks/coverage.py [--json FILE] [PART OF A NAME ...]

The oracle moves one cell of the source table on both sides, applies the frozen steps, fits the final estimator again to
many digits, and compares the length of the move with η at noise of scale 1. For a category the design moves along the
step between two of its levels, and the longest of all pairs is compared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import dosimeter as dm
from coverage_cases import Array, Case
from coverage_cases import cases as table_cases
from coverage_texts import text_models

ROWS = (0, 7, 23)


def cases() -> Iterator[Case]:
    """The whole list."""
    yield from table_cases()
    yield from text_models()


@dataclass(frozen=True)
class Outcome:
    """One line of the table."""

    name: str
    section: str
    measured: bool
    expected: bool
    error: float | None
    """Worst relative error against refits; None for a refusal."""
    standing: str = ""
    remark: str = ""


def outcome(case: Case) -> Outcome:
    """Measure a case and compare it with refits, or note its refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = case.fit(case.table, case.y)
        try:
            leak = dm.measure(model, case.table, case.y, noise=dm.Gaussian(1.0))
        except dm.Refusal as refusal:
            return Outcome(case.name, case.section, False, bool(case.refused), None, "", str(refusal))
        if case.refused:
            return Outcome(case.name, case.section, True, False, None, leak.standing.value, "should be refused")
        error = worst_error(case, model, leak)
    return Outcome(case.name, case.section, True, True, error, leak.standing.value, "; ".join(leak.notes))


def worst_error(case: Case, model: Any, leak: Any) -> float:
    """Largest relative difference between η and refits, over some rows, every column, and the label.

    A column whose cells move nothing, as one without a weight, is compared relative to the highest cell of the others.
    """
    worst = 0.0
    highest = max(float(np.max(np.asarray(leak.cells[column]))) for column in leak.columns if column in leak.cells)
    for row in ROWS:
        for column in case.table.columns:
            if column not in leak.columns:
                continue
            ours = float(np.asarray(leak.cells[column])[row])
            oracle = _cell(case, model, row, column) if case.cell_oracle is None else case.cell_oracle(model, row)
            if oracle is None:
                continue
            largest = float(np.max(np.asarray(leak.cells[column])))
            scale = max(oracle, 1e-3 * largest, 1e-9) if largest > 0 else highest
            worst = max(worst, abs(ours - oracle) / scale)
        if case.label_moves and abs(float(case.y[row])) > 0.01:  # a count of zero cannot move down
            ours, oracle = float(np.asarray(leak.labels)[row]), _label(case, model, row)
            worst = max(worst, abs(ours - oracle) / oracle)
    return worst


def _design(case: Case, model: Any, table: Any) -> Array:
    return np.asarray(table, dtype=float) if case.design is None else case.design(model, table)


def _slope(case: Case, Z: Array, move: Array, y: Array) -> float:
    """|dθ| along a small move of the design, by two step sizes and extrapolation."""
    size = np.abs(move).max()
    if size == 0:
        return 0.0
    slopes = []
    for h in (2e-3 / size, 1e-3 / size):
        slopes.append((case.refit(Z + h * move, y) - case.refit(Z - h * move, y)) / (2 * h))  # type: ignore[misc]
    return float(np.linalg.norm((4 * slopes[1] - slopes[0]) / 3))


def _cell(case: Case, model: Any, row: int, column: str) -> float | None:
    """The oracle of one cell; None for a cell that is missing."""
    table, Z = case.table, _design(case, model, case.table)
    cell = table[column].iloc[row]
    if cell != cell:
        return None
    levels = sorted(set(table[column].dropna()))
    if isinstance(cell, str) or len(levels) == 2:
        designs = [_design(case, model, _with(table, row, column, level)) for level in levels]
        return max(_slope(case, Z, b - a, case.y) for a, b in itertools.combinations(designs, 2))
    if column in case.options.get("by_levels", ()):
        designs = [_design(case, model, _with(table, row, column, level)) for level in levels]
        distinct = list({d.tobytes(): d for d in designs}.values())
        return max(_slope(case, Z, b - a, case.y) for a, b in itertools.combinations(distinct, 2))
    moves = []
    for h in (2e-5 * float(table[column].std()), 1e-5 * float(table[column].std())):
        up, down = (_design(case, model, _with(table, row, column, cell + s * h)) for s in (1, -1))
        moves.append((up - down) / (2 * h))
    return _slope(case, Z, (4 * moves[1] - moves[0]) / 3, case.y)


def _with(table: Any, row: int, column: str, value: Any) -> Any:
    moved = table.copy()
    moved.iloc[row, list(table.columns).index(column)] = value
    return moved


def _label(case: Case, model: Any, row: int) -> float:
    Z = _design(case, model, case.table)
    slopes = []
    for h in (2e-3, 1e-3):
        both = []
        for sign in (1, -1):
            y = np.array(case.y, dtype=float)
            y[row] += sign * h
            both.append(case.refit(Z, y))  # type: ignore[misc]
        slopes.append((both[0] - both[1]) / (2 * h))
    return float(np.linalg.norm((4 * slopes[1] - slopes[0]) / 3))


def main() -> int:
    """Print the table; 1 if something is not as expected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    outcomes = []
    for case in cases():
        if options.names and not any(part.lower() in case.name.lower() for part in options.names):
            continue
        try:
            line = outcome(case)
        except Exception as error:
            line = Outcome(
                case.name, case.section, False, False, None, "crash", f"{type(error).__name__}: {error}"[:160]
            )
        outcomes.append(line)
        verdict = f"{line.error:.1e}" if line.error is not None else ("refused" if line.expected else "NOT MEASURED")
        print(f"{line.section:22s} {line.name:48s} {verdict:12s} {line.standing:12s} {line.remark[:110]}", flush=True)
    wanted = [line for line in outcomes if line.section != "refused"]
    share = sum(line.measured and line.expected for line in wanted) / max(1, len(wanted))
    errors = [line.error for line in wanted if line.error is not None]
    print(f"{len(wanted)} models and steps, {share:.0%} measured, worst error {max(errors, default=0.0):.1e}")
    if options.json:
        options.json.write_text(json.dumps([asdict(line) for line in outcomes], indent=1) + "\n", encoding="utf-8")
    return 0 if all(line.expected for line in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
