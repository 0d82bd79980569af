"""DP events as plain values and back: a closed list of classes, so that a stranger's file names no module to import."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dosimeter.core.errors import Refusal

_FIELDS: dict[str, dict[str, str]] = {
    "NoOpDpEvent": {},
    "GaussianDpEvent": {"noise_multiplier": "scale"},
    "LaplaceDpEvent": {"noise_multiplier": "scale"},
    "DiscreteLaplaceDpEvent": {"noise_parameter": "scale", "sensitivity": "count"},
    "RandomizedResponseDpEvent": {"noise_parameter": "probability", "num_buckets": "count"},
    "ComposedDpEvent": {"events": "events"},
    "SelfComposedDpEvent": {"event": "event", "count": "count"},
    "PoissonSampledDpEvent": {"sampling_probability": "probability", "event": "event"},
    "SampledWithoutReplacementDpEvent": {"source_dataset_size": "count", "sample_size": "count", "event": "event"},
}
_DEEPEST = 16


def plain_of(event: Any) -> dict[str, Any]:
    """An event of dp-accounting as a plain dict, by its own `to_named_tuple`; refused where the list lacks its class.

    >>> from dp_accounting import GaussianDpEvent
    >>> plain_of(GaussianDpEvent(2.0))
    {'class': 'GaussianDpEvent', 'noise_multiplier': 2.0}
    """
    if not hasattr(event, "to_named_tuple"):
        raise Refusal(f"{type(event).__name__} is not an event of dp-accounting")
    plain = _plain(event.to_named_tuple())
    event_of(plain)
    return plain


def event_of(plain: Any) -> Any:
    """The event that `plain_of` wrote; anything else is refused.

    >>> event_of({"class": "GaussianDpEvent", "noise_multiplier": 2.0})
    GaussianDpEvent(noise_multiplier=2.0)
    """
    return _event(plain, _DEEPEST)


def is_number(given: Any) -> bool:
    """A finite number that a float holds: no bool, no text, no whole number of a thousand digits."""
    if type(given) is int:
        return abs(given) < 2**1000
    return type(given) is float and math.isfinite(given)


def _plain(packed: Any) -> dict[str, Any]:
    name = str(packed.class_name)
    if name not in _FIELDS:
        raise Refusal(f"an event of class {name} cannot be booked: no accountant here reads it")
    out: dict[str, Any] = {"class": name}
    for field, kind in _FIELDS[name].items():
        value = getattr(packed, field)
        if kind == "event":
            out[field] = _plain(value)
        elif kind == "events":
            out[field] = [_plain(one) for one in value]
        else:
            out[field] = int(value) if kind == "count" else float(value)
    return out


def _event(plain: Any, depth: int) -> Any:
    from dp_accounting import dp_event

    if depth == 0:
        raise Refusal(f"an event nested more than {_DEEPEST} deep")
    if not isinstance(plain, Mapping) or not isinstance(plain.get("class"), str) or plain["class"] not in _FIELDS:
        raise Refusal("not an event that the ledger knows")
    name, fields = plain["class"], _FIELDS[plain["class"]]
    if set(plain) != {"class", *fields}:
        raise Refusal(f"an event {name} has the fields {', '.join(fields) or 'none'}, and no others")
    values: dict[str, Any] = {}
    for field, kind in fields.items():
        given = plain[field]
        if kind == "event":
            values[field] = _event(given, depth - 1)
        elif kind == "events":
            if not isinstance(given, list):
                raise Refusal(f"an event {name} composes a list")
            values[field] = [_event(one, depth - 1) for one in given]
        else:
            values[field] = _number(name, field, kind, given)
    return getattr(dp_event, name)(**values)


def _number(name: str, field: str, kind: str, given: Any) -> float | int:
    if kind == "count":
        if type(given) is not int or not 1 <= given <= 10**9:
            raise Refusal(f"{field} of an event {name} must be a whole number >= 1, not {str(given)[:40]}")
        return given
    if not is_number(given):
        raise Refusal(f"{field} of an event {name} must be a finite number, not {str(given)[:40]}")
    x = float(given)
    if x < 0 or (kind == "scale" and x == 0) or (kind == "probability" and x > 1):
        raise Refusal(f"{field} of an event {name} is {x!r}: " + ("above 0" if kind == "scale" else "in [0, 1]"))
    return x
