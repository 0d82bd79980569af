"""What --json prints is the schema: every verb, every field, every mark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest

from dosimeter import Refusal
from dosimeter.cli.main import run
from dosimeter.report import editions
from dosimeter.results import registry as schema
from dosimeter.results.visibility import ResultModel, public
from tests.report.verbs import commands

VERBS = list(commands(Path()))
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("verb", VERBS)
def test_what_a_verb_prints_is_its_schema_and_nothing_is_left_over(printed, verb):
    facts = printed[0][verb]
    assert isinstance(schema.read(facts), schema.KINDS[facts["schema"]])
    assert schema.unlisted(facts) == []


def test_every_schema_is_printed_by_some_verb(printed):
    assert {facts["schema"] for facts in printed[0].values()} == set(schema.KINDS)


@pytest.mark.parametrize("verb", VERBS)
def test_the_exported_json_schema_accepts_what_a_verb_prints(printed, verb):
    validate = pytest.importorskip("jsonschema").Draft202012Validator(schema.json_schema()).validate
    validate(printed[0][verb])
    broken = json.loads(json.dumps(printed[0][verb]))
    broken["version"] = 7
    with pytest.raises(Exception, match="not valid under any"):
        validate(broken)


def test_every_field_says_to_which_edition_it_belongs_and_why():
    found = [(path, mark) for model in schema.KINDS.values() for path, mark in schema.fields(model)]
    assert len(found) > 400
    assert [path for path, mark in found if mark is None] == []
    assert all(mark.why for _, mark in found)


def test_the_json_schema_carries_the_marks():
    told = schema.json_schema()["$defs"]["Doses"]["properties"]
    assert told["highest"]["x-edition"] == "internal"
    assert told["highest"]["x-why"]
    assert schema.json_schema()["$defs"]["LinearModel"]["properties"]["l2"]["x-edition"] == "public"


def test_a_field_that_is_missing_from_the_schema_is_seen(printed):
    facts = {**printed[0]["measure"], "nearest": 1.0}
    facts["model"] = {**facts["model"], "weights": [1.0]}
    assert schema.unlisted(facts) == ["model.weights", "nearest"]


def test_fields_of_a_model_without_a_mark_are_found():
    class Careless(ResultModel):
        told: Annotated[str, public("a word")]
        slipped: str

    assert [path for path, mark in schema.fields(Careless) if mark is None] == ["slipped"]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "no field schema"),
        ({"schema": 3}, "no field schema"),
        ({"schema": "dosimeter.pate/1"}, "this version reads dosimeter.pate/2"),
        ({"schema": "dosimeter.measurement/2"}, "do not fit dosimeter.measurement/2"),
        ({"schema": "x\x1b[31m" * 99}, "not known here"),
    ],
)
def test_what_is_no_result_is_refused_in_one_line(facts, words):
    with pytest.raises(Refusal, match=words) as refusal:
        schema.read(facts)
    assert str(refusal.value).isprintable()


def test_a_refusal_quotes_no_value_of_the_facts(printed):
    facts = {**printed[0]["measure"], "people": "secret-7391"}
    with pytest.raises(Refusal, match="people") as refusal:
        schema.read(facts)
    assert "7391" not in str(refusal.value)


@pytest.mark.parametrize("value", [float("nan"), "12 people"])
def test_numbers_are_numbers(printed, value):
    facts = json.loads(json.dumps(printed[0]["measure"]))
    facts["dose"]["typical"] = value
    with pytest.raises(Refusal, match=r"dose\.typical"):
        schema.read(facts)


def test_the_page_on_editions_has_the_table_of_the_schema():
    """docs/report-editions.md is made by editions.table(); a field that changes its edition changes the page."""
    page = (ROOT / "docs" / "report-editions.md").read_text(encoding="utf-8")
    assert editions.table() in page


def test_the_command_line_prints_the_schema(capsys):
    assert run(["report", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema.json_schema()
