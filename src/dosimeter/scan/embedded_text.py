"""Numbers that lie in a file as text: JSON inside a string, lines of a sheet, base64, a list of written numbers."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dosimeter.scan.contents import FileArray
from dosimeter.scan.json_arrays import parts_of, stacked

LARGEST = 2**24
"""Characters of all texts together that are looked into: JSON grows twentyfold when it is parsed."""
MOST = 25_000
"""Texts that are looked into: each is parsed by itself, which takes a tenth of a millisecond."""
_SHORTEST = 8
_LONGEST_LINE = 2**16
"""Of a sheet: cells of a line are made one by one, and a line without end would become millions of them."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{32,}={0,2}")
_APART = re.compile(r"[,;|\t]|\s+")
_NUMBER = re.compile(r"\[\d+\]")


def unfolded(parts: Iterable[FileArray]) -> tuple[list[FileArray], list[tuple[str, str]]]:
    """Arrays written in the parts' texts, under the same places; without names, for they are nobody's attributes.

    And (place, why) of the texts that were not looked into.

    >>> [made], _ = unfolded([FileArray("note", "", "", "note", texts=("1.5,2.5\\n3.5,4.5",))])
    >>> made.place, made.values.tolist()
    ('note (text)', [[1.5, 2.5], [3.5, 4.5]])
    """
    room, left, found, unread = LARGEST, MOST, list[FileArray](), list[tuple[str, str]]()
    for part in parts:
        written = _numbers(part.texts)
        if written is not None:
            arrays: list[NDArray[np.generic]] = [written]
        else:
            long = [text for text in part.texts if len(text) >= _SHORTEST]
            size = sum(map(len, long))
            if size > room or len(long) > left:
                why = f"texts beyond {LARGEST} characters or {MOST} pieces are not looked into for numbers"
                unread.append((part.place, why))
                continue
            room, left = room - size, left - len(long)
            arrays = [array for text in long for array in _arrays(text)]
        found += [FileArray(f"{part.place} (text)", part.holder, "", "", values) for values in arrays]
    return list(stacked(found, _NUMBER)), unread


def _numbers(texts: tuple[str, ...]) -> NDArray[np.float64] | None:
    """A list of two texts or more that are numbers, each of them."""
    if len(texts) < 2:
        return None
    try:
        return np.array([float(text) for text in texts])
    except ValueError:
        return None


def _arrays(text: str) -> Iterator[NDArray[np.generic]]:
    if text.lstrip()[:1] in ("[", "{"):
        yield from _of_json(text)
    elif _BASE64.fullmatch(text.strip()):
        yield from _of_base64(text.strip())
    elif (sheet := _of_sheet(text)) is not None:
        yield sheet


def _of_json(text: str) -> Iterator[NDArray[np.generic]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return
    inner = (replace(part, holder="") for part in parts_of(found) if part.numeric)
    yield from (part.values for part in stacked(inner, _NUMBER) if part.values.size >= 2)


def _of_base64(text: str) -> Iterator[NDArray[np.generic]]:
    """The bytes as little-endian numbers; what they are not does not match any row."""
    try:
        data = base64.b64decode(text.translate(str.maketrans("-_", "+/")), validate=True)
    except (binascii.Error, ValueError):
        return
    for kind in ("<f8", "<f4"):
        if len(data) % np.dtype(kind).itemsize == 0:
            values = np.frombuffer(data, dtype=kind)
            if np.isfinite(values).all():
                yield values


def _of_sheet(text: str) -> NDArray[np.float64] | None:
    """Lines of equally many cells: the columns in which every cell is a number, a heading left out."""
    written = [line.strip() for line in text.splitlines() if line.strip()]
    if max(map(len, written), default=0) > _LONGEST_LINE:
        return None
    lines = [_APART.split(line) for line in written]
    width = Counter(map(len, lines)).most_common(1)[0][0] if lines else 0
    if width < 2:
        return None
    even = [line for line in lines if len(line) == width]
    body = even[1:] if len(even) > 2 and not any(map(_is_number, even[0])) else even
    columns = [column for column in zip(*body, strict=True) if all(map(_is_number, column))]
    return np.array(columns, dtype=np.float64).T if len(columns) >= 2 else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
