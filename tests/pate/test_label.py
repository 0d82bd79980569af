"""The noisy argmax: its distribution, the absence of ties, and what is released.

Chi-square tests here are cut at p = 1e-6 with a generator that is passed in: the right law would be rejected for one
seed in a million. How far off the wrong ones are is stated where they are tried.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dosimeter.core.density import Density
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise, no_noise
from dosimeter.noise_addition import simulate
from dosimeter.noise_addition.argmax import noisy_argmax, noisy_at_least
from dosimeter.noise_addition.simulation import seeded_bits
from dosimeter.pate.label import REFUSED, label
from dosimeter.pate.threshold import Threshold
from dosimeter.pate.votes import Votes
from tests.noise_addition.forged import NOISES, ideal, mp, then_zeros
from tests.pate.brute import wins

COUNTS = [6, 4, 4, 1]
N = 200_000
CUT = 1e-6
BLOCKS = [None, 1001, N]
"""Queries of a block: as it is chosen, many small ones, one alone."""


def p_value(labels: np.ndarray, law: Density, counts: list[int] = COUNTS) -> float:
    """Chi-square of the labels against the defining integrals."""
    p = np.array([float(x) for x in wins(counts, law)])
    counted = np.bincount(labels, minlength=len(p))
    return float(stats.chisquare(counted, p / p.sum() * len(labels)).pvalue)


def drawn(law: Density, seed: int, counts: list[int] = COUNTS, n: int = N) -> np.ndarray:
    return noisy_argmax(np.tile(np.array(counts, float), (n, 1)), law, seeded_bits(np.random.default_rng(seed)))


@pytest.mark.parametrize("noise", NOISES)
def test_labels_have_the_law_of_the_ideal_vote_and_not_of_a_scale_a_few_per_cent_off(noise: type[Density]) -> None:
    """At a scale 5 % off the noncentrality is 142 (logistic) to 293 (Gaussian): missed at most 4e-11 of the time."""
    law = noise(2.0)
    assert p_value(drawn(law, 1), law) > CUT
    for wrong in (1.9, 2.1):
        assert p_value(drawn(law.with_scale(wrong), 2), law) < CUT


@pytest.mark.parametrize("noise", NOISES)
def test_a_rule_for_ties_on_a_grid_would_be_seen_on_a_coarse_one(noise: type[Density]) -> None:
    """Noise rounded to a quarter of its scale and ties given to the lower number: the same test detects the bias."""
    law, even = noise(2.0), [3, 3, 3]
    values = simulate(np.tile(np.array(even, float), (N, 1)), law, np.random.default_rng(3), grid=0.5)
    assert p_value(values.argmax(axis=1), law, even) < CUT
    assert p_value(drawn(law, 3, even), law, even) > CUT


@pytest.mark.parametrize("size", BLOCKS)
def test_labels_for_release_have_that_law_too(size: int | None) -> None:
    """Without a seed: errs once in 1e10."""
    votes = Votes(np.repeat(np.repeat([0, 1, 2, 3], COUNTS)[:, None], N, axis=1), 4)
    assert p_value(label(votes, Laplace(2.0), block_size=size).values, Laplace(2.0)) > 1e-10


@pytest.mark.parametrize("noise", NOISES)
def test_labels_of_small_blocks_have_the_law_of_the_ideal_vote_too(noise: type[Density], tmp_path: Path) -> None:
    """From a file, stored by teacher: the same chi-square and the same cut as above."""
    np.save(tmp_path / "votes.npy", np.repeat(np.repeat([0, 1, 2, 3], COUNTS)[:, None], N, axis=1).astype(np.int8))
    votes, law = Votes(np.load(tmp_path / "votes.npy", mmap_mode="r"), 4), noise(2.0)
    drawn_here = label(votes, law, rng=np.random.default_rng(11), block_size=1001).values
    assert p_value(drawn_here, law) > CUT
    # Neighbours in a block and across its edge are drawn apart: pairs have the product law.
    p = np.outer(*[[float(x) for x in wins(COUNTS, law)]] * 2).ravel()
    for lag in (1, 1001):
        pairs = drawn_here[:-lag][::2] * 4 + drawn_here[lag:][::2]
        if lag == 1001:
            pairs = drawn_here[: 1001 * 198].reshape(-1, 2, 1001)
            pairs = (pairs[:, 0] * 4 + pairs[:, 1]).ravel()
        assert stats.chisquare(np.bincount(pairs, minlength=16), p / p.sum() * len(pairs)).pvalue > CUT


# ---------------------------------------------------------------- ties


def near_tie(law: type[Density], word: int, lead: int, scale: float) -> int | None:
    """A word for the other class, `lead` votes behind, that is a tie up to about 2^-60; None if there is none."""
    x = ideal(law, word) + mp.mpf(lead) / mp.mpf(scale)
    if law is Exponential:
        if x <= 0:
            return None
        return min(int(mp.floor(mp.exp(-x) * 2**63)), 2**63 - 1)
    below = {
        Gaussian: lambda: mp.ncdf(x),
        Laplace: lambda: mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2,
        Gumbel: lambda: mp.exp(-mp.exp(-x)),
        LogisticNoise: lambda: 1 / (1 + mp.exp(-x)),
    }[law]()
    upper = below > 0.5
    return (int(upper) << 63) + min(int(mp.floor((2 * (1 - below) if upper else 2 * below) * 2**63)), 2**63 - 1)


@pytest.mark.parametrize("law", NOISES)
def test_near_ties_go_to_the_class_that_wins_in_seven_hundred_bits(law: type[Density]) -> None:
    """The 64 bits of two classes leave a distance of about 2^-60; the answer is that of the ideal draws."""
    rng = np.random.default_rng(4)
    settled, tried = [], 0
    for _ in range(60):
        word, lead, scale = int(rng.integers(0, 2**64, dtype=np.uint64)), int(rng.integers(0, 3)), 2.5
        other = near_tie(law, word, lead, scale)
        if other is None:
            continue
        more = [int(w) for w in rng.integers(0, 2**64, 2, dtype=np.uint64)]
        company = np.zeros(510, dtype=np.uint64)
        bits = then_zeros(np.array([word, other, *company, *more], dtype=np.uint64))
        values = [mp.mpf(lead) / mp.mpf(scale) + ideal(law, word, more[:1]), ideal(law, other, more[1:])]
        got = int(noisy_argmax(np.array([[float(lead), 0.0]]), law(scale), bits)[0])
        assert got == int(values[1] > values[0])
        assert abs(values[1] - values[0]) < mp.mpf(2) ** -40
        settled.append(got)
        tried += 1
    assert tried > 30
    assert 0 < sum(settled) < tried  # both classes win: it is not a fixed rule


@pytest.mark.parametrize("law", NOISES)
def test_equal_words_are_settled_by_the_bits_that_follow(law: type[Density]) -> None:
    """On any grid this is a tie. The class whose 65th bit gives the larger draw wins."""
    for word in (1 << 62, (1 << 63) + (1 << 62) + 12345):
        rises = ideal(law, word, [2**64 - 1]) > ideal(law, word, [0])
        for more in ([0, 2**64 - 1], [2**64 - 1, 0]):
            random_words = np.array([word, word, *([0] * 510), *more], dtype=np.uint64)
            got = int(noisy_argmax(np.zeros((1, 2)), law(1.0), then_zeros(random_words))[0])
            assert got == int(np.argmax(more) if rises else np.argmin(more))


@pytest.mark.parametrize("law", NOISES)
def test_words_at_the_ends_of_the_tail_are_refined_and_not_taken_for_infinite(law: type[Density]) -> None:
    """T = 0 in 63 bits is a large but finite draw: a lead beyond it still wins."""
    top = (1 << 63) if law is not Exponential else 0
    random_words = np.array([top, 1 << 62, *([0] * 510), 1 << 40, 5], dtype=np.uint64)
    ahead = noisy_argmax(np.array([[0.0, 1000.0]]), law(1.0), then_zeros(random_words))
    behind = noisy_argmax(np.array([[0.0, 5.0]]), law(1.0), then_zeros(random_words))
    assert (int(ahead[0]), int(behind[0])) == (1, 0)


@pytest.mark.parametrize("upper", [True, False])
def test_a_word_in_the_tail_is_not_believed_to_more_digits_than_it_has(upper: bool) -> None:
    """T in [3, 4]/2^63 is a draw of 42.28 to 42.57 on either side, against a lead of 42.4: the next word decides."""
    sure = 2**63 - 1  # T next to one: a draw of 0 but for 2^-62
    counts = np.array([[0.0, 424.0]]) if upper else np.array([[424.0, 0.0]])
    for more, far in ((0, True), (2**64 - 1, False)):
        random_words = np.array([(upper << 63) + 3, sure, *([0] * 510), more, 0], dtype=np.uint64)
        got = noisy_argmax(counts, Laplace(10.0), then_zeros(random_words))
        assert int(got[0]) == (0 if far == upper else 1)


def test_seldom_does_a_query_need_more_than_its_first_words() -> None:
    """2 million words, one in 2^21 refined at once: 0.95 queries are expected, each needing two or three more words.

    30 words are ten such queries: 2e-8. The bits are seeded.
    """
    requested = []
    rng = np.random.default_rng(5)
    source = seeded_bits(rng)
    noisy_argmax(
        np.tile(np.array([5.0, 5.0]), (1_000_000, 1)), Laplace(3.0), lambda n: (requested.append(n), source(n))[1]
    )
    assert sum(n == 1 for n in requested) < 30


# ---------------------------------------------------------------- the threshold


@pytest.mark.parametrize("law", [Laplace(3.0), Gaussian(3.0)], ids=repr)
def test_refusals_have_the_law_of_the_noisy_comparison(law: Density) -> None:
    """Binomial, cut at 1e-6; a scale 5 % off moves the share by 0.008, 8 deviations."""
    margin, n = np.full(N, 2.0), N

    def p_of(used: Density, seed: int) -> float:
        answered = int(noisy_at_least(margin, used, seeded_bits(np.random.default_rng(seed))).sum())
        return float(stats.binomtest(answered, n, float(law.sf(-2.0))).pvalue)

    assert p_of(law, 6) > CUT
    assert p_of(law.with_scale(law.scale * 1.05), 7) < CUT
    assert p_of(law.with_scale(law.scale * 0.95), 8) < CUT


def test_a_comparison_at_its_edge_is_settled_by_more_bits() -> None:
    """x = -log T at T = 1/2 against a margin that is the float64 nearest to it: the sign is that of 700 bits."""
    word = (1 << 62) + 0  # T = 1/2, lower side: x = log T
    for nudge in (0.0, 2.0**-53, -(2.0**-53)):
        margin = float(np.log(2.0)) + nudge
        bits = then_zeros(np.array([word, *([0] * 511)], dtype=np.uint64))
        got = bool(noisy_at_least(np.array([margin]), Laplace(1.0), bits)[0])
        assert got == bool(mp.mpf(margin) + ideal(Laplace, word) > 0)


@pytest.mark.parametrize("size", BLOCKS)
def test_answers_and_refusals_follow_one_another_as_the_channel_says(size: int | None) -> None:
    """Chi-square over labels and refusals together, from `label` itself."""
    votes = Votes(np.repeat(np.repeat([0, 1, 2, 3], COUNTS)[:, None], N, axis=1), 4)
    threshold = Threshold(7, Laplace(2.0))
    labels = label(votes, Laplace(2.0), threshold=threshold, rng=np.random.default_rng(9), block_size=size)
    answered = float(threshold.noise.sf(7 - 6))
    p = np.append(np.array([float(x) for x in wins(COUNTS, Laplace(2.0))]) * answered, 1 - answered)
    outputs = np.where(labels.refused, 4, labels.values)
    assert stats.chisquare(np.bincount(outputs, minlength=5), p / p.sum() * N).pvalue > CUT
    assert (labels.values[labels.refused] == REFUSED).all()
    # A mechanism that refuses by the exact count refuses all of these (6 < 7); one that never refuses, none.
    assert 0 < labels.refused.mean() < 1


@pytest.mark.parametrize(
    ("noise", "threshold_noise"),
    [
        (Laplace(2.0), Laplace(6.0)),
        (Laplace(6.0), Laplace(2.0)),
        (Gumbel(2.0), Gaussian(5.0)),
        (Gaussian(5.0), Laplace(2.0)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("size", [None, 1001])
def test_a_refusal_follows_from_the_thresholds_noise_and_not_from_the_votes(
    noise: Density, threshold_noise: Density, size: int | None
) -> None:
    """Binomial at a margin of -2, cut at 1e-6: with the vote's law the share is off by 34 deviations or more.

    Labels and refusals together, by chi-square with the same cut, are those of two independent draws.
    """
    votes = Votes(np.repeat(np.repeat([0, 1, 2, 3], COUNTS)[:, None], N, axis=1), 4)
    labels = label(
        votes, noise, threshold=Threshold(8, threshold_noise), rng=np.random.default_rng(10), block_size=size
    )
    answered, answers = float(threshold_noise.sf(8 - 6)), int((~labels.refused).sum())
    assert stats.binomtest(answers, N, answered).pvalue > CUT
    assert stats.binomtest(answers, N, float(noise.sf(8 - 6))).pvalue < CUT
    p = np.append(np.array([float(x) for x in wins(COUNTS, noise)]) * answered, 1 - answered)
    outputs = np.where(labels.refused, 4, labels.values)
    assert stats.chisquare(np.bincount(outputs, minlength=5), p / p.sum() * N).pvalue > CUT


# ---------------------------------------------------------------- what is released


def test_the_release_holds_public_constants_only_and_says_when_it_is_a_simulation() -> None:
    votes = Votes(np.zeros((5, 3), int), 4, {"digest": "abc"})
    threshold = Threshold(3, Gaussian(2.0))
    real, mock = (
        label(votes, Laplace(2.0), threshold=threshold),
        label(votes, Laplace(2.0), rng=np.random.default_rng(1)),
    )
    assert dict(real.release.recipe.settings) == {
        "teachers": 5,
        "queries": 3,
        "classes": 4,
        "threshold": 3.0,
        "threshold noise": "Gaussian(sigma=2.0)",
    }
    assert set(real.release.values) == {"labels"}
    assert (real.release.recipe.simulation, mock.release.recipe.simulation) == (False, True)
    assert "simulation, not for release" in repr(mock)
    assert real.n_classes == 4
    assert (real.values.dtype, real.stored.dtype) == (np.dtype(np.int64), np.dtype(np.int8))
    assert not real.stored.flags.writeable


def test_a_simulation_repeats_itself_and_a_release_does_not() -> None:
    votes = Votes(np.tile(np.arange(4)[:, None], (1, 300)), 4)
    once, again = (label(votes, Laplace(2.0), rng=np.random.default_rng(1)).values for _ in range(2))
    assert (once == again).all()
    assert (label(votes, Laplace(2.0)).values != label(votes, Laplace(2.0)).values).any()


def test_no_noise_cannot_be_measured_and_other_things_are_refused() -> None:
    votes = Votes(np.zeros((5, 3), int), 4)
    with pytest.raises(CannotMeasure, match="noise"):
        label(votes, no_noise)  # type: ignore[arg-type]
    with pytest.raises(Refusal, match="Votes"):
        label(np.zeros((5, 3), int), Laplace(1.0))  # type: ignore[arg-type]
    with pytest.raises(Refusal, match="Generator"):
        label(votes, Laplace(1.0), rng=7)  # type: ignore[arg-type]


@pytest.mark.parametrize("T", [float("nan"), float("inf"), True, "60", 1e12])
def test_a_threshold_that_is_no_number_of_votes_is_refused(T: object) -> None:
    with pytest.raises(Refusal, match="number of votes"):
        Threshold(T, Laplace(1.0))  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", [no_noise, Gumbel(1.0), Exponential(1.0), 20.0])
def test_a_threshold_without_noise_of_its_own_is_refused(noise: object) -> None:
    with pytest.raises(Refusal, match="log 2"):
        Threshold(60, noise)  # type: ignore[arg-type]
