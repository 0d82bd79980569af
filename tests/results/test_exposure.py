"""The exposure matrix and the ranking of the most exposed, against figures read row by row."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.models.fit_table import fit_table
from dosimeter.results.exposure import WIDEST, exposure_matrix
from dosimeter.results.measurement import Measurement
from dosimeter.results.people import TOP, PersonFigures, ranked
from dosimeter.results.unknowns import unknowns
from dosimeter.tables.table import Table


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(5)
    who = np.repeat(np.arange(80), 2)
    age, weight = rng.normal(50, 9, 160), rng.normal(70, 12, 160)
    ward = rng.choice(["a", "b"], 160)
    return Table.of(
        {
            "who": [f"p{k}" for k in who],
            "age": age,
            "weight": weight,
            "ward": list(ward),
            "y": age / 9 + weight / 12 + rng.normal(size=160),
        }
    )


@pytest.fixture(scope="module")
def leak(visits):
    return fit_table(visits, "y", l2=0.1, noise=dm.Gaussian(0.2), person="who").leakage


def test_a_cell_is_the_columns_spread_over_the_best_guess_among_the_persons_rows(leak, visits):
    matrix = Measurement.of(leak, visits).strip
    order = list(dict.fromkeys(visits["who"]))
    for name in ("age", "weight"):
        column = matrix.columns.index(name)
        for k in (0, 7, TOP - 1):
            person = order[(matrix.rows[k] - 1) // 2]
            mine = leak.deviation(name)[visits["who"] == person].min()
            assert matrix.eta[k][column] == pytest.approx(np.std(visits[name]) / mine)


def test_the_matrix_lists_the_people_of_the_ranking_and_no_id_unless_requested(leak, visits):
    result = Measurement.of(leak, visits)
    assert result.strip.rows == [entry.row for entry in result.ranked]
    assert not result.strip.shows("ids")
    assert not any(entry.shows("id") for entry in result.ranked)
    assert "ids" not in result.to_dict()["strip"]
    named = Measurement.of(leak, visits, show_ids=True)
    assert named.strip.ids == [entry.id for entry in named.ranked]
    rows = [entry.row - 1 for entry in named.ranked]
    assert named.strip.ids == visits["who"][rows].tolist()


def test_the_ranking_is_the_highest_doses_in_order(leak, visits):
    ranking = Measurement.of(leak, visits).ranked
    assert len(ranking) == TOP
    assert [entry.dose for entry in ranking] == pytest.approx(sorted(leak.unit_scale_eta, reverse=True)[:TOP])
    assert ranking[0].over_typical == pytest.approx(leak.unit_scale_eta.max() / np.median(leak.unit_scale_eta))


def test_ranks_of_an_exact_release_are_multiples_of_the_typical_dose(visits):
    exact = fit_table(visits, "y", l2=0.1, noise=dm.no_noise, person="who").leakage
    result = Measurement.of(exact, visits)
    assert result.ranked[0].dose == result.ranked[0].over_typical
    assert result.distribution.of == "η over the typical"
    assert result.strip is None


def test_a_person_without_a_dose_is_no_multiple_of_nothing():
    people = PersonFigures.named(np.array([0.0, 0.0, 3.0]), None)
    ranking = ranked(people, np.arange(3))
    assert [entry.over_typical for entry in ranking] == ["unbounded", 1.0, 1.0]


def test_a_wide_table_keeps_the_columns_that_leak_most():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, WIDEST + 5))
    table = Table.of({**{f"c{j}": X[:, j] for j in range(X.shape[1])}, "y": X @ rng.normal(size=X.shape[1])})
    leak = fit_table(table, "y", l2=0.1, noise=dm.Gaussian(1.0)).leakage
    every, people = unknowns(leak, table), PersonFigures.of(leak)
    matrix = exposure_matrix(every, people, table)
    assert matrix is not None
    assert len(matrix.columns) == WIDEST
    top = people.highest_first
    highest = {u.name: (u.spread / people.least(u.deviation)[top]).max() for u in every}
    assert set(matrix.columns) == set(sorted(highest, key=highest.get)[-WIDEST:])
