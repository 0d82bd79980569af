"""The streams of bytes in a file: compressed layers and archives are unpacked in memory, and nothing in them is run."""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.files.archive import Archive
from dosimeter.scanner.surplus import SURPLUS, surplus_of
from dosimeter.scanner.tar import is_tar, tar_members

DEEPEST = 8
MOST_RATIO = 200
_FREE = 2**26
"""Bytes up to which any ratio of compression is accepted."""
_PIECE = 2**20
HEADER = "header"
_LONG_HEADER = 256
"""Bytes that a name in the header of a gzip stream seldom has."""
_FIRST_PIECE = 2**10
_MOST_STREAMS = 100_000
"""Compressed streams behind each other in one file: bgzip makes one of each 64 kB, and pbzip2 one of each 900 kB."""
_REMEDY = "unpack it yourself and scan what is inside"
_CODECS: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda: zlib.decompressobj(31)),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\x00": ("xz", lambda: lzma.LZMADecompressor(memlimit=2**27)),
    b"\x5d\x00\x00": ("lzma", lambda: lzma.LZMADecompressor(memlimit=2**27)),
    **{bytes((0x78, level)): ("zlib", zlib.decompressobj) for level in (0x01, 0x5E, 0x9C, 0xDA)},
}
_CLOSED = {b"\x28\xb5\x2f\xfd": "zstandard", b"7z\xbc\xaf": "7z"}
_LZ4 = b"\x04\x22\x4d\x18"
_NO_LZ4 = "compressed with lz4: install dosimeter[scan], or unpack it yourself"
_CHUNK_START = re.compile(rb"\x78[\x01\x5e\x9c\xda]")
_NO_PADDING = re.compile(rb"[^\0]")
_MOST_CHUNKS = 20_000
_LARGEST_CHUNK = 2**24

Stream = tuple[str, bytes]
Unread = tuple[str, str]


def unpacked_limit(limit: int, packed: int) -> int:
    """Most bytes that a file of `packed` bytes may unpack to."""
    return min(limit, max(_FREE, MOST_RATIO * packed))


def is_zip(data: bytes) -> bool:
    """True if the bytes begin or end as a zip archive does: one that can be run has a program before it."""
    return data.startswith(b"PK\x03\x04") or data[-22:-18] == b"PK\x05\x06"


def streams(data: bytes, limit: int, source: Location) -> tuple[list[Stream], list[Unread]]:
    """(place, bytes) of everything inside, and (place, why) of what stays closed. Limits are refusals."""
    result: list[Stream] = []
    unread: list[Unread] = []
    stack: list[tuple[str, bytes, int]] = [("", data, 0)]
    left = unpacked_limit(limit, len(data))  # of all layers together
    while stack:
        place, content, depth = stack.pop()
        if depth > DEEPEST:
            raise source.refusal(f"nested more than {DEEPEST} deep", _REMEDY)
        unread += closed_compression(place or "all", content)
        inner = _inside(place, content, left, len(data), source)
        header = long_gzip_header(content)
        result += [(f"{place or 'all'} ({HEADER})", header)] if header else []
        left -= sum(len(below) for _, below in inner)
        stack.extend((below_place, below, depth + 1) for below_place, below in reversed(inner))
        # Chunks are a part of an HDF5 file only, and a zip may stand behind a program.
        if content and (
            not inner or content.startswith(b"\x89HDF") or (not content.startswith(b"PK") and is_zip(content))
        ):
            result.append((place or "all", content))
    return result, unread


def _inside(place: str, content: bytes, left: int, packed: int, source: Location) -> list[Stream]:
    """What a compressed layer or an archive holds; [] if these bytes are neither."""
    if is_zip(content):
        archive = Archive(content, unpacked_limit(left, packed), source)
        surplus = surplus_of(content)
        outside = [(f"{place}/({SURPLUS})".lstrip("/"), surplus)] if surplus else []
        return [*((f"{place}/{name}".lstrip("/"), archive.read(name)) for name in archive.names), *outside]
    if is_tar(content):
        return [(f"{place}/{name}".lstrip("/"), data) for name, data in tar_members(content, source)[0]]
    if content.startswith(b"\x89HDF"):
        return _chunks(place, content, unpacked_limit(left, packed))
    unpacked = without_compression(content, left, packed, source)
    return [] if unpacked is None else [(place, unpacked)]


def closed_compression(place: str, content: bytes) -> list[Unread]:
    """What is to be said of compressed bytes that cannot be unpacked here."""
    closed = next((name for magic, name in _CLOSED.items() if content.startswith(magic)), "")
    if closed:
        return [(place, f"compressed with {closed}, which is not unpacked")]
    return [(place, _NO_LZ4)] if content.startswith(_LZ4) and _lz4_decoder() is None else []


def without_compression(content: bytes, left: int, packed: int, source: Location) -> bytes | None:
    """The bytes without one layer of compression; None if there is none."""
    codec = next(((magic, *entry) for magic, entry in _CODECS.items() if content.startswith(magic)), None)
    lz4 = _lz4_decoder() if content.startswith(_LZ4) else None
    codec = codec if lz4 is None else (_LZ4, "lz4", lz4)
    if codec is None:
        return None
    magic, name, create = codec
    again = b"" if name in ("zlib", "lzma") else magic
    try:
        return _decompressed(create, again, content, unpacked_limit(left, packed), source)
    except (zlib.error, OSError, lzma.LZMAError, EOFError, ValueError, RuntimeError) as error:
        if isinstance(error, Refusal):
            raise
        if name in ("zlib", "lzma"):  # their first bytes are not a signature: other files begin like this too
            return None
        raise source.refusal(f"damaged {name} data", "save the model again") from None


def long_gzip_header(content: bytes) -> bytes:
    """Extra field, name and comment of a gzip stream, which are not unpacked; b"" if they are as short as a name is."""
    if not content.startswith(b"\x1f\x8b") or len(content) < 12:
        return b""
    flags, end = content[3], 10
    if flags & 4:
        end += 2 + int.from_bytes(content[10:12], "little")
    for text in (8, 16):
        if flags & text:
            zero = content.find(b"\0", end)
            end = len(content) if zero < 0 else zero + 1
    return content[10:end] if end - 10 > _LONG_HEADER else b""


def _lz4_decoder() -> Callable[[], Any] | None:
    """A decoder of lz4, or None if the extra is not installed."""
    try:
        from lz4.frame import LZ4FrameDecompressor
    except ImportError:
        return None
    decoder: Callable[[], Any] = LZ4FrameDecompressor
    return decoder


def _chunks(place: str, content: bytes, most: int) -> list[Stream]:
    """The compressed chunks inside a file that keeps them between other bytes, as HDF5 does, as one stream."""
    pieces: list[bytes] = []
    size = 0
    for k, start in enumerate(_CHUNK_START.finditer(content)):
        if k >= _MOST_CHUNKS or size > most:
            break
        decoder = zlib.decompressobj()
        try:
            piece = decoder.decompress(content[start.start() : start.start() + _LARGEST_CHUNK], _LARGEST_CHUNK)
        except zlib.error:
            continue
        if decoder.eof and len(piece) >= 16:
            pieces.append(piece)
            size += len(piece)
    return [(f"{place or 'all'} (chunks)", b"".join(pieces))] if pieces else []


def _decompressed(create: Callable[[], Any], again: bytes, content: bytes, most: int, source: Location) -> bytes:
    """All streams behind each other, and the bytes behind the last one.

    again: how the next stream begins; b"" if there is one alone. A stream is fed in pieces that grow, so that neither
    one large nor many small ones are copied again and again.
    """
    pieces, size, at = list[bytes](), 0, 0
    for _ in range(_MOST_STREAMS):
        decoder, step = create(), _FIRST_PIECE
        while not decoder.eof:
            fed = _left_over(decoder)
            if fed is None:
                fed = content[at : at + step]
                at, step = at + len(fed), min(2 * step, _PIECE)
            piece = decoder.decompress(fed, _PIECE)
            size += len(piece)
            if size > most:
                raise source.refusal(f"it unpacks to more than {most} bytes", _REMEDY)
            if not piece and not fed and not decoder.eof:
                raise EOFError
            pieces.append(piece)
        at -= len(decoder.unused_data or b"")  # lz4 says None
        rest = _NO_PADDING.search(content, at)
        if rest is None:
            return b"".join(pieces)
        at = rest.start()
        if not again or content[at : at + len(again)] != again:
            return b"".join([*pieces, content[at:]])
    raise source.refusal(f"more than {_MOST_STREAMS} compressed streams", _REMEDY)


def _left_over(decoder: Any) -> bytes | None:
    """What a decoder has still to be fed before new bytes; None if it needs these."""
    if hasattr(decoder, "unconsumed_tail"):
        return decoder.unconsumed_tail or None
    return None if decoder.needs_input else b""
