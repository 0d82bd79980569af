"""The leakage of many votes in one pass: the total of each teacher, and the worst of each query.

A teacher's v⁻ at a query depends only on its own vote, and its leakage only on the sorted v⁻. So everything is computed
for the distinct sorted histograms of a block and the distinct counts in each of them, and gathered from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.density import Density
from dosimeter.core.engine import Engine, LocalEngine, RowBlock
from dosimeter.pate.histograms import Counts, distinct_rows
from dosimeter.pate.leakage import leakage
from dosimeter.pate.threshold import Threshold, threshold_leakage
from dosimeter.pate.vote_blocks import VoteBlocks, count_votes, read_block, sum_by_teacher
from dosimeter.pate.vote_noise import as_law
from dosimeter.pate.votes import Votes

ByHistogram = Callable[[Counts], FloatArray]
"""(rows, m) histograms v⁻ -> (rows,) nats. The order of the classes must not matter."""
# Leakages that are remembered: about 0.2 kB each with ten classes.
_MOST_KNOWN = 1 << 18


@dataclass(frozen=True, eq=False)
class VoteFigures:
    """What votes leak. Internal: every figure depends on private votes."""

    totals: FloatArray
    """(teachers,) Σ over the queries of the exact leakage at v⁻, nats."""
    worst: FloatArray
    """(queries that are shown,) nats about the teacher whom the query exposes most."""
    agreed: int
    """Labels that are the class with the most votes, the first of equals."""


def vote_figures(
    votes: Votes,
    noise: Density,
    *,
    threshold: Threshold | None = None,
    labels: NDArray[np.signedinteger] | None = None,
    shown: int | None = None,
    engine: Engine | None = None,
    block_size: int | None = None,
) -> VoteFigures:
    """Totals, worst queries and agreement in one pass over blocks of queries.

    labels: (queries,) of these votes. shown: the worst of the first queries only, this many; of all by default.
    block_size: queries of a block.
    """
    leak = RememberedLeakage(exact_leakage(noise, threshold))
    beside = () if labels is None else (labels,)
    blocks = VoteBlocks(votes.values, votes.n_classes, *beside, block_size=block_size)
    blocks.announce("measuring votes")
    figures = partial(block_figures, n_classes=votes.n_classes, leak=leak, shown=shown)
    parts = (LocalEngine() if engine is None else engine).map_over(blocks, figures)
    # fsum: a thousand blocks lose no digit.
    totals = np.array([math.fsum(column) for column in zip(*(part.totals for part in parts), strict=True)])
    return VoteFigures(totals, np.concatenate([part.worst for part in parts])[:shown], sum(p.agreed for p in parts))


def block_figures(block: RowBlock, *, n_classes: int, leak: ByHistogram, shown: int | None = None) -> VoteFigures:
    """The figures of one block: (queries, teachers) votes, and (queries,) labels if there are any."""
    votes = read_block(block[0], n_classes)
    counts = count_votes(votes, n_classes)
    table = leakage_by_vote(counts, leak)
    agreed = int((counts.argmax(axis=1) == block[1]).sum()) if len(block) > 1 else 0
    return VoteFigures(sum_by_teacher(votes, table), table[:shown].max(axis=1), agreed)


def leakage_by_vote(counts: Counts, leak: ByHistogram) -> FloatArray:
    """(queries, m) leak(v - δⱼ) of (queries, m) histograms v; 0 if no teacher voted j.

    >>> leakage_by_vote(np.array([[2, 1, 0]]), lambda others: others.max(axis=1) * 1.0)
    array([[1., 2., 0.]])
    """
    order = np.argsort(-counts, axis=1)
    ordered = np.take_along_axis(counts, order, axis=1)
    first, kind = distinct_rows(ordered)
    table = np.empty(counts.shape)
    np.put_along_axis(table, order, _leakage_by_rank(ordered[first], leak)[kind], axis=1)
    return table


def _leakage_by_rank(ordered: Counts, leak: ByHistogram) -> FloatArray:
    """(u, m) leak without one vote of each class, for histograms in falling order; equal counts share it."""
    last = np.ones(ordered.shape, dtype=np.bool_)
    last[:, :-1] = ordered[:, 1:] != ordered[:, :-1]
    last &= ordered > 0
    row, rank = np.nonzero(last)
    others = ordered[row]
    others[np.arange(len(rank)), rank] -= 1  # of the last of equals: the order stays
    # The place of each class among the nonzeros is the number of runs that ended before it.
    place: Index = np.cumsum(last.ravel()).reshape(last.shape) - last
    return np.where(ordered > 0, np.append(leak(others), 0.0)[place], 0.0)


def leakage_by_teacher(votes: Votes, leak: ByHistogram) -> FloatArray:
    """(teachers, queries) leak(v⁻) of each teacher at each query. Internal."""
    parts = []
    for (block,) in VoteBlocks(votes.values, votes.n_classes):
        own = read_block(block, votes.n_classes)
        table = leakage_by_vote(count_votes(own, votes.n_classes), leak)
        parts.append(table[np.arange(len(table)), own])
    return np.concatenate(parts, axis=1)


def exact_leakage(noise: Density, threshold: Threshold | None) -> ByHistogram:
    """Eq. 12 of [Saeidian21], with refusals if there is a threshold."""
    law = as_law(noise)
    if threshold is None:
        return partial(leakage, noise=law)
    return partial(threshold_leakage, noise=law, threshold=threshold)


class RememberedLeakage:
    """A leakage that is computed once for each sorted histogram, over all blocks, up to a number of them.

    >>> calls = []
    >>> known = RememberedLeakage(lambda others: (calls.append(len(others)), others.max(axis=1) / 2)[1])
    >>> known(np.array([[2, 1], [2, 1], [3, 0]])), known(np.array([[3, 0], [2, 1]])), calls
    (array([1. , 1. , 1.5]), array([1.5, 1. ]), [3])
    """

    def __init__(self, leak: ByHistogram, most: int = _MOST_KNOWN) -> None:
        self._leak, self._most = leak, most
        self._known: dict[bytes, float] = {}

    def __call__(self, ordered: Counts) -> FloatArray:
        keys = _as_bytes(ordered)
        out = np.array([self._known.get(key, -1.0) for key in keys])
        new = np.flatnonzero(out < 0)
        if len(new):
            out[new] = self._leak(ordered[new])
            if len(self._known) < self._most:
                self._known.update(zip([keys[i] for i in new], out[new].tolist(), strict=True))
        return out

    def __reduce__(self) -> tuple[type[RememberedLeakage], tuple[object, ...]]:
        # Another process begins with nothing: histograms are private, and a block of them is quickly measured.
        return RememberedLeakage, (self._leak, self._most)


def _as_bytes(rows: Counts) -> list[bytes]:
    """Each row of counts below 2^31 as bytes."""
    narrow = rows.astype(np.uint16 if rows.max(initial=0) < 1 << 16 else np.uint32)
    bytes_of_row = narrow.shape[1] * narrow.itemsize
    keys: list[Any] = np.ascontiguousarray(narrow).view(np.dtype((np.void, bytes_of_row))).ravel().tolist()
    return keys
