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


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" * 400, "-" + "9" * 5000, "1" + "0" * 309])
def test_a_number_beyond_float64_is_refused(number):
    """json gives infinity for 1e999, and an integer of any length that no float holds."""
    with pytest.raises(Refusal, match="beyond float64"):
        parse(f'{{"a": [{number}]}}')
    assert parse("[1e308, 170141183460469231731687303715884105728, -0.0]")[1] == 2**127
