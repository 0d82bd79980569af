"""Channels computed by hand, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dosimeter.core.channel import cascade, compose, maximal_leakage
from dosimeter.core.errors import Refusal

NAN = float("nan")
SYMMETRIC = [[0.75, 0.25], [0.25, 0.75]]


def test_the_binary_symmetric_channel() -> None:
    assert maximal_leakage(SYMMETRIC) == pytest.approx(math.log(1.5), rel=1e-15)


def test_the_binary_erasure_channel() -> None:
    """Erased with probability 0.2, else transmitted: log(0.8 + 0.2 + 0.8)."""
    assert maximal_leakage([[0.8, 0.2, 0.0], [0.0, 0.2, 0.8]]) == pytest.approx(math.log(1.8), rel=1e-15)


def test_the_result_is_a_number_for_one_channel_and_an_array_with_conditional() -> None:
    assert type(maximal_leakage(SYMMETRIC)) is float
    assert type(maximal_leakage(SYMMETRIC, prior=[0.5, 0.5])) is float
    answer = maximal_leakage(SYMMETRIC, conditional=[[0.5, 0.5], [1.0, 0.0], [0.9, 0.1]])
    assert answer.shape == (3,)
    np.testing.assert_allclose(answer, [math.log(1.5), 0.0, math.log(1.5)], rtol=1e-15)


def test_a_channel_may_depend_on_what_is_known() -> None:
    """Eq. 4: the same X through another channel for each z."""
    stack = [SYMMETRIC, np.eye(2), [[0.5, 0.5], [0.5, 0.5]]]
    answer = maximal_leakage(stack, conditional=[[0.5, 0.5]] * 3)
    np.testing.assert_allclose(answer, [math.log(1.5), math.log(2), 0.0], rtol=1e-15)


def test_rows_of_impossible_values_are_not_read() -> None:
    assert maximal_leakage([[0.5, 0.5], [NAN, NAN]], prior=[1.0, 0.0]) == 0.0
    stack = [[[0.5, 0.5], [0.0, 0.0]], SYMMETRIC]
    answer = maximal_leakage(stack, conditional=[[1.0, 0.0], [0.5, 0.5]])
    np.testing.assert_allclose(answer, [0.0, math.log(1.5)], rtol=1e-15)


def test_a_possible_value_counts_however_unlikely() -> None:
    assert maximal_leakage(SYMMETRIC, prior=[1.0, 1e-300]) == pytest.approx(math.log(1.5))


def test_one_input_or_one_output_leaks_nothing() -> None:
    assert maximal_leakage([[0.2, 0.8]]) == 0.0
    assert maximal_leakage([[1.0], [1.0], [1.0]]) == 0.0


def test_arguments_are_not_changed() -> None:
    channel = np.array(SYMMETRIC)
    maximal_leakage(channel)
    compose(channel, channel)
    cascade(channel, channel)
    assert channel.tolist() == SYMMETRIC


@pytest.mark.parametrize(
    ("channel", "why"),
    [
        ([[0.5, 0.5], [0.5, 0.6]], r"channel\[1\] sums to 1\.1"),
        ([[0.5, 0.5 + 1e-8]], r"channel\[0\] sums to 1\.00000001.*within 1e-09"),
        ([[0.5, 0.5], [1.5, -0.5]], r"channel\[1, 1\] is -0\.5"),
        ([[NAN, 1.0]], r"channel\[0, 0\] is nan"),
        ([[float("inf"), 0.0]], r"channel\[0, 0\] is inf"),
        ([0.5, 0.5], r"got shape \(2,\)"),
        (0.5, r"got shape \(\)"),
        (np.zeros((0, 3)), "no rows"),
        (np.zeros((3, 0)), "empty"),
        (np.ones((2, 2, 1)), r"conditional=P_X\|Z"),
    ],
)
def test_an_invalid_channel_is_refused_with_its_position(channel: object, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        maximal_leakage(channel)  # type: ignore[arg-type]


def test_the_order_of_unnormalised_rows_does_not_matter() -> None:
    careless = np.array([[0.5, 0.5], [0.5 + 4e-10, 0.5 + 4e-10]])
    assert maximal_leakage(careless) == maximal_leakage(careless[::-1]) > 0


def test_a_rounded_channel_is_accepted_within_the_stated_tolerance() -> None:
    assert maximal_leakage([[0.5, 0.5 + 1e-10], [0.5, 0.5]]) == pytest.approx(0.0, abs=2e-10)


@pytest.mark.parametrize(
    ("prior", "why"),
    [
        ([0.5, 0.6], r"prior sums to 1\.1"),
        ([1.5, -0.5], r"prior\[1\] is -0\.5"),
        ([NAN, 1.0], r"prior\[0\] is nan"),
        ([0.0, 0.0], "prior leaves no x possible"),
        ([1.0], r"each of the channel's 2 rows, got shape \(1,\)"),
        ([[0.5, 0.5]], r"got shape \(1, 2\)"),
    ],
)
def test_an_invalid_prior_is_refused(prior: object, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        maximal_leakage(SYMMETRIC, prior=prior)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("channel", "conditional", "why"),
    [
        (SYMMETRIC, [0.5, 0.5], r"conditional must be \(\|Z\|, \|X\|\).*got shape \(2,\)"),
        ([SYMMETRIC], [[0.5, 0.5], [0.5, 0.5]], r"conditional must be .*\(1, 2, 2\), got shape \(2, 2\)"),
        (SYMMETRIC, [[0.5, 0.5], [0.0, 0.0]], r"conditional\[1\] leaves no x possible"),
        (SYMMETRIC, [[0.5, 0.5], [0.5, 0.4]], r"conditional\[1\] sums to 0\.9"),
        (SYMMETRIC, [[0.5, 0.25, 0.25]], r"conditional\[0\] must have one probability for each of the channel's 2"),
        ([SYMMETRIC, [[0.5, 0.5], [0.5, 0.4]]], [[0.5, 0.5]] * 2, r"channel\[1\]\[1\] sums to 0\.9"),
        ([0.5, 0.5], [[0.5, 0.5]], r"channel must be .*got shape \(2,\)"),
    ],
)
def test_an_invalid_conditional_is_refused(channel: object, conditional: object, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        maximal_leakage(channel, conditional=conditional)  # type: ignore[call-overload]


def test_a_prior_and_a_conditional_together_are_refused() -> None:
    with pytest.raises(Refusal, match="not both"):
        maximal_leakage(SYMMETRIC, prior=[0.5, 0.5], conditional=[[0.5, 0.5]])  # type: ignore[call-overload]


def test_channels_that_do_not_fit_are_refused() -> None:
    with pytest.raises(Refusal, match="same X"):
        compose(np.eye(2), np.eye(3))
    with pytest.raises(Refusal, match="a row for each output"):
        cascade(np.eye(2), np.eye(3))
    with pytest.raises(Refusal, match=r"channel2\[0\] sums to 2"):
        cascade([[1.0]], [[2.0]])
    with pytest.raises(Refusal, match=r"channel1 must be"):
        compose([0.5, 0.5], SYMMETRIC)
