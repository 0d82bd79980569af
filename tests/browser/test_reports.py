"""Both editions of the report of each result in a real browser: drawn, silent, and no untrusted text ever runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dosimeter.reports.document import document
from dosimeter.reports.html import to_html
from dosimeter.reports.markup import shown
from dosimeter.results.result import read
from tests.reports.samples import SAMPLES, result_of, sample

from .hostile import harmless_twin, hostile
from .opened import opened, widths
from .payloads import PAYLOADS

EDITIONS = ("external", "internal")


@pytest.mark.parametrize("name", list(SAMPLES))
@pytest.mark.parametrize("edition", EDITIONS)
def test_a_report_is_drawn_without_a_word_or_a_request(name, edition):
    seen = opened(to_html(result_of(name), edition), screenshot=f"{name}-{edition}")
    report = document(result_of(name), edition)
    assert seen.quiet, seen
    assert seen.drawn == seen.charts == len(report.drawings)
    assert json.loads(json.dumps(seen.facts)) == json.loads(json.dumps(report.figures))


@pytest.mark.parametrize("name", list(SAMPLES))
@pytest.mark.parametrize("edition", EDITIONS)
def test_no_payload_runs_and_every_one_is_shown_as_it_is(name, edition):
    result = hostile(name)
    seen, report = opened(to_html(result, edition), act=poke), document(result, edition)
    assert seen.quiet, seen
    assert seen.drawn == seen.charts == len(report.drawings)
    if edition == "internal":
        said = set(seen.texts)
        assert [text for text in PAYLOADS if shown(text) not in said] == []
    assert seen.facts == report.figures
    # Not one element more or less than with dull texts in every place.
    assert seen.elements == opened(to_html(harmless_twin(name), edition)).elements


def poke(tab):
    """What a reader does: opens every table, goes through the page by keyboard, moves over the charts."""
    tab.evaluate("() => document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    for _ in range(12):
        tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    for place in tab.query_selector_all(".chart")[:3]:
        place.hover()


@pytest.mark.parametrize("dark", [False, True])
def test_charts_follow_the_readers_scheme(dark):
    found = {}

    def look(tab):
        found["ink"] = tab.evaluate("() => getComputedStyle(document.querySelector('.chart svg text')).fill")
        found["paper"] = tab.evaluate("() => getComputedStyle(document.body).backgroundColor")

    seen = opened(to_html(result_of("federation")), dark=dark, act=look, screenshot="dark" if dark else "light")
    assert seen.quiet
    ink, paper = (sum(map(int, found[name][4:-1].split(","))) for name in ("ink", "paper"))
    assert (ink > paper) == dark


@pytest.mark.parametrize("dark", [False, True])
def test_the_more_exposed_cell_stands_out_more_on_a_light_and_on_a_dark_page(dark):
    found = {}
    look = """() => {
      const parts = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
      const paper = parts(getComputedStyle(document.body).backgroundColor);
      const charts = [...document.querySelectorAll(".chart")];
      const title = "What leaks about the most exposed";
      const heat = charts.find((chart) => chart.getAttribute("aria-label").startsWith(title));
      return [...heat.querySelectorAll(".role-mark path")].map((cell) => {
        const style = getComputedStyle(cell), opacity = Number(style.fillOpacity);
        return parts(style.fill).map((c, k) => Math.abs(opacity * (c - paper[k]))).reduce((a, b) => a + b);
      });
    }"""
    values = sample("measurement")
    values["strip"]["eta"] = eta = [[2.0, 0.3], [0.05, 0.7]]
    seen = opened(to_html(read(values), "internal"), dark=dark, act=lambda tab: found.update(seen=tab.evaluate(look)))
    assert any(text.startswith("The stronger a cell's colour") for text in seen.texts)
    assert np.argsort(found["seen"]).tolist() == np.argsort(np.ravel(eta)).tolist()


@pytest.mark.parametrize("wide", [400, 1200])
@pytest.mark.parametrize("name", list(SAMPLES))
def test_words_in_tables_stay_whole_and_the_page_does_not_scroll_sideways(name, wide):
    found = {}
    opened(to_html(result_of(name), "internal"), act=lambda tab: found.update(widths(tab, wide)))
    assert found["broken"] == []
    assert found["across"] <= wide


def test_the_keyboard_reaches_the_sections_and_opens_a_table():
    reached = {}

    def walk(tab):
        for _ in range(40):
            tab.keyboard.press("Tab")
            what = tab.evaluate("() => document.activeElement.tagName")
            reached[what] = reached.get(what, 0) + 1
            if what == "SUMMARY":
                tab.keyboard.press("Enter")
                reached["open"] = tab.evaluate("() => document.activeElement.parentElement.open")
                break

    assert opened(to_html(result_of("measurement"), "internal"), act=walk).quiet
    assert reached["A"] == len(document(result_of("measurement"), "internal").on("page"))
    assert reached["open"] is True


def test_every_printed_sheet_of_the_internal_edition_says_that_it_is_internal(tmp_path):
    pypdf = pytest.importorskip("pypdf", reason="pypdf reads the printed sheets")
    path = tmp_path / "report.pdf"
    assert opened(to_html(result_of("measurement"), "internal"), pdf=path).quiet
    said = [sheet.extract_text() for sheet in pypdf.PdfReader(path).pages]
    assert len(said) >= 2
    assert all("internal: do not publish" in text for text in said)
