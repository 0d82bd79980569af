"""Bytes of a zip archive that belong to no member: before, between and behind them, comments and extra fields.

Programs that open the archive never show these bytes, and everyone who has the file has them.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import numpy as np

from dosimeter.scanner.contents import FileArray

SURPLUS = "outside the members"
_WHY = "{} bytes that belong to no member of the archive"
_LOCAL, _CENTRAL, _END = 30, 46, 22
_DESCRIPTOR = 24
"""Most bytes of the sizes behind a member that was written as a stream."""
_ZIP64 = b"PK\x06\x06"
_ZIP64_SIZE = 76
_KNOWN_EXTRA = (0x0001, 0x000A, 0x5455, 0x5855, 0x7855, 0x7875, 0xCAFE, 0x9901)
"""Extra fields of sizes, times and owners."""
_LONGEST_EXTRA = 64
_PADDING = (0x4246, 0xD935)
"""Extra fields that align what follows, of torch and of Android."""


def surplus_of(data: bytes) -> bytes:
    """What lies outside the members, b"" if that is padding alone. The archive was opened before.

    >>> buffer = io.BytesIO()
    >>> with zipfile.ZipFile(buffer, "w") as archive:
    ...     archive.writestr("a", "1")
    ...     archive.comment = b"ann, bob"
    >>> surplus_of(buffer.getvalue()), surplus_of(b"before" + buffer.getvalue())
    (b'ann, bob', b'before\\x00ann, bob')
    """
    try:
        pieces = [piece for piece in _pieces(data) if piece.strip(b"\0 ")]
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OSError):
        return b""
    return b"\0".join(pieces)


def as_parts(surplus: bytes) -> tuple[tuple[FileArray, ...], tuple[tuple[str, str], ...]]:
    """Surplus bytes as a part to search, and the note that nothing else is known about them."""
    if not surplus:
        return (), ()
    part = FileArray(SURPLUS, "", "", "", np.frombuffer(surplus, dtype="V1"))
    return (part,), ((SURPLUS, _WHY.format(len(surplus))),)


def _pieces(data: bytes) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = sorted(archive.infolist(), key=lambda member: member.header_offset)
        central, comment = archive.start_dir, archive.comment
    at = 0
    for member in members:
        start = member.header_offset
        yield data[at:start]
        name, extra = (int.from_bytes(data[start + k : start + k + 2], "little") for k in (26, 28))
        fields = start + _LOCAL + name
        yield from _extra_fields(data[fields : fields + extra])
        yield from _extra_fields(member.extra)
        yield member.comment
        at = fields + extra + member.compress_size
        if member.flag_bits & 8:  # its sizes stand behind it
            at = _behind_descriptor(data, at)
    yield data[at:central]
    directory = sum(
        _CENTRAL + len(member.orig_filename.encode("utf-8" if member.flag_bits & 0x800 else "cp437", "replace"))
        + len(member.extra) + len(member.comment)
        for member in members
    )  # fmt: skip
    end = data.rfind(b"PK\x05\x06")
    after = data[central + directory : end] if end >= 0 else b""
    yield after[_ZIP64_SIZE:] if after.startswith(_ZIP64) else after
    yield comment
    yield data[end + _END + len(comment) :] if end >= 0 else b""


def _behind_descriptor(data: bytes, at: int) -> int:
    """Where the next header begins, if it is no farther than the sizes of the member before it."""
    near = data.find(b"PK", at + 8, at + _DESCRIPTOR + 4)
    while near >= 0 and data[near : near + 4] not in (b"PK\x03\x04", b"PK\x01\x02"):
        near = data.find(b"PK", near + 1, at + _DESCRIPTOR + 4)
    return at if near < 0 else near


def _extra_fields(extra: bytes) -> Iterator[bytes]:
    """The extra fields that are neither known and short nor padding of one letter."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = (int.from_bytes(extra[at + k : at + k + 2], "little") for k in (0, 2))
        field = extra[at + 4 : at + 4 + size]
        known = kind in _KNOWN_EXTRA and size <= _LONGEST_EXTRA
        if not known and not (kind in _PADDING and len(set(field)) <= 1):
            yield field
        at += 4 + size
    yield extra[at:]
