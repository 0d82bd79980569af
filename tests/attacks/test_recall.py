"""Recall and precision of a rare level against counts by hand and against many repeated attacks."""

import numpy as np
import pytest

from dosimeter.attacks import Guesses, of_level, rarest
from dosimeter.core.errors import Refusal


def test_recall_and_precision_are_those_counted_by_hand():
    truths = np.array([2, 0, 0, 0, 0, 1, 1, 2, 0, 0])
    guesses = np.array([[2, 0, 2, 0, 0, 1, 1, 0, 0, 0], [2, 2, 0, 0, 0, 1, 1, 2, 0, 0], [0] * 10])
    found = of_level(Guesses("inversion", guesses, truths, np.zeros(10, dtype=int)), 2)
    assert found.recall.figure == pytest.approx(3 / 6)  # two have it, in each of three releases
    assert found.precision.figure == pytest.approx(3 / 5)  # named five times, three times right
    assert found.share == pytest.approx(0.2)
    assert found.recall.control == 0.0
    assert found.precision.control is None
    for one in (found.recall, found.precision):
        assert one.interval.low < one.figure < one.interval.high


def test_the_rarest_level_is_one_that_somebody_has():
    truths = np.array([3, 1, 1, 1, 3, 3, 3])
    seen = Guesses("inversion", truths[None], truths, np.full(7, 3))
    assert rarest(seen).level == 1
    assert rarest(seen).recall.figure == rarest(seen).precision.figure == 1.0
    with pytest.raises(Refusal, match="no row has level 2"):
        of_level(seen, 2)


def test_who_names_nobody_has_no_precision():
    truths = np.array([0, 0, 1])
    found = rarest(Guesses("inversion", np.zeros((4, 3), dtype=int), truths, np.zeros(3, dtype=int)))
    assert (found.recall.figure, found.precision.figure, found.precision.interval) == (0.0, None, None)
    assert found.facts()["precision_low"] is None


def test_the_prior_has_a_precision_where_it_names_the_level():
    truths = np.array([0, 1, 1, 0, 2, 2])
    found = of_level(Guesses("inversion", truths[None], truths, np.ones(6, dtype=int)), 1)
    assert found.recall.control == 1.0
    assert found.precision.control == pytest.approx(1 / 3)


def test_the_intervals_cover_though_all_rows_of_a_release_meet_one_noise():
    """Row i is named where a + b·(the release's noise) is high: far from independent. 400 attacks of 100 releases."""
    rng = np.random.default_rng(6)
    truths = (np.arange(200) < 12).astype(int)
    ease = np.where(truths == 1, 0.3, -2.2) + rng.normal(0, 0.7, 200)
    many = ease + rng.normal(size=(200_000, 1)) > 0
    recall, precision = many[:, :12].mean(), many[:, :12].sum() / many.sum()
    inside = np.zeros(2)
    for _ in range(400):
        guesses = (ease + rng.normal(size=(100, 1)) > 0).astype(int)
        found = of_level(Guesses("inversion", guesses, truths, np.zeros(200, dtype=int)), 1)
        for k, (one, true) in enumerate(((found.recall, recall), (found.precision, precision))):
            inside[k] += one.interval is None or one.interval.low <= true <= one.interval.high
    assert (inside / 400 > 0.9).all(), inside / 400
