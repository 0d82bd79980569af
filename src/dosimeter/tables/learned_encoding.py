"""The encoding that a table's own rows decide: for our own fit, and for teachers through a public table.

Our own fit standardises numbers. A column of two values is a category however it is written: 0 and 1, 0.5 and 7.3, ja
and nein. The figure goes through centre and scale (docs/explanation/scaler.md); what the levels leak is not covered.

With a public table, that table alone decides columns, kinds and levels of a private one, so nothing about one part of
the private table reaches the teacher of another part. Each teacher scales its own rows: a scaler fitted on all private
rows would carry every person's values into every teacher, and one person could change more than one vote.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.category import step_of
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_list, safe_text
from dosimeter.tables.column_encoding import CategoryColumn, ColumnEncoding, NumberColumn
from dosimeter.tables.column_levels import comma_refusal, decimal_commas, level_names, sort_codes
from dosimeter.tables.data_checks import FEW_ROWS, looks_like_id
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.table import Table

INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+")
"""What pandas calls an index that was written into a file, in Parquet and where it reads a CSV again."""
MAX_LEVELS = 256
"""Levels of a category that are taken where its coordinates are written out."""
MANY_LEVELS = 8_000
"""Levels of a category that are taken where it stays sparse (`models/many_levels.py`)."""
FEW_LEVELS = 10
"""A label with more levels than this, and more than a quarter of the rows, identifies rows rather than groups."""
_NUMBER = r"[-+]?\d+(?:\.\d+)?"
_NEARLY_NUMBERS = {
    re.compile(rf"[<>~≤≥€$£]=?\s?{_NUMBER}|{_NUMBER}\s?(?:[€$£%°]|[kmµcd]?[glm]|mmHg|years?|days?)"): (
        "its cells are numbers with a unit or sign: write numbers alone"
    ),
    re.compile(r"\d\d?:\d\d(?::\d\d)?"): "its cells are times: turn them into a number (hours, minutes)",
}
"""Cells that are numbers to a reader and labels here, and what to do with such a column."""
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?(?:[T ].*)?|\d\d?[./]\d\d?[./]\d{2,4}")


def learn_encoding(
    table: Table,
    *,
    categorical: Collection[str] = (),
    max_levels: int = MAX_LEVELS,
    may_name_person: bool = True,
    may_declare: bool = False,
) -> TableEncoding:
    """Centres, scales and levels of the table's own columns; `categorical` names numeric columns that hold codes.

    may_name_person: whether the refusal of an identifier may suggest it as the person column. may_declare: whether that
    of too many levels may suggest to declare them.

    >>> table = Table.of({"age": [40, 60, 36, 64], "race": ["white", "black"] * 2, "one": [1, 1, 1, 1]})
    >>> encoding = learn_encoding(table)
    >>> encoding.names
    ('age', 'race=white')
    >>> encoding.design(table)[:2].round(2)
    array([[-0.82,  0.5 ], [ 0.82, -0.5 ]])
    >>> encoding.input_map.round(3)
    array([[0.082, 0.   ], [0.   , 1.   ]])
    >>> encoding.remarks
    ('column one has one value only and is left out',)
    """
    for name in categorical:
        table[name]
    sources: list[ColumnEncoding] = []
    constant: list[str] = []
    faults: dict[str, str] = {}
    for name in table.names:
        column = table[name]
        if table.n == 0 or (column == column[0]).all():
            constant.append(name)
            continue
        try:
            sources.append(_learned(table, name, name in categorical, max_levels, may_name_person, may_declare))
        except Refusal as fault:
            faults[name] = str(fault)
    if faults:
        raise Refusal(_together(faults))
    return TableEncoding(tuple(sources), tuple(constant))


def _learned(
    table: Table, name: str, declared: bool, max_levels: int, may_name_person: bool, may_declare: bool
) -> ColumnEncoding:
    """The encoding of one column; declared: whether the caller said that it holds codes."""
    if declared or table.kind(name) == "text":
        filled = table.gaps[name].value if name in table.gaps else None
        levels = level_names(table, name)
        column = category_column(name, levels, table.n, declared, max_levels, filled, may_name_person, may_declare)
        return replace(column, as_text=name in table.texts)
    return _two_values(name, table.observed(name).astype(float)) or standardised(name, table[name])


def _together(faults: Mapping[str, str], limit: int = 5) -> str:
    """All columns that cannot be used, in one line: correcting one only to meet the next costs a run each."""
    alike: dict[str, list[str]] = {}
    for name, fault in faults.items():
        alike.setdefault(fault.removeprefix(f"column {safe_text(name)} "), []).append(name)
    texts = [_of_columns(names, faults[names[0]]) for names in alike.values()]
    more = f"; {len(texts) - limit} more columns cannot be used" if len(texts) > limit else ""
    return "; ".join(texts[:limit]) + more


def _of_columns(names: Sequence[str], fault: str) -> str:
    """The fault of the first column, and the names of others with the same one."""
    text, mark, todo = fault.partition(": ")
    return f"{text}, as do {safe_list(names[1:], 6)}{mark}{todo}" if len(names) > 1 else fault


def public_encoding(
    private: Table, public: Table, *, aside: Sequence[str] = (), categorical: Sequence[str] = ()
) -> tuple[TableEncoding, tuple[str, ...]]:
    """Numbers as they are, then an indicator for each public level of each label, and remarks on what was left out.

    All columns of the private table except those in `aside`; the public table must have each of them. A level that it
    does not have has no indicator.

    >>> public = Table.of({"age": [40, 60, 50], "race": ["white", "black", "white"], "more": [1, 2, 3]})
    >>> private = Table.of({"race": ["black", "green"], "age": [30, 70], "ill": ["no", "yes"]})
    >>> encoding, remarks = public_encoding(private, public, aside=["ill"])
    >>> encoding.design(private)
    array([[30., 1., 0.], [70., 0., 0.]])
    """
    used = [name for name in private.names if name not in aside]
    if not used:
        raise Refusal("the private table has no column beside the target: there is nothing to learn from")
    for name in used:
        if name not in public.names:
            shown = safe_text(name)
            raise Refusal(
                f"the public table has no column {shown}: add it there, leave it out ({option('exclude', shown)}), "
                f"or declare that it names the persons ({option('person', shown)})"
            )
        _refuse_other_kind(name, private, public)
    spare = [name for name in public.names if name not in used]
    learned = learn_encoding(public.drop(spare), categorical=categorical)
    numbers = [NumberColumn(number.name) for number in learned.numbers]
    in_order = {label.name: sort_codes(label.levels, label.as_text) for label in learned.labels}
    labels = [replace(label, levels=in_order[label.name], indicators=True) for label in learned.labels]
    unused = [name for name in spare if name not in aside]
    notes = {"not used": unused, "left out, with one value only": learned.constant}
    remarks = tuple(f"public columns {use}: {safe_list(names)}" for use, names in notes.items() if names)
    return TableEncoding((*numbers, *labels)), remarks


def standardised(name: str, u: NDArray[np.float64]) -> NumberColumn:
    """A column by the mean and the standard deviation (1/n) of its values u (n,)."""
    # Divided by the largest magnitude first: the squares of 1e200 are infinite and those of 1e-200 are zero.
    size = float(np.abs(u).max())
    centre, scale = float((u / size).mean() * size), float((u / size).std() * size)
    refuse_odd(name, centre, scale, size)
    return NumberColumn(name, centre, scale, fitted=True)


def _two_values(name: str, u: NDArray[np.float64]) -> NumberColumn | None:
    """A column of two values as -1/2 and 1/2; None if it has more values."""
    step = step_of(u)
    if step is None:
        return None
    low, size = float(u.min()), float(np.abs(u).max())
    refuse_odd(name, low, step, size)
    return NumberColumn(name, low + step / 2, step, two=True)


def refuse_odd(name: str, centre: float, scale: float, size: float) -> None:
    """Refuse a number whose squares leave float64, or that hardly varies, and the number of a row.

    size: its largest magnitude.
    """
    shown = f"column {safe_text(name)}"
    if INDEX.fullmatch(name):
        raise Refusal(
            f"{shown} is the index of a dataframe, not a measured number: pass {option('exclude', safe_text(name))}, "
            "or write the table without it (pandas: index=False)"
        )
    if not 1e-150 < scale < 1e150 or size > 1e150:
        raise Refusal(f"{shown} has a spread of {scale:.3g}: change its units, squares of it leave float64")
    if scale < 1e-12 * size:
        raise Refusal(f"{shown} varies by {scale:.3g} around {centre:.3g}: subtract a fixed number")


def names_rows(name: str, levels: int, n: int) -> bool:
    """Whether labels with this number of levels on n rows identify rows or people.

    More than a quarter as many levels as rows, or a tenth and more in a column whose name has the word "id".

    >>> names_rows("ward", 25, 100), names_rows("ward", 26, 100), names_rows("patient_id", 15, 150)
    (False, True, True)
    """
    enough = levels * FEW_ROWS >= n if looks_like_id(name) else levels > n // 4
    return levels > FEW_LEVELS and enough


def category_column(
    name: str,
    levels: tuple[str, ...],
    n: int,
    declared: bool,
    max_levels: int = MAX_LEVELS,
    filled: object = None,
    may_name_person: bool = True,
    may_declare: bool = False,
) -> CategoryColumn:
    """The encoding of labels with these levels on n rows; refused if they identify rows, or are numbers or dates.

    declared: whether the caller said that the column holds codes: then any number of levels below n is no identifier.
    filled: what replaces gaps, if any were filled. may_name_person, may_declare: as in `learn_encoding`.
    """
    shown = f"column {safe_text(name)}"
    written = [level for level in levels if level != filled]
    if not declared and decimal_commas(written):
        raise comma_refusal(shown)
    leave_out = option("exclude", safe_text(name))
    if len(written) > 2 and all(_DATE.fullmatch(level) for level in written):
        raise Refusal(f"{shown} holds dates: turn them into a number (years, days) or pass {leave_out}")
    whose = f"{option('person', safe_text(name))} or " if may_name_person else ""
    advise = f"looks like an identifier; pass {whose}{leave_out}"
    for written_as, what in _NEARLY_NUMBERS.items():
        if all(written_as.fullmatch(level) for level in written):
            advise = f"{what}, or pass {leave_out}"
    if len(levels) == n:
        raise Refusal(f"{shown} has a different value in each row: {advise}")
    if not declared and names_rows(name, len(levels), n):
        codes = option("categorical", safe_text(name))
        raise Refusal(f"{shown} has {len(levels)} levels in {n} rows: {advise}, or {codes} if it is a category")
    if len(levels) > max_levels:
        declare = f"declare its levels in {option('bounds')}, " if may_declare else ""
        raise Refusal(
            f"{shown} has {len(levels)} levels and at most {max_levels} are taken here: pool rare levels into one, "
            f"keep fewer digits of a code, {declare}or pass {leave_out}"
        )
    return CategoryColumn(name, levels)


def _refuse_other_kind(name: str, private: Table, public: Table) -> None:
    kinds = tuple("text" if table.kind(name) == "text" else "number" for table in (private, public))
    if kinds[0] != kinds[1]:
        shown = safe_text(name)
        raise Refusal(
            f"column {shown} is {kinds[0]} in the private table and {kinds[1]} in the public one: correct one of them, "
            f"or pass {option('categorical', shown)}"
        )
