"""Doses add in their coordinate, and unlike doses never add."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent
from hypothesis import given
from hypothesis import strategies as st

from dosimeter import Dose, Refusal
from dosimeter.core.dose import EventDose
from dosimeter.core.notion import FISHER, LEAKAGE, MEMBERSHIP, Standing

figures = st.lists(st.floats(0, 1e6), min_size=1, max_size=6)


def dose(notion, reading, unit="person", ids=None, **fields):
    return Dose.of_figures(notion, unit, ids or [f"p{i}" for i in range(len(reading))], reading, **fields)


@pytest.mark.parametrize("notion", [FISHER, LEAKAGE, MEMBERSHIP], ids=str)
@given(reading=figures)
def test_reading_undoes_writing(notion, reading):
    np.testing.assert_allclose(dose(notion, reading).figures, reading, rtol=1e-12, atol=2e-154)


@given(a=figures, b=figures, c=figures)
def test_the_order_of_releases_does_not_matter(a, b, c):
    x, y, z = (dose(FISHER, r) for r in (a, b, c))
    left, right = (x + y) + z, z + (y + x)
    assert set(left.ids) == set(right.ids)
    totals = dict(zip(right.ids, right.amounts, strict=True))
    np.testing.assert_allclose(left.amounts, [totals[i] for i in left.ids], rtol=1e-12)


@given(reading=figures)
def test_a_release_never_lowers_a_dose(reading):
    first = dose(FISHER, reading)
    assert ((first + dose(FISHER, [0.5])).amounts >= first.amounts).all()


@pytest.mark.parametrize("notion", [FISHER, LEAKAGE, MEMBERSHIP], ids=str)
def test_a_leakage_that_is_not_zero_never_becomes_zero(notion):
    assert (dose(notion, [5e-324, 1e-200]).amounts > 0).all()


def test_k_equal_releases_give_root_k_of_one():
    single = dose(FISHER, [0.2])
    four = single + single + single + single
    assert four.figures[0] == pytest.approx(0.4)


def test_the_sum_of_exact_doses_is_exact_only_where_the_law_is():
    assert (dose(FISHER, [1.0]) + dose(FISHER, [1.0])).standing is Standing.UPPER_BOUND
    assert (dose(FISHER, [1.0], unit="cell") + dose(FISHER, [1.0], unit="cell")).standing is Standing.EXACT
    assert (dose(LEAKAGE, [1.0]) + dose(LEAKAGE, [1.0])).standing is Standing.UPPER_BOUND
    assert (dose(MEMBERSHIP, [1.0]) + dose(MEMBERSHIP, [1.0])).standing is Standing.EXACT
    guess = dose(FISHER, [1.0], standing=Standing.ESTIMATE)
    assert (guess + dose(FISHER, [1.0])).standing is Standing.ESTIMATE


def test_what_is_not_covered_stays_on_the_sum():
    total = dose(FISHER, [1.0], not_covered=("scale chosen from data",)) + dose(FISHER, [1.0])
    assert total.not_covered == ("scale chosen from data",)


UNLIKE = {
    "notions": (dose(FISHER, [1.0]), dose(LEAKAGE, [1.0])),
    "units": (dose(FISHER, [1.0]), dose(FISHER, [1.0], unit="cell")),
    "measures": (dose(FISHER, [1.0]), dose(FISHER, [1.0], measured_in="standard deviations")),
    "adjacencies": (
        EventDose(GaussianDpEvent(1.0), "person", "replace-one"),
        EventDose(GaussianDpEvent(1.0), "person", "add-or-remove-one"),
    ),
}


@pytest.mark.parametrize("pair", list(UNLIKE.values()), ids=list(UNLIKE))
def test_unlike_doses_are_never_added(pair):
    with pytest.raises(Refusal, match="unlike doses are never added"):
        pair[0] + pair[1]


def test_a_dose_and_a_number_do_not_add():
    with pytest.raises(TypeError):
        dose(FISHER, [1.0]) + 1.0


BAD = {
    "negative": lambda: dose(FISHER, [-1.0]),
    "nan": lambda: dose(FISHER, [float("nan")]),
    "twice": lambda: dose(FISHER, [1.0, 2.0], ids=["a", "a"]),
    "too few ids": lambda: dose(FISHER, [1.0, 2.0], ids=["a"]),
    "unknown unit": lambda: dose(FISHER, [1.0], unit="village"),
    "unknown adjacency": lambda: EventDose(GaussianDpEvent(1.0), "person", "somehow"),
}


@pytest.mark.parametrize("make", list(BAD.values()), ids=list(BAD))
def test_a_malformed_dose_is_refused(make):
    with pytest.raises(Refusal):
        make()


def test_the_dose_copies_its_values():
    values = np.array([1.0, 2.0])
    stored = Dose(FISHER, "person", ("a", "b"), values)
    values[0] = 99.0
    assert stored.amounts[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        stored.amounts[0] = 5.0


def test_events_compose_as_one_gaussian_of_the_summed_information():
    single = EventDose(GaussianDpEvent(2.0), "person", "add-or-remove-one")
    together = EventDose(GaussianDpEvent(2.0 / np.sqrt(2)), "person", "add-or-remove-one")
    assert (single + single).epsilon(1e-6) == pytest.approx(together.epsilon(1e-6), rel=1e-3)


def test_an_exact_release_is_infinite_and_stays_so():
    total = dose(FISHER, [np.inf]) + dose(FISHER, [0.1])
    assert total.figures[0] == np.inf
    assert total.highest == ("p0", np.inf)


def test_laplace_noise_on_a_replaced_value_costs_its_move_over_its_scale() -> None:
    """A multiplier of 4 is a shift of 2/4 scales; k queries of pure ε₀ cost k ε₀ if δ is negligible."""
    from dp_accounting.dp_event import ComposedDpEvent, GaussianDpEvent, LaplaceDpEvent, SelfComposedDpEvent

    once = EventDose(LaplaceDpEvent(4.0), "example", "replace-one")
    thrice = EventDose(SelfComposedDpEvent(LaplaceDpEvent(4.0), 3), "example", "replace-one")
    assert once.epsilon(1e-9) == pytest.approx(0.5, rel=1e-3)
    assert thrice.epsilon(1e-9) == pytest.approx(1.5, rel=1e-3)
    both = EventDose(ComposedDpEvent([GaussianDpEvent(4.0), LaplaceDpEvent(1e6)]), "example", "replace-one")
    alone = EventDose(GaussianDpEvent(4.0), "example", "replace-one")
    assert both.epsilon(1e-5) == pytest.approx(alone.epsilon(1e-5), rel=1e-3)


def test_discrete_laplace_noise_on_a_replaced_value_costs_twice_that_of_a_removed_one() -> None:
    """e^-a|k| shifted by s and by -s: the log ratio of the probabilities is 2as."""
    from dp_accounting.dp_event import DiscreteLaplaceDpEvent

    for parameter, moved in ((0.5, 1), (0.25, 3)):
        event = DiscreteLaplaceDpEvent(parameter, moved)
        assert EventDose(event, "example", "replace-one").epsilon(1e-9) == pytest.approx(
            2 * parameter * moved, rel=1e-3
        )


def test_a_history_without_an_accountant_under_replacement_is_not_read_under_another_relation() -> None:
    """With Laplace noise in the history, a sample or a randomised response would otherwise get too low an ε."""
    from dp_accounting.dp_event import (
        ComposedDpEvent,
        LaplaceDpEvent,
        PoissonSampledDpEvent,
        RandomizedResponseDpEvent,
        SelfComposedDpEvent,
    )
    from dp_accounting.privacy_accountant import UnsupportedEventError

    for event in (PoissonSampledDpEvent(1.0, GaussianDpEvent(1.0)), RandomizedResponseDpEvent(0.2, 3)):
        assert EventDose(event, "example", "replace-one").epsilon(1e-6) > 2
        for both in (
            ComposedDpEvent([event, LaplaceDpEvent(1e6)]),
            SelfComposedDpEvent(ComposedDpEvent([event, LaplaceDpEvent(1e6)]), 2),
        ):
            with pytest.raises(UnsupportedEventError):
                EventDose(both, "example", "replace-one").epsilon(1e-6)


def test_a_duplicate_id_is_refused_without_being_shown() -> None:
    with pytest.raises(Refusal, match="duplicate id in a dose") as caught:
        dose(FISHER, [1.0, 2.0], ids=["canary-7", "canary-7"])
    assert "canary" not in str(caught.value)
