"""What a pickle or an R file describes, as plain records: names, calls, states, arrays. Nothing is created or run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_ELEMENTS = 2**28
"""Elements of one array: a header may declare more than the file can hold."""
_KINDS = "biufcSUMm"
_UNITS = (b"Y", b"M", b"W", b"D", b"h", b"m", b"s", b"ms", b"us", b"ns", b"ps", b"fs", b"as")
_FUNCTIONS = ("newObj", "_reconstructor", "__newobj__", "__newobj_ex__", "_reconstruct", "_unpickle_block")


class NotAnArray(ValueError):
    """A description that does not fit the bytes it comes with."""


@dataclass(frozen=True)
class Name:
    """Something that the file would import."""

    module: str
    name: str


@dataclass(eq=False)
class Items:
    """A dict: keys may be anything, so it is kept as pairs."""

    pairs: list[tuple[Any, Any]] = field(default_factory=list)

    def get(self, key: str) -> Any:
        """The last value of a text key, or None."""
        return next((value for name, value in reversed(self.pairs) if name == key), None)


@dataclass(eq=False)
class Instance:
    """An object that would be created: what would be called, with what, and the state that it would get."""

    call: Any
    arguments: Any = ()
    state: Any = None
    items: Items = field(default_factory=Items)
    elements: list[Any] = field(default_factory=list)
    array: NDArray[Any] | None = None

    @property
    def owner(self) -> str:
        """Name of its class."""
        first = self.arguments[0] if isinstance(self.arguments, tuple) and self.arguments else None
        if isinstance(self.call, Name) and self.call.name in _FUNCTIONS and isinstance(first, Name):
            return first.name
        return self.call.name if isinstance(self.call, Name) else ""

    def is_call(self, name: str, *modules: str) -> bool:
        """True if it would call this function of one of these modules."""
        return isinstance(self.call, Name) and self.call.name == name and self.call.module in modules


def array_from_bytes(data: Any, dtype: np.dtype[Any], shape: Any, fortran: bool) -> NDArray[Any]:
    """(shape) the numbers in bytes, after a check that they fit."""
    sizes = shape_of(shape)
    count = 1
    for size in sizes:
        count *= size
    if not isinstance(data, bytes | bytearray | memoryview) or count > MOST_ELEMENTS:
        raise NotAnArray("an array without bytes, or with too many elements")
    if len(data) != count * dtype.itemsize:
        raise NotAnArray(f"{len(data)} bytes for an array of {count} elements of {dtype.itemsize} bytes")
    return np.frombuffer(data, dtype=dtype).reshape(sizes, order="F" if fortran else "C")


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape of at most 32 sizes that are not negative."""
    if isinstance(shape, int) and not isinstance(shape, bool):
        shape = (shape,)
    if not isinstance(shape, tuple) or len(shape) > 32:
        raise NotAnArray("a shape that is none")
    if any(not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**48 for size in shape):
        raise NotAnArray("a shape that is none")
    return shape


def dtype_of(described: Any, depth: int = 0) -> np.dtype[Any]:
    """The dtype that an instance of numpy.dtype describes: numbers, texts, dates, and records of them."""
    if not isinstance(described, Instance) or depth > 4:
        raise NotAnArray("an array whose kind is not described")
    arguments, state = described.arguments, described.state
    code = arguments[0] if isinstance(arguments, tuple) and arguments else None
    if not isinstance(code, str) or not code or len(code) > 8:
        raise NotAnArray("an array whose kind is not described")
    big = isinstance(state, tuple) and len(state) > 1 and state[1] == ">"
    if code[0] == "V":
        return _record(state, depth)
    if code[0] not in _KINDS:
        raise NotAnArray("an array of objects")
    if code[0] in "Mm":
        code += _unit(state)
    try:
        return np.dtype(code).newbyteorder(">" if big else "<")
    except (TypeError, ValueError):
        raise NotAnArray("an array of an unknown kind") from None


def _unit(state: Any) -> str:
    """The unit of dates in the state of their dtype, (..., ({}, (b"ns", 1, 1, 1))); "" if there is none."""
    metadata = state[-1] if isinstance(state, tuple) and state else None
    unit = metadata[1] if isinstance(metadata, tuple) and len(metadata) == 2 else None
    if not isinstance(unit, tuple) or len(unit) < 2 or unit[0] not in _UNITS or not isinstance(unit[1], int):
        return ""
    return f"[{unit[1] if 0 < unit[1] < 2**31 else 1}{unit[0].decode()}]"


def _record(state: Any, depth: int) -> np.dtype[Any]:
    """A structured dtype from (version, order, subarray, names, fields, itemsize, ...)."""
    if (
        not isinstance(state, tuple)
        or len(state) < 6
        or not isinstance(state[3], tuple)
        or not isinstance(state[4], Items)
    ):
        raise NotAnArray("a record whose fields are not described")
    names, kinds, offsets = [], [], []
    described = {key: value for key, value in state[4].pairs if isinstance(key, str)}
    for name in state[3]:
        entry = described.get(name) if isinstance(name, str) else None
        if not isinstance(entry, tuple) or len(entry) < 2 or not isinstance(entry[1], int):
            raise NotAnArray("a record whose fields are not described")
        names.append(name)
        kinds.append(dtype_of(entry[0], depth + 1))
        offsets.append(entry[1])
    try:
        return np.dtype({"names": names, "formats": kinds, "offsets": offsets, "itemsize": int(state[5])})
    except (TypeError, ValueError, OverflowError):
        raise NotAnArray("a record whose fields do not fit") from None
