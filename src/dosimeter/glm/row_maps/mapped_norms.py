"""The largest singular value of Jacobians behind row maps, many rows at once, without writing them out.

For one margin Jᵢ = -[ a u gᵢᵀ + r B Pᵢ , -c u ], gᵢ = Pᵢᵀw: a product with it is one product with B, which all rows
share, and one with the few entries of Pᵢ. Golub and Kahan's bidiagonalisation (1965), with every vector made
orthogonal to all before it, needs a few dozen of them where an eigenvalue solver needs (q, m) numbers for each row.
θ, the largest singular value of the bidiagonal matrix, has a residual ρ, and some singular value of J lies within ρ of
it. A row is accepted at ρ <= 1e-9 θ; rows that are not there after `MOST` rounds are written out after all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.glm.jacobians.scalar_jacobian import CANCELLED, ScalarJacobian
from dosimeter.glm.row_maps.map_parts import BlockMap
from dosimeter.glm.row_maps.row_maps import RowMap

SMALL = 24
"""Jacobians with fewer rows or columns are written out: their eigenvalues cost less."""

MOST, EVERY = 72, 6
"""Rounds, and how often convergence is looked at."""

CLOSE = 1e-9

BLOCK = 32 << 20
"""Bytes of the vectors of a block of rows."""


@dataclass(frozen=True, eq=False)
class BlockProducts:
    """Products with the Jacobians of a block of rows."""

    jacobian: ScalarJacobian
    maps: BlockMap
    U: FloatArray
    """(k, q)."""
    g: FloatArray
    """(k, m)."""
    a: FloatArray
    r: FloatArray
    c: FloatArray
    """(k,) each; c is zero without the target."""

    @classmethod
    def of(cls, jacobian: ScalarJacobian, maps: RowMap, rows: Index, include_target: bool) -> BlockProducts:
        block = maps.block(rows)
        U = jacobian.moves(jacobian.X[rows])
        g = block.transposed(np.broadcast_to(jacobian.g, (len(rows), maps.d)))
        c = jacobian.c[rows] if include_target else np.zeros(len(rows))
        return cls(jacobian, block, U, g, jacobian.a[rows], jacobian.r[rows], c)

    def times(self, x: FloatArray) -> FloatArray:
        """(k, q) J x, x (k, m + 1)."""
        own = x[:, :-1]
        along = self.c * x[:, -1] - self.a * np.einsum("km,km->k", self.g, own)
        moved = self.r[:, None] * (self.maps.times(own) @ self.jacobian.b.T)
        return np.asarray(along[:, None] * self.U - moved)

    def transposed(self, y: FloatArray) -> FloatArray:
        """(k, m + 1) Jᵀ y, y (k, q)."""
        along = np.einsum("kq,kq->k", self.U, y)
        own = -(self.a * along)[:, None] * self.g
        own -= self.r[:, None] * self.maps.transposed(y @ self.jacobian.b)
        return np.column_stack([own, self.c * along])

    def narrow(self, keep: Mask) -> BlockProducts:
        """The same for some of the rows."""
        return BlockProducts(
            self.jacobian, self.maps.narrow(keep), self.U[keep], self.g[keep], self.a[keep], self.r[keep], self.c[keep]
        )


def mapped_row_norms(jacobian: ScalarJacobian, maps: RowMap, include_target: bool) -> tuple[FloatArray, Mask]:
    """(n,) the largest singular value of each row's Jacobian, and (n,) where it has not converged."""
    out, lost = np.zeros(jacobian.n), np.zeros(jacobian.n, dtype=bool)
    for rows in _blocks(jacobian, maps):
        out[rows], lost[rows] = _norms(BlockProducts.of(jacobian, maps, rows, include_target))
    return out, lost


def _blocks(jacobian: ScalarJacobian, maps: RowMap) -> Iterator[Index]:
    row_bytes = 8 * (MOST // 2 * (len(jacobian.F) + maps.m + 1) + 4 * maps.d) + 2 * maps.row_bytes
    step = max(1, BLOCK // row_bytes)
    return (np.arange(i, min(i + step, jacobian.n), dtype=np.intp) for i in range(0, jacobian.n, step))


def _norms(products: BlockProducts) -> tuple[FloatArray, Mask]:
    k, q = products.U.shape
    out, open_rows = np.zeros(k), np.arange(k, dtype=np.intp)
    start = _start(products)
    left = [start]
    right: list[FloatArray] = []
    alpha: list[FloatArray] = []
    beta: list[FloatArray] = []
    width = products.g.shape[1] + 1
    for turn in range(min(MOST, q, width)):
        v = products.transposed(left[-1])
        v = v if not right else v - beta[-1][:, None] * right[-1]
        v = _orthogonal(v, right)
        alpha.append(np.linalg.norm(v, axis=1))
        right.append(_unit(v, alpha[-1]))
        u = _orthogonal(products.times(right[-1]) - alpha[-1][:, None] * left[-1], left)
        beta.append(np.linalg.norm(u, axis=1))
        left.append(_unit(u, beta[-1]))
        if (turn + 1) % EVERY and turn + 1 < min(MOST, q, width):
            continue
        theta, residual = _largest(alpha, beta)
        done = residual <= CLOSE * theta
        out[open_rows] = theta
        if done.all():
            return out, np.zeros(k, dtype=bool)
        if done.mean() > 0.25:  # the rows that remain go on alone
            keep = ~done
            open_rows, products = open_rows[keep], products.narrow(keep)
            left, right, alpha, beta = ([part[keep] for part in parts] for parts in (left, right, alpha, beta))
    lost = np.zeros(k, dtype=bool)
    theta, residual = _largest(alpha, beta)
    lost[open_rows] = residual > CLOSE * theta
    return out, lost


def _start(products: BlockProducts) -> FloatArray:
    """(k, q) unit vectors with a share of every direction: J applied to fixed weights without a pattern."""
    m = products.g.shape[1] + 1
    weights = 1.0 + np.modf(np.arange(1, m + 1) * 0.6180339887498949)[0]
    signs = np.where(np.modf(np.arange(1, m + 1) ** 2 * 0.41421356237309515)[0] < 0.5, 1.0, -1.0)
    y = products.times(np.broadcast_to(weights * signs, (len(products.U), m)))
    return _unit(y, np.linalg.norm(y, axis=1))


def _unit(x: FloatArray, size: FloatArray) -> FloatArray:
    """Rows of length one; a row of zeros stays zero."""
    return np.asarray(x / np.where(size > 0.0, size, 1.0)[:, None])


def _orthogonal(x: FloatArray, basis: list[FloatArray]) -> FloatArray:
    """x less its share of every vector of the basis, twice: once leaves what rounding put back."""
    if not basis:
        return x
    Q = np.stack(basis, axis=1)
    for _ in range(2):
        x = x - np.einsum("kj,kjq->kq", np.einsum("kjq,kq->kj", Q, x), Q)
    return x


def _largest(alpha: list[FloatArray], beta: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """(k,) the largest singular value of the lower bidiagonal matrix, and the residual of its triple."""
    turns, k = len(alpha), len(alpha[0])
    B = np.zeros((k, turns, turns))
    each = np.arange(turns)
    B[:, each, each] = np.stack(alpha, axis=1)
    if turns > 1:
        B[:, each[1:], each[:-1]] = np.stack(beta[:-1], axis=1)
    values, vectors = np.linalg.eigh(B.transpose(0, 2, 1) @ B)
    return np.sqrt(np.maximum(values[:, -1], 0.0)), beta[-1] * np.abs(vectors[:, -1, -1])


def mapped_cell_norms(jacobian: ScalarJacobian, maps: RowMap) -> FloatArray:
    """(n, m) ||a gⱼ u + r B pⱼ|| of each row's unknowns, pⱼ the column of its map; for maps of slopes alone.

    The square is a² gⱼ² |u|² + 2 a r gⱼ (Bᵀu)·pⱼ + r² pⱼᵀ BᵀB pⱼ, where pⱼ has few entries; if it cancels, the norm.
    """
    out = np.empty((jacobian.n, maps.m))
    B, w = jacobian.b, jacobian.g
    gram = B.T @ B
    step = max(1, BLOCK // (16 * (len(jacobian.F) + maps.m + maps.d) + 2 * maps.row_bytes))
    for first in range(0, jacobian.n, step):
        rows = np.arange(first, min(first + step, jacobian.n), dtype=np.intp)
        U = jacobian.moves(jacobian.X[rows])
        a, r = jacobian.a[rows], jacobian.r[rows]
        along, size = U @ B, np.einsum("kq,kq->k", U, U)
        for j, columns, p in _entries(maps, rows):
            g, cross = p @ w[columns], np.einsum("ke,ke->k", along[:, columns], p)
            squares = np.einsum("ke,ke->k", p @ gram[np.ix_(columns, columns)], p)
            positive = a * a * g * g * size + r * r * squares
            square = positive + 2.0 * a * r * g * cross
            out[rows, j] = np.sqrt(np.maximum(square, 0.0))
            lost = square <= CANCELLED * positive
            if lost.any():
                exact = (a * g)[lost, None] * U[lost] + (r[lost, None] * p[lost]) @ B[:, columns].T
                out[rows[lost], j] = np.linalg.norm(exact, axis=1)
    return out


def _entries(maps: RowMap, rows: Index) -> Iterator[tuple[int, Index, FloatArray]]:
    """Each unknown, the columns that it moves, and (k, columns) by how much on some rows."""
    block = maps.block(rows)
    varying: dict[int, list[tuple[Index, FloatArray]]] = {}
    for part, values in block.slopes:
        for unknown, places in part.by_unknown:
            varying.setdefault(unknown, []).append((part.columns[places], values[:, places]))
    for j in range(maps.m):
        fixed = np.flatnonzero(maps.constant[:, j]).astype(np.intp)
        parts = [(fixed, np.broadcast_to(maps.constant[fixed, j], (len(rows), len(fixed)))), *varying.get(j, [])]
        yield j, np.concatenate([c for c, _ in parts]), np.concatenate([v for _, v in parts], axis=1)
