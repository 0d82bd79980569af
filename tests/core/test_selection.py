"""Quantiles over blocks are those of all numbers at once."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter.core.selection import Collected, Counts, Top, order_keys, quantile

SHARES = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)


def over_blocks(values: Any, blocks: int) -> tuple[Counts, Collected]:
    parts = np.array_split(values, blocks)
    counts = reduce(add, (Counts.of(part) for part in parts))
    bins = counts.bins_for(SHARES)
    return counts, reduce(add, (Collected.of(part, bins) for part in parts))


@pytest.mark.parametrize("kind", ["normal", "ties", "decades", "one value", "signs"])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 1001])
def test_quantiles_over_blocks_are_exact(kind: str, n: int) -> None:
    rng = np.random.default_rng(0)
    values = {
        "normal": rng.normal(size=n),
        "ties": rng.integers(0, 3, size=n).astype(float),
        "decades": 10.0 ** rng.uniform(-300, 300, size=n),
        "one value": np.full(n, 0.1),
        "signs": np.where(rng.random(n) < 0.5, -0.0, rng.normal(size=n)),
    }[kind]
    counts, collected = over_blocks(values, min(n, 7))
    assert counts.total == n
    for share in SHARES:
        np.testing.assert_allclose(quantile(counts, collected, share), np.quantile(values, share), rtol=1e-14)


def test_infinite_numbers_have_a_place() -> None:
    counts, collected = over_blocks(np.array([1.0, np.inf, np.inf, 2.0, np.inf]), 3)
    assert quantile(counts, collected, 0.5) == np.inf
    assert quantile(counts, collected, 0.0) == 1.0


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False, width=64), min_size=2, max_size=50))
def test_keys_are_in_the_order_of_the_numbers(numbers: list[float]) -> None:
    values = np.array(numbers)
    keys = order_keys(values)
    order = np.argsort(values, kind="stable")
    assert (np.diff(keys[order].astype(object)) >= 0).all()
    equal = values[:, None] == values[None, :]
    assert np.array_equal(equal, keys[:, None] == keys[None, :])


@pytest.mark.parametrize("blocks", [1, 3, 20])
def test_the_largest_are_those_of_all_and_of_equals_the_first(blocks: int) -> None:
    values = np.random.default_rng(1).integers(0, 6, size=60).astype(float)
    rows = np.arange(60)
    parts = zip(np.array_split(values, blocks), np.array_split(rows, blocks), strict=True)
    top = reduce(add, (Top.of(v, r, 15) for v, r in parts))
    assert top.rows.tolist() == np.argsort(-values, kind="stable")[:15].tolist()
