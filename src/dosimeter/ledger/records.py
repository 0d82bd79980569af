"""Values read from the database, checked for their type; `Tampered` if they cannot be what was written.

SQLite stores any type in any column, and a flipped bit in the header of a record turns a number into NULL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dosimeter.core import dp_events as events
from dosimeter.core.accounts import Account, LedgerLimit
from dosimeter.core.errors import Refusal, Tampered
from dosimeter.core.nano_units import MOST
from dosimeter.core.notion import Standing

_TEXT, _COUNT = "a text", "a count"
_FIELDS = {"kind": _TEXT, "time": _TEXT, "seq": _COUNT, "salts": _COUNT, "erased": _COUNT}
_FIELDS_OF_KIND: dict[str, dict[str, Any]] = {
    "opened": {"uuid": _TEXT, "key": _TEXT, "budgets": list},
    "budget": {"budgets": list, "note": _TEXT},
    "erasure": {"count": _COUNT},
    "key": {},
    "release": {
        "name": _TEXT, "recipe": dict, "artefact": _TEXT, "size": _COUNT, "note": _TEXT, "to": _TEXT,
        "override": _TEXT, "parts": list,
    },
}  # fmt: skip
_FIELDS_OF_PART = {"account": _TEXT, "standing": _TEXT, "uncovered": list, "people": _COUNT, "rows": _TEXT}


def integrity_error(subject: str) -> Tampered:
    """The error for a record that was altered or damaged."""
    return Tampered(f"{subject} cannot be read: altered or damaged")


def read_text(value: Any, subject: str) -> str:
    """ASCII text, as in the columns of the chain."""
    if not isinstance(value, str) or not value.isascii():
        raise integrity_error(subject)
    return value


def read_amount(value: Any, subject: str = "an amount") -> int:
    """A whole number of nano-units. SQLite turns a sum over anything else into a float, which is refused too."""
    if type(value) is not int or not 0 <= value <= MOST:
        raise integrity_error(subject)
    return value


def read_sum(total: Any, nulls: Any) -> int:
    """A sum of amounts; refused if some (`nulls`) were NULL and therefore not added."""
    if nulls != 0:
        raise integrity_error("an amount")
    # In PostgreSQL the sum of integers is a Decimal.
    return read_amount(int(total) if type(total).__name__ == "Decimal" else total, "a sum of amounts")


def read_bytes(value: Any, subject: str) -> bytes:
    """The bytes of a pseudonym, a block or an artefact."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise integrity_error(subject)
    return bytes(value)


def read_account(value: Any) -> Account:
    """The account that a row names."""
    try:
        return Account.of_text(read_text(value, "the account of a part"))
    except Tampered:
        raise
    except Refusal:
        raise integrity_error("the account of a part") from None


def read_budgets(body: Mapping[str, Any]) -> tuple[LedgerLimit, ...]:
    """The limits that an entry sets."""
    try:
        return tuple(
            LedgerLimit(limit["key"], float(limit["limit"]), float(limit["delta"])) for limit in body["budgets"]
        )
    except (AttributeError, LookupError, TypeError, ValueError):  # a Refusal is a ValueError
        raise integrity_error(f"the budgets of entry {body['seq']}") from None


def read_body(value: Any, seq: Any) -> dict[str, Any]:
    """The body of an entry, with the type of each field checked."""
    subject = f"entry {str(seq)[:20]}"
    try:
        body: Any = json.loads(read_text(value, subject))
    except (ValueError, RecursionError):
        raise integrity_error(subject) from None
    kind = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind, str) or kind not in _FIELDS_OF_KIND:
        raise integrity_error(subject)
    _check(body, _FIELDS | _FIELDS_OF_KIND[kind], subject)
    if kind == "release":
        _check(body["recipe"], {"uncovered": list}, subject)
        for part in body["parts"]:
            _check(part, _FIELDS_OF_PART, subject)
            if "event" not in part or not isinstance(part["event"], dict | None):
                raise integrity_error(subject)
            read_account(part["account"])
            read_standing(part)
    return dict(body)


def read_event(value: Any) -> str:
    """The canonical JSON of an event, which must still be readable, as it was when booked."""
    try:
        events.event_from_dict(json.loads(read_text(value, "an event")))
    except (ValueError, TypeError, RecursionError):
        raise integrity_error("an event") from None
    return str(value)


def read_standing(part: Mapping[str, Any]) -> Standing:
    """The standing of a part."""
    try:
        return Standing(part["standing"])
    except ValueError:
        raise integrity_error("the standing of a part") from None


def _check(record: Any, types: Mapping[str, Any], subject: str) -> None:
    if not isinstance(record, dict):
        raise integrity_error(subject)
    for name, kind in types.items():
        value = record.get(name)
        if kind is _TEXT:
            fits = isinstance(value, str)
        elif kind is _COUNT:
            fits = type(value) is int and 0 <= value <= MOST
        else:
            fits = isinstance(value, kind)
        if not fits:
            raise integrity_error(subject)
    if not all(isinstance(text, str) for text in record.get("uncovered", ())):
        raise integrity_error(subject)
