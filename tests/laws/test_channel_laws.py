"""The laws of maximal leakage on random channels.

The oracle is its operational meaning, eq. 1 of [Saeidian21]: an adversary who guesses a function U of X, by brute
force.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter.core.channel import cascade, compose, maximal_leakage

ROUNDING = 1e-12
few = settings(max_examples=60, deadline=None)


@st.composite
def distributions(draw: st.DrawFn, size: int, zeros: bool = True) -> np.ndarray:
    weights = draw(st.lists(st.integers(0 if zeros else 1, 9), min_size=size, max_size=size).filter(any))
    return np.array(weights) / sum(weights)


@st.composite
def channels(draw: st.DrawFn, rows: int | None = None, columns: int | None = None) -> np.ndarray:
    rows = rows or draw(st.integers(1, 4))
    columns = columns or draw(st.integers(1, 4))
    return np.array([draw(distributions(columns)) for _ in range(rows)])


@st.composite
def pairs_from_one_source(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 4))
    return draw(channels(rows=n)), draw(channels(rows=n)), draw(distributions(n))


@st.composite
def chains(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    return draw(channels(rows=n, columns=m)), draw(channels(rows=m)), draw(distributions(n))


# ---------------------------------------------------------------- the adversary of eq. 1, by brute force


def gain(channel: np.ndarray, prior: np.ndarray, U: np.ndarray) -> float:
    """log of the best chance to guess U from Y over the best blind chance; U is P_{U|X}, (|X|, |U|).

    Every estimator, a function from Y to U, is tried.
    """
    joint = np.einsum("x,xu,xy->uy", prior, U, channel)
    outputs = range(channel.shape[1])
    best = max(
        sum(joint[guess[y], y] for y in outputs) for guess in itertools.product(range(U.shape[1]), repeat=len(outputs))
    )
    return math.log(best / joint.sum(axis=1).max())


def functions(n: int) -> list[np.ndarray]:
    """Every deterministic function of X, as P_{U|X}."""
    return [np.eye(n)[list(image)] for image in itertools.product(range(n), repeat=n)]


def shattering(prior: np.ndarray) -> np.ndarray:
    """The U that attains the supremum: each x broken into pieces as likely as the least likely x, and a rest.

    The proof in [Saeidian21] (eq. 28) takes U uniform, which needs a rational P_X; this one always exists.
    """
    least = prior[prior > 0].min()
    columns = []
    for x, p in enumerate(prior):
        whole = int(p / least + 1e-9)
        pieces = [least] * whole + ([p - whole * least] if p > whole * least + 1e-12 else [])
        for piece in pieces:
            column = np.zeros(len(prior))
            column[x] = piece / p
            columns.append(column)
    U = np.array(columns).T
    U[prior == 0, 0] = 1.0  # never used: those x do not occur
    return U


@few
@given(st.data())
def test_no_function_of_the_data_is_guessed_better_than_the_leakage_says(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 3))
    channel, randomised = data.draw(channels(rows=n)), data.draw(channels(rows=n))
    prior = data.draw(distributions(n))
    limit = maximal_leakage(channel, prior=prior)
    for U in [*functions(n), randomised]:
        assert gain(channel, prior, U) <= limit + ROUNDING


@few
@given(st.data())
def test_some_function_of_the_data_is_guessed_as_well_as_the_leakage_says(data: st.DataObject) -> None:
    channel = data.draw(channels(columns=data.draw(st.integers(1, 3))))
    weights = data.draw(
        st.lists(st.sampled_from([0, 2, 3, 5]), min_size=len(channel), max_size=len(channel)).filter(any)
    )
    prior = np.array(weights) / sum(weights)  # uneven pieces: a rest is left
    limit = maximal_leakage(channel, prior=prior)
    assert gain(channel, prior, shattering(prior)) == pytest.approx(limit, abs=ROUNDING)


def test_the_supremum_is_attained_for_a_prior_without_a_uniform_shattering() -> None:
    channel = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.3, 0.4, 0.3]])
    prior = np.array([1 / math.pi, 1 / math.e, 1 - 1 / math.pi - 1 / math.e])
    assert gain(channel, prior, shattering(prior)) == pytest.approx(math.log(0.7 + 0.4 + 0.8), abs=ROUNDING)


def test_deterministic_functions_alone_fall_short() -> None:
    """So the supremum of eq. 1 must be read over U - X - Y, not over functions of X."""
    channel, prior = np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([0.8, 0.2])
    limit = maximal_leakage(channel, prior=prior)
    assert max(gain(channel, prior, U) for U in functions(2)) < limit - 0.1
    assert gain(channel, prior, shattering(prior)) == pytest.approx(limit, abs=ROUNDING)


@few
@given(st.data())
def test_prior_knowledge_counts_as_the_prior_of_the_same_game(data: st.DataObject) -> None:
    """Eqs. 3 to 5: given Z = z the adversary plays against P_{X|Z=z} and the channel of that z."""
    n, m = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    knowledge = np.array([data.draw(distributions(n)) for _ in range(2)])
    stack = np.array([data.draw(channels(rows=n, columns=m)) for _ in range(2)])
    pointwise = maximal_leakage(stack, conditional=knowledge)
    markov = maximal_leakage(stack[0], conditional=knowledge)
    for z, prior in enumerate(knowledge):
        played = gain(stack[z], prior, shattering(prior)), gain(stack[0], prior, shattering(prior))
        assert (pointwise[z], markov[z]) == pytest.approx(played, abs=ROUNDING)


# ---------------------------------------------------------------- Lemma 5


@few
@given(pairs_from_one_source())
def test_two_outputs_leak_no_more_than_the_sum(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    first, second, prior = case
    both = maximal_leakage(compose(first, second), prior=prior)
    assert both <= maximal_leakage(first, prior=prior) + maximal_leakage(second, prior=prior) + ROUNDING
    # and no less than either: the other is post-processing
    assert both >= max(maximal_leakage(first, prior=prior), maximal_leakage(second, prior=prior)) - ROUNDING


@few
@given(channels(), st.integers(1, 4))
def test_k_outputs_leak_no_more_than_k_times_one(channel: np.ndarray, k: int) -> None:
    """Eq. 7."""
    joint = channel
    for _ in range(k - 1):
        joint = compose(joint, channel)
    assert maximal_leakage(joint) <= k * maximal_leakage(channel) + ROUNDING


@few
@given(channels(), channels())
def test_outputs_about_separate_halves_leak_exactly_the_sum(first: np.ndarray, second: np.ndarray) -> None:
    """X = (X1, X2) with every pair possible: the bound of Lemma 5 is met."""
    about_first = np.repeat(first, len(second), axis=0)
    about_second = np.tile(second, (len(first), 1))
    both = maximal_leakage(compose(about_first, about_second))
    assert both == pytest.approx(maximal_leakage(first) + maximal_leakage(second), abs=ROUNDING)


@few
@given(channels(), st.data())
def test_an_output_about_nothing_adds_nothing(channel: np.ndarray, data: st.DataObject) -> None:
    blind = np.tile(data.draw(distributions(3)), (len(channel), 1))
    assert maximal_leakage(compose(channel, blind)) == pytest.approx(maximal_leakage(channel), abs=ROUNDING)


def test_saying_it_all_twice_says_it_once() -> None:
    """The sum is an upper bound only: log 4 where Lemma 5 allows 2 log 4."""
    assert maximal_leakage(compose(np.eye(4), np.eye(4))) == pytest.approx(math.log(4))


# ---------------------------------------------------------------- Lemma 6


@few
@given(chains())
def test_processing_leaks_no_more_than_either_step(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    first, second, prior = case
    whole = maximal_leakage(cascade(first, second), prior=prior)
    assert whole <= maximal_leakage(first, prior=prior) + ROUNDING
    reached = prior @ first  # the second step starts at the outputs that occur
    assert whole <= maximal_leakage(second, prior=reached) + ROUNDING


@few
@given(channels())
def test_each_argument_of_the_minimum_is_met(channel: np.ndarray) -> None:
    n, m = channel.shape
    leak = maximal_leakage(channel)
    assert maximal_leakage(cascade(channel, np.eye(m))) == pytest.approx(leak, abs=ROUNDING)  # first step
    assert maximal_leakage(cascade(np.eye(n), channel)) == pytest.approx(leak, abs=ROUNDING)  # second step


def test_outputs_that_never_happen_do_not_excuse_the_second_step() -> None:
    """Without the support of Y1 the second argument would be log 3; with it, it is log 2, and is met."""
    first = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert maximal_leakage(cascade(first, np.eye(3))) == pytest.approx(math.log(2))
    assert maximal_leakage(np.eye(3), prior=[0.5, 0.5, 0.0]) == pytest.approx(math.log(2))


# ---------------------------------------------------------------- bounds, invariance, exactness


@few
@given(channels(), st.randoms(use_true_random=False))
def test_names_of_inputs_and_outputs_do_not_matter(channel: np.ndarray, random: object) -> None:
    rows, columns = list(range(channel.shape[0])), list(range(channel.shape[1]))
    random.shuffle(rows)  # type: ignore[attr-defined]
    random.shuffle(columns)  # type: ignore[attr-defined]
    shuffled = channel[np.ix_(rows, columns)]
    assert maximal_leakage(shuffled) == pytest.approx(maximal_leakage(channel), abs=ROUNDING)


@few
@given(channels(), st.data())
def test_leakage_lies_between_zero_and_the_smaller_alphabet(channel: np.ndarray, data: st.DataObject) -> None:
    prior = data.draw(distributions(len(channel)))
    leak = maximal_leakage(channel, prior=prior)
    assert 0 <= leak <= math.log(min(np.count_nonzero(prior), channel.shape[1])) + ROUNDING


@few
@given(channels(), st.data())
def test_only_the_support_of_the_prior_counts_and_more_of_it_leaks_more(
    channel: np.ndarray, data: st.DataObject
) -> None:
    prior = data.draw(distributions(len(channel)))
    flat = (prior > 0) / np.count_nonzero(prior)
    leak = maximal_leakage(channel, prior=prior)
    assert maximal_leakage(channel, prior=flat) == leak
    assert leak <= maximal_leakage(channel) + ROUNDING
    assert maximal_leakage(channel[prior > 0]) == leak


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_a_release_of_the_value_itself_leaks_the_logarithm_of_its_alphabet(n: int) -> None:
    assert maximal_leakage(np.eye(n)) == pytest.approx(math.log(n), rel=1e-15)


@few
@given(st.data(), st.integers(1, 5), st.integers(1, 5))
def test_an_output_that_ignores_the_data_leaks_exactly_nothing(data: st.DataObject, rows: int, columns: int) -> None:
    channel = np.tile(data.draw(distributions(columns)), (rows, 1))
    assert maximal_leakage(channel) == 0.0


@few
@given(channels())
def test_the_closed_form_agrees_with_exact_fractions(channel: np.ndarray) -> None:
    """The weights were small integers: recover them, add them up without rounding."""
    exact = [[Fraction(float(p)).limit_denominator(100) for p in row] for row in channel]
    total = sum((max(column) for column in zip(*exact, strict=True)), start=Fraction(0))
    assert maximal_leakage(channel) == pytest.approx(math.log(total), abs=1e-14)


@pytest.mark.parametrize("k", [1, 3, 9, 1000, 10**9])
def test_a_leakage_of_a_few_units_in_the_last_place_keeps_its_digits(k: int) -> None:
    t = k * 2.0**-53  # 0.5 + t and 0.5 - t are float64 numbers
    channel = np.array([[0.5, 0.5], [0.5 + 2 * t, 0.5 - 2 * t]])
    with mp.workdps(50):
        expected = float(mp.log1p(2 * mp.mpf(t)))
    for rows in ([0, 1], [1, 0]):
        assert maximal_leakage(channel[rows]) == pytest.approx(expected, rel=1e-14)
