"""`attack --release predictions`: what an attacker with the answers alone gets, beside its control."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.reports.document import document


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(4)
    n = 80
    age, ward = rng.normal(50, 10, n), rng.choice(["north", "south"], n)
    ill = np.where(age + 6 * (ward == "north") + rng.normal(0, 8, n) > 52, "yes", "no")
    return {"age": age, "ward": ward, "ill": ill}


QUERIES = {"age": np.linspace(30, 70, 12), "ward": ["north", "south"] * 6}


def attack(people, **options):
    options = {"column": "ward", "release": "predictions", "queries": QUERIES, "trials": 40} | options
    return dm.attack(people, "ill", **options)


@pytest.mark.parametrize("answer", ["margins", "predictions"])
def test_answers_with_little_noise_give_the_column_away_and_much_noise_hides_it(answer, people):
    loud, quiet = (attack(people, scale=scale, answer=answer) for scale in (100.0, 1e-4))
    assert quiet.inversion.figure > 0.95
    assert quiet.inversion.beats_control
    assert loud.inversion.figure == pytest.approx(loud.inversion.control, abs=0.02)
    assert not loud.inversion.beats_control
    assert quiet.highest_eta == pytest.approx(1e6 * loud.highest_eta, rel=1e-9)


def test_more_queries_never_help_less_in_membership(people):
    few = {name: values[:2] for name, values in QUERIES.items()}
    auc = [
        attack(people, kind="membership", column=None, scale=0.05, queries=some, trials=200).membership.auc.highest
        for some in (few, QUERIES)
    ]
    assert 0.5 < auc[0] < auc[1] <= 1.0


def test_labels_are_attacked_by_simulation_and_say_so(people):
    report = attack(people, kind="membership", column=None, scale=0.2, answer="labels", trials=400)
    figures = report.membership
    assert figures.auc is None
    assert figures.standing == "lower bound"
    assert figures.played.low <= figures.played.figure <= figures.played.high
    text = report.to_text()
    assert f"row {figures.row} took part" in text.replace("\n  ", " ")
    assert "answers to 12 queries" in text
    assert attack(people, scale=0.2, answer="labels").inversion.figure > 0.4


def test_the_external_edition_of_an_attack_on_answers_holds_settings_alone(people):
    report = attack(people, scale=0.1)
    figures = document(report, "external").figures
    assert (figures["release"], figures["queries"]) == ("answers", 12)
    assert "inversion" not in figures
    assert "highest_eta" not in figures


@pytest.mark.parametrize(
    ("options", "needle"),
    [
        ({"queries": None}, "queries"),
        ({"release": "weights"}, "release"),
        ({"answer": "words"}, "answer"),
        ({"queries": {"age": [50.0]}}, "ward"),
        ({"queries": {"age": [50.0], "ward": ["east"]}}, "queries: a level .* column ward"),
    ],
)
def test_queries_that_do_not_fit_are_refused(options, needle, people):
    with pytest.raises(dm.Refusal, match=needle):
        attack(people, scale=0.1, **options)
