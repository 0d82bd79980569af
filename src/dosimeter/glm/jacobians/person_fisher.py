"""Fisher matrices of groups of rows, written out: a ledger keeps them on request so that releases add exactly.

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
from dosimeter.glm.jacobians.leakage import Leakage

_AT_ONCE = 32 << 20
"""Bytes of Jacobians at a time."""


def fisher_blocks(
    leak: Leakage,
    groups: Sequence[Hashable],
    row_values: Any,
    *,
    units: Any = (),
    names: Sequence[str] | None = None,
    tied: Sequence[int] = (),
    tied_target: bool = False,
) -> tuple[FisherBlock, ...]:
    """The Fisher matrix of each group of rows, for a ledger that adds releases exactly.

    Parameters
    ----------
    leak : Leakage
        The release.
    groups : sequence of hashable of length n
        The person of each row.
    row_values : array_like of shape (n, k)
        The columns and target of each row.
    units : array_like
        How the unknowns are measured. With `row_values` it goes into a digest that tells whether the blocks of two
        releases are about the same unknowns.
    names : sequence of str of length m, optional
        Names of a row's unknowns; default their numbers.
    tied, tied_target
        As in `Leakage.group`.

    Returns
    -------
    tuple of FisherBlock
        One per group, in order of first appearance; its norm is `leak.group` squared. Internal.

    Raises
    ------
    CannotMeasure
        For an exact release.
    Refusal
        If lengths do not match, or a block would be too large.

    Examples
    --------
    >>> from dosimeter import glm, Gaussian
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> leak = glm.measure(glm.fit(X, y, glm.Squared()), X, y, Gaussian(0.5))
    >>> blocks = fisher_blocks(leak, ["ann", "bob", "ann"], np.column_stack([X, y]), names=["dose"])
    >>> blocks[0].unknowns
    ('0/dose', '0/label', '1/dose', '1/label')
    >>> [round(b.norm**0.5, 6) for b in blocks] == [round(eta, 6) for eta in leak.group(["ann", "bob", "ann"]).values()]
    True
    """
    if not leak.has_noise:
        raise CannotMeasure("an exact release has no finite information matrix: add noise to store its blocks")
    values = np.ascontiguousarray(row_values, dtype="<f8")
    named = [str(j) for j in range(leak.m)] if names is None else list(names)
    if len(groups) != leak.n or len(values) != leak.n or len(named) != leak.m:
        raise Refusal(f"blocks need {leak.n} groups, {leak.n} rows of values and {leak.m} names")
    tied_unknowns = np.unique(np.asarray(tied, dtype=np.intp))
    rows: dict[Hashable, list[int]] = {}
    for i, group in enumerate(groups):
        rows.setdefault(group, []).append(i)
    free = np.setdiff1d(np.arange(leak.m), tied_unknowns)
    if leak.include_target:
        named += _target_names(leak.jacobian.target_width)
        tied_unknowns, free = (
            (np.concatenate([tied_unknowns, leak.target_positions]), free)
            if tied_target
            else (tied_unknowns, np.concatenate([free, leak.target_positions]))
        )
    check_size([len(members) * len(free) + len(tied_unknowns) for members in rows.values()])
    matrices = dict(_matrices(leak, rows, free, tied_unknowns))
    common = np.ascontiguousarray(units, dtype="<f8").tobytes()
    unknowns = {
        size: _unknowns(size, named, free, tied_unknowns) for size in {len(members) for members in rows.values()}
    }
    return tuple(
        FisherBlock(
            unknowns[len(members)], matrices[group], hashlib.sha256(common + values[members].tobytes()).digest()
        )
        for group, members in rows.items()
    )


def _target_names(width: int) -> list[str]:
    return ["label"] if width == 1 else [f"label {c}" for c in range(width)]


def _unknowns(size: int, names: Sequence[str], free: Index, tied_unknowns: Index) -> tuple[str, ...]:
    return (*(f"{i}/{names[j]}" for i in range(size) for j in free), *(f"*/{names[j]}" for j in tied_unknowns))


def _matrices(
    leak: Leakage, rows: dict[Hashable, list[int]], free: Index, tied_unknowns: Index
) -> Iterator[tuple[Hashable, FloatArray]]:
    """Groups of the same size together, as many as fit into a block of memory."""
    by_size: dict[int, list[Hashable]] = {}
    for group, members in rows.items():
        by_size.setdefault(len(members), []).append(group)
    row_bytes = 8 * leak.jacobian.dense(np.array([0], dtype=np.intp))[0].size
    for size, groups_of_size in by_size.items():
        step = max(1, _AT_ONCE // (row_bytes * size))
        for start in range(0, len(groups_of_size), step):
            batch = groups_of_size[start : start + step]
            J = leak.jacobian.dense(np.array([i for group in batch for i in rows[group]], dtype=np.intp))
            J = J.reshape(len(batch), size, *J.shape[1:])
            untied = J[:, :, :, free].transpose(0, 2, 1, 3).reshape(len(batch), J.shape[2], -1)
            unknowns = np.concatenate([untied, J[:, :, :, tied_unknowns].sum(axis=1)], axis=2)
            information = unknowns.transpose(0, 2, 1) @ unknowns
            yield from zip(batch, (information + information.transpose(0, 2, 1)) / 2, strict=True)
