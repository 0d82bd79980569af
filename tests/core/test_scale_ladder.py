"""The ladder: every rung maps to itself, and nothing is ever rounded down."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter.core.errors import Refusal
from dosimeter.core.noise import NOISES
from dosimeter.core.scale_ladder import round_up, rung, rung_above

SCALES = st.floats(1e-149, 1e149)


@given(SCALES)
def test_the_rung_is_the_lowest_that_is_not_below_the_scale(scale):
    k = rung_above(scale)
    assert rung(k - 1) < scale <= rung(k)


@given(SCALES)
def test_no_rung_is_more_than_half_an_octave_above(scale):
    # In whole numbers, because √2 is not a float: (up/scale)² <= 2, apart from one rounding of the odd rungs.
    ratio = Fraction(round_up(scale)) / Fraction(scale)
    assert 1 <= ratio**2 <= 2 + Fraction(1, 10**15)


@given(st.integers(-996, 996))
def test_a_rung_maps_to_itself(k):
    assert rung_above(rung(k)) == k
    assert round_up(rung(k)) == rung(k)


@given(SCALES, SCALES)
def test_a_larger_scale_never_gets_a_lower_rung(a, b):
    assert (a <= b) <= (round_up(a) <= round_up(b))


def test_two_rungs_are_an_octave_and_one_is_the_anchor():
    assert round_up(1.0) == 1.0
    assert all(rung(k + 2) == 2 * rung(k) for k in range(-40, 40))
    assert rung(1) ** 2 == pytest.approx(2.0, rel=1e-15)


def test_every_noise_accepts_the_ends_of_the_ladder():
    for law in NOISES.values():
        assert [law(rung(k)).scale for k in (-996, 996)] == [2.0**-498, 2.0**498]


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan, True, "1", None, 1e151, 1e-300])
def test_an_invalid_scale_is_refused(scale):
    with pytest.raises(Refusal):
        round_up(scale)


@pytest.mark.parametrize("k", [997, -997, 0.5, True])
def test_an_invalid_rung_is_refused(k):
    with pytest.raises(Refusal, match="rungs are numbered"):
        rung(k)
