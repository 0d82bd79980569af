"""One entry per person: their dose, their first row in the table, and the best guessed of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.quantiles import median
from dosimeter.core.selection import Top
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.results.distribution import distribution
from dosimeter.results.parts import Distribution, Ranked
from dosimeter.results.visibility import present
from dosimeter.tables.table import Table

TOP = 50
"""The most exposed are listed one by one, at most this many."""


@dataclass(frozen=True, eq=False)
class PersonFigures:
    """The persons of a measurement, or its rows if no person was named."""

    eta: FloatArray
    """(people,) η of each; at noise of scale 1 for an exact release."""
    first: Any
    """(people,) position of their first row."""
    number: Any
    """(n,) each row's person."""

    @classmethod
    def of(cls, leak: TableLeakage) -> PersonFigures:
        """Persons in the order in which they first appear."""
        return cls.named(leak.unit_scale_eta, leak.ids)

    @classmethod
    def named(cls, eta: FloatArray, ids: tuple[Any, ...] | None) -> PersonFigures:
        """From figures (people,) in the order in which ids (n,) first appear, or (n,) without ids."""
        if ids is None:
            rows = np.arange(len(eta))
            return cls(eta, rows, rows)
        first: dict[Any, int] = {}
        for row, person in enumerate(ids):
            first.setdefault(person, row)
        order = {person: k for k, person in enumerate(first)}
        return cls(eta, np.array(list(first.values())), np.array([order[person] for person in ids]))

    @property
    def top(self) -> int:
        """The most exposed person."""
        return int(np.argmax(self.eta))

    @cached_property
    def typical(self) -> float:
        """The median of `eta`."""
        return median(self.eta)

    @cached_property
    def highest_first(self) -> Any:
        """(at most TOP,) the most exposed, the first of equals first."""
        return Top.of(self.eta, np.arange(len(self.eta)), TOP).rows

    def least(self, per_row: FloatArray) -> FloatArray:
        """(people,) the smallest value over each person's rows: that of the best guessed one."""
        if self.first is self.number:  # every row is a person
            return per_row
        smallest = np.full(len(self.eta), np.inf)
        np.minimum.at(smallest, self.number, per_row)
        return smallest

    def row_of_least(self, per_row: FloatArray, person: int) -> int:
        """Position of the row with a person's smallest value."""
        rows = np.flatnonzero(self.number == person)
        return int(rows[np.argmin(per_row[rows])])

    def distribution(self, unit: str, limit: float | None, *, relative: bool = False) -> Distribution:
        """The distribution of the doses; of an exact release (relative), of their multiples of the typical one."""
        if not relative:
            return distribution(self.eta, of="η", unit=unit, limit=limit)
        return distribution(self.eta / (self.typical or 1.0), of="η over the typical", unit=unit)


def ranked(
    people: PersonFigures, rows: Any, *, relative: bool = False, ids: tuple[Any, ...] | None = None
) -> list[Ranked]:
    """The most exposed, by the number of their first row; by id only if `ids` (n,) is passed.

    rows: (n,) positions in the source. relative: an exact release, whose doses are multiples of the typical one.
    """
    typical = people.typical
    most_exposed = []
    for k, person in enumerate(people.highest_first.tolist()):
        eta = float(people.eta[person])
        over = eta / typical if typical > 0 else 1.0 if eta == 0 else float("inf")
        first = int(people.first[person])
        most_exposed.append(
            Ranked(
                rank=k + 1,
                row=int(rows[first]) + 1,
                dose=over if relative else eta,
                over_typical=over,
                **present(id=None if ids is None else str(ids[first])),
            )
        )
    return most_exposed


def number_of(table: Table, position: int) -> int:
    """The number of a row in its file, from 1. The header is not counted; rows left out for missing values are."""
    return int(table.rows[position]) + 1
