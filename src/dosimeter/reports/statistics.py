"""Statistics of doses that a user chose to publish: over ten people or more, two digits, with a warning.

At least ten on both sides. A group is left out if it, or everyone outside the groups shown, is smaller: those could be
found by subtraction. A quantile is left out if fewer people lie above it. The ends of a histogram are open, because an
edge next to the highest dose is nearly that person's figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dosimeter.results.linear_parts import GroupFigures
from dosimeter.results.parts import SMALLEST, Distribution
from dosimeter.results.to_json import JsonObject

WARNING = (
    "These statistics of doses are computed from the data without protection: no figure in this report covers them. "
    f"Groups of fewer than {SMALLEST} are left out or merged, and numbers have two digits."
)
FEW = f"fewer than {SMALLEST}"
PLURAL = {"row": "rows", "person": "people", "teacher": "teachers"}


def warned(statistics: JsonObject) -> JsonObject:
    """The statistics that have a value, under the warning."""
    return {"says": WARNING, **{name: value for name, value in statistics.items() if value not in (None, [], "")}}


def rounded(value: Any) -> Any:
    """Two significant digits.

    >>> rounded(0.08696), rounded(442), rounded("unbounded")
    (0.087, 440, 'unbounded')
    """
    if isinstance(value, str):
        return value
    short = float(f"{value:.1e}")
    return int(short) if isinstance(value, int) else short


def counted(some: int, whole: int) -> Any:
    """How many of the whole, rounded. If they or the others are fewer than SMALLEST, only that is said.

    >>> counted(61, 442), counted(3, 442), counted(440, 442), counted(0, 442)
    (61, 'fewer than 10', 'all but fewer than 10', 0)
    """
    if 0 < some < SMALLEST:
        return FEW
    return f"all but {FEW}" if 0 < whole - some < SMALLEST else rounded(some)


def score(name: str | None, value: float | None) -> str | None:
    """A score with its name, rounded."""
    return None if value is None else f"{name} {rounded(value):g}"


def size(doses: Distribution | None) -> int:
    """How many were counted."""
    return 0 if doses is None else sum(doses.counts) + doses.zero


def histogram(doses: Distribution) -> list[JsonObject]:
    """Bins of SMALLEST or more: neighbours are merged from below, and the first and the last are open.

    >>> doses = Distribution(of="η", unit="person", edges=[1.0, 2.0, 4.0, 8.0], counts=[12, 3, 9], zero=0, limit=None)
    >>> histogram(doses)
    [{'doses': 'below 2', 'people': 12}, {'doses': 'from 2', 'people': 12}]
    """
    bins: list[tuple[float | None, float | None, int]] = []
    held, start = doses.zero, None
    for end, count in zip(doses.edges[1:], doses.counts, strict=True):
        held += count
        if held >= SMALLEST:
            bins.append((start, end, held))
            start, held = end, 0
    if not bins:
        return []
    low, _, people = bins[-1]
    bins[-1] = (low, None, people + held)
    many = PLURAL[doses.unit]
    return [{"doses": _between(low, high), many: rounded(people)} for low, high, people in bins]


def _between(low: float | None, high: float | None) -> str:
    ends = [f"from {rounded(low):g}"] if low is not None else []
    ends += [f"{'to' if ends else 'below'} {rounded(high):g}"] if high is not None else []
    return " ".join(ends) or "any"


def groups(figures: Sequence[GroupFigures], people: int) -> list[JsonObject]:
    """Groups of at least SMALLEST people. The smallest kept group of a column is dropped until the people outside the
    kept groups are none or also at least SMALLEST."""
    kept = []
    for column in dict.fromkeys(group.column for group in figures):
        mine = sorted((group for group in figures if group.column == column), key=lambda group: -group.people)
        mine = [group for group in mine if group.people >= SMALLEST]
        while mine and 0 != people - sum(group.people for group in mine) < SMALLEST:
            mine.pop()
        kept += [_group(group) for group in mine]
    return kept


def _group(group: GroupFigures) -> JsonObject:
    row = {
        "column": group.column,
        "group": group.end or group.group,
        "people": rounded(group.people),
        "median": rounded(group.median),
    }
    enough = group.people >= 100 * SMALLEST
    return {**row, "worst_1_percent": rounded(group.worst_1_percent)} if enough else row
