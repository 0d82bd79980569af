"""Sentences that the verdicts of several results share."""

from __future__ import annotations

from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text

BIT = "that the limit was kept is itself read off the data (one bit): not covered"
UNLISTED = "their classes were read off the private table and not listed in advance (not covered)"
CHOSEN = "the scale was chosen from the data: not covered"


def change(unit: str, neighbours: str) -> str:
    """What distinguishes two neighbouring tables. A unit or a relation that is not known is refused.

    >>> change("row", "replace-one"), change("client", "add-or-remove-one")
    ('one row replaced', 'one client added or removed')
    """
    relations = {"replace-one": "replaced", "add-or-remove-one": "added or removed"}
    units = {"row": "row", "client": "client", "person": "person, with all their rows,"}
    if unit not in units:
        raise Refusal(f"unit {safe_text(unit)}: known here are {', '.join(units)}")
    if neighbours not in relations:
        raise Refusal(f"neighbours {safe_text(neighbours)}: known here are {', '.join(relations)}")
    return f"one {units[unit]} {relations[neighbours]}"


def figure(value: Any) -> str:
    """Three digits, or the word for what has no bound."""
    return value if isinstance(value, str) else f"{value:.3g}"
