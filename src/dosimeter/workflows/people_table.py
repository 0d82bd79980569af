"""The table of a verb: a file or a dataframe, read with the options that every verb shares."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import Location
from dosimeter.core.text import id_text, safe_text
from dosimeter.tables.bounds_file import read_bounds
from dosimeter.tables.classes import keep_listed_classes
from dosimeter.tables.declared_bounds import Declaration, Range, declarations
from dosimeter.tables.missing_values import declared_gaps
from dosimeter.tables.person_ids import with_person_ids
from dosimeter.tables.read import read_column, read_table, table_names
from dosimeter.tables.table import Table, column_names

PublicConstants = dict[str, Any]
"""Column -> the public constant that fills its gaps."""
Constants = Mapping[str, Any] | Sequence[str]
"""The same as a mapping, or as texts COLUMN=VALUE."""
BoundsSource = str | os.PathLike[str] | Mapping[str, Any]
"""A bounds file (TOML), or its contents."""
MissingPolicy = Literal["refuse", "drop", "impute"]
Data = Any
"""A path to .csv or .parquet, or a dataframe: pandas, polars, pyarrow, a dict of columns, a Table."""


def is_path(data: Data) -> bool:
    """Whether the data is named by a file."""
    return isinstance(data, str | os.PathLike)


Names = str | Sequence[str]


def as_names(names: Names | None) -> tuple[str, ...]:
    """Names of columns; one name may stand alone."""
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def read_people(
    data: Data,
    *,
    target: str | None = None,
    person: str | None = None,
    categorical: Sequence[str] = (),
    exclude: Sequence[str] = (),
    tied: Sequence[str] = (),
    not_tied: Sequence[str] = (),
    missing: str = "refuse",
    impute: Constants | None = None,
    model_imputes: bool = False,
    declared: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    keep_class_names: bool = False,
    delimiter: str = ",",
    decimal: str = ".",
) -> Table:
    """The table, with persons and categories as exact text. Options that contradict each other are refused first.

    impute: constants for missing="impute", by column; None for a verb that fills nothing in. model_imputes: a given
    model fills its gaps itself. declared: columns with declared bounds, where a cell that cannot be read is missing.
    classes: of the target, listed in advance; a row of another class counts as one with a missing value.
    keep_class_names: keep them as text.
    """
    constants = check_reading(target, person, categorical, exclude, tied, not_tied, missing, impute, model_imputes)
    targets = [] if target is None else [target]
    persons = [] if person is None else [person]
    text = tuple(dict.fromkeys([*persons, *categorical, *([] if classes is None else targets)]))
    policy: Any = "keep" if missing == "impute" and model_imputes else missing
    needed = (*targets, *tied, *not_tied, *constants)
    whole = (*targets, *persons)
    if is_path(data):
        table = read_table(
            data,
            delimiter=delimiter,
            decimal=decimal,
            text=text,
            drop=tuple(exclude),
            needed=needed,
            missing=policy,
            impute=constants,
            whole=whole,
            declared=declared,
        )
    else:
        table = Table.of(
            data,
            text=text,
            drop=tuple(exclude),
            missing=policy,
            impute=constants,
            whole=whole,
            declared=declared,
        )
        for name in needed:
            table[name]
    location = Location(str(data), first=1) if is_path(data) else Location("frame")
    if policy == "impute":
        columns = {name: table[name] for name in table.names if name not in whole}
        labels = () if declared is None else [name for name in columns if name not in declared]
        table = replace(table, gaps=declared_gaps(columns, table.gaps, constants, labels, location))
    table = with_person_ids(table, person)
    if classes is None or target is None:
        return table
    as_text = keep_class_names or target in categorical
    return keep_listed_classes(table, target, classes, leave_out=missing == "drop", source=location, names=as_text)


def names_of(data: Data, delimiter: str = ",") -> list[str]:
    """The names of a table's columns; no row is read."""
    return table_names(data, delimiter=delimiter) if is_path(data) else column_names(data)


def every_value(data: Data, name: str, delimiter: str = ",") -> list[str | None]:
    """The id of the person on every row, incomplete rows included; None where there is none."""
    if is_path(data):
        cells = read_column(data, name, delimiter=delimiter)
        return [None if cell is None else id_text(cell) or cell for cell in cells]
    others = [other for other in column_names(data) if other != name]
    column = with_person_ids(Table.of(data, text=[name], drop=others, missing="drop"), name)
    values: list[str | None] = [None] * (column.n + column.dropped)
    for position, value in zip(column.rows.tolist(), column[name].tolist(), strict=True):
        values[position] = value
    return values


def check_reading(
    target: str | None,
    person: str | None,
    categorical: Sequence[str],
    exclude: Sequence[str],
    tied: Sequence[str],
    not_tied: Sequence[str],
    missing: str,
    impute: Constants | None,
    model_imputes: bool = False,
) -> PublicConstants:
    """The constants of `impute`, after every contradiction was refused."""
    policies = ("refuse", "drop", *(() if impute is None else ("impute",)))
    if missing not in policies:
        raise Refusal(f"{option('missing', safe_text(missing))}: use {', '.join(policies[:-1])} or {policies[-1]}")
    constants = _constants(impute or {}, missing, exclude)
    if model_imputes and constants:
        raise Refusal(
            f"{option('impute')} is for a model fitted here and {option('model')} has its own imputer: leave one "
            "of the two out"
        )
    named = {"target": [] if target is None else [target], "person": [] if person is None else [person]}
    named |= {"categorical": list(categorical), "tied": list(tied), "not_tied": list(not_tied)}
    for option_name, names in named.items():
        for name in names:
            if name in exclude:
                shown = safe_text(name)
                raise Refusal(
                    f"{option(option_name, shown)}: the column was left out by {option('exclude', shown)}; drop one of "
                    "the two options"
                )
    if target is not None and person == target:
        raise Refusal(f"{option('target', safe_text(target))} is also the {option('person')}: name two columns")
    for option_name in ("tied", "not_tied"):
        if named[option_name] and person is None:
            raise Refusal(
                f"{option(option_name)}: a tied column is one value per person: pass {option('person')} as well"
            )
    return constants


def _constants(impute: Constants, missing: str, exclude: Sequence[str]) -> PublicConstants:
    if isinstance(impute, Mapping):
        constants = dict(impute)
    else:
        constants = {}
        for entry in impute:
            name, sign, value = entry.rpartition("=")
            if not (sign and name and value):
                raise Refusal(f"--impute {safe_text(entry)}: write COLUMN=VALUE, a constant that is public")
            if name in constants:
                raise Refusal(f"--impute {safe_text(entry)}: the column is named twice; leave one of the two out")
            constants[name] = value
    for name in constants:
        if name in exclude:
            raise Refusal(f"{option('impute')} {safe_text(name)}: the column is left out; drop one of the two options")
    if constants and missing != "impute":
        raise Refusal(f"{option('impute')} fills gaps with {option('missing', 'impute')}: pass both")
    return constants


@dataclass(frozen=True)
class FitBounds:
    """What public bounds say to a fit."""

    bounds: dict[str, Declaration] | None = None
    own_units: bool = False
    text: tuple[str, ...] = ()
    """Categories: columns that are read as text."""

    @property
    def numbers(self) -> list[str] | None:
        """Columns in which a cell that cannot be read is missing; None without bounds."""
        if self.bounds is None:
            return None
        return [name for name, column in self.bounds.items() if not isinstance(column, tuple)]

    def classes(self, target: str) -> tuple[str, ...] | None:
        """Those of the target, if it has declared levels."""
        levels = (self.bounds or {}).get(target)
        return levels if isinstance(levels, tuple) else None


def fit_bounds(
    bounds: BoundsSource | None,
    target: str,
    person: str | None = None,
    categorical: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> FitBounds:
    """The bounds of a model of one's own table, checked against the other options.

    bounds: a .toml file, or column -> (lower, upper) or a list of levels.
    """
    if bounds is None:
        return FitBounds()
    if isinstance(bounds, Mapping):
        known, own_units = declarations(bounds), False
        location = Location("bounds")
    else:
        known, own_units, location = _from_file(Path(bounds))
    if person is not None and person in known:
        raise location.refusal(f"[{safe_text(person)}] is the person column", "leave it out there")
    for name in categorical:
        if isinstance(known.get(name), Range):
            fault = f"[{safe_text(name)}] is a number, and {option('categorical')} names it"
            raise location.refusal(fault, "give it levels = [...]")
    kept = {name: column for name, column in known.items() if name not in exclude}
    text = tuple(name for name, column in kept.items() if isinstance(column, tuple) and name != target)
    return FitBounds(kept, own_units, text)


def _from_file(path: Path) -> tuple[dict[str, Declaration], bool, Location]:
    """What a bounds file declares, whether numbers keep their units, and where to find it."""
    declared = read_bounds(path)
    if declared.row_norm is not None:
        raise declared.source.refusal("row-norm is for dosimeter pca: no row is shortened here", "leave it out")
    return dict(declared.columns), declared.own_units, declared.source


_SHORTEST_NUMBER = 8
"""Digits of an id that is looked for: shorter numbers are in any file."""


def to_find(table: Table, person: str | None) -> Table:
    """The table as files are searched for it: the id of a person counts as a text of one row, however many they have.

    >>> import numpy as np
    >>> people = Table.of({"id": ["ann-1", "ann-1", "bob-7"], "age": [31.0, 32.0, 54.0]})
    >>> to_find(people, "id")["id"].tolist()
    ['ann-1', '', 'bob-7']
    """
    if person is None:
        return table
    seen: set[str] = set()
    ids = table[person].copy()
    for row, name in enumerate(map(str, ids.tolist())):
        short = name.isdigit() and len(name) < _SHORTEST_NUMBER
        ids[row] = "" if short or name in seen else name
        seen.add(name)
    if not any(ids):
        return table.drop([person])
    columns = tuple(ids if name == person else table[name] for name in table.names)
    return Table(table.names, columns, table.rows, table.dropped, table.gaps)
