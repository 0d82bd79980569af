"""The texts of a file, searched for the table as the bytes of a closed one are.

Arrays are compared under their names, and lists of texts level by level. What is left is a number that is written
inside a sentence, a record whose cells are all texts, an id among others, and a file that was wrapped as base64,
hexadecimal digits or an array of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from dosimeter.core.location import Location
from dosimeter.scanner.closed_files import found_in
from dosimeter.scanner.contents import FileArray
from dosimeter.scanner.finding import Finding
from dosimeter.scanner.known_attributes import WORD_LISTS
from dosimeter.scanner.search import ByteSearch
from dosimeter.scanner.unpack import Unread
from dosimeter.scanner.wrapped_files import bytes_in, decoded, decoded_lists, joined, unwrapped
from dosimeter.tables.table import Table

LARGEST = 2**26
"""Characters of all texts together."""
ALONE, LISTS, NAMES = "texts", "lists of texts", "names of arrays"


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
    names = "\n".join(dict.fromkeys(part.place for part in parts))  # an array for each person, say
    lists = [text for part in chosen if len(part.texts) > 1 for text in part.texts]
    in_lists = decoded_lists(part.texts for part in chosen if len(part.texts) > 1)
    wrapped, unread = unwrapped([*bytes_in(parts), *decoded(alone), *in_lists], ALONE, limit, source)
    findings: list[Finding] = []
    sentences = (ALONE, "\n".join(alone).encode("utf-8", "replace"))
    named = (NAMES, names.encode("utf-8", "replace"))
    listed = (LISTS, "\n".join(lists).encode("utf-8", "replace"))
    for pieces, with_ids in (
        ([sentences, named, *joined(wrapped, f"{ALONE}: wrapped files")], True),
        ([listed], False),
    ):
        held = [piece for piece in pieces if piece[1]]
        if not held:
            continue
        in_texts, problems = found_in(held, ByteSearch.of(table, len(held) + 1, texts=with_ids), table)
        findings += in_texts
        unread += problems
    return findings, unread
