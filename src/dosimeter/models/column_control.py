"""What everything else in a table says of each of its columns: R², and what an attacker without the release has left.

Predictors are the other columns as the fit encodes them, the target, and the squares of the numbers among them where
there are rows enough. No release and no noise is in it, only the table: internal.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.glm.column_prediction import Rest, explained
from dosimeter.tables.column_values import distinct
from dosimeter.tables.table import Table

NEARLY = 0.99
"""R² from which a column is called a function of the others, or nearly: a tenth of its spread is left, or less."""
MOST_ROWS, MOST_COLUMNS, MOST_WORK = 20_000, 400, 1e10
"""More rows say nothing new about an R²: evenly spaced ones are taken, fewer where columns make the work (rows times
columns squared) more than a few seconds. Levels of a column beyond so many are left out."""
ROWS_A_SQUARE = 20
"""Rows for each predictor that squares must leave."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """A table in numbers: for each column its own positions, and those that would give it away."""

    Z: FloatArray
    """(n, q)."""
    own: dict[str, tuple[int, ...]]
    block: dict[str, tuple[int, ...]]

    def without(self, name: str) -> FloatArray:
        """(n, ...) everything but this column."""
        return np.delete(self.Z, self.block[name], axis=1)


def encoded(table: Table, names: Sequence[str], nominal: Collection[str] = ()) -> Encoded:
    """These columns of the table; numbers as they are, labels as indicators of all levels but the first."""
    parts: list[FloatArray] = []
    own: dict[str, list[int]] = {}
    for name in names:
        found = _columns(table, name, nominal)
        own[name] = list(range(len(parts), len(parts) + len(found)))
        parts += found
    block = {name: list(where) for name, where in own.items()}
    numbers = [name for name in names if len(own[name]) == 1 and _amounts(parts[own[name][0]])]
    if table.n >= ROWS_A_SQUARE * (len(parts) + len(numbers)):
        for name in numbers:
            values = parts[own[name][0]]
            block[name].append(len(parts))
            parts.append(_square(values))
    Z = np.column_stack(parts) if parts else np.empty((table.n, 0))
    return Encoded(Z, {k: tuple(v) for k, v in own.items()}, {k: tuple(v) for k, v in block.items()})


def rest(table: Table, names: Sequence[str], nominal: Collection[str] = ()) -> dict[str, Rest | None]:
    """Column -> how far it follows from the others of these names; None where there are too few rows to say.

    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=(2, 300))
    >>> found = rest(Table.of({"a": a, "b": b, "sum": a + b, "c": rng.normal(size=300)}), ["a", "b", "sum", "c"])
    >>> {name: round(one.r2, 1) for name, one in found.items()}
    {'a': 1.0, 'b': 1.0, 'sum': 1.0, 'c': 0.0}
    """
    wide = sum(1 if _is_number(table, name, nominal) else len(set(table[name].tolist())) for name in names)
    most = min(MOST_ROWS, int(MOST_WORK / max(1, wide) ** 2))
    if table.n > most:
        table = table.take(np.linspace(0, table.n - 1, max(1, most)).astype(np.intp))
    made = encoded(table, names, nominal)
    found = explained(made.Z, [made.block[name] for name in names], [made.own[name] for name in names])
    return dict(zip(names, found, strict=True))


def _is_number(table: Table, name: str, nominal: Collection[str]) -> bool:
    return table.kind(name) != "text" and name not in nominal


def _columns(table: Table, name: str, nominal: Collection[str]) -> list[FloatArray]:
    column = table[name]
    if _is_number(table, name, nominal):
        return [column.astype(np.float64)]
    levels, where = np.unique(column.astype(str), return_inverse=True)
    return [(where == k).astype(np.float64) for k in range(1, min(len(levels), MOST_COLUMNS))]


def _amounts(values: NDArray[np.float64]) -> bool:
    return distinct(values, 2) is None


def _square(values: FloatArray) -> FloatArray:
    size = float(np.abs(values).max(initial=0.0)) or 1.0
    away = values / size - np.mean(values / size)
    return np.asarray(away**2)
