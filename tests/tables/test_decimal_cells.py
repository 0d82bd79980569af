"""Cells that are joined from their digits: the oracle is `float` of the same text."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.tables.decimal_cells import decimal_cells
from dosimeter.tables.number_block import number_block


def read(cells: list[str]) -> np.ndarray | None:
    text = ",".join(cells).encode() + b"\n"
    letters = np.frombuffer(text, dtype=np.uint8)
    return decimal_cells(text, np.flatnonzero((letters == ord(",")) | (letters == ord("\n"))))


def assert_same_bits(cells: list[str]) -> None:
    numbers = read(cells)
    assert numbers is not None
    expected = np.array([float(cell) for cell in cells])
    assert numbers.tobytes() == expected.tobytes()


SIZES = [(form, size) for form in ("%.3f", "%.7f", "%.0f", "%.1f") for size in (1e-2, 1.0, 1e4, 1e6)]


@pytest.mark.parametrize(("form", "size"), [("%.6g", 1.0), ("%.6g", 1e4), *SIZES])
def test_short_decimals_are_the_floats_of_their_text_to_the_last_bit(form: str, size: float) -> None:
    rng = np.random.default_rng(int(size) + len(form))
    assert_same_bits([form % value for value in size * rng.standard_normal(2000)] + ["1"] * 200)


def test_signs_points_at_either_end_and_the_longest_cells_are_read() -> None:
    edges = ["0", "-0", "5.", ".5", "-.5", "-5.", "123456789012345", "-999999999999999", "99999999.999999", "0.0000001"]
    assert_same_bits(edges)


def test_a_few_exponents_plus_signs_and_long_cells_go_through_float() -> None:
    assert_same_bits([*["1.5"] * 50, "1e-7", "+3", "0.12345678901234567", "1E5", "1234567890123456789", "0.12345678"])


def test_a_block_with_many_other_cells_is_left_to_the_reader_of_any_number() -> None:
    cells = [f"{value:.6g}" for value in 1e6 * np.random.default_rng(0).standard_normal(999)]
    assert read(cells) is None
    numbers = number_block(",".join(cells).encode() + b"\n", len(cells), ",")
    assert numbers is not None
    assert numbers[:, 0].tolist() == [float(cell) for cell in cells]


@pytest.mark.parametrize("bad", ["-", ".", "-.", "1.2.3", "1-2", "--1", "1e", "e5", "+", "1..", "12.34.5678"])
def test_a_cell_that_is_no_number_gives_none(bad: str) -> None:
    assert read([*["1.5"] * 50, bad]) is None
