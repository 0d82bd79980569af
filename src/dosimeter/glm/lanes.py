"""Formulas written for arrays, compiled: each numpy operation on a `Lanes` writes one line in LLVM's language.

`kernel.py` states every formula once, for arrays (m,). Called with Lanes in place of arrays the same functions leave
behind a program for several rows at a time, and so the compiled path has no formula of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

BINARY = {
    np.add: "fadd",
    np.subtract: "fsub",
    np.multiply: "fmul",
    np.divide: "fdiv",
    np.less: "fcmp olt",
    np.less_equal: "fcmp ole",
    np.greater: "fcmp ogt",
    np.greater_equal: "fcmp oge",
    np.equal: "fcmp oeq",
    np.bitwise_and: "and",
    np.bitwise_or: "or",
}
# minimum and maximum of LLVM hand a nan on as numpy's do; minnum and a comparison would not.
NAMED = {np.minimum: "minimum", np.maximum: "maximum", np.sqrt: "sqrt", np.absolute: "fabs"}


class Program:
    """The lines of one function, in order, and the block that the next line belongs to.

    width: numbers in a Lanes. fused: whether a product and a sum may be rounded once, which numpy never does.
    """

    def __init__(self, width: int, fused: bool = False) -> None:
        self.width, self.fused = width, fused
        self.kind, self.truth = f"<{width} x double>", f"<{width} x i1>"
        self.lines: list[str] = []
        self.block = "entry"

    def line(self, text: str) -> str:
        """One more line; the name of its value."""
        self.lines.append(f"  %t{len(self.lines)} = {text}")
        return f"%t{len(self.lines) - 1}"

    def act(self, text: str) -> None:
        """A line without a value."""
        self.lines.append(f"  {text}")

    def real(self, name: str) -> Any:
        """A value of this name, as Lanes; like all that makes Lanes, typed as what the formulas take."""
        return Lanes(self, name, self.kind)

    def zero(self) -> Any:
        """0.0 in every lane."""
        return self.real("zeroinitializer")

    def never(self) -> Any:
        """False in every lane."""
        return Lanes(self, "zeroinitializer", self.truth)

    def every(self, entry: str) -> str:
        """A constant in every lane."""
        return f"<{', '.join([entry] * self.width)}>"

    def splat(self, scalar: str) -> Any:
        """A double in every lane."""
        kind, picks = self.kind, f"<{self.width} x i32> zeroinitializer"
        first = self.line(f"insertelement {kind} poison, double {scalar}, i64 0")
        return self.real(self.line(f"shufflevector {kind} {first}, {kind} poison, {picks}"))

    def at(self, base: str, index: str) -> str:
        """The address of a double of an array."""
        return self.line(f"getelementptr double, ptr {base}, i64 {index}")

    def load(self, base: str, index: str) -> Any:
        """As many doubles as lanes, from `index` on."""
        return self.real(self.line(f"load {self.kind}, ptr {self.at(base, index)}, align 8"))

    def load_splat(self, base: str, index: str) -> Any:
        """The double at `index` in every lane."""
        return self.splat(self.line(f"load double, ptr {self.at(base, index)}, align 8"))

    def load_pair(self, base: str, index: str) -> list[str]:
        """Two whole numbers, the names of row `index` of an array of pairs."""
        places = [self.line(f"add i64 {self.line(f'mul i64 {index}, 2')}, {j}") for j in (0, 1)]
        return [self.line(f"load i64, ptr {self.at(base, x)}, align 8") for x in places]

    def least(self, one: str, other: str) -> str:
        """The smaller of two whole numbers."""
        return self.line(f"select i1 {self.line(f'icmp ult i64 {one}, {other}')}, i64 {one}, i64 {other}")

    def once_more(self, index: str, count: str) -> str:
        """Whether a loop that has reached `index` has another round to go."""
        return self.line(f"icmp ult i64 {self.line(f'add i64 {index}, 1')}, {count}")

    def store(self, value: Any, base: str, index: str) -> None:
        """As many doubles as lanes, from `index` on."""
        self.act(f"store {self.kind} {value.name}, ptr {self.at(base, index)}, align 8")

    def repeat(self, start: Sequence[Any], body: Callable[..., tuple[Sequence[Any], str]]) -> list[Any]:
        """body(index, *values) -> (next values, name of "once more"), at least once; the last values.

        The index counts 0, 1, 2, ...
        """
        before, here = self.block, len(self.lines)
        head, after = f"head{here}", f"after{here}"
        self.act(f"br label %{head}")
        self.lines.append(f"{head}:")
        self.block, first = head, len(self.lines)
        self.lines += [""] * (1 + len(start))
        index = f"%t{first}"
        held = [Lanes(self, f"%t{first + 1 + j}", x.kind) for j, x in enumerate(start)]
        values, more = body(index, *held)
        following, latch = self.line(f"add i64 {index}, 1"), self.block
        self.lines[first] = f"  {index} = phi i64 [0, %{before}], [{following}, %{latch}]"
        for old, from_start, new in zip(held, start, values, strict=True):
            place = int(old.name[2:])
            ways = f"[{from_start.name}, %{before}], [{new.name}, %{latch}]"
            self.lines[place] = f"  {old.name} = phi {old.kind} {ways}"
        self.act(f"br i1 {more}, label %{head}, label %{after}")
        self.lines.append(f"{after}:")
        self.block = after
        return list(values)

    def text(self, signature: str) -> str:
        """The function."""
        return "\n".join([f"define void {signature} {{", "entry:", *self.lines, "  ret void", "}", ""])

    def intrinsics(self) -> str:
        """The functions of LLVM's own that programs of this width call."""
        kinds = {name: ", ".join([self.kind] * ufunc.nin) for ufunc, name in NAMED.items()}
        return "".join(f"declare {self.kind} @llvm.{n}.v{self.width}f64({k})\n" for n, k in kinds.items())


class Lanes(NDArrayOperatorsMixin):
    """Numbers, or truths, that a program will have computed: what numpy's operators and functions take for an array.

    >>> program = Program(2)
    >>> x = program.real("%x")
    >>> y = x * x
    >>> program.lines
    ['  %t0 = fmul <2 x double> %x, %x']
    """

    dtype = np.dtype(np.float64)

    def __init__(self, program: Program, name: str, kind: str) -> None:
        self.program, self.name, self.kind = program, name, kind

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Lanes:
        # x += y comes with out=(x,): the name is bound anew, as for any number.
        if method != "__call__" or named.keys() - {"out"}:
            raise TypeError(f"{ufunc}.{method} with {sorted(named)} is not among the operations that are compiled")
        real, truth = self.program.kind, self.program.truth
        names = [self._name(x) for x in inputs]
        if ufunc is np.negative:
            return self._line(f"fneg {real} {self.name}", real)
        if ufunc is np.invert:
            return self._line(f"xor {truth} {self.name}, {self.program.every('i1 true')}", truth)
        if ufunc in NAMED:
            given = ", ".join(f"{real} {name}" for name in names)
            return self._line(f"call {real} @llvm.{NAMED[ufunc]}.v{self.program.width}f64({given})", real)
        if ufunc not in BINARY:
            raise TypeError(f"{ufunc} is not among the operations that are compiled")
        word, how = BINARY[ufunc], " contract" if self.program.fused and ufunc in (np.add, np.multiply) else ""
        kind = truth if word in ("and", "or") else real
        return self._line(f"{word}{how} {kind} {names[0]}, {names[1]}", truth if word.startswith("fcmp") else kind)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Lanes:
        if function is not np.where or named:
            raise TypeError(f"{function} is not among the operations that are compiled")
        real, (chosen, yes, no) = self.program.kind, args
        choice = f"{self.program.truth} {chosen.name}, {real} {self._name(yes)}, {real} {self._name(no)}"
        return self._line(f"select {choice}", real)

    def _line(self, text: str, kind: str) -> Lanes:
        return Lanes(self.program, self.program.line(text), kind)

    def _name(self, x: Any) -> str:
        return x.name if isinstance(x, Lanes) else self.program.every(f"double {_exactly(float(x))}")

    def everywhere(self) -> str:
        """The name of the truth that all lanes are true."""
        width = self.program.width
        bits = self.program.line(f"bitcast {self.program.truth} {self.name} to i{width}")
        return self.program.line(f"icmp eq i{width} {bits}, -1")


class Stack(tuple[Any, ...]):
    """Several Lanes where an array would have a first axis: slices, and products with Lanes or another Stack."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return Stack(found) if isinstance(index, slice) else found

    def __mul__(self, other: Any) -> Stack:
        factors = other if isinstance(other, Stack) else [other] * len(self)
        return Stack(x * y for x, y in zip(self, factors, strict=True))


def _exactly(x: float) -> str:
    """A double in LLVM's hexadecimal, which rounds nothing."""
    return f"0x{struct.unpack('>Q', struct.pack('>d', x))[0]:016X}"
