"""[Saeidian21] reproduced: the rows that need no data, the parts that make them, and the command."""

from __future__ import annotations

import json
import math
from itertools import product

import mpmath
import numpy as np
import pytest

from dosimeter.cli.main import run
from dosimeter.pate.bounds import data_independent_bound
from dosimeter.reproductions import saeidian21
from dosimeter.reproductions.html_page import page
from dosimeter.reproductions.saeidian21_examples import PRINTED
from dosimeter.reproductions.saeidian21_histograms import consensus, histograms, majorises, printed_b1
from dosimeter.reproductions.saeidian21_mnist import TeacherStudy, gradients


@pytest.fixture(scope="module")
def result():
    return saeidian21.reproduction()


def test_every_row_holds_or_says_why(result):
    assert result.report.unexplained == ()
    differ = [row.figure for row in result.report.rows if not row.ok]
    assert [name.split(":")[0] for name in differ] == [
        "Example 14 v = (3, 3, 3, 2)",  # truncated in print
        "Theorem 10, Remark 11",
        "V",
        "V",
    ]


def test_the_printed_numbers_are_those_of_the_paper(result):
    rows = {row.figure: row for row in result.report.rows}
    assert PRINTED == {(4, 3, 2, 1): 0.085, (5, 2, 2, 1): 0.084, (5, 3, 1, 1): 0.0837, (5, 3, 2, 0): 0.0835}
    assert rows["Example 14 log B1"].paper == rows["Example 17 log B1, L = 11"].paper == 0.0861
    assert rows["Example 17 log B2 at (4, 3, 2, 1)"].paper == 0.681
    assert rows["Example 17 log B2 at (90, 5, 5, 0)"].paper == 0.00105
    # Every tolerance is half of the last digit printed, not a wider one.
    for row in result.report.rows:
        if row.paper not in (0.0, 1.0) and row.tolerance:
            digits = f"{row.paper:.2e}"
            assert row.tolerance == pytest.approx(0.005 * 10 ** int(digits.split("e")[1]))


def test_the_truncated_number_is_what_quadrature_gives(result, monkeypatch):
    """v⁻ = (3, 3, 2, 2), γ = 0.1, by the m integrals of eq. 45 in thirty digits."""
    (row,) = [row for row in result.report.rows if row.figure == "Example 14 v = (3, 3, 3, 2)"]
    monkeypatch.setattr(mpmath.mp, "dps", 30)
    g, v = mpmath.mpf("0.1"), (3, 3, 2, 2)

    def pdf(x):
        return g / 2 * mpmath.exp(-g * abs(x))

    def cdf(x):
        return mpmath.exp(g * x) / 2 if x < 0 else 1 - mpmath.exp(-g * x) / 2

    def win(j):
        w = [c + (k == j) for k, c in enumerate(v)]
        kinks = sorted({mpmath.mpf(c) for c in w})
        return mpmath.quad(
            lambda s: pdf(s - w[j]) * mpmath.fprod(cdf(s - w[k]) for k in range(4) if k != j),
            [-mpmath.inf, -50, *kinks, 50, 150, mpmath.inf],
        )

    assert float(mpmath.log(sum(win(j) for j in range(4)))) == pytest.approx(row.ours, rel=1e-12)
    assert math.floor(row.ours * 1e4) / 1e4 == row.paper


def test_every_histogram_is_listed_once():
    all_histograms = list(histograms(7, 3))
    by_brute_force = {tuple(sorted(v, reverse=True)) for v in product(range(8), repeat=3) if sum(v) == 7}
    assert len(all_histograms) == len(set(all_histograms))
    assert set(all_histograms) == by_brute_force


def test_majorisation_is_that_of_transfers_from_rich_to_poor():
    """Whatever one vote moved from a larger count to a smaller one reaches is majorised by the start."""
    start, reached, waiting = (6, 2, 1), set(), [(6, 2, 1)]
    while waiting:
        v = waiting.pop()
        for i, j in product(range(3), repeat=2):
            if v[i] >= v[j] + 2:
                w = list(v)
                w[i], w[j] = w[i] - 1, w[j] + 1
                w = tuple(sorted(w, reverse=True))
                if w not in reached:
                    reached.add(w)
                    waiting.append(w)
    assert {v for v in histograms(9, 3) if majorises(start, v)} == reached | {start}


def test_eq_17_as_printed_is_accurate_at_moderate_sizes_and_useless_at_large_ones():
    assert printed_b1(10, 0.1) == pytest.approx(data_independent_bound(10, 0.1), rel=1e-12)
    lost = abs(printed_b1(10_000, 1e-4) / data_independent_bound(10_000, 1e-4) - 1)
    assert lost > 1e-8  # why the product does not use it


def test_the_curve_of_consensus_falls_and_stays_below_its_bounds():
    share, curves = consensus(40, 4, 0.1)
    assert (share[0], share[-1]) == (0.25, 1.0)
    assert (np.diff(curves["exact"]) < 0).all()
    for name in ("log B1", "log B2", "log B3 (ours)"):
        assert (curves["exact"] <= curves[name] * (1 + 1e-12)).all()


def test_the_page_has_every_row_and_two_figures(result):
    text = page(result)
    assert text.count('class="chart"') == 4
    assert "Leakage against consensus" in text
    assert all(row.figure.split(" v⁻")[0][:12] in text for row in result.report.rows)


def test_the_command_needs_no_data_for_the_examples(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("DOSIMETER_DATA", raising=False)
    assert run(["reproduce", "saeidian21", "--json", "-", "-q", "--html", str(tmp_path / "p.html")]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == len(saeidian21.reproduction().report.rows)
    assert (tmp_path / "p.html").read_text().startswith("<!doctype html>")
    assert run(["reproduce", "saeidian21", "--quick", "--data", "nowhere", "-q"]) == 0
    assert run(["reproduce", "saeidian21", "--data", "nowhere", "-q"]) == 2


def test_the_feature_map_is_fixed_and_independent_of_brightness():
    images = np.random.default_rng(0).random((5, 28, 28))
    table = gradients(images)
    assert table.shape == (5, 392)
    np.testing.assert_allclose(np.linalg.norm(table, axis=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(gradients(0.5 * images), table, atol=1e-6)
    np.testing.assert_array_equal(gradients(images, block=2), table)
    # Vertical stripes vary only across: all the weight is in the first direction.
    stripes = np.tile(np.sin(np.arange(28.0)), (1, 28, 1))
    assert np.square(gradients(stripes)[0, :49]).sum() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.slow
@pytest.mark.paper
def test_mnist_end_to_end(papers_data):
    result = saeidian21.reproduction(papers_data)
    assert result.report.unexplained == ()
    mnist = [row for row in result.report.rows if "MNIST" in row.figure]
    assert len(mnist) == 8
    assert all(row.ok for row in mnist)
    assert len(result.figures) == 4


@pytest.mark.paper
def test_ten_teachers_on_some_of_mnist_vote_better_than_each_alone(papers_data, monkeypatch):
    """The same steps in seconds: 2,400 images, ten teachers, 200 queries."""
    from dosimeter.datasets.digits import mnist
    from dosimeter.reproductions import saeidian21_mnist as module

    monkeypatch.setattr(module, "TEACHERS", 10)
    monkeypatch.setattr(module, "QUERIES", 200)
    monkeypatch.setattr(module, "WEAK_QUERIES", 100)
    monkeypatch.setattr(module, "SIZES", (50, 200))
    monkeypatch.setattr(module, "GAMMAS", (0.02, 0.2))
    X, y, X_test, y_test = mnist(papers_data)
    assert X.shape == (60000, 28, 28)
    assert np.bincount(y).tolist()[:3] == [5923, 6742, 5958]
    study = TeacherStudy(X[:2400], y[:2400], X_test[:600], y_test[:600], n_jobs=1)
    vote = study.votes.counts.argmax(axis=1)
    assert np.mean(vote == study.truth) > np.mean(study.votes.values == study.truth)
    # Ten votes against noise of scale 5 and more: totals are near their bounds and never above.
    for g, nats in study.doses.items():
        assert len(nats) == 2400
        assert nats.max() <= 200 * g
    assert len(module.rows(study)) == 5
