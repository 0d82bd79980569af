"""Facts of a measurement against figures computed from the readings themselves."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.frames.own import fit_table
from dosimeter.frames.table import Table
from dosimeter.report.summarise import SMALLEST, summarise


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
    facts, eta = summarise(leak, table), leak.leak.examples
    assert facts["dose"]["typical"] == pytest.approx(np.median(eta))
    assert facts["dose"]["worst_1_percent"] == pytest.approx(np.quantile(eta, 0.99))
    assert facts["dose"]["highest"] == pytest.approx(eta.max())
    assert facts["dose"]["highest_row"] == eta.argmax() + 1


def test_the_group_that_fits_badly_carries_more(leak, table):
    facts, eta = summarise(leak, table), leak.leak.examples
    men = table["sex"] == "m"
    (group,) = [g for g in facts["groups"] if g["column"] == "sex" and g["group"] == "= m"]
    assert group["over_median"] == pytest.approx(np.median(eta[men]) / np.median(eta))
    assert group["over_median"] > 1.5
    assert group["people"] == men.sum()
    assert facts["groups"][0]["over_median"] == max(g["over_median"] for g in facts["groups"])


def test_small_groups_are_not_shown(table):
    few = Table.of(
        {"x": np.arange(60.0), "rare": ["a"] * (SMALLEST - 1) + ["b"] * (61 - SMALLEST), "y": np.sin(np.arange(60.0))}
    )
    facts = summarise(fit_table(few, "y", l2=0.1, noise=dm.Gaussian(1.0)).leakage, few)
    assert not [g for g in facts["groups"] if g["column"] == "rare"]


def test_the_meaning_is_the_most_exposed_persons_best_pinned_number(leak, table):
    facts = summarise(leak, table)
    row = facts["meaning"]["row"] - 1
    shares = {name: leak.deviation(name)[row] / np.std(table[name]) for name in ("age", "bmi")}
    assert facts["meaning"]["column"] == min(shares, key=shares.get)
    column = facts["meaning"]["column"]
    own = leak.leak.deviation(row, leak.columns.index(column)) * np.std(table[column])
    assert facts["meaning"]["deviation"] == pytest.approx(own, rel=1e-9)


@pytest.mark.parametrize("limit", [1e-9, 0.2, 1e9])
def test_the_verdict_counts_the_people_above_the_limit(limit, leak, table):
    verdict = summarise(leak, table, limit=limit)["verdict"]
    above = int((leak.leak.examples > limit).sum())
    assert verdict == {"limit": limit, "above": above, "within": above == 0}


def test_an_exact_release_is_unbounded_ranked_and_told_the_noise_it_needs(table):
    leak = fit_table(table, "y", l2=0.01, noise=dm.no_noise).leakage
    facts = summarise(leak, table, limit=1e9)
    assert facts["dose"]["highest"] == np.inf
    assert not facts["verdict"]["within"]
    for need in facts["noise_needed"]:
        again = fit_table(table, "y", l2=0.01, noise=dm.Gaussian(need["scale"])).leakage
        assert again.leak.examples.max() == pytest.approx(need["highest"], rel=1e-9)


def test_what_is_not_covered_is_named(leak, table):
    facts = summarise(leak, table)
    assert any("mean and scale" in note for note in facts["not_covered"])
    assert facts["standing"] == "unaccounted"
    assert facts["internal"] is True
