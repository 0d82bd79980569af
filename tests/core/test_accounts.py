"""The ledger's rules without a database: amounts that only rise, budgets in words, and who passes a limit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter.core.accounts import (
    Account,
    AccountShare,
    LedgerLimit,
    SharedEventDose,
    over,
    parts_of,
    standing_of_sum,
    text_of,
)
from dosimeter.core.dose import Dose, EventDose
from dosimeter.core.dp_events import event_from_dict, event_to_dict
from dosimeter.core.errors import Refusal
from dosimeter.core.nano_units import MOST, NANO, amount_of, amounts_of, check_total
from dosimeter.core.notion import FISHER, LEAKAGE, MEMBERSHIP, Notion, Standing

TINY = float(np.finfo(np.float64).tiny)
DOSES = st.floats(min_value=TINY, max_value=1e6, allow_nan=False) | st.just(0.0)
FIL = Account("fil", "person", "standard deviations")
cases = settings(max_examples=500, deadline=None)


@cases
@given(DOSES)
def test_an_amount_is_never_below_its_dose_and_less_than_one_above(x):
    exact = Fraction(x) * NANO
    assert 0 <= amount_of(x) - exact < 1


LISTS = st.lists(DOSES, max_size=6).flatmap(lambda doses: st.tuples(st.just(doses), st.permutations(doses)))


def _total_is_a_total(doses, shuffled):
    assert sum(amounts_of(doses)) == sum(amounts_of(shuffled))
    total = 0
    for x in shuffled:
        more = total + amount_of(x)
        assert more > total or x == 0
        total = more
    exact = sum((Fraction(x) for x in doses), Fraction(0)) * NANO
    assert 0 <= total - exact <= len(doses)


@cases
@given(LISTS)
def test_a_total_does_not_depend_on_the_order_never_falls_and_is_never_rounded_down(both):
    _total_is_a_total(*both)


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None)
@given(LISTS)
def test_ten_thousand_totals_do_not_depend_on_the_order_and_never_fall(both):
    _total_is_a_total(*both)


@cases
@given(DOSES, DOSES)
def test_a_larger_dose_has_no_smaller_amount(x, y):
    low, high = sorted([x, y])
    assert amount_of(low) <= amount_of(high)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e-300, -1.0, 5e-324, TINY / 2, 1e10, 1e300])
def test_what_is_no_dose_has_no_amount(bad):
    with pytest.raises(Refusal):
        amount_of(bad)


def test_a_dose_too_small_to_see_still_counts():
    """A budget that compares floats lets it through for ever: 1.0 + 1e-17 is 1.0, and a subnormal times itself is 0."""
    assert amount_of(1e-17) == amount_of(TINY) == 1
    with pytest.raises(Refusal, match="normal float64 numbers"):
        amount_of(5e-324)
    # A subnormal reading becomes the least normal number in the coordinate, not zero.
    small = Dose.of_figures(FISHER, "person", ["ann"], [5e-324])
    assert amounts_of(small.amounts) == (1,)


def test_the_largest_total_is_what_a_column_holds():
    assert check_total(MOST) == MOST == 2**63 - 1
    with pytest.raises(Refusal, match="above the largest total"):
        check_total(MOST + 1)
    with pytest.raises(Refusal, match="above the largest dose"):
        amount_of(float(MOST) / NANO * 1.001)


@pytest.mark.parametrize(
    ("text", "key", "limit", "delta"),
    [
        ("fil=0.3", "fil", 0.3, 0.0),
        (" mu = 1 ", "mu", 1.0, 0.0),
        ("leakage=2 nats", "leakage", 2.0, 0.0),
        ("leakage=2", "leakage", 2.0, 0.0),
        ("leakage=.5nats", "leakage", 0.5, 0.0),
        ("eps=3@1e-6", "eps", 3.0, 1e-6),
        ("eps = 3. @ 1E-6", "eps", 3.0, 1e-6),
    ],
)
def test_a_budget_is_read_from_its_words_and_said_again(text, key, limit, delta):
    budget = LedgerLimit.parse(text)
    assert (budget.key, budget.limit, budget.delta) == (key, limit, delta)
    assert LedgerLimit.parse(str(budget)) == budget


@pytest.mark.parametrize(
    "text",
    [
        *("", "fil", "fil=", "fil=-1", "fil=0", "fil=nan", "fil=inf", "fil=1e999", "fil=0.3 nats", "fil=0.3@1e-6"),
        *("eps=3", "eps=3@0", "eps=3@1", "eps=3@2", "eps=3@nan", "auc=0.6", "fil=0,3", "fil=0.3;mu=1", "FIL=1"),
        *("fil=1e-4", "leakage=1e-9", "fil=1e6", "leakage=1e12", "fil==1", "fil=1_0", "fil=٣", "x" * 500),
    ],
)
def test_what_is_no_budget_is_refused(text):
    with pytest.raises(Refusal) as caught:
        LedgerLimit.parse(text)
    assert len(str(caught.value)) < 300


@cases
@given(st.floats(min_value=0.0011, max_value=1e4), st.sampled_from([FISHER, MEMBERSHIP, LEAKAGE]))
def test_whoever_reads_exactly_the_limit_is_within_it_and_a_little_above_is_not(limit, notion: Notion):
    key = notion.key
    budget, account = LedgerLimit(key, limit), Account(key, "person", "own units")

    def passing(reading):
        ((_, amount),) = parts_of([Dose.of_figures(notion, "person", ["ann"], [reading])])[0].rows
        return over(account, budget, {"ann": amount}, {}) is not None

    assert not passing(limit)
    assert passing(limit * 1.002)
    # What is let through is above the limit by less than one nano-unit in the coordinate.
    assert budget.amount - Fraction(float(notion.write(np.array([limit]))[0])) * NANO < 1


def test_only_people_and_clients_have_an_account():
    for unit in ("example", "cell", "teacher", "dataset", "group"):
        with pytest.raises(Refusal, match="persons or clients"):
            parts_of([Dose.of_figures(FISHER, unit, ["a"], [0.1])])
    assert parts_of([Dose.of_figures(FISHER, "client", ["a"], [0.1])])[0].account.unit == "client"


def test_unlike_doses_get_unlike_accounts():
    doses = [
        Dose.of_figures(FISHER, "person", ["a"], [0.1]),
        Dose.of_figures(FISHER, "person", ["a"], [0.1], measured_in="standard deviations"),
        Dose.of_figures(FISHER, "client", ["a"], [0.1]),
        Dose.of_figures(MEMBERSHIP, "person", ["a"], [0.1]),
        Dose.of_figures(LEAKAGE, "person", ["a"], [0.1]),
        SharedEventDose(("a",), EventDose(_gaussian(1.0), "person", "replace-one")),
        SharedEventDose(("a",), EventDose(_gaussian(1.0), "person", "add-or-remove-one")),
    ]
    accounts = [part.account for part in parts_of(doses)]
    assert len(set(accounts)) == len(doses)
    assert [Account.of_text(account.text) for account in accounts] == accounts


def test_the_order_in_which_doses_are_given_is_kept_and_empty_ones_are_left_out():
    empty = Dose.of_figures(FISHER, "person", [], [])
    full = Dose.of_figures(LEAKAGE, "person", ["b", "a"], [0.5, 0.25], not_covered=("x",))
    assert parts_of([empty, full]) == (
        AccountShare(
            Account("leakage", "person", "own units"),
            Standing.EXACT,
            (("b", 500_000_000), ("a", 250_000_000)),
            None,
            ("x",),
        ),
    )


def test_people_who_pass_are_told_from_those_who_do_not():
    found = over(
        FIL, LedgerLimit("fil", 0.5), {"a": 10**8, "b": 2 * 10**8, "c": 0, "d": 1}, {"a": 2 * 10**8, "c": 10**9}
    )
    assert found is not None
    assert (found.people, found.ids) == (1, ("a",))
    assert found.totals == (pytest.approx(math.sqrt(0.3)),)
    assert found.room == 0.0  # c has none left
    assert found.share == pytest.approx(0.5)
    assert over(FIL, None, {"a": MOST}, {}) is None
    with pytest.raises(Refusal, match="above the largest total"):
        over(FIL, None, {"a": MOST}, {"a": 1})


@pytest.mark.parametrize(
    ("account", "standings", "sum_"),
    [
        (FIL, [Standing.EXACT], Standing.EXACT),
        (FIL, [Standing.EXACT] * 2, Standing.UPPER_BOUND),  # norms of matrices add to a bound only
        (Account("mu", "person", "own units"), [Standing.EXACT] * 2, Standing.EXACT),
        (Account("mu", "person", "own units"), [Standing.EXACT, Standing.ESTIMATE], Standing.ESTIMATE),
        (Account("leakage", "person", "own units"), [Standing.EXACT] * 2, Standing.UPPER_BOUND),
        (Account("eps", "person", "replace-one"), [Standing.EXACT], Standing.UPPER_BOUND),
    ],
)
def test_a_total_stands_no_firmer_than_its_law(account, standings, sum_):
    assert standing_of_sum(account, standings) is sum_


def _gaussian(z):
    from dp_accounting import GaussianDpEvent

    return GaussianDpEvent(z)


def test_events_come_back_from_their_plain_form():
    from dp_accounting import dp_event as e

    events = [
        e.GaussianDpEvent(1.5),
        e.LaplaceDpEvent(2.0),
        e.ComposedDpEvent([e.GaussianDpEvent(1.0), e.SelfComposedDpEvent(e.LaplaceDpEvent(1.0), 3)]),
        e.SelfComposedDpEvent(e.PoissonSampledDpEvent(0.25, e.GaussianDpEvent(0.75)), 11),
        e.SampledWithoutReplacementDpEvent(100, 10, e.GaussianDpEvent(2.0)),
        e.RandomizedResponseDpEvent(0.5, 4),
        e.DiscreteLaplaceDpEvent(0.5, 2),
        e.NoOpDpEvent(),
    ]
    for event in events:
        assert event_from_dict(event_to_dict(event)) == event


def _nested(depth):
    plain = {"class": "GaussianDpEvent", "noise_multiplier": 1.0}
    for _ in range(depth):
        plain = {"class": "SelfComposedDpEvent", "event": plain, "count": 1}
    return plain


@pytest.mark.parametrize(
    "bad",
    [
        None,
        [],
        {},
        {"class": "os.system"},
        {"class": ["GaussianDpEvent"], "noise_multiplier": 1.0},
        {"class": "NonPrivateDpEvent"},
        {"class": "UnsupportedDpEvent"},
        {"class": "GaussianDpEvent"},
        {"class": "GaussianDpEvent", "noise_multiplier": 1.0, "module_name": "os"},
        *({"class": "GaussianDpEvent", "noise_multiplier": z} for z in (0, -1.0, math.nan, math.inf, "1", True, None)),
        *({"class": "SelfComposedDpEvent", "event": _nested(0), "count": n} for n in (0, -1, 1.5, True, 10**12)),
        {"class": "PoissonSampledDpEvent", "sampling_probability": 1.5, "event": _nested(0)},
        {"class": "ComposedDpEvent", "events": {}},
        {"class": "ComposedDpEvent", "events": [1]},
        _nested(20),
    ],
)
def test_a_strangers_event_is_refused_unless_it_is_one(bad):
    with pytest.raises(Refusal):
        event_from_dict(bad)


def test_an_event_that_nobody_reads_is_not_booked():
    from dp_accounting import dp_event as e

    for event in (e.NonPrivateDpEvent(), e.UnsupportedDpEvent(), e.ComposedDpEvent([e.NonPrivateDpEvent()]), "text"):
        with pytest.raises(Refusal):
            event_to_dict(event)
    with pytest.raises(Refusal, match="noise_multiplier"):
        event_to_dict(e.GaussianDpEvent(0.0))


COMPOSED, TAKEN_APART = "Jos\u00e9", "Jose\u0301"


@pytest.mark.parametrize(
    ("ids", "one"),
    [
        ((17, "17", " 17", "17\t", "\u00a017", 17.0, np.int64(17), np.float64(17.0), np.float32(17.0)), "17"),
        ((COMPOSED, TAKEN_APART, f" {TAKEN_APART}"), COMPOSED),
    ],
)
def test_one_person_written_in_several_ways_is_one(ids, one):
    assert {text_of(i) for i in ids} == {one}


def test_what_may_be_another_person_stays_another():
    others = ("17", "017", "17.0", "1 7", "A17", "a17", 17.5, True, "True ")
    assert len({text_of(i) for i in others}) == len(others) - 1  # True and its text are one


@pytest.mark.parametrize("nobody", [None, float("nan"), float("inf"), np.float64("nan"), b"17", "", "  ", "\u00a0"])
def test_what_names_nobody_is_refused(nobody):
    with pytest.raises(Refusal, match="id"):
        text_of(nobody)


def test_two_writings_of_one_person_in_one_release_are_refused():
    doubled = Dose(FISHER, "person", (COMPOSED, TAKEN_APART), np.array([0.1, 0.2]))
    with pytest.raises(Refusal, match="Unicode form are one person"):
        parts_of([doubled])


@pytest.mark.parametrize("standing", list(Standing))
def test_a_dose_that_may_lie_below_the_truth_is_not_booked(standing):
    doses = (
        Dose(FISHER, "person", ("a",), np.array([0.1]), standing),
        SharedEventDose(("a",), EventDose(_gaussian(2.0), "person", "replace-one", standing)),
    )
    for one in doses:
        if standing in (Standing.LOWER_BOUND, Standing.ESTIMATE):
            with pytest.raises(Refusal, match=f"only an? {standing.value} cannot be booked"):
                parts_of([one])
        else:
            assert parts_of([one])[0].standing is standing


def test_a_delta_that_no_accountant_tells_from_zero_is_refused():
    assert LedgerLimit.parse("eps=3@1e-12").delta == 1e-12
    for text in ("eps=3@9e-13", "eps=3@1e-300", "eps=3@1e-400"):
        with pytest.raises(Refusal, match="delta"):
            LedgerLimit.parse(text)
