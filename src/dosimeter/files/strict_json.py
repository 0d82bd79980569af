"""JSON from a stranger's file: a key given twice, NaN and Infinity are refused; the standard library takes them."""

from __future__ import annotations

import json
from typing import Any

from dosimeter.core.errors import Refusal


def parse(text: str) -> Any:
    """The value of a JSON text; a ValueError where it is none, a Refusal where it is more than JSON allows.

    >>> parse('{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> parse('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    dosimeter.core.errors.Refusal: a key is given twice
    """
    return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Refusal("a key is given twice")
    return found


def _no_constant(word: str) -> Any:
    raise Refusal(f"{word} is not a number")
