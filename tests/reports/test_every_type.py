"""Every registered result type renders in all four forms, and to JSON and back."""

from __future__ import annotations

import json
from html import unescape

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.reports.document import document
from dosimeter.reports.terminal import to_text
from dosimeter.results import ledger as ledger_results
from dosimeter.results.reproduction import PaperRow, ReproductionReport
from dosimeter.results.result import Result, load_types, read

RNG = np.random.default_rng(3)
PEOPLE = {"age": RNG.normal(50, 10, 60), "sex": ["f", "m"] * 30, "who": [f"p{k // 2}" for k in range(60)]}
PEOPLE["dose"] = 0.1 * np.asarray(PEOPLE["age"]) + RNG.normal(0, 1, 60)


@pytest.fixture(scope="module")
def every(results, tmp_path_factory) -> dict[str, Result]:
    """Schema name -> a result of that type."""
    folder = tmp_path_factory.mktemp("types")
    model = folder / "model.json"
    model.write_text(json.dumps({"rows": [[1.0, 2.0], [3.0, 4.0]]}))
    made: list[Result] = [*results[0].values(), dm.scan(model)]
    without = {name: column for name, column in PEOPLE.items() if name != "who"}
    made.append(dm.attack(without, "dose", column="sex", scale=1.0, trials=5))
    row = PaperRow(figure="Table 1", paper=0.5, ours=0.5, tolerance=0.01, ok=True, state="ok")
    made.append(ReproductionReport(name="paper", rows=[row]))
    release = dm.fix(PEOPLE, "dose", person="who", max_dose=0.5, even_if_useless=True)
    again = dm.fix(PEOPLE, "dose", person="who", max_dose=0.5, even_if_useless=True)
    with dm.Ledger.create(folder / "ledger.db", ["fil=2"]) as ledger:
        ledger.book(release, name="june")
        ledger.book(again, name="july")
        made += [
            ledger_results.LedgerCreated.of(ledger, "ledger.db"),
            ledger_results.LedgerReleases.of(ledger),
            ledger_results.PersonAnswer.of(ledger, "p7"),
            ledger_results.LedgerBudgets.of(ledger),
            ledger_results.LedgerComparison.of(ledger, "june", "july"),
            ledger_results.LedgerVerified.of(ledger.verify()),
            ledger_results.PersonErased.of(ledger, ledger.erase("p8")),
            ledger_results.BookedRelease.of("fix", release.recipe, {"booked": False}),
        ]
    return {type(result).schema_name: result for result in made}


def test_there_is_a_sample_of_every_registered_type(every) -> None:
    assert set(every) == set(load_types())


@pytest.mark.parametrize("schema", sorted(load_types()))
def test_it_renders_as_page_terminal_notebook_and_card_and_reads_back(every, schema: str) -> None:
    result = every[schema]
    for edition in ("external", "internal"):
        report = document(result, edition)
        assert report.verdict.text
        page = result.to_html(edition)
        assert page.startswith("<!doctype html>")
        assert report.title in unescape(page)
    assert document(result, "internal").verdict.text[:20] in " ".join(to_text(result).split())
    assert "<details" in result._repr_html_() or "<p" in result._repr_html_()
    assert document(result, "external").verdict.text[:10] in result.to_card().replace("\\", "")
    assert read(json.loads(result.to_json())).to_dict() == result.to_dict()


@pytest.mark.parametrize("schema", sorted(load_types()))
def test_a_notebook_shows_a_report_in_its_own_edition(every, schema: str) -> None:
    """An external report that showed internal figures would be saved with the notebook."""
    result = every[schema]
    for edition in ("external", "internal"):
        report = dm.report(result, edition=edition)
        own, other = (document(result, e) for e in (edition, "internal" if edition == "external" else "external"))
        shown = unescape(report._repr_html_())
        assert own.verdict.text[:40] in shown
        assert own.says in shown
        assert own.says == other.says or other.says not in shown
        assert repr(report).startswith(f"<Report of a {type(result).__name__}, {edition} edition")
