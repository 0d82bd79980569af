"""Charts: specifications that Vega-Lite's own schema accepts, and a page that a browser draws without a network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from dosimeter import Refusal
from dosimeter.report.charts import POLICY, Axis, Series, chart, scripts, spec

X, Y = np.array([1.0, 2.0, 4.0]), np.array([0.1, 0.3, 0.2])
KINDS = {
    "line": Series("s", X, Y),
    "points": Series("s", X, Y, kind="points"),
    "bars": Series("s", np.array([0.0, 1.0, 2.0, 3.0]), Y, kind="bars", mark=1.5),
    "spread": Series("s", X, Y, spread=np.array([0.05, 0.5, 0.1])),
}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("log", [False, True])
def test_every_specification_fits_the_schema_of_vega_lite(kind, log):
    altair = pytest.importorskip("altair")
    axis = Axis("y", log=log and kind != "bars")
    made = spec("title", Axis("x"), axis, [KINDS[kind]])
    altair.LayerChart.from_dict(made, validate=True)


def test_the_points_of_a_series_are_in_the_specification():
    values = spec("t", Axis("x"), Axis("y"), [KINDS["line"]])["layer"][0]["data"]["values"]
    assert values == [{"series": "s", "x": x, "y": y} for x, y in zip(X, Y, strict=True)]


def test_text_cannot_leave_its_place():
    markup = chart("</script><b>", Axis("</script>"), Axis("y"), [Series("</script>", X, Y)])
    assert markup.count("</script>") == 1
    inside = re.search(r'json">(.*)</script>', markup)
    assert inside is not None
    assert json.loads(inside[1])["title"] == "</script><b>"


@pytest.mark.parametrize("values", [np.array([1.0, np.nan, 2.0]), np.array([1.0, np.inf, 2.0])])
def test_what_cannot_be_drawn_is_refused(values):
    with pytest.raises(Refusal):
        spec("t", Axis("x"), Axis("y"), [Series("s", X, values)])
    with pytest.raises(Refusal, match="above 0"):
        spec("t", Axis("x"), Axis("y", log=True), [Series("s", X, np.array([1.0, 0.0, 2.0]))])


def test_a_real_browser_draws_the_charts_without_a_network(tmp_path):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium on this machine")
    charts = "".join(chart(f"chart {k}", Axis("x"), Axis("y"), [s]) for k, s in KINDS.items())
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><head>{head}</head><body>{charts}{scripts()}</body>", encoding="utf-8")
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-background-networking --virtual-time-budget=8000 --dump-dom"
    )
    shown = subprocess.run(
        [browser, *flags.split(), f"--user-data-dir={tmp_path / 'profile'}", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert shown.stdout.count('class="marks"') == len(KINDS)
    assert "chart bars" in shown.stdout
