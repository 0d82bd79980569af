"""Charts: specifications that Vega-Lite's own schema accepts, with the figures in them and in the table beside them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from dosimeter import Refusal
from dosimeter.reports.charts import COLOURS, MOST_ROWS, Axis, Series, Span, chart, dots, heat, spec, table
from dosimeter.reports.standalone_page import style

X, Y = np.array([1.0, 2.0, 4.0]), np.array([0.1, 0.3, 0.2])
KINDS = {
    "line": Series("s", X, Y),
    "points": Series("s", X, Y, kind="points"),
    "large": Series("s", X, Y, kind="points", large=True),
    "bars": Series("s", np.array([1.0, 2.0, 3.0, 4.0]), Y, kind="bars", mark=1.5),
    "spread": Series("s", X, Y, spread=np.array([0.05, 0.5, 0.1])),
    "band": Series("s", X, Y, kind="band", top=Y + 0.1),
    "rule": Series("s", np.array([2.0]), np.array([]), kind="rule"),
}
SPANS = [Span("a", 0.5, 0.4, 0.6), Span("b", 0.1)]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("log", [False, True])
def test_every_specification_fits_the_schema_of_vega_lite(kind, log):
    altair = pytest.importorskip("altair")
    made = spec("title", Axis("x", log=log), Axis("y", log=log and kind != "bars", whole=not log), [KINDS[kind]])
    altair.LayerChart.from_dict(made, validate=True)


def test_named_figures_and_heat_fit_the_schema_too():
    altair = pytest.importorskip("altair")
    altair.LayerChart.from_dict(dots("t", Axis("x", log=True), SPANS), validate=True)
    altair.Chart.from_dict(heat("t", ["r"], ["c", "d"], np.array([[0.0, np.inf]])), validate=True)


def test_the_points_of_a_series_are_in_the_specification():
    values = spec("t", Axis("x"), Axis("y"), [KINDS["line"]])["layer"][0]["data"]["values"]
    assert values == [{"series": "s", "x": x, "y": y} for x, y in zip(X, Y, strict=True)]


def test_an_interval_that_is_not_there_is_its_own_figure():
    assert dots("t", Axis("x"), SPANS)["data"]["values"] == [
        {"name": "a", "x": 0.5, "low": 0.4, "high": 0.6},
        {"name": "b", "x": 0.1, "low": 0.1, "high": 0.1},
    ]


def test_cells_without_a_finite_figure_are_drawn_at_the_ends_of_the_scale():
    made = heat("t", ["r", "s"], ["c", "d"], np.array([[0.0, 2.0], [np.inf, 8.0]]))
    assert [cell["value"] for cell in made["data"]["values"]] == [2.0, 2.0, 8.0, 8.0]
    assert made["encoding"]["fillOpacity"]["scale"]["domain"] == [2.0, 8.0]
    same = heat("t", ["r"], ["c"], np.array([[0.0]]))
    low, high = same["encoding"]["fillOpacity"]["scale"]["domain"]
    assert low < high  # a scale of no width would divide by nothing


def test_no_text_of_a_stranger_is_a_field_an_expression_or_a_link():
    """Fields are ours, and nothing that Vega evaluates or follows is in any specification."""
    strange = "datum.x"
    series = [
        Series(strange, one.x, one.y, one.kind, one.spread, one.mark, one.top, one.large) for one in KINDS.values()
    ]
    made = [
        spec(strange, Axis(strange), Axis(strange), series),
        dots(strange, Axis(strange), [Span(strange, 1.0)]),
        heat(strange, [strange], [strange], np.array([[1.0]])),
    ]
    keys: set[str] = set()
    fields: set[str] = set()

    def walk(value):
        if isinstance(value, dict):
            keys.update(value)
            fields.update([value["field"]] if "field" in value else [])
            for one in value.values():
                walk(one)
        elif isinstance(value, list):
            for one in value:
                walk(one)

    walk(made)
    assert fields <= {"x", "x2", "y", "y2", "series", "name", "low", "high", "row", "column", "value"}
    evaluated = {"expr", "signal", "url", "href", "labelExpr", "transform", "params", "calculate", "filter", "tooltip"}
    assert not keys & evaluated


def test_text_cannot_leave_its_place():
    markup = chart("</script><b>", Axis("</script>"), Axis("y"), [Series("</script>", X, Y)])
    assert markup.count("</script>") == 1
    inside = re.search(r'json">(.*)</script>', markup)
    assert inside is not None
    assert json.loads(inside[1])["title"] == "</script><b>"


def test_what_cannot_be_seen_is_an_escape_in_a_picture_too():
    markup = chart("a\u202eb", Axis("x"), Axis("y"), [Series("\x00", X, Y)])
    inside = re.search(r'json">(.*)</script>', markup)
    assert inside is not None
    made = json.loads(inside[1])
    assert made["title"] == "a\\u202eb"
    assert made["layer"][0]["data"]["values"][0]["series"] == "\\x00"


@pytest.mark.parametrize("values", [np.array([1.0, np.nan, 2.0]), np.array([1.0, np.inf, 2.0])])
def test_what_cannot_be_drawn_is_refused(values):
    with pytest.raises(Refusal):
        spec("t", Axis("x"), Axis("y"), [Series("s", X, values)])
    with pytest.raises(Refusal, match="above 0"):
        spec("t", Axis("x"), Axis("y", log=True), [Series("s", X, np.array([1.0, 0.0, 2.0]))])
    with pytest.raises(Refusal, match="above 0"):
        dots("t", Axis("x", log=True), [Span("a", 0.0)])
    with pytest.raises(Refusal, match="upper edge"):
        spec("t", Axis("x"), Axis("y"), [Series("s", X, Y, kind="band")])


def test_the_table_has_every_figure_of_the_chart():
    said = table("t", Axis("x"), Axis("y"), list(KINDS.values()))
    assert said.rows[:3] == (("s", 1.0, 0.1), ("s", 2.0, 0.3), ("s", 4.0, 0.2))
    assert ("s", "1 to 2", 0.1) in said.rows
    assert ("s", 2.0, "0.3 ± 0.5") in said.rows
    assert ("s", 2.0, "0.3 to 0.4") in said.rows
    assert ("s", 2.0, "") in said.rows
    assert len(said.rows) == 3 * 6 + 1


def test_a_cloud_of_points_is_told_by_its_size_and_its_ends():
    many = np.linspace(1.0, 5.0, MOST_ROWS + 1)
    said = table("t", Axis("x"), Axis("y"), [Series("s", many, many, kind="points")])
    assert said.rows == (("s", f"{MOST_ROWS + 1} points, 1 to 5", ""),)


def luminance(colour):
    """WCAG 2: relative luminance of #rrggbb."""
    shares = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def palettes():
    blocks = re.findall(r":root \{(.*?)\}", style(), flags=re.DOTALL)
    return [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in blocks]


def test_contrast_is_measured_as_the_standard_does():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # the standard's own near miss


def test_every_colour_can_be_read_in_light_in_dark_and_in_print():
    found = palettes()
    assert len(found) == 3
    for palette in found:
        for name in palette.keys() - {"paper", "card", "line"}:
            for ground in ("paper", "card"):
                assert contrast(palette[name], palette[ground]) >= 4.5, (name, ground, palette)


def test_every_colour_of_a_chart_has_a_counterpart_for_the_dark():
    light = palettes()[0]
    for k, colour in enumerate(COLOURS, start=1):
        assert light[f"s{k}"] == colour
        for what in ("fill", "stroke"):
            assert f'.chart [{what}="{colour}"] {{ {what}: var(--s{k}); }}' in style()
