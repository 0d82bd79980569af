"""The heat strip: what leaks of the most exposed people, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter.results.people import PersonFigures, number_of
from dosimeter.results.unknowns import Unknown
from dosimeter.tables.table import Table

WIDEST = 40
"""Columns beyond so many are left out, those that leak least of these people first."""


def strip(
    found: Sequence[Unknown], people: PersonFigures, table: Table, *, ids: tuple[Any, ...] | None = None
) -> dict[str, Any] | None:
    """(people, columns) the column's spread over the least error of an unbiased guess: η of a cell without its unit.

    1 means that the release tells about as much as knowing the column's spread does. None without a column.
    """
    if not found:
        return None
    top = people.highest_first
    with np.errstate(divide="ignore"):
        cells = np.column_stack([u.spread / people.least(u.deviation)[top] for u in found])
    order = np.argsort(-cells.max(axis=0), kind="stable")[:WIDEST]
    first = [int(people.first[who]) for who in top]
    told = {
        "rows": [number_of(table, row) for row in first],
        "columns": [found[j].name for j in order],
        "kinds": [found[j].kind for j in order],
        "eta": cells[:, order].tolist(),
    }
    return told if ids is None else {**told, "ids": [str(ids[row]) for row in first]}
