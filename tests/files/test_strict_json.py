"""Untrusted JSON: what the standard library accepts against the standard is refused."""

from __future__ import annotations

import json

import pytest

from dosimeter.core.errors import Refusal
from dosimeter.files.strict_json import parse


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '[{"b": {"c": 1, "c": 1}}]', "NaN", '{"a": -Infinity}', "[Infinity]"]
)
def test_what_only_the_standard_library_accepts_is_refused(text):
    json.loads(text)  # accepted
    with pytest.raises(Refusal):
        parse(text)


@pytest.mark.parametrize("text", ['{"a": [1, 2.5, null, true, "é"]}', "[]", '{"a": {"a": {"a": 1}}}'])
def test_valid_json_is_read(text):
    assert parse(text) == json.loads(text)


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "1 2"])
def test_invalid_json_is_a_value_error(text):
    with pytest.raises(json.JSONDecodeError):
        parse(text)
