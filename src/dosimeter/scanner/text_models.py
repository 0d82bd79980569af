"""Models and lists written as text: LightGBM's trees, and lines such as a vocabulary."""

from __future__ import annotations

import re

import numpy as np

from dosimeter.scanner.contents import Contents, FileArray
from dosimeter.scanner.embedded_text import arrays_in_text

_ENTRY = re.compile(r"^(threshold|leaf_count|leaf_value|internal_count)=(.*)$", re.MULTILINE)
_LARGEST = 2**25


def is_lightgbm(data: bytes) -> bool:
    """True if the text begins as LightGBM's model files do."""
    return data.startswith((b"tree\nversion", b"tree\r\nversion"))


def read_lightgbm(data: bytes) -> Contents:
    """Thresholds, and how many people are in each leaf."""
    numbers: dict[str, list[float]] = {}
    for name, values in _ENTRY.findall(data.decode("utf-8", "replace")):
        try:
            numbers.setdefault(name, []).extend(float(value) for value in values.split())
        except ValueError:
            continue
    parts = [FileArray(name, "", "LightGBM", name, np.array(values)) for name, values in numbers.items() if values]
    return Contents("LightGBM", tuple(parts))


def read_lines(data: bytes) -> Contents | None:
    """The lines of a text, if it is one, and the numbers written in it."""
    if len(data) > _LARGEST or b"\0" in data[:4096]:
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    lines = tuple(line for line in text.splitlines() if line.strip())
    if len(lines) < 2:
        return None
    whole = FileArray("text", "", "", "text", texts=(text,))
    arrays, unread = arrays_in_text([whole])
    return Contents("text", (FileArray("lines", "", "", "lines", texts=lines), *arrays), tuple(unread))
