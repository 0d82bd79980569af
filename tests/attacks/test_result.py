"""Results have an interval with the stated coverage, and a control."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.attacks import AttackResult, Guesses, Scores
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing


def guesses(hits):
    """Guesses that are right where `hits` (releases, rows) is true."""
    return Guesses("test", np.where(hits, 1, 0), np.ones(hits.shape[1], int), np.zeros(hits.shape[1], int))


def test_rows_of_one_release_are_not_counted_as_independent():
    """All rows of a release share its success rate: the interval must cover the mean over many more releases."""
    rng = np.random.default_rng(0)
    covered = narrow = 0
    for _ in range(400):
        level = rng.beta(3, 2, size=(20, 1))
        result = guesses(rng.random((20, 200)) < level)
        covered += result.interval.contains(0.6)
        hits = result.figure * 4000
        narrow += abs(result.figure - 0.6) < 1.96 * np.sqrt(0.24 / 4000) and hits > 0
    assert covered / 400 > 0.92
    assert narrow / 400 < 0.5  # what counting 4,000 independent guesses would have covered


def test_independent_rows_give_the_ordinary_interval():
    rng = np.random.default_rng(1)
    widths = [np.diff(guesses(rng.random((50, 100)) < 0.3).interval[:2])[0] for _ in range(30)]
    assert np.mean(widths) == pytest.approx(2 * 1.96 * np.sqrt(0.21 / 5000), rel=0.15)


def test_perfect_success_over_few_releases_claims_little():
    assert guesses(np.ones((3, 1000), bool)).interval.low < 0.4


def test_the_interval_of_a_single_release_is_over_its_rows():
    result = guesses(np.arange(100)[None, :] < 30)
    assert result.interval.contains(0.3)
    assert 0.15 < result.interval.high - result.interval.low < 0.22


def test_parts_follow_the_order():
    hits = np.array([[True, False, True, False, True]])
    result = guesses(hits)
    parts = result.by_part([5.0, 1.0, 4.0, 2.0, 3.0], 2)
    np.testing.assert_allclose(parts[:, 0], [1 / 3, 1.0])
    with pytest.raises(Refusal):
        result.by_part([1.0, 2.0], 2)


def test_the_prior_is_the_control_and_must_be_beaten_with_certainty():
    truths = np.repeat([0, 1], [60, 40])
    blind = Guesses("blind", np.zeros((9, 100), int), truths, np.zeros(100, int))
    assert blind.figure == blind.control_figure == 0.6
    assert not blind.beats_control
    seer = Guesses("seer", np.tile(truths, (50, 1)), truths, np.zeros(100, int))
    assert seer.beats_control


def test_every_result_is_a_lower_bound_and_a_plain_dict():
    for result in (guesses(np.ones((2, 5), bool)), Scores("s", np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.5, 1.0]))):
        assert isinstance(result, AttackResult)
        assert result.standing is Standing.LOWER_BOUND
        facts = result.to_dict()
        assert {"figure", "low", "high", "control"} <= set(facts)
        assert all(isinstance(v, str | float | bool) for v in facts.values())
        assert "control" in repr(result)


def test_random_scores_do_not_beat_a_coin_toss():
    rng = np.random.default_rng(2)
    result = Scores("coin", rng.standard_normal(300), rng.standard_normal(300))
    assert result.interval.contains(0.5)
    assert not result.beats_control


def test_shapes_that_do_not_fit_and_nan_are_refused():
    with pytest.raises(Refusal):
        Guesses("x", np.zeros((2, 3), int), np.zeros(4, int), np.zeros(4, int))
    with pytest.raises(Refusal):
        Guesses("x", np.zeros((2, 3), int), np.zeros(3, int), np.zeros(2, int))
    with pytest.raises(Refusal, match="nan"):
        Scores("x", np.array([1.0, np.nan]), np.zeros(3))
