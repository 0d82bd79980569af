"""The pieces of the reproduction that need no data."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.attacks.result import Guesses
from dosimeter.reproduce.hannun21_deciles import unequal
from dosimeter.reproduce.hannun21_warfarin import shuffled, unit_draws


def test_the_order_is_a_permutation_and_that_of_torch_for_seed_0():
    assert shuffled(10).tolist() == [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]  # what torch itself gives
    assert sorted(shuffled(1000).tolist()) == list(range(1000))


def test_the_draws_are_always_the_same():
    np.testing.assert_array_equal(unit_draws(3), unit_draws(3))
    assert unit_draws(3).shape == (100, 3)


def test_individuals_who_differ_by_chance_alone_are_not_called_unequal():
    rng = np.random.default_rng(1)
    zeros = np.zeros(4000, dtype=int)
    alike = Guesses("a", (rng.random((100, 4000)) < 0.6).astype(int), zeros + 1, zeros)
    assert unequal(alike) < 0.02
    rate = np.where(np.arange(4000) % 2, 0.4, 0.8)
    apart = Guesses("a", (rng.random((100, 4000)) < rate).astype(int), zeros + 1, zeros)
    assert unequal(apart) == pytest.approx(0.2, abs=0.005)
