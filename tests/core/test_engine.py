"""The local engine adds and maps in order."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.engine import LocalEngine, rows_per_block, split


@pytest.mark.parametrize("rows", [1, 3, 10, 100])
def test_sums_and_maps_do_not_depend_on_the_blocks(rows):
    X, y = np.arange(20.0).reshape(10, 2), np.arange(10.0)
    blocks = list(split((X, y), rows))
    total, count = LocalEngine().sum_over(blocks, lambda b: (b[0].T @ b[1], len(b[1])))
    np.testing.assert_allclose(total, X.T @ y)
    assert count == 10
    np.testing.assert_array_equal(np.concatenate(LocalEngine().map_over(blocks, lambda b: b[1] * 2)), y * 2)


def test_blocks_are_views_of_the_table():
    X = np.zeros((10, 2))
    assert all(np.shares_memory(X, block) for (block,) in split((X,), 4))


def test_an_empty_sum_is_refused():
    with pytest.raises(ValueError, match="no blocks"):
        LocalEngine().sum_over([], lambda b: (0,))


def test_wide_rows_make_short_blocks():
    assert rows_per_block(10) > rows_per_block(1000) >= 256
