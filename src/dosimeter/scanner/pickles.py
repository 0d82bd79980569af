"""Pickles, joblib files and torch files: their instructions are read, and nothing in them is imported or called."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from dosimeter.core.location import Location
from dosimeter.files.archive import Archive
from dosimeter.scanner.contents import Contents
from dosimeter.scanner.pickle_program import MOST_OPCODES, Machine, NotAPickle
from dosimeter.scanner.symbolic import Instance, Name, NotAnArray, shape_of
from dosimeter.scanner.symbolic_contents import contents_of_values

_STORAGES = {
    "DoubleStorage": "<f8", "FloatStorage": "<f4", "HalfStorage": "<f2", "BFloat16Storage": "bfloat16",
    "LongStorage": "<i8", "IntStorage": "<i4", "ShortStorage": "<i2", "CharStorage": "i1", "ByteStorage": "u1",
    "BoolStorage": "?",
}  # fmt: skip
_MOST_OBJECTS = 1000
_OLD = re.compile(rb"\(?c[A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\n[(p\]}.0-9)tR]|\((?:dp0|lp0)\n|ccopy_reg\n")
"""How a pickle of protocol 0 begins, which has no signature."""


def is_pickle(data: bytes) -> bool:
    """True if the bytes begin as a pickle does."""
    return (data[:1] == b"\x80" and data[1:2] <= b"\x08" and len(data) > 2) or _OLD.match(data) is not None


def read_pickle(data: bytes, rebuild: Callable[[Instance], None] | None = None) -> Contents:
    """Every array, number and text of the objects that a pickle describes.

    Raises `NotAPickle` if the bytes are none.

    >>> import pickle
    >>> contents = read_pickle(pickle.dumps({"support": np.eye(3)}))
    >>> [(part.place, part.shape) for part in contents.parts]
    [('support', (3, 3))]
    """
    objects: list[Any] = []
    unread: list[tuple[str, str]] = []
    offset, file, left = 0, io.BytesIO(data), MOST_OPCODES
    while offset < len(data) and len(objects) < _MOST_OBJECTS:
        machine = Machine(data, rebuild, left)
        try:
            value, end = machine.run(file)
        except NotAPickle as why:
            if not objects:
                raise
            unread.append((f"bytes from {offset}", f"not read as a pickle: {why}"))
            break
        objects.append(value)
        unread += [("an array", why) for why in machine.unread]
        offset, left = end, machine.opcodes_left
    values: Any = objects[0] if len(objects) == 1 else objects
    return contents_of_values("pickle", values, unread)


def read_torch(archive: Archive, source: Location) -> Contents:
    """The tensors of a file that torch.save wrote: a pickle beside the bytes of its storages."""
    programs = [name for name in archive.names if name.endswith("data.pkl")]
    if len(programs) != 1:
        raise source.refusal("not a torch file (it has no data.pkl)", "write it with torch.save")
    folder = programs[0].removesuffix("data.pkl")
    return read_pickle(archive.read(programs[0]), lambda instance: _tensor(instance, archive, folder))


def _tensor(instance: Instance, archive: Archive, folder: str) -> None:
    """The array of `torch._utils._rebuild_tensor_v2(storage, offset, size, stride, ...)`."""
    if not instance.is_call("_rebuild_tensor_v2", "torch._utils") or len(instance.arguments) < 4:
        return
    storage, offset, size, stride = instance.arguments[:4]
    described = storage.arguments[0] if isinstance(storage, Instance) and storage.arguments else ()
    if not isinstance(described, tuple) or len(described) < 3 or not isinstance(described[1], Name):
        raise NotAnArray("a tensor whose storage is not described")
    kind, member = _STORAGES.get(described[1].name, ""), f"{folder}data/{described[2]}"
    if not kind or member not in archive.sizes or not isinstance(offset, int) or offset < 0:
        raise NotAnArray("a tensor whose numbers are not in this file")
    raw = archive.read(member)
    if kind == "bfloat16":
        numbers = (np.frombuffer(raw[: len(raw) // 2 * 2], "<u2").astype("<u4") << 16).view("<f4")
    else:
        width = np.dtype(kind).itemsize
        numbers = np.frombuffer(raw[: len(raw) // width * width], kind)
    shape, steps = shape_of(size), shape_of(stride)
    last = offset + sum((n - 1) * step for n, step in zip(shape, steps, strict=False))
    too_large = (0 not in shape and last >= len(numbers)) or np.prod(shape, dtype=object) > len(numbers)
    if too_large or len(shape) != len(steps):
        raise NotAnArray("a tensor larger than its storage")
    view = np.lib.stride_tricks.as_strided(
        numbers[offset:], shape, [step * numbers.itemsize for step in steps], writeable=False
    )
    instance.array = np.array(view)
