"""Where any of many byte strings occurs in bytes, at every offset.

Each byte string (needle) has a key, four of its bytes. All 32-bit words of the data at the four alignments are looked
up in a table of hashed keys; what passes is looked up in a second one, then compared with the keys and the whole
needles. The first table holds one byte for each hash: packed into bits it is not faster, and half the size lets twice
as many words pass.

Floating-point numbers of one column share their first two bytes, sign and exponent, with few others. Where a needle
names these two bytes (its sieve), only places that have such a pair are looked up: one in a hundred of random bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import Index

T = TypeVar("T", bound=np.generic)
Bytes = NDArray[np.uint8]
_MOST_BITS, _FEWEST_BITS = 24, 16
NO_SIEVE = -1001
_EDGE = 64
"""Pairs of bytes between a sieve and its key, at most."""
_MOST_SIEVES = 8
"""Sieves of one pass: each has a bit of a byte."""
_LARGEST_SHARE = 0.2
"""Of all pairs of bytes: a sieve that lets more pass is not used."""
_FIRST, _SECOND = np.uint32(2654435761), np.uint32(2246822519)
_CHUNK = 1 << 16
_MOST_PAIRS = 1 << 22
"""Comparisons of one needle with one place: beyond, the needles with the most common keys are left out."""
_MOST_CANDIDATES = 1 << 24
_FEW = 1 << 13
"""Bytes of which every place is looked up: the tables of hashed keys take longer to fill."""


@dataclass(frozen=True, eq=False)
class _Index:
    """order: (m,) needles by their keys; keys: (m,) these keys; first: where each distinct key begins."""

    order: Index
    keys: NDArray[np.uint32]
    first: Index


@dataclass(frozen=True, eq=False)
class Needles:
    """Byte strings of at least four bytes.

    blob: all bytes; start, length: (m,) of each needle in it; key_at: (m,) where its key begins in the needle;
    sieve_at: (m,) where its sieve begins, counted from the key, or `NO_SIEVE`.
    """

    blob: Bytes
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    key_at: NDArray[np.int64]
    sieve_at: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Their number."""
        return len(self.start)

    def keys(self) -> NDArray[np.uint32]:
        """(m,) the four bytes of each at `key_at`, as a little-endian number."""
        return read_words(self.blob, self.start + self.key_at)

    @cached_property
    def index(self) -> _Index:
        """The needles by their keys, without those whose keys are padding."""
        keys = self.keys()
        order, in_order = _by_key(keys, np.flatnonzero(~is_uniform(keys)))
        return _Index(order, in_order, np.flatnonzero(np.append(True, in_order[1:] != in_order[:-1])))

    @classmethod
    def of_strings(cls, strings: list[bytes], key_at: list[int]) -> Needles:
        """From byte strings of any lengths."""
        length = np.array([len(string) for string in strings], dtype=np.int64)
        blob = np.frombuffer(b"".join(strings), dtype=np.uint8)
        no_sieve = np.full(len(strings), NO_SIEVE, dtype=np.int64)
        return cls(blob, np.cumsum(length) - length, length, np.array(key_at, dtype=np.int64), no_sieve)


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
    order, sorted_keys, first = needles.index.order, needles.index.keys, needles.index.first
    if not len(order):
        return Places(np.empty(0, np.intp), np.empty(0, np.intp), needles.size)
    few = len(data) <= _FEW
    positions, too_many = (np.arange(len(data) - 3), False) if few else _candidates(data, needles, order, sorted_keys)
    words = read_words(data, positions)
    at = np.searchsorted(sorted_keys[first], words).clip(0, len(first) - 1)
    hit = sorted_keys[first[at]] == words
    positions, at = positions[hit], at[hit]
    low, counts = first[at], np.diff(np.append(first, len(sorted_keys)))[at]
    too_common = needles.size - (0 if too_many else len(order))  # places behind the last one were not looked up
    if counts.sum() > _MOST_PAIRS:
        rare = _rare_keys(low, counts)
        too_common += int(counts[~rare][np.unique(low[~rare], return_index=True)[1]].sum())
        positions, low, counts = positions[rare], low[rare], counts[rare]
    which = np.repeat(low, counts) + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    needle = order[which]
    offset = np.repeat(positions, counts) - needles.key_at[needle]
    inside = (offset >= 0) & (offset + needles.length[needle] <= len(data))
    offset, needle = _equal(data, needles, offset[inside], needle[inside])
    by_offset = np.argsort(offset, kind="stable")
    return Places(offset[by_offset], needle[by_offset], too_common)


def _by_key(keys: NDArray[np.uint32], chosen: Index) -> tuple[Index, NDArray[np.uint32]]:
    """The chosen needles in the order of their keys, and these: one sort of numbers, five times as fast as argsort."""
    packed = keys[chosen].astype(np.uint64) << np.uint64(32) | chosen.astype(np.uint64)
    packed.sort()
    return (packed & np.uint64(0xFFFFFFFF)).astype(np.intp), (packed >> np.uint64(32)).astype(np.uint32)


def is_uniform(keys: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Four equal bytes: padding, found in any file."""
    return np.asarray(keys == (keys & np.uint32(0xFF)) * np.uint32(0x01010101))


def _candidates(
    data: Bytes, needles: Needles, order: Index, keys: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], bool]:
    """Offsets where a key may begin, in order, each once; and whether there were too many. keys: (m,) of `order`."""
    sieve_at = needles.sieve_at[order]
    sieves: list[_Sieve] = []
    without = np.zeros(len(order), dtype=bool)
    for at in sorted_unique(sieve_at).tolist():
        group = sieve_at == at
        if at % 2 == 0 and abs(at) < 2 * _EDGE and len(sieves) < _MOST_SIEVES:
            which = order[group]
            pairs = np.zeros(1 << 16, dtype=bool)
            pairs[_pairs(needles.blob, needles.start[which] + needles.key_at[which] + at)] = True
            if pairs.mean() <= _LARGEST_SHARE:
                sieves.append(_Sieve(at, pairs, *_tables(keys[group])))
                continue
        without |= group
    searches = [_sieved(data, sieves)] if sieves else []
    if without.any():
        searches.append(_hashed(data, keys[without]))
    pieces = [piece for piece, _ in searches]
    offsets = sorted_unique(np.concatenate(pieces)) if pieces else np.empty(0, np.int64)
    return offsets, any(too_many for _, too_many in searches)


def sorted_unique(values: NDArray[T]) -> NDArray[T]:
    """Each value once, in order. numpy's own counts by hashing, which is ten times slower for hundreds of thousands."""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def _pairs(data: Bytes, offsets: NDArray[np.int64]) -> NDArray[np.intp]:
    """(k,) the little-endian 16-bit words at these offsets."""
    return data[offsets].astype(np.intp) | data[offsets + 1].astype(np.intp) << 8


@dataclass(frozen=True, eq=False)
class _Sieve:
    """Needles whose sieve is `at` bytes from the key, an even number: pairs of bytes, and two tables of hashed keys."""

    at: int
    pairs: NDArray[np.bool_]
    first: NDArray[np.bool_]
    second: NDArray[np.bool_]
    shift: np.uint32


def _sieved(data: Bytes, sieves: list[_Sieve]) -> tuple[NDArray[np.int64], bool]:
    """Offsets of keys whose sieve has one of its pairs, and whose word passes both tables. All sieves in one pass."""
    marks = np.zeros(1 << 16, dtype=np.uint8)
    for k, sieve in enumerate(sieves):
        marks |= sieve.pairs.astype(np.uint8) << k
    pieces: list[NDArray[np.int64]] = []
    total = 0
    marked = np.empty(_CHUNK, np.uint8)
    for alignment in range(2):
        size = (len(data) - alignment) // 2
        pairs = data[alignment : alignment + 2 * size].view("<u2")
        for begin in range(0, size, _CHUNK):
            chunk = pairs[begin : begin + _CHUNK]
            np.take(marks, chunk, out=marked[: len(chunk)], mode="clip")
            hits = np.flatnonzero(marked[: len(chunk)].view(bool))
            which = marked[hits]
            for k, sieve in enumerate(sieves):
                start = hits[(which & np.uint8(1 << k)) != 0] + (begin - sieve.at // 2)
                if begin < _EDGE or begin + len(chunk) > size - _EDGE:
                    start = start[(start >= 0) & (start <= size - 2)]
                words = pairs[start].astype(np.uint32) | pairs[start + 1].astype(np.uint32) << np.uint32(16)
                kept = np.flatnonzero(sieve.first[(words * _FIRST) >> sieve.shift])
                kept = kept[sieve.second[(words[kept] * _SECOND) >> sieve.shift]]
                total += len(kept)
                if len(kept) and total <= _MOST_CANDIDATES:
                    pieces.append(start[kept] * 2 + alignment)
    return np.concatenate(pieces) if pieces else np.empty(0, np.int64), total > _MOST_CANDIDATES


def _tables(keys: NDArray[np.uint32]) -> tuple[NDArray[np.bool_], NDArray[np.bool_], np.uint32]:
    """Which hashes the keys have, 16 and more for each key, by two hashes; and the shift that makes a hash."""
    bits = min(_MOST_BITS, max(_FEWEST_BITS, len(keys).bit_length() + 4))
    shift = np.uint32(32 - bits)
    tables = [np.zeros(1 << bits, dtype=bool) for _ in range(2)]
    for table, factor in zip(tables, (_FIRST, _SECOND), strict=True):
        table[(keys * factor) >> shift] = True
    return tables[0], tables[1], shift


def _hashed(data: Bytes, keys: NDArray[np.uint32]) -> tuple[NDArray[np.int64], bool]:
    """Offsets whose word passes both hashed tables."""
    first, second, shift = _tables(keys)
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
            np.right_shift(hashed[:k], shift, out=hashed[:k])
            np.take(first, hashed[:k], out=passes[:k], mode="clip")
            hits = np.flatnonzero(passes[:k])
            hits = hits[second[(chunk[hits] * _SECOND) >> shift]]
            total += len(hits)
            if len(hits) and total <= _MOST_CANDIDATES:
                pieces.append((hits + begin) * 4 + alignment)
    return np.concatenate(pieces) if pieces else np.empty(0, np.int64), total > _MOST_CANDIDATES


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
