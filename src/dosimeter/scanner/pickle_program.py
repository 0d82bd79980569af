"""A pickle is a program for a stack machine. Its instructions are read and recorded; nothing is imported or called.

pickletools reads the instructions. An instruction that would import, call or set something makes a record of it
(`symbolic`). Arrays of numpy, joblib and torch are recognised by the calls that would rebuild them.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dosimeter.scanner.symbolic import (
    Instance,
    Items,
    Name,
    NotAnArray,
    array_from_bytes,
    dtype_of,
    shape_of,
)

MOST_OPCODES = 400_000
_DEEPEST = 20
_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
_NUMERIC = ("numpy.core.numeric", "numpy._core.numeric")
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_MARK = object()


class NotAPickle(ValueError):
    """Bytes that are not the instructions of a pickle, or more of them than are followed."""


@dataclass
class Machine:
    """Stack and memo. rebuild: what else is recognised, as a function of a finished call (the tensors of torch)."""

    data: bytes
    rebuild: Callable[[Instance], None] | None = None
    opcodes_left: int = MOST_OPCODES
    unread: list[str] = field(default_factory=list)
    stack: list[Any] = field(default_factory=list)
    memo: dict[Any, Any] = field(default_factory=dict)
    depth: int = 0

    def run(self, file: io.BytesIO | None = None) -> tuple[Any, int]:
        """What the instructions describe, and the offset behind the last one."""
        file = file or io.BytesIO(self.data)
        try:
            for opcode, argument, _ in pickletools.genops(file):
                self.opcodes_left -= 1
                if self.opcodes_left < 0:
                    raise NotAPickle(f"more than {MOST_OPCODES} instructions")
                if opcode.name == "STOP":
                    return (self.stack[-1] if self.stack else None), file.tell()
                self.step(opcode.name, argument, file)
        except (IndexError, KeyError, TypeError, AttributeError, OverflowError, UnicodeError, ValueError) as error:
            if isinstance(error, NotAPickle):
                raise
            raise NotAPickle("its instructions do not fit together") from None
        raise NotAPickle("its instructions have no end")

    def step(self, name: str, argument: Any, file: io.BytesIO) -> None:
        """One instruction."""
        stack = self.stack
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in ("PROTO", "FRAME", "READONLY_BUFFER"):
            return
        elif name in _SPECIAL:
            _SPECIAL[name](self, argument)
            if name == "BUILD":
                self._joblib_array(stack[-1], file)
        elif argument is not None:  # a number, a text or bytes
            stack.append(argument)
        else:
            raise NotAPickle(f"the instruction {name} is not followed")

    def above_mark(self) -> list[Any]:
        """What was pushed since the last mark, taken off the stack with it."""
        position = len(self.stack) - 1
        while self.stack[position] is not _MARK:
            position -= 1
            if position < 0:
                raise NotAPickle("a mark is missing")
        values = self.stack[position + 1 :]
        del self.stack[position:]
        return values

    def call(self, function: Any, arguments: Any) -> Any:
        """A call, as a record; bytes that were written as text, and arrays, become what they are."""
        instance = Instance(function, arguments if isinstance(arguments, tuple) else ())
        values = instance.arguments
        try:
            if instance.is_call("encode", "_codecs") and len(values) == 2 and isinstance(values[0], str):
                return values[0].encode("latin1")
            if instance.is_call("bytes", "builtins", "__builtin__") and not values:
                return b""
            if instance.is_call("bytearray", "builtins", "__builtin__") and values and isinstance(values[0], bytes):
                return values[0]
            if instance.is_call("scalar", *_MULTIARRAY) and len(values) == 2:
                instance.array = array_from_bytes(values[1], dtype_of(values[0]), (), False)
            if instance.is_call("_frombuffer", *_NUMERIC) and len(values) == 4:
                instance.array = array_from_bytes(values[0], dtype_of(values[1]), values[2], values[3] == "F")
            if self.rebuild is not None:
                self.rebuild(instance)
        except NotAnArray as why:
            self.unread.append(str(why))
        return instance

    def build(self, instance: Any, state: Any) -> None:
        """The state of an object; the bytes of a numpy array are part of it."""
        if not isinstance(instance, Instance):
            return
        instance.state = state
        if instance.is_call("_reconstruct", *_MULTIARRAY) and isinstance(state, tuple) and len(state) >= 5:
            if isinstance(state[4], list):
                return  # an array of objects: a list of them
            try:
                instance.array = array_from_bytes(state[4], dtype_of(state[2]), state[1], bool(state[3]))
                instance.state = None
            except NotAnArray as why:
                self.unread.append(str(why))

    def _joblib_array(self, wrapper: Any, file: io.BytesIO) -> None:
        """joblib writes the bytes of an array behind the instruction that describes it."""
        if not isinstance(wrapper, Instance) or wrapper.owner != "NumpyArrayWrapper":
            return
        state = wrapper.state
        if not isinstance(state, Items):
            raise NotAPickle("an array of joblib without a description")
        shape, kind = shape_of(state.get("shape")), state.get("dtype")
        try:
            dtype = dtype_of(kind)
        except NotAnArray as why:
            if str(why) != "an array of objects":
                raise NotAPickle(str(why)) from None
            if self.depth > _DEEPEST:
                raise NotAPickle(f"nested more than {_DEEPEST} deep") from None
            inner = Machine(self.data, self.rebuild, self.opcodes_left, self.unread, depth=self.depth + 1)
            wrapper.state, _ = inner.run(file)
            self.opcodes_left = inner.opcodes_left
            return
        if state.get("numpy_array_alignment_bytes") is not None:
            padding = file.read(1)
            file.seek(padding[0], io.SEEK_CUR)
        count = 1
        for size in shape:
            count *= size
        data = file.read(min(count * dtype.itemsize, len(self.data)))
        wrapper.array = array_from_bytes(data, dtype, shape, state.get("order") == "F")
        wrapper.state = None


def _pop(machine: Machine) -> Any:
    return machine.stack.pop()


def _global(machine: Machine, argument: Any) -> None:
    module, _, name = str(argument).partition(" ")
    machine.stack.append(Name(module, name))


def _stack_global(machine: Machine, _: Any) -> None:
    name, module = _pop(machine), _pop(machine)
    machine.stack.append(Name(str(module), str(name)))


def _reduce(machine: Machine, _: Any) -> None:
    arguments, function = _pop(machine), _pop(machine)
    machine.stack.append(machine.call(function, arguments))


def _new_object(machine: Machine, _: Any) -> None:
    arguments, kind = _pop(machine), _pop(machine)
    machine.stack.append(Instance(kind, arguments if isinstance(arguments, tuple) else ()))


def _new_object_ex(machine: Machine, _: Any) -> None:
    _pop(machine)
    _new_object(machine, None)


def _instance(machine: Machine, argument: Any) -> None:
    module, _, name = str(argument).partition(" ")
    machine.stack.append(Instance(Name(module, name), tuple(machine.above_mark())))


def _object(machine: Machine, _: Any) -> None:
    kind, *arguments = machine.above_mark()
    machine.stack.append(Instance(kind, tuple(arguments)))


def _build(machine: Machine, _: Any) -> None:
    state = _pop(machine)
    machine.build(machine.stack[-1], state)


def _extend(machine: Machine, values: list[Any]) -> None:
    target = machine.stack[-1]
    (target.elements if isinstance(target, Instance) else target).extend(values)


def _set_items(machine: Machine, values: list[Any]) -> None:
    target = machine.stack[-1]
    items = target.items if isinstance(target, Instance) else target
    items.pairs.extend(zip(values[::2], values[1::2], strict=True))


def _set_item(machine: Machine, _: Any) -> None:
    value, key = _pop(machine), _pop(machine)
    _set_items(machine, [key, value])


def _append(machine: Machine, _: Any) -> None:
    value = _pop(machine)
    _extend(machine, [value])


def _tuple_of(count: int) -> Callable[[Machine, Any], None]:
    def instruction(machine: Machine, _: Any) -> None:
        values = machine.stack[len(machine.stack) - count :]
        if len(values) != count or any(value is _MARK for value in values):
            raise NotAPickle("a tuple without its values")
        del machine.stack[len(machine.stack) - count :]
        machine.stack.append(tuple(values))

    return instruction


def _remember(machine: Machine, argument: Any) -> None:
    machine.memo[len(machine.memo) if argument is None else argument] = machine.stack[-1]


def _pairs(values: list[Any]) -> Items:
    return Items(list(zip(values[::2], values[1::2], strict=True)))


_SPECIAL: dict[str, Callable[[Machine, Any], Any]] = {
    "MARK": lambda machine, _: machine.stack.append(_MARK),
    "POP": lambda machine, _: machine.stack.pop(),
    "POP_MARK": lambda machine, _: machine.above_mark(),
    "DUP": lambda machine, _: machine.stack.append(machine.stack[-1]),
    "EMPTY_LIST": lambda machine, _: machine.stack.append([]),
    "EMPTY_SET": lambda machine, _: machine.stack.append([]),
    "EMPTY_TUPLE": lambda machine, _: machine.stack.append(()),
    "EMPTY_DICT": lambda machine, _: machine.stack.append(Items()),
    "LIST": lambda machine, _: machine.stack.append(machine.above_mark()),
    "FROZENSET": lambda machine, _: machine.stack.append(machine.above_mark()),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.above_mark())),
    "DICT": lambda machine, _: machine.stack.append(_pairs(machine.above_mark())),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "APPEND": _append,
    "APPENDS": lambda machine, _: _extend(machine, machine.above_mark()),
    "ADDITEMS": lambda machine, _: _extend(machine, machine.above_mark()),
    "SETITEM": _set_item,
    "SETITEMS": lambda machine, _: _set_items(machine, machine.above_mark()),
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": _reduce,
    "NEWOBJ": _new_object,
    "NEWOBJ_EX": _new_object_ex,
    "INST": _instance,
    "OBJ": _object,
    "BUILD": _build,
    "PERSID": lambda machine, argument: machine.stack.append(Instance(Name("", "persistent"), (argument,))),
    "BINPERSID": lambda machine, _: machine.stack.append(Instance(Name("", "persistent"), (machine.stack.pop(),))),
    "NEXT_BUFFER": lambda machine, _: machine.stack.append(Instance(Name("", "buffer of another file"))),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _remember),
    **dict.fromkeys(
        ("GET", "BINGET", "LONG_BINGET"), lambda machine, argument: machine.stack.append(machine.memo[argument])
    ),
    **dict.fromkeys(
        ("EXT1", "EXT2", "EXT4"), lambda machine, argument: machine.stack.append(Name("extension", str(argument)))
    ),
}
"""Instruction -> what it does on paper. Numbers, texts and bytes are not listed: they push their argument."""
