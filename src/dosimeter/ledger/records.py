"""What a database gave, as the values that were written into it, or `Tampered`.

SQLite keeps any kind of value in any column, and a flipped bit of a record's header makes a number a NULL.
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
_EVERY = {"kind": _TEXT, "time": _TEXT, "seq": _COUNT, "salts": _COUNT, "erased": _COUNT}
_OF_KIND: dict[str, dict[str, Any]] = {
    "opened": {"uuid": _TEXT, "key": _TEXT, "budgets": list},
    "budget": {"budgets": list, "note": _TEXT},
    "erasure": {"count": _COUNT},
    "key": {},
    "release": {
        "name": _TEXT, "recipe": dict, "artefact": _TEXT, "size": _COUNT, "note": _TEXT, "to": _TEXT,
        "override": _TEXT, "parts": list,
    },
}  # fmt: skip
_PART = {"account": _TEXT, "standing": _TEXT, "uncovered": list, "people": _COUNT, "rows": _TEXT}


def altered(what: str) -> Tampered:
    """One line about a record."""
    return Tampered(f"{what} cannot be read: altered or damaged")


def text_of(value: Any, what: str) -> str:
    """A text of ASCII, as the chain's columns are."""
    if not isinstance(value, str) or not value.isascii():
        raise altered(what)
    return value


def amount_of(value: Any, what: str = "an amount") -> int:
    """Whole nano-units. A sum over a value that is no number is no whole number either: SQLite makes it a float."""
    if type(value) is not int or not 0 <= value <= MOST:
        raise altered(what)
    return value


def sum_of(total: Any, gaps: Any) -> int:
    """A sum of amounts, of which `gaps` were NULL and not added."""
    if gaps != 0:
        raise altered("an amount")
    # PostgreSQL's sum of whole numbers is a Decimal.
    return amount_of(int(total) if type(total).__name__ == "Decimal" else total, "a sum of amounts")


def bytes_of(value: Any, what: str) -> bytes:
    """A pseudonym, a block or an artefact."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise altered(what)
    return bytes(value)


def account_of(value: Any) -> Account:
    """The account that a row names."""
    try:
        return Account.of_text(text_of(value, "the account of a part"))
    except Tampered:
        raise
    except Refusal:
        raise altered("the account of a part") from None


def budgets_of(body: Mapping[str, Any]) -> tuple[LedgerLimit, ...]:
    """The limits that an entry sets."""
    try:
        return tuple(LedgerLimit(one["key"], float(one["limit"]), float(one["delta"])) for one in body["budgets"])
    except (AttributeError, LookupError, TypeError, ValueError):  # a Refusal is a ValueError
        raise altered(f"the budgets of entry {body['seq']}") from None


def body_of(value: Any, seq: Any) -> dict[str, Any]:
    """What the chain says in one entry, each field of the kind that was written."""
    what = f"entry {str(seq)[:20]}"
    try:
        body: Any = json.loads(text_of(value, what))
    except (ValueError, RecursionError):
        raise altered(what) from None
    kind = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind, str) or kind not in _OF_KIND:
        raise altered(what)
    _check(body, _EVERY | _OF_KIND[kind], what)
    if kind == "release":
        _check(body["recipe"], {"uncovered": list}, what)
        for part in body["parts"]:
            _check(part, _PART, what)
            if "event" not in part or not isinstance(part["event"], dict | None):
                raise altered(what)
            account_of(part["account"])
            standing_of(part)
    return dict(body)


def event_of(value: Any) -> str:
    """The canonical JSON of an event, which can be read: it was when it was booked."""
    try:
        events.event_of(json.loads(text_of(value, "an event")))
    except (ValueError, TypeError, RecursionError):
        raise altered("an event") from None
    return str(value)


def standing_of(part: Mapping[str, Any]) -> Standing:
    """The standing of a part."""
    try:
        return Standing(part["standing"])
    except ValueError:
        raise altered("the standing of a part") from None


def _check(held: Any, wanted: Mapping[str, Any], what: str) -> None:
    if not isinstance(held, dict):
        raise altered(what)
    for name, kind in wanted.items():
        value = held.get(name)
        if kind is _TEXT:
            fits = isinstance(value, str)
        elif kind is _COUNT:
            fits = type(value) is int and 0 <= value <= MOST
        else:
            fits = isinstance(value, kind)
        if not fits:
            raise altered(what)
    if not all(isinstance(one, str) for one in held.get("uncovered", ())):
        raise altered(what)
