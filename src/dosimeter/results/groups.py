"""Groups of people by one column: the median figure of each over the median of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter.core.text import safe_text
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.results.people import PersonFigures
from dosimeter.tables.column_values import distinct
from dosimeter.tables.data_checks import varies_within
from dosimeter.tables.table import Table

SMALLEST = 10
"""Groups below this many people are not shown: their median is nearly one person's figure."""

MOST = 200
"""Groups that nobody asked for beyond so many, those that carry least, are left out: a wide table has thousands."""
FEW = 6
"""A number of so many values or fewer is compared value by value."""
LOWEST, HIGHEST = "lowest tenth", "highest tenth"


def groups(leak: TableLeakage, table: Table, people: PersonFigures, asked: Sequence[str]) -> list[dict[str, Any]]:
    """Largest first. asked: columns to compare besides those of the model, shown whatever their ratio.

    median, worst_1_percent: doses; of an exact release the multiples of everybody's median.
    """
    median = float(np.median(people.eta))
    if median <= 0:
        return []
    figure = people.eta if leak.leak.bounded else people.eta / median
    out: list[dict[str, Any]] = []
    for name in dict.fromkeys([*asked, *(c for c in leak.columns if c in table.names)]):
        by_first_row = leak.ids is not None and varies_within(table[name], leak.ids)
        for label, end, member in _parts(table, name, people.first):
            size = int(member.sum())
            # A group that lacks fewer than SMALLEST is all but everybody: it says nothing unless it was asked for.
            if size >= SMALLEST and (name in asked or size <= len(member) - SMALLEST):
                ratio = float(np.median(people.eta[member])) / median
                facts = {"column": name, "group": label, "end": end, "people": size, "over_median": ratio}
                facts |= {
                    "median": float(np.median(figure[member])),
                    "worst_1_percent": float(np.quantile(figure[member], 0.99)),
                }
                out.append({**facts, "asked": name in asked, "by_first_row": by_first_row})
    out.sort(key=lambda g: -g["over_median"])
    kept = [*(g for g in out if g["asked"]), *[g for g in out if not g["asked"]][:MOST]]
    return sorted(kept, key=lambda g: -g["over_median"])


def group_remarks(found: Sequence[dict[str, Any]], asked: Sequence[str]) -> tuple[str, ...]:
    """Columns that were asked for: those without a group to show, and those that change within a person."""
    said = []
    for name in asked:
        mine = [g for g in found if g["column"] == name]
        if not mine:
            said.append(f"--group {safe_text(name)}: no group of {SMALLEST} or more people")
        elif mine[0]["by_first_row"]:
            said.append(f"{safe_text(name)} varies within a person: each person is counted by their first row")
    return tuple(said)


def _parts(table: Table, name: str, first: Any) -> list[tuple[str, str, Any]]:
    """(label, end, members): each level of a label; of a number the lowest and the highest tenth."""
    values = table[name][first]
    # A gap that is left for a model's own imputer is no level.
    there = values if name not in table.gaps or table.gaps[name].value else values[~table.gaps[name].mask[first]]
    text = values.dtype.kind == "O"
    levels = np.array(sorted(set(there)), dtype=object) if text else distinct(there, FEW)
    if levels is not None:
        return [(f"= {level}" if text else f"= {float(level):g}", "", values == level) for level in levels[:50]]
    low, high = np.quantile(there.astype(float), [0.1, 0.9])
    return [(f"<= {low:.4g}", LOWEST, values <= low), (f">= {high:.4g}", HIGHEST, values >= high)]
