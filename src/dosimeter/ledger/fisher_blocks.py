"""Kept Fisher blocks: how they are marked, stored, read back by person, and what they save of a sum.

A block is stored under a mark of what it is about, an HMAC under the ledger's secret: a plain hash of a row's values
could be searched for likely ones.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any

import numpy as np
from sqlalchemy import Connection, insert, select

from dosimeter.core.accounts import AccountShare
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Tampered
from dosimeter.core.fisher_block import FisherBlock, SummedFisherBlocks
from dosimeter.core.nano_units import checked_total
from dosimeter.ledger import schema
from dosimeter.ledger.pseudonyms import Keys
from dosimeter.ledger.records import amount_of, bytes_of, text_of

AT_ONCE = 100
"""Rows at a time: a block can have 320 kB."""
Marker = Callable[[FisherBlock], str]
Piles = dict[str, SummedFisherBlocks]
"""Mark -> the blocks about the same unknowns, added."""
Row = tuple[bytes, str, bytes]
"""Pseudonym, mark, the matrix's bytes."""


def marker(keys: Keys) -> Marker:
    """How this ledger marks what a block is about."""
    secret = keys.ring("secret")
    return lambda block: hmac.digest(secret, b"unknowns" + block.identity, "sha256").hex()


def rows_of(part: AccountShare, pseudonyms: Mapping[str, bytes], mark: Marker) -> list[Row]:
    """What is stored of a part's blocks, in the order of the pseudonyms."""
    if not part.blocks:
        return []
    people = (pseudonyms[person] for person, _ in part.rows)
    return sorted((who, mark(b), b.data) for who, b in zip(people, part.blocks, strict=True))


def digest_of_blocks(rows: Iterable[Row]) -> str:
    """SHA-256 over pseudonym, mark, length and bytes, in the order of the pseudonyms as the caller gives them."""
    made = sha256()
    for pseudonym, mark, data in rows:
        made.update(pseudonym + bytes.fromhex(mark) + len(data).to_bytes(8, "big"))
        made.update(data)
    return made.hexdigest()


def keep(connection: Connection, part: int, rows: Sequence[Row]) -> None:
    """Write the blocks of a part."""
    for start in range(0, len(rows), AT_ONCE):
        some = rows[start : start + AT_ONCE]
        values = [{"part": part, "pseudonym": who, "unknowns": mark, "data": data} for who, mark, data in some]
        connection.execute(insert(schema.block), values)


def kept(connection: Connection, part: int) -> Iterator[Row]:
    """The blocks of a part, in the order of the pseudonyms."""
    b = schema.block.c
    query = select(b.pseudonym, b.unknowns, b.data).where(b.part == part).order_by(b.pseudonym)
    with connection.execute(query.execution_options(yield_per=AT_ONCE)) as rows:
        for who, mark, data in rows:
            yield bytes_of(who, "a pseudonym"), text_of(mark, "a block"), bytes_of(data, "a block")


def piles(
    connection: Connection, account: str, pseudonyms: Sequence[bytes] | None = None
) -> Iterator[tuple[bytes, Piles]]:
    """The blocks of these people (None: of everybody) in one account, person by person; who has none is left out."""
    if connection.execute(_blocks(account).limit(1)).first() is None:
        return
    if pseudonyms is None:
        yield from _piled(connection, account, None)
        return
    for start in range(0, len(pseudonyms), AT_ONCE):
        yield from _piled(connection, account, pseudonyms[start : start + AT_ONCE])


def _blocks(account: str) -> Any:
    b, d, p = schema.block.c, schema.dose.c, schema.part.c
    return (
        select(b.pseudonym, b.part, b.unknowns, b.data, d.amount)
        .join_from(schema.block, schema.part, b.part == p.id)
        .join(schema.dose, (d.part == b.part) & (d.pseudonym == b.pseudonym))
        .where(p.account == account)
    )


def _piled(connection: Connection, account: str, some: Sequence[bytes] | None) -> Iterator[tuple[bytes, Piles]]:
    b = schema.block.c
    query = _blocks(account).order_by(b.pseudonym, b.part)
    if some is not None:
        query = query.where(b.pseudonym.in_(some))
    with connection.execute(query.execution_options(yield_per=AT_ONCE)) as rows:
        for who, mine in groupby(rows, key=lambda row: bytes_of(row.pseudonym, "a pseudonym")):
            found: Piles = {}
            for row in mine:
                one = SummedFisherBlocks(_matrix(bytes_of(row.data, "a block"), row.part), amount_of(row.amount))
                found[row.unknowns] = _onto(found.get(row.unknowns), one)
            yield who, found


def _onto(pile: SummedFisherBlocks | None, one: SummedFisherBlocks) -> SummedFisherBlocks:
    if pile is None:
        return one
    if pile.matrix.shape != one.matrix.shape:
        raise Tampered("two blocks about the same unknowns have unlike sizes: altered or damaged")
    return pile + one


def _matrix(data: bytes, part: int) -> FloatArray:
    m = math.isqrt(len(data) // 8)
    values = np.frombuffer(data, "<f8") if len(data) == 8 * m * m and m else np.array([np.nan])
    if not np.isfinite(values).all():
        raise Tampered(f"a block of part {part} cannot be read: altered or damaged")
    return values.astype(np.float64).reshape(m, m)


def saved(found: Piles) -> int:
    """How much less than the sum of amounts a person's total is."""
    return sum(pile.saving for pile in found.values())


def totals_with(
    connection: Connection,
    known: Mapping[str, bytes],
    parts: Sequence[AccountShare],
    spent: Mapping[str, int],
    mark: Marker,
) -> tuple[dict[str, int], dict[str, int]]:
    """Totals by person before and after these parts of one account; `spent` holds the sums of amounts.

    Somebody without blocks that go together is in neither beyond what the sums say.
    """
    people = {known[person]: person for part in parts for person, _ in part.rows if person in known}
    added = {person: amount for part in parts for person, amount in part.rows}
    new = {person: b for part in parts if part.blocks for (person, _), b in zip(part.rows, part.blocks, strict=True)}
    before, after = dict(spent), {}
    for who, found in piles(connection, parts[0].account.text, list(people)):
        person = people[who]
        before[person] = spent[person] - saved(found)
        if person in new:
            name = mark(new[person])
            if name in found:
                found = {**found, name: _onto(found[name], SummedFisherBlocks(new[person].matrix, added[person]))}
        after[person] = checked_total(spent[person] + added[person]) - saved(found)
    return before, after
