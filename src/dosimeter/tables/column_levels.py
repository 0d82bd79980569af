"""The levels of a category: as text in their order, and as the values that a dataframe holds.

A level is text here whatever the table holds: the number 7 is "7", 2.5 is "2.5" and True is "True". A released
pipeline reads other people's frames, where codes are numbers again: `frame_levels` is the only place that decides so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import Index
from dosimeter.core.errors import Refusal
from dosimeter.core.face import command_or_call
from dosimeter.tables.table import Table

_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")
_SIGNED_WHOLE = re.compile(r"[+-]?\d+")
_CODE = re.compile("0|-?[1-9][0-9]{0,17}")
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d{0,15})\.\d{1,17}")


def level_positions(table: Table, name: str) -> tuple[tuple[str, ...], Index]:
    """Sorted levels as text, numbers in the order of numbers, and each row's position among them, (n,)."""
    column = table[name]
    if table.kind(name) == "number":
        values, position = np.unique(column, return_inverse=True)
        names = tuple(str(int(v)) if float(v).is_integer() else repr(float(v)) for v in values)
        return names, position.astype(np.intp)
    # A dict and not np.unique, which would sort a million Python strings one comparison at a time.
    cells = [str(cell) for cell in column.tolist()]
    levels = tuple(sorted(set(cells)))
    place = {level: j for j, level in enumerate(levels)}
    return levels, np.fromiter(map(place.__getitem__, cells), dtype=np.intp, count=len(cells))


def level_names(table: Table, name: str) -> tuple[str, ...]:
    """The levels of a column as text, in their order."""
    return level_positions(table, name)[0]


def as_text(table: Table, name: str) -> NDArray[np.str_]:
    """(n,) each cell as the text of its level."""
    levels, position = level_positions(table, name)
    return np.asarray(levels, dtype=np.str_)[position]


def level_values(names: Sequence[str]) -> NDArray[Any]:
    """(k,) classes or levels as values of a table that was read: whole numbers if all of them are.

    >>> level_values(["0", "1"]).tolist(), level_values(["01", "1"]).tolist()
    ([0, 1], ['01', '1'])
    """
    whole = all(_CODE.fullmatch(name) for name in names)
    return np.array([int(name) for name in names]) if whole else np.array(names)


def frame_levels(levels: Sequence[Any], as_text: bool = False) -> tuple[NDArray[Any], Index]:
    """(k,) the levels as a fitted OneHotEncoder needs them for a frame, and their positions in `levels`.

    Numbers and truth values are those in a frame, even if they were read here as labels; as_text: unless the frame
    holds them as text. An encoder looks numbers up by bisection, so they are sorted; texts stay in their order.

    >>> values, order = frame_levels(["10", "9", "-1"])
    >>> values.tolist(), order.tolist()
    ([-1, 9, 10], [2, 1, 0])
    >>> frame_levels(["10", "9"], as_text=True)[0].tolist(), frame_levels(["7.3", "0.5"])[0].tolist()
    (['10', '9'], [0.5, 7.3])
    >>> frame_levels(["1", "1.0"])[0].tolist()
    ['1', '1.0']
    """
    if all(isinstance(level, str) for level in levels):
        values = np.array(levels, dtype=object) if as_text else _typed(levels)
    else:
        numbers = all(isinstance(level, Real | np.bool_) for level in levels)
        values = np.array(levels) if numbers else np.array(levels, dtype=object)
    if values.dtype.kind in "OU":
        return values.astype(object), np.arange(len(values))
    order = np.argsort(values, kind="stable")
    return values[order], order


def _typed(names: Sequence[str]) -> NDArray[Any]:
    """(k,) whole numbers, other numbers or truth values if all names are written as these, otherwise text.

    Names of one number ("1" and "1.0") are text: an encoder knows each level once.
    """
    if all(_CODE.fullmatch(name) or _DECIMAL.fullmatch(name) for name in names):
        whole = level_values(names)
        numbers = whole if whole.dtype.kind == "i" else np.array([float(name) for name in names])
        return numbers if len(np.unique(numbers)) == len(names) else np.array(names)
    return np.array([name == "True" for name in names]) if set(names) == {"False", "True"} else np.array(names)


def sort_codes(levels: Sequence[str], as_text: bool = False) -> tuple[str, ...]:
    """Levels in the order of `frame_levels`: codes rising, texts as they are."""
    return tuple(levels[j] for j in frame_levels(levels, as_text)[1])


def comma_refusal(column: str) -> Refusal:
    """The refusal for a column, or a target, of numbers that are text because of their decimal mark."""
    todo = command_or_call(
        "pass --decimal , (for a .csv file)",
        'pass decimal="," for a .csv file, or turn a dataframe\'s column into numbers first',
    )
    return Refusal(f"{column} holds numbers with a decimal comma: {todo}")


def decimal_commas(cells: Iterable[str]) -> bool:
    """Whether text is all numbers, some of them with a comma where a point belongs.

    >>> decimal_commas(["1,5", "2", "-0,25"]), decimal_commas(["1", "2"])
    (True, False)
    """
    texts = list(cells)
    commas = [bool(_DECIMAL_COMMA.fullmatch(cell)) for cell in texts]
    return any(commas) and all(
        comma or _SIGNED_WHOLE.fullmatch(cell) for comma, cell in zip(commas, texts, strict=True)
    )
