"""The external edition says the same of every table; statistics that were asked for are about ten people or more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dosimeter as dm
from dosimeter.cli.main import run
from dosimeter.models.fit_table import fit_table
from dosimeter.report.editions import SAYS, external, internal
from dosimeter.report.statistics import FEW, WARNING, groups, histogram, rounded, statistics
from dosimeter.results import registry as schema
from dosimeter.results.groups import SMALLEST
from dosimeter.results.summarise import summarise
from dosimeter.results.visibility import ResultModel, SchemaName, Visibility, public
from dosimeter.tables.table import Table
from tests.report.verbs import commands

VERBS = list(commands(Path()))


def without_noised(told: dict[str, Any]) -> dict[str, Any]:
    """The clip follows from a noised count and the file from its noise: both differ on the same table too."""
    told = json.loads(json.dumps(told))
    told.pop("clip_last", None)
    told.pop("artefact", None)
    told.get("by_round", {}).pop("clip", None)
    return told


@pytest.mark.parametrize("verb", VERBS)
def test_the_external_edition_is_the_same_for_every_table(printed, verb):
    one, other = (without_noised(external(facts[verb])) for facts in printed)
    assert one == other


@pytest.mark.parametrize("verb", [v for v in VERBS if v not in ("federate plan", "demo")])
def test_the_comparison_of_two_tables_sees_a_fact_that_slips_out(printed, verb, monkeypatch):
    monkeypatch.setattr(Visibility, "lets_out", lambda self, facts: True)
    one, other = (without_noised(external(facts[verb])) for facts in printed)
    assert one != other


def numbers(value: Any) -> set[str]:
    """Every number with at least four digits, as JSON writes it."""
    return {n for n in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", json.dumps(value)) if len(n.replace("0.", "")) > 4}


@pytest.mark.parametrize("verb", VERBS)
def test_no_measured_number_stands_in_the_external_edition(printed, verb):
    """But those that the edition's own public fields hold, which the other table's edition holds too."""
    inside = numbers(internal(printed[0][verb]))
    outside = numbers(without_noised(external(printed[0][verb])))
    same = numbers(without_noised(external(printed[1][verb])))
    assert outside <= same
    if verb not in ("federate plan", "federate"):
        assert len(inside - outside) > 5


@pytest.mark.parametrize("verb", VERBS)
def test_the_internal_edition_is_everything(printed, verb):
    told = internal(printed[0][verb])
    assert printed[0][verb].items() <= told.items()
    assert told["edition"] == "internal"
    assert told["says"] == SAYS["internal"]


def test_a_field_without_a_mark_never_gets_out(monkeypatch):
    class Careless(ResultModel):
        schema_: SchemaName
        told: Annotated[str, public("a word")]
        slipped: str

    monkeypatch.setitem(schema.KINDS, "dosimeter.federate-plan/2", Careless)
    monkeypatch.setattr("dosimeter.report.editions.for_everybody", lambda facts: "a sentence")
    facts = {"schema": "dosimeter.federate-plan/2", "told": "yes", "slipped": "no", "unknown": "no"}
    made = external(facts)
    assert made["told"] == "yes"
    assert "slipped" not in made
    assert "unknown" not in made


def test_a_limit_that_was_not_kept_leaves_no_trace(printed):
    """As if no limit had been stated: that one was exceeded is a fact about the data."""
    facts = printed[0]["measure"]
    assert external(facts)["verdict"] == {"limit": 1000.0, "within": True}
    assert "not covered" in external(facts)["sentence"]
    exceeded = {**facts, "verdict": {"limit": 1000.0, "above": 3, "within": False}}
    never = {name: value for name, value in facts.items() if name != "verdict"}
    assert external(exceeded) == external(never)
    assert "1000" not in json.dumps(external(exceeded))


def test_a_scale_found_in_the_data_is_withheld_and_the_sentence_goes_with_the_limit(printed):
    facts = printed[0]["fix"]
    told, scale = external(facts), facts["model"]["scale"]
    assert facts["scale_from"] == "the data"
    assert f"{scale:g}"[:6] not in json.dumps(told)
    assert told["limit"] == 5.0
    assert "the scale was chosen from the data: not covered" in told["sentence"]
    assert any("noise" in note and "found in the data" in note for note in told["withheld"])
    assert f"{scale:g}" in external(facts, statistics=True)["statistics"]["noise"]


def test_a_repair_that_was_refused_says_that_nothing_was_released_and_not_why(printed):
    told = external({**printed[0]["fix with a scale"], "within": False})
    assert told["sentence"] == "Nothing was released."
    assert "within" not in told
    assert "limit" not in told


def test_a_scale_that_was_stated_is_told(printed):
    told = external(printed[0]["fix with a scale"])
    assert told["model"]["scale"] == 50.0
    assert "50" in told["noise"]
    assert told["withheld"] == ["model.l2: a penalty that was not stated here is divided by the number of rows"]


def test_components_with_bounds_of_the_table_keep_scales_price_and_rows_inside(printed):
    kept, open_ = external(printed[0]["pca"]), external(printed[0]["pca open"])
    assert kept["people_public"] == 60
    assert "rows_public" not in kept
    assert kept["noise"]["scale_low"] > 0
    assert set(open_["noise"]) == {"on", "law", "mean_share"}
    assert "people_public" not in open_
    assert "rows_public" not in open_
    assert "costs" not in open_["guarantee"]
    assert "not claimed" in open_["sentence"]


def test_a_given_models_penalty_would_tell_the_number_of_rows(tmp_path):
    """Ridge(alpha=3) on 57 rows has l2 = 3/57."""
    import skops.io as sio
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(57, 2)), rng.normal(size=57)
    sheet = "\n".join(["a,b,y", *(f"{a},{b},{c}" for (a, b), c in zip(X.tolist(), y.tolist(), strict=True))])
    (tmp_path / "t.csv").write_text(sheet)
    (tmp_path / "m.skops").write_bytes(sio.dumps(Ridge(alpha=3.0).fit(X, y)))
    arguments = f"measure {tmp_path}/t.csv --target y --model {tmp_path}/m.skops --scale 1 -q --json {tmp_path}/f.json"
    assert run(arguments.split()) == 0
    facts = json.loads((tmp_path / "f.json").read_text())
    assert facts["model"]["l2"] == pytest.approx(3 / 57)
    assert "l2" not in external(facts)["model"]
    assert "frontier" not in facts


def test_the_default_penalty_would_tell_the_number_of_rows(tmp_path):
    """Ridge's default is l2 = 1/n: the words may leave, the number may not."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(57, 3)).tolist()
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *(",".join(map(str, row)) for row in rows)]))
    for verb, more in (("measure", ""), ("fix", f"--out {tmp_path}/m.skops --no-ledger --even-if-useless")):
        for l2, shown in (("", False), ("--l2 0.25", True)):
            arguments = f"{verb} {tmp_path}/t.csv --target y --scale 1 -q {l2} {more} --json {tmp_path}/f.json"
            assert run(arguments.split()) == 0
            facts = json.loads((tmp_path / "f.json").read_text())
            assert facts["model"]["l2"] == pytest.approx(0.25 if shown else 1 / 57)
            told = external(facts)["model"]
            assert ("l2" in told) is shown
            assert told["l2_from"] == ("stated" if shown else "scikit-learn's default: Ridge(alpha=1.0), l2 = 1/n")


def test_a_training_in_which_rows_were_looked_at_claims_nothing(printed):
    facts = printed[0]["federate"]
    assert facts["guarantee"]["standing"] == "unaccounted"
    assert "Not claimed" in external(facts)["sentence"]
    held = {**facts, "guarantee": {**facts["guarantee"], "standing": "upper bound"}}
    assert "differentially private" in external(held)["sentence"]


def test_a_refusal_by_the_ledger_is_no_verdict_on_a_release(printed):
    facts = {**printed[0]["fix"], "refused": [{"account": "fil", "people": 3}]}
    assert external(facts)["sentence"].startswith("Nothing was released")
    assert "refused" not in external(facts)


# --- statistics ---


@pytest.mark.parametrize("verb", VERBS)
def test_statistics_come_on_request_only_and_say_what_they_are(printed, verb):
    plain, asked = (external(printed[0][verb], statistics=wanted) for wanted in (False, True))
    assert "statistics" not in plain
    assert asked["statistics"]["says"] == WARNING
    assert {name: value for name, value in asked.items() if name != "statistics"} == plain


SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=8)


@given(SIZES, st.integers(0, 30))
@settings(deadline=None, max_examples=300)
def test_nobody_is_shown_or_left_over_in_a_group_below_ten(sizes, others):
    """The size of what is not shown can be had by subtraction; it is none, or ten or more."""
    figures = {"end": "", "median": 1.0, "worst_1_percent": 2.0, "over_median": 1.0, "asked": True}
    found = [{"column": "ward", "group": f"= {k}", "people": n, **figures} for k, n in enumerate(sizes)]
    people = sum(sizes) + others
    shown = {g["group"] for g in groups(found, people)}
    inside = [n for k, n in enumerate(sizes) if f"= {k}" in shown]
    assert all(n >= SMALLEST for n in inside)
    left = people - sum(inside)
    assert left == 0 or left >= SMALLEST or not inside


def test_a_single_small_group_takes_the_next_one_with_it():
    figures = {"end": "", "median": 1.0, "worst_1_percent": 2.0}
    found = [{"column": "ward", "group": f"= {n}", "people": n, **figures} for n in (50, 20, 4)]
    assert [g["group"] for g in groups(found, 74)] == ["= 50"]
    assert [g["group"] for g in groups(found, 70)] == ["= 50", "= 20"]


@given(st.lists(st.integers(0, 25), min_size=1, max_size=12), st.integers(0, 12))
@settings(deadline=None, max_examples=300)
def test_bins_hold_ten_or_more_and_their_ends_are_open(counts, zero):
    edges = [1.5**k for k in range(len(counts) + 1)]
    made = histogram({"unit": "person", "edges": edges, "counts": counts, "zero": zero})
    assert sum(b["people"] for b in made) in (0, sum(counts) + zero) or any(b["people"] >= 100 for b in made)
    assert all(b["people"] >= SMALLEST for b in made)
    if len(made) > 1:
        assert made[0]["doses"].startswith("below")
        assert " to " not in made[-1]["doses"]
    assert bool(made) == (sum(counts) + zero >= SMALLEST)


def measured(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    table = Table.of({"x": x, "y": x + rng.normal(size=n)})
    return summarise(fit_table(table, "y", l2=0.1, noise=dm.Gaussian(1.0)).leakage, table, limit=1e-9)


def test_quantiles_need_ten_people_above_them():
    assert "worst_1_percent" not in statistics(measured(999))
    assert "worst_1_percent" in statistics(measured(1000))
    assert "typical" not in statistics(measured(19))
    assert "typical" in statistics(measured(20))
    assert statistics(measured(9))["people"] == FEW


@pytest.mark.parametrize(
    ("above", "told"), [(0, 0), (1, FEW), (9, FEW), (10, 10), (61, 61), (113, f"all but {FEW}"), (120, 120)]
)
def test_how_many_are_above_a_limit_is_told_where_they_and_the_others_are_ten_or_more(printed, above, told):
    facts = {**printed[0]["measure"], "people": 120, "verdict": {"limit": 3.0, "above": above, "within": above == 0}}
    found = statistics(facts)
    assert (found["above_the_limit"], found["limit"]) == (told, 3.0)


@pytest.mark.parametrize("verb", VERBS)
def test_the_highest_dose_is_in_no_statistic(printed, verb):
    facts = printed[0][verb]
    told = json.dumps(statistics(facts))
    inside = facts.get("internal") if isinstance(facts.get("internal"), dict) else {}
    found = [
        facts.get("dose", {}).get("highest"),
        (inside.get("dose") or {}).get("highest"),
        inside.get("highest_nats"),
    ]
    for value in found:
        if isinstance(value, float):
            assert f"{value:.4g}" not in told


@given(st.floats(1e-12, 1e12))
@settings(deadline=None)
def test_two_digits_are_two_digits(value):
    short = rounded(value)
    assert abs(short - value) <= 0.051 * value
    assert len(f"{short:.12e}".split("e")[0].replace(".", "").rstrip("0")) <= 2
