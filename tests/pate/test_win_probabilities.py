"""P(Y = j | votes) against quadrature in multiple precision and against simulated votes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dosimeter import pate
from dosimeter.core.density import Density
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise, no_noise
from dosimeter.pate.vote_noise import VOTE_LAWS
from tests.pate import oracle

LAWS = list(VOTE_LAWS)
every_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
few = settings(max_examples=60, deadline=None)


@every_law
@pytest.mark.parametrize(
    ("counts", "scale"), [([7, 5, 5, 1], 5.0), ([0, 9, 3], 0.7), ([2, 2], 1e4), ([8, 0, 8, 7, 7, 3], 2.0)]
)
def test_every_entry_agrees_with_multiple_precision(law: type[Density], counts: list[int], scale: float) -> None:
    np.testing.assert_allclose(
        pate.win_probabilities([counts], law(scale))[0], oracle.wins(counts, law(scale)), rtol=1e-13
    )


@pytest.mark.parametrize(
    ("counts", "noise"),
    [
        ([50, 20, 20, 3], Gaussian(3.0)),
        ([30, 29, 12, 3], Laplace(0.4)),
        ([16, 16, 2], LogisticNoise(0.2)),
        ([15, 14, 0], Exponential(0.2)),
        ([20, 12, 5], Gumbel(0.2)),
    ],
)
def test_the_probability_of_a_hopeless_class_keeps_its_digits(counts: list[int], noise: Density) -> None:
    expected = oracle.wins(counts, noise, digits=60)
    assert expected[-1] < 1e-25
    np.testing.assert_allclose(pate.win_probabilities([counts], noise)[0], expected, rtol=1e-12)


@few
@given(
    st.integers(2, 40).flatmap(lambda m: st.lists(st.integers(0, 60), min_size=m, max_size=m)),
    st.sampled_from([0.01, 0.4, 1.0, 3.3, 20.0, 1e3, 1e6]),
    st.sampled_from(LAWS),
)
def test_some_class_wins(counts: list[int], scale: float, law: type[Density]) -> None:
    wins = pate.win_probabilities([counts], law(scale))
    assert wins.shape == (1, len(counts))
    assert (wins >= 0).all()
    assert abs(wins.sum() - 1) < 1e-12


@few
@given(st.lists(st.integers(0, 30), min_size=2, max_size=20), st.sampled_from(LAWS), st.data())
def test_more_votes_win_more_often_and_equal_votes_equally(
    counts: list[int], law: type[Density], data: st.DataObject
) -> None:
    wins = pate.win_probabilities([counts], law(4.0))[0]
    i, j = data.draw(st.permutations(range(len(counts))))[:2]
    if counts[i] == counts[j]:
        assert wins[i] == pytest.approx(wins[j], rel=1e-14)
    else:
        assert (wins[i] > wins[j]) == (counts[i] > counts[j])


def test_many_classes_of_few_counts_share_their_chances() -> None:
    counts = np.repeat([[3, 1, 0]], 2, axis=0).repeat([1, 99, 500], axis=1)
    for law in LAWS:
        wins = pate.win_probabilities(counts, law(2.0))
        short = pate.win_probabilities(counts[:, :16], law(2.0))
        assert abs(wins.sum(axis=1) - 1).max() < 1e-12
        assert len(np.unique(wins)) == 3  # each count is measured once
        assert wins[0, 0] < short[0, 0]


def simulate_wins(counts: np.ndarray, noise: Density, rng: np.random.Generator, trials: int) -> np.ndarray:
    """How often each class won in votes simulated with floating-point noise."""
    winner = (counts + noise.draw(rng, (trials, len(counts)))).argmax(axis=1)
    return np.bincount(winner, minlength=len(counts))


@every_law
def test_simulated_votes_are_won_as_often_as_computed(law: type[Density]) -> None:
    """χ² at 1e-6 on 4e5 votes: errs for one law in a million; 0.8 votes for one, or 0.9 of the noise, are detected."""
    counts, noise, trials = np.array([9.0, 7.0, 6.0, 2.0]), law(3.0), 400_000
    rng = np.random.default_rng(20240607)
    expected = trials * pate.win_probabilities([counts], noise)[0]
    assert stats.chisquare(simulate_wins(counts, noise, rng, trials), expected).pvalue > 1e-6
    for wrong, tried_noise in ((counts - [0.8, 0, 0, 0], noise), (counts, law(2.7))):
        observed = simulate_wins(wrong, tried_noise, rng, trials)
        assert stats.chisquare(observed, expected).pvalue < 1e-6


@pytest.mark.parametrize(("counts", "said"), [([1, 2], "not shape"), ([[1, -2]], r"counts\[0, 1\]")])
def test_an_invalid_histogram_is_refused(counts: object, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        pate.win_probabilities(counts, Laplace(1.0))


def test_without_noise_there_are_no_probabilities() -> None:
    with pytest.raises(CannotMeasure, match="without noise"):
        pate.win_probabilities([[1, 2]], no_noise)  # type: ignore[arg-type]
