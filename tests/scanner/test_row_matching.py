"""Matching against brute force: every line compared with every row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dosimeter.scanner.row_matching import direction_of, group_rows, log_accident, match, tolerance_of
from dosimeter.scanner.table_views import TableView


def view(values: np.ndarray) -> TableView:
    return TableView("as it stands", values, np.zeros(values.shape[1]))


def brute_force(lines: np.ndarray, rows: np.ndarray, tolerance: float) -> set[int]:
    return {
        k + 1 for k in range(len(rows)) for line in lines if (np.abs(line - rows[k]) <= tolerance * np.abs(line)).all()
    }


def integers_of(d: int):
    return arrays(float, st.tuples(st.integers(1, 30), st.just(d)), elements=st.integers(-2, 2))


small = st.integers(1, 4).flatmap(lambda d: st.tuples(integers_of(d), integers_of(d)))


@settings(deadline=None, max_examples=300)
@given(small)
def test_the_matching_rows_are_those_that_comparing_every_pair_finds(lines_and_rows) -> None:
    lines, rows = lines_and_rows
    result = match(lines, view(rows), np.arange(1, len(rows) + 1), 1e-9)
    assert (set() if result is None else set(result.rows)) == brute_force(lines, rows, 1e-9)
    if result is not None:
        equal = {k + 1 for k in range(len(rows)) if (rows == rows[k]).all(axis=1).sum() == 1}
        assert set(result.unique_rows) == set(result.rows) & equal
        assert result.distinct == len(np.unique(rows, axis=0))
        assert result.total == len(np.unique(lines, axis=0))


@pytest.mark.parametrize("size", [1e-300, 1e-9, 1.0, 1e12, 1e300])
def test_scale_and_rounding_do_not_matter(size: float) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 7)) * size
    lines = rows[::5] * (1 + 1e-13 * rng.normal(size=(80, 7)))
    result = match(lines, view(rows), np.arange(400), 1e-9)
    assert list(result.rows) == list(range(0, 400, 5))
    assert not result.exact
    assert match(rows[::5] * (1 + 1e-6), view(rows), np.arange(400), 1e-9) is None


def test_gaps_and_infinities_match_nothing_and_cause_no_error() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 3))
    rows[3, 1], rows[4, 0] = np.nan, np.inf
    result = match(rows, view(rows), np.arange(50), 1e-9)
    assert set(result.rows) == set(range(50)) - {3, 4}
    assert match(np.full((5, 3), np.nan), view(rows), np.arange(50), 1e-9) is None


def test_the_expected_number_by_accident_is_what_shuffled_columns_give() -> None:
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 6, size=(200, 3)).astype(float)
    direction = direction_of(rows)
    chance = np.exp(log_accident(view(rows), group_rows(rows, direction), 1e-9))
    drawn = np.column_stack([rng.choice(rows[:, j], 40_000) for j in range(3)])
    row_set = {tuple(row) for row in rows}
    share = np.mean([tuple(line) in row_set for line in drawn])
    # Five standard errors: fails once in a million. Without repeated values in a column it would be 1/200 each.
    assert abs(share - chance) < 5 * np.sqrt(chance * (1 - chance) / 40_000)
    assert abs(share - 200 / 200**3) > 5 * np.sqrt(chance * (1 - chance) / 40_000)


def test_the_expected_number_by_accident_can_be_drawn_from_the_files_own_columns() -> None:
    rng = np.random.default_rng(6)
    rows = rng.integers(0, 6, size=(200, 3)).astype(float)
    rows[rows.sum(axis=1) > 9] = 0.0
    lines = rng.choice(6, size=(100, 3), p=[0.05, 0.05, 0.1, 0.1, 0.3, 0.4]).astype(float)
    sorted_rows = group_rows(rows, direction_of(rows))
    chance = np.exp(log_accident(view(rows), sorted_rows, 1e-9, columns=lines))
    drawn = np.column_stack([rng.choice(lines[:, j], 40_000) for j in range(3)])
    row_set = {tuple(row) for row in rows}
    share = np.mean([tuple(line) in row_set for line in drawn])
    # Five standard errors: fails once in a million. With the table's own columns it would be another number.
    assert abs(share - chance) < 5 * np.sqrt(chance * (1 - chance) / 40_000)
    assert abs(share - np.exp(log_accident(view(rows), sorted_rows, 1e-9))) > 0.1


def test_a_table_of_few_values_is_matched_no_more_than_by_accident() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, size=(500, 4)).astype(float)
    result = match(rng.integers(0, 2, size=(30, 4)).astype(float), view(rows), np.arange(500), 1e-9)
    assert result.matched > 0
    assert not result.beyond_accident


def test_a_matrix_of_zeros_or_ones_is_no_row_of_a_sparse_table() -> None:
    rng = np.random.default_rng(0)
    rows = np.where(rng.random((300, 6)) < 0.4, rng.normal(size=(300, 6)), 0.0)
    rows[0] = 0.0
    result = match(np.zeros((1000, 6)), view(rows), np.arange(300), 1e-9)
    assert result.matched == 1
    assert not result.beyond_accident


def test_numbers_that_were_float32_are_recognised_as_coarse() -> None:
    fine = np.random.default_rng(0).normal(size=(20, 3))
    assert tolerance_of(fine) == 1e-9
    assert tolerance_of(fine.astype(np.float32)) == tolerance_of(fine.astype(np.float32).astype(np.float64)) == 2e-6
    assert tolerance_of(np.arange(10.0)) == 1e-9
    assert tolerance_of(np.arange(10)) == 1e-9
