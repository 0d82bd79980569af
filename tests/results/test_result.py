"""What --json writes is the schema: every verb, every field, every mark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest

from dosimeter import Refusal
from dosimeter.cli.main import run
from dosimeter.results.editions import table
from dosimeter.results.result import Result, fields, json_schema, load_types, read, undeclared
from dosimeter.results.visibility import ResultModel, public
from tests.reports.samples import SAMPLES, sample
from tests.reports.verbs import commands

VERBS = list(commands(Path()))
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("verb", VERBS)
def test_what_a_verb_writes_is_its_schema_and_nothing_is_left_over(printed, verb):
    values = printed[0][verb]
    result = read(values)
    assert type(result) is load_types()[values["schema"]]
    assert undeclared(values) == []
    assert result.to_dict() == values


@pytest.mark.parametrize("name", list(SAMPLES))
def test_a_result_is_read_back_as_it_was_written(name):
    result = read(sample(name))
    assert read(json.loads(result.to_json())) == result


@pytest.mark.parametrize("verb", VERBS)
def test_the_exported_json_schema_accepts_what_a_verb_writes(printed, verb):
    validate = pytest.importorskip("jsonschema").Draft202012Validator(json_schema()).validate
    validate(printed[0][verb])
    broken = json.loads(json.dumps(printed[0][verb]))
    broken["version"] = 7
    with pytest.raises(Exception, match="not valid under any"):
        validate(broken)


def test_every_field_says_to_which_edition_it_belongs_and_why():
    marks = [(path, mark) for model in load_types().values() for path, mark in fields(model)]
    assert len(marks) > 400
    assert [path for path, mark in marks if mark is None] == []
    assert all(mark.why for _, mark in marks)


def test_the_json_schema_carries_the_marks():
    doses = json_schema()["$defs"]["Doses"]["properties"]
    assert doses["highest"]["x-edition"] == "internal"
    assert doses["highest"]["x-why"]
    assert json_schema()["$defs"]["LinearModel"]["properties"]["l2"]["x-edition"] == "public"


def test_a_field_that_is_missing_from_the_schema_is_listed():
    values = sample("measurement", nearest=1.0)
    values["model"] = {**values["model"], "weights": [1.0]}
    assert undeclared(values) == ["model.weights", "nearest"]


def test_fields_of_a_model_without_a_mark_are_found():
    class Careless(ResultModel):
        text: Annotated[str, public("a word")]
        slipped: str

    assert [path for path, mark in fields(Careless) if mark is None] == ["slipped"]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "no field schema"),
        ({"schema": 3}, "no field schema"),
        ({"schema": "dosimeter.labels/1"}, "this version reads dosimeter.labels/3"),
        ({"schema": "dosimeter.measurement/3"}, "does not fit dosimeter.measurement/3"),
        ({"schema": "x\x1b[31m" * 99}, "not known here"),
    ],
)
def test_what_is_no_result_is_refused_in_one_line(values, text):
    with pytest.raises(Refusal, match=text) as refusal:
        read(values)
    assert str(refusal.value).isprintable()


def test_a_refusal_quotes_no_value_of_the_result():
    with pytest.raises(Refusal, match="people") as refusal:
        read(sample("measurement", people="secret-7391"))
    assert "7391" not in str(refusal.value)


@pytest.mark.parametrize("value", [float("nan"), "12 people"])
def test_numbers_are_numbers(value):
    values = sample("measurement")
    values["dose"]["typical"] = value
    with pytest.raises(Refusal, match=r"dose\.typical"):
        read(values)


def test_fields_that_are_set_later_are_in_the_json():
    result = read(sample("linear release"))
    booked = result.with_fields(artefact="ab" * 32, useless=True)
    assert booked.to_dict() == {**result.to_dict(), "artefact": "ab" * 32, "useless": True}
    assert not result.shows("artefact")


def test_a_result_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        read(sample("measurement")).people = 3


def test_the_schema_and_the_version_are_always_written():
    class Small(Result):
        text: Annotated[str, public("a word")]

    assert set(Small(text="a").to_dict()) == {"schema", "version", "text"}


def test_the_page_on_editions_has_the_table_of_the_schema():
    """docs/reference/results.md is made by editions.table(); a field that changes its edition changes the page."""
    page = (ROOT / "docs" / "reference" / "results.md").read_text(encoding="utf-8")
    assert table() in page


def test_the_command_line_prints_the_schema(capsys):
    assert run(["report", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


def test_an_amount_that_no_float_holds_does_not_fit():
    values = sample("linear release")
    values["dose"]["before"] = 10**400
    with pytest.raises(Refusal, match=r"dose.before.*beyond the largest"):
        read(values)


@pytest.mark.parametrize("name", list(SAMPLES))
def test_a_result_has_a_short_repr_and_prints_as_its_report(name):
    result = read(sample(name))
    assert len(repr(result)) < 160
    assert str(result) == result.to_text()
