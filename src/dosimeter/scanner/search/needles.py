"""A table's cells as byte strings: single words, runs of a column, runs of a row, and texts.

A number of many digits is looked for by itself (`words`). Numbers that occur in any file, such as ages, counts and
flags, are looked for as runs that carry `RUN_BITS` of information together: consecutive rows of a column, or a whole
row. The information of a cell is -log2 of the share of its column's cells with the same value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.scanner.search.cells import Cells
from dosimeter.scanner.search.locate import NO_SIEVE, Needles, is_uniform, read_words, sorted_unique

RUN_BITS = 72.0
_FEWEST_BITS = 56.0
_MOST_ROWS_TOGETHER = 4
_ORDERS = {"<": "little-endian", ">": "big-endian"}
WORDS = ("<f8", ">f8", "<f4", ">f4")
RUNS = ("<f8", ">f8", "<f4", ">f4", "<f2", ">f2", "<i8", ">i8", "<i4", ">i4", "<i2", ">i2", "|i1")
TEXTS = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
_NARROW = ("<f2", ">f2", "<i8", ">i8", "<i4", ">i4", "<i2", ">i2", "|i1")


@dataclass(frozen=True, eq=False)
class CellNeedles:
    """Needles of one encoding. cells of needle k: cell[first[k]:first[k + 1]], each row * d + column."""

    encoding: str
    needles: Needles
    cell: Index
    first: Index


def described(encoding: str) -> str:
    """An encoding in words.

    >>> described(">f8"), described("|i1"), described("utf-8")
    ('float64, big-endian', 'int8', 'text in utf-8')
    """
    if encoding in TEXTS:
        return f"text in {encoding}"
    dtype = np.dtype(encoding)
    name = {"f": "float", "i": "int"}[dtype.kind] + str(8 * dtype.itemsize)
    return name if encoding[0] == "|" else f"{name}, {_ORDERS[encoding[0]]}"


def words(cells: Cells, encodings: tuple[str, ...] = WORDS) -> Iterator[CellNeedles]:
    """Every distinct value of the columns with many digits, once in each encoding."""
    columns = cells.word_columns
    if not len(columns):
        return
    usable = ~cells.plain[:, columns]
    values = cells.values[:, columns]
    number = (np.arange(cells.n)[:, None] * cells.d + columns)[usable]
    for width in (8, 4):
        chosen = [encoding for encoding in encodings if np.dtype(encoding).itemsize == width]
        if chosen:
            with np.errstate(over="ignore"):
                flat = values[usable].astype(f"<f{width}")
            yield from _words_of_width(flat, number, chosen)


def _words_of_width(flat: NDArray[np.floating], number: Index, encodings: list[str]) -> Iterator[CellNeedles]:
    width = flat.dtype.itemsize
    kept = np.isfinite(flat) & (flat != 0)
    bits, number = flat[kept].view(f"<u{width}"), number[kept]
    order = np.argsort(bits, kind="stable")
    bits, number = bits[order], number[order]
    new = np.ones(len(bits), dtype=bool)
    new[1:] = bits[1:] != bits[:-1]
    first = np.flatnonzero(new)
    distinct, m = bits[first], len(first)
    # The half of a float64 with more distinct values is the key: the lower one of 32.1 and 33.1 is the same.
    use_low = width == 8 and _low_half_is_better(distinct)
    sizes = np.full(m, width, dtype=np.int64)
    start = np.arange(m, dtype=np.int64) * width
    for encoding in encodings:
        stored = distinct if encoding[0] == "<" else distinct.byteswap()
        blob = np.ascontiguousarray(stored).view(np.uint8)
        at = 0 if use_low == (encoding[0] == "<") else width - 4
        key_at = np.full(m, at, dtype=np.int64)
        sieve_at = np.full(m, (width - 2 if encoding[0] == "<" else 0) - at, dtype=np.int64)  # sign and exponent
        needles = Needles(blob, start, sizes, key_at, sieve_at)
        yield CellNeedles(encoding, needles, number, np.append(first, len(bits)))


def _low_half_is_better(distinct: NDArray[np.unsignedinteger]) -> bool:
    """Whether the lower halves of these float64 tell more of them apart than the upper ones."""
    lower, upper = distinct.astype(np.uint32), (distinct >> np.uint64(32)).astype(np.uint32)
    return len(sorted_unique(lower)) >= len(sorted_unique(upper))


def runs(cells: Cells) -> Iterator[CellNeedles]:
    """Runs of columns whose single values say nothing, in every encoding; of all columns in narrow ones."""
    # A column of words that prove nothing one by one (days, counts, a crowded decimal) is looked for as runs too.
    words_alone = np.isin(np.arange(cells.d), cells.word_columns) & (cells.telling.mean(axis=0) >= 0.5)
    with np.errstate(divide="ignore"):
        information = -np.log2(cells.shares) if cells.n else cells.shares
    for encoding in RUNS:
        pieces = []
        for j in range(cells.d):
            if words_alone[j] and encoding in WORDS:
                continue
            stored = encode(cells.values[:, j], encoding)
            if stored is not None:
                pieces.append(_column_runs(stored, information[:, j], j, cells.d))
        if len(cells.word_columns) < 2 or encoding in _NARROW:
            pieces += list(_row_runs(cells, information, encoding))
        pieces = [piece for piece in pieces if len(piece.start)]
        if pieces:
            yield _joined(encoding, pieces)


def encode(values: FloatArray, encoding: str) -> NDArray[np.generic] | None:
    """The numbers in this encoding, or None if it cannot hold them. Unsigned numbers have the bytes of signed ones."""
    dtype = np.dtype(encoding)
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            stored = values.astype(dtype)
            return stored if np.isfinite(stored).all() else None
        if not (values == np.rint(values)).all() or not np.isfinite(values).all():
            return None
        bits = 8 * dtype.itemsize
        if values.size and (values.min() < -(2.0 ** (bits - 1)) or values.max() >= 2.0 ** min(bits, 63)):
            return None
        return values.astype(np.int64).astype(dtype)


@dataclass(frozen=True, eq=False)
class _Runs:
    blob: NDArray[np.uint8]
    start: Index
    length: Index
    key_at: Index
    cell: Index
    first: Index


def _column_runs(stored: NDArray[np.generic], information: FloatArray, j: int, d: int) -> _Runs:
    """Consecutive rows of a column, cut where they carry enough; the last run takes the rest."""
    total = np.cumsum(information)
    run = np.floor(total / RUN_BITS).astype(np.intp)
    begin = np.flatnonzero(np.append(True, run[1:] != run[:-1])) if len(run) else np.empty(0, np.intp)
    weight = np.add.reduceat(information, begin) if len(begin) else np.empty(0)
    if len(begin) and weight[-1] < _FEWEST_BITS:
        begin = begin[:-1]
    end = np.append(begin[1:], len(stored))
    weight = np.add.reduceat(information, begin) if len(begin) else np.empty(0)
    width = stored.dtype.itemsize
    good = (weight >= _FEWEST_BITS) & ((end - begin) * width >= 4)
    rarest = _rarest(information, begin)[good]
    begin, length = begin[good], (end - begin)[good]
    rows = np.repeat(begin - (np.cumsum(length) - length), length) + np.arange(length.sum())
    return _Runs(
        np.ascontiguousarray(stored).view(np.uint8),
        begin * width,
        length * width,
        _key_at(rarest - begin, length, stored.dtype),
        rows * d + j,
        np.cumsum(length) - length,
    )


def _row_runs(cells: Cells, information: FloatArray, encoding: str) -> Iterator[_Runs]:
    """Rows one after the other, also without the first or the last column, which are often an id and a target.

    One row where it carries enough by itself, else as many as most need: with few columns, or few rows, it is two.
    """
    d = cells.d
    for a, b in dict.fromkeys([(0, d), (1, d), (0, d - 1)]):
        stored = encode(cells.values[:, a:b], encoding) if b - a >= 2 else None
        if stored is None or not cells.n:
            continue
        typical = max(1.0, float(np.median(information[:, a:b].sum(axis=1))))
        together = min(_MOST_ROWS_TOGETHER, cells.n, int(np.ceil(_FEWEST_BITS / typical)))
        for rows in dict.fromkeys((1, together)):
            yield _rows_together(stored, information[:, a:b], rows, a, d)


def _rows_together(stored: NDArray[np.generic], information: FloatArray, rows: int, a: int, d: int) -> _Runs:
    """Each block of `rows` rows that carries enough. stored, information: (n, w), columns from `a` on."""
    w, width = stored.shape[1], stored.dtype.itemsize
    blocks = np.lib.stride_tricks.sliding_window_view(information.sum(axis=1), rows).sum(axis=1)
    heavy = np.flatnonzero(blocks >= _FEWEST_BITS) if rows * w * width >= 4 else np.empty(0, np.intp)
    within = np.arange(rows * w)
    rarest = information.ravel()[heavy[:, None] * w + within].argmax(axis=1) if len(heavy) else heavy
    size = np.full(len(heavy), rows * w, dtype=np.intp)
    row, column = np.divmod(heavy[:, None] * w + within, w)
    return _Runs(
        np.ascontiguousarray(stored).view(np.uint8).ravel(),
        heavy * w * width,
        size * width,
        _key_at(rarest, size, stored.dtype),
        (row * d + column + a).ravel(),
        np.arange(len(heavy)) * rows * w,
    )


def _rarest(information: FloatArray, begin: Index) -> Index:
    """Of each run from one beginning to the next, the first cell that the fewest rows share."""
    if not len(begin):
        return begin
    run = np.repeat(np.arange(len(begin)), np.diff(np.append(begin, len(information))))
    rest = information[begin[0] :]
    cells = np.flatnonzero(rest == np.maximum.reduceat(information, begin)[run])
    return np.asarray(cells[np.unique(run[cells], return_index=True)[1]] + begin[0])


def _key_at(cell: Index, cells: Index, dtype: np.dtype[np.generic]) -> Index:
    """Where the key of a run begins: at its rarest cell, at the end that is not padding."""
    width = dtype.itemsize
    at = cell * width
    if width == 8 and (dtype.kind == "f") == (dtype.byteorder != ">"):
        at = at + 4  # the upper half of a float64, the lower half of a whole number
    return np.asarray(np.minimum(at, cells * width - 4))


def _varied_keys(blob: NDArray[np.uint8], start: Index, length: Index, key_at: Index) -> Index:
    """The keys, moved to the first four bytes of the run that are not all equal: a rare 0 is padding in any file."""
    key_at = key_at.copy()
    flat = np.flatnonzero(is_uniform(read_words(blob, start + key_at)))
    step = 0
    while len(flat):
        flat = flat[length[flat] >= step + 4]
        key_at[flat] = step
        flat = flat[is_uniform(read_words(blob, start[flat] + step))]
        step += 1
    return key_at


def _joined(encoding: str, pieces: list[_Runs]) -> CellNeedles:
    shifts = np.cumsum([0, *(len(piece.blob) for piece in pieces)])
    counts = np.cumsum([0, *(len(piece.cell) for piece in pieces)])
    blob = np.concatenate([piece.blob for piece in pieces])
    start = np.concatenate([piece.start + shift for piece, shift in zip(pieces, shifts, strict=False)])
    length = np.concatenate([piece.length for piece in pieces])
    key_at = _varied_keys(blob, start, length, np.concatenate([piece.key_at for piece in pieces]))
    needles = Needles(blob, start, length, key_at, np.full(len(start), NO_SIEVE, dtype=np.int64))
    first = np.concatenate([piece.first + count for piece, count in zip(pieces, counts, strict=False)])
    return CellNeedles(encoding, needles, np.concatenate([p.cell for p in pieces]), np.append(first, counts[-1]))


def texts(wanted: dict[str, int], encoding: str) -> CellNeedles:
    """Text -> number, as needles; the key is at the end, where ids differ."""
    strings = [text.encode(encoding, "replace") for text in wanted]
    key_at = [_last_varied(string) for string in strings]
    numbers = np.array(list(wanted.values()), dtype=np.intp)
    return CellNeedles(encoding, Needles.of_strings(strings, key_at), numbers, np.arange(len(strings) + 1))


def _last_varied(string: bytes) -> int:
    """Where the last four bytes that are not all equal begin: equal ones are padding, found in any file."""
    at = len(string) - 4
    while at > 0 and len(set(string[at : at + 4])) == 1:
        at -= 1
    return max(0, at)
