"""JSON: arrays, lists, records and columns wherever they lie in nested objects."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from dosimeter.frames.source import Source
from dosimeter.scan.part import Contents, Part

LARGEST = 2**26
_NUMBER = re.compile(r"\[\d+\]")
_MANY = 20  # keys of an object beyond this are taken for somebody's names and are not shown


def read_json(data: bytes, source: Source) -> Contents:
    """Every list of numbers or text, every list of records and every object of equal columns."""
    if len(data) > LARGEST:
        raise source.refusal(f"{len(data)} bytes of JSON", f"give at most {LARGEST}")
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        why = "nested too deeply" if isinstance(error, RecursionError) else "not JSON in UTF-8"
        raise source.refusal(f"{why}{place}", "correct the file") from None
    return Contents("JSON", tuple(_stacked(list(parts_of(found)))))


def _stacked(parts: list[Part]) -> Iterator[Part]:
    """Lists of one length at places that differ in a number or a name alone are the lines of one table."""
    alike: dict[tuple[str, int], list[Part]] = defaultdict(list)
    for part in parts:
        size = part.values.size if part.numeric and part.values.ndim == 1 else 0
        alike[(_NUMBER.sub("[*]", part.place), size)].append(part)
    for (place, size), group in alike.items():
        if size >= 2 and len(group) >= 2:
            values = np.array([part.values for part in group])
            yield Part(place, group[0].holder, group[0].owner, group[0].name, values)
        else:
            yield from group


def parts_of(found: Any, place: str = "", owner: str = "") -> Iterator[Part]:
    """Parts of a value that json made, in the order in which they stand. Walks with a stack of its own."""
    stack: list[tuple[Any, str, str, str]] = [(found, place, "", place)]
    while stack:
        value, here, holder, name = stack.pop()
        whole = _whole(value)
        if whole is not None:
            yield Part(here or "all", holder, owner, name, **whole)
        elif isinstance(value, dict):
            many = len(value) > _MANY
            below = [(one, _under(here, "*" if many else str(key)), here, str(key)) for key, one in value.items()]
            stack.extend(reversed(below))
        elif isinstance(value, list):
            stack.extend(reversed([(one, f"{here}[{k}]", here, name) for k, one in enumerate(value)]))


def _under(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _whole(value: Any) -> dict[str, Any] | None:
    """The value as one part: an array or texts; None where it must be taken apart."""
    if isinstance(value, bool | int | float):
        return _numbers([value])
    if isinstance(value, str):
        return {"texts": (value,)}
    if isinstance(value, list) and value:
        return _listed(value)
    if isinstance(value, dict) and len(value) >= 2 and all(_is_column(one) for one in value.values()):
        columns = list(value.values())
        if len({len(one) for one in columns}) == 1:
            # Columns under their names, or people under theirs: the matching tries both ways.
            made = _numbers(columns)
            return None if made is None else {"values": made["values"].T}
    return None


def _listed(value: list[Any]) -> dict[str, Any] | None:
    if all(isinstance(one, str) for one in value):
        return {"texts": tuple(value)}
    if all(isinstance(one, dict) for one in value):
        keys = [key for key, one in value[0].items() if _is_number(one)]
        if len(value) >= 2 and keys and all(all(_is_number(one.get(key)) for key in keys) for one in value):
            return _numbers([[one[key] for key in keys] for one in value])
        return None
    return _numbers(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _is_column(value: Any) -> bool:
    return isinstance(value, list) and len(value) >= 2 and all(_is_number(one) for one in value)


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
