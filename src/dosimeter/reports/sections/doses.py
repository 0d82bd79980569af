"""How doses are distributed, who has the highest, and what leaks about them column by column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter.reports.charts import Axis, Series, drawing, heat
from dosimeter.reports.layout import Cell, Drawing, Grid, Paragraph, Part
from dosimeter.results.linear_parts import ExposureMatrix
from dosimeter.results.parts import Distribution, Ranked

WIDE = {"width": "container", "height": 260}
FIRST = 10
"""People listed at once; the rest on request."""
MOST_COLUMNS = 40
"""Columns of the exposure chart that are drawn, the most exposed first; the table has all."""
PLURAL = {"person": "people", "row": "rows", "teacher": "teachers", "client": "clients"}


def amount(value: Any) -> float:
    """A figure of a result: JSON has no infinity and says "unbounded".

    >>> amount("unbounded"), amount(2)
    (inf, 2.0)
    """
    return math.inf if value == "unbounded" else float(value)


def cell(value: Any) -> Cell:
    """A figure for a table, or nothing."""
    return None if value is None else amount(value)


def plural(unit: str) -> str:
    """The plural of a unit of leakage."""
    return PLURAL.get(unit, f"{unit}s")


def histogram(doses: Distribution) -> list[Part]:
    """The histogram in the log coordinate, with the limit."""
    many = plural(doses.unit)
    parts: list[Part] = []
    if doses.counts:
        counts = np.array(doses.counts, dtype=float)
        series = [Series(many, np.array(doses.edges, dtype=float), counts, kind="bars")]
        if doses.limit:
            series.append(Series(f"limit {doses.limit:g}", np.array([doses.limit]), np.array([]), kind="rule"))
        says = f"Each bar counts the {many} with a dose in its range. Exact counts, computed without protection."
        of = "dose (η)" if doses.of == "η" else doses.of
        axes = Axis(of, log=True), Axis(f"number of {many}")
        title = f"{of.replace('dose', 'Dose')} per {doses.unit}"
        parts.append(drawing(title, *axes, series, says=says, size=WIDE))
    if doses.zero:
        parts.append(
            Paragraph(f"Without any dose: {doses.zero} (zero has no place on a logarithmic axis).", quiet=True)
        )
    return parts


def most_exposed(people: Sequence[Ranked], unit: str, of: str = "dose") -> list[Part]:
    """Those with the highest doses, the first at once and the others on request. of: what a dose is; "" for none."""
    if not people:
        return []
    named = any(person.id is not None for person in people)
    headings = ("rank", *(("id",) if named else ()), "first row", *((of,) if of else ()), "times the typical")
    rows = tuple(
        (
            str(person.rank),
            *((person.id,) if named else ()),
            person.row,
            *((cell(person.dose),) if of else ()),
            cell(person.over_typical),
        )
        for person in people
    )
    many = plural(unit)
    first = Grid(f"The {min(FIRST, len(rows))} most exposed {many}", headings, rows[:FIRST])
    if len(rows) <= FIRST:
        return [first]
    caption = f"The other {len(rows) - FIRST} of the {len(rows)} most exposed {many}"
    return [first, Grid(caption, headings, rows[FIRST:], folded=True)]


def exposure_chart(matrix: ExposureMatrix) -> Drawing | None:
    """Person × column: how closely each value can be guessed."""
    columns, names = matrix.columns, _names(matrix)
    values = np.array([[amount(eta) for eta in row] for row in matrix.eta], dtype=float).reshape(len(names), -1)
    if not values.size:
        return None
    drawn = min(MOST_COLUMNS, len(columns))
    left = "" if drawn == len(columns) else f" The {drawn} most exposed of {len(columns)} columns are drawn."
    says = (
        "The stronger a cell's colour, the more closely that person's value can be guessed. η is the column's standard "
        f"deviation over the least error of an unbiased guess by an attacker who knows everything else.{left}"
    )
    title = "What leaks about the most exposed"
    rows = tuple((name, *row) for name, row in zip(names, values.tolist(), strict=True))
    grid = Grid(f"{title} (η)", ("who", *columns), rows, folded=True)
    return Drawing(title, heat(title, names, columns[:drawn], values[:, :drawn]), grid, says)


def exposure_by_person(matrix: ExposureMatrix) -> list[Part]:
    """Each of the most exposed, on request: their columns, the most closely guessed first."""
    parts: list[Part] = []
    for name, row in list(zip(_names(matrix), matrix.eta, strict=True))[:FIRST]:
        pairs = sorted(zip(matrix.columns, map(amount, row), strict=True), key=lambda pair: -pair[1])
        rows = tuple((column, eta, 1 / eta if eta else None) for column, eta in pairs)
        headings = ("column", "η", "least error, in standard deviations of the column")
        parts.append(Grid(f"What leaks about {name}", headings, rows, folded=True))
    return parts


def _names(matrix: ExposureMatrix) -> list[str]:
    return list(matrix.ids) if matrix.ids else [f"row {row}" for row in matrix.rows]
