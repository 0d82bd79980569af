"""Where any of many byte strings occurs in bytes, at every offset.

Each byte string (needle) has a key, four of its bytes. All 32-bit words of the data at the four alignments are looked
up in a table of hashed keys; what passes is looked up in a second one, then compared with the keys and the whole
needles. The first table holds one byte for each of 2**24 hashes: packed into bits it is not faster, and half the size
lets twice as many words pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import Index

Bytes = NDArray[np.uint8]
_BITS = 24
_FIRST, _SECOND = np.uint32(2654435761), np.uint32(2246822519)
_CHUNK = 1 << 16
_MOST_PAIRS = 1 << 22
"""Comparisons of one needle with one place: beyond, the needles with the most common keys are left out."""
_MOST_CANDIDATES = 1 << 24


@dataclass(frozen=True, eq=False)
class Needles:
    """Byte strings of at least four bytes.

    blob: all bytes; start, length: (m,) of each needle in it; key_at: (m,) where its key begins in it.
    """

    blob: Bytes
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    key_at: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Their number."""
        return len(self.start)

    def keys(self) -> NDArray[np.uint32]:
        """(m,) the four bytes of each at `key_at`, as a little-endian number."""
        return read_words(self.blob, self.start + self.key_at)

    @classmethod
    def of_strings(cls, strings: list[bytes], key_at: list[int]) -> Needles:
        """From byte strings of any lengths."""
        length = np.array([len(string) for string in strings], dtype=np.int64)
        blob = np.frombuffer(b"".join(strings), dtype=np.uint8)
        return cls(blob, np.cumsum(length) - length, length, np.array(key_at, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Places:
    """Where needles occur: (h,) offsets, in order, and the number of the needle at each.

    too_common: needles left out because their keys are everywhere in these bytes.
    """

    offset: Index
    needle: Index
    too_common: int = 0


def read_words(data: Bytes, offsets: NDArray[np.int64]) -> NDArray[np.uint32]:
    """(k,) the little-endian 32-bit words at these offsets."""
    return np.ascontiguousarray(data[offsets[:, None] + np.arange(4)]).view("<u4").ravel()


def locate(data: Bytes, needles: Needles) -> Places:
    """Every place where a needle occurs."""
    if not needles.size or len(data) < 4:
        return Places(np.empty(0, np.intp), np.empty(0, np.intp))
    keys = needles.keys()
    keep = np.flatnonzero(~_is_uniform(keys))
    order = keep[np.argsort(keys[keep], kind="stable")]
    sorted_keys = keys[order]
    positions = _candidates(data, sorted_keys)
    words = read_words(data, positions)
    low = np.searchsorted(sorted_keys, words, "left")
    counts = np.searchsorted(sorted_keys, words, "right") - low
    hit = counts > 0
    positions, low, counts = positions[hit], low[hit], counts[hit]
    too_common = needles.size - len(keep)
    if counts.sum() > _MOST_PAIRS:
        rare = _rare_keys(low, counts)
        too_common += int(counts[np.unique(low[~rare], return_index=True)[1]].sum()) if (~rare).any() else 0
        positions, low, counts = positions[rare], low[rare], counts[rare]
    which = np.repeat(low, counts) + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    needle = order[which]
    offset = np.repeat(positions, counts) - needles.key_at[needle]
    inside = (offset >= 0) & (offset + needles.length[needle] <= len(data))
    offset, needle = _equal(data, needles, offset[inside], needle[inside])
    by_offset = np.argsort(offset, kind="stable")
    return Places(offset[by_offset], needle[by_offset], too_common)


def _is_uniform(keys: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Four equal bytes: padding, found in any file."""
    return np.asarray(keys == (keys & np.uint32(0xFF)) * np.uint32(0x01010101))


def _candidates(data: Bytes, keys: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Offsets whose word passes both hashed tables."""
    tables = []
    for factor in (_FIRST, _SECOND):
        table = np.zeros(1 << _BITS, dtype=bool)
        table[(keys * factor) >> np.uint32(32 - _BITS)] = True
        tables.append(table)
    pieces: list[NDArray[np.int64]] = []
    hashed, passes = np.empty(_CHUNK, np.uint32), np.empty(_CHUNK, bool)
    total = 0
    for alignment in range(4):
        size = (len(data) - alignment) // 4
        words = data[alignment : alignment + 4 * size].view("<u4")
        for begin in range(0, size, _CHUNK):
            chunk = words[begin : begin + _CHUNK]
            k = len(chunk)
            np.multiply(chunk, _FIRST, out=hashed[:k])
            np.right_shift(hashed[:k], np.uint32(32 - _BITS), out=hashed[:k])
            np.take(tables[0], hashed[:k], out=passes[:k], mode="clip")
            hits = np.flatnonzero(passes[:k])
            hits = hits[tables[1][(chunk[hits] * _SECOND) >> np.uint32(32 - _BITS)]]
            total += len(hits)
            if len(hits) and total <= _MOST_CANDIDATES:
                pieces.append((hits + begin) * 4 + alignment)
    return np.concatenate(pieces) if pieces else np.empty(0, np.int64)


def _rare_keys(low: Index, counts: Index) -> NDArray[np.bool_]:
    """Which candidates to keep: those of the keys with the fewest comparisons, up to the limit."""
    _, inverse, places = np.unique(low, return_inverse=True, return_counts=True)
    first = np.unique(low, return_index=True)[1]
    cost = places * counts[first]
    order = np.argsort(cost, kind="stable")
    affordable = np.zeros(len(cost), dtype=bool)
    affordable[order[np.cumsum(cost[order]) <= _MOST_PAIRS]] = True
    return np.asarray(affordable[inverse.ravel()])


def _equal(
    data: Bytes, needles: Needles, offset: NDArray[np.int64], needle: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs whose bytes are all equal, compared four bytes at a time; the last four overlap."""
    step = 0
    alive = np.arange(len(offset))
    equal = np.zeros(len(offset), dtype=bool)
    while len(alive):
        length = needles.length[needle[alive]]
        at = np.minimum(step, length - 4)
        same = read_words(data, offset[alive] + at) == read_words(needles.blob, needles.start[needle[alive]] + at)
        complete = step + 4 >= length
        equal[alive[same & complete]] = True
        alive = alive[same & ~complete]
        step += 4
    return offset[equal], needle[equal]
