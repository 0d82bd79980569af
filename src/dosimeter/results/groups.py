"""Groups of people by one column: the median dose of each over the median of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from dosimeter.core.face import option
from dosimeter.core.quantiles import median, quantile
from dosimeter.core.text import safe_text
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.results.linear_parts import GroupFigures
from dosimeter.results.parts import SMALLEST
from dosimeter.results.people import PersonFigures
from dosimeter.tables.column_values import distinct
from dosimeter.tables.data_checks import varies_within
from dosimeter.tables.table import Table

MOST = 200
"""At most this many groups that were not requested, those with the highest doses: a wide table has thousands."""
FEW = 6
"""A number with at most this many values is compared value by value."""
Tenth = Literal["lowest tenth", "highest tenth", ""]


def groups(leak: TableLeakage, table: Table, people: PersonFigures, requested: Sequence[str]) -> list[GroupFigures]:
    """Largest first. requested: columns to compare besides those of the model, shown whatever their ratio.

    median, worst_1_percent: doses; of an exact release, multiples of everyone's median.
    """
    typical = people.typical
    if typical <= 0:
        return []
    dose = people.eta if leak.leak.has_noise else people.eta / typical
    every: list[GroupFigures] = []
    for name in dict.fromkeys([*requested, *(column for column in leak.columns if column in table.names)]):
        by_first_row = leak.ids is not None and varies_within(table[name], leak.ids)
        for label, end, member in _members(table, name, people.first):
            size = int(np.count_nonzero(member))
            # A group that lacks fewer than SMALLEST is nearly everyone: it says nothing unless it was requested.
            if size >= SMALLEST and (name in requested or size <= len(member) - SMALLEST):
                eta = people.eta[member]
                mine = eta if dose is people.eta else dose[member]
                every.append(
                    GroupFigures(
                        column=name,
                        group=label,
                        end=end,
                        people=size,
                        over_median=median(eta) / typical,
                        median=median(mine),
                        worst_1_percent=quantile(mine, 0.99),
                        asked=name in requested,
                        by_first_row=by_first_row,
                    )
                )
    return kept_groups(every)


def kept_groups(every: list[GroupFigures]) -> list[GroupFigures]:
    """Those that were requested and the MOST others with the highest doses, largest first."""
    every = sorted(every, key=_largest)
    kept = [*(group for group in every if group.asked), *[group for group in every if not group.asked][:MOST]]
    return sorted(kept, key=_largest)


def group_remarks(figures: Sequence[GroupFigures], requested: Sequence[str]) -> tuple[str, ...]:
    """Requested columns without a group to show, and those that vary within a person."""
    remarks = []
    for name in requested:
        mine = [group for group in figures if group.column == name]
        if not mine:
            remarks.append(f"{option('group', safe_text(name))}: no group of {SMALLEST} or more people")
        elif mine[0].by_first_row:
            remarks.append(f"{safe_text(name)} varies within a person: each person is counted by their first row")
    return tuple(remarks)


def _largest(group: GroupFigures) -> float:
    return -group.over_median


def _members(table: Table, name: str, first: Any) -> list[tuple[str, Tenth, Any]]:
    """(label, end, members): each level of a label; of a number the lowest and the highest tenth."""
    values = table[name][first]
    # A gap that is left for a model's own imputer is no level.
    there = values if name not in table.gaps or table.gaps[name].value else values[~table.gaps[name].mask[first]]
    text = values.dtype.kind == "O"
    levels = np.array(sorted(set(there)), dtype=object) if text else distinct(there, FEW)
    if levels is not None:
        return [(f"= {level}" if text else f"= {float(level) + 0.0:g}", "", values == level) for level in levels[:50]]
    numbers = there.astype(np.float64, copy=False)
    low, high = quantile(numbers, 0.1), quantile(numbers, 0.9)
    return [(f"<= {low:.4g}", "lowest tenth", values <= low), (f">= {high:.4g}", "highest tenth", values >= high)]
