"""Untrusted text made safe to print: names, labels and ids reach a terminal only through these functions."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

# Characters that `str.isprintable` accepts although they are invisible: the grapheme joiner, the Hangul
# fillers, two Khmer vowels, the variation selectors, the blank of braille.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0") | frozenset(
    map(chr, range(0xFE00, 0xFE10))
)


def safe_text(text: object, width: int = 60) -> str:
    r"""`text` on one line of at most `width` characters, with control, bidi and invisible characters escaped.

    Rich markup is not interpreted here and must not be later: pass the result to `rich.text.Text` or
    `rich.markup.escape`, never to `print(f"...")` of a rich console.

    >>> safe_text("bmi\x1b[31m")
    'bmi\\x1b[31m'
    >>> safe_text("a" * 99, width=9)
    'aaaa…aaaa'
    """
    pieces = [_visible(character) for character in str(text)]
    if sum(map(len, pieces)) <= width:
        return "".join(pieces)
    room = max(width - 1, 0)
    # Whole pieces only: an escape cut in half would read as something else.
    tail = _fill(reversed(pieces), room // 2)
    head = _fill(pieces, room - sum(map(len, tail)))
    return "".join(head) + "…" + "".join(reversed(tail))


def safe_list(names: Iterable[object], limit: int = 8) -> str:
    """The first `limit` names on one line that is safe to print, and how many more there are.

    >>> safe_list(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    shown = [safe_text(name) for name in names]
    if len(shown) <= limit:
        return ", ".join(shown)
    return ", ".join(shown[:limit]) + f" and {len(shown) - limit} more"


def id_text(text: str) -> str:
    """A person's id as it is compared: without blanks around it, in Unicode's form NFC.

    >>> id_text(" P17 ")
    'P17'
    """
    return unicodedata.normalize("NFC", text.strip())


def _visible(character: str) -> str:
    if character.isprintable() and character not in _INVISIBLE:
        return character
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _fill(pieces: Iterable[str], room: int) -> list[str]:
    """As many of the first pieces as fit into `room` characters."""
    taken: list[str] = []
    for piece in pieces:
        room -= len(piece)
        if room < 0:
            break
        taken.append(piece)
    return taken
