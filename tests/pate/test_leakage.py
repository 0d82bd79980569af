"""Eq. 12 of [Saeidian21] against quadrature in multiple precision, closed forms for two classes, and its laws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter import pate
from dosimeter.core.channel import cascade, compose, maximal_leakage
from dosimeter.core.density import Density
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise, no_noise
from dosimeter.pate.vote_noise import VOTE_LAWS
from tests.pate import oracle

LAWS = list(VOTE_LAWS)
every_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
few = settings(max_examples=60, deadline=None)
ROUNDING = 1e-12
scales = st.sampled_from([0.4, 1.0, 3.3, 20.0, 1e3])


@st.composite
def histograms(draw: st.DrawFn, most_classes: int = 6, most_votes: int = 40) -> list[int]:
    m = draw(st.integers(2, most_classes))
    return draw(st.lists(st.integers(0, most_votes), min_size=m, max_size=m))


def alternatives(others: list[int], noise: Density, shift: int = 1) -> np.ndarray:
    """The finite channel from the person's votes to the label: a row for each class that gets all of them."""
    return pate.win_probabilities(np.array(others) + shift * np.eye(len(others), dtype=int), noise)


# ---------------------------------------------------------------- multiple precision


@every_law
@pytest.mark.parametrize(
    ("others", "scale", "shift"),
    [
        ([7, 5, 5, 1], 5.0, 1),
        ([3, 9, 0], 0.7, 2),
        ([11, 11, 10], 1.3, 1),
        ([4, 0, 2, 2, 1], 30.0, 3),
        ([1, 0], 1e5, 1),
        ([6, 2, 1], 0.25, 4),
    ],
)
def test_it_agrees_with_the_integrals_of_eq_45_in_multiple_precision(
    law: type[Density], others: list[int], scale: float, shift: int
) -> None:
    expected = oracle.leakage(others, law(scale), shift)
    assert pate.leakage([others], law(scale), shift)[0] == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(
    ("others", "noise"),
    [
        ([60, 20, 10, 3], Gaussian(3.0)),
        ([40, 20, 20, 3], Laplace(0.3)),
        ([30, 12, 11], LogisticNoise(0.5)),
        ([40, 1, 1, 0], Exponential(0.5)),
        ([40, 20, 5], Gumbel(0.5)),
    ],
)
def test_a_tiny_leakage_among_several_classes_keeps_its_digits(others: list[int], noise: Density) -> None:
    expected = oracle.leakage(others, noise, digits=60)
    assert 0 < expected < 1e-12
    assert pate.leakage([others], noise)[0] == pytest.approx(expected, rel=1e-12)


def difference(law: type[Density]) -> Callable[[mp.mpf], mp.mpf]:
    """P(N1 - N2 < y) at scale one, in closed form."""

    def logistic(y: mp.mpf) -> mp.mpf:
        return mp.mpf(1) / 2 if y == 0 else mp.exp(y) * (mp.expm1(y) - y) / mp.expm1(y) ** 2

    def two_sided(tail: Callable[[mp.mpf], mp.mpf]) -> Callable[[mp.mpf], mp.mpf]:
        return lambda y: tail(-y) if y <= 0 else 1 - tail(y)

    return {
        Gaussian: lambda y: mp.ncdf(y / mp.sqrt(2)),
        LogisticNoise: logistic,
        Gumbel: lambda y: 1 / (1 + mp.exp(-y)),
        Exponential: two_sided(lambda z: mp.exp(-z) / 2),
        Laplace: two_sided(lambda z: mp.exp(-z) * (2 + z) / 4),
    }[law]


@every_law
def test_two_classes_agree_with_the_closed_form_from_little_noise_to_much(
    law: type[Density],
) -> None:
    """The leakage runs from 1e-290 to log 2."""
    F, leakages = difference(law), []
    for scale, gap, shift in itertools.product(
        (1e8, 1e6, 1e3, 40.0, 3.7, 1.0, 0.05, 1e-3), (0, 1, 2, 5, 17, 250), (1, 3)
    ):
        with mp.workdps(400):
            d, c = mp.mpf(gap) / mp.mpf(scale), mp.mpf(shift) / mp.mpf(scale)
            expected = mp.log1p(F(c - d) - F(-c - d))
        ours = pate.leakage([[gap, 0]], law(scale), shift)[0]
        if expected < mp.mpf("1e-290"):
            assert 0 <= ours < 1e-289
        else:
            assert ours == pytest.approx(float(expected), rel=1e-13), (scale, gap, shift)
            leakages.append(ours)
    assert min(leakages) < 1e-100 < 0.69 < max(leakages)


@pytest.mark.parametrize("law", [Laplace, LogisticNoise, Gaussian, Exponential], ids=lambda law: law.__name__)
@pytest.mark.parametrize("scale", [40.0, 0.3])
def test_many_classes_of_few_counts_agree_with_one_integral(law: type[Density], scale: float) -> None:
    """600 classes with counts 3, 1 and 0; here with powers, as the table of runs has them."""
    groups = ((3, 1), (1, 99), (0, 500))
    g, G = oracle.LAWS[law]
    with mp.workdps(25):
        s0 = mp.mpf(scale)

        def total(s: mp.mpf) -> mp.mpf:
            whole, each = mp.mpf(1), mp.mpf(0)
            for v, times in groups:
                below = G((s - v) / s0)
                if below == 0:
                    return mp.mpf(0)
                whole *= below**times
                each += times * g((s - v - 1) / s0) / below
            return whole * each / s0

        low = 3 if law is Exponential else 3 - (13 if law is Gaussian else 60) * s0
        cuts = sorted({mp.mpf(k) for k in (0, 1, 2, 3, 4)} | {low + k * s0 / 2 for k in range(250)})
        expected = float(mp.log(mp.quad(total, [x for x in cuts if x >= low], method="gauss-legendre")))
    others = np.repeat([v for v, _ in groups], [times for _, times in groups])
    assert pate.leakage([others], law(scale))[0] == pytest.approx(expected, rel=1e-12)


# ---------------------------------------------------------------- the channel, and who holds several votes


@few
@given(histograms(), scales, st.sampled_from(LAWS))
def test_it_is_the_maximal_leakage_of_the_channel_from_the_last_vote_to_the_label(
    others: list[int], scale: float, law: type[Density]
) -> None:
    channel = alternatives(others, law(scale))
    assert pate.leakage([others], law(scale))[0] == pytest.approx(maximal_leakage(channel), abs=ROUNDING)


@every_law
@pytest.mark.parametrize("others", [[5, 4, 1], [3, 3, 3], [9, 0, 2]])
def test_splitting_several_votes_tells_no_more_than_all_of_them_on_one_class(
    law: type[Density], others: list[int]
) -> None:
    """Every way to place three votes is a row of the channel."""
    ways = [way for way in itertools.product(range(4), repeat=3) if sum(way) == 3]
    channel = pate.win_probabilities(np.array(others) + np.array(ways), law(2.0))
    together = [ways.index(tuple(3 * row)) for row in np.eye(3, dtype=int)]
    assert (channel.argmax(axis=0) == together).all()
    assert pate.leakage([others], law(2.0), shift=3)[0] == pytest.approx(maximal_leakage(channel), abs=ROUNDING)


@few
@given(histograms(most_classes=3, most_votes=8), scales, st.sampled_from(LAWS))
def test_queries_fixed_in_advance_leak_no_more_than_the_sum(
    others: list[int], scale: float, law: type[Density]
) -> None:
    """Lemma 5: the person's vote is one and the same class, or different classes, at two queries."""
    noise, second = law(scale), sorted(others)
    m = len(others)
    first = np.repeat(alternatives(others, noise), m, axis=0)
    then = np.tile(alternatives(second, noise), (m, 1))
    total = pate.leakage([others, second], noise).sum()
    assert maximal_leakage(compose(first, then)) == pytest.approx(total, abs=ROUNDING)  # any pair of votes is possible
    same = compose(alternatives(others, noise), alternatives(second, noise))
    assert maximal_leakage(same) <= total + ROUNDING


def test_a_query_chosen_after_an_answer_counts_by_its_worst_case() -> None:
    """Lemma 5 does not cover it: a close vote follows only if the first answer was the rare one."""
    noise, easy, close = Laplace(1.0), [6, 0], [3, 3]
    first = np.repeat(alternatives(easy, noise), 2, axis=0)
    again = np.tile(alternatives(close, noise), (2, 1))
    adaptive = maximal_leakage(np.column_stack([first[:, 0], first[:, 1:] * again]))
    each = pate.leakage([easy, close], noise)
    assert each[0] + 1e-3 < adaptive <= each.sum() + ROUNDING


@few
@given(histograms(), scales, st.sampled_from(LAWS), st.data())
def test_a_student_who_merges_labels_sees_no_more(
    others: list[int], scale: float, law: type[Density], data: st.DataObject
) -> None:
    channel = alternatives(others, law(scale))
    merged = data.draw(st.lists(st.integers(0, 1), min_size=len(others), max_size=len(others)))
    view = cascade(channel, np.eye(2)[merged])
    assert maximal_leakage(view) <= pate.leakage([others], law(scale))[0] + ROUNDING


@few
@given(histograms(most_classes=4), scales, st.data())
def test_the_whole_leaks_no_more_than_the_training_or_the_vote(
    others: list[int], scale: float, data: st.DataObject
) -> None:
    """Eq. 11: a row influences its teacher's vote through a noisy training, and the vote influences the label."""
    m = len(others)
    weights = data.draw(st.lists(st.lists(st.integers(1, 9), min_size=m, max_size=m), min_size=1, max_size=4))
    training = np.array([np.array(row) / sum(row) for row in weights])
    whole = maximal_leakage(cascade(training, alternatives(others, Laplace(scale))))
    assert whole <= maximal_leakage(training) + ROUNDING
    assert whole <= pate.leakage([others], Laplace(scale))[0] + ROUNDING


# ---------------------------------------------------------------- Theorem 10


@few
@given(histograms(), scales, st.sampled_from(LAWS), st.integers(1, 3), st.data())
def test_votes_moved_off_the_class_on_top_leak_more_while_it_stays_on_top(
    others: list[int], scale: float, law: type[Density], shift: int, data: st.DataObject
) -> None:
    """What remains of Theorem 10, enough for both of its extremes (docs/explanation/pate.md)."""
    others = sorted(others, reverse=True)
    to = data.draw(st.integers(1, len(others) - 1))
    by = data.draw(st.integers(0, min(others[0] - others[1], (others[0] - others[to]) // 2)))
    moved = list(others)
    moved[0], moved[to] = others[0] - by, others[to] + by
    agreed, less_agreed = pate.leakage([others, moved], law(scale), shift)
    assert agreed <= less_agreed * (1 + ROUNDING)


@every_law
def test_it_is_not_schur_concave(law: type[Density]) -> None:
    """Theorem 10 says that (3, 2, 0) leaks no more than (3, 1, 1), which it majorises. One vote ties the former."""
    noise = law(1 / 3)
    wide, even = oracle.leakage([3, 2, 0], noise), oracle.leakage([3, 1, 1], noise)
    assert wide > 1.3 * even
    assert pate.leakage([[3, 2, 0], [3, 1, 1]], noise) == pytest.approx([wide, even], rel=1e-13)


def test_nor_is_it_at_the_scales_in_use() -> None:
    """γ = 0.1, 50 votes: moving ten of the second class to the third lowers the leakage by a seventh."""
    wide, even = pate.leakage([[30, 20, 0], [30, 10, 10]], Laplace(10.0))
    assert wide == pytest.approx(oracle.leakage([30, 20, 0], Laplace(10.0)), rel=1e-13)
    assert wide > 1.15 * even


@few
@given(histograms(), scales, st.sampled_from(LAWS))
def test_voters_of_a_winner_who_leads_are_the_most_exposed(votes: list[int], scale: float, law: type[Density]) -> None:
    votes = sorted(votes, reverse=True)
    votes[0] += votes[0] == votes[1]
    without = [np.array(votes) - unit for unit, v in zip(np.eye(len(votes), dtype=int), votes, strict=True) if v]
    leak = pate.leakage(without, law(scale))
    assert leak.max() <= leak[0] * (1 + ROUNDING)


def test_of_two_winners_neither_has_the_most_exposed_voters() -> None:
    """v = (20, 20, 5), γ = 1, for a voter of the first class and one of the third."""
    with_one, with_two = [19, 20, 5], [20, 20, 4]
    leak = pate.leakage([with_one, with_two], Laplace(1.0))
    expected = [oracle.leakage(v, Laplace(1.0)) for v in (with_one, with_two)]
    assert leak == pytest.approx(expected, rel=1e-13)
    assert leak[1] > leak[0] + 0.05


@every_law
def test_equal_counts_leak_most_and_unanimity_least_among_all_histograms_of_as_many_votes(law: type[Density]) -> None:
    """Eqs. 14 and 15, over all placements of nine votes on three classes."""
    every = np.array([(a, b, 9 - a - b) for a in range(10) for b in range(10 - a)])
    leak = pate.leakage(every, law(2.0))
    assert set(every[leak.argmax()]) == {3}
    assert sorted(every[leak.argmin()]) == [0, 0, 9]
    assert leak.max() == pytest.approx(pate.data_independent_bound(3, law(2.0)), rel=1e-13)


@few
@given(histograms(), scales, st.sampled_from(LAWS), st.randoms(use_true_random=False), st.integers(0, 5))
def test_names_of_classes_and_a_vote_more_for_each_do_not_matter(
    others: list[int], scale: float, law: type[Density], random: object, more: int
) -> None:
    shuffled = [v + more for v in others]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = pate.leakage([others, shuffled], law(scale))
    assert first == second


def test_more_noise_does_not_always_leak_less_at_one_histogram() -> None:
    """So a scale must not be chosen by the leakage of the observed votes."""
    wide, middle, narrow = (pate.leakage([[52, 47, 0, 0]], Laplace(1 / g))[0] for g in (0.02, 0.42, 3.2))
    assert narrow < 1e-4 < wide < 0.016 < 0.077 < middle


@few
@given(histograms(), scales, st.sampled_from([Laplace, Gumbel, Exponential, LogisticNoise]), st.integers(1, 3))
def test_a_likelihood_ratio_of_one_vote_bounds_it(
    others: list[int], scale: float, law: type[Density], shift: int
) -> None:
    """Theorem 13 for `shift` votes, and for the three other laws whose density falls no faster than e^(-γ)."""
    assert 0 <= pate.leakage([others], law(scale), shift)[0] <= shift / scale * (1 + ROUNDING)


@few
@given(histograms(), scales, st.sampled_from(LAWS))
def test_a_person_with_more_votes_leaks_more(others: list[int], scale: float, law: type[Density]) -> None:
    leak = [pate.leakage([others], law(scale), c)[0] for c in (1, 2, 5)]
    assert leak[0] <= leak[1] * (1 + ROUNDING)
    assert leak[1] <= leak[2] * (1 + ROUNDING)


# ---------------------------------------------------------------- many rows, odd input


@every_law
def test_a_table_of_histograms_gives_what_each_row_gives_alone(law: type[Density]) -> None:
    rng = np.random.default_rng(5)
    many = rng.integers(0, 12, (300, 4))
    many[0] = 2**31 - 1, 0, 0, 2**30
    alone = np.concatenate([pate.leakage(row[None], law(3.0)) for row in many])
    np.testing.assert_allclose(pate.leakage(many, law(3.0)), alone, rtol=1e-13)
    assert pate.leakage(np.empty((0, 4), dtype=int), law(3.0)).shape == (0,)


@every_law
@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e-4])
def test_next_to_no_noise_leaks_as_ties_and_certain_wins_do(law: type[Density], scale: float) -> None:
    """One vote makes a tie of (3, 2), decides (3, 3) and changes nothing at (5, 0); three decide (3, 2)."""
    noise = law(scale)
    np.testing.assert_allclose(np.exp(pate.leakage([[3, 2], [3, 3], [5, 0]], noise)), [1.5, 2, 1], rtol=1e-13)
    np.testing.assert_allclose(np.exp(pate.leakage([[3, 2], [5, 0]], noise, 3)), [2, 1], rtol=1e-13)


@every_law
@pytest.mark.parametrize("scale", [1e9, 1e80, 1e150])
def test_a_drop_in_an_ocean_of_noise_leaks_in_proportion(law: type[Density], scale: float) -> None:
    """The figure at a scale of 1e8 was checked above; beyond it is linear in 1/scale."""
    near = pate.leakage([[3, 2], [3, 3]], law(1e8)) * (1e8 / scale)
    np.testing.assert_allclose(pate.leakage([[3, 2], [3, 3]], law(scale)), near, rtol=1e-7)


def test_very_many_votes_of_one_person_with_little_gaussian_noise() -> None:
    """A million votes win with certainty. If they lift one class but are far too few for another: refused."""
    assert pate.leakage([[9, 5, 0]], Gaussian(1.0), 10**6)[0] == pytest.approx(math.log(3), rel=1e-12)
    assert pate.leakage([[10**8, 0]], Gaussian(1.0), 10**8)[0] == pytest.approx(math.log(1.5), rel=1e-12)
    with pytest.raises(CannotMeasure, match="too little noise"):
        pate.leakage([[10**8, 10**8, 0]], Gaussian(1.0), 10**8 // 2)


def test_counts_as_whole_floats_are_counts() -> None:
    assert pate.leakage([[4.0, 3.0]], Laplace(10.0)) == pate.leakage(np.array([[4, 3]], dtype=np.uint8), Laplace(10.0))


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([4, 3, 2], r"\(queries, classes\).*\(3,\)"),
        ([[4]], "at least two classes"),
        ([[4, -1]], r"others\[0, 1\] is -1"),
        ([[4, 2.5]], r"others\[0, 1\] is 2.5"),
        ([[4, math.nan]], r"others\[0, 1\] is nan"),
        ([["a", "b"]], "whole numbers of votes"),
        ([[2**31, 0]], "must be whole, from 0"),
    ],
)
def test_an_invalid_histogram_is_refused(others: object, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        pate.leakage(others, Laplace(10.0))


@pytest.mark.parametrize("shift", [0, -1, 1.5, True, "1"])
def test_a_person_holds_at_least_one_whole_vote(shift: object) -> None:
    with pytest.raises(Refusal, match="number of votes that one person controls"):
        pate.leakage([[4, 3]], Laplace(10.0), shift)  # type: ignore[arg-type]


def test_without_noise_it_is_refused_with_an_explanation() -> None:
    with pytest.raises(CannotMeasure, match="up to log m"):
        pate.leakage([[4, 3]], no_noise)  # type: ignore[arg-type]


def test_a_law_derived_from_another_is_not_taken_for_it() -> None:
    class Heavier(Laplace):
        pass

    with pytest.raises(CannotMeasure, match="not a law"):
        pate.leakage([[4, 3]], Heavier(1.0))
