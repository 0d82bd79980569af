"""The largest step of a category between two of its levels, from the Jacobian of a release.

η of a category is max over levels a, b of ||J (V_b - V_a)||, V the coordinates of its levels (`core/category.py`). V is
centred, so no image J V_a is longer than that, and squared distances from a Gram matrix lose nothing to cancellation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any, TypeGuard

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.category import step_of
from dosimeter.glm.jacobians.dense_jacobian import Jacobian, largest_singular_values
from dosimeter.glm.jacobians.farthest_levels import FEW, FactoredLevels, largest_distances
from dosimeter.glm.jacobians.scalar_jacobian import CANCELLED, ScalarJacobian
from dosimeter.glm.jacobians.sparse_jacobian import SparseJacobian
from dosimeter.glm.linalg.inverse_hessian import times

BLOCK = 16 << 20
"""Bytes of Jacobians, or of Gram matrices, at a time."""
IN_CACHE = 1 << 18
"""Bytes of one temporary array of the pairs of levels: several of them stay in the cache."""


def units_of_columns(X: Any) -> FloatArray:
    """(d,) the step of each column of X (n, d) that has two values, 1 for the others."""
    return np.array([step_of(column) or 1.0 for column in np.asarray(X, dtype=np.float64).T])


@singledispatch
def step_norms(jacobian: Jacobian, columns: Index, vertices: FloatArray) -> FloatArray:
    """(n,) the largest ||J (V_b - V_a)|| of each row: columns (m',) positions of the unknowns, vertices V (k, m')."""
    if len(columns) == 1 and int(columns[0]) < jacobian.m:
        return np.asarray(jacobian.cell_norms(columns)[:, 0] * np.ptp(vertices[:, 0]))
    q = jacobian.dense(np.array([0], dtype=np.intp))[0].size
    out, rows_per_block = np.empty(jacobian.n), max(1, BLOCK // (8 * q))
    for i in range(0, jacobian.n, rows_per_block):
        out[i : i + rows_per_block] = _largest_image_distance(
            jacobian.dense(slice(i, min(i + rows_per_block, jacobian.n)))[:, :, columns], vertices
        )
    return out


@step_norms.register
def _(jacobian: ScalarJacobian, columns: Index, vertices: FloatArray) -> FloatArray:
    """With V centred, ||J(V_b - V_a)||² = a²|u|²Δγ² + 2 a r Δγ Δτ + r²|Δβ|²: γ = Vg, β = bVᵀ, τ = βᵀu."""
    if len(columns) == 1:
        return np.asarray(jacobian.cell_norms(columns)[:, 0] * np.ptp(vertices[:, 0]))
    gamma, beta = vertices @ jacobian.g[columns], jacobian.b[:, columns] @ vertices.T
    if len(vertices) > FEW:
        return _many_steps(jacobian, columns, vertices, FactoredLevels(gamma, beta))
    first, second = np.triu_indices(len(vertices), 1)
    slope, apart = gamma[first] - gamma[second], beta[:, first] - beta[:, second]
    length = np.einsum("qk,qk->k", apart, apart)
    out, lost = np.empty(jacobian.n), np.zeros(jacobian.n, dtype=bool)
    some = max(256, IN_CACHE // (8 * max(len(first), len(jacobian.F))))
    for i in range(0, jacobian.n, some):
        s = slice(i, min(i + some, jacobian.n))
        a, r, U = jacobian.a[s], jacobian.r[s], jacobian.moves(jacobian.X[s])
        tau = U @ beta
        positive = np.outer(a * a * np.einsum("np,np->n", U, U), slope**2) + np.outer(r * r, length)
        squares = positive + (2 * a * r)[:, None] * slope * (tau[:, first] - tau[:, second])
        best = squares.max(axis=1)
        out[s], lost[s] = np.sqrt(np.maximum(best, 0.0)), best <= CANCELLED * positive.max(axis=1)
    return _with_digits(jacobian, columns, vertices, out, lost)


def _many_steps(jacobian: ScalarJacobian, columns: Index, vertices: FloatArray, levels: FactoredLevels) -> FloatArray:
    """(n,) the same for many levels: not all pairs are compared."""
    out, lost = np.empty(jacobian.n), np.zeros(jacobian.n, dtype=bool)
    rows_per_block = max(1, BLOCK // (8 * (len(vertices) + len(jacobian.F))))
    # A sparse row times one matrix of all levels: u itself is as wide as the table, and full.
    along = jacobian.along(levels.beta) if isinstance(jacobian, SparseJacobian) else None
    for i in range(0, jacobian.n, rows_per_block):
        s = slice(i, min(i + rows_per_block, jacobian.n))
        U = jacobian.moves(jacobian.X[s])
        tau = U @ levels.beta if along is None else times(jacobian.X[s], along)
        best, terms = levels.largest_squares(tau, np.einsum("nq,nq->n", U, U), jacobian.a[s], jacobian.r[s])
        out[s], lost[s] = np.sqrt(np.maximum(best, 0.0)), best <= CANCELLED * terms
    return _with_digits(jacobian, columns, vertices, out, lost)


def _with_digits(
    jacobian: ScalarJacobian, columns: Index, vertices: FloatArray, out: FloatArray, lost: Mask
) -> FloatArray:
    """The figures, with the rows whose squares cancelled computed from the Jacobians themselves."""
    if lost.any():
        rows = np.flatnonzero(lost)
        narrow = replace(jacobian, P=jacobian.P[:, columns], g=jacobian.g[columns])
        step = max(1, BLOCK // (8 * len(jacobian.F) * (len(columns) + 1)))
        for i in range(0, len(rows), step):
            part = rows[i : i + step]
            out[part] = _largest_image_distance(narrow.dense(part)[:, :, :-1], vertices)
    return out


@singledispatch
def few_columns(jacobian: Jacobian, columns: Index) -> tuple[Jacobian, Index]:
    """A Jacobian that writes out only these columns and the target, and their positions in it; no column is allowed."""
    return jacobian, columns


@few_columns.register
def _(jacobian: ScalarJacobian, columns: Index) -> tuple[Jacobian, Index]:
    few = replace(jacobian, P=jacobian.P[:, columns], g=jacobian.g[columns])
    return few, np.arange(len(columns), dtype=np.intp)


def group_sums(jacobian: Jacobian, groups: Sequence[Index], columns: Index) -> Iterator[tuple[slice, FloatArray]]:
    """Groups, and (g, q, m') the sums of their rows' Jacobians in these unknowns, as many as fit into a block.

    For an unknown that all rows of a group share, the sum is its Jacobian.
    """
    if not groups:
        return
    targets = columns[columns >= jacobian.m] - jacobian.m
    if not len(targets) or not len(columns) - len(targets):
        jacobian, columns = few_columns(jacobian, columns[columns < jacobian.m])
        columns = np.concatenate([columns, jacobian.m + targets])
    size = jacobian.dense(np.array([0], dtype=np.intp))[0].size
    ends, first = np.cumsum([len(rows) for rows in groups]), 0
    while first < len(groups):
        limit = (ends[first - 1] if first else 0) + max(1, BLOCK // (8 * size))
        last = max(first + 1, int(np.searchsorted(ends, limit, side="right")))
        part = groups[first:last]
        starts = np.cumsum([0, *(len(rows) for rows in part[:-1])])
        J = jacobian.dense(np.concatenate(part).astype(np.intp))[:, :, columns]
        yield slice(first, last), np.add.reduceat(J, starts, axis=0)
        first = last


def shared_step_norms(jacobian: Jacobian, groups: Sequence[Index], columns: Index, vertices: FloatArray) -> FloatArray:
    """(groups,) the largest step of a category that is one unknown for all rows of a group: their Jacobians add."""
    if _adds_up(jacobian, groups, columns):
        return step_norms(jacobian.summed(groups), columns, vertices)
    out = np.empty(len(groups))
    for part, J in group_sums(jacobian, groups, columns):
        out[part] = _largest_image_distance(J, vertices)
    return out


def _adds_up(jacobian: Jacobian, groups: Sequence[Index], columns: Index) -> TypeGuard[SparseJacobian]:
    """Whether the sums need not be written out: of a sparse table, where each would have p² numbers."""
    return isinstance(jacobian, SparseJacobian) and bool(len(groups)) and bool((columns < jacobian.m).all())


def shared_norms(jacobian: Jacobian, groups: Sequence[Index], columns: Index) -> FloatArray:
    """(groups,) ||J|| of unknowns that all rows of a group share."""
    if _adds_up(jacobian, groups, columns):
        return jacobian.summed(groups).row_norms(columns, False)
    out = np.empty(len(groups))
    for part, J in group_sums(jacobian, groups, columns):
        out[part] = largest_singular_values(J)
    return out


def shared_outer(jacobian: Jacobian, groups: Sequence[Index], columns: Index) -> FloatArray:
    """(q, q) the sum over groups of J Jᵀ of unknowns that all rows of a group share."""
    total: FloatArray = np.zeros((1, 1))
    if _adds_up(jacobian, groups, columns[columns < jacobian.m]) and (columns < jacobian.m).any():
        summed = jacobian.summed(groups)
        total = summed.outer(slice(None), columns[columns < jacobian.m], False, columns[:0])
        columns = columns[columns >= jacobian.m]
        groups = groups if len(columns) else ()
    for _, J in group_sums(jacobian, groups, columns):
        flat = J.transpose(1, 0, 2).reshape(J.shape[1], -1)
        total = total + flat @ flat.T
    return total


def _largest_image_distance(J: FloatArray, vertices: FloatArray) -> FloatArray:
    """(g,) the largest distance between two images of vertices (k, m') under J (g, q, m')."""
    return largest_distances(J @ vertices.T)


def largest_gram_distances(G: FloatArray) -> FloatArray:
    """(g,) the largest distance between two of k points, from their inner products (g, k, k)."""
    squared_lengths = np.einsum("gkk->gk", G)
    squares = squared_lengths[:, :, None] + squared_lengths[:, None, :] - 2 * G
    return np.asarray(np.sqrt(np.maximum(squares.max(axis=(1, 2)), 0.0)))
