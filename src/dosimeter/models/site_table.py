"""The table of one site, checked against the schema before any sum leaves.

A refusal names the column and the row, never a cell: it is shown at the site, and the coordinator learns only that the
site does not match.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.engine import RowBlock
from dosimeter.core.errors import Refusal
from dosimeter.core.face import speaking
from dosimeter.core.location import Location
from dosimeter.core.noise import Gaussian
from dosimeter.core.text import safe_text
from dosimeter.models.block_model import BlockModel
from dosimeter.models.consortium_model import Totals, consortium_model, no_totals
from dosimeter.models.site_exposure import person_numbers
from dosimeter.tables.classes import keep_listed_classes
from dosimeter.tables.column_encoding import CategoryColumn
from dosimeter.tables.column_values import text_array
from dosimeter.tables.consortium_schema import ConsortiumSchema
from dosimeter.tables.constant_values import tie_facts
from dosimeter.tables.declared_bounds import Range
from dosimeter.tables.person_ids import with_person_ids
from dosimeter.tables.read import read_table, table_names
from dosimeter.tables.table import Table
from dosimeter.tables.table_summary import Moments

FEWEST_PEOPLE = 10
"""With fewer, the site's exact sums would be nearly a patient's own values."""
NARROWEST = 10
"""Standard deviations at this site over those of all sites: beyond it the units of a dose are taken for wrong."""


@dataclass(frozen=True, eq=False)
class SiteTable:
    """The rows of a site as the schema has them. They stay in this process."""

    schema: ConsortiumSchema
    table: Table
    clipped: int
    """Cells outside the bounds. Internal to the site."""

    @property
    def ids(self) -> list[str]:
        """(n,) whose each row is."""
        return list(self.table[self.schema.person].tolist())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of names and cells, hex. As private as the table."""
        digest = sha256()
        for name in self.table.names:
            column = self.table[name]
            cells = repr(column.tolist()).encode() if column.dtype.kind == "O" else column.tobytes()
            digest.update(repr((name, len(cells))).encode() + cells)
        return digest.hexdigest()

    @property
    def people(self) -> int:
        """Patients."""
        return len(set(self.ids))

    @cached_property
    def people_of_rows(self) -> Index:
        """(n,) whose each row is, numbered from 0."""
        return person_numbers(self.ids)

    @cached_property
    def encoder(self) -> BlockModel:
        """Turns rows into numbers; its units are not those of the study."""
        return consortium_model(self.schema, no_totals(self.schema), Gaussian(1.0))

    @cached_property
    def block(self) -> RowBlock:
        """(X, y, ω)."""
        return self.encoder.rows(self.table)

    @cached_property
    def totals(self) -> Totals:
        """What units and ties need of these rows."""
        schema = self.schema
        numbers = [Moments.of(self.number(name)) for name in schema.numbers]
        y = self.block[1]
        target = Moments.of(y)
        columns = {name: self.table[name] for name in schema.features}
        facts = tie_facts(columns, y, self.ids, self.table.rows)
        return Totals(
            self.table.n,
            np.array([each.mean for each in numbers]),
            np.array([each.squares for each in numbers]),
            target.mean,
            target.squares,
            facts.several > 0,
            (facts.changed > 0).astype(np.float64),
        )

    def number(self, name: str) -> FloatArray:
        """(n,) a column of numbers, clipped to its bounds."""
        column = self.schema.columns[name]
        u = self.table[name].astype(np.float64)
        return np.clip(u, column.lower, column.upper) if isinstance(column, Range) else u


def read_site_table(
    path: str | os.PathLike[str],
    schema: ConsortiumSchema,
    *,
    missing: str = "refuse",
    delimiter: str = ",",
    decimal: str = ".",
) -> SiteTable:
    """The site's table; refused in one line if it does not match the schema. Other columns are not read.

    missing: "refuse" names the first row with a missing value, "drop" leaves such rows out.
    """
    with speaking("config file"):
        return _read(Location(os.fspath(path), first=1), path, schema, missing, delimiter, decimal)


def _read(
    source: Location, path: str | os.PathLike[str], schema: ConsortiumSchema, missing: str, delimiter: str, decimal: str
) -> SiteTable:
    if missing not in ("refuse", "drop"):
        raise source.refusal(f"missing = {safe_text(missing)}", "use refuse or drop")
    names, wanted = table_names(path, delimiter=delimiter), [schema.person, *schema.columns]
    for name in wanted:
        if name not in names:
            raise source.refusal(f"there is no column {safe_text(name)}, which the schema names", "add or rename it")
    classes = schema.classes
    targets = [] if classes is None else [schema.target]
    table = read_table(
        path,
        delimiter=delimiter,
        decimal=decimal,
        text=(schema.person, *schema.labels, *targets),
        drop=tuple(name for name in names if name not in wanted),
        needed=tuple(wanted),
        missing="drop" if missing == "drop" else "refuse",
        whole=(schema.person, schema.target),
        declared=[name for name, column in schema.columns.items() if isinstance(column, Range)],
    )
    return site_table_of(with_person_ids(table, schema.person), schema, source)


def site_table_of(table: Table, schema: ConsortiumSchema, source: Location) -> SiteTable:
    """A table that was read, checked: levels, kinds, counts, enough people."""
    clipped = 0
    for name, column in schema.columns.items():
        if isinstance(column, tuple):
            _check_levels(table, name, column, source)
            continue
        if table.kind(name) != "number":
            fault = f"column {safe_text(name)} holds {table.kind(name)} values, and the schema declares numbers"
            raise source.refusal(fault, "correct the table, or agree on levels")
        u = table[name].astype(np.float64)
        clipped += int(np.sum((u < column.lower) | (u > column.upper)))
    if schema.loss == "poisson":
        y = table[schema.target].astype(np.float64)
        odd = np.flatnonzero((np.mod(y, 1) != 0) | (y < 0))
        if odd.size:
            fault = "the loss poisson needs counts, and this is none"
            raise source.refusal(fault, "correct the table", row=int(table.rows[odd[0]]), column=schema.target)
    if schema.classes is not None:
        table = keep_listed_classes(table, schema.target, schema.classes, leave_out=False, source=source)
    site = SiteTable(schema, table, clipped)
    if site.people < FEWEST_PEOPLE:
        fault = f"fewer than {FEWEST_PEOPLE} people: exact sums would be nearly their own values"
        raise source.refusal(fault, "a site so small cannot take part")
    return site


def _check_levels(table: Table, name: str, levels: tuple[str, ...], source: Location) -> None:
    cells = text_array(tuple(str(cell) for cell in table[name].tolist()))
    as_text = Table((name,), (cells,), table.rows)
    unknown = np.flatnonzero(CategoryColumn(name, levels).positions(as_text) < 0)
    if unknown.size:
        fault = "a level that the schema does not list"
        remedy = "correct the cell, or agree on a schema that lists it"
        raise source.refusal(fault, remedy, row=int(table.rows[unknown[0]]), column=name)


def check_dose_units(totals: Totals, own: Totals) -> None:
    """Refuse totals of all sites that cannot include this site's rows: a dose in wrong units would be a wrong dose."""
    theirs, here = (np.append(each.squares, each.target_squares) for each in (totals, own))
    enough = totals.rows >= own.rows and (theirs >= here - 1e-6 * (np.abs(theirs) + 1.0)).all()
    if enough and (theirs / totals.rows < here / own.rows / NARROWEST**2).any():
        raise Refusal(f"a column varies here {NARROWEST} times as much as the totals of all sites say")
    if not enough or (totals.changes < own.changes).any() or (own.several and not totals.several):
        raise Refusal("the totals of all sites do not include this site's rows")
