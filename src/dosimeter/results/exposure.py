"""The exposure matrix: what leaks about the most exposed people, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter.results.linear_parts import ExposureMatrix
from dosimeter.results.people import PersonFigures, number_of
from dosimeter.results.unknowns import Unknown
from dosimeter.results.visibility import present
from dosimeter.tables.table import Table

WIDEST = 40
"""At most this many columns; those that leak least about these people are left out."""


def exposure_matrix(
    every: Sequence[Unknown], people: PersonFigures, table: Table, *, ids: tuple[Any, ...] | None = None
) -> ExposureMatrix | None:
    """(people, columns) the column's spread over the least error of an unbiased guess: η of a cell without its unit.

    1 means that the release says about as much as the column's spread does. None without a column.
    """
    if not every:
        return None
    top = people.highest_first
    with np.errstate(divide="ignore"):
        cells = np.column_stack([unknown.spread / people.least(unknown.deviation)[top] for unknown in every])
    order = np.argsort(-cells.max(axis=0), kind="stable")[:WIDEST]
    first = [int(people.first[person]) for person in top]
    return ExposureMatrix(
        rows=[number_of(table, row) for row in first],
        **present(ids=None if ids is None else [str(ids[row]) for row in first]),
        columns=[every[j].name for j in order],
        kinds=[every[j].kind for j in order],
        eta=cells[:, order].tolist(),
    )
