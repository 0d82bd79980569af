"""The page of a reproduction in a real browser: charts, pictures and rows, under the same policy."""

from __future__ import annotations

import numpy as np

from dosimeter.reports.charts import Axis, Series, chart
from dosimeter.reports.markup import shown
from dosimeter.reproductions import saeidian21
from dosimeter.reproductions.comparison import PaperReport, Row
from dosimeter.reproductions.html_page import Figure, Reproduction, page, strip

from .opened import opened
from .payloads import PAYLOADS


def test_a_reproduction_is_drawn_with_its_pictures_and_nothing_else_happens():
    x = np.array([1.0, 2.0, 3.0])
    drawn = chart("AUC", Axis("k"), Axis("AUC"), [Series(text, x, x) for text in PAYLOADS[:5]])
    pictures = strip(PAYLOADS[0], [np.zeros((4, 4), np.uint8), np.full((4, 4, 3), 200, np.uint8)], PAYLOADS[1:3])
    rows = tuple(Row(text, 1.0, 2.0, 0.0, text) for text in PAYLOADS)
    told = Reproduction(PaperReport(PAYLOADS[3], rows), (Figure(PAYLOADS[4], PAYLOADS[5], drawn + pictures),))
    seen = opened(page(told), screenshot="reproduction")
    assert seen.quiet, seen
    assert (seen.charts, seen.drawn, seen.elements["img"]) == (1, 1, 2)
    said = set(seen.texts)
    assert [text for text in PAYLOADS if shown(text) not in said] == []


def test_the_figures_of_a_paper_are_all_drawn():
    told = saeidian21.reproduction(None, True)
    seen = opened(page(told), screenshot="saeidian21")
    assert seen.quiet, seen
    assert seen.drawn == seen.charts > 0
