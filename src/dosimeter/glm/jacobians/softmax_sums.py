"""Σ E Eᵀ over rows for a softmax model, (q, q) in the coordinates z: the sum behind readings of many rows together.

    E Eᵀ = S'ΓS' ⊗ zzᵀ + LᵀL ⊗ zzᵀ + (cross + crossᵀ) + ρρᵀ ⊗ BBᵀ,     Γ = GGᵀ,   cross_kl = ρₗ z (S'G Bᵀ)ₖ

over the chosen unknowns of a row, L = ωC or as in `losses/label_weights.py`; for a mask G and B lose the columns
that are known in that row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.progress import track
from dosimeter.glm.linalg.certified_eigenvalue import norm_estimate

if TYPE_CHECKING:
    from dosimeter.glm.jacobians.dense_jacobian import Rows
    from dosimeter.glm.jacobians.softmax_jacobian import SoftmaxJacobian

MEMORY = 32 << 20
"""Bytes of a block's temporaries."""


def row_slices(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows of that many numbers each."""
    step = max(1, MEMORY // (8 * width))
    return track([slice(i, min(i + step, n)) for i in range(0, n, step)])


def add_kronecker(total: FloatArray, weight: FloatArray, Z: FloatArray) -> None:
    """Adds Σ weightᵢ ⊗ zᵢzᵢᵀ to the blocks of total (q, q) on and right of the diagonal; weight (n, K', K')."""
    (n, K, _), p = weight.shape, Z.shape[1]
    blocks = total.reshape(K, p, K, p)
    for k in range(K):  # one product per class: all its blocks to the right of the diagonal together
        scaled = (weight[:, k, k:, None] * Z[:, None, :]).reshape(n, -1)
        blocks[k, :, k:, :] += (Z.T @ scaled).reshape(p, K - k, p)


def mirror(total: FloatArray, K: int) -> None:
    """Fills the blocks left of the diagonal of a symmetric total (q, q)."""
    p = len(total) // K
    blocks = total.reshape(K, p, K, p)
    for k in range(K):
        blocks[k + 1 :, :, k, :] = blocks[k, :, k + 1 :, :].transpose(1, 2, 0)


def row_sums(
    jacobian: SoftmaxJacobian, rows: Rows, columns: Index, include_target: bool, tied: Index, total: FloatArray
) -> float:
    """Adds Σ E Eᵀ of some rows' unknowns to total (q, q); returns the size of the terms that were added."""
    index = np.arange(jacobian.n, dtype=np.intp)[rows]
    (p, K), G, B = jacobian.V.shape, jacobian.G[:, columns], jacobian.B[:, columns]
    Gamma = G @ G.T
    mixed = np.zeros((K, K, K, p))  # Σ ρₗ S'ₖ. z
    steep, moved = np.zeros((K, K, p)), np.zeros((K, p, jacobian.target_width))  # Σ S' ⊗ z, Σ Lᵀ ⊗ z
    target_is_tied = bool((tied >= jacobian.m).any())
    for s in row_slices(len(index), K * p):
        some = index[s]
        Z, S, rho = jacobian.factor.rows(jacobian.X[some]), jacobian.S[some], jacobian.rho[some]
        labels = jacobian.labels(some) if include_target or target_is_tied else np.zeros(0)
        add_kronecker(total, S @ Gamma @ S + (_squares(labels) if include_target else 0.0), Z)
        mixed += ((rho[:, :, None, None] * S[:, None]).reshape(len(Z), -1).T @ Z).reshape(K, K, K, p)
        steep += (S.reshape(len(Z), -1).T @ Z).reshape(K, K, p)
        if target_is_tied:
            moved += np.einsum("nkl,np->kpl", labels, Z, optimize=True)
    mirror(total, K)
    size = norm_estimate(lambda x: total @ x, len(total))
    blocks = total.reshape(K, p, K, p)
    side = G @ B.T  # (K', p)
    for k in range(K):
        for other in range(K):
            cross = np.einsum("cp,cq->pq", mixed[other, k], side)
            blocks[k, :, other] += cross
            blocks[other, :, k] += cross.T
    rho = jacobian.rho[index]
    size += _add_columns(blocks, rho.T @ rho, B)
    shared = tied[tied < jacobian.m]
    J = np.einsum("kcp,cj->kpj", steep, jacobian.G[:, shared]) + rho.sum(axis=0)[:, None, None] * jacobian.B[:, shared]
    flat = J.reshape(K * p, -1)
    if target_is_tied:
        flat = np.hstack([flat, moved.reshape(K * p, -1)])
    if flat.shape[1]:
        total += flat @ flat.T
        size += float(np.linalg.norm(flat, 2)) ** 2
    return size


def mask_sum(jacobian: SoftmaxJacobian, mask: Mask, total: FloatArray) -> float:
    """The same for any set of cells: mask (n, m + 1), target last."""
    (p, K), G, B = jacobian.V.shape, jacobian.G, jacobian.B
    pairs = (G[:, None, :] * G[None, :, :]).reshape(K * K, -1).T
    m = jacobian.m
    squares = np.zeros((K * K, m))  # Σ ρₖρₗ over the rows in which a column is unknown
    for s in row_slices(jacobian.n, K * p):
        Z, S, rho = jacobian.factor.rows(jacobian.X[s]), jacobian.S[s], jacobian.rho[s]
        cells, targets = mask[s, :-1].astype(np.float64), mask[s, -1]
        Gamma = (cells @ pairs).reshape(-1, K, K)
        add_kronecker(total, S @ Gamma @ S + targets[:, None, None] * _squares(jacobian.labels(s)), Z)
        squares += (rho[:, :, None] * rho[:, None, :]).reshape(len(Z), -1).T @ cells
    mirror(total, K)
    size = norm_estimate(lambda x: total @ x, len(total))
    blocks = total.reshape(K, p, K, p)
    for k in range(K):
        cross = np.zeros((K, p, m))
        for s in row_slices(jacobian.n, K * max(p, m)):
            Z, S, rho = jacobian.factor.rows(jacobian.X[s]), jacobian.S[s], jacobian.rho[s]
            slopes = (S[:, k] @ G) * mask[s, :-1]
            cross += np.stack([Z.T @ (slopes * r[:, None]) for r in rho.T])
        for other in range(K):
            block = cross[other] @ B.T
            blocks[k, :, other] += block
            blocks[other, :, k] += block.T
    for k in range(K):
        for other in range(K):
            blocks[k, :, other] += (B * squares[k * K + other]) @ B.T
    rho = jacobian.rho
    return size + float(np.linalg.norm(rho.T @ rho, 2)) * float(np.linalg.norm(B, 2)) ** 2


def _squares(labels: FloatArray) -> FloatArray:
    """(n, K', K') LᵀL of each row, from Lᵀ (n, K', K)."""
    return np.asarray(labels @ labels.transpose(0, 2, 1))


def _add_columns(blocks: FloatArray, residuals: FloatArray, B: FloatArray) -> float:
    """Adds residuals ⊗ BBᵀ to blocks (K', p, K', p); returns its norm."""
    BB = B @ B.T
    for k in range(len(residuals)):
        for other in range(len(residuals)):
            blocks[k, :, other] += residuals[k, other] * BB
    return float(np.linalg.norm(residuals, 2)) * float(np.linalg.norm(B, 2)) ** 2 if B.size else 0.0
