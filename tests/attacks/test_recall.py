"""Recall and precision of a rare level, compared with hand counts and with many repeated attacks."""

import numpy as np
import pytest

from dosimeter.attacks import Guesses, level_guesses, rarest_level_guesses
from dosimeter.core.errors import Refusal


def test_recall_and_precision_are_those_counted_by_hand():
    truths = np.array([2, 0, 0, 0, 0, 1, 1, 2, 0, 0])
    guesses = np.array([[2, 0, 2, 0, 0, 1, 1, 0, 0, 0], [2, 2, 0, 0, 0, 1, 1, 2, 0, 0], [0] * 10])
    rates = level_guesses(Guesses("inversion", guesses, truths, np.zeros(10, dtype=int)), 2)
    assert rates.recall.figure == pytest.approx(3 / 6)  # two have it, in each of three releases
    assert rates.precision.figure == pytest.approx(3 / 5)  # named five times, three times right
    assert rates.share == pytest.approx(0.2)
    assert rates.recall.control == 0.0
    assert rates.precision.control is None
    for rate in (rates.recall, rates.precision):
        assert rate.interval.low < rate.figure < rate.interval.high


def test_the_rarest_level_is_one_that_occurs():
    truths = np.array([3, 1, 1, 1, 3, 3, 3])
    guesses = Guesses("inversion", truths[None], truths, np.full(7, 3))
    assert rarest_level_guesses(guesses).level == 1
    assert rarest_level_guesses(guesses).recall.figure == rarest_level_guesses(guesses).precision.figure == 1.0
    with pytest.raises(Refusal, match="no row has level 2"):
        level_guesses(guesses, 2)


def test_without_named_rows_there_is_no_precision():
    truths = np.array([0, 0, 1])
    rates = rarest_level_guesses(Guesses("inversion", np.zeros((4, 3), dtype=int), truths, np.zeros(3, dtype=int)))
    assert (rates.recall.figure, rates.precision.figure, rates.precision.interval) == (0.0, None, None)
    assert rates.to_dict()["precision_low"] is None


def test_the_prior_has_a_precision_where_it_names_the_level():
    truths = np.array([0, 1, 1, 0, 2, 2])
    rates = level_guesses(Guesses("inversion", truths[None], truths, np.ones(6, dtype=int)), 1)
    assert rates.recall.control == 1.0
    assert rates.precision.control == pytest.approx(1 / 3)


def test_the_intervals_cover_although_all_rows_of_a_release_share_its_noise():
    """Row i is named if its ease plus the release's noise is above 0: far from independent. 400 attacks."""
    rng = np.random.default_rng(6)
    truths = (np.arange(200) < 12).astype(int)
    ease = np.where(truths == 1, 0.3, -2.2) + rng.normal(0, 0.7, 200)
    many = ease + rng.normal(size=(200_000, 1)) > 0
    recall, precision = many[:, :12].mean(), many[:, :12].sum() / many.sum()
    inside = np.zeros(2)
    for _ in range(400):
        guesses = (ease + rng.normal(size=(100, 1)) > 0).astype(int)
        rates = level_guesses(Guesses("inversion", guesses, truths, np.zeros(200, dtype=int)), 1)
        for k, (rate, true) in enumerate(((rates.recall, recall), (rates.precision, precision))):
            inside[k] += rate.interval is None or rate.interval.low <= true <= rate.interval.high
    assert (inside / 400 > 0.9).all(), inside / 400
