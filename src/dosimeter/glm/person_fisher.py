"""Fisher matrices of groups of rows, written out: what a ledger keeps on request so that releases add exactly.

    I = Σ over a person's rows, JᵀJ of the whitened Jacobian about all of their unknowns together     (k, k)

Any regular noise has one: its information is in the whitening.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.fisher_block import FisherBlock, check_size
from dosimeter.glm.leakage import Leakage

_AT_ONCE = 32 << 20
"""Bytes of Jacobians at a time."""


def blocks(
    leak: Leakage,
    groups: Sequence[Hashable],
    at: Any,
    *,
    units: Any = (),
    names: Sequence[str] | None = None,
    tied: Sequence[int] = (),
    tied_label: bool = False,
) -> tuple[FisherBlock, ...]:
    """The block of each group, in the order in which the groups first appear; its norm is `leak.group` squared.

    at: (n, k) what each row is: its columns and its label. units: how the unknowns are measured. Both go into the
    digest by which blocks of two releases are known to be about the same unknowns. names: (m,) of a row's unknowns.
    tied, tied_label: as in `Leakage.group`.

    >>> from dosimeter import glm, Gaussian
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> leak = glm.measure(glm.fit(X, y, glm.Squared()), X, y, Gaussian(0.5))
    >>> made = blocks(leak, ["ann", "bob", "ann"], np.column_stack([X, y]), names=["dose"])
    >>> made[0].unknowns
    ('0/dose', '0/label', '1/dose', '1/label')
    >>> [round(b.norm**0.5, 6) for b in made] == [round(eta, 6) for eta in leak.group(["ann", "bob", "ann"]).values()]
    True
    """
    if not leak.bounded:
        raise CannotMeasure("an exact release has no finite information matrix: blocks are kept of noised ones")
    where = np.ascontiguousarray(at, dtype="<f8")
    named = [str(j) for j in range(leak.m)] if names is None else list(names)
    if len(groups) != leak.n or len(where) != leak.n or len(named) != leak.m:
        raise Refusal(f"blocks need {leak.n} groups, {leak.n} rows of values and {leak.m} names")
    bound = np.unique(np.asarray(tied, dtype=np.intp))
    rows: dict[Hashable, list[int]] = {}
    for i, group in enumerate(groups):
        rows.setdefault(group, []).append(i)
    free = np.setdiff1d(np.arange(leak.m), bound)
    if leak.label:
        named += _label_names(leak.jacobian.label_width)
        bound, free = (
            (np.concatenate([bound, leak.label_positions]), free)
            if tied_label
            else (bound, np.concatenate([free, leak.label_positions]))
        )
    check_size([len(of) * len(free) + len(bound) for of in rows.values()])
    matrices = dict(_matrices(leak, rows, free, bound))
    common = np.ascontiguousarray(units, dtype="<f8").tobytes()
    unknowns = {size: _unknowns(size, named, free, bound) for size in {len(of) for of in rows.values()}}
    return tuple(
        FisherBlock(unknowns[len(of)], matrices[group], hashlib.sha256(common + where[of].tobytes()).digest())
        for group, of in rows.items()
    )


def _label_names(width: int) -> list[str]:
    return ["label"] if width == 1 else [f"label {c}" for c in range(width)]


def _unknowns(size: int, names: Sequence[str], free: Index, bound: Index) -> tuple[str, ...]:
    return (*(f"{i}/{names[j]}" for i in range(size) for j in free), *(f"*/{names[j]}" for j in bound))


def _matrices(
    leak: Leakage, rows: dict[Hashable, list[int]], free: Index, bound: Index
) -> Iterator[tuple[Hashable, FloatArray]]:
    """Groups of one size together, so many as fit into a block of memory."""
    by_size: dict[int, list[Hashable]] = {}
    for group, of in rows.items():
        by_size.setdefault(len(of), []).append(group)
    row_bytes = 8 * leak.jacobian.dense(np.array([0], dtype=np.intp))[0].size
    for size, some in by_size.items():
        step = max(1, _AT_ONCE // (row_bytes * size))
        for start in range(0, len(some), step):
            which = some[start : start + step]
            J = leak.jacobian.dense(np.array([i for group in which for i in rows[group]], dtype=np.intp))
            J = J.reshape(len(which), size, *J.shape[1:])
            apart = J[:, :, :, free].transpose(0, 2, 1, 3).reshape(len(which), J.shape[2], -1)
            whole = np.concatenate([apart, J[:, :, :, bound].sum(axis=1)], axis=2)
            information = whole.transpose(0, 2, 1) @ whole
            yield from zip(which, (information + information.transpose(0, 2, 1)) / 2, strict=True)
