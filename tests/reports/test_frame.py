"""A result as a dataframe of each kind, and its main chart as an object of its own."""

from __future__ import annotations

import json
import math
import sys

import pytest

from dosimeter import Refusal
from dosimeter.reports.frame import KINDS, to_frame
from dosimeter.reports.plot import MIME, Plot
from dosimeter.results.result import read
from tests.reports.samples import result_of, sample


def rows_of(frame, kind):
    if kind == "pandas":
        return json.loads(frame.to_json(orient="records"))
    return frame.to_dicts() if kind == "polars" else frame.to_pylist()


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_columns_of_a_measurement_are_rows_of_a_frame(kind):
    pytest.importorskip(kind)
    frame = result_of("measurement").to_frame(kind)
    assert type(frame).__module__.split(".")[0] == kind
    age, sex, target = rows_of(frame, kind)
    assert (age["column"], age["least_deviation"], age["spread"]) == ("age", 2.6, 34.6)
    assert (sex["column"], sex["highest"], sex["spread"]) == ("sex", 2.0, None)
    assert (target["column"], target["kind"], target["typical_deviation"]) == ("progression", "target", 50.0)
    assert "r2" not in age  # no column has it


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_release_and_an_exact_measurement_give_the_most_exposed(kind):
    pytest.importorskip(kind)
    for result in (result_of("linear release"), result_of("measurement", columns=[])):
        first, *others = rows_of(result.to_frame(kind), kind)
        assert first == {"id": "patient 0", "rank": 1, "row": 10, "dose": 2.5, "over_typical": 4.0}
        assert len(others) == 11


def test_what_has_no_bound_is_infinite():
    values = sample("linear release")
    values["ranked"] = [{"rank": 1, "row": 4, "dose": 3.0, "over_typical": "unbounded"}]
    frame = read(values).to_frame()
    assert list(frame.columns) == ["rank", "row", "dose", "over_typical"]
    assert math.isinf(frame["over_typical"][0])


def test_an_unknown_kind_and_a_library_that_is_missing_are_refused_in_one_line(monkeypatch):
    with pytest.raises(Refusal, match="kind='dask': use pandas, polars, pyarrow"):
        to_frame(result_of("measurement"), "dask")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(Refusal, match="polars is not installed"):
        to_frame(result_of("measurement"), "polars")


def test_a_result_without_a_table_or_a_chart_says_so():
    with pytest.raises(Refusal, match=r"FederatedPlan has no table: use to_dict\(\)"):
        result_of("plan").to_frame()
    with pytest.raises(Refusal, match="FederatedPlan has no chart"):
        result_of("plan").plot()


@pytest.mark.parametrize("name", ["measurement", "linear release"])
def test_the_plot_of_a_linear_result_is_the_histogram_of_its_doses(name, tmp_path):
    plot = result_of(name).plot()
    assert isinstance(plot, Plot)
    bundle = plot._repr_mimebundle_()
    bars, rule = bundle[MIME]["layer"]
    assert [value["y"] for value in bars["data"]["values"]] == [4, 9, 2]
    assert [value["x"] for value in rule["data"]["values"]] == [2.0]
    assert bundle[MIME]["$schema"].endswith("v5.json")
    assert bundle["text/plain"] == "<Plot: Dose (η) per person>"
    plot.write(tmp_path / "doses.html")
    page = (tmp_path / "doses.html").read_text(encoding="utf-8")
    assert "Content-Security-Policy" in page
    assert "0.1 to 0.3" in page
    assert "Do not publish" in page
    assert oct((tmp_path / "doses.html").stat().st_mode & 0o777) == "0o600"


def test_the_specification_for_notebooks_fits_vega_lite():
    altair = pytest.importorskip("altair")
    altair.LayerChart.from_dict(result_of("measurement").plot().spec, validate=True)


def test_without_any_dose_there_is_nothing_to_draw():
    values = sample("measurement")
    values["distribution"] |= {"edges": [], "counts": [], "zero": 16}
    with pytest.raises(Refusal, match="nothing to draw"):
        read(values).plot()
