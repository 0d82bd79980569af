"""Statistics of doses that somebody asked to publish: groups of ten or more, two digits, and a sentence with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WARNING = (
    "These statistics of doses are computed from the data without protection: no figure in this report covers them. "
    "Groups below ten people are left out or merged, and numbers have two digits."
)


def statistics(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What may be added on request, under the sentence that says what it is."""
    return {"says": WARNING}
