"""Cross-validation of a table that is read in blocks: the fits of all folds together, then the scores of all scales.

A fold's fit is Newton's method from the minimiser of the whole table, in the coordinates in which that table's Hessian
is close to the identity. The sums of all folds come from the same pass; where they are at the same parameters (at the
start) every row is summed once. The last step is taken without a pass that confirms it: it moves no margin by more than
`SMALL`, and Newton's error is its square.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import Engine, Largest, RowBlock, add_terms, rows_per_block, split
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Density, Gaussian
from dosimeter.glm.blocks.block_scores import score_of, score_terms
from dosimeter.glm.fitting.block_fit import IN_CACHE, BlockFit
from dosimeter.glm.fitting.newton import scalar_sums
from dosimeter.glm.linalg.inverse_hessian import Factor
from dosimeter.glm.losses.loss import ScalarLoss
from dosimeter.glm.losses.scalar_loss import TwoClassLoss
from dosimeter.glm.releases.cross_validation import TRIALS

SMALL = 1e-7
"""A step that moves no margin by more is the last; of the squared loss relative to the largest margin."""
STEPS, HALVINGS = 40, 30
NO_FOLD = "a fold of the cross-validation has no finite minimiser: use a larger l2"


class NoFoldFit(Refusal):
    """The table has a fit, and without one of its folds it has none or no score. Nothing is wrong with its files."""


@dataclass(frozen=True, eq=False)
class FoldFits:
    """A fit without each fold. Internal."""

    whole: BlockFit
    v: FloatArray
    """(folds, p) parameters in the coordinates of the whole fit."""

    @property
    def folds(self) -> int:
        """Number of folds."""
        return len(self.v)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Eq. 13 without one fold, at that fold's parameters."""

    value: float
    gradient: FloatArray
    hessian: FloatArray


def fit_folds(
    parts: Sequence[Any],
    whole: BlockFit,
    folds: int,
    l2: Callable[[int], float],
    engine: Engine,
) -> FoldFits:
    """Fit the table without each of its folds. parts: of blocks (X, y, ω, fold). l2: number of rows -> λ."""
    T = whole.coordinates
    v = np.tile(whole.v, (folds, 1))
    same = partial(same_point_terms, factor=T, v=whole.v, loss=whole.loss, folds=folds)
    values, gradients, hessians, counts, largest = engine.sum_over(parts, same)
    row, size = float(np.sqrt(largest.value[0])), float(largest.value[1])
    ridges = [_ridge(T, whole, int(counts.sum() - counts[k]), l2) for k in range(folds)]
    others = [np.arange(folds) != k for k in range(folds)]
    at = [
        _penalised(values[o].sum(), gradients[o].sum(axis=0), hessians[o].sum(axis=0), ridges[k], v[k])
        for k, o in enumerate(others)
    ]
    unit = size if whole.loss.quadratic and size > 0 else 1.0
    for _ in range(STEPS):
        moves = np.array([_newton_step(sums) for sums in at])
        if row * np.linalg.norm(moves, axis=1).max() <= SMALL * unit:
            return FoldFits(whole, v - moves)
        if whole.loss.quadratic:  # one step is exact
            return FoldFits(whole, v - moves)
        v, at = _downhill(parts, whole, v, moves, at, ridges, engine)
    raise NoFoldFit(NO_FOLD)


def _ridge(T: Factor, whole: BlockFit, rows: int, l2: Callable[[int], float]) -> FloatArray:
    """(p, p) the penalty of a fold in the coordinates of T."""
    if rows < 1:
        raise NoFoldFit(NO_FOLD)
    strength = np.full(len(whole.w), rows * l2(rows))
    strength[len(whole.coef) :] = 0.0
    roots = T.columns(np.diag(np.sqrt(strength)))
    return np.asarray(roots @ roots.T)


def _penalised(value: float, gradient: FloatArray, hessian: FloatArray, ridge: FloatArray, v: FloatArray) -> _Sums:
    return _Sums(float(value + 0.5 * v @ ridge @ v), gradient + ridge @ v, hessian + ridge)


def _newton_step(sums: _Sums) -> FloatArray:
    try:
        return np.asarray(cho_solve(cho_factor(sums.hessian), sums.gradient))
    except (np.linalg.LinAlgError, ValueError):
        raise NoFoldFit(NO_FOLD) from None


def _downhill(
    parts: Sequence[Any],
    whole: BlockFit,
    v: FloatArray,
    moves: FloatArray,
    at: list[_Sums],
    ridges: list[FloatArray],
    engine: Engine,
) -> tuple[FloatArray, list[_Sums]]:
    """All folds one step on; the step of a fold whose value rose is halved, and all are summed again."""
    lengths = np.ones(len(v))
    for _ in range(HALVINGS):
        trial = v - lengths[:, None] * moves
        f = partial(fold_terms, factor=whole.coordinates, V=trial, loss=whole.loss)
        values, gradients, hessians = engine.sum_over(parts, f)
        there = [_penalised(values[k], gradients[k], hessians[k], ridges[k], trial[k]) for k in range(len(v))]
        rose = np.array([not t.value <= a.value + 1e-13 * abs(a.value) for t, a in zip(there, at, strict=True)])
        if not rose.any():
            return trial, there
        lengths[rose] /= 2
    raise NoFoldFit(NO_FOLD)


# --- what a pass sums ---


def same_point_terms(block: RowBlock, factor: Factor, v: FloatArray, loss: ScalarLoss, folds: int) -> tuple[Any, ...]:
    """Value (folds,), gradient (folds, p), Hessian (folds, p, p), rows of each fold; (max |z|², largest margin)."""
    total: tuple[Any, ...] | None = None
    for some in split(block, rows_per_block(len(v), IN_CACHE)):
        total = add_terms(total, _same_point(some, factor, v, loss, folds))
    if total is None:
        raise Refusal("a block has no rows")
    return total


def _same_point(block: RowBlock, factor: Factor, v: FloatArray, loss: ScalarLoss, folds: int) -> tuple[Any, ...]:
    X, y, weight, fold = block
    Z = factor.rows(X)
    m, p = Z @ v, len(v)
    sums = [np.zeros(folds), np.zeros((folds, p)), np.zeros((folds, p, p))]
    for k in range(folds):
        mine = fold == k
        for total, part in zip(sums, scalar_sums(Z[mine], y[mine], weight[mine], m[mine], loss, True), strict=True):
            total[k] = part
    lengths = float(np.einsum("np,np->n", Z, Z).max(initial=0.0))
    size = max(float(np.abs(m).max(initial=0.0)), float(np.abs(y).max(initial=0.0)))
    return (*sums, np.bincount(fold, minlength=folds), Largest(np.array([lengths, size])))


def fold_terms(block: RowBlock, factor: Factor, V: FloatArray, loss: ScalarLoss) -> tuple[Any, ...]:
    """Value (folds,), gradient (folds, p), Hessian (folds, p, p) of the rows outside each fold, at its V (folds, p)."""
    folds, p = V.shape
    sums = np.zeros(folds), np.zeros((folds, p)), np.zeros((folds, p, p))
    for X, y, weight, fold in split(block, rows_per_block(p, IN_CACHE)):
        Z = factor.rows(X)
        for k in range(folds):
            kept = fold != k
            z = Z[kept]
            terms = scalar_sums(z, y[kept], weight[kept], z @ V[k], loss, True)
            for total, part in zip(sums, terms, strict=True):
                total[k] += part
    return sums


# --- scores ---


def held_out_scores(
    parts: Sequence[Any], fits: FoldFits, scales: Sequence[float], law: type[Density], mean: float, engine: Engine
) -> list[float]:
    """The expected score on rows left out, for each scale (0: without noise), by one pass. mean: of the targets."""
    f = partial(held_out_terms, fits=fits, scales=tuple(scales), law=law, mean=mean)
    (terms,) = engine.sum_over(parts, f)
    return [_mean_score(fits.whole.loss, terms[k]) for k in range(len(scales))]


def _mean_score(loss: ScalarLoss, terms: FloatArray) -> float:
    scores = [score_of(loss, line) for line in terms if not np.isnan(line).all()]
    if not scores or None in scores:
        raise NoFoldFit(f"the score of the {loss.name} loss is not a ratio of sums here")
    return float(np.mean([s for s in scores if s is not None]))


def held_out_terms(
    block: RowBlock, fits: FoldFits, scales: tuple[float, ...], law: type[Density], mean: float
) -> tuple[FloatArray]:
    """(scales, TRIALS, 2) what the scores sum; where a formula holds only the first trial is used, the rest is nan."""
    X, y, _, fold = block
    loss, law_at = fits.whole.loss, _law_at(law)
    m = np.einsum("np,np->n", fits.whole.coordinates.rows(X), fits.v[fold])
    out = np.full((len(scales), TRIALS, 2), np.nan)
    rows = np.column_stack([X, np.ones(len(X))]) if fits.whole.intercept else X
    moved = np.sum(rows**2, axis=1)
    known = loss.has_expected_score and (law is Gaussian or (loss.quadratic and law.symmetric))
    for k, scale in enumerate(scales):
        if scale == 0 or known:
            variance = moved * (law_at(scale).variance if scale > 0 else 0.0)
            out[k, 0] = _expected_terms(loss, m, y, mean, variance)
            continue
        draws = law_at(scale).draw(np.random.Generator(np.random.PCG64(0)), (TRIALS, rows.shape[1]))
        for t, b in enumerate(draws):
            out[k, t] = _expected_terms(loss, m + rows @ b, y, mean, np.zeros_like(m))
    return (out,)


def _expected_terms(loss: ScalarLoss, m: FloatArray, y: FloatArray, mean: float, variance: FloatArray) -> FloatArray:
    """As `expected_score`: of a loss without a formula the score itself, which is used without noise only."""
    formula = loss.has_expected_score or isinstance(loss, TwoClassLoss)
    return score_terms(loss, m, y, mean, variance if formula else None)


def _law_at(law: type[Density]) -> Any:
    return law
