"""Numbers in another notation than the one that is read: thousands separators, or another decimal mark.

`1.234,50` and `1,234.50` are the same amount in two countries, and `1.234` is two amounts. So a column of such cells is
neither read as numbers nor taken for labels: it is refused with both ways out.
"""

from __future__ import annotations

import re

from dosimeter.core.face import option
from dosimeter.core.text import safe_text

_SPACES = "' \u2019\u00a0\u202f"
_GROUPED = {
    ".": re.compile(rf"[+-]?[0-9]{{1,3}}([,{_SPACES}])[0-9]{{3}}(?:\1[0-9]{{3}})*(?:\.[0-9]+)?"),
    ",": re.compile(rf"[+-]?[0-9]{{1,3}}([.{_SPACES}])[0-9]{{3}}(?:\1[0-9]{{3}})*(?:,[0-9]+)?"),
}
_POINT = re.compile(r"[+-]?[0-9]*\.[0-9]+")


def other_notation(cell: str, decimal: str) -> bool:
    """Whether a cell is a number with thousands separators, or with a point where the decimal mark is a comma.

    A comma where the mark is a point is a matter of the whole column: see `column_levels.decimal_commas`.

    >>> [other_notation(cell, ".") for cell in ("1,234.5", "1 234", "1,5", "1234", "12.03.2021")]
    [True, True, False, False, False]
    >>> [other_notation(cell, ",") for cell in ("1.234,5", "0.5", "1,5", "12.03.2021")]
    [True, True, False, False]
    """
    text = cell.strip()
    return bool(_GROUPED[decimal].fullmatch(text)) or (decimal == "," and bool(_POINT.fullmatch(text)))


def notation_remedy(cell: str, column: str, decimal: str) -> str:
    """What to do about a column of such cells."""
    other = "," if decimal == "." else "."
    ways = ["remove the thousands separators"]
    if other in cell and decimal not in cell:
        ways.append(f"pass {option('decimal', other)} if {other!r} is the decimal mark")
    return f"{', '.join(ways)}, or pass {option('categorical', safe_text(column))} for codes"
