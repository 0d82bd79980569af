"""The oracle is numpy on the same numbers: a program must round, compare and hand on a nan as numpy does."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.glm import compiled
from dosimeter.glm.lanes import Program, Stack

pytest.importorskip("llvmlite", reason="programs are compiled by the extra `fast`")

WIDTH = 4
ODD = [0.0, -0.0, 1.0, -2.5, 1e-310, 1e300, np.inf, -np.inf, np.nan, 1 / 3]
FORMULAS = {
    "sum": lambda x, y: x + y,
    "difference": lambda x, y: 1.0 - (x - y),
    "product and sum, rounded twice": lambda x, y: x * y + x,
    "quotient": lambda x, y: x / y,
    "negative": lambda x, y: -x,
    "root": lambda x, y: np.sqrt(np.abs(x)) + y,
    "least": lambda x, y: np.minimum(x, y),
    "largest, with a number": lambda x, y: np.maximum(np.maximum(x, y), 1e-30),
    "less": lambda x, y: np.where(x < y, x, 7.0),
    "at most": lambda x, y: np.where(x <= y, x, 7.0),
    "more": lambda x, y: np.where(x > y, x, 7.0),
    "at least": lambda x, y: np.where(x >= y, x, 7.0),
    "equal": lambda x, y: np.where(x == 0, 1.0, y),
    "and, or, not": lambda x, y: np.where((x < y) & ~(y > 1.0) | (x == y), x, y),
    "in place": lambda x, y: _in_place(x, y),
}


def _in_place(x, y):
    truth = x < y
    truth &= y > 0
    truth |= x == y
    return np.where(truth, x, y)


def run(formula, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    program = Program(WIDTH)
    program.store(formula(program.load("%x", "0"), program.load("%y", "0")), "%out", "0")
    arguments = {"ptr": ("x", "y", "out")}
    text = program.intrinsics() + program.text("@f(ptr %x, ptr %y, ptr %out)")
    machine, out = compiled.build(lambda _: text), np.empty(WIDTH)
    machine.function("f", arguments)(x.ctypes.data, y.ctypes.data, out.ctypes.data)
    return out


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_gives_what_numpy_gives(name):
    pairs = np.array([(x, y) for x in ODD for y in ODD])
    with np.errstate(all="ignore"):
        for i in range(0, len(pairs), WIDTH):
            x, y = np.ascontiguousarray(pairs[i : i + WIDTH].T)
            np.testing.assert_array_equal(run(FORMULAS[name], x, y), FORMULAS[name](x, y))


def test_a_loop_carries_its_values_and_counts():
    program = Program(WIDTH)
    x = program.load("%x", "0")

    def body(index, total, product):
        return [total + x, product * 2.0], program.once_more(index, "5")

    total, product = program.repeat([program.zero(), x], body)
    program.store(total * product, "%out", "0")
    machine = compiled.build(lambda _: program.text("@f(ptr %x, ptr %out)"))
    given, out = np.arange(4.0), np.empty(4)
    machine.function("f", {"ptr": ("x", "out")})(given.ctypes.data, out.ctypes.data)
    np.testing.assert_array_equal(out, 5 * given * 32 * given)


def test_a_fused_program_rounds_a_product_and_a_sum_at_most_once():
    """x² − (x² rounded) is not zero if it is fused and zero if it is not: both are within a rounding of the truth."""
    program = Program(WIDTH, fused=True)
    x, y = program.load("%x", "0"), program.load("%y", "0")
    program.store(x * x + y, "%out", "0")
    machine = compiled.build(lambda _: program.text("@f(ptr %x, ptr %y, ptr %out)"))
    given, out = np.full(4, 1 / 3), np.empty(4)
    less = -given * given
    machine.function("f", {"ptr": ("x", "y", "out")})(given.ctypes.data, less.ctypes.data, out.ctypes.data)
    assert (abs(out) <= np.spacing(1 / 9)).all()


@pytest.mark.parametrize("operation", [np.exp, np.cumsum, np.add.reduce])
def test_an_operation_that_is_not_compiled_is_refused(operation):
    with pytest.raises(TypeError, match="not among the operations"):
        operation(Program(WIDTH).real("%x"))


def test_a_stack_is_sliced_and_multiplied_as_an_array_is():
    two, three = Stack((1.0, 2.0, 3.0)), Stack((4.0, 5.0))
    assert two[1:] * three == (8.0, 15.0)
    assert two * 2.0 == (2.0, 4.0, 6.0)
    assert two[0] == 1.0
