"""The external edition says the same of every table; requested statistics are about ten people or more."""

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
from dosimeter.reports.document import document, dose_statistics
from dosimeter.reports.statistics import FEW, WARNING, groups, histogram, rounded
from dosimeter.results.editions import SAYS, external
from dosimeter.results.linear_parts import GroupFigures
from dosimeter.results.measurement import Measurement, Verdict
from dosimeter.results.parts import SMALLEST, Distribution, PassedLimit
from dosimeter.results.result import Result, read
from dosimeter.results.visibility import Visibility, public
from dosimeter.tables.table import Table
from tests.reports.verbs import commands

VERBS = list(commands(Path()))


def outside(result: Result, statistics: bool = False) -> dict[str, Any]:
    """What the external page embeds: its fields, its sentence, what was withheld."""
    return dict(document(result, "external", statistics=statistics).figures)


def without_noised(figures: dict[str, Any]) -> dict[str, Any]:
    """The clip follows from a noised count and the file from its noise: both differ on the same table too."""
    figures = json.loads(json.dumps(figures))
    figures.pop("clip_last", None)
    figures.pop("artefact", None)
    figures.get("by_round", {}).pop("clip", None)
    return figures


@pytest.mark.parametrize("verb", VERBS)
def test_the_external_edition_is_the_same_for_every_table(results, verb):
    first, second = (without_noised(outside(by_verb[verb])) for by_verb in results)
    assert first == second


@pytest.mark.parametrize("verb", [v for v in VERBS if v not in ("federate plan", "demo")])
def test_the_comparison_of_two_tables_sees_a_figure_that_slips_out(results, verb, monkeypatch):
    monkeypatch.setattr(Visibility, "is_public", lambda self, result: True)
    first, second = (without_noised(external(by_verb[verb]).to_dict()) for by_verb in results)
    assert first != second


def numbers(value: Any) -> set[str]:
    """Every number with at least four digits, as JSON writes it."""
    return {n for n in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", json.dumps(value)) if len(n.replace("0.", "")) > 4}


@pytest.mark.parametrize("verb", VERBS)
def test_no_measured_number_is_in_the_external_edition(results, verb):
    """Except those of the edition's own public fields, which the other table's edition has too."""
    inside = numbers(results[0][verb].to_dict())
    published = numbers(without_noised(outside(results[0][verb])))
    same = numbers(without_noised(outside(results[1][verb])))
    assert published <= same
    if verb not in ("federate plan", "federate"):  # the figures of a membership attack are few
        assert len(inside - published) > (3 if verb == "attack membership" else 5)


@pytest.mark.parametrize("verb", VERBS)
def test_the_internal_edition_is_everything(results, verb):
    result = results[0][verb]
    figures = document(result, "internal").figures
    assert result.to_dict().items() <= figures.items()
    assert figures["edition"] == "internal"
    if not result.public_only:
        assert figures["says"] == SAYS["internal"]


def without_digests(published):
    """The text of an edition, less its SHA-256 digests: any three figures may stand in one of them."""
    return re.sub(r"\b[0-9a-f]{64}\b", "", json.dumps(published))


def test_a_field_without_a_mark_never_gets_out():
    class Careless(Result):
        text: Annotated[str, public("a word")]
        slipped: str

    published = external(Careless(text="yes", slipped="no", unknown="no"))
    assert published.to_dict() == {"schema": "", "version": published.version, "text": "yes"}
    assert not published.shows("slipped")
    with pytest.raises(AttributeError):
        published.slipped  # noqa: B018


def test_a_limit_that_was_not_kept_leaves_no_trace(results):
    """As if no limit had been stated: that one was exceeded is a fact about the data."""
    result = results[0]["measure"]
    assert outside(result)["verdict"] == {"limit": 1000.0, "within": True}
    assert "not covered" in outside(result)["sentence"]
    exceeded = result.with_fields(verdict=Verdict(limit=1000.0, above=3, within=False))
    never = read({name: value for name, value in result.to_dict().items() if name != "verdict"})
    assert outside(exceeded) == outside(never)
    assert "1000" not in without_digests(outside(exceeded))


def test_a_scale_found_in_the_data_is_withheld_and_the_sentence_goes_with_the_limit(results):
    result = results[0]["fix"]
    published, scale = outside(result), result.model.scale
    assert result.scale_from == "the data"
    assert f"{scale:g}"[:6] not in without_digests(published)
    assert published["limit"] == 5.0
    assert "the scale was chosen from the data: not covered" in published["sentence"]
    assert any("noise" in note and "found in the data" in note for note in published["withheld"])
    assert f"{scale:g}" in outside(result, statistics=True)["statistics"]["noise"]


def test_a_release_that_was_refused_says_that_nothing_was_released_and_not_why(results):
    published = outside(results[0]["fix with a scale"].with_fields(within=False))
    assert published["sentence"] == "Nothing was released."
    assert "within" not in published
    assert "limit" not in published


def test_a_scale_that_was_stated_is_published(results):
    published = outside(results[0]["fix with a scale"])
    assert published["model"]["scale"] == 50.0
    assert "50" in published["noise"]
    assert published["withheld"] == ["model.l2: a penalty that was not stated here is divided by the number of rows"]


def test_a_given_models_penalty_would_reveal_the_number_of_rows(tmp_path):
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
    result = read(json.loads((tmp_path / "f.json").read_text()))
    assert result.model.l2 == pytest.approx(3 / 57)
    assert "l2" not in outside(result)["model"]
    assert not result.shows("frontier")


def test_the_default_penalty_would_reveal_the_number_of_rows(tmp_path):
    """Ridge's default is l2 = 1/n: the text may be published, the number may not."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(57, 3)).tolist()
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *(",".join(map(str, row)) for row in rows)]))
    for verb, more in (("measure", ""), ("fix", f"--out {tmp_path}/m.skops --no-ledger --even-if-useless")):
        for l2, shown in (("", False), ("--l2 0.25", True)):
            arguments = f"{verb} {tmp_path}/t.csv --target y --scale 1 -q {l2} {more} --json {tmp_path}/f.json"
            assert run(arguments.split()) == 0
            result = read(json.loads((tmp_path / "f.json").read_text()))
            assert result.model.l2 == pytest.approx(0.25 if shown else 1 / 57)
            published = outside(result)["model"]
            assert ("l2" in published) is shown
            source = "stated" if shown else "scikit-learn's default: Ridge(alpha=1.0), l2 = 1/n"
            assert published["l2_from"] == source


def test_a_training_in_which_rows_were_looked_at_claims_nothing(results):
    result = results[0]["federate"]
    assert result.guarantee.standing == "unaccounted"
    assert "Not claimed" in outside(result)["sentence"]
    held = result.with_fields(guarantee=result.guarantee.model_copy(update={"standing": "upper bound"}))
    assert "differentially private" in outside(held)["sentence"]


def test_a_refusal_by_the_ledger_is_no_verdict_on_a_release(results):
    passed = PassedLimit(account="fil", budget="fil=1", people=3, totals=[2.0], room=0.5)
    published = outside(results[0]["fix"].with_fields(refused=[passed]))
    assert published["sentence"].startswith("Nothing was released")
    assert "refused" not in published


# --- statistics ---


@pytest.mark.parametrize("verb", VERBS)
def test_statistics_come_on_request_only_and_say_what_they_are(results, verb):
    plain, requested = (outside(results[0][verb], statistics=wanted) for wanted in (False, True))
    assert "statistics" not in plain
    assert requested["statistics"]["says"] == WARNING
    assert {name: value for name, value in requested.items() if name != "statistics"} == plain


def group(name: str, people: int) -> GroupFigures:
    figures = {"over_median": 1.0, "median": 1.0, "worst_1_percent": 2.0, "asked": True, "by_first_row": False}
    return GroupFigures(column="ward", group=name, end="", people=people, **figures)


SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=8)


@given(SIZES, st.integers(0, 30))
@settings(deadline=None, max_examples=300)
def test_no_one_is_shown_or_left_over_in_a_group_below_ten(sizes, others):
    """The size of what is not shown can be computed by subtraction; it is none, or ten or more."""
    people = sum(sizes) + others
    shown = {g["group"] for g in groups([group(f"= {k}", n) for k, n in enumerate(sizes)], people)}
    inside = [n for k, n in enumerate(sizes) if f"= {k}" in shown]
    assert all(n >= SMALLEST for n in inside)
    left = people - sum(inside)
    assert left == 0 or left >= SMALLEST or not inside


def test_a_single_small_group_takes_the_next_one_with_it():
    wards = [group(f"= {n}", n) for n in (50, 20, 4)]
    assert [g["group"] for g in groups(wards, 74)] == ["= 50"]
    assert [g["group"] for g in groups(wards, 70)] == ["= 50", "= 20"]


@given(st.lists(st.integers(0, 25), min_size=1, max_size=12), st.integers(0, 12))
@settings(deadline=None, max_examples=300)
def test_bins_hold_ten_or_more_and_their_ends_are_open(counts, zero):
    edges = [1.5**k for k in range(len(counts) + 1)]
    bins = histogram(Distribution(of="η", unit="person", edges=edges, counts=counts, zero=zero, limit=None))
    assert sum(b["people"] for b in bins) in (0, sum(counts) + zero) or any(b["people"] >= 100 for b in bins)
    assert all(b["people"] >= SMALLEST for b in bins)
    if len(bins) > 1:
        assert bins[0]["doses"].startswith("below")
        assert " to " not in bins[-1]["doses"]
    assert bool(bins) == (sum(counts) + zero >= SMALLEST)


def measured(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    table = Table.of({"x": x, "y": x + rng.normal(size=n)})
    return Measurement.of(fit_table(table, "y", l2=0.1, noise=dm.Gaussian(1.0)).leakage, table, limit=1e-9)


def test_quantiles_need_ten_people_above_them():
    assert "worst_1_percent" not in dose_statistics(measured(999))
    assert "worst_1_percent" in dose_statistics(measured(1000))
    assert "typical" not in dose_statistics(measured(19))
    assert "typical" in dose_statistics(measured(20))
    assert dose_statistics(measured(9))["people"] == FEW


@pytest.mark.parametrize(
    ("above", "shown"), [(0, 0), (1, FEW), (9, FEW), (10, 10), (61, 61), (113, f"all but {FEW}"), (120, 120)]
)
def test_how_many_are_above_a_limit_is_shown_if_they_and_the_others_are_ten_or_more(results, above, shown):
    verdict = Verdict(limit=3.0, above=above, within=above == 0)
    statistics = dose_statistics(results[0]["measure"].with_fields(people=120, verdict=verdict))
    assert (statistics["above_the_limit"], statistics["limit"]) == (shown, 3.0)


@pytest.mark.parametrize("verb", VERBS)
def test_the_highest_dose_is_in_no_statistic(results, verb):
    result = results[0][verb]
    text, inside = json.dumps(dose_statistics(result)), getattr(result, "internal", None)
    highest = [
        getattr(getattr(result, "dose", None), "highest", None),
        getattr(getattr(inside, "dose", None), "highest", None),
        getattr(inside, "highest_nats", None),
    ]
    for value in highest:
        if isinstance(value, float):
            assert f"{value:.4g}" not in text


@given(st.floats(1e-12, 1e12))
@settings(deadline=None)
def test_two_digits_are_two_digits(value):
    short = rounded(value)
    assert abs(short - value) <= 0.051 * value
    assert len(f"{short:.12e}".split("e")[0].replace(".", "").rstrip("0")) <= 2
