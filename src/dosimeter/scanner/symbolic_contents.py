"""The arrays, numbers and texts that a pickle or an R file describes, under the names of their attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.text import safe_text
from dosimeter.scanner.contents import Contents, FileArray
from dosimeter.scanner.json_arrays import MANY, keys_are_hidden, stack_lists
from dosimeter.scanner.npy import file_arrays
from dosimeter.scanner.pickle_program import MOST_OPCODES
from dosimeter.scanner.symbolic import Instance, Items
from dosimeter.scanner.wrapped_files import SHORTEST

MOST_PARTS = 200_000
MOST_TEXTS = 2**22
"""Texts of all arrays of characters together: each becomes an object of fifty bytes and more."""
_LONGEST_PLACE = 1000
_MOST_COMPARED_KEYS = 1000
_SHARED = (Instance, Items, list, tuple, bytes, str)
"""What two places may share."""
_Node = tuple[Any, str, str, str, str]


class TooMuch(ValueError):
    """Objects inside each other, or texts, beyond what any model has."""


def parts_of(value: Any) -> Iterator[FileArray]:
    """Arrays in the order of the file; what two places share is reported once.

    >>> model = Instance("SVC", state=Items([("gamma", 0.5), ("names", ["ann", "bob"])]))
    >>> [(part.place, part.shape) for part in parts_of(model)]
    [('gamma', ()), ('names', (2,))]
    """
    stack: list[_Node] = [(value, "", "", "", "")]
    seen: set[int] = set()
    left, texts_left = MOST_PARTS, MOST_TEXTS
    while stack and left:
        node, place, holder, owner, name = stack.pop()
        if isinstance(node, _SHARED) and (not isinstance(node, bytes | str) or len(node) >= SHORTEST):
            if id(node) in seen:
                continue
            seen.add(id(node))
        array = _as_one_array(node)
        if array is not None:
            left -= 1
            if isinstance(array, np.ndarray) and (array.dtype.kind in "USM" or array.dtype.names):
                texts_left -= array.size
                if texts_left < 0:
                    raise TooMuch(f"more than {MOST_TEXTS} texts: what comes after them is not read")
            if isinstance(array, tuple):
                yield FileArray(place or "all", holder, owner, name, texts=array)
            else:
                yield from file_arrays(place or "all", holder, owner, name, array)
            if isinstance(node, Instance) and isinstance(node.state, Items):  # what R attaches to a vector
                stack.extend(reversed(list(_attributes(node.state, place, holder, owner, name))))
            continue
        if len(place) > _LONGEST_PLACE:
            raise TooMuch("nested too deeply: what is further inside is not read")
        if isinstance(node, Instance):
            holder, owner = place, node.owner
        stack.extend(reversed(list(_below(node, place, holder, owner, name))))


def contents_of_values(kind: str, value: Any, unread: list[tuple[str, str]]) -> Contents:
    """The arrays of what a file describes, and what was not read."""
    parts: list[FileArray] = []
    try:
        for part in parts_of(value):
            parts.append(part)
    except TooMuch as why:
        unread = [*unread, ("all", str(why))]
    return Contents(kind, tuple(stack_lists(parts)), tuple(unread))


def _below(node: Any, place: str, holder: str, owner: str, name: str) -> Iterator[_Node]:
    """The children, each with its place."""
    if isinstance(node, Instance):
        yield from _attributes(node.state, place, holder, owner, name)
        for key, values in (("arguments", node.arguments), ("elements", node.elements)):
            if values:
                yield (list(values), _join(place, key), holder, owner, name)
        if node.items.pairs:
            yield (node.items, place, holder, owner, name)
    elif isinstance(node, Items):
        texts = {key: value for key, value in node.pairs if isinstance(key, str)}
        # Many keys are hidden whatever is below them.
        hidden = len(texts) < len(node.pairs) or (bool(place) and (len(texts) > MANY or keys_are_hidden(_plain(texts))))
        for key, value in node.pairs:
            yield (value, _join(place, "*" if hidden else safe_text(key, 60)), holder, owner, str(key)[:60])
    elif isinstance(node, list | tuple):
        # A step of a Pipeline is a pair of its name and itself: steps[1][1] is just steps[1].
        named = isinstance(node, tuple) and len(node) in (2, 3) and isinstance(node[1], Instance)
        for k, value in enumerate(node):
            yield (value, place if named and k == 1 else f"{place}[{k}]", holder, owner, name)


def _attributes(state: Any, place: str, holder: str, owner: str, name: str) -> Iterator[_Node]:
    """The attributes of an object: its state, which is a dict, or a pair of dicts for objects with slots."""
    if isinstance(state, Items):
        for key, value in state.pairs:
            yield (value, _join(place, safe_text(key, 60)), holder, owner, str(key)[:60])
    elif isinstance(state, tuple) and len(state) == 2 and any(isinstance(half, Items) for half in state):
        for half in state:
            yield from _attributes(half, place, holder, owner, name)
    elif state is not None:
        yield (state, place, holder, owner, name)


def _plain(texts: dict[str, Any]) -> dict[str, Any]:
    """Dicts below as dicts, so that their keys can be compared."""
    return {
        key: dict.fromkeys(map(str, (below for below, _ in value.pairs)))
        if isinstance(value, Items) and len(value.pairs) <= _MOST_COMPARED_KEYS
        else value
        for key, value in texts.items()
    }


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _as_one_array(node: Any) -> NDArray[Any] | tuple[str, ...] | None:
    """An array, a scalar, a list of scalars, or the words of a dict from text to numbers (a vocabulary)."""
    if isinstance(node, Instance):
        return node.array
    if isinstance(node, str):
        return (node,)
    if isinstance(node, bytes | bytearray | memoryview):
        return np.frombuffer(node, dtype="V1") if len(node) >= SHORTEST else None
    if isinstance(node, bool | int | float):
        return _numbers([node])
    if isinstance(node, Items) and len(node.pairs) > 1:
        keys = [key for key, value in node.pairs if isinstance(key, str) and _number(value) is not None]
        if len(keys) == len(node.pairs):
            return tuple(keys)
        columns = _table([value for _, value in node.pairs])
        return None if columns is None else columns.T
    if isinstance(node, list | tuple) and node:
        if all(isinstance(value, str) for value in node):
            return tuple(node)
        values = [_number(value) for value in node]
        return _table(node) if any(value is None for value in values) else _numbers(values)
    return None


def _table(rows: list[Any] | tuple[Any, ...]) -> NDArray[Any] | None:
    """Lists of equally many numbers, or dicts with the same keys and numbers alone, as one table."""
    first = rows[0]
    if len(rows) < 2 or not isinstance(first, list | tuple | Items):
        return None
    if isinstance(first, Items):
        keys = [key for key, _ in first.pairs]
        if any(not isinstance(row, Items) or [key for key, _ in row.pairs] != keys for row in rows):
            return None
        lists = [[value for _, value in row.pairs] for row in rows]
    else:
        if any(not isinstance(row, list | tuple) for row in rows):
            return None
        lists = list(rows)
    if len(lists[0]) < 2 or any(len(row) != len(lists[0]) for row in lists):
        return None
    if len(lists) * len(lists[0]) > MOST_OPCODES:  # a list that holds itself, or one list many times
        return None
    values = [_number(value) for row in lists for value in row]
    flat = None if any(value is None for value in values) else _numbers(values)
    return None if flat is None else flat.reshape(len(lists), -1)


def _number(value: Any) -> bool | int | float | None:
    if (
        isinstance(value, Instance)
        and value.array is not None
        and value.array.shape == ()
        and value.array.dtype.kind in "biuf"
    ):
        number = value.array.item()
        return number if isinstance(number, bool | int | float) else None
    return value if isinstance(value, bool | int | float) else None


def _numbers(values: list[Any]) -> NDArray[Any] | None:
    try:
        numbers = np.array(values, dtype=np.float64)
    except (OverflowError, ValueError):  # an integer beyond float64
        return None
    return numbers if len(values) > 1 else numbers.reshape(())
