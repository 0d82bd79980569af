"""[Hannun21] section 6: the rows hold or say why, and agree with the known answers to rtol 1e-8."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dosimeter.cli.main import app
from dosimeter.reports.charts import SCHEMA
from dosimeter.reports.standalone_page import chart_scripts
from dosimeter.reproductions import hannun21, hannun21_deciles, hannun21_images, hannun21_table, hannun21_warfarin
from dosimeter.reproductions.html_page import page

pytestmark = pytest.mark.paper
CLOSE = dict(rtol=1e-8, atol=1e-12)
SETS = {"mnist": "mnist01", "cifar": "cifar_plane_car"}


@pytest.fixture(scope="module")
def summary(golden):
    return json.loads((golden / "fil" / "summary.json").read_text())


@pytest.fixture(scope="module")
def mnist(papers_data):
    return hannun21_table.studies(papers_data)["mnist"]


@pytest.fixture(scope="module")
def everything(papers_data):
    return hannun21.reproduction(papers_data)


def by_name(rows):
    return {row.figure: row for row in rows}


def test_the_split_of_the_patients_is_the_published_one(papers_data, golden):
    known = np.load(golden / "fil" / "iwpc.npz")
    order = hannun21_warfarin.published_order(4819)
    np.testing.assert_array_equal(order[:3855], known["train_rows"])
    np.testing.assert_array_equal(order[3855:], known["test_rows"])
    assert hannun21_warfarin.patients(papers_data)[1] == [11, 12]


def test_figure_6_goes_through_the_known_answers(papers_data, summary):
    for curve in hannun21_warfarin.curves(papers_data):
        facts = summary[f"iwpc/linear/lam{curve.l2:g}"]
        np.testing.assert_allclose(curve.eta.mean(), facts["eta_vkorc1"]["mean"], **CLOSE)
        np.testing.assert_allclose(curve.expected_error(0.0), facts["test_mse"], **CLOSE)
        for attack, key in (("white box", "whitebox_acc_mean_std"), ("black box", "blackbox_acc_mean_std")):
            known = np.array(list(facts[key].values()))
            np.testing.assert_allclose(curve.releases[attack][::2].mean(axis=1), known[:, 0], **CLOSE)
            np.testing.assert_allclose(curve.releases[attack][::2].std(axis=1), known[:, 1], **CLOSE)


def test_figure_7_goes_through_the_known_answers(papers_data, summary):
    study, facts = hannun21_deciles.warfarin(papers_data), summary["iwpc/linear/irfil10"]
    np.testing.assert_allclose(study.means(0), facts["decile_wb_before"], **CLOSE)
    np.testing.assert_allclose(study.means(10), facts["decile_wb_after"], **CLOSE)
    np.testing.assert_allclose(study.reweighting.history[:, :3], facts["history"], **CLOSE)
    assert all(row.ok for row in hannun21_deciles.rows(study))


def test_mnist_has_the_classes_the_pictures_and_the_overlap_of_the_text(mnist):
    linear, logistic = mnist
    for study in mnist:
        assert all(row.ok for row in hannun21_images.class_rows(study))
        rows = hannun21_images.extreme_rows(study)
        assert [row.ok for row in rows] == [True, True, True, False]
        assert not hannun21.PaperReport("p", tuple(rows)).unexplained
    assert hannun21_images.overlap_row(linear, logistic).ours == 24
    rows = by_name(hannun21_images.heuristic_rows(linear))
    low = "Figure 4: a low η invariably implies a low loss"
    assert [name for name, row in rows.items() if not row.ok] == [f"{low}, by rank"]
    assert [name for name, row in rows.items() if row.weak] == [low]


def test_a_claim_of_6_4_does_not_hold_and_the_figures_say_so(papers_data):
    rows = by_name(hannun21_warfarin.rows(hannun21_warfarin.curves(papers_data)))
    name = "6.4: η̄ = 1e-3 protects against both with little degradation in MSE, λ = "
    assert "0.557 to 16.475" in rows[f"{name}0.01"].measured
    assert "0.724 to 0.827" in rows[f"{name}1"].measured
    protects = [row for key, row in rows.items() if key.startswith(name)]
    assert len(protects) == 5
    assert not any(row.ok for row in protects)
    assert all(row.ok for key, row in rows.items() if not key.startswith(name))


@pytest.mark.slow
def test_every_row_holds_or_is_answered(everything):
    report = everything.report
    assert not report.unexplained
    assert len(by_name(report.rows)) == len(report.rows) == 137
    assert sum(row.ok for row in report.rows) == 107


@pytest.mark.slow
def test_table_1_agrees_with_the_known_answers(everything, summary):
    rows = by_name(everything.report.rows)
    for name, known in SETS.items():
        for model in ("linear", "logistic"):
            facts = summary[f"{known}/{model}"]
            for kind, key, right in (("", "eta", "test_acc"), (" +IRFIL", "irfil15", "irfil_test_acc")):
                start = f"Table 1 {model} {name}{kind}"
                np.testing.assert_allclose(rows[f"{start} mean"].ours, facts[key]["mean"], **CLOSE)
                np.testing.assert_allclose(rows[f"{start} standard deviation"].ours, facts[key]["std_ddof1"], **CLOSE)
                np.testing.assert_allclose(rows[f"{start} accuracy"].ours, 100 * facts[right], **CLOSE)


@pytest.mark.slow
def test_only_known_differences_differ(everything):
    differs = {row.figure for row in everything.report.rows if not row.ok}
    assert {figure for figure in differs if figure.startswith("Table 1")} == {"Table 1 linear cifar mean"}
    rows = by_name(everything.report.rows)
    assert rows["6.1 rule for λ, logistic mnist: λ"].ours == pytest.approx(3e-3)
    assert rows["6.1 rule for λ, logistic cifar: λ"].ours == pytest.approx(2e-4)
    assert rows["6.2 overlap of the 100 largest η, cifar"].ours == 34


@pytest.mark.slow
def test_the_page_shows_every_figure_and_loads_nothing(everything):
    text = page(everything)
    assert [figure.name for figure in everything.figures] == [f"Figure {k}" for k in range(2, 8)]
    page_text = text
    for script in chart_scripts():
        assert f"<script>{script}</script>" in text
        page_text = page_text.replace(f"<script>{script}</script>", "")
    assert page_text.count('class="chart"') == 4 + 2 + 1 + 4 + 4
    assert page_text.count("data:image/png") == 64
    assert page_text.count("<script") == page_text.count('<script type="application/json">') == 15
    # The only address is the name of Vega-Lite's schema, which nothing fetches.
    assert "http" not in page_text.replace(SCHEMA, "").replace("http-equiv", "")


@pytest.mark.slow
def test_the_command_writes_both_and_exits_with_0(papers_data, tmp_path):
    where = ["--json", str(tmp_path / "h.json"), "--html", str(tmp_path / "h.html"), "--quiet"]
    result = CliRunner().invoke(
        app, ["reproduce", "hannun21", "--data", str(papers_data), *where], standalone_mode=False
    )
    assert result.return_value == 0
    rows = json.loads((tmp_path / "h.json").read_text())["rows"]
    assert all(row["ok"] or row["why"] for row in rows)
    assert (tmp_path / "h.html").read_text().startswith("<!doctype html>")
