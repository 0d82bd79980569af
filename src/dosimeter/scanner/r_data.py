"""R's .rds and .rdata files: values in XDR form, read without R. Closures and environments are traversed, never run.

The format is that of `serialize`: every item begins with 32 bits of flags, whose low byte is its type.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.scanner.contents import Contents
from dosimeter.scanner.symbolic import Instance, Items, Name
from dosimeter.scanner.symbolic_contents import contents_of_values

_MAGIC = (b"X\n", b"RDX2\nX\n", b"RDX3\nX\n")
_DEEPEST = 120
_MOST_ITEMS = 2_000_000
_NOTHING = (241, 242, 250, 251, 252, 253, 254)
_PAIRS = (2, 3, 5, 6, 17)  # pairlists, closures, promises, calls, dots: cells of a value and the rest
_SETTINGS = ("dim", "class", "levels", "tsp")
_CODE_CELLS = (2, 6, 239, 240, 243, 244)


class NotRData(ValueError):
    """Bytes that are not R's XDR form, or nested too deeply."""


def is_r_data(data: bytes) -> bool:
    """True if the bytes begin as R's XDR form does."""
    return data.startswith(_MAGIC)


def read_r_data(data: bytes) -> Contents:
    """Every vector under the names of the lists that hold them. Raises `NotRData`."""
    start = next((magic for magic in _MAGIC if data.startswith(magic)), None)
    if start is None:
        raise NotRData("not R's XDR form")
    reader = _Reader(data, len(start))
    try:
        value = reader.document()
    except (struct.error, IndexError, UnicodeError, ValueError, RecursionError) as error:
        if isinstance(error, NotRData):
            raise
        raise NotRData("its items do not fit together") from None
    return contents_of_values("R data", value, [])


class _Reader:
    def __init__(self, data: bytes, offset: int) -> None:
        self.data, self.at = data, offset
        self.references: list[Any] = []
        self.attached: list[tuple[Any, Any]] = []
        """What is attached to texts and bytes, which are read without it."""
        self.items_left = _MOST_ITEMS

    def document(self) -> Any:
        version, _, _ = self.integer(), self.integer(), self.integer()
        if version not in (2, 3):
            raise NotRData(f"version {version} of the format")
        if version == 3:
            self.take(self.integer())  # the name of the native encoding
        value = self.item(0)
        return Items([("", value), ("attributes", Items(self.attached))]) if self.attached else value

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise NotRData("the file ends early")
        self.at += size
        return self.data[self.at - size : self.at]

    def integer(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def length(self) -> int:
        size = self.integer()
        return size if size >= 0 else (self.integer() << 32) + (self.integer() & 0xFFFFFFFF)

    def item(self, depth: int) -> Any:
        self.items_left -= 1
        if depth > _DEEPEST or self.items_left < 0:
            raise NotRData("nested too deeply, or too many items")
        flags = self.integer()
        kind, has_attributes, has_tag = flags & 0xFF, bool(flags & 0x200), bool(flags & 0x400)
        if kind in _NOTHING:
            return None
        if kind == 255:
            return self.references[(flags >> 8 or self.integer()) - 1]
        if kind in _PAIRS:
            return self.pairlist(kind, has_attributes, has_tag, depth)
        reader = _READERS.get(kind)
        if reader is None:
            raise NotRData(f"an item of type {kind} is not known")
        return reader(self, has_attributes, depth)

    def pairlist(self, kind: int, has_attributes: bool, has_tag: bool, depth: int) -> Items:
        """The cells of a pairlist, one after the other, so that a long list needs no recursion."""
        cells = Items()
        while True:
            cells.pairs += self.attributes(has_attributes, depth).pairs  # a formula has its environment here
            tag = self.item(depth + 1) if has_tag else None
            if tag is not None and not isinstance(tag, str):  # a closure has its environment here
                cells.pairs.append(("", tag))
            cells.pairs.append((tag if isinstance(tag, str) else "", self.item(depth + 1)))
            flags = self.integer()
            if flags & 0xFF not in _PAIRS:
                self.at -= 4
                rest = self.item(depth + 1)
                if rest is not None:
                    cells.pairs.append(("", rest))
                return cells
            has_attributes, has_tag = bool(flags & 0x200), bool(flags & 0x400)

    def attributes(self, present: bool, depth: int) -> Items:
        read = self.item(depth + 1) if present else None
        return read if isinstance(read, Items) else Items()

    def numbers(self, kind: str, has_attributes: bool, depth: int) -> Any:
        count = self.length()
        width = np.dtype(kind).itemsize
        if count * width > len(self.data):
            raise NotRData("the file ends early")
        values: NDArray[Any] = np.frombuffer(self.take(count * width), dtype=kind)
        return _vector(values, self.attributes(has_attributes, depth))

    def character(self, has_attributes: bool, depth: int) -> str:
        size = self.integer()
        text = "NA" if size == -1 else self.take(size).decode("utf-8", "replace")
        self.attributes(has_attributes, depth)
        return text

    def values(self, has_attributes: bool, depth: int) -> Any:
        """A list: strings, or any values with names."""
        items = [self.item(depth + 1) for _ in range(self._count())]
        attributes = self.attributes(has_attributes, depth)
        names = attributes.get("names")
        if items and all(isinstance(value, str) for value in items):
            self.attached += _rest(attributes)
            return items
        owner = attributes.get("class")
        kind = owner[0] if isinstance(owner, list) and owner and isinstance(owner[0], str) else ""
        labels = names if isinstance(names, list) and len(names) == len(items) else [""] * len(items)
        pairs = [
            (label if isinstance(label, str) and label else f"item{k}", value)
            for k, (label, value) in enumerate(zip(labels, items, strict=True))
        ]
        rest = [(name, value) for name, value in attributes.pairs if name not in ("names", "class", "row.names")]
        if kind == "data.frame":
            people = attributes.get("row.names")
            return _frame(Items(pairs), [("row.names", people)] if isinstance(people, list) else [])
        return Instance(Name("R", kind), state=Items([*pairs, *rest])) if kind else Items([*pairs, *rest])

    def _count(self) -> int:
        count = self.length()
        if count * 4 > len(self.data):
            raise NotRData("the file ends early")
        return count

    def symbol(self, _: bool, depth: int) -> Any:
        name = self.item(depth + 1)
        self.references.append(name)
        return name

    def environment(self, _: bool, depth: int) -> Items:
        content = Items()
        self.references.append(content)
        self.integer()  # whether it is locked
        for _part in range(4):  # the enclosing one, frame, hash table, attributes
            content.pairs.append(("", self.item(depth + 1)))
        return content

    def package(self, _: bool, depth: int) -> None:
        self.integer()
        for _name in range(self._count()):
            self.item(depth + 1)
        self.references.append(None)

    def builtin(self, _: bool, depth: int) -> None:
        self.take(self.integer())

    def s4(self, has_attributes: bool, depth: int) -> Any:
        attributes = self.attributes(has_attributes, depth)
        owner = attributes.get("class")
        kind = owner[0] if isinstance(owner, list) and owner and isinstance(owner[0], str) else ""
        return Instance(Name("R", kind), state=attributes)

    def raw(self, has_attributes: bool, depth: int) -> Any:
        count = self.length()
        values = self.take(count)
        self.attached += _rest(self.attributes(has_attributes, depth))
        return values

    def pointer(self, has_attributes: bool, depth: int) -> None:
        self.references.append(None)
        self.item(depth + 1)
        self.item(depth + 1)
        self.attributes(has_attributes, depth)

    def weak_reference(self, has_attributes: bool, depth: int) -> None:
        self.references.append(None)
        self.attributes(has_attributes, depth)

    def alternative(self, _: bool, depth: int) -> Any:
        """A vector in another form: a sequence as (length, start, step), or values behind a wrapper."""
        _, state, _ = self.item(depth + 1), self.item(depth + 1), self.item(depth + 1)
        return state

    def byte_code(self, has_attributes: bool, depth: int) -> Any:
        self.integer()
        constants = self.code(depth)
        self.attributes(has_attributes, depth)
        return constants

    def code(self, depth: int) -> list[Any]:
        if depth > _DEEPEST:
            raise NotRData("nested too deeply")
        self.item(depth + 1)
        constants = []
        for _ in range(self._count()):
            kind = self.integer()
            constants.append(self.code(depth + 1) if kind == 21 else self.code_cell(kind, depth + 1))
        return constants

    def code_cell(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise NotRData("nested too deeply")
        if kind not in _CODE_CELLS:
            return self.item(depth + 1)
        if kind == 243:
            self.integer()
            return None
        if kind == 244:
            self.integer()
            kind = self.integer()
        if kind in (239, 240):
            self.item(depth + 1)
        self.item(depth + 1)
        return [self.code_cell(self.integer(), depth + 1), self.code_cell(self.integer(), depth + 1)]


_READERS: dict[int, Any] = {
    1: _Reader.symbol,
    4: _Reader.environment,
    7: _Reader.builtin,
    8: _Reader.builtin,
    9: _Reader.character,
    10: lambda reader, has, depth: reader.numbers(">i4", has, depth),
    13: lambda reader, has, depth: reader.numbers(">i4", has, depth),
    14: lambda reader, has, depth: reader.numbers(">f8", has, depth),
    15: lambda reader, has, depth: reader.numbers(">c16", has, depth),
    16: _Reader.values,
    19: _Reader.values,
    20: _Reader.values,
    21: _Reader.byte_code,
    22: _Reader.pointer,
    23: _Reader.weak_reference,
    24: _Reader.raw,
    25: _Reader.s4,
    238: _Reader.alternative,
    247: _Reader.package,
    248: _Reader.package,
    249: _Reader.package,
}


def _vector(values: NDArray[Any], attributes: Items) -> Instance | Items:
    """A vector or matrix; a factor as the texts of its levels."""
    levels = attributes.get("levels")
    if isinstance(levels, list) and values.dtype.kind == "i":
        return Items([("levels", levels), ("codes", Instance(Name("R", "factor"), array=values))])
    shape = attributes.get("dim")
    sizes = tuple(shape.array.tolist()) if isinstance(shape, Instance) and shape.array is not None else ()
    if sizes and min(sizes) >= 0 and int(np.prod(sizes, dtype=object)) == values.size:
        values = values.reshape(sizes, order="F")
    return Instance(Name("R", "numeric"), array=values, state=Items(_rest(attributes)))


def _rest(attributes: Items) -> list[tuple[Any, Any]]:
    """What is attached to a vector: names, which may be ids, or anything else."""
    return [
        (name, value)
        for name, value in attributes.pairs
        if name not in _SETTINGS and value is not None and not _is_numbering(value)
    ]


def _is_numbering(value: Any) -> bool:
    """Whether names only count the rows."""
    return isinstance(value, list) and value == [str(k) for k in range(1, len(value) + 1)]


def _frame(columns: Items, rows: list[tuple[Any, Any]]) -> Instance:
    """A data frame: its columns of numbers as one array (n, k), and its other columns."""
    vectors = [
        value.array
        for _, value in columns.pairs
        if isinstance(value, Instance) and value.array is not None and value.array.ndim == 1
    ]
    n = vectors[0].size if vectors else 0
    stacked = [array for array in vectors if array.size == n]
    kept = {id(array) for array in stacked}
    others = [pair for pair in columns.pairs if not isinstance(pair[1], Instance) or id(pair[1].array) not in kept]
    numbers = [("numbers", Instance(Name("R", "numeric"), array=np.column_stack(stacked)))] if stacked else []
    return Instance(Name("R", "data.frame"), state=Items([*numbers, *others, *rows]))
