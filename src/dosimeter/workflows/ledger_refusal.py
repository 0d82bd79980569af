"""A ledger's refusal in sentences: how many people would exceed which limit, and what can be done. Internal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dosimeter.results.parts import PassedLimit

if TYPE_CHECKING:
    from dosimeter.core.accounts import LimitViolation
    from dosimeter.workflows.released import Released

SHOWN = 5
OVERRIDE = '--override "reason" (recorded)'
KEEPS = 1 - 1e-6
"""A suggested figure is below the room by this factor, so that rounding cannot bring it above."""


def round_down(value: float) -> float:
    """Three digits, never above `value`.

    >>> round_down(0.11499), round_down(0.3), round_down(0.0)
    (0.114, 0.299, 0.0)
    """
    kept = value * KEEPS
    if not kept > 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(kept)) - 2)
    return float(f"{math.floor(kept / step) * step:.3g}")


def passed_limit(violation: LimitViolation) -> PassedLimit:
    """One limit that would be exceeded, as a part of the result."""
    return PassedLimit(
        account=violation.account.text,
        budget=str(violation.budget),
        people=violation.people,
        totals=list(violation.totals),
        room=violation.room,
    )


def ways_out(violations: Sequence[LimitViolation], released: Released[Any], again: str = "") -> tuple[str, ...]:
    """What would be exceeded, a line per limit, and what can be done. again: the verb that would make it once more."""
    lines = [f"refused: {_exceeded(violation)}. Nothing was written." for violation in violations]
    ways = list(dict.fromkeys(way for violation in violations if (way := _more_noise(violation, released, again))))
    n = max(violation.people for violation in violations)
    if n < _people(released):
        ways.append(f"drop {'that person' if n == 1 else f'the {n} people'} and refit")
    return (*lines, "ways out: " + " · ".join([*ways, OVERRIDE]))


def _people(released: Released[Any]) -> int:
    """How many people the release is about: without all of them there is nothing to refit."""
    return len({person for dose in released.doses for person in dose.ids})


def _exceeded(violation: LimitViolation) -> str:
    n = violation.people
    unit = ("client" if n == 1 else "clients") if violation.account.unit == "client" else "person"
    people = f"{n} {unit}" if unit != "person" else "1 person" if n == 1 else f"{n} people"
    totals = ", ".join(f"{total:.3g}" for total in violation.totals[:SHOWN]) + (", …" if n > SHOWN else "")
    limit = violation.budget.notion.limit(violation.budget.limit, violation.budget.delta)
    return f"{people} would pass {violation.account.key} {limit} ({totals}; {violation.account.measured_in})"


def _more_noise(violation: LimitViolation, released: Released[Any], again: str) -> str:
    """More noise, as an option of the verb that made the release; "" if no noise is enough."""
    notion = violation.account.notion
    room = round_down(violation.room)
    if not notion.no_noise_law and violation.share > 0 and released.verb == "fix":
        room = round_down(_highest(violation, released) * math.sqrt(violation.share))
        way = f"--max-dose {room:g} (adds noise)"
    elif room <= 0:
        return f"more noise is not enough: someone has no {notion.key} left"
    else:
        way = notion.more_noise.format(symbol=notion.symbol, room=room, delta=violation.budget.delta)
    return f"{again} {way}".strip()


def _highest(violation: LimitViolation, released: Released[Any]) -> float:
    from dosimeter.core.dose import Dose

    account = (violation.account.symbol, violation.account.measured_in)
    figures = [
        dose.figures
        for dose in released.doses
        if isinstance(dose, Dose) and (dose.notion.symbol, dose.measured_in) == account
    ]
    return float(np.max(np.concatenate(figures)))
