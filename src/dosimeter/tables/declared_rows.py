"""Rows as far as they were declared: numbers clipped to their bounds, unlisted labels taken as the first level."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_list, safe_text
from dosimeter.tables.column_levels import as_text
from dosimeter.tables.column_values import text_array
from dosimeter.tables.declared_bounds import Declaration, refuse_unknown
from dosimeter.tables.table import Table


@dataclass(frozen=True, eq=False)
class DeclaredRows:
    """A table within its declared bounds. The counts are internal."""

    table: Table
    clipped: int
    """Cells outside their bounds."""
    unlisted: int
    """Labels in no public list."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was changed. Internal."""
        clipped = f"{self.clipped} private cells lay outside the declared bounds and were clipped"
        unlisted = f"{self.unlisted} private labels are in no public list and count as the first level"
        return (*((clipped,) if self.clipped else ()), *((unlisted,) if self.unlisted else ()))


def check_declared(
    names: Collection[str], declared: Mapping[str, Declaration], aside: Collection[str], exclude: Collection[str]
) -> None:
    """Refuse a column without a declaration, or a declaration without a column; by names, before a cell is read."""
    refuse_unknown(declared, names)
    undeclared = [name for name in names if name not in declared and name not in aside and name not in exclude]
    if undeclared:
        first = safe_text(undeclared[0])
        raise Refusal(
            f"nothing is declared about {safe_list(undeclared, 4)}: declare bounds or levels, or leave the column out "
            f"({option('exclude', first)})"
        )


def declared_rows(table: Table, declared: Mapping[str, Declaration], aside: Collection[str]) -> DeclaredRows:
    """The table, its declared numbers read as float64 and its declared labels as text; `aside` stays as it is.

    >>> people = Table.of({"age": [31, 154], "city": ["Ulm", "Rome"], "ill": ["no", "yes"]})
    >>> from dosimeter.tables.declared_bounds import declarations
    >>> rows = declared_rows(people, declarations({"age": (0, 120), "city": ["Graz", "Ulm"]}), ["ill"])
    >>> rows.table["age"].tolist(), rows.table["city"].tolist(), rows.clipped, rows.unlisted
    ([31.0, 120.0], ['Ulm', 'Graz'], 1, 1)
    """
    columns, clipped, unlisted = [], 0, 0
    for name in table.names:
        column, declaration = table[name], declared.get(name)
        if name in aside or declaration is None:
            columns.append(column)
        elif isinstance(declaration, tuple):
            labels = as_text(table, name)
            known = np.isin(labels, declaration)
            unlisted += int(np.sum(~known))
            columns.append(text_array(np.where(known, labels, declaration[0]).tolist()))
        elif table.kind(name) == "text":
            shown = safe_text(name)
            raise Refusal(f"column {shown} holds text, and lower and upper were declared: declare levels, or drop it")
        else:
            numbers = column.astype(np.float64)
            within = np.clip(numbers, declaration.lower, declaration.upper)
            clipped += int(np.sum(within != numbers))
            columns.append(within)
    kept = Table(table.names, tuple(columns), table.rows, table.dropped, table.gaps, table.texts)
    return DeclaredRows(kept, clipped, unlisted)
