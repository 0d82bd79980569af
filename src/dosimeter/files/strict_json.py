"""JSON from an untrusted file: duplicate keys, NaN and Infinity, which the standard library accepts, are refused."""

from __future__ import annotations

import json
from typing import Any

from dosimeter.core.errors import Refusal


def parse(text: str) -> Any:
    """The value of a JSON text; a ValueError if it is not JSON, a Refusal for duplicate keys, NaN and Infinity.

    >>> parse('{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> parse('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    dosimeter.core.errors.Refusal: duplicate key 'a'
    """
    return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise Refusal(f"duplicate key {key[:40]!r}")
        values[key] = value
    return values


def _refuse_constant(name: str) -> Any:
    raise Refusal(f"{name} is not a number")
