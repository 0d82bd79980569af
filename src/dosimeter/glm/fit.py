"""The exact minimiser of [Hannun21] eq. 13, with its certificate.

w* = argmin Σ ωᵢ l(w·xᵢ, yᵢ) + (nλ/2) ||w||², float64; an intercept, where asked for, is the last parameter and is not
penalised. Newton runs in coordinates v = T⁻¹w in which the Hessian is close to the identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from dosimeter.core.engine import Block, Engine, Local, rows_per_block, split
from dosimeter.core.notion import FloatArray
from dosimeter.core.refusal import Refusal
from dosimeter.glm.existence import FAR, refuse_if_separated, refuse_if_unbounded
from dosimeter.glm.factor import Factor, gram, inverse_factor, times
from dosimeter.glm.loss import ScalarLoss, Squared
from dosimeter.glm.refine import cancels, refined
from dosimeter.glm.softmax import Softmax
from dosimeter.glm.table import check_table

Loss = ScalarLoss | Softmax
STEPS = 200


@dataclass(frozen=True, eq=False)
class Fit:
    """A minimiser and what its leakage needs. Internal: it holds per-row margins and is never released.

    >>> X, y = np.array([[1.0], [2.0]]), np.array([1.0, 2.0])
    >>> fit(X, y, Squared(), l2=0.0).w.round(12)
    array([1.])
    """

    loss: Loss
    l2: float
    intercept: bool
    w: FloatArray
    """(p,), or (p, K') for Softmax; the intercept last."""
    factor: Factor
    """A (p, p): A Aᵀ = H⁻¹ for a single margin; for Softmax the columns' own scale, see `inner`."""
    inner: FloatArray
    """(q, q) with H⁻¹ = (I ⊗ A) inner innerᵀ (I ⊗ A)ᵀ, class after class; the identity for a single margin."""
    y: FloatArray
    """(n,) the targets."""
    margin: FloatArray
    """(n,) or (n, K') w·x of each row."""
    curvature: FloatArray
    """(n,) or (n, K', K') d²l/dm² of each row."""
    residual: FloatArray
    """(n,) or (n, K') dl/dm of each row, relatively exact where it is a small difference."""
    sample_weight: FloatArray
    """(n,) ω."""
    gradient_norm: float
    """||∇|| of eq. 13 at w: the convergence certificate."""
    decrement: float
    """√(∇ᵀ H⁻¹ ∇): how far the minimiser is, in the metric of the Hessian."""
    iterations: int
    reach: float
    """Largest Σ|xⱼ wⱼ| of a row: the size against which rounding of a margin is judged."""

    @property
    def condition(self) -> float:
        """Condition number of the column-scaled weighted table."""
        return self.factor.condition

    @property
    def n(self) -> int:
        """Rows of the table."""
        return len(self.sample_weight)

    @property
    def coef(self) -> FloatArray:
        """(d,) or (d, K'): w without the intercept."""
        return self.w[:-1] if self.intercept else self.w

    def __repr__(self) -> str:
        return (
            f"<Fit {self.loss.name}, {self.n} rows, {self.w.size} parameters, l2 = {self.l2:g}, "
            f"gradient norm {self.gradient_norm:.1e}>"
        )


def fit(
    X: Any,
    y: Any,
    loss: Loss,
    l2: float = 0.0,
    *,
    sample_weight: Any = None,
    intercept: bool = False,
    start: Any = None,
    engine: Engine | None = None,
) -> Fit:
    """The minimiser of eq. 13 for X (n, d), y (n,); exact to rounding, or a refusal that says what to do.

    start: (p,) or (p, K') parameters to begin at (an earlier fit makes the next one cheap).
    """
    problem = _problem(X, y, loss, l2, sample_weight, intercept, engine)
    v0 = problem.link_start() if start is None else problem.coordinates(np.asarray(start, dtype=np.float64))
    v, steps = problem.minimise(v0)
    found = problem.finish(v, steps)
    if np.abs(found.margin).max() > FAR:
        problem.refuse_separated(v)
    return found


def at(
    X: Any,
    y: Any,
    loss: Loss,
    w: Any,
    l2: float = 0.0,
    *,
    sample_weight: Any = None,
    intercept: bool = False,
    engine: Engine | None = None,
) -> Fit:
    """The state at given parameters, minimiser or not; `decrement` tells how far off they are."""
    problem = _problem(X, y, loss, l2, sample_weight, intercept, engine)
    return problem.finish(problem.coordinates(np.asarray(w, dtype=np.float64)), 0)


def _problem(
    X: Any, y: Any, loss: Loss, l2: float, sample_weight: Any, intercept: bool, engine: Engine | None
) -> _Problem:
    X, y, weight = check_table(X, y, sample_weight)
    loss.check(y)
    l2 = float(l2)
    if not (np.isfinite(l2) and l2 >= 0):
        raise Refusal(f"l2 must be a finite number >= 0, not {l2}")
    n, d = X.shape
    penalty = np.append(np.full(d, n * l2), [0.0] * intercept)
    refuse_if_unbounded(y, weight, loss, l2, intercept, d)
    blocks = list(split((X, y, weight), rows_per_block(d)))
    engine = engine or Local()
    factor = inverse_factor(blocks, penalty, engine)
    return _Problem(blocks, penalty, loss, l2, intercept, factor, engine)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Eq. 13 in the coordinates v, w = T v."""

    blocks: Sequence[Block]
    penalty: FloatArray
    loss: Loss
    l2: float
    intercept: bool
    factor: Factor
    engine: Engine

    @property
    def T(self) -> FloatArray:
        return self.factor.matrix

    @property
    def classes(self) -> int:
        return self.loss.contrast.shape[1] if isinstance(self.loss, Softmax) else 1

    def Z(self, block: Block) -> FloatArray:
        return self.factor.rows(block[0])

    def ridge(self) -> FloatArray:
        """Tᵀ diag(penalty) T, (p, p)."""
        roots = self.factor.columns(np.diag(np.sqrt(self.penalty)))
        return roots @ roots.T

    def coordinates(self, w: FloatArray) -> FloatArray:
        """v (K', p) of parameters (p,) or (p, K')."""
        expected = (len(self.T),) if not isinstance(self.loss, Softmax) else (len(self.T), self.classes)
        if w.shape != expected or not np.isfinite(w).all():
            raise Refusal(f"parameters must be finite and of shape {expected}, not {w.shape}")
        return np.asarray(np.linalg.solve(self.T, w.reshape(len(self.T), -1)).T, dtype=np.float64)

    def link_start(self) -> FloatArray:
        """v (K', p): the least-squares answer to link(y); zero for classifiers."""
        loss = self.loss
        if isinstance(loss, Softmax):
            return np.zeros((self.classes, len(self.T)))
        (b,) = self.engine.sum_over(self.blocks, lambda k: (self.Z(k).T @ (k[2] * loss.link(k[1])),))
        # TᵀHT = I for the squared loss with these weights, so no solve is needed.
        return np.asarray(b[None, :])

    def sums(self, v: FloatArray, hessian: bool = True) -> tuple[float, FloatArray, FloatArray]:
        """Value, gradient (q,), Hessian (q, q) of eq. 13 in v."""

        def block_sums(block: Block) -> tuple[Any, ...]:
            Z, y, weight = self.Z(block), block[1], block[2]
            return (_softmax_sums if isinstance(self.loss, Softmax) else _scalar_sums)(
                Z, y, weight, v, self.loss, hessian
            )

        value, gradient, H = self.engine.sum_over(self.blocks, block_sums)
        ridge = self.ridge()
        value = value + 0.5 * float(np.einsum("kp,pq,kq->", v, ridge, v))
        gradient = gradient + (v @ ridge).ravel()
        return value, gradient, H + np.kron(np.eye(self.classes), ridge) if hessian else H

    def minimise(self, v: FloatArray) -> tuple[FloatArray, int]:
        """Newton with step halving until the step is lost in rounding."""
        quadratic = isinstance(self.loss, Squared)
        value, g, H = self.sums(v, hessian=not quadratic)
        best = np.inf
        for step in range(1, STEPS + 1):
            move = g if quadratic else self._solve(H, g, v)
            decrement = float(np.sqrt(max(0.0, float(g @ move))))
            small = decrement <= 1e-15 * (1.0 + float(np.linalg.norm(v)))
            if small or (decrement >= 0.5 * best and decrement < 1e-8 * (1.0 + float(np.linalg.norm(v)))):
                return v, step
            best = decrement
            v, value, g, H = self._downhill(v, move.reshape(v.shape), value, decrement, quadratic)
        self.refuse_separated(v)
        raise Refusal(f"Newton did not settle in {STEPS} steps (decrement {best:.1e}): use a larger l2")

    def _solve(self, H: FloatArray, g: FloatArray, v: FloatArray) -> FloatArray:
        try:
            return np.asarray(cho_solve(cho_factor(H), g))
        except np.linalg.LinAlgError:
            self.refuse_separated(v)
            raise Refusal("the Hessian is singular to rounding on the way: use a larger l2") from None

    def refuse_separated(self, v: FloatArray) -> None:
        """Refuse where the loss can be driven to its infimum only at infinity (perfect or quasi separation)."""
        if self.l2 == 0 and not isinstance(self.loss, Squared):
            Z = np.concatenate([self.Z(b) for b in self.blocks])
            y, weight = (np.concatenate([b[k] for b in self.blocks]) for k in (1, 2))
            refuse_if_separated(Z[weight > 0], y[weight > 0], self.loss)

    def _downhill(
        self, v: FloatArray, move: FloatArray, value: float, decrement: float, quadratic: bool
    ) -> tuple[FloatArray, float, FloatArray, FloatArray]:
        share = 1.0
        while True:
            trial = v - share * move
            new, g, H = self.sums(trial, hessian=not quadratic)
            # Near the end the value no longer falls visibly: a rise within rounding is let through.
            slack = 1e-13 * abs(value)
            if np.isfinite(new) and np.isfinite(g).all() and new <= value + slack:
                return trial, new, g, H
            share /= 2
            if share < 1e-12:
                self.refuse_separated(v)
                raise Refusal(f"no descent from here (decrement {decrement:.1e}): use a larger l2")

    def finish(self, v: FloatArray, steps: int) -> Fit:
        """Margins, the factor of the Hessian at the minimiser, and the certificate."""
        flat = [self.Z(b) @ v.T for b in self.blocks]
        margin = np.concatenate(flat)
        _, g, H = self.sums(v)
        w = self.T @ v.T
        if isinstance(self.loss, Softmax):
            factor, inner = self.factor, _inner(H)
        else:
            margin, w = margin[:, 0], w[:, 0]
            factor, inner = self._at_margin(margin), np.eye(len(self.T))
        y = np.concatenate([b[1] for b in self.blocks])
        residual = self.loss.residual(margin, y)
        reach = max(float(times(np.abs(b[0]), np.abs(w.reshape(len(w), -1))).max()) for b in self.blocks)
        if isinstance(self.loss, Squared) and steps and (not factor.easy or cancels(residual, reach)):
            w, residual = refined(w, self.blocks, self.penalty, factor, self.engine)
        g_w = np.linalg.solve(self.T.T, g.reshape(v.shape).T)
        L = cholesky(H, lower=True)
        return Fit(
            loss=self.loss,
            l2=self.l2,
            intercept=self.intercept,
            w=w,
            factor=factor,
            inner=inner,
            y=y,
            margin=margin,
            curvature=self.loss.curvature(margin),
            residual=residual,
            sample_weight=np.concatenate([b[2] for b in self.blocks]),
            gradient_norm=float(np.linalg.norm(g_w)),
            decrement=float(np.linalg.norm(solve_triangular(L, g, lower=True))),
            iterations=steps,
            reach=reach,
        )

    def _at_margin(self, margin: FloatArray) -> Factor:
        """The factor of the Hessian at the minimiser of a loss with a single margin."""
        loss = self.loss
        if isinstance(loss, Softmax | Squared):
            return self.factor
        ends = np.cumsum([len(b[1]) for b in self.blocks])[:-1]
        curved = [(b[0], b[2] * loss.curvature(m)) for b, m in zip(self.blocks, np.split(margin, ends), strict=True)]
        return inverse_factor(curved, self.penalty, self.engine, start=self.T)


def _inner(H: FloatArray) -> FloatArray:
    """L⁻ᵀ (q, q) of the softmax Hessian H = L Lᵀ in the columns' own scale."""
    eigenvalues = np.linalg.eigvalsh(H)
    if eigenvalues[0] <= 1e-12 * eigenvalues[-1]:
        raise Refusal(
            "the softmax Hessian is singular to rounding: the minimiser is not unique or nearly at infinity; "
            "use Softmax(reference=...) or a larger l2"
        )
    return np.asarray(solve_triangular(cholesky(H, lower=True), np.eye(len(H)), lower=True).T)


def _scalar_sums(
    Z: FloatArray, y: FloatArray, weight: FloatArray, v: FloatArray, loss: Any, hessian: bool
) -> tuple[Any, ...]:
    m = Z @ v[0]
    value = float(weight @ loss.value(m, y))
    gradient = Z.T @ (weight * loss.residual(m, y))
    return value, gradient, gram(Z, weight * loss.curvature(m)) if hessian else 0.0


def _softmax_sums(
    Z: FloatArray, y: FloatArray, weight: FloatArray, v: FloatArray, loss: Any, hessian: bool
) -> tuple[Any, ...]:
    m = Z @ v.T
    value = float(weight @ loss.value(m, y))
    gradient = (Z.T @ (weight[:, None] * loss.residual(m, y))).T.ravel()
    if not hessian:
        return value, gradient, 0.0
    S, p, K = loss.curvature(m), Z.shape[1], v.shape[0]
    H = np.empty((K, p, K, p))
    for k in range(K):
        for l in range(k, K):
            H[k, :, l, :] = H[l, :, k, :] = Z.T @ ((weight * S[:, k, l])[:, None] * Z)
    return value, gradient, H.reshape(K * p, K * p)
