"""The programs of compiled.py in LLVM's language: the steps of `kernel.py` on WIDTH rows at a time, and moments.

The steps are written by calling the formulas themselves with Lanes, so that both paths have one set of formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dosimeter.glm.lanes import Program, Stack
from dosimeter.glm.ritz import Poles, advance, ceiling, first_trial, in_units, ritz_step, six, tilt

WIDTH = 16
"""Rows at a time: two registers of the widest kind, so that one division hides behind the other."""

TILE, PANEL = 8, 64
"""Second moments are summed in squares of so many columns, which fit the registers, over panels of so many rows."""

ROUNDS, TOLERANCE = 25, 1e-14
"""Steps at most, and the error that may be left after the last."""

SMALLEST, LARGEST = 1e-100, 1e100
"""‖z‖² of the rows that are tried; outside, a product of several may leave float64's range."""

UNSOLVED = -1.0

SOLVE = {
    "ptr": ("Z", "poles", "a", "r", "A", "scratch", "out"),
    "double": ("floor", "spread", "sigma", "tau", "v0", "vv", "dvv", "cancelled", "huge"),
    "i64": ("stride", "rows", "count"),
}
MOMENTS = {
    "ptr": ("X", "weight", "first", "diagonal", "other", "diagonal_sums", "other_sums"),
    "i64": ("rows", "columns", "diagonal_count", "other_count"),
}


def _signature(name: str, arguments: dict[str, tuple[str, ...]]) -> str:
    return f"@{name}({', '.join(f'{kind} %{x}' for kind, names in arguments.items() for x in names)})"


def source(wide: bool) -> str:
    """Both programs in LLVM's language; wide: whether the processor has 32 registers of eight doubles."""
    # Half a square is what sixteen registers of four doubles hold; a whole one would go through memory all the time.
    return Program(WIDTH).intrinsics() + _solve_source() + _moments_source(TILE if wide else TILE // 2)


def _moments_source(lines: int) -> str:
    """Σ weight xᵢ xⱼ in squares of TILE columns, with those on the diagonal Σ first xⱼ; panel after panel of rows."""
    program = Program(TILE, fused=True)

    def panel(index: str) -> tuple[list[Any], str]:
        start = program.line(f"mul i64 {index}, {PANEL}")
        end = program.least(program.line(f"add i64 {start}, {PANEL}"), "%rows")
        rows = start, program.line(f"sub i64 {end}, {start}")
        program.repeat([], lambda index: _square(program, index, rows, lines, diagonal=True))
        program.repeat([], lambda index: _square(program, index, rows, lines, diagonal=False))
        return [], program.line(f"icmp ult i64 {end}, %rows")

    program.repeat([], panel)
    return program.text(_signature("moments", MOMENTS))


def _square(program: Program, square: str, rows: tuple[str, str], lines: int, diagonal: bool) -> tuple[list[Any], str]:
    """One square over one panel, added to its sums; `lines` of it in one go."""
    which = "diagonal" if diagonal else "other"
    i, j = program.load_pair(f"%{which}", square)

    def row(top: int, index: str, *sums: Any) -> tuple[list[Any], str]:
        place = program.line(f"add i64 {rows[0]}, {index}")
        base = program.line(f"mul i64 {place}, %columns")
        x = program.load("%X", program.line(f"add i64 {base}, {j}"))
        heavy, start = x * program.load_splat("%weight", place), program.line(f"add i64 {base}, {i}")
        terms = [
            program.load_splat("%X", program.line(f"add i64 {start}, {k}")) * heavy
            if k < TILE
            else program.load_splat("%first", place) * x
            for k in range(top, top + len(sums))
        ]
        return [s + t for s, t in zip(sums, terms, strict=True)], program.once_more(index, rows[1])

    height = TILE + diagonal
    base = program.line(f"mul i64 {square}, {height * TILE}")
    for top in range(0, TILE, lines):
        count = lines + (diagonal and top + lines == TILE)
        for k, total in enumerate(program.repeat([program.zero()] * count, partial(row, top)), top):
            at = program.line(f"add i64 {base}, {k * TILE}")
            program.store(program.load(f"%{which}_sums", at) + total, f"%{which}_sums", at)
    return [], program.once_more(square, f"%{which}_count")


def _solve_source() -> str:
    """The largest eigenvalue of every row, a tile of WIDTH rows after the other."""
    program = Program(WIDTH)
    given = {name: program.splat(f"%{name}") for name in SOLVE["double"]}
    last = program.line(f"sub i64 %rows, {WIDTH}")

    def tile(index: str) -> tuple[list[Any], str]:
        # The last tile starts earlier: some rows are done twice, and nothing is read past the end.
        start = program.least(program.line(f"mul i64 {index}, {WIDTH}"), last)
        program.store(_tile(program, given, start), "%out", start)
        return [], program.line(f"icmp ult i64 {start}, {last}")

    program.repeat([], tile)
    return program.text(_signature("solve", SOLVE))


def _tile(program: Program, given: dict[str, Any], start: str) -> Any:
    """λ₁ of WIDTH rows from `start` on, or UNSOLVED."""
    a, r, A, z0 = (program.load(f"%{name}", start) for name in ("a", "r", "A", "Z"))
    terms, none = _Terms(program, given, start), np.empty(0)
    poles = Poles(given["floor"], given["spread"], none, none, none, near=0.0, far=1e17)
    size, root = z0 * z0 + terms.zz, np.sqrt(A)
    R, b, unit = in_units(given["sigma"], r, root, np.sqrt(size))
    scalars: Any = Stack(six(R, b, tilt(given["tau"], a, r, root), z0, given["v0"]))
    trial, bound = first_trial(poles, terms, scalars)
    top = ceiling(poles, scalars[0], bound)

    def step(index: str, delta: Any, top: Any, done: Any) -> tuple[list[Any], str]:
        rho, gap = ritz_step(poles, terms, scalars, delta)
        new, lower, enough = advance(poles, scalars[0], delta, top, rho, gap, TOLERANCE)
        done_now: Any = done | enough
        left = program.line(f"xor i1 {done_now.everywhere()}, true")
        more = program.line(f"and i1 {left}, {program.once_more(index, str(ROUNDS))}")
        return [np.where(done, delta, new), np.where(done, top, lower), done_now], more

    first = np.minimum(np.maximum(trial, 1e-15 * bound), top)
    delta, _, done = program.repeat([first, top, program.never()], step)
    out = scalars[0] * poles.floor + delta
    sound = (unit < given["huge"]) & (size > SMALLEST) & (size < LARGEST)
    return np.where(done & sound & (out > given["cancelled"] * bound), out * unit * unit, UNSOLVED)


class _Terms:
    """The pole sums of a tile. Its rows are copied to the scratch first, where they lie together."""

    def __init__(self, program: Program, given: dict[str, Any], start: str) -> None:
        self.program, self.given = program, given

        def term(index: str) -> tuple[Any, ...]:
            row = program.line(f"mul i64 {program.line(f'add i64 {index}, 1')}, %stride")
            z = program.load("%Z", program.line(f"add i64 {row}, {start}"))
            program.store(z, "%scratch", program.line(f"mul i64 {index}, {WIDTH}"))
            _, v, _, D = self._pole(index)
            return z * z, z * v, z * z * D, z * v * D

        self.zz, self.zv, self.dzz, self.dzv = self._sum(4, term)

    def moments(self, poles: Poles) -> Any:
        """As in WithMoments."""
        return self.zz, self.zv, self.given["vv"], self.dzz, self.dzv, self.given["dvv"]

    def sums(self, poles: Poles, e: Any) -> Any:
        """As in Terms."""

        def term(index: str) -> tuple[Any, ...]:
            gap, v, vv, _ = self._pole(index)
            z = self.program.load("%scratch", self.program.line(f"mul i64 {index}, {WIDTH}"))
            E = 1.0 / (e + gap)
            B = E * z
            return B * z, B * v, E * vv, B * B, B * E * v, E * E * vv

        return Stack(self._sum(6, term))

    def take(self, at: Any) -> _Terms:
        """The lanes of a tile are not picked: those that are done wait for the others."""
        raise TypeError("the lanes of a tile are not picked")

    def _pole(self, index: str) -> list[Any]:
        base = self.program.line(f"mul i64 {index}, 4")
        return [self.program.load_splat("%poles", self.program.line(f"add i64 {base}, {j}")) for j in range(4)]

    def _sum(self, count: int, term: Callable[[str], tuple[Any, ...]]) -> list[Any]:
        """Σ over the poles of `count` quantities."""

        def add(index: str, *sums: Any) -> tuple[list[Any], str]:
            return [s + t for s, t in zip(sums, term(index), strict=True)], self.program.once_more(index, "%count")

        return self.program.repeat([self.program.zero()] * count, add)
