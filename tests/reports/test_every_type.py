"""Every registered result type renders in all four forms, and to JSON and back."""

from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.core.release import Recipe
from dosimeter.models.consortium_study import StudyOutcome
from dosimeter.reports.document import document
from dosimeter.reports.terminal import to_text
from dosimeter.results import ledger as ledger_results
from dosimeter.results.consortium import ConsortiumCreated, ConsortiumRelease, SiteRecord
from dosimeter.results.reproduction import PaperRow, ReproductionReport
from dosimeter.results.result import Result, load_types, read
from tests.models.consortium import schema_for

RNG = np.random.default_rng(3)
GREEK = re.compile("[α-ωΑ-Ω]")
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
    (folder / "sent").mkdir()
    (folder / "sent" / "model.json").write_text(model.read_text())
    made.append(dm.check(folder / "sent"))
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
    made += consortium_results()
    return {type(result).schema_name: result for result in made}


def consortium_results() -> list[Result]:
    """Of a study that has ended, of one of its sites, and of its creation."""
    figures = {"scale": 0.5, "chosen": True, "passes": 9, "rows": 60, "score_name": "accuracy", "score_base": 0.5,
               "score_before": 0.7, "parameters": 3, "not_covered": []}  # fmt: skip
    outcome = StudyOutcome(b"model", Recipe("weights", "Gaussian(sigma=0.5)"), figures)
    return [
        ConsortiumRelease.of(schema_for("logistic"), outcome, 0.65),
        SiteRecord(study="s", kind="model", name="r1", site=2, questions=9, released=True, booked=True, people=54),
        ConsortiumCreated(study="s", kind="model", host="127.0.0.1", port=8443, days=365, sites=["north", "south"],
                          certificates={"coordinator": "ab" * 32}, files=["CHECKLIST.md"], schema_sha256="cd" * 32),
    ]  # fmt: skip


def test_a_no_of_a_site_is_internal() -> None:
    """The external edition of a study that a site stopped says no more than that nothing was released."""
    result = ConsortiumRelease.of(schema_for("logistic"), StudyOutcome(refused=(2,)))
    internal, external = document(result, "internal"), document(result, "external")
    assert "site 2 answered no" in internal.verdict.text
    assert external.verdict.text == "Nothing was released."
    assert "said_no" not in json.dumps(external.figures)


def test_a_scale_that_was_found_in_the_data_is_withheld() -> None:
    """As for a release of one table."""
    result = consortium_results()[0]
    assert "sigma=0.5" in json.dumps(document(result, "internal").figures)
    assert "sigma=0.5" not in json.dumps(document(result, "external").figures)


def test_there_is_a_sample_of_every_registered_type(every) -> None:
    assert set(every) == set(load_types())


@pytest.mark.parametrize("schema", sorted(load_types()))
def test_it_renders_as_page_terminal_notebook_and_card_and_reads_back(every, schema: str) -> None:
    result = every[schema]
    for edition in ("external", "internal"):
        report = document(result, edition)
        assert report.verdict.text
        assert not GREEK.search(report.verdict.text + report.verdict.meaning)  # a first screen for any reader
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
