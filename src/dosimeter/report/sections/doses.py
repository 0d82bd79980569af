"""How doses spread over people, who carries most, and what leaks of them column by column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dosimeter.report.charts import Axis, Series, drawing, heat
from dosimeter.report.layout import Cell, Drawing, Grid, Part, Words

WIDE = {"width": 620, "height": 240}
FIRST = 10
"""People listed at once; the rest on request."""
MOST_COLUMNS = 40
"""Columns of the heat strip that are drawn, the most exposed first; the table has all."""
MANY = {"person": "people", "row": "rows", "teacher": "teachers", "client": "clients"}


def amount(value: Any) -> float:
    """A figure of the facts: JSON has no infinity and says "unbounded".

    >>> amount("unbounded"), amount(2)
    (inf, 2.0)
    """
    return math.inf if value == "unbounded" else float(value)


def cell(value: Any) -> Cell:
    """A figure for a table; what is not there stays away."""
    return None if value is None else amount(value)


def distribution(found: Mapping[str, Any]) -> list[Part]:
    """The histogram in the log coordinate, with the limit."""
    unit, of = found["unit"], found["of"]
    many = MANY.get(unit, f"{unit}s")
    parts: list[Part] = []
    if found["counts"]:
        counts = np.array(found["counts"], dtype=float)
        series = [Series(many, np.array(found["edges"], dtype=float), counts, kind="bars")]
        limit = found.get("limit")
        if limit:
            series.append(Series(f"limit {limit:g}", np.array([float(limit)]), np.array([]), kind="rule"))
        says = f"Each bar counts the {many} with a dose in its range. Exact counts, computed without protection."
        parts.append(
            drawing(f"{of} per {unit}", Axis(of, log=True), Axis(f"number of {many}"), series, says=says, size=WIDE)
        )
    if found.get("zero"):
        parts.append(Words(f"Without any dose: {found['zero']} (zero has no place on a logarithmic axis).", quiet=True))
    return parts


def ranked(found: Sequence[Mapping[str, Any]], unit: str, of: str = "dose") -> list[Part]:
    """Those who carry most, the first at once and the others on request. of: what the dose is; "" for none."""
    if not found:
        return []
    named = any(one.get("id") is not None for one in found)
    headings = ("rank", *(("id",) if named else ()), "first row", *((of,) if of else ()), "times the typical")
    rows = tuple(
        (
            str(one["rank"]),
            *((one.get("id"),) if named else ()),
            one.get("row"),
            *((cell(one["dose"]),) if of else ()),
            cell(one["over_typical"]),
        )
        for one in found
    )
    many = MANY.get(unit, f"{unit}s")
    first = Grid(f"The {min(FIRST, len(rows))} most exposed {many}", headings, rows[:FIRST])
    if len(rows) <= FIRST:
        return [first]
    return [
        first,
        Grid(
            f"The other {len(rows) - FIRST} of the {len(rows)} most exposed {many}", headings, rows[FIRST:], folded=True
        ),
    ]


def strip(found: Mapping[str, Any]) -> Drawing | None:
    """The heat strip: person × column."""
    ids, columns = found.get("ids"), [str(name) for name in found["columns"]]
    names = [str(one) for one in ids] if ids else [f"row {row}" for row in found["rows"]]
    values = np.array([[amount(one) for one in line] for line in found["eta"]], dtype=float).reshape(len(names), -1)
    if not values.size:
        return None
    seen = min(MOST_COLUMNS, len(columns))
    left = "" if seen == len(columns) else f" The {seen} most exposed of {len(columns)} columns are drawn."
    says = (
        "The stronger a cell's colour, the closer that column of that person can be guessed: η is the column's spread "
        f"over the least error of an unbiased guess by somebody who knows everything else.{left}"
    )
    title = "What leaks of the most exposed, column by column"
    rows = tuple(_line(name, line) for name, line in zip(names, values.tolist(), strict=True))
    grid = Grid(f"{title} (η)", ("who", *columns), rows, folded=True)
    return Drawing(title, heat(title, names, columns[:seen], values[:, :seen]), grid, says)


def one_by_one(found: Mapping[str, Any]) -> list[Part]:
    """Each of the most exposed on request: their columns, the closest guessed first."""
    names = [str(one) for one in found.get("ids") or (f"row {row}" for row in found["rows"])]
    made: list[Part] = []
    for name, line in list(zip(names, found["eta"], strict=True))[:FIRST]:
        pairs = sorted(zip(map(str, found["columns"]), map(amount, line), strict=True), key=lambda pair: -pair[1])
        rows = tuple((column, eta, 1 / eta if eta else None) for column, eta in pairs)
        headings = ("column", "η", "least error, in the column's spreads")
        made.append(Grid(f"{name}: what leaks of them", headings, rows, folded=True))
    return made


def _line(name: str, figures: Sequence[float]) -> tuple[Cell, ...]:
    return name, *figures
