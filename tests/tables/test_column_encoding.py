"""The kinds of columns: each against plain arithmetic, and none depends on rows that it must not see."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.tables.column_encoding import CategoryColumn, NumberColumn, PartColumn, RangeColumn
from dosimeter.tables.column_levels import frame_levels, level_values
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.table import Table

SITES = (np.array([0, 2]), np.array([1, 3, 4]))
AGE = np.array([30.0, 40.0, 50.0, 60.0, 80.0])


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(-0.5, 1.5))
def test_bounds_become_minus_one_and_one(lower, width, place):
    """The oracle is a line through both ends in fractions; either rounding is within a few units in the last place."""
    upper = lower + width
    if not lower < upper:
        return
    u = lower + place * (upper - lower)
    exact = float(2 * (Fraction(u) - Fraction(lower)) / (Fraction(upper) - Fraction(lower)) - 1)
    slack = 1e-15 * (4 + 8 * max(abs(lower), abs(upper)) / (upper - lower))
    clipped, free = (float(RangeColumn("u", lower, upper, clip=clip).place(np.array([u]))[0]) for clip in (True, False))
    assert abs(free - exact) <= slack
    assert abs(clipped - min(max(exact, -1), 1)) <= slack


def test_a_value_that_overflows_when_scaled_is_clamped():
    assert RangeColumn("u", 0.0, 1e-300, clip=False).place(np.array([1e300])).tolist() == [1e100]
    assert RangeColumn("u", -1e308, 1e308).place(np.array([0.0, 1e308])).tolist() == [0.0, 1.0]


def test_each_part_standardises_its_own_rows():
    X = PartColumn("age").design(Table.of({"age": AGE}), SITES)[:, 0]
    np.testing.assert_allclose(X[SITES[0]], [-1, 1])
    np.testing.assert_allclose(X[SITES[1]], (AGE[SITES[1]] - 60) / np.sqrt(800 / 3))
    moved = AGE.copy()
    moved[SITES[0]] *= 1e150
    other = PartColumn("age").design(Table.of({"age": moved}), SITES)[:, 0]
    np.testing.assert_array_equal(other[SITES[1]], X[SITES[1]])
    same = PartColumn("age").design(Table.of({"age": np.full(5, 7.0)}), SITES)
    np.testing.assert_array_equal(same, np.zeros((5, 1)))


def test_without_parts_all_rows_are_one():
    encoding, table = TableEncoding((PartColumn("age"),)), Table.of({"age": AGE})
    np.testing.assert_array_equal(encoding.design(table), encoding.design(table, [np.arange(5)]))
    np.testing.assert_allclose(encoding.design(table)[:, 0], (AGE - AGE.mean()) / AGE.std())


CITIES = Table.of({"city": ["Ulm", "Bonn", "Graz", "Ulm"]})


def test_an_unlisted_label_has_no_indicator_counts_as_another_level_or_is_refused():
    levels = ("Graz", "Ulm")
    none = CategoryColumn("city", levels, indicators=True).design(CITIES)
    assert none.tolist() == [[0, 1], [0, 0], [1, 0], [0, 1]]
    first = CategoryColumn("city", levels, others=0, indicators=True).design(CITIES)
    assert first.tolist() == [[0, 1], [1, 0], [1, 0], [0, 1]]
    assert CategoryColumn("city", levels, others=0).design(CITIES)[:, 0].tolist() == [0.5, -0.5, -0.5, 0.5]
    assert CategoryColumn("city", levels).positions(CITIES).tolist() == [1, -1, 0, 1]
    with pytest.raises(Refusal, match=r"the fit did not have \(row 1 counted from 0, column city\)"):
        CategoryColumn("city", levels).design(CITIES)


def test_a_level_is_the_same_whether_a_table_holds_it_as_text_or_as_a_number():
    column = CategoryColumn("code", ("7", "2.5", "True"), indicators=True)
    as_text, as_number = Table.of({"code": ["7", "2.5"]}), Table.of({"code": [7.0, 2.5]})
    np.testing.assert_array_equal(column.design(as_text), column.design(as_number))
    assert column.design(Table.of({"code": [True, False]})).tolist() == [[0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("column", [NumberColumn("city"), RangeColumn("city", 0.0, 1.0), PartColumn("city")])
def test_text_is_no_number(column):
    with pytest.raises(Refusal, match="city was a number and is text here"):
        TableEncoding((column,)).design(CITIES)


@pytest.mark.parametrize("column", [RangeColumn("age", 0.0, 1.0), PartColumn("age")])
def test_columns_that_are_not_of_a_fit_have_no_derivative(column):
    with pytest.raises(CannotMeasure, match="not encoded for a fit"):
        _ = TableEncoding((NumberColumn("u"), column)).input_map


def test_names_of_indicators_may_repeat_and_those_of_a_fit_may_not():
    sources = (NumberColumn("a=1"), CategoryColumn("a", ("0", "1"), indicators=True))
    assert TableEncoding(sources).names == ("a=1", "a=0", "a=1")
    with pytest.raises(Refusal, match="rename the column"):
        TableEncoding((sources[0], CategoryColumn("a", ("0", "1"))))


def test_names_are_numbers_only_where_all_are_and_none_is_lost():
    assert level_values(["0", "-1"]).tolist() == [0, -1]
    assert level_values(["1", "1.0"]).tolist() == ["1", "1.0"]
    assert level_values(["+1", "2"]).tolist() == ["+1", "2"]
    assert level_values(["--1", "2"]).tolist() == ["--1", "2"]
    assert level_values(["9" * 30, "2"]).tolist() == ["9" * 30, "2"]


@pytest.mark.parametrize(
    ("levels", "values", "order"),
    [
        (("10", "9", "-1"), [-1, 9, 10], [2, 1, 0]),
        (("b", "a", "10"), ["b", "a", "10"], [0, 1, 2]),
        (("7.3", "0.5", "2"), [0.5, 2.0, 7.3], [1, 2, 0]),
        (("True", "False"), [False, True], [1, 0]),
        (("1.50", "01"), ["1.50", "01"], [0, 1]),
        ((2.5, 1, 7), [1, 2.5, 7], [1, 0, 2]),
        ((True, False), [False, True], [1, 0]),
        (("x", 1), ["x", 1], [0, 1]),
    ],
)
def test_levels_in_a_frame_are_sorted_if_they_are_numbers(levels, values, order):
    in_frame, positions = frame_levels(levels)
    assert in_frame.tolist() == values
    assert positions.tolist() == order
    assert in_frame.dtype.kind != "U"
