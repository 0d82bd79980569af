"""JSON from an untrusted file, stricter than the standard library.

Duplicate keys, NaN, Infinity and numbers beyond float64 are refused.
"""

from __future__ import annotations

import json
import math
from typing import Any

from dosimeter.core.errors import Refusal


def parse(text: str) -> Any:
    """The value of a JSON text; a ValueError if it is not JSON, a Refusal for what the module refuses.

    >>> parse('{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> parse('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    dosimeter.core.errors.Refusal: duplicate key 'a'
    """
    return json.loads(
        text,
        object_pairs_hook=_unique_keys,
        parse_constant=_refuse_constant,
        parse_int=_integer,
        parse_float=_number,
    )


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise Refusal(f"duplicate key {key[:40]!r}")
        values[key] = value
    return values


def _refuse_constant(name: str) -> Any:
    raise Refusal(f"{name} is not a number")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        shown = text if len(text) < 20 else f"a number of {len(text)} digits"
        raise Refusal(f"{shown} is beyond float64, whose largest is 1.8e308")
    return number


def _integer(text: str) -> int:
    _number(text)  # int() of thousands of digits is slow, and float64 decides
    return int(text)
