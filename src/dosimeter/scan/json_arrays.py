"""JSON: arrays, lists, records and columns wherever they lie in nested objects."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dosimeter.core.location import Location
from dosimeter.scan.contents import Contents, FileArray

LARGEST = 2**25
"""Bytes of JSON: it grows up to twentyfold when it is parsed."""
_NUMBER = re.compile(r"\[\d+\]")
_MANY_TABLES = 50
_MANY = 20  # keys of an object beyond this are taken for somebody's names and are not shown


def read_json(data: bytes, source: Location) -> Contents:
    """Every list of numbers or text, every list of records and every object of equal columns."""
    if len(data) > LARGEST:
        raise source.refusal(f"{len(data)} bytes of JSON", f"give at most {LARGEST}")
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        why = "nested too deeply" if isinstance(error, RecursionError) else "not JSON in UTF-8"
        raise source.refusal(f"{why}{place}", "correct the file") from None
    return Contents("JSON", tuple(stacked(parts_of(found), _NUMBER)))


def stacked(parts: Iterable[FileArray], number: re.Pattern[str] | None = None) -> Iterator[FileArray]:
    """Lists of one length at places that differ in a hidden name (or in a `number`) alone are lines of one table.

    So are small tables of one width, where there are many: each by itself would be compared by itself.
    """
    alike: dict[tuple[str, int, int], list[FileArray]] = defaultdict(list)
    for part in parts:
        ndim = part.values.ndim if part.numeric else 0
        width = part.values.shape[-1] if ndim in (1, 2) else 0
        alike[(number.sub("[*]", part.place) if number else part.place, ndim, width)].append(part)
    for (place, ndim, width), group in alike.items():
        if width >= 2 and len(group) >= (2 if ndim == 1 else _MANY_TABLES):
            values = np.concatenate([np.atleast_2d(part.values) for part in group])
            yield FileArray(place, group[0].holder, group[0].owner, group[0].name, values)
        else:
            yield from group


def parts_of(found: Any) -> Iterator[FileArray]:
    """Parts of a value that json made, in the order in which they stand. Walks with a stack of its own."""
    stack: list[tuple[Any, str, str, str]] = [(found, "", "", "")]
    while stack:
        value, here, holder, name = stack.pop()
        whole, rest = _whole(value)
        if whole is not None:
            yield FileArray(here or "all", holder, "", name, **whole)
        if isinstance(rest, dict):
            hidden = many(rest)
            below = [(one, _under(here, "*" if hidden else str(key)), here, str(key)) for key, one in rest.items()]
            stack.extend(reversed(below))
        elif isinstance(rest, list):
            stack.extend(reversed([(one, f"{here}[{k}]", here, name) for k, one in enumerate(rest)]))


def many(held: dict[str, Any]) -> bool:
    """Whether keys are taken for somebody's names and are not shown: too many, or all with the same things below."""
    below = [frozenset(one) if isinstance(one, dict) else None for one in held.values()]
    return len(held) > _MANY or (len(below) >= 2 and None not in below and len(set(below)) == 1)


def _under(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _whole(value: Any) -> tuple[dict[str, Any] | None, Any]:
    """The value as one part (an array or texts), and what must still be taken apart."""
    if isinstance(value, bool | int | float):
        return _numbers([value]), None
    if isinstance(value, str):
        return {"texts": (value,)}, None
    if isinstance(value, dict) and len(value) >= 2:
        # Columns under their names, or people under theirs: the matching tries both ways.
        columns = {key: one for key, one in value.items() if _is_column(one)}
        even = len({len(one) if isinstance(one, list) else -1 for one in value.values()}) == 1
        if len(columns) >= 2 and even and (made := _numbers(list(columns.values()))) is not None:
            return {"values": made["values"].T}, {key: one for key, one in value.items() if key not in columns}
        record = [one for one in value.values() if _is_number(one)]
        if len(record) >= 2:  # one person's numbers under their columns' names; each is still looked at by itself
            return _numbers(record), value
    if isinstance(value, list) and value:
        made = _listed(value)
        return made, value if made is None else None
    return None, value


def _listed(value: list[Any]) -> dict[str, Any] | None:
    if all(isinstance(one, str) for one in value):
        return {"texts": tuple(value)}
    if len(value) >= 2 and all(isinstance(one, dict) for one in value):
        keys = [key for key in value[0] if all(_is_number(one.get(key)) for one in value)]
        return _numbers([[one[key] for key in keys] for one in value]) if keys else None
    made = _numbers(value)
    if made is None and len(value) >= 2 and all(isinstance(one, list) and len(one) == len(value[0]) for one in value):
        # Rows of a table with text in some columns: the columns of numbers.
        columns = [column for column in zip(*value, strict=True) if _is_column(list(column))]
        made = _numbers([list(row) for row in zip(*columns, strict=True)]) if len(columns) >= 2 else None
    return made


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _is_column(value: Any) -> bool:
    if not isinstance(value, list) or len(value) < 2 or not any(_is_number(one) for one in value):
        return False
    return all(one is None or _is_number(one) for one in value)


def _numbers(value: list[Any]) -> dict[str, Any] | None:
    """As float64, if every leaf is a number and the lists are of equal length; a null among numbers is a gap."""
    shape: list[int] = []
    level: Any = value
    while isinstance(level, list):
        shape.append(len(level))
        level = level[0] if level else None
    flat = _flat(value, shape)
    if flat is None or not flat:
        return None
    try:
        return {"values": np.array(flat, dtype=np.float64).reshape(shape)}
    except (OverflowError, ValueError, TypeError):  # an integer beyond float64
        return None


def _flat(value: list[Any], shape: list[int]) -> list[Any] | None:
    rows = [value]
    for size in shape:
        if any(not isinstance(row, list) or len(row) != size for row in rows):
            return None
        rows = [one for row in rows for one in row]
    if not all(one is None or _is_number(one) for one in rows) or all(one is None for one in rows):
        return None
    return [float("nan") if one is None else one for one in rows]
