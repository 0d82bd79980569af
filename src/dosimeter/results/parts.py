"""Facts that several verbs share: how doses spread, who carries most, an attack's result, the booking, the command."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from dosimeter.results.visibility import (
    GIVEN,
    LOCAL,
    ONE,
    STATISTIC,
    TOTALS,
    WORDS,
    Amount,
    ResultModel,
    internal,
    public,
)

HEAD = public("names the entry in the ledger; people stand in it as salted codes")


Artefact = Annotated[str, public("SHA-256 of the released file, which whoever has the file can take")]
"""Hex; "" where no file was written."""


class BookingRecord(ResultModel):
    """The ledger's entry of a release."""

    name: Annotated[str, HEAD]
    seq: Annotated[int, HEAD]
    head: Annotated[str, HEAD]


class Distribution(ResultModel):
    """How doses spread: counts in bins that are equally wide in the log coordinate."""

    of: Annotated[str, WORDS]
    """What was counted: "η", "η over the typical", "nats"."""
    unit: Annotated[str, WORDS]
    edges: Annotated[list[float], STATISTIC]
    """(bins + 1,) ascending, above 0."""
    counts: Annotated[list[int], STATISTIC]
    """(bins,)."""
    zero: Annotated[int, STATISTIC]
    """How many have no dose at all: zero has no place on a log axis."""
    limit: Annotated[float | None, GIVEN]


class Ranked(ResultModel):
    """One of those who carry most."""

    rank: Annotated[int, ONE]
    row: Annotated[int, ONE]
    """The number of their first row in the file, from 1."""
    dose: Annotated[Amount, ONE]
    """The dose; of an exact release the multiple of the typical one."""
    over_typical: Annotated[Amount, ONE]
    id: Annotated[str | None, ONE] = None
    """With --show-ids only."""


class AttackSummary(ResultModel):
    """What an attack got, its interval, and what somebody gets who never saw the release."""

    attack: Annotated[str, STATISTIC]
    measure: Annotated[str, STATISTIC]
    figure: Annotated[float, STATISTIC]
    low: Annotated[float, STATISTIC]
    high: Annotated[float, STATISTIC]
    level: Annotated[float, STATISTIC]
    control: Annotated[float, STATISTIC]
    beats_control: Annotated[bool, STATISTIC]
    standing: Annotated[str, STATISTIC]


class Provenance(ResultModel):
    """How to do it again."""

    version: Annotated[str, WORDS]
    command: Annotated[str, GIVEN]
    """Files stand as their kind (TABLE), and so does every text that could hold data."""
    python: Annotated[str, LOCAL] = ""
    libraries: Annotated[dict[str, str], LOCAL] = Field(default_factory=dict)
    table: Annotated[str, internal("a fingerprint of the table is a function of the table")] = ""
    """SHA-256 of the table's file, hex."""


Refused = Annotated[list[dict[str, Any]], TOTALS]
"""Limits of the ledger that the release would have passed."""
Booking = Annotated[BookingRecord | Literal[False], HEAD]
