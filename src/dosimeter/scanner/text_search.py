"""The texts of a file of an open format, searched for the table as the bytes of a closed one are.

Arrays are compared under their names, and lists of texts level by level. What is left is a number that is written
inside a sentence, a record whose cells are all texts, an id among others, and a file that was wrapped as base64,
hexadecimal digits or an array of bytes.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.scanner.closed_files import found_in
from dosimeter.scanner.contents import FileArray
from dosimeter.scanner.finding import Finding
from dosimeter.scanner.known_attributes import WORD_LISTS
from dosimeter.scanner.search import ByteSearch, Cells
from dosimeter.scanner.unpack import Stream, Unread, streams
from dosimeter.tables.table import Table

LARGEST = 2**26
"""Characters of all texts together."""
ALONE, LISTS = "texts", "lists of texts"
_SHORTEST = 64
_HEXADECIMAL = re.compile(r"(?:[0-9a-f]{2})+|(?:[0-9A-F]{2})+")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_DATA_URL = re.compile(r"data:[\w.+/;=-]{0,100},")
_SPACE = re.compile(r"\s+")


def text_findings(
    parts: Sequence[FileArray], table: Table, limit: int, source: Location
) -> tuple[list[Finding], list[Unread]]:
    """What of the table is written in the texts of these parts, and in files wrapped in them.

    Ids are looked for in single texts alone: a list may be a vocabulary, and has a comparison of its own.
    """
    chosen = [part for part in parts if part.texts and part.name not in WORD_LISTS]
    if sum(len(text) for part in chosen for text in part.texts) > LARGEST:
        return [], [(ALONE, f"more than {LARGEST} characters of text were not searched")]
    alone = [part.texts[0] for part in chosen if len(part.texts) == 1]
    lists = [text for part in chosen if len(part.texts) > 1 for text in part.texts]
    wrapped, unread = _unwrapped([*_bytes_in(parts), *_decoded(alone)], limit, source)
    cells = Cells.of(table)
    findings: list[Finding] = []
    for pieces, wanted in (
        ([(ALONE, "\n".join(alone).encode("utf-8", "replace")), *wrapped], cells),
        ([(LISTS, "\n".join(lists).encode("utf-8", "replace"))], replace(cells, texts={})),
    ):
        held = [piece for piece in pieces if piece[1]]
        hits, problems = found_in(held, ByteSearch(wanted, len(held) + 1), table)
        findings += hits
        unread += problems
    return findings, unread


def _unwrapped(files: Iterable[bytes], limit: int, source: Location) -> tuple[list[Stream], list[Unread]]:
    """Files inside the file, unpacked."""
    result: list[Stream] = []
    unread: list[Unread] = []
    for k, data in enumerate(files):
        place = f"{ALONE}: wrapped file {k + 1}"
        try:
            inner, closed = streams(data, limit, source)
        except Refusal as why:
            unread.append((place, str(why).removeprefix(f"{source}: ")))
            continue
        result += [(place, content) for _, content in inner]
        unread += [(place, why) for _, why in closed]
    return result, unread


def _bytes_in(parts: Iterable[FileArray]) -> Iterator[bytes]:
    """Arrays that are bytes one after the other: a pickle or a compressed file."""
    for part in parts:
        values = part.values
        if values.ndim == 1 and values.dtype.kind in "iu" and values.dtype.itemsize == 1 and len(values) >= _SHORTEST:
            yield values.tobytes()


def _decoded(texts: Iterable[str]) -> Iterator[bytes]:
    """What texts of base64 or hexadecimal digits stand for."""
    for text in texts:
        if len(text) < _SHORTEST:
            continue
        body = _SPACE.sub("", _DATA_URL.sub("", text, count=1))
        try:
            if _HEXADECIMAL.fullmatch(body):
                yield bytes.fromhex(body)
            elif _BASE64.fullmatch(body):
                yield base64.b64decode(body.translate(str.maketrans("-_", "+/")) + "=" * (-len(body) % 4))
        except (binascii.Error, ValueError):
            continue
