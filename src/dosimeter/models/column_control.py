"""How well all other columns of a table predict each column: R², and the error of an attacker without the release.

Predictors are the other columns as the fit encodes them, the target, and the squares of the numbers among them if there
are enough rows. It uses only the table, no release and no noise: internal.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.glm.attacks.column_prediction import ColumnPrediction, explain_columns
from dosimeter.tables.column_values import distinct
from dosimeter.tables.table import Table

NEARLY = 0.99
"""R² from which a column counts as nearly a function of the others: at most a tenth of its spread is left."""
MOST_ROWS, MOST_COLUMNS, MOST_WORK = 20_000, 400, 1e10
"""More rows add nothing to an R²: evenly spaced ones are taken, fewer if the work (rows times columns squared) would
take more than a few seconds. Levels of a column beyond MOST_COLUMNS are left out."""
ROWS_A_SQUARE = 20
"""Squares are added only if there are this many rows per predictor."""


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """A table as numbers."""

    Z: FloatArray
    """(n, q)."""
    positions: dict[str, tuple[int, ...]]
    """Column -> its positions in Z."""
    dependent: dict[str, tuple[int, ...]]
    """Column -> all positions that are computed from it, its square included."""

    def without(self, name: str) -> FloatArray:
        """(n, ...) everything but this column."""
        return np.delete(self.Z, self.dependent[name], axis=1)


def encode_table(table: Table, names: Sequence[str], categorical: Collection[str] = ()) -> EncodedTable:
    """These columns of the table; numbers as they are, labels as indicators of all levels but the first."""
    parts: list[FloatArray] = []
    positions: dict[str, list[int]] = {}
    for name in names:
        columns = _columns(table, name, categorical)
        positions[name] = list(range(len(parts), len(parts) + len(columns)))
        parts += columns
    dependent = {name: list(where) for name, where in positions.items()}
    numbers = [name for name in names if len(positions[name]) == 1 and _amounts(parts[positions[name][0]])]
    if table.n >= ROWS_A_SQUARE * (len(parts) + len(numbers)):
        for name in numbers:
            values = parts[positions[name][0]]
            dependent[name].append(len(parts))
            parts.append(_square(values))
    Z = np.column_stack(parts) if parts else np.empty((table.n, 0))
    return EncodedTable(Z, {k: tuple(v) for k, v in positions.items()}, {k: tuple(v) for k, v in dependent.items()})


def explain_table(
    table: Table, names: Sequence[str], categorical: Collection[str] = ()
) -> dict[str, ColumnPrediction | None]:
    """Column -> how well the others of these names predict it; None if there are too few rows.

    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=(2, 300))
    >>> table = Table.of({"a": a, "b": b, "sum": a + b, "c": rng.normal(size=300)})
    >>> predictions = explain_table(table, table.names)
    >>> {name: round(prediction.r2, 1) for name, prediction in predictions.items()}
    {'a': 1.0, 'b': 1.0, 'sum': 1.0, 'c': 0.0}
    """
    wide = sum(1 if _is_number(table, name, categorical) else _indicators(table, name) for name in names)
    most = min(MOST_ROWS, int(MOST_WORK / max(1, wide) ** 2))
    if table.n > most:
        table = table.take(np.linspace(0, table.n - 1, max(1, most)).astype(np.intp))
    encoded = encode_table(table, names, categorical)
    predictions = explain_columns(
        encoded.Z, [encoded.dependent[name] for name in names], [encoded.positions[name] for name in names]
    )
    return dict(zip(names, predictions, strict=True))


def _is_number(table: Table, name: str, categorical: Collection[str]) -> bool:
    return table.kind(name) != "text" and name not in categorical


def _indicators(table: Table, name: str) -> int:
    return min(len(set(table[name].tolist())), MOST_COLUMNS) - 1


def _columns(table: Table, name: str, categorical: Collection[str]) -> list[FloatArray]:
    column = table[name]
    if _is_number(table, name, categorical):
        return [column.astype(np.float64)]
    levels, where = np.unique(column.astype(str), return_inverse=True)
    return [(where == k).astype(np.float64) for k in range(1, min(len(levels), MOST_COLUMNS))]


def _amounts(values: NDArray[np.float64]) -> bool:
    return distinct(values, 2) is None


def _square(values: FloatArray) -> FloatArray:
    size = float(np.abs(values).max(initial=0.0)) or 1.0
    away = values / size - np.mean(values / size)
    return np.asarray(away**2)
