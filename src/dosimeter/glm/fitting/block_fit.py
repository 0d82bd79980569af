"""The exact minimiser of eq. 13 of [Hannun21] on a table that is read in blocks: one pass over the rows a Newton step.

Everything is a sum over blocks of (X, y, ω): value, gradient and Hessian at the current parameters, in coordinates
v = T⁻¹w in which the Hessian is close to the identity. T comes from the minimiser of a few rows, which is also where
Newton starts, so most fits take four or five passes. A row enters the certificate by |z| = |Tᵀx̃|: a step changes no
margin by more than max |z| · |step|, which the pass that found the step has summed already.

If the columns are nearly dependent, T and the factor of the Hessian come from `inverse_factor` as for a table in
memory, by a few more passes with exact products; nothing of the promise on digits is given up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import Engine, Largest, RowBlock, add_terms, rows_per_block, split
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.glm.fitting.fit import fit
from dosimeter.glm.fitting.iterative_refinement import ROUNDS, residual, two_sum
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.fitting.newton import ROUNDING, SETTLED, STEPS, scalar_sums
from dosimeter.glm.linalg.inverse_hessian import Factor, factor_in, inverse_factor
from dosimeter.glm.losses.loss import ScalarLoss

IN_CACHE = 1 << 20
"""Bytes of rows that are summed at a time."""
CANCELS = 1e4
"""Reach over the root mean square of the residuals from which a least-squares fit is refined, as in memory."""


@dataclass(frozen=True, eq=False)
class BlockFit:
    """A minimiser of a table in blocks: `Fit` without its rows. `rows(block)` is the `Fit` of some of them. Internal.

    Examples
    --------
    >>> from dosimeter.core.engine import LocalEngine
    >>> from dosimeter.glm.losses.loss import Squared
    >>> blocks = [(np.array([[1.0], [2.0]]), np.array([1.0, 2.0]), np.ones(2))]
    >>> fit_blocks(blocks, Squared(), n=2, d=1, l2=0.0, engine=LocalEngine(), intercept=False).w.round(12)
    array([1.])
    """

    loss: ScalarLoss
    l2_by_parameter: FloatArray
    """(p,) λ of each parameter; 0 for the intercept."""
    intercept: bool
    w: FloatArray
    """(p,), the intercept last."""
    low: FloatArray | None
    """(p,) what rounding took from w, if residuals needed it (`fitting/iterative_refinement.py`)."""
    coordinates: Factor
    """T, in which Newton ran."""
    v: FloatArray
    """(p,) the minimiser there."""
    factor: Factor
    """A (p, p): A Aᵀ = H⁻¹."""
    n: int
    gradient_norm: float
    decrement: float
    iterations: int
    """Newton steps, one pass over the rows each."""
    reach: float
    """At least the largest Σ|xⱼ wⱼ| of a row."""

    @property
    def coef(self) -> FloatArray:
        """(d,) w without the intercept."""
        return self.w[:-1] if self.intercept else self.w

    @property
    def condition(self) -> float:
        """Condition number of the column-scaled weighted table."""
        return self.factor.condition

    @property
    def l2(self) -> float:
        """λ of the columns."""
        return float(self.l2_by_parameter[0])

    def margin(self, block: RowBlock) -> FloatArray:
        """(k,) w·x of the rows of a block."""
        return np.asarray(self.coordinates.rows(block[0]) @ self.v)

    def rows(self, block: RowBlock) -> Fit:
        """The state of some rows, as `glm.fit` has it of all."""
        X, y, weight = block[:3]
        m, loss, used = self.margin(block), self.loss, weight > 0
        at = loss.residual(m, y) if self.low is None else residual((X, y, weight), self.w, self.low)
        nothing: FloatArray = np.zeros(0)
        return Fit(
            loss=loss,
            l2_by_parameter=self.l2_by_parameter,
            intercept=self.intercept,
            w=self.w,
            factor=self.factor,
            inner=np.eye(len(self.w)),
            y=y,
            offset=None,
            margin=m,
            curvature=np.where(used, loss.curvature(m, y), 0.0),
            residual=np.where(used, at, 0.0),
            sample_weight=weight,
            gradient_norm=self.gradient_norm,
            decrement=self.decrement,
            iterations=self.iterations,
            reach=self.reach,
            fingerprint_direction=nothing,
            fingerprint=nothing,
        )

    def __repr__(self) -> str:
        return (
            f"<BlockFit {self.loss.description}, {self.n} rows in blocks, {self.w.size} parameters, l2 = {self.l2:g}, "
            f"gradient norm {self.gradient_norm:.1e}>"
        )


def fit_blocks(
    blocks: Iterable[Any],
    loss: ScalarLoss,
    *,
    n: int,
    d: int,
    l2: float,
    engine: Engine,
    intercept: bool = True,
    sample: tuple[FloatArray, FloatArray] | None = None,
    largest: FloatArray | None = None,
) -> BlockFit:
    """The minimiser over parts or blocks (X, y, ω) that can be read again.

    n: rows, d: columns of X. l2: λ ≥ 0 on every column. sample: X and y of some rows, where Newton starts. largest:
    (d,) the largest magnitude of each column; without it one more pass finds it if it is needed.
    """
    refuse_unsuitable(loss)
    strengths = np.full(d + intercept, float(l2))
    strengths[d:] = 0.0
    penalty = n * strengths
    problem = _Problem(blocks, loss, penalty, engine)
    T, w = _start(problem, strengths, n, intercept, sample)
    v, sums, T, steps = _minimise(problem, T, w)
    factor = problem.factor_at(T, v, sums)
    w, low = T.matrix @ v, None
    sizes = problem.sizes() if largest is None else largest
    reach = float(np.abs(w[:d]) @ sizes + (abs(w[d]) if intercept else 0.0))
    if loss.quadratic and (not factor.easy or reach**2 * n > CANCELS**2 * 2.0 * sums.loss):
        w, low = problem.refine(w, factor)
    g_w = np.linalg.solve(T.matrix.T, sums.gradient)
    decrement = solve_triangular(cholesky(sums.hessian, lower=True), sums.gradient, lower=True)
    return BlockFit(
        loss,
        strengths,
        intercept,
        w,
        low,
        T,
        v,
        factor,
        n,
        float(np.linalg.norm(g_w)),
        float(np.linalg.norm(decrement)),
        steps,
        reach,
    )


def refuse_unsuitable(loss: Any) -> None:
    """Refuse losses that are fitted in memory only."""
    if not isinstance(loss, ScalarLoss) or not loss.convex or loss.has_kinks or loss.lowest_margin > -np.inf:
        raise CannotMeasure(
            f"the {loss.name} loss is fitted and measured in memory only: smooth convex losses with one margin "
            "(squared, logistic, poisson, ...) run over blocks"
        )


@dataclass(frozen=True, eq=False)
class _Sums:
    """Eq. 13 at one point."""

    value: float
    loss: float
    """The value without its penalty."""
    gradient: FloatArray
    hessian: FloatArray
    row: float
    """max |z| of a row."""
    size: float
    """The largest margin or target."""


@dataclass(frozen=True, eq=False)
class _Problem:
    blocks: Iterable[Any]
    loss: ScalarLoss
    penalty: FloatArray
    engine: Engine

    def sums(self, T: Factor, v: FloatArray, check: bool = False) -> _Sums:
        """One pass. check: refuse targets that the loss does not have."""
        f = partial(newton_terms, factor=T, v=v, loss=self.loss, check=check)
        value, gradient, H, largest = self.engine.sum_over(self.blocks, f)
        roots = T.columns(np.diag(np.sqrt(self.penalty)))
        ridge = roots @ roots.T
        row, size = largest.value
        penalised = float(value + 0.5 * v @ ridge @ v)
        return _Sums(penalised, float(value), gradient + ridge @ v, H + ridge, float(np.sqrt(row)), float(size))

    def careful(self) -> Factor:
        """T from the table itself."""
        return inverse_factor(self.blocks, self.penalty, self.engine, weigh=table_weights)

    def factor_at(self, T: Factor, v: FloatArray, sums: _Sums) -> Factor:
        """The factor of the Hessian at v."""
        factor = factor_in(T.matrix, sums.hessian) if T.easy else None
        if factor is not None:
            return factor
        weigh = partial(curvature_weights, factor=T, v=v, loss=self.loss)
        return inverse_factor(self.blocks, self.penalty, self.engine, start=T.matrix, weigh=weigh)

    def sizes(self) -> FloatArray:
        """(d,) the largest magnitude of each column."""
        (largest,) = self.engine.sum_over(self.blocks, column_sizes)
        return np.asarray(largest.value)

    def refine(self, w: FloatArray, factor: Factor) -> tuple[FloatArray, FloatArray]:
        """w of the squared loss as a sum of two float64 numbers, `fitting/iterative_refinement.py`."""
        high, low = w, np.zeros_like(w)
        for _ in range(ROUNDS):
            (g,) = self.engine.sum_over(self.blocks, partial(refined_gradient, factor=factor, high=high, low=low))
            g = g + factor.columns(np.diag(self.penalty)) @ (high + low)
            high, low = two_sum(high, low - factor.matrix @ g)
        return high, low


def newton_terms(
    block: RowBlock, factor: Factor, v: FloatArray, loss: ScalarLoss, check: bool = False
) -> tuple[Any, ...]:
    """Value, gradient (p,), Hessian (p, p) of eq. 13 without its penalty, and (max |z|², largest |m| or |y|)."""
    if check:
        loss.check(block[1])
    step = rows_per_block(len(v), IN_CACHE)
    total: tuple[Any, ...] | None = None
    for rows in split(block[:3], step):
        total = add_terms(total, _newton_rows(rows, factor, v, loss))
    if total is None:
        raise Refusal("a block has no rows")
    return total


def _newton_rows(block: RowBlock, factor: Factor, v: FloatArray, loss: ScalarLoss) -> tuple[Any, ...]:
    """The same of rows so few that they and their temporaries stay in a core's cache."""
    X, y, weight = block
    Z = factor.rows(X)
    m = Z @ v
    value, gradient, H = scalar_sums(Z, y, weight, m, loss, True)
    used = weight > 0
    lengths = np.einsum("np,np->n", Z, Z)
    size = max(float(np.abs(m).max(where=used, initial=0.0)), float(np.abs(y).max(where=used, initial=0.0)))
    return value, gradient, H, Largest(np.array([float(lengths.max(where=used, initial=0.0)), size]))


def table_weights(block: RowBlock) -> tuple[FloatArray, FloatArray]:
    """X and ω of a block."""
    return block[0], block[2]


def curvature_weights(
    block: RowBlock, factor: Factor, v: FloatArray, loss: ScalarLoss
) -> tuple[FloatArray, FloatArray]:
    """X of a block and the weights of its rows in the Hessian at v."""
    X, y, weight = block[:3]
    curvature = loss.curvature(factor.rows(X) @ v, y)
    return X, np.where(weight > 0, weight * curvature, 0.0)


def column_sizes(block: RowBlock) -> tuple[Largest]:
    """(d,) the largest magnitude of each column."""
    return (Largest(np.abs(block[0]).max(axis=0, initial=0.0)),)


def refined_gradient(block: RowBlock, factor: Factor, high: FloatArray, low: FloatArray) -> tuple[FloatArray]:
    """(p,) gradient of the squared loss at high + low, with residuals in twice the precision."""
    return (factor.rows(block[0]).T @ (block[2] * residual(block[:3], high, low)),)


def _start(
    problem: _Problem,
    strengths: FloatArray,
    n: int,
    intercept: bool,
    sample: tuple[FloatArray, FloatArray] | None,
) -> tuple[Factor, FloatArray | None]:
    """T and the parameters to start from: those of the sample, or of the table's own columns and zero."""
    p = len(strengths)
    if sample is not None and len(sample[1]) >= 10 * p:
        try:
            some = fit(*sample, problem.loss, float(strengths[0]), intercept=intercept)
        except Refusal:
            some = None
        if some is not None and some.factor.easy:
            T = some.factor.matrix * np.sqrt(len(sample[1]) / n)
            return Factor(T, np.eye(p), some.factor.condition), some.w
    return problem.careful(), None


def _minimise(problem: _Problem, T: Factor, w: FloatArray | None) -> tuple[FloatArray, _Sums, Factor, int]:
    """v, the sums there, T (a sample may have misled) and the number of passes."""
    v: FloatArray = np.zeros(len(problem.penalty))
    if w is not None:
        v = np.asarray(np.linalg.solve(T.matrix, w), dtype=np.float64)
    at = problem.sums(T, v, check=True)
    if w is not None and (not np.isfinite(at.value) or (T.easy and factor_in(T.matrix, at.hessian) is None)):
        T, v = problem.careful(), np.zeros(len(v))
        at = problem.sums(T, v)
    least, stalled = np.inf, 0
    for step in range(1, STEPS + 1):
        try:
            move = np.asarray(cho_solve(cho_factor(at.hessian), at.gradient))
        except np.linalg.LinAlgError:
            raise Refusal(_NO_MINIMISER) from None
        # No margin moves by more than this; of the squared loss relative to the largest margin.
        size = at.row * float(np.linalg.norm(move)) / ((at.size or 1.0) if problem.loss.quadratic else 1.0)
        stalled = stalled + 1 if size > 0.9 * least else 0
        if size <= SETTLED or (stalled >= 3 and size <= ROUNDING):
            return v, at, T, step
        least = min(least, size)
        v, at = _downhill(problem, T, v, move, at)
    raise Refusal(_NO_MINIMISER)


_NO_MINIMISER = (
    "no finite minimiser was reached: the columns may separate the targets, or be dependent; use a larger l2, or look "
    "at some of the rows in memory, where the cause is named"
)


def _downhill(problem: _Problem, T: Factor, v: FloatArray, move: FloatArray, at: _Sums) -> tuple[FloatArray, _Sums]:
    step_length = 1.0
    while step_length >= 1e-12:
        trial = v - step_length * move
        there = problem.sums(T, trial)
        if np.isfinite(there.value) and there.value <= at.value + 1e-13 * abs(at.value):
            return trial, there
        step_length /= 2
    raise Refusal("no step lowers the loss: rescale the columns or use a larger l2")
