"""The parts of the reproduction that need no data."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.attacks.result import Guesses
from dosimeter.reproductions.hannun21_deciles import inequality
from dosimeter.reproductions.hannun21_warfarin import published_order, unit_draws


def test_the_order_is_a_permutation_and_that_of_torch_for_seed_0():
    assert published_order(10).tolist() == [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]  # what torch itself gives
    assert sorted(published_order(1000).tolist()) == list(range(1000))


def test_the_draws_are_always_the_same():
    np.testing.assert_array_equal(unit_draws(3), unit_draws(3))
    assert unit_draws(3).shape == (100, 3)


def test_individuals_who_differ_only_by_chance_are_not_called_unequal():
    rng = np.random.default_rng(1)
    zeros = np.zeros(4000, dtype=int)
    alike = Guesses("a", (rng.random((100, 4000)) < 0.6).astype(int), zeros + 1, zeros)
    assert inequality(alike) < 0.02
    rate = np.where(np.arange(4000) % 2, 0.4, 0.8)
    apart = Guesses("a", (rng.random((100, 4000)) < rate).astype(int), zeros + 1, zeros)
    assert inequality(apart) == pytest.approx(0.2, abs=0.005)
