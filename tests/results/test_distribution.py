"""The distribution of doses, counted again by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter.results.distribution import MOST_BINS, STEPS, distribution

DOSES = st.lists(st.one_of(st.just(0.0), st.floats(1e-300, 1e300)), min_size=1, max_size=60)


@given(DOSES)
@settings(deadline=None, max_examples=200)
def test_everyone_is_counted_once_and_in_the_right_bin(doses):
    counted = distribution(np.array(doses), of="η", unit="row")
    edges, counts = counted.edges, counted.counts
    assert sum(counts) + counted.zero == len(doses)
    assert counted.zero == doses.count(0.0)
    assert len(counts) <= MOST_BINS
    for k, count in enumerate(counts):
        last = k == len(counts) - 1
        inside = [d for d in doses if d > 0 and edges[k] <= d and (d < edges[k + 1] or (last and d == edges[k + 1]))]
        assert len(inside) == count


def test_edges_are_equally_wide_in_the_log_coordinate_and_lie_on_a_public_ladder():
    rng = np.random.default_rng(0)
    counted = distribution(np.exp(rng.normal(size=1000)), of="η", unit="person", limit=3.0)
    logs = np.log10(counted.edges)
    step = np.diff(logs)
    assert np.allclose(step, step[0])
    assert min(abs(step[0] - s) for s in STEPS) < 1e-9
    assert np.allclose(logs / step[0], np.round(logs / step[0]), atol=1e-6)
    assert counted.limit == 3.0


def test_the_edges_do_not_reveal_the_highest_dose():
    """Two tables whose highest doses differ within a bin have the same edges."""
    some = np.linspace(1.0, 5.0, 50)
    first, second = (distribution(np.append(some, top), of="η", unit="row").edges for top in (7.60, 7.77))
    assert first == second


@pytest.mark.parametrize("doses", [[0.0, 0.0], [2.5], [2.5, 2.5, 2.5]])
def test_doses_that_are_all_alike_have_a_bin_or_none(doses):
    counted = distribution(np.array(doses), of="η", unit="row")
    assert len(counted.counts) == (0 if doses[0] == 0 else 1)
    assert len(counted.edges) == (0 if doses[0] == 0 else 2)
