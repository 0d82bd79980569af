"""Files inside a file: bytes in a pickle or in R data, arrays of bytes, and texts of base64 or hexadecimal digits."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.scanner.contents import FileArray
from dosimeter.scanner.unpack import Stream, Unread, streams, unpacked_limit

SHORTEST = 64
MOST_WRAPPED = 10_000
"""Files inside one file that are unpacked."""
_HEXADECIMAL = re.compile(r"(?:[0-9a-f]{2})+|(?:[0-9A-F]{2})+")
_DIGITS = r"[A-Za-z0-9+/_-]"
_BASE64 = re.compile(
    rf"{_DIGITS}{{16,}}+(?:\s{{1,8}}+{_DIGITS}{{16,}}+)*+(?:\s{{1,8}}+{_DIGITS}{{1,15}}+(?==|\s*\Z|[\"'<]))?+={{0,2}}"
)
"""Digits of base64, or hexadecimal ones, in lines, also inside another text. Words of a text are shorter."""
_DATA_URL = re.compile(r"data:[\w.+/;=-]{0,100},")
_URL_SAFE = str.maketrans("-_", "+/")
_SPACE = re.compile(r"\s+")
_GAP = bytes(256)
_TOO_MANY = f"only the first {MOST_WRAPPED} files inside it are unpacked"


def bytes_in(parts: Iterable[FileArray], kinds: str = "iuV") -> Iterator[bytes]:
    """Bytes one after the other: a pickle or a compressed file. kinds: V for bytes as such, iu for arrays of them."""
    for part in parts:
        values = part.values
        one_byte_each = values.dtype.itemsize == 1 and values.dtype.kind in kinds and not values.dtype.names
        if values.ndim == 1 and one_byte_each and len(values) >= SHORTEST:
            yield values.tobytes()


def decoded(texts: Iterable[str]) -> Iterator[bytes]:
    """What texts of base64 or hexadecimal digits stand for, and such digits inside a text, as JSON has them.

    >>> list(decoded(['{"rows": "' + 64 * "41" + '"}']))[0][:4]
    b'AAAA'
    """
    for text in texts:
        if len(text) < SHORTEST:
            continue
        whole = _SPACE.sub("", text)
        for body in [whole] if _HEXADECIMAL.fullmatch(whole) else _BASE64.findall(_DATA_URL.sub("", text, count=1)):
            digits = _SPACE.sub("", body)
            if len(digits) >= SHORTEST and (content := _from_digits(digits)):
                yield content


def decoded_lists(lists: Iterable[tuple[str, ...]]) -> Iterator[bytes]:
    """The same of lists: their lines together, and their texts one by one, as one piece."""
    for texts in lists:
        yield from decoded(["\n".join(texts)])
        each = list(decoded(text for text in texts if len(text) >= SHORTEST))
        if len(each) > 1:
            yield _GAP.join(each)


def _from_digits(body: str) -> bytes | None:
    try:
        if _HEXADECIMAL.fullmatch(body):
            return bytes.fromhex(body)
        return base64.b64decode(body.translate(_URL_SAFE) + "=" * (-len(body) % 4))
    except (binascii.Error, ValueError):
        return None


def unwrapped(files: Iterable[bytes], above: str, limit: int, source: Location) -> tuple[list[Stream], list[Unread]]:
    """The streams of files inside a file, in the order of the file. limit: most bytes that all of them unpack to."""
    result: list[Stream] = []
    unread: list[Unread] = []
    for k, data in enumerate(files):
        if k >= MOST_WRAPPED:
            unread.append((above, _TOO_MANY))
            break
        place = f"{above}: wrapped file {k + 1}"
        try:
            inner, closed = streams(data, max(limit, 1), source)
        except Refusal as why:
            unread.append((place, str(why).removeprefix(f"{source}: ")))
            limit -= min(limit, unpacked_limit(limit, len(data)))  # as much was unpacked before it was refused
            continue
        limit -= sum(len(content) for _, content in inner if content is not data)
        result += [(place, content) for _, content in inner]
        unread += [(place, why) for _, why in closed]
    return result, unread


def joined(pieces: list[Stream], place: str) -> list[Stream]:
    """Many streams as one, with a gap between them: each costs a search of its own."""
    return [(place, _GAP.join(content for _, content in pieces))] if len(pieces) > 1 else pieces
