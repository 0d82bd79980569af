"""Figures of a measurement against figures computed from the readings themselves."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.models.fit_table import fit_table
from dosimeter.results.linear_parts import TargetFigures
from dosimeter.results.measurement import InversionSummary, Measurement, Verdict
from dosimeter.results.parts import SMALLEST
from dosimeter.results.result import read, undeclared
from dosimeter.tables.table import Table


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    age, sex = rng.normal(50, 12, 120).round(1), rng.choice(["f", "m"], 120, p=[0.8, 0.2])
    bmi = rng.normal(25, 4, 120)
    noise = np.where(sex == "m", 6.0, 0.5) * rng.standard_normal(120)  # men fit badly, so they carry more
    return Table.of({"age": age, "sex": list(sex), "bmi": bmi, "y": 0.2 * age + bmi + noise})


@pytest.fixture(scope="module")
def leak(table):
    return fit_table(table, "y", l2=0.01, noise=dm.Gaussian(0.5)).leakage


def test_typical_worst_and_highest_are_quantiles_of_the_doses(leak, table):
    result, eta = Measurement.of(leak, table), leak.leak.examples
    assert result.dose.typical == pytest.approx(np.median(eta))
    assert result.dose.worst_1_percent == pytest.approx(np.quantile(eta, 0.99))
    assert result.dose.highest == pytest.approx(eta.max())
    assert result.dose.highest_row == eta.argmax() + 1


def test_the_group_that_fits_badly_carries_more(leak, table):
    result, eta = Measurement.of(leak, table), leak.leak.examples
    men = table["sex"] == "m"
    (group,) = [g for g in result.groups if g.column == "sex" and g.group == "= m"]
    assert group.over_median == pytest.approx(np.median(eta[men]) / np.median(eta))
    assert group.over_median > 1.5
    assert group.people == men.sum()
    assert result.groups[0].over_median == max(g.over_median for g in result.groups)


def test_small_groups_are_not_shown(table):
    few = Table.of(
        {"x": np.arange(60.0), "rare": ["a"] * (SMALLEST - 1) + ["b"] * (61 - SMALLEST), "y": np.sin(np.arange(60.0))}
    )
    result = Measurement.of(fit_table(few, "y", l2=0.1, noise=dm.Gaussian(1.0)).leakage, few)
    assert not [g for g in result.groups if g.column == "rare"]


def test_the_meaning_is_the_most_exposed_rows_best_guessed_unknown(table):
    numbers = table.drop(["sex"])
    leak = fit_table(numbers, "y", l2=0.01, noise=dm.Gaussian(0.5)).leakage
    result = Measurement.of(leak, numbers)
    row = result.meaning.row - 1
    shares = {name: leak.deviation(name)[row] / np.std(numbers[name]) for name in ("age", "bmi")}
    shares["y"] = 1 / leak.leak.labels[row]
    column = result.meaning.column
    assert column == min(shares, key=shares.get)
    assert result.meaning.deviation == pytest.approx(shares[column] * np.std(numbers[column]), rel=1e-9)


def test_what_the_others_say_does_not_hide_a_class_behind_a_category():
    """Of two yes/no values, the one with the larger η leaks more, whatever R² the other columns give it."""
    rng = np.random.default_rng(9)
    age = rng.normal(size=80)
    rare = np.where(rng.random(80) < 0.1, "yes", "no")
    ill = (age + 0.3 * rng.normal(size=80) > 0).astype(int)  # R² of about 0.6 on age; `rare` has none
    table = Table.of({"age": age, "rare": list(rare), "ill": ill})
    leak = fit_table(table, "ill", noise=dm.Gaussian(0.3)).leakage
    result = Measurement.of(leak, table)
    top = result.meaning.row - 1
    etas = {"ill": leak.leak.labels[top], "rare": leak.cell("rare")[top]}
    assert (result.target.r2 or 0) > 0.4
    assert etas["ill"] > etas["rare"] > etas["ill"] * np.sqrt(1 - result.target.r2)
    assert result.meaning.column == "ill"
    assert result.meaning.deviation == pytest.approx(1 / etas["ill"])


def test_the_meaning_is_the_targets_where_the_target_makes_the_dose():
    """Malignant or benign: at this penalty nearly all of the highest figure is the label's."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True).frame
    table = Table.of(data)
    leak = fit_table(table, "target", l2=0.01, noise=dm.Gaussian(0.1)).leakage
    result, top = Measurement.of(leak, table), int(leak.leak.examples.argmax())
    assert (result.meaning.column, result.meaning.kind) == ("target", "target")
    assert result.meaning.deviation == pytest.approx(1 / leak.leak.labels[top])
    assert result.target.least_deviation == pytest.approx(1 / leak.leak.labels.max())
    assert result.target.counted is True
    assert result.target.spread is None


def test_a_target_that_is_an_amount_reads_in_its_own_unit(leak, table):
    result = Measurement.of(leak, table).target
    assert result.least_deviation == pytest.approx(np.std(table["y"]) / leak.leak.labels.max())
    assert result.spread == pytest.approx(np.std(table["y"]))


def test_a_target_taken_as_known_is_neither_counted_nor_read(table):
    leak = fit_table(table, "y", l2=0.01, noise=dm.Gaussian(0.5), include_target=False).leakage
    result = Measurement.of(leak, table)
    assert result.target == TargetFigures(column="y", kind="target", counted=False)
    assert "taken as known" in result.unknowns
    assert result.dose.highest == pytest.approx(leak.leak.without_target().examples.max())


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(3)
    who = np.repeat(np.arange(40), 3)
    born = rng.normal(1960, 15, 40)[who]
    weight = rng.normal(70, 9, 120)
    weight[7] = 190.0  # one odd visit makes person 2 the most exposed, and it is not their first
    ward = rng.choice(["a", "b"], 120)
    columns = {"who": [f"p{k}" for k in who], "born": born, "weight": weight, "ward": list(ward)}
    return Table.of({**columns, "y": born / 15 + weight / 9 + rng.normal(size=120)})


@pytest.mark.parametrize("tied", [(), ("born",)])
def test_a_person_is_read_by_the_best_guessed_of_all_their_rows(visits, tied):
    table = visits.drop(["ward"])
    leak = fit_table(table, "y", l2=0.1, noise=dm.Gaussian(0.2), person="who", tied=tied).leakage
    meaning = Measurement.of(leak, table).meaning
    order = list(dict.fromkeys(table["who"]))
    top = order[int(leak.unit_scale_eta.argmax())]
    candidates = {"y": leak.target_deviation, "born": leak.deviation("born"), "weight": leak.deviation("weight")}
    share = {name: d[table["who"] == top].min() / np.std(table[name]) for name, d in candidates.items()}
    best = min(share, key=share.get)
    assert meaning.column == best
    mine = candidates[best]
    assert meaning.deviation == pytest.approx(mine[table["who"] == top].min())
    assert meaning.typical_deviation == pytest.approx(np.median([mine[table["who"] == w].min() for w in order]))
    assert table["who"][meaning.cell_row - 1] == top
    assert mine[meaning.cell_row - 1] == pytest.approx(meaning.deviation)


def test_a_group_that_was_asked_for_is_there_whatever_its_ratio_and_says_whose_row_it_takes(visits):
    table = visits
    leak = fit_table(table, "y", l2=0.1, noise=dm.Gaussian(0.2), person="who").leakage
    result = Measurement.of(leak, table, groups=["ward", "who"])
    wards = [g for g in result.groups if g.column == "ward"]
    assert {g.group for g in wards} == {"= a", "= b"}
    assert all(g.asked and g.by_first_row for g in wards)
    first = visits["ward"][::3] == "a"
    (a,) = [g for g in wards if g.group == "= a"]
    assert a.over_median == pytest.approx(np.median(leak.unit_scale_eta[first]) / np.median(leak.unit_scale_eta))
    assert "ward varies within a person: each person is counted by their first row" in result.remarks
    assert 'group="who": no group of 10 or more people' in result.remarks


def test_a_column_of_two_values_is_a_category_whatever_its_kind():
    rng = np.random.default_rng(9)
    smokes, x = rng.integers(0, 2, 80), rng.normal(size=80)
    y = smokes + x + rng.normal(size=80)
    found = []
    for coded in (smokes, smokes * 10.0 + 5, smokes.astype(bool), ["yes" if s else "no" for s in smokes]):
        table = Table.of({"smokes": coded, "x": x, "y": y})
        result = Measurement.of(fit_table(table, "y", l2=0.0, noise=dm.Gaussian(1.0)).leakage, table)
        (column,) = [c for c in result.columns if c.column == "smokes"]
        assert column.kind == "category"
        assert not column.shows("least_deviation")
        found.append(column.highest)
    # The step from one value to the other is one unknown; what differs is the unit of the released weight.
    assert found[0] == pytest.approx(found[1])
    assert found[2] == pytest.approx(found[3])


def test_a_softmax_model_is_spared_the_columns_over_all_rows():
    rng = np.random.default_rng(10)
    table = Table.of({"x": rng.normal(size=60), "z": rng.normal(size=60), "kind": list("abc") * 20})
    result = Measurement.of(fit_table(table, "kind", l2=0.1, noise=dm.Gaussian(1.0)).leakage, table)
    assert [c.over_all_rows for c in result.columns] == [None, None]


@pytest.mark.parametrize("limit", [1e-9, 0.2, 1e9])
def test_the_verdict_counts_the_people_above_the_limit(limit, leak, table):
    verdict = Measurement.of(leak, table, limit=limit).verdict
    above = int((leak.leak.examples > limit).sum())
    assert verdict == Verdict(limit=limit, above=above, within=above == 0)


def test_an_exact_release_is_unbounded_ranked_and_told_the_noise_it_needs(table):
    leak = fit_table(table, "y", l2=0.01, noise=dm.no_noise).leakage
    result = Measurement.of(leak, table, limit=1e9)
    assert result.dose.highest == "unbounded"
    assert not result.verdict.within
    for need in result.noise_needed:
        again = fit_table(table, "y", l2=0.01, noise=dm.Gaussian(need.scale)).leakage
        assert again.leak.examples.max() == pytest.approx(need.highest, rel=1e-9)


def test_what_is_not_covered_is_named(table):
    held = fit_table(table, "y", l2=0.01, noise=dm.Gaussian(0.1), scaler="held").leakage
    result = Measurement.of(held, table)
    assert any("mean and scale" in note for note in result.not_covered)
    assert result.scaler.figures == "held"
    assert result.standing == "unaccounted"
    assert result.internal is True


def test_a_wide_table_keeps_the_groups_that_carry_most_and_those_that_were_asked_for(monkeypatch):
    monkeypatch.setattr("dosimeter.results.groups.MOST", 5)
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100, 8))
    table = Table.of({**{f"c{j}": X[:, j] for j in range(8)}, "y": X.sum(axis=1) + rng.normal(size=100)})
    leak = fit_table(table, "y", l2=0.1, noise=dm.Gaussian(1.0)).leakage
    found = Measurement.of(leak, table, groups=["c3"]).groups
    others = [g.over_median for g in found if not g.asked]
    assert [g.column for g in found if g.asked] == ["c3", "c3"]
    assert len(others) == 5
    monkeypatch.setattr("dosimeter.results.groups.MOST", 1000)
    every = [g.over_median for g in Measurement.of(leak, table, groups=["c3"]).groups if not g.asked]
    assert others == sorted(every, reverse=True)[:5]


def test_groups_have_the_median_and_the_worst_of_their_doses(leak, table):
    eta = leak.leak.examples
    (men,) = [g for g in Measurement.of(leak, table).groups if g.group == "= m"]
    mine = eta[table["sex"] == "m"]
    assert men.median == pytest.approx(np.median(mine))
    assert men.worst_1_percent == pytest.approx(np.quantile(mine, 0.99))
    (low,) = [g for g in Measurement.of(leak, table).groups if g.column == "age" and g.end == "lowest tenth"]
    young = table["age"] <= np.quantile(table["age"], 0.1)
    assert low.median == pytest.approx(np.median(eta[young]))


def test_a_model_that_was_fitted_here_has_its_score_its_penalty_and_a_frontier(table):
    fit = fit_table(table, "y", noise=dm.Gaussian(0.5))
    result = Measurement.of(fit.leakage, table, fit=fit)
    assert result.model.fitted_here
    assert (result.model.score_name, result.model.score) == ("R²", fit.score)
    assert result.model.l2_from == fit.penalty.source
    assert result.noise_on == "each released weight of the standardised columns"
    assert result.frontier.here == 0.5
    (here,) = [step for step in result.frontier.isotropic if step.scale == 0.5]
    assert (here.highest, here.typical) == (result.dose.highest, result.dose.typical)


def test_a_given_model_has_neither(table):
    from sklearn.linear_model import Ridge

    X = np.column_stack([table["age"], table["bmi"]])
    leak = dm.measure(Ridge().fit(X, table["y"]), X, table["y"], noise=dm.Gaussian(0.5))
    numbers = Table.of({f"x{k}": X[:, k] for k in range(2)} | {"y": table["y"]})
    result = Measurement.of(leak, numbers)
    assert not result.model.fitted_here
    assert result.noise_on == "each released weight of the model as it stands"
    assert not {"frontier", "attack", "verdict"} & result.to_dict().keys()
    assert not {"score", "score_name", "l2_from"} & result.to_dict()["model"].keys()


def test_an_attack_is_summed_up_beside_its_control(table):
    from dosimeter.models.linear_attack import invert

    rng = np.random.default_rng(1)
    inversion = invert(table, "y", "sex", noise=dm.Gaussian(0.5), l2=0.01, trials=5, rng=rng)
    attack = InversionSummary.of(inversion, "sex", simulation=True)
    guesses = inversion.guesses
    assert attack.figure == pytest.approx(np.mean(guesses.guesses == guesses.truths))
    assert attack.control == pytest.approx(np.mean(guesses.control == guesses.truths))
    top = np.argsort(-inversion.eta, kind="stable")[:1]
    assert attack.top_1_percent == pytest.approx(guesses.by_row[top].mean())
    assert (attack.column, attack.candidates, attack.simulation) == ("sex", 2, True)
    assert attack.standing == "lower bound"
    men = table["sex"] == "m"
    assert attack.rare.group == "m"
    assert attack.rare.share == pytest.approx(men.mean())
    named = guesses.guesses == inversion.rare.level
    assert attack.rare.recall == pytest.approx(named[:, men].mean())
    fit = fit_table(table, "y", l2=0.01, noise=dm.Gaussian(0.5))
    result = Measurement.of(fit.leakage, table, fit=fit, attack=attack)
    assert read(result.to_dict()).attack == attack


def test_a_result_is_read_back_as_it_was_written(leak, table):
    exact = fit_table(table, "y", l2=0.01, noise=dm.no_noise).leakage
    for result in (Measurement.of(leak, table, limit=1.0), Measurement.of(exact, table, limit=1.0)):
        assert read(json.loads(result.to_json())) == result
        assert undeclared(result.to_dict()) == []
