"""Pages that answer a questionnaire: only what was computed is claimed, and only what is public stands outside."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.cli.main import run
from dosimeter.reports.document import document
from dosimeter.reports.layout import Grid


@pytest.fixture(scope="module")
def own():
    rng = np.random.default_rng(1)
    n = 60
    people = {"age": rng.normal(5000, 1000, n), "ward": rng.choice(["north", "south"], n)}
    people["cost"] = people["age"] / 7 + rng.normal(0, 50, n)
    queries = {"age": [4000.0, 6000.0], "ward": ["north", "south"]}
    measured = dm.measure(people, target="cost", noise=dm.Gaussian(1.0)).result(limit=1000.0)
    answers = dm.measure(
        people, target="cost", noise=dm.Gaussian(30.0), release="predictions", queries=queries
    ).result()
    attack = dm.attack(people, "cost", column="ward", scale=1.0, trials=20)
    return {"measured": measured, "answers": answers, "attack": attack}


def answered(page):
    return {heading for heading, computed in page.figures["points"].items() if computed}


def test_one_result_answers_its_own_points_alone(own):
    page = dm.report(own["measured"], template="edpb").document
    assert answered(page) == {
        "Extraction from the model", "Means reasonably likely to be used", "Design and training", "What is not covered",
    }  # fmt: skip
    assert page.verdict.text.startswith("4 of 9 points have a computed answer.")
    queries = next(section for section in page.sections if section.heading == "Queries")
    assert "Not computed" in queries.parts[1].text
    assert "--release predictions" in queries.parts[2].text


@pytest.mark.parametrize("edition", ["internal", "external"])
def test_a_release_names_its_noise_and_its_limit_as_measures(results, edition):
    # The external edition withholds a scale that was found in the data, and had then named no measure at all.
    result = results[0]["fix"]
    page = dm.report(result, template="edpb", edition=edition).document
    (design,) = [section for section in page.sections if section.heading == "Design and training"]
    (grid,) = [part for part in design.parts if isinstance(part, Grid)]
    measures = {row[1]: row[2] for row in grid.rows}
    assert measures["highest dose (η) allowed"] == str(result.limit)
    assert measures["noise"].startswith(result.law)
    assert ("scale withheld" in measures["noise"]) == (edition == "external")


def test_more_results_answer_more_points(own):
    page = dm.report(own["measured"], template="edpb", also=[own["answers"], own["attack"]]).document
    assert answered(page) >= {"Queries", "Tests against attacks", "Extraction from the model"}
    assert "Sources, minimisation and legal basis" not in answered(page)


def test_the_external_page_holds_no_measured_number(own):
    others = [own["answers"], own["attack"]]
    inside, outside = (
        dm.report(own["measured"], template="edpb", also=others, edition=edition)
        for edition in ("internal", "external")
    )
    digits = re.compile(r"\d+\.\d{4,}")
    measured = {f"{value:.12g}" for value in (own["measured"].dose.highest, own["attack"].inversion.figure)}
    assert any(value[:6] in json.dumps(dict(inside.document.figures)) for value in measured)
    text = json.dumps(dict(outside.document.figures)) + outside.html
    assert not any(value[:8] in text for value in measured)
    reports = [document(result, "external").figures for result in own.values()]
    assert set(digits.findall(json.dumps(dict(outside.document.figures)))) <= set(digits.findall(json.dumps(reports)))
    assert "anonymous is for its controller" in outside.html


def test_rounds_of_a_training_are_listed_with_their_epsilon(results):
    result = results[0]["federate"]
    page = dm.report(result, template="aisvs").document
    assert answered(page) == {"12.3.1", "12.3.3"}
    (grid,) = [part for section in page.sections for part in section.parts if isinstance(part, Grid)]
    assert [row[1] for row in grid.rows] == list(result.by_round.epsilon)
    assert [row[0] for row in grid.rows] == list(result.by_round.round)
    assert {row[2] for row in grid.rows} == {result.guarantee.delta}


def test_a_model_without_differential_privacy_claims_none(own):
    page = dm.report(own["measured"], template="aisvs").document
    assert answered(page) == {"12.3.3"}
    assert "ε =" not in page.verdict.text


def test_the_command_line_takes_several_results(own, tmp_path, capsys):
    paths = {name: tmp_path / f"{name}.json" for name in own}
    for name, result in own.items():
        paths[name].write_text(result.to_json())
    command = ["report", str(paths["measured"]), "--template", "edpb", "--also", str(paths["answers"]), "--also"]
    assert run([*command, str(paths["attack"]), "--out", str(tmp_path / "page.html")]) == 0
    assert "6 of 9 points" in capsys.readouterr().out.replace("\n  ", " ")
    assert "Opinion 28/2024" in (tmp_path / "page.html").read_text()
    for wrong in (["--template", "gdpr"], ["--also", str(paths["attack"])], ["--template", "edpb", "--card", "c.md"],
                  ["--template", "edpb", "--statistics"]):  # fmt: skip
        assert run(["report", str(paths["measured"]), "--out", str(tmp_path / "no.html"), *wrong]) == 2
    assert not (tmp_path / "no.html").exists()
