"""Numbers stored as text in a file: JSON in a string, lines of a sheet, base64, a list of written numbers."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.scanner.contents import FileArray
from dosimeter.scanner.json_arrays import arrays_in_json, stack_lists

LARGEST = 2**24
"""Characters of all texts together that are searched: JSON grows up to twentyfold when it is parsed."""
MOST = 25_000
"""Texts that are searched: each is parsed by itself, which takes a tenth of a millisecond."""
_SHORTEST = 8
_LONGEST_LINE = 2**16
"""Of a sheet: cells of a line are split one by one, and a very long line would become millions of them."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{32,}={0,2}")
_SEPARATOR = re.compile(r"[,;|\t]|\s+")
_AROUND = "\"'[](){}"
"""What may stand around a number: quotes, or the brackets of a list."""
_NUMBER = re.compile(r"\[\d+\]")


def arrays_in_text(parts: Iterable[FileArray]) -> tuple[list[FileArray], list[tuple[str, str]]]:
    """Arrays written in the texts, under the same places, without names: they are no attributes.

    And (place, why) of the texts that were not searched.

    >>> [array], _ = arrays_in_text([FileArray("note", "", "", "note", texts=("1.5,2.5\\n3.5,4.5",))])
    >>> array.place, array.values.tolist()
    ('note (text)', [[1.5, 2.5], [3.5, 4.5]])
    """
    characters_left, texts_left, arrays_found, unread = LARGEST, MOST, list[FileArray](), list[tuple[str, str]]()
    for part in parts:
        list_of_numbers = _numbers(part.texts)
        if list_of_numbers is not None:
            arrays: list[NDArray[np.generic]] = [list_of_numbers]
        else:
            long = [text for text in part.texts if len(text) >= _SHORTEST]
            size = sum(map(len, long))
            if size > characters_left or len(long) > texts_left:
                why = f"texts beyond {LARGEST} characters or {MOST} pieces are not searched for numbers"
                unread.append((part.place, why))
                continue
            characters_left, texts_left = characters_left - size, texts_left - len(long)
            arrays = [array for text in long for array in _arrays(text)]
        arrays_found += [FileArray(f"{part.place} (text)", part.holder, "", "", values) for values in arrays]
    return list(stack_lists(arrays_found, _NUMBER)), unread


def _numbers(texts: tuple[str, ...]) -> NDArray[np.float64] | None:
    """A list of two or more texts that are all numbers."""
    if len(texts) < 2:
        return None
    try:
        return np.array([float(text) for text in texts])
    except ValueError:
        return None


def _arrays(text: str) -> Iterator[NDArray[np.generic]]:
    if text.lstrip()[:1] in ("[", "{") and (content := _json(text)) is not None:
        yield from _arrays_in_json(content)
    elif _BASE64.fullmatch(text.strip()):
        yield from _arrays_in_base64(text.strip())
    elif (sheet := _array_of_sheet(text)) is not None:
        yield sheet


def _json(text: str) -> Any:
    """What the text holds as JSON; None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _arrays_in_json(content: Any) -> Iterator[NDArray[np.generic]]:
    inner = (replace(part, holder="") for part in arrays_in_json(content) if part.numeric)
    yield from (part.values for part in stack_lists(inner, _NUMBER) if part.values.size >= 2)


def _arrays_in_base64(text: str) -> Iterator[NDArray[np.generic]]:
    """The bytes as little-endian numbers; bytes that are something else match no row."""
    try:
        data = base64.b64decode(text.translate(str.maketrans("-_", "+/")), validate=True)
    except (binascii.Error, ValueError):
        return
    for kind in ("<f8", "<f4"):
        if len(data) % np.dtype(kind).itemsize == 0:
            values = np.frombuffer(data, dtype=kind)
            if np.isfinite(values).all():
                yield values


def _array_of_sheet(text: str) -> NDArray[np.float64] | None:
    """Lines with equally many cells: the columns in which every cell is a number, without a heading."""
    written_lines = [line.strip() for line in text.splitlines() if line.strip()]
    if max(map(len, written_lines), default=0) > _LONGEST_LINE:
        return None
    widths = Counter(len(_SEPARATOR.split(line)) for line in written_lines)
    width = widths.most_common(1)[0][0] if widths else 0
    if width < 2:
        return None
    equal_lines = (cells for cells in map(_cells, written_lines) if len(cells) == width)
    body, columns = list[list[str]](), list(range(width))
    first = next(equal_lines)
    is_heading = widths[width] > 2 and not any(map(_is_number, first))
    for cells in equal_lines if is_heading else chain([first], equal_lines):
        columns = [j for j in columns if _is_number(cells[j])]
        if len(columns) < 2:
            return None
        body.append(cells)
    return np.array([[cells[j] for j in columns] for cells in body], dtype=np.float64)


def _cells(line: str) -> list[str]:
    return [cell.strip(_AROUND) for cell in _SEPARATOR.split(line)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
