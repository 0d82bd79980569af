"""The bounds file, in TOML: what is known about the columns without reading the table.

neighbours = "replace-one"       # or "add-or-remove", which needs n
n = 500                          # a public number of rows, or of people if a person column is named
row-norm = 2.5                   # optional: longer rows are shortened, after centring and scaling
own-units = false                # true: columns are not scaled to their bounds

[age]                            # a column, by its name
lower = 18
upper = 100
centre = 50                      # optional, public; the middle otherwise

[city]                           # a category, with its public list
levels = ["Graz", "Ulm"]
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from dosimeter.core.face import command_or_call, offers, option
from dosimeter.core.location import Location, advice
from dosimeter.core.text import safe_list, safe_text
from dosimeter.files.file_checks import regular_file
from dosimeter.pca.sensitivity import ADD_OR_REMOVE, REPLACE
from dosimeter.tables.declared_bounds import Declaration, Range

NEIGHBOURS = {"replace-one": REPLACE, "add-or-remove": ADD_OR_REMOVE, ADD_OR_REMOVE: ADD_OR_REMOVE}
_LARGEST = 1 << 20
_MOST_ROWS = 10**12
_SETTINGS = ("neighbours", "n", "row-norm", "centre", "own-units")
_KEYS = ("lower", "upper", "centre", "levels")


@dataclass(frozen=True)
class TableBounds:
    """What is known about a table without reading it: its columns by name, and settings for the whole table."""

    columns: Mapping[str, Declaration]
    neighbours: str | None = None
    n: int | None = None
    row_norm: float | None = None
    own_units: bool = False
    public: bool = True
    """False if the bounds were read off the table: not private."""
    source: Location = field(default_factory=lambda: Location("bounds"))

    @property
    def categories(self) -> list[str]:
        """Columns that are read as text."""
        return [name for name, column in self.columns.items() if isinstance(column, tuple)]

    def for_columns(self, names: Collection[str], excluded: Collection[str] = ()) -> dict[str, Declaration]:
        """One declaration for each of these columns, numbers first; refused if one is missing or unknown."""
        for name in self.columns:
            if name not in names and name not in excluded:
                raise self.source.refusal(f"[{safe_text(name)}] is not a column of the table", advice(name, names))
        undeclared = [name for name in names if name not in self.columns]
        if undeclared:
            first = safe_text(undeclared[0])
            todo = f"add [{first}] with lower and upper (or levels), or leave it out: {option('exclude', first)}"
            raise self.source.refusal(f"nothing is declared about {safe_list(undeclared, 4)}", todo)
        ordered = sorted(names, key=lambda name: isinstance(self.columns[name], tuple))
        return {name: self.columns[name] for name in ordered}


def template_hint() -> str:
    """Where to get a bounds file to fill in.

    >>> template_hint()
    '`dosimeter.bounds_template(table)` gives a file to fill in'
    """
    source = command_or_call(f"dosimeter pca TABLE {option('template')}", "dosimeter.bounds_template(table)")
    return f"`{source}` gives a file to fill in"


def nearest(word: str, known: Collection[str]) -> str:
    """The nearest known word, or all of them.

    >>> nearest("uper", ("lower", "upper"))
    'did you mean upper?'
    """
    near = get_close_matches(word[:100], known, n=1)
    return f"did you mean {near[0]}?" if near else f"use {safe_list(known, 12)}"


def read_bounds(path: str | os.PathLike[str]) -> TableBounds:
    """The bounds in a file. Whether the table has these columns is checked later."""
    file, source = regular_file(path, _LARGEST)
    try:
        tables = tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise source.refusal(f"not valid TOML ({safe_text(error, 120)})", f"fix it; {template_hint()}") from None
    return bounds_of(tables, source)


def bounds_of(tables: Mapping[str, Any], source: Location | None = None) -> TableBounds:
    """The bounds that a mapping declares, in the form of the file.

    >>> bounds_of({"age": {"lower": 18, "upper": 100}}).columns["age"]
    Range(lower=18.0, upper=100.0, centre=59.0)
    """
    source = source or Location("bounds")
    settings = {key.replace("_", "-"): value for key, value in tables.items() if not isinstance(value, dict)}
    for key in settings:
        if key not in _SETTINGS:
            todo = f"{nearest(key, _SETTINGS)}; a column is a table of its own, [{safe_text(key)}]"
            raise source.refusal(f"{safe_text(key)} is not a setting", todo)
    table_centre = _number(settings["centre"], "centre", source) if "centre" in settings else None
    columns = {
        name: _declaration(name, spec, table_centre, source) for name, spec in tables.items() if isinstance(spec, dict)
    }
    if not columns:
        raise source.refusal("no column is declared", "add [age] and below it lower = 18, upper = 100")
    return TableBounds(columns, **_settings(settings, source), source=source)


def _settings(settings: Mapping[str, Any], source: Location) -> dict[str, Any]:
    relation, n, own_units = settings.get("neighbours"), settings.get("n"), settings.get("own-units", False)
    if relation is not None and (not isinstance(relation, str) or relation not in NEIGHBOURS):
        raise source.refusal(f"neighbours = {safe_text(relation)}", 'use "replace-one" or "add-or-remove"')
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= _MOST_ROWS):
        raise source.refusal(f"n = {safe_text(n)}", f"give a whole number of rows, 1 to {_MOST_ROWS}")
    if not isinstance(own_units, bool):
        raise source.refusal(f"own-units = {safe_text(own_units)}", "use true or false")
    norm = _number(settings["row-norm"], "row-norm", source) if "row-norm" in settings else None
    if norm is not None and norm <= 0:
        raise source.refusal(f"row-norm = {norm:g}", "give a number above 0")
    return {
        "neighbours": None if relation is None else NEIGHBOURS[relation],
        "n": n,
        "row_norm": norm,
        "own_units": own_units,
    }


def _declaration(name: str, spec: Mapping[str, Any], table_centre: float | None, source: Location) -> Declaration:
    shown = f"[{safe_text(name)}]"
    for key in spec:
        if key not in _KEYS:
            raise source.refusal(f"{shown} has no {safe_text(key)}", nearest(key, _KEYS))
    if "levels" in spec:
        if len(spec) > 1:
            raise source.refusal(f"{shown} has levels and bounds", "a column is a category or a number: leave one out")
        return _levels(spec["levels"], shown, source)
    for key in ("lower", "upper"):
        if key not in spec:
            raise source.refusal(f"{shown} has no {key}", "a number needs lower and upper, a category levels")
    lower, upper = (_number(spec[key], f"{shown} {key}", source) for key in ("lower", "upper"))
    if lower >= upper:
        fault = f"{shown} lower = {lower:g} is not below upper = {upper:g}"
        todo = f", or leave the column out ({option('exclude')})" if offers("exclude") else ""
        raise source.refusal(fault, f"give a range{todo}")
    if not math.isfinite(upper - lower):
        raise source.refusal(f"{shown} spans more than a float64 holds", "give bounds that are closer")
    middle = lower + (upper - lower) / 2
    centre = (
        _number(spec["centre"], f"{shown} centre", source)
        if "centre" in spec
        else middle
        if table_centre is None
        else table_centre
    )
    return Range(lower, upper, centre)


def _levels(names: Any, shown: str, source: Location) -> tuple[str, ...]:
    listed = isinstance(names, list) and all(isinstance(v, str | int) and not isinstance(v, bool) for v in names)
    if not listed or not names:
        raise source.refusal(f"{shown} levels must be a list of names", 'write levels = ["a", "b"]')
    levels = tuple(str(v) for v in names)
    if len(set(levels)) < len(levels):
        raise source.refusal(f"{shown} names a level twice", "leave one out")
    return levels


def _number(value: Any, subject: str, source: Location) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise source.refusal(f"{subject} is {safe_text(repr(value))}", "give a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise source.refusal(f"{subject} is {number}", "give a finite number")
    return number


def template(names: Collection[str]) -> str:
    """A bounds file for these columns, to be filled in by someone who does not look at the table.

    >>> print(template(["age"]).splitlines()[-3])
    [age]
    """
    lines = [
        "# What is known about each column without the table. Give lower and upper, or levels = [...] for a category.",
        '# Above the columns you may set neighbours = "replace-one" or "add-or-remove", n, row-norm, own-units = true.',
    ]
    for name in names:
        lines += ["", f"[{_key(name)}]", 'lower = "fill in"', 'upper = "fill in"']
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    if name and all(c.isascii() and (c.isalnum() or c in "-_") for c in name):
        return name
    return '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 32 or c in '"\\\x7f' else c for c in name) + '"'
