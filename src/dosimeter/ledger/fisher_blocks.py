"""Stored Fisher blocks: how they are identified, stored, summed by person, and how much they lower a total.

A block is stored under a mark that identifies its unknowns, an HMAC under the ledger's secret: a plain hash of a row's
values could be searched for likely values.
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
from dosimeter.core.nano_units import check_total
from dosimeter.ledger import schema
from dosimeter.ledger.pseudonyms import Keys
from dosimeter.ledger.records import read_amount, read_bytes, read_text

BATCH = 100
"""Rows at a time: a block can take 320 kB."""
Marker = Callable[[FisherBlock], str]
BlockSums = dict[str, SummedFisherBlocks]
"""Mark -> the sum of the blocks about the same unknowns."""
Row = tuple[bytes, str, bytes]
"""Pseudonym, mark, bytes of the matrix."""


def block_marker(keys: Keys) -> Marker:
    """The function that computes the mark of a block in this ledger."""
    secret = keys.stored_value("secret")
    return lambda block: hmac.digest(secret, b"unknowns" + block.identity, "sha256").hex()


def block_rows(part: AccountShare, pseudonyms: Mapping[str, bytes], mark: Marker) -> list[Row]:
    """The rows to store for the blocks of a part, ordered by pseudonym."""
    if not part.fisher_blocks:
        return []
    people = (pseudonyms[person] for person, _ in part.rows)
    return sorted((pseudonym, mark(b), b.data) for pseudonym, b in zip(people, part.fisher_blocks, strict=True))


def digest_of_blocks(rows: Iterable[Row]) -> str:
    """SHA-256 over pseudonym, mark, length and bytes of each row; the caller sorts the rows by pseudonym."""
    digest = sha256()
    for pseudonym, mark, data in rows:
        digest.update(pseudonym + bytes.fromhex(mark) + len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def store_blocks(connection: Connection, part: int, rows: Sequence[Row]) -> None:
    """Store the blocks of a part."""
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        values = [{"part": part, "pseudonym": p, "unknowns": mark, "data": data} for p, mark, data in batch]
        connection.execute(insert(schema.block), values)


def stored_blocks(connection: Connection, part: int) -> Iterator[Row]:
    """The stored blocks of a part, ordered by pseudonym."""
    b = schema.block.c
    query = select(b.pseudonym, b.unknowns, b.data).where(b.part == part).order_by(b.pseudonym)
    with connection.execute(query.execution_options(yield_per=BATCH)) as rows:
        for pseudonym, mark, data in rows:
            yield read_bytes(pseudonym, "a pseudonym"), read_text(mark, "a block"), read_bytes(data, "a block")


def summed_blocks(
    connection: Connection, account: str, pseudonyms: Sequence[bytes] | None = None
) -> Iterator[tuple[bytes, BlockSums]]:
    """The summed blocks of these people (None: of all) in one account, by person; people without blocks are omitted."""
    if connection.execute(_blocks(account).limit(1)).first() is None:
        return
    if pseudonyms is None:
        yield from _sums_by_person(connection, account, None)
        return
    for start in range(0, len(pseudonyms), BATCH):
        yield from _sums_by_person(connection, account, pseudonyms[start : start + BATCH])


def _blocks(account: str) -> Any:
    b, d, p = schema.block.c, schema.dose.c, schema.part.c
    return (
        select(b.pseudonym, b.part, b.unknowns, b.data, d.amount)
        .join_from(schema.block, schema.part, b.part == p.id)
        .join(schema.dose, (d.part == b.part) & (d.pseudonym == b.pseudonym))
        .where(p.account == account)
    )


def _sums_by_person(
    connection: Connection, account: str, pseudonyms: Sequence[bytes] | None
) -> Iterator[tuple[bytes, BlockSums]]:
    b = schema.block.c
    query = _blocks(account).order_by(b.pseudonym, b.part)
    if pseudonyms is not None:
        query = query.where(b.pseudonym.in_(pseudonyms))
    with connection.execute(query.execution_options(yield_per=BATCH)) as rows:
        for pseudonym, own_rows in groupby(rows, key=lambda row: read_bytes(row.pseudonym, "a pseudonym")):
            sums: BlockSums = {}
            for row in own_rows:
                block = SummedFisherBlocks(_matrix(read_bytes(row.data, "a block"), row.part), read_amount(row.amount))
                sums[row.unknowns] = _add(sums.get(row.unknowns), block)
            yield pseudonym, sums


def _add(total: SummedFisherBlocks | None, block: SummedFisherBlocks) -> SummedFisherBlocks:
    if total is None:
        return block
    if total.matrix.shape != block.matrix.shape:
        raise Tampered("two blocks about the same unknowns differ in size: altered or damaged")
    return total + block


def _matrix(data: bytes, part: int) -> FloatArray:
    m = math.isqrt(len(data) // 8)
    values = np.frombuffer(data, "<f8") if len(data) == 8 * m * m and m else np.array([np.nan])
    if not np.isfinite(values).all():
        raise Tampered(f"a block of part {part} cannot be read: altered or damaged")
    return values.astype(np.float64).reshape(m, m)


def saving(sums: BlockSums) -> int:
    """By how much a person's total is below the sum of amounts."""
    return sum(total.saving for total in sums.values())


def totals_with(
    connection: Connection,
    known: Mapping[str, bytes],
    parts: Sequence[AccountShare],
    spent: Mapping[str, int],
    mark: Marker,
) -> tuple[dict[str, int], dict[str, int]]:
    """Totals by person before and after these parts of one account; `spent` holds the sums of amounts.

    For people without stored blocks, the first holds the sum of amounts and the second nothing.
    """
    people = {known[person]: person for part in parts for person, _ in part.rows if person in known}
    added = {person: amount for part in parts for person, amount in part.rows}
    new = {
        person: b
        for part in parts
        if part.fisher_blocks
        for (person, _), b in zip(part.rows, part.fisher_blocks, strict=True)
    }
    before, after = dict(spent), {}
    for pseudonym, sums in summed_blocks(connection, parts[0].account.text, list(people)):
        person = people[pseudonym]
        before[person] = spent[person] - saving(sums)
        if person in new:
            unknowns = mark(new[person])
            if unknowns in sums:
                block = SummedFisherBlocks(new[person].matrix, added[person])
                sums = {**sums, unknowns: _add(sums[unknowns], block)}
        after[person] = check_total(spent[person] + added[person]) - saving(sums)
    return before, after
