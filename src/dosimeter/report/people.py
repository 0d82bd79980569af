"""One entry per person: their figure, where they first stand in the table, and the best pinned of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.notion import FloatArray
from dosimeter.frames.leakage import TableLeakage
from dosimeter.frames.table import Table


@dataclass(frozen=True, eq=False)
class People:
    """The persons of a measurement, or its rows where no person was named."""

    eta: FloatArray
    """(people,) the figure of each; at noise of scale 1 for an exact release."""
    first: Any
    """(people,) position of their first row."""
    number: Any
    """(n,) each row's person."""

    @classmethod
    def of(cls, leak: TableLeakage) -> People:
        """Persons in the order in which they first appear."""
        if leak.ids is None:
            rows = np.arange(leak.leak.n)
            return cls(leak.relative, rows, rows)
        first: dict[Any, int] = {}
        for row, who in enumerate(leak.ids):
            first.setdefault(who, row)
        order = {who: k for k, who in enumerate(first)}
        return cls(leak.relative, np.array(list(first.values())), np.array([order[who] for who in leak.ids]))

    @property
    def top(self) -> int:
        """The most exposed person."""
        return int(np.argmax(self.eta))

    def least(self, per_row: FloatArray) -> FloatArray:
        """(people,) the smallest of each person's rows: that of their best pinned one."""
        out = np.full(len(self.eta), np.inf)
        np.minimum.at(out, self.number, per_row)
        return out

    def row_of_least(self, per_row: FloatArray, person: int) -> int:
        """Position of the row at which a person's smallest stands."""
        rows = np.flatnonzero(self.number == person)
        return int(rows[np.argmin(per_row[rows])])


def number_of(table: Table, position: int) -> int:
    """The number of a row in its file, from 1: the header not counted, rows left out for missing values counted."""
    return int(table.rows[position]) + 1
