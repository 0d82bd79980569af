"""The report of linear models: what page, terminal, notebook and card say about a measurement and a release."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from dosimeter.core.face import speaking
from dosimeter.reports.document import document, dose_statistics
from dosimeter.reports.html import lay_out, to_html
from dosimeter.reports.layout import DefinitionList, Grid, Paragraph, Tiles
from dosimeter.reports.model_card import to_card
from dosimeter.reports.notebook import to_notebook
from dosimeter.reports.sections.interpretation import DOSES, good_dose
from dosimeter.reports.terminal import to_text
from dosimeter.results.result import read
from tests.reports.samples import result_of, sample

EXACT = {
    "bounded": False, "noise": "none", "noise_needed": [{"highest": 1.0, "scale": 18.5}], "meaning": None,
    "strip": None, "columns": [], "target": {"column": "progression", "kind": "target", "counted": True},
    "dose": {
        "typical": "unbounded", "worst_1_percent": "unbounded", "highest": "unbounded", "highest_row": 3,
        "highest_over_typical": 4.0,
    },
}  # fmt: skip


def parts(report, kind, medium="page"):
    return [part for section in report.on(medium) for part in section.parts if isinstance(part, kind)]


def grids(report, medium="page"):
    return {grid.caption: grid for grid in parts(report, Grid, medium)}


def text_of(report, heading):
    (section,) = [section for section in report.on("page") if section.heading == heading]
    return " ".join(part.text for part in section.parts if isinstance(part, Paragraph))


def terminal(result):
    """Everything that a terminal says, on one line."""
    return " ".join(to_text(result).split())


def without_ids():
    values = sample("measurement")
    values["ranked"] = [{key: value for key, value in entry.items() if key != "id"} for entry in values["ranked"]]
    values["strip"].pop("ids")
    return values


# --- the verdict ---


def test_a_limit_that_is_kept_and_one_that_is_not_look_different():
    kept = document(result_of("measurement", verdict={"limit": 3.0, "above": 0, "within": True}), "internal").verdict
    assert kept.text == "No person has a dose above the limit of 3; the highest is 2.5."
    assert (kept.tone, kept.gauge.tone) == ("good", "")
    broken = document(result_of("measurement"), "internal").verdict
    assert broken.text == "3 of 16 people have a dose above the limit of 2; the highest is 2.5."
    assert (broken.tone, broken.gauge.tone) == ("bad", "bad")
    assert document(result_of("measurement")).verdict.gauge is None
    assert document(result_of("linear release")).verdict.tone == "good"


def test_a_measurement_without_a_limit_claims_none():
    values = sample("measurement")
    del values["verdict"]
    inside, outside = (document(read(values), edition).verdict for edition in ("internal", "external"))
    assert inside.text == "No limit was stated: the highest is 2.5, a typical person's dose is 0.6."
    assert (
        outside.text
        == "No limit on anyone's dose is claimed. The noise is Gaussian(sigma=1.0), on each released weight."
    )
    assert (inside.tone, outside.tone) == ("", "")


def test_the_first_screen_says_without_symbols_what_an_attacker_can_do():
    """Inside of the highest dose, outside of the stated limit: Φ(2.5/2) and Φ(3/2). No limit, nothing to say."""
    kept = {"verdict": {"limit": 3.0, "above": 0, "within": True}}
    inside, outside = (
        document(result_of("measurement", **kept), edition).verdict for edition in ("internal", "external")
    )
    assert "the most exposed person" in inside.meaning
    assert "right about 89 times in 100" in inside.meaning
    assert "any person" in outside.meaning
    assert "right about 93 times in 100, or less often" in outside.meaning
    assert document(result_of("measurement")).verdict.meaning == ""  # the limit was exceeded, which is internal
    assert document(result_of("measurement", **EXACT), "internal").verdict.meaning == ""
    for edition in ("internal", "external"):
        released = document(result_of("linear release"), edition)
        assert "A coin toss is right 50 times." in released.verdict.meaning
        assert not re.search("[α-ω]", released.verdict.meaning)
        assert released.verdict.meaning in lay_out(released)


def test_a_scaler_that_is_held_fixed_is_named_if_it_alone_exceeds_the_limit():
    scaler = {"figures": "held", "floor": 2.3}
    text = document(result_of("measurement", scaler=scaler), "internal").verdict.text
    assert text.endswith("the highest is 2.5, and the fitted scaler alone leaves up to 2.3.")
    added = document(result_of("measurement", scaler={"figures": "held", "floor": 1.0}), "internal").verdict.text
    assert added.endswith("and the limit also counts what the fitted scaler leaves at any noise, up to 1.")
    total = {"figures": "total", "floor": 2.3}
    assert "scaler" not in document(result_of("measurement", scaler=total), "internal").verdict.text


def test_an_exact_release_is_bad_has_no_gauge_and_says_which_noise_it_needs():
    report = document(result_of("measurement", **EXACT), "internal")
    assert report.verdict.tone == "bad"
    assert report.verdict.gauge is None
    assert grids(report)["Noise that a highest dose would need"].rows == (("1", 18.5),)
    assert grids(report)["The 10 most exposed people"].headings == ("rank", "id", "first row", "times the typical")
    assert "with 4 times the typical dose" in terminal(result_of("measurement", **EXACT))
    assert "1/η" not in lay_out(report)
    floor = result_of("measurement", **{**EXACT, "noise_needed": []}, scaler={"figures": "total", "floor": 0.7})
    with speaking("command line"):
        assert "No noise brings the highest dose below 0.7" in terminal(floor)
        assert "--bounds" in terminal(floor)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "No person has a dose above the limit of 2; the highest is 1.9."),
        ({"limit": None}, "Noise of the stated scale was added: the highest dose is 1.9."),
        (
            {"within": False},
            "Nothing was released, because the limit of 2 would be exceeded: the highest dose would",
        ),
        ({"useless": True}, "Nothing was released: a constant prediction does better than this model."),
        (
            {"refused": [{"account": "fil", "budget": "fil=1", "people": 3, "totals": [2.0], "room": 0.1}]},
            "Nothing was released: a budget of the ledger would have been exceeded.",
        ),
    ],
)
def test_the_internal_verdict_of_a_release(changes, text):
    result = result_of("linear release", **changes)
    report = document(result, "internal")
    assert report.verdict.text.startswith(text)
    released = "Nothing" not in text
    assert (report.verdict.tone == "bad") is not released
    assert ("the settings of the attempt" in lay_out(report)) is not released
    outside = document(result).verdict
    assert (outside.text == "Nothing was released.") is not released


# --- page and terminal ---


def test_the_first_figures_are_tiles_with_what_they_mean():
    (tiles,) = parts(document(result_of("measurement"), "internal"), Tiles, "terminal")
    assert [(tile.label, tile.value, tile.tone) for tile in tiles.tiles] == [
        ("typical dose", "0.6", ""), ("worst 1 %", "2.4", ""), ("highest", "2.5", "bad"),
        ("right guesses, about", "89 in 100", ""), ("above the limit", "3 of 16", "bad"),
    ]  # fmt: skip
    assert tiles.tiles[0].note == "an unbiased guess errs by ±1.67 standard deviations or more"
    assert tiles.tiles[2].note == "person patient 0"
    assert "the person of row 10" in terminal(read(without_ids()))
    (after,) = parts(document(result_of("linear release"), "internal"), Tiles, "terminal")
    assert [tile.value for tile in after.tiles] == ["0.5", "1.9", "3.8", "83 in 100"]
    assert parts(document(result_of("linear release")), Tiles) == []


def test_the_histogram_shows_its_counts_and_the_limit():
    report = document(result_of("measurement"), "internal")
    (drawn,) = [drawing for drawing in report.drawings if drawing.title == "Dose (η) per person"]
    bars, rule = drawn.spec["layer"]
    assert [(v["x"], v["x2"], v["y"]) for v in bars["data"]["values"]] == [(0.1, 0.3, 4), (0.3, 1, 9), (1, 3, 2)]
    assert [v["x"] for v in rule["data"]["values"]] == [2.0]
    assert bars["encoding"]["x"]["scale"]["type"] == "log"
    assert Paragraph("Without any dose: 1 (zero has no place on a logarithmic axis).", quiet=True) in (
        parts(report, Paragraph)
    )


def test_no_one_has_a_dose_and_the_page_is_still_made():
    values = sample("measurement")
    values["distribution"] = {"of": "η", "unit": "person", "edges": [], "counts": [], "zero": 16, "limit": None}
    values["dose"] |= {"typical": 0.0, "highest": 0.0, "worst_1_percent": 0.0}
    values["groups"] = [
        {**group, "median": 0.0, "worst_1_percent": 0.0, "over_median": 0.0} for group in values["groups"]
    ]
    values["strip"]["eta"] = [[0.0, 0.0], [0.0, 0.0]]
    report = document(read(values), "internal")
    assert report.verdict.gauge is None
    assert "Dose by group" not in [drawing.title for drawing in report.drawings]
    assert "Groups (η)" in grids(report)
    assert "the release says nothing about any value" in lay_out(report)


def test_an_error_larger_than_that_of_a_guess_without_the_release_is_said_to_add_little():
    note = "the release adds little"
    values = sample("measurement")
    for column in (*values["columns"], values["target"]):
        if "spread" in column:
            column |= {"spread": 100.0, "typical_deviation": 50.0, "least_deviation": 9.0}
    values["meaning"] |= {"spread": 100.0, "deviation": 9.0, "typical_deviation": 50.0, "without_release": 40.0}
    assert note not in to_html(read(values), "internal").lower()
    values["columns"][0]["typical_deviation"] = 256.0
    assert to_html(read(values), "internal").lower().count(note) == 1
    values["meaning"]["deviation"] = 256.0
    assert to_html(read(values), "internal").lower().count(note) == 2


def test_without_ids_people_are_rows():
    report = document(read(without_ids()), "internal")
    first, others = [grid for grid in parts(report, Grid) if "most exposed" in grid.caption]
    assert first.headings == ("rank", "first row", "dose (η)", "times the typical")
    assert (len(first.rows), first.folded) == (10, False)
    assert (len(others.rows), others.folded) == (2, True)
    # Printed, everyone is there once.
    assert [row[0] for row in (*first.rows, *others.rows)] == [str(k) for k in range(1, 13)]
    assert "patient" not in lay_out(report)
    assert "patient 0" in to_html(result_of("measurement"), "internal")


def test_each_of_the_most_exposed_can_be_looked_into():
    found = grids(document(result_of("measurement"), "internal"))
    assert found["What leaks about patient 0"].rows == (("age", 2.0, 0.5), ("sex", 1.0, 1.0))
    assert found["What leaks about patient 1"].rows == (("age", math.inf, 0.0), ("sex", 0.0, None))
    assert found["What leaks about patient 1"].folded


def test_the_frontier_leaves_out_models_of_no_use_and_says_so():
    report = document(result_of("linear release"), "internal")
    (drawn,) = [drawing for drawing in report.drawings if drawing.title == "Accuracy against dose"]
    values = [value for layer in drawn.spec["layer"] for value in layer["data"]["values"]]
    assert min(value["y"] for value in values) == 0.5
    assert "1 steps below -1 are not drawn" in drawn.says
    assert ("isotropic", 10.0, -3.0, 1.8, 0.48) in drawn.grid.rows
    assert {value["series"] for value in values} == {"isotropic noise", "shaped noise", "this release"}


def test_the_most_exposed_value_in_words():
    number = {"meaning": {**sample("measurement")["meaning"], "without_release": 5.0, "r2": 0.8}}
    for kind, changes, sentences in (
        ("a number", {}, ("misses “age” of person patient 0 (the highest dose) by at least ±2.6",
                          "of a typical person by ±10.3",
                          "the column's spread is ±34.6")),
        # 1/√(1/2.6² + 1/5²): what an attacker with everything else has at best.
        ("beside a control", number, ("known to ±5 without the release (R² 0.80), ±2.31 at best with it",)),
        ("a class", {"meaning": {"row": 10, "cell_row": 10, "column": "ill", "kind": "target", "deviation": 0.4,
                                 "typical_deviation": 0.9, "step": 1.0}},
         ("the target “ill”", "1 from one class to the next")),
        ("a category", {"meaning": {"row": 10, "cell_row": 11, "column": "sex", "kind": "category", "eta": 2.0,
                                    "typical_eta": 0.6, "r2": 0.3}},
         ("“sex” of person patient 0 (the highest dose; in row 11): a dose (η) of 2", "right about 84 times in 100",
          "without the release: 0.30")),
    ):  # fmt: skip
        text = text_of(document(result_of("measurement", **changes), "internal"), "The most exposed value")
        assert [sentence for sentence in sentences if sentence not in text] == [], kind


def test_the_page_says_what_its_figure_means():
    """η = 5 is a fifth of a standard deviation."""
    text = text_of(document(result_of("linear release", limit=5.0)), "What a dose means")
    assert "in standard deviations of its column. At the limit of 5 that is ±0.2." in text
    assert "keeps at least 20 % of the uncertainty" in text
    assert "released nothing" in text_of(document(result_of("measurement", **EXACT)), "Settings")
    assert "limit" not in text_of(document(result_of("measurement")), "What a dose means")


def test_doses_and_what_they_leave():
    """1/η; √(1/(1 + η²)) of a normal prior; the share of right guesses, by a simulated experiment."""
    rows = good_dose()[1].rows
    rng = np.random.default_rng(0)
    assert [float(row[0]) for row in rows] == list(DOSES)
    for eta, error, left, right in rows:
        eta = float(eta)
        assert float(error[1:]) == pytest.approx(1 / eta, abs=5e-3 / eta)
        assert float(left[:-2]) / 100 == pytest.approx(math.sqrt(1 / (1 + eta**2)), abs=5e-4)
        values = rng.integers(0, 2, 100_000)
        guesses = eta * values + rng.standard_normal(100_000) > eta / 2
        assert float(right[:-2]) / 100 == pytest.approx(np.mean(guesses == values), abs=8e-3)
    assert "What is a good dose?" in [s.heading for s in document(result_of("linear release")).on("page")]
    own = {**sample("measurement")["notion"], "measured_in": "own units"}
    report = document(result_of("measurement", notion=own), "internal")
    assert "What is a good dose?" not in [section.heading for section in report.on("page")]


def test_a_terminal_has_what_a_reader_needs_first_and_no_chart():
    text = terminal(result_of("measurement"))
    for sentence in (
        "3 of 16 people have a dose above the limit of 2",
        "The dose (η) says how closely a person's values can be known",
        "keeps at least 45 % of the uncertainty",
        "misses “age” of person patient 0",
        "sex = f 1.2 11",
        "age ±10.3 ±2.6 ±34.6",
        "progression (target) ±50 ±9 ±77",
        "sex 0.6 2",
        "right for 90 % of the 1 % most exposed and 50 % of the other people",
        "Of those with age = positive (2.0 % of the rows) 60.0 % [50.0, 70.0]",
        "squared model of progression, R² 0.52 on this table",
        "32 rows of 16 people",
        "Not covered · the mean of age",
        "Remarks · loss chosen for the values",
        "exact for the weights as fitted",
        "Do not publish",
    ):
        assert sentence in text, sentence
    assert "fresh noise" not in text  # assumptions are on the page
    assert "vega" not in text


def test_requested_groups_are_listed_whatever_their_dose():
    values = sample("measurement")
    values["groups"][1]["asked"] = True
    text = terminal(read(values))
    assert "Requested groups group median dose over everyone's people sex = m 0.7 11" in text
    assert "Groups with higher doses" in text
    values["groups"] = [{**group, "asked": False, "over_median": 1.0} for group in values["groups"]]
    assert "No group of ten or more has a median dose above 1.1 times everyone's." in terminal(read(values))


def test_a_terminal_says_what_a_release_costs_and_what_other_limits_would():
    text = terminal(result_of("linear release"))
    for sentence in (
        "R² on this table: 0.520 without noise, 0.500 with it.",
        "R² on people left out of the fit (5 folds, expected over the noise): 0.470 without noise, 0.430 with it",
        "a constant prediction has 0.000",
        "0.2 none no scale brings the highest person to η = 0.2",
        "0.6 -0.200 worse than a constant",
        "2 (this one) 0.430",
        "Noise: shaped. Expected loss added for each row at this limit: isotropic 8.25, shaped 5.5.",
        "readmission-v3",
        "scale from stated",
    ):
        assert sentence in text, sentence
    with speaking("command line"):
        assert "--even-if-useless releases it anyway" in terminal(result_of("linear release", useless=True))
    held_out = {**sample("linear release")["held_out"], "why": "too few people"}
    text = terminal(result_of("linear release", held_out=held_out))
    assert "Not scored on people left out of the fit: too few people" in text


def test_a_notebook_gets_the_short_sections_without_a_script():
    html = to_notebook(result_of("measurement"))
    assert "above the limit of 2" in html
    assert "Columns that leak most" in html
    assert "<script" not in html
    assert "<svg" not in html


def test_the_card_has_settings_and_limit_and_no_measured_figure():
    card = to_card(result_of("linear release"))
    for line in (
        "| model | squared model of progression |", "| noise | Gaussian(sigma=1.5) |",
        "| limit | η = 2 per person, in standard deviations |", "* the mean of age",
    ):  # fmt: skip
        assert line in card
    assert "0.52" not in card
    values = sample("linear release", scale_from="the data")
    values["model"]["scale"] = 1.2345
    hidden = to_card(read(values))
    assert "1.2345" not in hidden
    assert "| noise | gaussian, scale withheld: it was chosen from the data |" in hidden


def test_settings_of_the_page_follow_the_edition():
    inside, outside = (
        {name: value for part in parts(document(result_of("measurement"), edition), DefinitionList)
         for name, value in part.pairs}
        for edition in ("internal", "external")
    )  # fmt: skip
    assert (inside["limit"], inside["people"], inside["rows"]) == (
        "η = 2 per person, in standard deviations", "16", "32",
    )  # fmt: skip
    assert not {"limit", "people", "rows"} & outside.keys()
    assert outside["unit"] == "person"


def test_statistics_of_a_release_are_about_twenty_people_or_more():
    assert set(dose_statistics(result_of("linear release"))) == {"says"}
    many = {**sample("linear release")["distribution"], "counts": [40, 90, 20]}
    statistics = dose_statistics(result_of("linear release", people=151, distribution=many))
    assert (statistics["people"], statistics["typical"]) == (150, 0.5)
    assert (statistics["score_before"], statistics["score_after"]) == ("R² 0.52", "R² 0.5")
    assert "noise" not in statistics
    assert dose_statistics(result_of("linear release", scale_from="the data"))["noise"] == "Gaussian(sigma=1.5)"
