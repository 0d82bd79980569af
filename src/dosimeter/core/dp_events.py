"""DP events to dicts and back, for a closed list of classes: an untrusted file cannot name a module to import."""

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
_MAX_DEPTH = 16


def event_to_dict(event: Any) -> dict[str, Any]:
    """An event of dp-accounting as a plain dict; refused if its class is not on the list.

    >>> from dp_accounting import GaussianDpEvent
    >>> event_to_dict(GaussianDpEvent(2.0))
    {'class': 'GaussianDpEvent', 'noise_multiplier': 2.0}
    """
    if not hasattr(event, "to_named_tuple"):
        raise Refusal(f"{type(event).__name__} is not an event of dp-accounting")
    fields = _to_dict(event.to_named_tuple())
    event_from_dict(fields)
    return fields


def event_from_dict(fields: Any) -> Any:
    """The event that `event_to_dict` encoded; anything else is refused.

    >>> event_from_dict({"class": "GaussianDpEvent", "noise_multiplier": 2.0})
    GaussianDpEvent(noise_multiplier=2.0)
    """
    return _event(fields, _MAX_DEPTH)


def is_number(value: Any) -> bool:
    """Whether the value is a finite number that fits into a float: no bool, no text, no integer of 1000 bits."""
    if type(value) is int:
        return abs(value) < 2**1000
    return type(value) is float and math.isfinite(value)


def _to_dict(named_tuple: Any) -> dict[str, Any]:
    name = str(named_tuple.class_name)
    if name not in _FIELDS:
        raise Refusal(f"an event of class {name} cannot be booked: no accountant here supports it")
    out: dict[str, Any] = {"class": name}
    for field, kind in _FIELDS[name].items():
        value = getattr(named_tuple, field)
        if kind == "event":
            out[field] = _to_dict(value)
        elif kind == "events":
            out[field] = [_to_dict(part) for part in value]
        else:
            out[field] = int(value) if kind == "count" else float(value)
    return out


def _event(encoded: Any, depth: int) -> Any:
    from dp_accounting import dp_event

    if depth == 0:
        raise Refusal(f"an event nested more than {_MAX_DEPTH} deep")
    if not isinstance(encoded, Mapping) or not isinstance(encoded.get("class"), str) or encoded["class"] not in _FIELDS:
        raise Refusal("not an event that the ledger supports")
    name, fields = encoded["class"], _FIELDS[encoded["class"]]
    if set(encoded) != {"class", *fields}:
        raise Refusal(f"an event {name} has the fields {', '.join(fields) or 'none'}, and no others")
    values: dict[str, Any] = {}
    for field, kind in fields.items():
        value = encoded[field]
        if kind == "event":
            values[field] = _event(value, depth - 1)
        elif kind == "events":
            if not isinstance(value, list):
                raise Refusal(f"the events of a {name} must be a list")
            values[field] = [_event(part, depth - 1) for part in value]
        else:
            values[field] = _number(name, field, kind, value)
    return getattr(dp_event, name)(**values)


def _number(name: str, field: str, kind: str, value: Any) -> float | int:
    if kind == "count":
        if type(value) is not int or not 1 <= value <= 10**9:
            raise Refusal(f"{field} of an event {name} must be a whole number >= 1, not {str(value)[:40]}")
        return value
    if not is_number(value):
        raise Refusal(f"{field} of an event {name} must be a finite number, not {str(value)[:40]}")
    x = float(value)
    if x < 0 or (kind == "scale" and x == 0) or (kind == "probability" and x > 1):
        allowed = "above 0" if kind == "scale" else "in [0, 1]"
        raise Refusal(f"{field} of an event {name} is {x!r}: it must be {allowed}")
    return x
