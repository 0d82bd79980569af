"""A stranger's JSON: what the standard library lets pass is refused."""

from __future__ import annotations

import json

import pytest

from dosimeter.core.errors import Refusal
from dosimeter.files.strict_json import parse


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '[{"b": {"c": 1, "c": 1}}]', "NaN", '{"a": -Infinity}', "[Infinity]"]
)
def test_what_the_standard_library_lets_pass_is_refused(text):
    json.loads(text)  # it does let it pass
    with pytest.raises(Refusal):
        parse(text)


@pytest.mark.parametrize("text", ['{"a": [1, 2.5, null, true, "é"]}', "[]", '{"a": {"a": {"a": 1}}}'])
def test_plain_json_is_read_as_it_is(text):
    assert parse(text) == json.loads(text)


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "1 2"])
def test_what_is_no_json_is_a_value_error(text):
    with pytest.raises(json.JSONDecodeError):
        parse(text)
