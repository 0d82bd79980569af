"""The schema file of a consortium: what it refuses, and what its digest covers."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.tables.consortium_schema import schema_of

SCHEMA: dict[str, Any] = {
    "study": "readmission",
    "person": "id",
    "target": "y",
    "loss": "logistic",
    "l2": 0.01,
    "release": {"name": "r1", "max-dose": 1.0},
    "columns": {"age": {"lower": 18, "upper": 100}, "y": {"levels": ["no", "yes"]}},
    "sites": [{"name": "north", "certificate": "a" * 64}, {"name": "south", "certificate": "b" * 64}],
}


def changed(*path: Any, value: Any) -> dict[str, Any]:
    tables = deepcopy(SCHEMA)
    place = tables
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return tables


WRONG = [
    (("losss",), "logistic", "did you mean loss"),
    (("loss",), "softmax", "use squared, logistic, poisson"),
    (("loss",), "squared", "declare lower and upper"),
    (("l2",), -1, "0 or more"),
    (("l2",), float("nan"), "give a number"),
    (("target",), "z", "declare the target"),
    (("person",), "age", "is the person column"),
    (("release",), {"name": "r1"}, "needs a limit"),
    (("release",), {"name": "r1", "max-dose": 1, "scale": 1}, "needs a limit"),
    (("release", "noise"), "cauchy", "use gaussian or laplace"),
    (("columns", "age"), {"lower": 3, "upper": 1}, "not below upper"),
    (("columns", "y"), {"levels": ["no"]}, "one level"),
    (("sites",), [{"name": "north", "certificate": "a" * 64}], "two sites or more"),
    (("sites", 1, "certificate"), "b", "has no certificate"),
    (("sites", 1, "certificate"), "a" * 64, "same certificate"),
    (("sites", 1, "name"), "north", "same name"),
]


@pytest.mark.parametrize(("path", "value", "text"), WRONG)
def test_a_wrong_key_is_refused_in_one_line(path: tuple[Any, ...], value: Any, text: str) -> None:
    with pytest.raises(Refusal, match=text) as stop:
        schema_of(changed(*path, value=value))
    assert "\n" not in str(stop.value)


def test_cox_is_refused_with_the_reason() -> None:
    with pytest.raises(CannotMeasure, match="risk sets join the rows of all sites"):
        schema_of(changed("loss", value="cox"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("l2",), 0.02),
        (("release", "max-dose"), 2.0),
        (("columns", "age", "upper"), 101),
        (("columns", "y", "levels"), ["yes", "no"]),
        (("sites", 0, "certificate"), "c" * 64),
        (("study",), "another"),
    ],
)
def test_everything_that_is_agreed_is_in_the_digest(path: tuple[Any, ...], value: Any) -> None:
    assert schema_of(SCHEMA).digest == schema_of(deepcopy(SCHEMA)).digest
    assert schema_of(changed(*path, value=value)).digest != schema_of(SCHEMA).digest
