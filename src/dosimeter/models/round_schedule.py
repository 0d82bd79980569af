"""Listed rounds, as a person writes them: rounds, clients a round and noise multiplier of one part after another."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.federated.accountant import Spend, Spending, rounds_of

LEAST_NOISE, MOST_NOISE = 0.05, 1e4
MOST_ROUNDS = 1 << 20
MOST_PARTS = 1000
"""Each costs the accountant a composition."""
HOW = "write ROUNDSxCLIENTS:NOISE by commas, such as 10x50:1.1,20x200:1.6"
_PART = re.compile(r"\s*([0-9]{1,9})\s*[x×]\s*([0-9.eE+-]{1,30})\s*:\s*([0-9.eE+-]{1,30})\s*")


def listed_rounds(schedule: str | Sequence[Any] | None) -> Spending:
    """The parts of a schedule, from "ROUNDSxCLIENTS:NOISE,..." or from (rounds, m, z) triples; () for None.

    >>> listed_rounds("10x50:1.1, 20x200:1.6")
    (Spend(per_round=50.0, noise=1.1, rounds=10), Spend(per_round=200.0, noise=1.6, rounds=20))
    >>> listed_rounds([(10, 50, 1.1)])
    (Spend(per_round=50.0, noise=1.1, rounds=10),)
    """
    if schedule is None:
        return ()
    triples = _from_text(schedule) if isinstance(schedule, str) else list(schedule)
    if not 1 <= len(triples) <= MOST_PARTS:
        raise Refusal(f"{option('schedule')}: it has {len(triples)} parts; {HOW}, at most {MOST_PARTS} parts")
    parts = tuple(_part(triple) for triple in triples)
    if rounds_of(parts) > MOST_ROUNDS:
        raise Refusal(f"{option('schedule')}: {rounds_of(parts)} rounds are more than {MOST_ROUNDS}")
    return parts


def as_text(parts: Spending) -> str:
    """The schedule as it is written; "" for none.

    >>> as_text(listed_rounds("10x50:1.1,1x2.5:2"))
    '10x50:1.1,1x2.5:2'
    """
    return ",".join(f"{s.rounds}x{s.per_round:.12g}:{s.noise:.12g}" for s in parts)


def _from_text(text: str) -> list[Any]:
    matches = [_PART.fullmatch(part) for part in text.split(",")]
    if None in matches:
        raise Refusal(f"{option('schedule', safe_text(text, 60))}: {HOW}")
    return [match.groups() for match in matches if match is not None]


def _part(triple: Any) -> Spend:
    try:
        rounds, m, z = triple
        times, expected, noise = int(rounds), float(m), float(z)
    except (TypeError, ValueError):
        raise Refusal(f"{option('schedule')}: {safe_text(triple, 60)} is no part of one; {HOW}") from None
    if times != float(rounds) or not 1 <= times <= MOST_ROUNDS:
        raise Refusal(f"{option('schedule')}: {safe_text(rounds)} rounds; give a whole number from 1 to {MOST_ROUNDS}")
    if not math.isfinite(expected) or expected <= 0:
        raise Refusal(f"{option('schedule')}: {safe_text(m)} clients a round; give a number above 0")
    if not LEAST_NOISE <= noise <= MOST_NOISE:
        raise Refusal(f"{option('schedule')}: noise {safe_text(z)}; give one from {LEAST_NOISE:g} to {MOST_NOISE:g}")
    return Spend(expected, noise, times)
