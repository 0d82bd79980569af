"""A ledger's refusal in words: how many would pass which limit, and the ways out, computed. Internal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dosimeter.cli.show import number

if TYPE_CHECKING:
    from dosimeter.core.accounts import LimitViolation
    from dosimeter.workflows.person_doses import BookingRequest

SHOWN = 5
OVERRIDE = '--override "reason" (recorded)'
KEEPS = 1 - 1e-6
"""A figure that is handed out is below the room by this much, so that rounding cannot bring it above."""


def down(value: float) -> float:
    """Three digits, never above `value`.

    >>> down(0.11499), down(0.3), down(0.0)
    (0.114, 0.299, 0.0)
    """
    kept = value * KEEPS
    if not kept > 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(kept)) - 2)
    return float(f"{math.floor(kept / step) * step:.3g}")


def facts_of(over: LimitViolation) -> dict[str, Any]:
    """One limit that would be passed, in plain values."""
    return {
        "account": over.account.text,
        "budget": str(over.budget),
        "people": over.people,
        "totals": list(over.totals),
        "room": over.room,
    }


def lines_of(over: Sequence[LimitViolation], given: BookingRequest, again: str = "") -> tuple[str, ...]:
    """What would be passed, a line for each limit, and the ways out. again: the verb that would make it once more."""
    lines = [f"refused: {_passed(one)}. Nothing was written." for one in over]
    ways = list(dict.fromkeys(way for one in over if (way := _noise(one, given, again))))
    n = max(one.people for one in over)
    if n < _everybody(given):
        ways.append(f"drop {'that person' if n == 1 else f'the {n} people'} and refit")
    return (*lines, "ways out: " + " · ".join([*ways, OVERRIDE]))


def _everybody(given: BookingRequest) -> int:
    """How many people the release is about: without all of them there is nothing to refit."""
    return len({who for dose in given.doses for who in dose.ids})


def _passed(one: LimitViolation) -> str:
    who = "1 person" if one.people == 1 else f"{one.people} people"
    if one.account.unit == "client":
        who = "1 client" if one.people == 1 else f"{one.people} clients"
    totals = ", ".join(map(number, one.totals[:SHOWN])) + (", …" if one.people > SHOWN else "")
    budget, key = one.budget, one.account.key
    limit = f"{budget.limit:g}" + {"leakage": " nats", "eps": f" at δ = {budget.delta:g}"}.get(key, "")
    return f"{who} would pass {key} {limit} ({totals}; {one.account.measured_in})"


def _noise(one: LimitViolation, given: BookingRequest, again: str) -> str:
    """More noise, as an option of the verb that made the release; "" where no noise is enough."""
    key, verb = one.account.key, given.verb
    room = down(one.room)
    if key in ("fil", "mu") and one.share > 0 and verb == "fix":
        room = down(_highest(one, given) * math.sqrt(one.share))
        option = f"--max-dose {room:g} (adds noise)"
    elif room <= 0:
        return f"more noise is not enough: somebody has no {key} left"
    elif key in ("fil", "mu"):
        option = f"--epsilon lower, until no {one.account.symbol} is above {room:g} (adds noise)"
    elif key == "leakage":
        option = f'--budget "{room:g} nats" (adds noise)'
    else:
        option = f"--epsilon {room:g} --delta {one.budget.delta:g} (about what is left; adds noise)"
    return f"{again} {option}".strip()


def _highest(one: LimitViolation, given: BookingRequest) -> float:
    from dosimeter.core.dose import Dose

    of = [
        dose.reading
        for dose in given.doses
        if isinstance(dose, Dose)
        and (dose.notion.symbol, dose.measured_in) == (one.account.symbol, one.account.measured_in)
    ]
    return float(np.max(np.concatenate(of)))
