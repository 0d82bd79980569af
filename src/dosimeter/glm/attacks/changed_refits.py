"""The minimisers of tables that differ from the fitted one in one row each: docs/explanation/attacks.md, 2.

New weights are w + B c with B Bᵀ = H⁻¹: B = A for a single margin, (I ⊗ A) inner for softmax. In the coordinates c the
fitted table's Hessian is the identity. A vector of weights is w itself, or its classes one after another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.glm.attacks.row_changes import RowChanges
from dosimeter.glm.attacks.softmax_row_changes import SoftmaxRowChanges
from dosimeter.glm.fitting.fit import fit as refit
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.losses.softmax import Softmax

TOGETHER = 256
"""Changed tables refitted together: enough for a product, few enough that one slow row delays few others."""
CHORDS = 25
"""Each chord step gains two to three digits on ordinary tables; a row that needs more is refitted by itself."""

Changes = RowChanges | SoftmaxRowChanges


def row_changes(
    fit: Fit, X: FloatArray, rows: Index, e: FloatArray, margin_change: FloatArray, new_weight: FloatArray
) -> Changes:
    """The changes of `rows` (N,), by e (N, p) = Aᵀ(x̃' - x̃); new_weight (n,) is ω' of each row of the table."""
    same: dict[str, Any] = {
        "z": fit.factor.rows(X[rows]),
        "e": e,
        "y": fit.y[rows],
        "margin": fit.margin[rows],
        "margin_change": margin_change,
        "residual": fit.residual[rows],
        "old_weight": fit.sample_weight[rows],
        "new_weight": new_weight[rows],
    }
    if isinstance(fit.loss, Softmax):
        p, classes = fit.w.shape
        return SoftmaxRowChanges(loss=fit.loss, inner=fit.inner.reshape(classes, p, -1), **same)
    return RowChanges(loss=fit.loss, **same)


def weight_moves(fit: Fit, c: FloatArray) -> FloatArray:
    """(N, q) B c: how the weights move."""
    A = fit.factor.matrix
    if not isinstance(fit.loss, Softmax):
        return np.asarray(c @ A.T)
    p, classes = fit.w.shape
    return np.asarray(((c @ fit.inner.T).reshape(-1, classes, p) @ A.T).reshape(len(c), classes * p))


def settle_changes(
    changed: Changes, c: FloatArray, fit: Fit, X: FloatArray, refit_row: Callable[[int], FloatArray]
) -> FloatArray:
    """(N, q) c at the minimisers, part by part; `refit_row(i)` gives c of a change for which chord steps fail."""
    Z, out = fit.factor.rows(X), c.copy()
    for start in range(0, len(c), TOGETHER):
        part = slice(start, start + TOGETHER)
        out[part], reached = _settle(changed.part(part), c[part], fit, Z)
        for i in np.flatnonzero(~reached):
            out[start + i] = refit_row(start + int(i))
    return out


def _settle(changed: Changes, c: FloatArray, fit: Fit, Z: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    """(N, q) minimisers from c by chord steps, and (N,) whether they were reached."""
    size = np.linalg.norm(c, axis=1)
    before = np.full(len(c), np.inf)
    reached = np.zeros(len(c), dtype=bool)
    for _ in range(CHORDS):
        with np.errstate(over="ignore", invalid="ignore"):
            move = changed.chord(changed.gradient(c, fit, Z))
            length = np.linalg.norm(move, axis=1)
        going = np.isfinite(length) & ~reached & (length < 0.5 * before)
        c = np.where(going[:, None], c - move, c)
        # Steps shrink by a constant factor: below 1e-9 of the whole the next would be negligible.
        reached |= going & (length <= 1e-9 * size) | (length <= 1e-15 * (1 + size))
        before = np.where(going, length, before)
        if not (going & ~reached).any():
            break
    return c, reached


def full_refit(fit: Fit, X: FloatArray, weight: FloatArray) -> FloatArray:
    """(q,) c of a fit from scratch, started at the old weights."""
    refitted = refit(X, fit.y, fit.loss, **fit.same_problem, sample_weight=weight, start=fit.w)
    v = np.linalg.solve(fit.factor.matrix, refitted.w - fit.w)
    return np.asarray(np.linalg.solve(fit.inner, v.T.ravel()) if isinstance(fit.loss, Softmax) else v)


def refit_without(fit: Fit, X: FloatArray, row: int) -> FloatArray:
    """(q,) c of a fit in which the row has weight 0 (n stays); infinite if no such fit exists."""
    weight = fit.sample_weight.copy()
    weight[row] = 0.0
    try:
        return full_refit(fit, X, weight)
    except Refusal:
        return np.full(fit.w.size, np.inf)
