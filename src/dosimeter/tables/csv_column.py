"""One column of a text file while it is read, block by block: numbers or text, or a refusal.

A number is a plain decimal with an optional exponent; its decimal mark is a point, or a comma if that is asked for.
Blocks that hold numbers only, which is nearly all of a file, are converted at once and their text is discarded; only
the other blocks are read cell by cell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.face import option
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.tables.column_values import LARGEST_INTEGER, text_array, too_large
from dosimeter.tables.number_notation import notation_remedy, other_notation

MISSING = frozenset(["", "?", "NA", "N/A", "n/a", "<NA>", "nan", "NaN", "NAN", "-nan", "null", "NULL", "None"])
_ONLY_EMPTY = frozenset([""])
_INFINITE = frozenset(["inf", "infinity", "+inf", "+infinity", "-inf", "-infinity"])
# float() also takes underscores, digits of every script, "nan" and "inf"; a number here has these bytes only.
_PLAIN = b"0123456789+-.eE \t"
_NUMBER = re.compile(r"[ \t]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t]*")
_TRUE_OR_FALSE = {"true": True, "false": False, "True": True, "False": False, "TRUE": True, "FALSE": False}
_TRUTH = ({"true": True, "false": False}, {"True": True, "False": False}, {"TRUE": True, "FALSE": False})


class CsvCells:
    """A growing column.

    exact: keep every cell as text, only an empty cell is missing; verbatim: keep the text of numbers too, for a
    column that turned out to be mostly text when it was read before.
    """

    def __init__(self, name: str, *, exact: bool = False, verbatim: bool = False, decimal: str = ".") -> None:
        self.name = name
        self._decimal = decimal
        self.exact = exact
        self.verbatim = verbatim or exact
        self.numbers = 0
        self.text_cells = 0
        self.length = 0
        self._blocks: list[NDArray[Any]] = []
        self._missing: list[NDArray[np.bool_]] = []
        self._first_text = (-1, "")
        self._first_large = -1
        self._grouped = 0  # text cells that are numbers in another notation
        self._discarded = False  # the text of some numbers
        self._memo: dict[str, str] = {}

    @property
    def needs_reread(self) -> bool:
        """Mostly text, but the text of some numbers was discarded: the file must be read again, verbatim."""
        return not self.verbatim and 0 < self.numbers < self.text_cells and self._discarded

    @property
    def is_text(self) -> bool:
        """Whether the column is kept as text, by the cells so far."""
        return bool(self.text_cells) or self.verbatim

    @property
    def missing(self) -> NDArray[np.bool_]:
        """True where there is no value, (n,)."""
        return np.concatenate(self._missing) if self._missing else np.zeros(0, dtype=bool)

    @property
    def takes_numbers(self) -> bool:
        """Whether a block of numbers needs no text: nothing here is kept as text, and all cells so far were numbers."""
        return not self.verbatim and not self.text_cells

    def add_numbers(self, numbers: NDArray[np.float64]) -> None:
        """The next block, all of it numbers below the largest integer."""
        self.numbers += len(numbers)
        self.length += len(numbers)
        self._append_numbers(numbers, np.zeros(len(numbers), dtype=bool))

    def add(self, cells: Sequence[str]) -> None:
        """The next block of cells."""
        numbers = None if self.verbatim else _all_numbers(cells, self._decimal)
        if numbers is None:
            self._add_mixed(cells)
        else:
            self._note_large(numbers, cells)
            self.numbers += len(cells)
            self._append_numbers(numbers, np.zeros(len(cells), dtype=bool))
        self.length += len(cells)

    def _append_numbers(self, numbers: NDArray[np.float64], missing: NDArray[np.bool_]) -> None:
        self._blocks.append(numbers)
        self._missing.append(missing)
        self._discarded = True

    def _add_mixed(self, cells: Sequence[str]) -> None:
        counts = Counter(cells)
        absent = _ONLY_EMPTY if self.exact else MISSING
        missing = {cell for cell in counts if cell.strip() in absent}
        numbers_by_text = (
            {}
            if self.exact
            else {c: v for c in counts if c not in missing and (v := _number(c, self._decimal)) is not None}
        )
        text_cells = sum(counts.values()) - sum(counts[c] for c in missing) - sum(counts[c] for c in numbers_by_text)
        self.text_cells += text_cells
        self.numbers += sum(counts[c] for c in numbers_by_text)
        if text_cells and not self.exact and self._grouped == self.text_cells - text_cells:
            others = (c for c in counts if c not in missing and c not in numbers_by_text)
            self._grouped += sum(counts[c] for c in others if other_notation(c, self._decimal))
        if text_cells and self._first_text[0] < 0:
            i = next(i for i, c in enumerate(cells) if c not in missing and c not in numbers_by_text)
            self._first_text = (self.length + i, cells[i])
        absent_here = np.array([c in missing for c in cells], dtype=bool)
        if text_cells or self.verbatim:
            self._blocks.append(text_array([self._memo.setdefault(c, c) for c in cells]))
            self._missing.append(absent_here)
        else:
            numbers = np.array([numbers_by_text.get(c, np.nan) for c in cells])
            self._note_large(numbers, cells)
            self._append_numbers(numbers, absent_here)

    def _note_large(self, numbers: NDArray[np.float64], cells: Sequence[str]) -> None:
        if self._first_large >= 0:
            return
        with np.errstate(invalid="ignore"):
            suspects = np.flatnonzero(np.abs(numbers) >= LARGEST_INTEGER).tolist()
        for i in suspects:
            if not set(".,eEnN") & set(cells[i]) and _is_too_large(float(numbers[i]), cells[i]):
                self._first_large = self.length + i
                return

    def to_array(self, keep: NDArray[np.intp], source: Location) -> NDArray[Any]:
        """The kept rows as float64, bool or text, (len(keep),), or a refusal that names the first bad row."""
        column = np.concatenate(self._blocks)
        column = column if len(keep) == len(column) else column[keep]
        bad = np.flatnonzero(~np.isfinite(column)) if not self.is_text else keep[:0]
        self.check(int(keep[bad[0]]) if bad.size else -1, source)
        return _truth(column) if self.is_text and not self.exact else column

    def check(self, not_finite: int, source: Location) -> None:
        """Refuse text among numbers, integers that float64 skips, and numbers that are not finite.

        not_finite: the first kept row with such a number, -1 if there is none.
        """
        row, text = self._first_text
        if self.text_cells and not self.exact and self._grouped == self.text_cells:
            raise source.refusal(
                f"not a number with the decimal {self._decimal!r}",
                f"{safe_text(text)!r}: {notation_remedy(text, self.name, self._decimal)}",
                row=row,
                column=self.name,
            )
        if self.text_cells and not self.exact and self.numbers >= self.text_cells:
            todo = f"correct it, or pass {option('categorical', safe_text(self.name))}"
            raise source.refusal("text in a number column", f"{safe_text(text)!r}: {todo}", row=row, column=self.name)
        if self.is_text:
            return
        if self._first_large >= 0:
            raise too_large(0, (self.name, source, np.array([self._first_large])))
        if not_finite >= 0:
            todo = "correct the cell or leave the row out"
            raise source.refusal("number that is not finite", todo, row=not_finite, column=self.name)

    def take(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The cells since the last call (n,), and where there is no value (n,). Counts go on, cells are forgotten."""
        block, missing = _joined(self._blocks), _joined(self._missing)
        self._blocks, self._missing, self._memo = [], [], {}
        return block, missing

    @property
    def counts(self) -> list[Any]:
        """Everything but the cells, as JSON."""
        state = [self.numbers, self.text_cells, self.length, *self._first_text, self._first_large, self._grouped]
        return [*state, self._discarded]

    def restore(self, counts: Sequence[Any]) -> None:
        """Go on with these counts."""
        self.numbers, self.text_cells, self.length, row, text, self._first_large, *rest = counts
        self._first_text = (row, text)
        self._grouped, self._discarded = rest


class DeclaredNumbers:
    """A growing column that was declared to hold numbers: a cell that is not a finite number is missing.

    So the content of a person's cell changes that cell of the table only: no refusal and no message depends on it.
    """

    needs_reread = False
    is_text = False
    exact = False

    def __init__(self, name: str, *, decimal: str = ".") -> None:
        self.name = name
        self._decimal = decimal
        self.length = 0
        self._blocks: list[NDArray[np.float64]] = []

    @property
    def missing(self) -> NDArray[np.bool_]:
        """True where there is no value, (n,)."""
        return ~np.isfinite(self._column())

    def add(self, cells: Sequence[str]) -> None:
        """The next block of cells."""
        numbers = _all_numbers(cells, self._decimal)
        self._blocks.append(parse_numbers(cells, self._decimal) if numbers is None else numbers)
        self.length += len(cells)

    def to_array(self, keep: NDArray[np.intp], source: Location) -> NDArray[Any]:
        """The kept rows as float64, (len(keep),)."""
        return self._column()[keep]

    def check(self, not_finite: int, source: Location) -> None:
        """Nothing is refused."""

    def take(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The cells since the last call (n,), and where there is no value (n,)."""
        block = self._column()
        self._blocks = []
        return block, ~np.isfinite(block)

    @property
    def counts(self) -> list[Any]:
        """Everything but the cells, as JSON."""
        return [self.length]

    def restore(self, counts: Sequence[Any]) -> None:
        """Go on with these counts."""
        (self.length,) = counts

    def _column(self) -> NDArray[np.float64]:
        return np.concatenate(self._blocks) if self._blocks else np.zeros(0)


def _joined(blocks: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def parse_numbers(cells: Sequence[str | None], decimal: str = ".") -> NDArray[np.float64]:
    """Text as numbers, (n,); nan where a text is not a number. True and false are 1 and 0.

    >>> parse_numbers(["1.5", " 2e1", "abc", "", "1e400", "inf", "true"]).tolist()
    [1.5, 20.0, nan, nan, nan, nan, 1.0]
    """
    value_by_text: dict[str | None, float] = {}
    for cell in set(cells):
        number = None if cell is None else _number(cell, decimal)
        truth = _TRUE_OR_FALSE.get("" if cell is None else cell.strip())
        value = float(truth) if truth is not None else np.nan if number is None else number
        value_by_text[cell] = value if np.isfinite(value) else np.nan
    return np.array([value_by_text[cell] for cell in cells], dtype=np.float64)


def _all_numbers(cells: Sequence[str], decimal: str) -> NDArray[np.float64] | None:
    joined = "".join(cells)
    if decimal == ",":
        if "." in joined or "\n" in joined:
            return None
        joined, cells = joined.replace(",", "."), "\n".join(cells).replace(",", ".").split("\n")
    if not joined.isascii() or joined.encode().translate(None, _PLAIN):
        return None
    try:
        if 4 * len(set(cells[:1000])) > len(cells[:1000]):
            return np.fromiter(map(float, cells), dtype=float, count=len(cells))
        value = {cell: float(cell) for cell in set(cells)}  # ages, counts, codes: a third of the time
        return np.fromiter(map(value.__getitem__, cells), dtype=float, count=len(cells))
    except ValueError:
        return None


def _number(cell: str, decimal: str) -> float | None:
    if decimal == ",":
        if "." in cell:
            return None
        cell = cell.replace(",", ".")
    if _NUMBER.fullmatch(cell) or cell.strip().lower() in _INFINITE:
        return float(cell)
    return None


def _is_too_large(number: float, cell: str) -> bool:
    # int() of thousands of digits is slow and may be forbidden; float64 already decides all but the edge.
    return abs(number) > LARGEST_INTEGER or abs(int(cell)) > LARGEST_INTEGER


def _truth(column: NDArray[Any]) -> NDArray[Any]:
    """True and False, written in one of three ways throughout, are booleans."""
    spellings = truth_spellings(set(column.tolist()))
    return column if not spellings else as_truth(column, spellings[0])


def truth_spellings(cells: Collection[str]) -> tuple[int, ...]:
    """In which of the three ways all cells are true or false."""
    return tuple(k for k, truth in enumerate(_TRUTH) if all(cell in truth for cell in cells))


def as_truth(column: NDArray[Any], spelling: int) -> NDArray[np.bool_]:
    """Cells that are true or false in this spelling, as booleans."""
    truth = _TRUTH[spelling]
    return np.array([truth[cell] for cell in column.tolist()], dtype=bool)
