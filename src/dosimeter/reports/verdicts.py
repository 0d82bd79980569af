"""Sentences that the verdicts of several results share."""

from __future__ import annotations

from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text

BIT = "that the limit was kept is itself read off the data (one bit): not covered"
UNLISTED = "their classes were read off the private table and not listed in advance (not covered)"
LARGEST_WRITTEN_OUT = 1e9
"""Figures below it are written with commas, not with a power of ten."""
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
    """Three digits, or the word for what has no bound.

    >>> figure(0.98765), figure(22_026.5), figure("unbounded")
    ('0.988', '22,000', 'unbounded')
    """
    if isinstance(value, str):
        return value
    digits = f"{value:.3g}"
    return f"{float(digits):,.0f}" if "e+" in digits and abs(value) < LARGEST_WRITTEN_OUT else digits


def budget_in_words(epsilon: Any, delta: float) -> str:
    """(ε, δ) without Greek letters, for the first sentence of a page.

    >>> budget_in_words(1.0, 1e-6)
    'epsilon 1 and delta 1e-06'
    """
    return f"epsilon {figure(epsilon)} and delta {delta:g}"
