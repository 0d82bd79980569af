"""Charts are text: escaped, inside their frame, and refused where nothing could be drawn."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from dosimeter.core.refusal import Refusal
from dosimeter.reproduce.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axis, Series, chart

X = np.array([1.0, 10.0, 1000.0])
Y = np.array([3.0, 1.0, 2.0])


def path(text, k):
    return [
        tuple(map(float, pair.split()))
        for pair in re.findall(r"[\d.]+ [\d.]+", ET.fromstring(text).findall("path")[k].get("d"))
    ]


@pytest.mark.parametrize("kind", ["line", "points", "bars"])
def test_every_kind_is_well_formed_and_inside_the_frame(kind):
    x = np.append(X, 2000.0) if kind == "bars" else X
    text = chart("t", Axis("x", log=True), Axis("y"), [Series("s", x, Y, kind, mark=10.0)])
    root = ET.fromstring(text)
    drawn = path(text, len(root.findall("path")) - 2)
    assert drawn
    assert all(LEFT <= a <= WIDTH - RIGHT and TOP <= b <= HEIGHT - BOTTOM for a, b in drawn)


def test_a_logarithmic_axis_puts_decades_at_equal_distances():
    line = path(chart("t", Axis("x", log=True), Axis("y"), [Series("s", X, Y)]), -1)
    assert line[2][0] - line[1][0] == pytest.approx(2 * (line[1][0] - line[0][0]), abs=0.2)
    assert line[0][1] < line[2][1] < line[1][1]  # larger is higher up


def test_all_text_is_escaped():
    text = chart('<b>&"', Axis("<x>"), Axis("</svg>"), [Series("<script>", X, Y)])
    words = " ".join("".join(node.itertext()) for node in ET.fromstring(text).iter("text"))
    assert '<b>&"' in words
    assert "<script>" in words
    assert "<script>" not in text


def test_a_bar_of_spread_that_passes_zero_is_cut_on_a_logarithmic_axis():
    text = chart("t", Axis("x"), Axis("y", log=True), [Series("s", X, Y, spread=np.full(3, 2.5))])
    assert "nan" not in text
    assert len(path(text, -1)) == 3


def test_what_cannot_be_drawn_is_refused():
    for x, y in ((X, np.array([1.0, np.nan, 2.0])), (-X, Y), (np.array([]), np.array([]))):
        with pytest.raises(Refusal):
            chart("t", Axis("x", log=True), Axis("y"), [Series("s", x, y)])
    with pytest.raises(Refusal):
        chart("t", Axis("x"), Axis("y"), [])
