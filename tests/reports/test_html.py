"""The report as values: what each edition of each result shows, and what it never does."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from html.parser import HTMLParser

import pytest

from dosimeter import Refusal
from dosimeter.reports.document import document
from dosimeter.reports.html import lay_out, to_html
from dosimeter.reports.layout import Code, DefinitionList, Drawing, Gauge, Notes, number
from dosimeter.reports.markup import island, shown
from dosimeter.reports.model_card import to_card
from dosimeter.reports.standalone_page import standalone_page
from dosimeter.results.editions import external
from dosimeter.results.result import read
from tests.reports.samples import BOOKED, SAMPLES, result_of, sample

CLOSING = ("Assumptions and what is not covered", "How to reproduce it")
INTERNAL = {
    "measurement": (
        "Dose per person", "What a dose means", "The most exposed value", "What is a good dose?",
        "Distribution of doses", "Groups", "Columns", "Checked by attack", "Accuracy against dose", "Settings",
        *CLOSING,
    ),
    "linear release": (
        "Dose per person", "What a dose means", "What the noise costs", "Accuracy against dose",
        "What is a good dose?", "Distribution of doses", "Settings", "Ledger", *CLOSING,
    ),
    "federation": (
        "What was promised", "Round by round", "Inside the rounds", "Training settings", "Ledger", *CLOSING,
    ),
    "plan": ("The plan", *CLOSING),
}  # fmt: skip
"""Sections of the page, top to bottom."""
CHARTS = {
    "measurement": (
        "Dose (η) per person", "Dose by group", "What leaks about the most exposed",
        "What the attack achieved", "Accuracy against dose",
    ),
    "linear release": ("Accuracy against dose", "Dose (η) per person"),
    "federation": ("Accuracy by round", "ε by round", "V_c and U_s by round"),
    "plan": (),
}  # fmt: skip
OUTSIDE = {"federation": ("Accuracy by round", "ε by round")}
"""Charts of the external edition: rounds follow from noised models and the recipe; other verbs have none."""
INSIDE = {
    "Groups", "Columns", "Checked by attack", "Inside the rounds", "Leakage by query", "Dose", "Dose per person",
    "The most exposed value", "Distribution of doses", "What the noise costs", "Accuracy against dose",
}  # fmt: skip
"""Sections that an external page never has."""


def parts(report, kind):
    return [part for section in report.on("page") for part in section.parts if isinstance(part, kind)]


def definitions(report):
    return {name: value for part in parts(report, DefinitionList) for name, value in part.pairs}


def headings(report):
    return tuple(section.heading for section in report.on("page"))


@pytest.mark.parametrize("name", list(INTERNAL))
def test_the_internal_edition_has_every_section_of_its_verb_in_order(name):
    report = document(result_of(name), "internal")
    assert headings(report) == INTERNAL[name]
    assert tuple(drawing.title for drawing in report.drawings) == CHARTS[name]


@pytest.mark.parametrize("name", list(SAMPLES))
def test_the_external_edition_draws_nothing_that_was_computed_without_protection(name):
    report = document(result_of(name))
    assert report.edition == "external"
    assert tuple(drawing.title for drawing in report.drawings) == OUTSIDE.get(name, ())
    assert not set(headings(report)) & INSIDE
    assert set(CLOSING) <= set(headings(report))


@pytest.mark.parametrize("name", list(SAMPLES))
@pytest.mark.parametrize("edition", ["external", "internal"])
def test_the_island_is_the_edition_and_nothing_else(name, edition):
    result = result_of(name)
    report = document(result, edition)
    inside = re.search(r'id="figures">(.*?)</script>', lay_out(report), flags=re.DOTALL)
    assert inside is not None
    figures = json.loads(inside[1])
    assert figures == json.loads(json.dumps(report.figures))
    assert figures["edition"] == edition
    shows = (external(result) if edition == "external" else result).to_dict()
    assert figures.items() >= shows.items()
    assert figures.keys() - shows.keys() <= {"edition", "says", "sentence", "withheld"}


@pytest.mark.parametrize("name", list(SAMPLES))
def test_no_figure_of_the_inside_gets_into_the_external_page(name):
    """Each number that the external edition's figures do not have is made unique, and looked for in the whole page."""
    allowed = json.dumps(document(result_of(name)).figures)
    planted = []

    def plant(value):
        if isinstance(value, dict):
            return {key: plant(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [plant(inner) for inner in value]
        if isinstance(value, float) and 0 < value < 1e6 and f"{value:g}" not in allowed:
            planted.append(f"{len(planted)}731{len(planted)}")
            return float(f"0.{planted[-1]}")
        return value

    page = to_html(read(plant(sample(name))))
    if name != "plan":  # a plan is made of public numbers alone
        assert len(planted) > 3
    assert not [digits for digits in planted if digits in page]


def test_the_same_figures_planted_are_in_the_internal_page():
    values = sample("measurement")
    values["dose"]["highest"] = 0.731731
    assert "0.731731" in to_html(read(values), "internal")


def test_every_chart_has_a_table_with_its_figures():
    for name in SAMPLES:
        for drawing in document(result_of(name), "internal").drawings:
            assert drawing.grid.folded
            assert drawing.grid.rows
            assert all(len(row) == len(drawing.grid.headings) for row in drawing.grid.rows)
            assert drawing.says


def paths(value, place=()):
    """Every place in a result's JSON; of lists the first two entries."""
    if place:
        yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, entry in inner:
        yield from paths(entry, (*place, key))


@pytest.mark.parametrize("name", list(SAMPLES))
def test_whatever_is_in_a_field_gives_a_page_or_an_error_that_the_command_line_knows(name):
    for place in paths(SAMPLES[name]):
        for wrong in (None, -1.0, 5e-324, 1e308):
            values = sample(name)
            inner = values
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = wrong
            with suppress(ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
                lay_out(document(read(values), "internal"))


def test_the_ledgers_head_is_on_the_page_or_that_nothing_was_booked():
    assert definitions(document(result_of("linear release")))["head"] == BOOKED["head"]
    (ledger,) = [section for section in document(result_of("labels")).on("page") if section.heading == "Ledger"]
    assert any(part.text.startswith("Not booked") for part in ledger.parts)


def test_what_is_not_covered_and_how_it_was_made_is_in_both_editions():
    for edition in ("external", "internal"):
        report = document(result_of("linear release"), edition)
        assert "the mean of age" in [item for notes in parts(report, Notes) for item in notes.entries]
        assert parts(report, Code) == [Code("dosimeter measure TABLE --target y")]
    assert "SHA-256 of the table" in definitions(report)
    assert "SHA-256 of the table" not in definitions(document(result_of("linear release")))


def test_statistics_come_on_request_and_say_what_they_are():
    assert "Requested statistics" not in headings(document(result_of("measurement")))
    report = document(result_of("measurement"), statistics=True)
    (requested,) = [section for section in report.on("page") if section.heading == "Requested statistics"]
    assert "without protection" in requested.parts[0].text


def test_a_plan_over_its_budget_and_a_simulation_are_bad():
    assert document(result_of("plan")).verdict.tone == "good"
    assert document(result_of("plan", over="ε would be 9")).verdict.tone == "bad"
    assert document(result_of("federation")).verdict.tone == "good"
    assert document(result_of("federation", simulation=True, stamp="SIMULATION")).verdict.tone == "bad"


def test_what_is_not_claimed_bears_no_tick():
    """The clients were counted in the rows: the rounds are accounted, the training is not."""
    guarantee = {**sample("federation")["guarantee"], "standing": "unaccounted"}
    unclaimed, claimed = result_of("federation", guarantee=guarantee), result_of("federation")
    assert document(unclaimed).verdict.tone == "bad"
    assert "e^ε" not in to_html(unclaimed)
    assert ": not claimed" in to_html(unclaimed)
    assert ": not claimed" in to_card(unclaimed)
    assert document(claimed).verdict.tone == "good"
    assert "not claimed" not in to_card(claimed)
    assert "one client added or removed" in to_html(claimed)


def test_a_result_of_another_version_is_refused():
    with pytest.raises(Refusal, match="not known here"):
        read({"schema": "dosimeter.measurement/99"})
    with pytest.raises(Refusal, match="does not fit"):
        read(sample("measurement", people="many"))


def test_the_page_has_no_section_of_another_medium():
    """A terminal and a card have summaries of their own."""
    report = document(result_of("linear release"), "internal")
    assert {section.heading for section in report.sections} - set(headings(report)) >= {"Model and noise", "Standing"}
    assert "Model and noise" not in lay_out(report)


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
    found = Outline(to_html(result_of(name), edition))
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
    assert "internal: do not publish" in to_html(result_of("linear release"), "internal")
    outside = to_html(result_of("linear release"))
    assert "do not publish" not in outside
    assert "External edition" in outside


def test_pages_are_small():
    assert max(len(to_html(result_of(name), "internal").encode()) for name in SAMPLES) < 1_000_000


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
    assert [gauge.at(v) for v in (0.1, 1.0, 10.0, 100.0, 1000.0, math.inf)] == [0, 225, 450, 675, 900, 900]
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
    text = standalone_page("t", island(""), charts=False)
    assert "<script" not in text
    assert len(text) < 20_000


def test_every_drawing_is_one_of_ours():
    for name in SAMPLES:
        for drawing in parts(document(result_of(name), "internal"), Drawing):
            assert drawing.spec["$schema"].endswith("vega-lite/v6.json")
