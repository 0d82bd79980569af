"""What a verb released in Python is booked as it is."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm

RNG = np.random.default_rng(5)
PEOPLE = {"age": RNG.normal(50, 10, 60), "who": [f"p{k // 2}" for k in range(60)], "dose": RNG.normal(0, 1, 60)}


@pytest.fixture(scope="module")
def released():
    return dm.fix(PEOPLE, "dose", person="who", max_dose=0.5, even_if_useless=True)


def test_a_release_is_booked_under_its_name_and_a_person_can_ask(released, tmp_path):
    with dm.Ledger.create(tmp_path / "ledger.db", ["fil=1"]) as ledger:
        receipt = ledger.book(released, name="june", to="Hospital B")
        assert (receipt.name, receipt.artefact) == ("june", released.artefact)
        statement = ledger.person("p7")
        (dose,) = released.doses
        assert statement.totals[0].reading == pytest.approx(dose.figures[list(dose.ids).index("p7")], abs=1e-8)
    with dm.Ledger.open(tmp_path / "ledger.db") as again:
        assert [entry.name for entry in again.entries() if entry.kind == "release"] == ["june"]


def test_a_second_draw_that_exceeds_the_budget_is_refused(released, tmp_path):
    highest = float(released.doses[0].figures.max())  # two equal releases make √2 of it
    with dm.Ledger.create(tmp_path / "ledger.db", [f"fil={1.2 * highest:.4f}"]) as ledger:
        ledger.book(released, name="june")
        second = dm.fix(PEOPLE, "dose", person="who", max_dose=0.5, even_if_useless=True)
        with pytest.raises(dm.Refusal, match="fil"):
            ledger.book(second, name="july")


def test_a_release_without_a_name_or_without_people_is_refused(released, tmp_path):
    with dm.Ledger.create(tmp_path / "ledger.db") as ledger:
        with pytest.raises(dm.Refusal, match="pass name="):
            ledger.book(released)
        nobody = dm.fix(PEOPLE, "dose", exclude=["who"], max_dose=0.5, even_if_useless=True)
        with pytest.raises(dm.Refusal, match="person="):
            ledger.book(nobody, name="june")
