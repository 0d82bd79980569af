"""One entry per person: their figure, where they first stand in the table, and the best pinned of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.tables.table import Table

TOP = 50
"""So many of the most exposed are listed one by one."""


@dataclass(frozen=True, eq=False)
class PersonFigures:
    """The persons of a measurement, or its rows where no person was named."""

    eta: FloatArray
    """(people,) the figure of each; at noise of scale 1 for an exact release."""
    first: Any
    """(people,) position of their first row."""
    number: Any
    """(n,) each row's person."""

    @classmethod
    def of(cls, leak: TableLeakage) -> PersonFigures:
        """Persons in the order in which they first appear."""
        return cls.named(leak.relative, leak.ids)

    @classmethod
    def named(cls, eta: FloatArray, ids: tuple[Any, ...] | None) -> PersonFigures:
        """From figures (people,) in the order in which ids (n,) first appear, or (n,) without ids."""
        if ids is None:
            rows = np.arange(len(eta))
            return cls(eta, rows, rows)
        first: dict[Any, int] = {}
        for row, who in enumerate(ids):
            first.setdefault(who, row)
        order = {who: k for k, who in enumerate(first)}
        return cls(eta, np.array(list(first.values())), np.array([order[who] for who in ids]))

    @property
    def top(self) -> int:
        """The most exposed person."""
        return int(np.argmax(self.eta))

    @property
    def highest_first(self) -> Any:
        """(at most TOP,) the most exposed, the first of equals first."""
        return np.argsort(-self.eta, kind="stable")[:TOP]

    def least(self, per_row: FloatArray) -> FloatArray:
        """(people,) the smallest of each person's rows: that of their best pinned one."""
        out = np.full(len(self.eta), np.inf)
        np.minimum.at(out, self.number, per_row)
        return out

    def row_of_least(self, per_row: FloatArray, person: int) -> int:
        """Position of the row at which a person's smallest stands."""
        rows = np.flatnonzero(self.number == person)
        return int(rows[np.argmin(per_row[rows])])


def ranked(
    people: PersonFigures, rows: Any, *, relative: bool = False, ids: tuple[Any, ...] | None = None
) -> list[Any]:
    """The most exposed, by the number of their first row; by id only where `ids` (n,) is given.

    rows: (n,) positions in the source. relative: an exact release, whose doses are multiples of the typical one.
    """
    typical = float(np.median(people.eta))
    found = []
    for k, who in enumerate(people.highest_first.tolist()):
        eta = float(people.eta[who])
        over = eta / typical if typical > 0 else 1.0 if eta == 0 else float("inf")
        position = int(people.first[who])
        entry = {"rank": k + 1, "row": int(rows[position]) + 1, "dose": over if relative else eta, "over_typical": over}
        found.append(entry if ids is None else {**entry, "id": str(ids[position])})
    return found


def number_of(table: Table, position: int) -> int:
    """The number of a row in its file, from 1: the header not counted, rows left out for missing values counted."""
    return int(table.rows[position]) + 1
