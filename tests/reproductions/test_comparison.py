"""A row agrees within the printed precision, or says why not."""

from __future__ import annotations

import numpy as np

from dosimeter.datasets.papers import Split
from dosimeter.reproductions.comparison import PaperReport, Row, claim, weak
from dosimeter.reproductions.hannun21 import in_principal_components, targets


def test_a_row_that_differs_without_a_reason_is_unexplained():
    rows = (Row("a", 1.0, 1.04, 0.05), Row("b", 1.0, 1.06, 0.05), Row("c", 1.0, 2.0, 0.05, why="misprint"))
    assert [row.ok for row in rows] == [True, False, False]
    assert PaperReport("p", rows).unexplained == (rows[1],)
    assert PaperReport("p", rows).to_dict()["rows"][2] == {
        "figure": "c", "paper": 1.0, "ours": 2.0, "tolerance": 0.05, "why": "misprint",
        "measured": "", "ok": False,
    }  # fmt: skip


def test_the_components_are_those_of_a_singular_value_decomposition():
    rng = np.random.default_rng(0)
    X, Z = rng.random((80, 30)), rng.random((20, 30))
    split = in_principal_components(Split(X, np.zeros(80), Z, np.zeros(20)))
    unit, test = X / np.linalg.norm(X, axis=1).max(), Z / np.linalg.norm(Z, axis=1).max()
    _, s, V = np.linalg.svd(unit - unit.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(np.sort(np.linalg.norm(split.X, axis=0))[::-1], s[:20], rtol=1e-10)
    projected = (test - unit.mean(axis=0)) @ V[:20].T
    np.testing.assert_allclose(split.X_test @ split.X_test.T, projected @ projected.T, atol=1e-10)


def test_signed_targets_are_minus_one_and_one():
    assert targets(np.array([0.0, 1.0]), signed=True).tolist() == [-1.0, 1.0]
    assert targets(np.array([0.0, 1.0]), signed=False).tolist() == [0.0, 1.0]


def test_a_claim_that_does_not_hold_is_unexplained_until_it_says_why():
    lost, explained = claim("a", False, "0.3 against 0.2"), claim("a", False, "0.3 against 0.2", "judged by eye")
    assert PaperReport("p", (claim("b", True, ""), lost, explained)).unexplained == (lost,)
    assert (lost.paper, lost.ours) == (1.0, 0.0)


def test_a_weak_row_says_so_and_is_counted_separately():
    row = weak(claim("a", True, "13.3 <= 20"), "a bound on a bound")
    assert (row.ok, row.weak, row.state) == (True, True, "ok, weak")
    assert row.to_dict()["measured"] == "weak: a bound on a bound; 13.3 <= 20"
    assert claim("b", True, "measured").state == "ok"
    assert weak(claim("a", False, ""), "x").state == "unexplained"


def test_a_note_about_all_rows_is_in_the_json():
    assert PaperReport("p", ()).to_dict() == {"name": "p", "rows": []}
    assert PaperReport("p", (), "a smoke test").to_dict() == {"name": "p", "note": "a smoke test", "rows": []}
