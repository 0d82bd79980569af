"""Parts that several results share: the distribution of doses, the most exposed, attacks, bookings, provenance."""

from __future__ import annotations

from typing import Annotated, Literal

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

Adjacency = Literal["replace-one", "add-or-remove-one"]
SMALLEST = 10
"""Groups below this many people are not shown: their median is nearly one person's figure."""
HEAD = public("names the entry in the ledger; people stand in it as salted codes")


Artefact = Annotated[str, public("SHA-256 of the released file, which anyone who has the file can compute")]
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
    """What an attack got, its interval, and what a guess without the release gets."""

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


class PassedLimit(ResultModel):
    """A limit of the ledger that the release would have passed."""

    account: Annotated[str, TOTALS]
    budget: Annotated[str, TOTALS]
    people: Annotated[int, TOTALS]
    totals: Annotated[list[float], TOTALS]
    room: Annotated[float, TOTALS]


Refused = Annotated[list[PassedLimit], TOTALS]
Booking = Annotated[BookingRecord | Literal[False], HEAD]
