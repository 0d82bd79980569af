"""JSON: arrays, lists, records and columns anywhere in nested objects."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dosimeter.core.location import Location
from dosimeter.scanner.contents import Contents, FileArray

LARGEST = 2**25
"""Bytes of JSON: it grows up to twentyfold when it is parsed."""
_NUMBER = re.compile(r"\[\d+\]")
_MANY_TABLES = 50
_FEW = 10
MANY = 20  # more keys in one object are taken for people's names and are not shown


def read_json(data: bytes, source: Location) -> Contents:
    """Every list of numbers or text, every list of records and every object of equal columns."""
    if len(data) > LARGEST:
        raise source.refusal(f"{len(data)} bytes of JSON", f"give at most {LARGEST}")
    try:
        content = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_with_repeated_keys)
    except (ValueError, RecursionError) as error:
        place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        why = "nested too deeply" if isinstance(error, RecursionError) else "not JSON in UTF-8"
        raise source.refusal(f"{why}{place}", "correct the file") from None
    return Contents("JSON", tuple(stack_lists(arrays_in_json(content), _NUMBER)))


def _with_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object with everything under a key that occurs twice: json alone would keep the last."""
    content = dict(pairs)
    if len(content) == len(pairs):
        return content
    return {key if content[key] is value else f"{key} ({k})": value for k, (key, value) in enumerate(pairs)}


def stack_lists(parts: Iterable[FileArray], number: re.Pattern[str] | None = None) -> Iterator[FileArray]:
    """Merge lists of equal length whose places differ only in a hidden name (or in a `number`) into one table.

    Small tables of equal width are merged too if there are many; otherwise each would be compared by itself.
    """
    groups: dict[tuple[str, int, int], list[FileArray]] = defaultdict(list)
    for part in parts:
        ndim = part.values.ndim if part.numeric else 0
        width = part.values.shape[-1] if ndim in (1, 2) else 0
        groups[(number.sub("[*]", part.place) if number else part.place, ndim, width)].append(part)
    for (place, ndim, width), group in groups.items():
        if width >= 2 and len(group) >= (2 if ndim == 1 else _MANY_TABLES):
            values = np.concatenate([np.atleast_2d(part.values) for part in group])
            yield FileArray(place, group[0].holder, group[0].owner, group[0].name, values)
        else:
            yield from group


def arrays_in_json(content: Any) -> Iterator[FileArray]:
    """Arrays in a value that json parsed, in order. Uses its own stack instead of recursion."""
    stack: list[tuple[Any, str, str, str]] = [(content, "", "", "")]
    while stack:
        value, place, holder, name = stack.pop()
        array, remainder = _as_one_array(value)
        if array is not None:
            yield FileArray(place or "all", holder, "", name, **array)
        if isinstance(value, dict) and _keys_are_entries(value):
            yield FileArray(f"{place or 'all'} (keys)", holder, "", "keys", texts=tuple(map(str, value)))
        if isinstance(remainder, dict):
            hide_keys = keys_are_hidden(remainder)
            below = [
                (item, _place_below(place, "*" if hide_keys else str(key)), place, str(key))
                for key, item in remainder.items()
            ]
            stack.extend(reversed(below))
        elif isinstance(remainder, list):
            stack.extend(reversed([(item, f"{place}[{k}]", place, name) for k, item in enumerate(remainder)]))


def keys_are_hidden(mapping: dict[str, Any]) -> bool:
    """True if keys are taken for people's names and are not shown: too many, or all with the same content below."""
    below = [frozenset(item) if isinstance(item, dict) else None for item in mapping.values()]
    return len(mapping) > MANY or (len(below) >= 2 and None not in below and len(set(below)) == 1)


def _keys_are_entries(mapping: dict[str, Any]) -> bool:
    """True if the keys are a list of their own: people's names, or the words of a vocabulary with their numbers."""
    is_vocabulary = len(mapping) >= _FEW and all(type(item) is int for item in mapping.values())
    return len(mapping) > MANY or is_vocabulary


def _place_below(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _as_one_array(value: Any) -> tuple[dict[str, Any] | None, Any]:
    """The value as one array or list of texts, and what remains to be taken apart."""
    if isinstance(value, bool | int | float):
        return _numbers([value]), None
    if isinstance(value, str):
        return {"texts": (value,)}, None
    if isinstance(value, dict) and len(value) >= 2:
        # Columns under their names, or people under theirs: the matching tries both arrangements.
        columns = {key: item for key, item in value.items() if _is_column(item)}
        equal_lengths = len({len(item) if isinstance(item, list) else -1 for item in value.values()}) == 1
        if len(columns) >= 2 and equal_lengths and (array := _numbers(list(columns.values()))) is not None:
            return {"values": array["values"].T}, {key: item for key, item in value.items() if key not in columns}
        record = [item for item in value.values() if _is_number(item)]
        if len(record) >= 2:  # one person's numbers under column names; each is also looked at by itself
            return _numbers(record), value
    if isinstance(value, list) and value:
        array = _array_of_list(value)
        return array, value if array is None else _rest_of_records(value)
    return None, value


def _rest_of_records(value: list[Any]) -> list[Any] | None:
    """Records without the numbers that all of them have: lists and texts in them are looked at by themselves."""
    if not all(isinstance(item, dict) for item in value):
        return None
    taken = _shared_numbers(value)
    rest = [{key: item for key, item in record.items() if key not in taken} for record in value]
    return rest if any(rest) else None


def _shared_numbers(records: list[dict[str, Any]]) -> list[str]:
    return [key for key in records[0] if all(_is_number(record.get(key)) for record in records)]


def _array_of_list(value: list[Any]) -> dict[str, Any] | None:
    if all(isinstance(item, str) for item in value):
        return {"texts": tuple(value)}
    if len(value) >= 2 and all(isinstance(item, dict) for item in value):
        keys = _shared_numbers(value)
        return _numbers([[item[key] for key in keys] for item in value]) if keys else None
    array = _numbers(value)
    if (
        array is None
        and len(value) >= 2
        and all(isinstance(item, list) and len(item) == len(value[0]) for item in value)
    ):
        # Rows of a table with text in some columns: keep the columns of numbers.
        columns = [column for column in zip(*value, strict=True) if _is_column(list(column))]
        array = _numbers([list(row) for row in zip(*columns, strict=True)]) if len(columns) >= 2 else None
    return array


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _is_column(value: Any) -> bool:
    if not isinstance(value, list) or len(value) < 2 or not any(_is_number(item) for item in value):
        return False
    return all(item is None or _is_number(item) for item in value)


def _numbers(value: list[Any]) -> dict[str, Any] | None:
    """As float64, if every leaf is a number and the lists have equal lengths; a null among numbers is a gap."""
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
        rows = [item for row in rows for item in row]
    if not all(item is None or _is_number(item) for item in rows) or all(item is None for item in rows):
        return None
    return [float("nan") if item is None else item for item in rows]
