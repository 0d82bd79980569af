"""The ledger on each database: a release is booked once, limits refuse, and unknown people have nothing."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.dp_event import DiscreteLaplaceDpEvent

from dosimeter.core.accounts import Account, LedgerLimit, SharedEventDose
from dosimeter.core.dose import Dose, EventDose
from dosimeter.core.errors import LimitExceeded, Refusal
from dosimeter.core.notion import FISHER, LEAKAGE, MEMBERSHIP, Standing
from dosimeter.core.release import Recipe
from dosimeter.federated.client_dose import ClientDose, Spend
from dosimeter.federated.client_sampling import FixedSizeSampling, PoissonSampling
from dosimeter.ledger import Ledger, OverBudget, composition

from .samples import PEOPLE, RECIPE, booking, dose, events, of_all_kinds

FIL = Account("fil", "person", "standard deviations")


def spent_once(reading, eta):
    """The figure of one release of η: rounded up by less than a nano-unit of η², apart from float rounding."""
    return -1e-16 < reading**2 - eta**2 < 1.0001e-9


def totals_of(ledger, person):
    return {total.account.text: total for total in ledger.person(person).totals}


def test_a_booking_is_stored_with_its_bytes(place):
    with place.create("fil=0.3") as ledger:
        may = booking("may", note="first", to="Hospital B")
        booked = ledger.book(may)
        assert booked.fresh
        assert (booked.seq, booked.artefact) == (2, may.artefact)
        assert ledger.artefact("may") == may.artefact
        entry = ledger.entry("may")
        assert (entry.note, entry.to, entry.people, entry.accounts) == ("first", "Hospital B", 3, (FIL,))
        assert entry.recipe["settings"] == {"loss": "squared", "l2": 0.01}
        assert ledger.head == booked.head == f"2:{booked.digest[:16]}"


def test_what_was_booked_is_there_when_the_ledger_is_opened_again(place):
    with place.create("fil=0.3", "eps=3@1e-6") as ledger:
        ledger.book(of_all_kinds("may"))
        before = ledger.export()
    with place.open() as again:
        assert again.export() == before
        assert [str(b) for b in again.budgets] == ["eps=3@1e-06", "fil=0.3"]
        assert again.verify().entries == 2


def test_doses_of_fisher_information_add_in_quadrature_and_nats_add_as_they_are(place):
    with place.create() as ledger:
        for month in ("may", "june", "july"):
            ledger.book(booking(month, dose({"ann": 0.3, "bob": 0.4}), dose({"ann": 0.5}, LEAKAGE)))
        ann = totals_of(ledger, "ann")
        assert math.isclose(ann[FIL.text].reading, math.sqrt(3) * 0.3, rel_tol=1e-8)
        assert math.isclose(ann["leakage|person|standard deviations"].reading, 1.5, rel_tol=1e-8)
        assert ann[FIL.text].standing is Standing.UPPER_BOUND
        assert math.isinf(ann[FIL.text].limit)


def test_a_statement_lists_each_release_with_what_it_does_not_cover(place):
    with place.create("fil=0.5") as ledger:
        recipe = Recipe("weights", "Gaussian(0.5)", not_covered=("the columns were chosen from the data",))
        ledger.book(booking("may", dose({"ann": 0.3}, not_covered=("a tuned scale",)), recipe=recipe, to="B"))
        ledger.book(booking("june", dose({"bob": 0.3})))
        book = ledger.person("ann")
        (entry,) = book.entries
        assert (entry.name, entry.to, entry.standing) == ("may", "B", Standing.EXACT)
        assert entry.not_covered == ("a tuned scale", "the columns were chosen from the data")
        (total,) = book.totals
        assert math.isclose(total.left, 0.4, rel_tol=1e-6)
        assert not ledger.person("nobody").known


def test_numbers_and_texts_are_the_same_id(place):
    with place.create() as ledger:
        ledger.book(booking("may", dose({17: 0.3})))
        ledger.book(booking("june", dose({"17": 0.4})))
        assert math.isclose(totals_of(ledger, np.int64(17))[FIL.text].reading, 0.5, rel_tol=1e-8)
        with pytest.raises(Refusal, match="duplicate id"):
            ledger.book(booking("july", dose({"17": 0.4, 17: 0.1})))


def test_the_same_name_is_counted_once_and_returns_the_first_bytes(place):
    with place.create("fil=0.15") as ledger:
        first = ledger.book(booking("may"))
        again = ledger.book(booking("may"))  # the same release with other noise
        assert not again.fresh
        assert again.artefact == first.artefact == ledger.artefact("may")
        assert spent_once(totals_of(ledger, "ann")[FIL.text].reading, 0.1)
        assert len(ledger.releases()) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"doses": (dose(dict.fromkeys(PEOPLE, 0.11)),)},
        {"doses": (dose(dict.fromkeys(PEOPLE[:2], 0.1)),)},
        {"doses": (dose(dict.fromkeys((*PEOPLE, "zoe"), 0.1)),)},
        {"doses": (dose(dict.fromkeys(PEOPLE, 0.1), measured_in="own units"),)},
        {"recipe": Recipe("weights", "Gaussian(sigma=0.25)", {"loss": "squared", "l2": 0.01})},
    ],
    ids=["dearer", "fewer people", "more people", "other units", "other noise"],
)
def test_the_same_name_with_other_content_is_refused(file_place, other):
    with file_place.create() as ledger:
        ledger.book(booking("may"))
        before = ledger.export()
        with pytest.raises(Refusal, match="may is already booked"):
            ledger.book(booking("may", *other.get("doses", ()), recipe=other.get("recipe", RECIPE)))
        assert ledger.export() == before


def test_the_same_bytes_under_another_name_are_refused_with_the_first_name(place):
    with place.create() as ledger:
        ledger.book(booking("may", artefact=b"the model", noise_fingerprint=b""))
        with pytest.raises(Refusal, match="already released as may"):
            ledger.book(booking("june", artefact=b"the model", noise_fingerprint=b""))


def test_noise_booked_before_is_refused_with_its_first_name(place):
    with place.create() as ledger:
        ledger.book(booking("may", noise_fingerprint=b"drawn once"))
        with pytest.raises(Refusal, match="already used for may"):
            ledger.book(booking("june", noise_fingerprint=b"drawn once"))
        ledger.book(booking("june", noise_fingerprint=b""))
        ledger.book(booking("july", noise_fingerprint=b""))  # without the noise there is nothing to compare
        assert "drawn once" not in repr(ledger.export())


def test_a_release_that_would_exceed_a_limit_is_refused_and_nothing_is_written(place):
    with place.create("fil=0.3") as ledger:
        ledger.book(booking("may", dose({"ann": 0.25, "bob": 0.1, "eve": 0.29})))
        before, salts = ledger.export(), ledger.keys.salts_created
        with pytest.raises(OverBudget, match=r"2 people would pass fil=0\.3") as caught:
            ledger.book(booking("june", dose({"ann": 0.2, "bob": 0.2, "eve": 0.2, "new": 0.2})))
        assert ledger.export() == before
        assert ledger.keys.salts_created == salts
        (over,) = caught.value.over
        assert isinstance(caught.value, LimitExceeded)
        assert over.ids == ("eve", "ann")
        assert np.allclose(over.totals, [math.hypot(0.29, 0.2), math.hypot(0.25, 0.2)])
        assert math.isclose(over.room, math.sqrt(0.3**2 - 0.29**2), rel_tol=1e-6)
        assert math.isclose(over.share, (0.3**2 - 0.29**2) / 0.2**2, rel_tol=1e-6)
        fitting = {p: 0.2 * math.sqrt(over.share) * (1 - 1e-6) for p in ("ann", "bob", "eve", "new")}
        assert ledger.book(booking("june", dose(fitting))).fresh


def test_a_preview_decides_the_same_and_writes_nothing(place):
    with place.create("fil=0.3", "leakage=2") as ledger:
        ledger.book(booking("may", dose({"ann": 0.25}), dose({"ann": 1.5}, LEAKAGE)))
        before = ledger.export()
        june = booking("june", dose({"ann": 0.25}), dose({"ann": 0.6}, LEAKAGE))
        violations = ledger.preview(june)
        with pytest.raises(OverBudget) as caught:
            ledger.book(june)
        assert violations == caught.value.over
        assert {over.account.key for over in violations} == {"fil", "leakage"}
        assert ledger.export() == before
        assert ledger.preview(booking("june", dose({"bob": 0.25}))) == ()


def test_a_reason_overrides_a_limit_and_is_recorded(place):
    with place.create("fil=0.3") as ledger:
        booked = ledger.book(booking("may", dose({"ann": 0.4}), override="ordered by the board"))
        assert booked.over[0].people == 1
        assert ledger.entry("may").override == "ordered by the board"
        assert ledger.entry("may").body["over"][0]["people"] == 1
        ledger.book(booking("june", dose({"bob": 0.1}), override="not needed"))
        assert ledger.entry("june").override == ""


def test_at_the_limit_is_within_it(file_place):
    with file_place.create("fil=0.1", "mu=0.7", "leakage=0.3") as ledger:
        ledger.book(booking("may", dose({"a": 0.1}), dose({"a": 0.7}, MEMBERSHIP), dose({"a": 0.3}, LEAKAGE)))
        assert [account.passing for account in ledger.totals()] == [0, 0, 0]
        with pytest.raises(OverBudget):
            ledger.book(booking("june", dose({"a": 1e-4})))
        ledger.book(booking("july", dose({"a": 0.0, "b": 0.1})))


def test_a_limit_may_be_lowered_below_a_total_and_that_is_reported(place):
    with place.create("fil=0.3") as ledger:
        ledger.book(booking("may", dose({"ann": 0.25, "bob": 0.1})))
        ledger.set_budget(LedgerLimit.parse("fil=0.2"), "a new policy")
        (account,) = ledger.totals()
        assert (account.limit, account.passing) == (0.2, 1)
        assert account.readings[0] == pytest.approx(0.25)
        ledger.book(booking("june", dose({"bob": 0.1})))  # ann is above the limit, but gets nothing
        ledger.book(booking("july", dose({"ann": 0.0})))
        with pytest.raises(OverBudget):
            ledger.book(booking("august", dose({"ann": 0.01})))
        ledger.set_budget(LedgerLimit.parse("fil=0.5"))
        ledger.book(booking("august", dose({"ann": 0.01})))
        assert [entry.kind for entry in ledger.entries()].count("budget") == 2


def test_a_budget_holds_for_each_account_by_itself(place):
    with place.create("fil=0.3") as ledger:
        ledger.book(booking("may", dose({"ann": 0.29}), dose({"ann": 0.29}, measured_in="own units")))
        ledger.book(booking("june", dose({"ann": 0.29}, unit="client")))
        assert len(ledger.totals()) == 3
        assert [t.account for t in ledger.totals(FIL)] == [FIL]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"doses": (dose({"a": 0.1}, unit="example"),)}, "persons or clients"),
        ({"doses": (Dose(FISHER, "person", ("a",), np.array([np.inf])),)}, "unbounded"),
        ({"doses": (Dose(FISHER, "person", ("a",), np.array([5e-324])),)}, "normal float64 numbers"),
        ({"doses": (Dose(FISHER, "person", ("a",), np.array([1e10])),)}, "above the largest dose"),
        ({"doses": (dose({}),)}, "no person has a dose"),
        ({"doses": (dose({"a": 0.1}), dose({"a": 0.2}))}, "duplicate id"),
        ({"doses": (events(["a"]), events(["a", "b"]))}, "duplicate id"),
        ({"doses": (SharedEventDose(("a",), EventDose("no event", "person", "replace-one")),)}, "not an event"),
        ({"recipe": Recipe("w", "g", {"l2": math.nan})}, "finite numbers"),
    ],
)
def test_what_cannot_be_counted_is_not_booked(file_place, bad, why):
    with file_place.create("fil=0.3") as ledger:
        before = ledger.export()
        with pytest.raises(Refusal, match=why):
            ledger.book(booking("may", *bad.get("doses", ()), recipe=bad.get("recipe", RECIPE)))
        assert ledger.export() == before


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 121, "../up", "a\x00", "\u202eabc"])
def test_a_name_is_plain_text(name):
    with pytest.raises(Refusal, match="not a name of a release"):
        booking(name)


def test_a_simulation_is_never_booked():
    with pytest.raises(Refusal, match="simulated noise"):
        booking("may", recipe=Recipe("weights", "Gaussian(0.5)", simulation=True))


def test_totals_beyond_the_integers_are_refused(place):
    with place.create() as ledger:
        huge = Dose(FISHER, "person", ("ann",), np.array([9e9]))
        ledger.book(booking("may", huge))
        with pytest.raises(Refusal, match="above the largest total of a ledger"):
            ledger.book(booking("june", huge))
        assert ledger.verify().entries == 2


def test_a_history_of_events_is_composed_as_dp_accounting_composes_it(place):
    gaussian, laplace, sampled = (
        GaussianDpEvent(8.0),
        LaplaceDpEvent(20.0),
        PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)),
    )
    with place.create("eps=20@1e-5") as ledger:
        for name, event in (("a", gaussian), ("b", laplace), ("c", SelfComposedDpEvent(sampled, 7)), ("d", gaussian)):
            ledger.book(booking(name, SharedEventDose(("ann",), EventDose(event, "person", "add-or-remove-one"))))
        direct = EventDose(
            ComposedDpEvent([gaussian, gaussian, laplace, SelfComposedDpEvent(sampled, 7)]),
            "person",
            "add-or-remove-one",
        )
        (total,) = ledger.person("ann").totals
        # The same accountant with the events in another order: only rounding of its convolutions differs.
        assert total.reading == pytest.approx(direct.epsilon(1e-5), rel=1e-6)
        assert total.standing is Standing.UPPER_BOUND


def test_epsilon_never_falls_with_a_further_release_and_the_limit_refuses(place):
    with place.create("eps=3@1e-6") as ledger:
        readings = []
        while not ledger.preview(booking("next", events(["ann", "bob"], 9.0))):
            ledger.book(booking(f"release {len(readings)}", events(["ann", "bob"], 9.0)))
            readings.append(ledger.person("ann").totals[0].reading)
        with pytest.raises(OverBudget, match="2 people would pass eps=3@1e-06"):
            ledger.book(booking("next", events(["ann", "bob"], 9.0)))
        assert readings == sorted(readings)
        assert 2 < len(readings) < 10
        assert readings[-1] <= 3
        direct = EventDose(SelfComposedDpEvent(GaussianDpEvent(9.0), len(readings) + 1), "person", "replace-one")
        assert direct.epsilon(1e-6) > 3


def test_unlike_adjacencies_have_separate_accounts(place):
    with place.create("eps=3@1e-6") as ledger:
        ledger.book(booking("may", events(["ann"], 5.0), events(["ann"], 2.5, "add-or-remove-one")))
        a, b = ledger.person("ann").totals
        assert (a.account.measured_in, b.account.measured_in) == ("add-or-remove-one", "replace-one")
        # Replacing one record moves a sum of bounded vectors twice as far as removing one.
        assert a.reading == pytest.approx(b.reading, rel=1e-9)


def test_people_with_one_history_cost_one_accounting(file_place, monkeypatch):
    calls = []
    real = composition._by_dp_accounting
    monkeypatch.setattr(composition, "_by_dp_accounting", lambda *a: calls.append(1) or real(*a))
    composition.epsilon.cache_clear()
    ids = [str(k) for k in range(3000)]
    with file_place.create("eps=5@1e-6") as ledger:
        ledger.book(booking("may", events(ids, 5.0)))
        ledger.book(booking("june", events(ids[:1500], 5.0), events(ids[1500:], 10.0)))
        ledger.totals()
    assert len(calls) == 3  # one release; two like releases; two unlike


def test_rounds_of_fixed_size_samples_are_read_by_the_federated_accountant(file_place):
    client_dose = ClientDose.of([Spend(10, 2.0, 5)], FixedSizeSampling(100))
    with file_place.create("eps=20@1e-5") as ledger:
        ledger.book(booking("may", SharedEventDose(("clinic 1",), client_dose)))
        ledger.book(booking("june", SharedEventDose(("clinic 1",), client_dose)))
        (total,) = ledger.person("clinic 1").totals
        assert total.reading == pytest.approx(ClientDose.of([Spend(10, 2.0, 10)], FixedSizeSampling(100)).epsilon(1e-5))
        gaussian = EventDose(GaussianDpEvent(4.0), "client", "replace-one")
        ledger.book(booking("july", SharedEventDose(("clinic 1",), gaussian)))
        (mixed,) = ledger.person("clinic 1").totals
        assert mixed.reading >= max(total.reading, gaussian.epsilon(1e-5))
        assert mixed.reading <= total.reading * 1.5 + gaussian.epsilon(1e-6) + 1


def test_rounds_of_poisson_samples_are_read_as_the_federated_accountant_reads_them(file_place):
    client_dose = ClientDose.of([Spend(50, 0.984, 11)], PoissonSampling(100))
    with file_place.create("eps=8.01@1e-3") as ledger:
        ledger.book(booking("may", SharedEventDose(("clinic 1",), client_dose)))
        (total,) = ledger.person("clinic 1").totals
        assert total.reading == pytest.approx(client_dose.epsilon(1e-3), rel=1e-3)


def test_two_releases_are_compared(place):
    with place.create() as ledger:
        ledger.book(booking("may", dose({"ann": 0.1, "bob": 0.2, "eve": 0.3})))
        ledger.book(booking("june", dose({"bob": 0.1, "eve": 0.9, "zoe": 0.3}), events(["zoe"])))
        eps, fil = ledger.compare("may", "june")
        assert (eps.only_first, eps.only_second, eps.quantiles()) == (0, 1, ())
        assert (fil.only_first, fil.only_second, len(fil.first)) == (1, 1, 2)
        ((pseudonym, before, after),) = fil.largest_changes(1)
        assert (round(before, 6), round(after, 6)) == (0.3, 0.9)
        assert pseudonym == ledger.person("eve").pseudonym
        with pytest.raises(Refusal, match="no release july"):
            ledger.compare("may", "july")


def test_ids_and_cells_are_nowhere_in_the_files(file_place):
    with file_place.create() as ledger:
        ledger.book(booking("may", dose({"canary-7f3a": 0.1}), events(["canary-7f3a"])))
        ledger.person("canary-7f3a")
        files = {name: (file_place.keys.parent / name).read_bytes() for name in os.listdir(file_place.keys.parent)}
        assert {"book.db", "book.keys"} <= set(files)
        assert not [name for name, data in files.items() if b"canary" in data]
        assert "canary" not in repr(ledger.export())


@pytest.mark.parametrize("twice", ["fil=1", "eps=1@1e-5"])
def test_at_most_one_budget_per_notion(tmp_path, twice):
    with pytest.raises(Refusal, match="at most one budget"):
        Ledger.create(tmp_path / "book.db", [LedgerLimit.parse(twice)] * 2)
    assert os.listdir(tmp_path) == []


def test_a_ledger_is_created_once(place):
    with place.create() as ledger:
        ledger.book(booking("may"))
        before = ledger.export()
        place.keys = place.keys.with_name("other.keys")
        with pytest.raises(Refusal, match="already"):
            place.create()
        assert not place.keys.exists()
        assert ledger.export() == before


@pytest.mark.parametrize(
    "event",
    [
        GaussianDpEvent(1e-300),
        GaussianDpEvent(1e-3),
        GaussianDpEvent(1e300),
        LaplaceDpEvent(1e-8),
        DiscreteLaplaceDpEvent(1.0, 10**9),
        SelfComposedDpEvent(GaussianDpEvent(5.0), 10**9),
        SelfComposedDpEvent(SelfComposedDpEvent(GaussianDpEvent(5.0), 10**9), 10**9),
        SelfComposedDpEvent(LaplaceDpEvent(5.0), 10**5),
        PoissonSampledDpEvent(1.0, LaplaceDpEvent(1e-9)),
        SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 10**9),
    ],
    ids=str,
)
@pytest.mark.parametrize("limits", [(), ("eps=3@1e-6",)])
def test_an_event_that_would_fill_the_memory_is_refused_in_one_line(file_place, event, limits):
    """The accountant's grid spans all losses: terabytes for noise that protects nothing."""
    may = booking("may", SharedEventDose(("ann",), EventDose(event, "person", "add-or-remove-one")))
    with file_place.create(*limits) as ledger:
        with pytest.raises(Refusal, match="beyond what an accountant can compute"):
            ledger.book(may)
        assert len(ledger.entries()) == 1


@pytest.mark.parametrize(
    "event",
    [
        GaussianDpEvent(0.1),
        LaplaceDpEvent(0.1),
        SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 10**5),
        GaussianDpEvent(1e6),
    ],
    ids=str,
)
def test_an_event_of_high_or_low_cost_is_still_counted(file_place, event):
    with file_place.create() as ledger:
        ledger.book(booking("may", SharedEventDose(("ann",), EventDose(event, "person", "add-or-remove-one"))))
        (total,) = ledger.person("ann").totals
        assert 0 <= total.reading < 1000


def test_blanks_are_no_reason(file_place):
    with file_place.create("fil=0.3") as ledger:
        with pytest.raises(OverBudget):
            ledger.book(booking("may", dose({"ann": 0.4}), override=" \t"))
        assert not ledger.releases()


def test_a_note_is_kept_whole_or_refused(file_place):
    with file_place.create() as ledger:
        assert ledger.set_budget(LedgerLimit.parse("mu=5"), "n" * 2000).note == "n" * 2000
        with pytest.raises(Refusal, match="2001 characters"):
            ledger.set_budget(LedgerLimit.parse("mu=6"), "n" * 2001)
        assert [str(limit) for limit in ledger.budgets] == ["mu=5"]


def test_adding_an_event_gives_the_history_of_all_events():
    from dosimeter.ledger.booking import add_event

    for before in ([], ["a"], ["a", "b"], ["b", "b"]):
        assert add_event(composition.history_of(before), "b") == composition.history_of([*before, "b"])
