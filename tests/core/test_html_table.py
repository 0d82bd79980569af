"""What a notebook shows of doses, attacks and totals: figures, never an id, never markup."""

from __future__ import annotations

import numpy as np

import dosimeter as dm
from dosimeter.attacks import Scores
from dosimeter.core.dose import Dose
from dosimeter.core.html_table import html_table
from dosimeter.core.notion import FISHER

HOSTILE = "<script>alert(1)</script>"


def test_text_in_a_table_is_never_markup() -> None:
    shown = html_table(HOSTILE, [(HOSTILE, HOSTILE)])
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") == 3


def test_a_dose_shows_its_highest_figure_and_no_id() -> None:
    shown = Dose.of_figures(FISHER, "person", ["ann", HOSTILE], [0.25, 0.125], not_covered=(HOSTILE,))._repr_html_()
    assert "0.25" in shown
    assert "ann" not in shown.replace("standing", "").replace("standard", "")
    assert "<script" not in shown


def test_an_attack_shows_its_interval_beside_the_control() -> None:
    shown = Scores("membership", np.array([2.0, 3.0, 4.0]), np.array([1.0, 2.5, 0.0]))._repr_html_()
    assert "without the release" in shown
    assert "0.8889" in shown  # 8 of 9 pairs


def test_the_totals_of_a_ledger_show_how_near_the_limit_is(tmp_path) -> None:
    people = {"age": np.arange(40.0), "who": [f"canary-{k}" for k in range(40)], "y": np.arange(40.0) % 7}
    released = dm.fix(people, "y", person="who", max_dose=0.5, even_if_useless=True)
    with dm.Ledger.create(tmp_path / "ledger.db", ["fil=1"]) as ledger:
        ledger.book(released, name="june")
        (totals,) = ledger.totals()
        shown = totals._repr_html_()
    assert "<td>40</td>" in shown
    assert "fil=1" in shown
    assert "canary" not in shown
