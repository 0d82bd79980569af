"""How much memory may be used, and how many rows a block may have."""

from __future__ import annotations

import os
import re

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text

DEFAULT = 2 << 30
LEAST = 256 << 20
"""Less than this is what the libraries alone need."""
FIXED = 192 << 20
"""Bytes of the program itself."""
COPIES = 24
"""Arrays of the size of a block that reading, encoding and measuring it may hold at once."""
MOST_ROWS = 1 << 16
"""A block of more rows is no faster: its temporaries leave the cache."""
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def memory_bytes(text: str | int | None) -> int:
    """A size such as 2GB, 500 MB or a number of bytes; units are powers of 1024.

    >>> memory_bytes("2GB"), memory_bytes("1.5 GiB") == 3 << 29, memory_bytes(None) == DEFAULT
    (2147483648, True, True)
    """
    if text is None:
        return DEFAULT
    match = _SIZE.fullmatch(str(text))
    size = int(float(match[1]) * 1024 ** _POWERS[match[2].lower()]) if match else 0
    if size < LEAST:
        least = f"at least {LEAST >> 20}MB"
        raise Refusal(f"{option('memory', safe_text(text))}: give a size such as 2GB, {least}")
    return size


def rows_of_block(columns: int, memory: int) -> int:
    """Rows of a block with this many columns within `memory` bytes, a power of two."""
    spare = max(1 << 24, memory - FIXED) // 2
    rows = spare // (8 * COPIES * max(1, columns))
    return int(min(MOST_ROWS, 1 << max(8, rows.bit_length() - 1)))


def physical_memory() -> int:
    """Bytes of memory that this computer has; DEFAULT if it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return DEFAULT
