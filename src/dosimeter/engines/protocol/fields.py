"""Values as canonical bytes: a layout names the fields and their order, so the bytes hold nothing but the values.

Both sides know the layout of every operation and the sizes that a schema fixes (d columns, p weights). So the length of
a message is known before it is read: bytes of any other length are refused before an array exists. Numbers are
little-endian float64 and int64. Equal values have equal bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dosimeter.core.errors import Refusal

Sizes = Mapping[str, int]
"""Name of a dimension -> its size."""
_LENGTH = struct.Struct("<I")
_NUMBER = struct.Struct("<d")
_COUNT = struct.Struct("<q")


class Malformed(Refusal):
    """Bytes that are no message of this protocol."""


@dataclass(frozen=True)
class ArrayField:
    """An array of one kind of numbers; its dimensions by name or by size."""

    shape: tuple[str | int, ...]
    kind: ClassVar[str]

    def dimensions(self, sizes: Sizes) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return tuple(sizes[n] if isinstance(n, str) else n for n in self.shape)

    def most_bytes(self, sizes: Sizes) -> int:
        """Its length."""
        return np.dtype(self.kind).itemsize * math.prod(self.dimensions(sizes))

    def pack(self, value: Any, sizes: Sizes) -> bytes:
        """The bytes of an array of this shape."""
        array = np.ascontiguousarray(value, dtype=self.kind)
        if array.shape != self.dimensions(sizes):
            raise Malformed(f"an array of shape {array.shape} where {self.dimensions(sizes)} is agreed")
        return array.tobytes()

    def unpack(self, data: memoryview, sizes: Sizes) -> tuple[Any, int]:
        """The array and the bytes that it took. A number that is not finite is refused."""
        size = self.most_bytes(sizes)
        _need(data, size)
        array = np.frombuffer(data[:size], dtype=self.kind).reshape(self.dimensions(sizes))
        if not np.isfinite(array).all():
            raise Malformed("a number that is not finite")
        return array.astype(np.dtype(self.kind).newbyteorder("=")), size


class Numbers(ArrayField):
    """An array of finite float64."""

    kind = "<f8"


class WholeNumbers(ArrayField):
    """An array of int64."""

    kind = "<i8"


class Singles(ArrayField):
    """An array of finite float32, half as long as `Numbers`: models and updates of many clients."""

    kind = "<f4"


@dataclass(frozen=True)
class Number:
    """One float64; may_be_infinite also takes +inf."""

    may_be_infinite: bool = False

    def most_bytes(self, sizes: Sizes) -> int:
        """Its length."""
        return _NUMBER.size

    def pack(self, value: Any, sizes: Sizes) -> bytes:
        """The bytes of a number."""
        return _NUMBER.pack(float(value))

    def unpack(self, data: memoryview, sizes: Sizes) -> tuple[Any, int]:
        """The number and the bytes that it took."""
        _need(data, _NUMBER.size)
        (value,) = _NUMBER.unpack(data[: _NUMBER.size])
        if not (math.isfinite(value) or (self.may_be_infinite and value == math.inf)):
            raise Malformed("a number that is not finite")
        return value, _NUMBER.size


@dataclass(frozen=True)
class Count:
    """A whole number from `least` to `most`."""

    least: int = 0
    most: int = 10**12

    def most_bytes(self, sizes: Sizes) -> int:
        """Its length."""
        return _COUNT.size

    def pack(self, value: Any, sizes: Sizes) -> bytes:
        """The bytes of a whole number."""
        return _COUNT.pack(int(value))

    def unpack(self, data: memoryview, sizes: Sizes) -> tuple[Any, int]:
        """The number and the bytes that it took."""
        _need(data, _COUNT.size)
        (value,) = _COUNT.unpack(data[: _COUNT.size])
        if not self.least <= value <= self.most:
            raise Malformed(f"a whole number that is not from {self.least} to {self.most}")
        return value, _COUNT.size


@dataclass(frozen=True)
class Flag:
    """Yes or no."""

    def most_bytes(self, sizes: Sizes) -> int:
        """Its length."""
        return 1

    def pack(self, value: Any, sizes: Sizes) -> bytes:
        """One byte."""
        return b"\x01" if value else b"\x00"

    def unpack(self, data: memoryview, sizes: Sizes) -> tuple[Any, int]:
        """The answer and the byte that it took."""
        _need(data, 1)
        if data[0] > 1:
            raise Malformed("a flag that is neither 0 nor 1")
        return data[0] == 1, 1


@dataclass(frozen=True)
class Blob:
    """At most `most` bytes, after their number."""

    most: int

    def most_bytes(self, sizes: Sizes) -> int:
        """The largest length."""
        return _LENGTH.size + self.most

    def pack(self, value: Any, sizes: Sizes) -> bytes:
        """The bytes after their number."""
        data = bytes(value)
        if len(data) > self.most:
            raise Malformed(f"{len(data)} bytes where at most {self.most} are agreed")
        return _LENGTH.pack(len(data)) + data

    def unpack(self, data: memoryview, sizes: Sizes) -> tuple[Any, int]:
        """The bytes, and how many they took."""
        _need(data, _LENGTH.size)
        (size,) = _LENGTH.unpack(data[: _LENGTH.size])
        if size > self.most:
            raise Malformed(f"{size} bytes where at most {self.most} are agreed")
        end = _LENGTH.size + size
        _need(data, end)
        return bytes(data[_LENGTH.size : end]), end


@dataclass(frozen=True)
class Text:
    """UTF-8 of at most `most` bytes."""

    most: int = 200

    def most_bytes(self, sizes: Sizes) -> int:
        """The largest length."""
        return Blob(self.most).most_bytes(sizes)

    def pack(self, value: Any, sizes: Sizes) -> bytes:
        """The bytes after their number."""
        return Blob(self.most).pack(str(value).encode("utf-8"), sizes)

    def unpack(self, data: memoryview, sizes: Sizes) -> tuple[Any, int]:
        """The text, and the bytes that it took."""
        content, size = Blob(self.most).unpack(data, sizes)
        try:
            return content.decode("utf-8"), size
        except UnicodeDecodeError:
            raise Malformed("a text that is not UTF-8") from None


Field = Numbers | WholeNumbers | Singles | Number | Count | Flag | Blob | Text
Layout = Mapping[str, Field]


def most_bytes(layout: Layout, sizes: Sizes) -> int:
    """The largest length of values of this layout."""
    return sum(field.most_bytes(sizes) for field in layout.values())


def pack(layout: Layout, values: Mapping[str, Any], sizes: Sizes) -> bytes:
    """The bytes of the values, in the order of the layout.

    >>> pack({"v": Numbers(("p",)), "exact": Flag()}, {"v": [1.0, 2.0], "exact": True}, {"p": 2}).hex()
    '000000000000f03f000000000000004001'
    """
    if set(values) != set(layout):
        raise Malformed(f"the fields {sorted(values)} where {sorted(layout)} are agreed")
    return b"".join(field.pack(values[name], sizes) for name, field in layout.items())


def unpack(layout: Layout, data: bytes, sizes: Sizes) -> dict[str, Any]:
    """The values; refused before an array exists if the length is not that of the layout.

    >>> unpack({"v": Numbers(("p",)), "exact": Flag()}, bytes(17), {"p": 2})
    {'v': array([0., 0.]), 'exact': False}
    """
    if len(data) > most_bytes(layout, sizes):
        raise Malformed(f"{len(data)} bytes where at most {most_bytes(layout, sizes)} are agreed")
    view, values = memoryview(data), {}
    for name, field in layout.items():
        values[name], size = field.unpack(view, sizes)
        view = view[size:]
    if len(view):
        raise Malformed(f"{len(view)} bytes too many")
    return values


def _need(data: memoryview, size: int) -> None:
    if len(data) < size:
        raise Malformed(f"{size - len(data)} bytes too few")
