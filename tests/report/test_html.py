"""The report as values: what each edition of each slice shows, and what it never does."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from html.parser import HTMLParser

import pytest

from dosimeter import Refusal
from dosimeter.report.html import document, lay_out, page
from dosimeter.report.layout import Code, DefinitionList, Drawing, Gauge, Grid, Notes, Section, Words, number
from dosimeter.report.markup import island, shown
from dosimeter.report.model_card import card
from dosimeter.report.standalone_page import shell
from tests.report.samples import BOOKED, SAMPLES, sample

CLOSING = ("Assumptions and what is not covered", "How to reproduce it")
INTERNAL = {
    "measurement": (
        "Dose per person", "Groups", "Columns", "Checked by attack", "Accuracy against dose",
        "What was put on the weights", *CLOSING,
    ),
    "repair": (
        "Dose per person", "Accuracy against dose", "What was put on the weights", "What the ledger says so far",
        *CLOSING,
    ),
    "components": (
        "What was promised", "Dose", "Checked by attack", "What the components are worth",
        "What the ledger says so far", *CLOSING,
    ),
    "labels": (
        "What was promised", "Bound and exact", "Leakage by query", "Leakage by teacher", "What the labels are worth",
        "What the ledger says so far", *CLOSING,
    ),
    "federation": (
        "What was promised", "Round by round", "Inside the rounds", "The recipe", "What the ledger says so far",
        *CLOSING,
    ),
    "plan": ("What was promised", *CLOSING),
}  # fmt: skip
CHARTS = {
    "measurement": (
        "η per person", "Dose by group", "What leaks of the most exposed, column by column", "What the attack got",
        "Accuracy against dose",
    ),
    "repair": ("η per person", "Accuracy against dose"),
    "components": ("η per row", "AUC by components seen", "Captured variance"),
    "labels": ("nats per person", "Leakage by query", "Leakage by teacher"),
    "federation": ("Accuracy by round", "ε by round", "V_c and U_s by round"),
    "plan": (),
}  # fmt: skip
OUTSIDE = {"federation": ("Accuracy by round", "ε by round")}
"""Charts of the external edition: rounds follow from noised models and the recipe; other slices have none."""


def parts(made, kind):
    return [part for section in made.sections for part in section.parts if isinstance(part, kind)]


def terms(made):
    return {name: value for one in parts(made, DefinitionList) for name, value in one.pairs}


def section(made, heading) -> Section:
    (found,) = [one for one in made.sections if one.heading == heading]
    return found


@pytest.mark.parametrize("name", list(SAMPLES))
def test_the_internal_edition_has_every_section_of_its_slice_in_order(name):
    made = document(sample(name), "internal")
    assert tuple(one.heading for one in made.sections) == INTERNAL[name]
    assert tuple(one.title for one in made.drawings) == CHARTS[name]


@pytest.mark.parametrize("name", list(SAMPLES))
def test_the_external_edition_draws_nothing_that_was_computed_without_protection(name):
    made = document(sample(name))
    assert made.edition == "external"
    assert tuple(one.title for one in made.drawings) == OUTSIDE.get(name, ())
    headings = {one.heading for one in made.sections}
    assert not headings & {"Groups", "Columns", "Checked by attack", "Inside the rounds", "Leakage by query", "Dose"}
    assert set(CLOSING) <= headings


@pytest.mark.parametrize("name", list(SAMPLES))
@pytest.mark.parametrize("edition", ["external", "internal"])
def test_the_island_is_the_edition_and_nothing_else(name, edition):
    made = document(sample(name), edition)
    text = lay_out(made)
    inside = re.search(r'id="facts">(.*?)</script>', text, flags=re.DOTALL)
    assert inside is not None
    assert json.loads(inside[1]) == json.loads(json.dumps(made.facts))
    assert json.loads(inside[1])["edition"] == edition


@pytest.mark.parametrize("name", list(SAMPLES))
def test_no_figure_of_the_inside_gets_into_the_external_page(name):
    """Each number that the external edition's facts do not have is made unique, and looked for in the whole page."""
    facts = sample(name)
    allowed = json.dumps(document(facts).facts)
    planted = []

    def plant(value):
        if isinstance(value, dict):
            return {key: plant(one) for key, one in value.items()}
        if isinstance(value, list):
            return [plant(one) for one in value]
        if isinstance(value, float) and 0 < value < 1e6 and f"{value:g}" not in allowed:
            planted.append(f"{len(planted)}731{len(planted)}")
            return float(f"0.{planted[-1]}")
        return value

    inside = plant(facts)
    text = page(inside)
    if name != "plan":  # a plan is made of public numbers alone
        assert len(planted) > 3
    assert not [digits for digits in planted if digits in text]


def test_the_same_figures_planted_are_in_the_internal_page():
    facts = sample("measurement")
    facts["dose"]["highest"] = 0.731731
    assert "0.731731" in page(facts, "internal")


def test_a_limit_that_is_kept_and_one_that_is_not_look_different():
    kept = sample("measurement", verdict={"limit": 3.0, "above": 0, "within": True})
    assert document(kept, "internal").verdict.tone == "good"
    assert document(kept, "internal").verdict.gauge.tone == ""
    broken = document(sample("measurement"), "internal").verdict
    assert broken.tone == "bad"
    assert broken.gauge.tone == "bad"
    assert document(sample("measurement"), "external").verdict.gauge is None
    assert document(sample("repair")).verdict.tone == "good"


def test_an_exact_release_is_bad_and_has_no_gauge():
    facts = sample("measurement", bounded=False, noise="none", noise_needed=[{"highest": 1.0, "scale": 18.5}])
    facts["dose"] = {
        "typical": "unbounded", "worst_1_percent": "unbounded", "highest": "unbounded", "highest_row": 3,
        "highest_over_typical": 4.0,
    }  # fmt: skip
    made = document(facts, "internal")
    assert made.verdict.tone == "bad"
    assert made.verdict.gauge is None
    grids = {grid.caption: grid for grid in parts(made, Grid)}
    assert grids["Noise that a highest η would need"].rows == (("1", 18.5),)
    assert grids["The 10 most exposed people"].headings == ("rank", "id", "first row", "times the typical")
    lay_out(made)


def test_every_chart_has_a_table_with_its_figures():
    for name in SAMPLES:
        for one in document(sample(name), "internal").drawings:
            assert one.grid.folded
            assert one.grid.rows
            assert all(len(row) == len(one.grid.headings) for row in one.grid.rows)
            assert one.says


def test_the_histogram_shows_its_counts_and_the_limit():
    (drawn,) = [d for d in document(sample("measurement"), "internal").drawings if d.title == "η per person"]
    bars, rule = drawn.spec["layer"]
    assert [(v["x"], v["x2"], v["y"]) for v in bars["data"]["values"]] == [(0.1, 0.3, 4), (0.3, 1, 9), (1, 3, 2)]
    assert [v["x"] for v in rule["data"]["values"]] == [2.0]
    assert bars["encoding"]["x"]["scale"]["type"] == "log"
    assert Words("Without any dose: 1 (zero has no place on a logarithmic axis).", quiet=True) in (
        section(document(sample("measurement"), "internal"), "Dose per person").parts
    )


def test_nobody_has_a_dose_and_the_page_still_stands():
    facts = sample("measurement")
    facts["distribution"] = {"of": "η", "unit": "person", "edges": [], "counts": [], "zero": 16, "limit": None}
    facts["dose"] |= {"typical": 0.0, "highest": 0.0, "worst_1_percent": 0.0}
    facts["groups"] = [{**one, "median": 0.0, "worst_1_percent": 0.0, "over_median": 0.0} for one in facts["groups"]]
    facts["strip"]["eta"] = [[0.0, 0.0], [0.0, 0.0]]
    made = document(facts, "internal")
    assert made.verdict.gauge is None
    assert "Dose by group" not in [one.title for one in made.drawings]
    assert "Groups (η)" in [grid.caption for grid in parts(made, Grid)]
    lay_out(made)


def test_an_error_larger_than_that_of_a_guess_without_the_release_is_said_to_add_little():
    note = "the release adds little"
    facts = sample("measurement")
    for one in (*facts["columns"], facts["target"]):
        if "spread" in one:
            one |= {"spread": 100.0, "typical_deviation": 50.0, "least_deviation": 9.0}
    facts["meaning"] |= {"spread": 100.0, "deviation": 9.0, "typical_deviation": 50.0}
    assert note not in page(facts, "internal")
    facts["columns"][0]["typical_deviation"] = 256.0
    assert page(facts, "internal").count(note) == 1
    facts["meaning"]["typical_deviation"] = 256.0
    assert page(facts, "internal").count(note) == 2


def test_without_ids_people_are_rows():
    facts = sample("measurement")
    facts["ranked"] = [{key: value for key, value in one.items() if key != "id"} for one in facts["ranked"]]
    facts["strip"].pop("ids")
    made = document(facts, "internal")
    first, others = [grid for grid in parts(made, Grid) if "most exposed" in grid.caption]
    assert first.headings == ("rank", "first row", "η", "times the typical")
    assert (len(first.rows), first.folded) == (10, False)
    assert (len(others.rows), others.folded) == (2, True)
    assert [row[0] for row in (*first.rows, *others.rows)] == [
        str(k) for k in range(1, 13)
    ]  # printed, nobody stands twice
    assert "patient" not in lay_out(made)
    assert "patient 0" in page(sample("measurement"), "internal")


def test_each_of_the_most_exposed_can_be_looked_into():
    grids = {grid.caption: grid for grid in parts(document(sample("measurement"), "internal"), Grid)}
    assert grids["patient 0: what leaks of them"].rows == (("age", 2.0, 0.5), ("sex", 1.0, 1.0))
    assert grids["patient 1: what leaks of them"].rows == (("age", math.inf, 0.0), ("sex", 0.0, None))
    assert grids["patient 1: what leaks of them"].folded


def paths(value, at=()):
    """Every place in the facts; of lists the first two entries."""
    if at:
        yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, one in inner:
        yield from paths(one, (*at, key))


@pytest.mark.parametrize("name", list(SAMPLES))
def test_whatever_stands_in_a_field_is_a_page_or_an_error_that_the_command_line_knows(name):
    for at in paths(SAMPLES[name]):
        for wrong in (None, -1.0, 5e-324, 1e308):
            facts = sample(name)
            place = facts
            for key in at[:-1]:
                place = place[key]
            place[at[-1]] = wrong
            with suppress(ArithmeticError, LookupError, TypeError, ValueError):
                lay_out(document(facts, "internal"))


def test_the_frontier_leaves_out_models_that_nobody_would_release_and_says_so():
    (drawn,) = [d for d in document(sample("repair"), "internal").drawings if d.title == "Accuracy against dose"]
    drawn_scores = [v["y"] for layer in drawn.spec["layer"] for v in layer["data"]["values"]]
    assert min(drawn_scores) == 0.5
    assert "1 steps below -1 are not drawn" in drawn.says
    assert ("isotropic", 10.0, -3.0, 1.8, 0.48) in drawn.grid.rows
    names = {v["series"] for layer in drawn.spec["layer"] for v in layer["data"]["values"]}
    assert names == {"isotropic noise", "shaped noise", "this release"}


def test_the_ledgers_head_is_on_the_page_or_that_nothing_was_booked():
    assert terms(document(sample("repair")))["head"] == BOOKED["head"]
    words = [part.text for part in section(document(sample("labels")), "What the ledger says so far").parts]
    assert any(text.startswith("Not booked") for text in words)


def test_what_is_not_covered_and_how_it_was_made_is_in_both_editions():
    for edition in ("external", "internal"):
        made = document(sample("repair"), edition)
        assert "the mean of age" in [item for notes in parts(made, Notes) for item in notes.entries]
        assert parts(made, Code) == [Code("dosimeter measure TABLE --target y")]
    assert "SHA-256 of the table" in terms(made)
    assert "SHA-256 of the table" not in terms(document(sample("repair")))


def test_statistics_come_on_request_and_say_what_they_are():
    assert "Statistics that were asked for" not in [one.heading for one in document(sample("measurement")).sections]
    made = document(sample("measurement"), statistics=True)
    assert "without protection" in section(made, "Statistics that were asked for").parts[0].text


def test_a_plan_over_its_budget_and_a_simulation_are_bad():
    assert document(sample("plan")).verdict.tone == "good"
    assert document(sample("plan", over="ε would be 9")).verdict.tone == "bad"
    assert document(sample("federation")).verdict.tone == "good"
    assert document(sample("federation", simulation=True, stamp="SIMULATION")).verdict.tone == "bad"


def test_components_from_bounds_of_the_table_claim_nothing():
    made = document(sample("components", private=False))
    assert made.verdict.tone == "bad"
    assert made.verdict.gauge is None
    assert "not claimed" in terms(made)["(ε, δ)"]


def test_a_result_of_another_version_is_refused():
    with pytest.raises(Refusal, match="not known here"):
        page({"schema": "dosimeter.measurement/99"})
    with pytest.raises(Refusal, match="do not fit"):
        page(sample("measurement", people="many"))


class Outline(HTMLParser):
    """Headings, languages, labels: what a screen reader goes by."""

    def __init__(self, text):
        super().__init__()
        self.levels, self.starts, self.ids, self.links = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        have = dict(attrs)
        self.starts.append((tag, have))
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        self.ids += [have["id"]] if "id" in have else []
        self.links += [have["href"]] if tag == "a" else []


@pytest.mark.parametrize("name", list(SAMPLES))
@pytest.mark.parametrize("edition", ["external", "internal"])
def test_a_screen_reader_finds_its_way(name, edition):
    found = Outline(page(sample(name), edition))
    assert ("html", {"lang": "en"}) in found.starts
    assert found.levels[0] == 1
    assert found.levels.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(found.levels, found.levels[1:], strict=False))
    assert len(set(found.ids)) == len(found.ids)
    assert all(link[0] == "#" and link[1:] in found.ids for link in found.links)
    tags = [tag for tag, _ in found.starts]
    assert tags.count("table") == tags.count("caption") >= tags.count("details")
    for tag, have in found.starts:
        if tag == "th":
            assert have["scope"] in ("row", "col")
        if have.get("class", "").startswith(("chart", "gauge")):
            assert have["role"] == "img"
            assert have["aria-label"]
        assert "style" not in have
        assert not [key for key in have if key.startswith("on")]


def test_the_internal_edition_warns_at_its_head_and_the_external_says_what_it_is():
    assert "internal: do not publish" in page(sample("repair"), "internal")
    outside = page(sample("repair"))
    assert "do not publish" not in outside
    assert "External edition" in outside


def test_pages_are_small():
    assert max(len(page(sample(name), "internal").encode()) for name in SAMPLES) < 1_000_000


@pytest.mark.parametrize("value", ["</script>", "<!--", "&", "\u2028", "\ud800", "a\x00b"])
def test_an_island_holds_any_text_and_gives_it_back(value):
    text = str(island({value: [value]}))
    assert json.loads(text) == {value: [value]}
    assert not set(text) & set("<>&\u2028\x00")


def test_what_cannot_be_seen_is_shown_as_an_escape():
    assert shown("a\u202eb") == "a\\u202eb"
    assert shown("<b>") == "<b>"


def test_a_gauge_places_figures_in_the_log_coordinate():
    gauge = Gauge("g", 10.0, 100.0, (("a", 1.0), ("b", 10.0)))
    low, high = gauge.ends
    assert math.log10(low) == -1
    assert math.log10(high) == 3
    assert [gauge.at(v) for v in (0.1, 1.0, 10.0, 100.0, 1000.0, math.inf)] == [0, 150, 300, 450, 600, 600]
    assert gauge.says == "a 1, b 10, limit 100"
    assert gauge.tone == ""
    assert Gauge("g", 101.0, 100.0).tone == "bad"
    assert Gauge.of("g", 10.0, 100.0, (("a", 1.0), ("b", 10.0))) == gauge
    assert [Gauge.of("g", level) for level in (0.0, -1.0, math.inf, 1e308, 5e-324)] == [None] * 5


def test_numbers_read_as_words_where_there_is_no_number():
    assert [number(v) for v in (True, False, 3, 0.5, math.inf, None, "x")] == [
        "yes", "no", "3", "0.5", "unbounded", "–", "x",
    ]  # fmt: skip


def test_a_page_without_charts_carries_no_scripts():
    text = shell("t", island(""), charts=False)
    assert "<script" not in text
    assert len(text) < 20_000


def test_every_drawing_is_one_of_ours():
    for name in SAMPLES:
        for one in parts(document(sample(name), "internal"), Drawing):
            assert one.spec["$schema"].endswith("vega-lite/v6.json")


def _words(made, heading):
    (section,) = [one for one in made.sections if one.heading == heading]
    return " ".join(part.text for part in section.parts if part.kind == "words")


def test_what_is_not_claimed_bears_no_tick(printed):
    """The clients were counted in the rows: the rounds are accounted, the training is not."""
    facts = printed[0]["federate"]
    assert facts["guarantee"]["standing"] == "unaccounted"
    assert document(facts).verdict.tone == "bad"
    assert "e^ε" not in _words(document(facts), "What was promised")
    assert ": not claimed" in page(facts)
    assert "| not claimed: ε" in card(facts)
    held = {**facts, "guarantee": {**facts["guarantee"], "standing": "upper bound"}}
    assert document(held).verdict.tone == "good"
    assert "not claimed" not in card(held)
    assert "one client added or removed" in _words(document(held), "What was promised")


def test_the_page_says_what_its_figure_means(printed):
    """η = 5 is a fifth of a standard deviation; ε = 2 a factor e² = 7.39."""
    assert "±0.2 standard deviations of its column" in _words(
        document(printed[0]["fix"]), "What was put on the weights"
    )
    assert "e^ε = 7.39" in _words(document(printed[0]["pca"]), "What was promised")
    assert "e^ε" not in _words(document(printed[0]["pca open"]), "What was promised")
    measured = _words(document(printed[0]["measure exact"]), "What was put on the weights")
    assert "released nothing" in measured
    assert "1/η" not in measured
