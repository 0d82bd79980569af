"""Eq. 13 of [Hannun21] in coordinates in which its Hessian is close to the identity, and Newton's method on it.

v = A⁻¹w with A from `linalg/inverse_hessian.py`; a row enters as z = Aᵀx̃.
For Softmax v has one row per contrast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import Engine, RowBlock
from dosimeter.core.errors import Refusal
from dosimeter.glm.fitting import softmax_newton
from dosimeter.glm.fitting.existence import inside_margins, refuse_if_separated
from dosimeter.glm.linalg.inverse_hessian import Factor, gram, times
from dosimeter.glm.losses.loss import ScalarLoss
from dosimeter.glm.losses.softmax import Softmax

Loss = ScalarLoss | Softmax
STEPS = 300
SETTLED, ROUNDING = 1e-13, 1e-8
"""A fit ends when no margin moves by more than the first, or by more than the second and no less for three steps."""
KEEP = 1 << 29
"""Bytes of coordinates that are kept between the steps of a fit."""


@dataclass(frozen=True, eq=False)
class NewtonProblem:
    """Eq. 13 in the coordinates v, w = T v."""

    blocks: Sequence[RowBlock]
    """(X, y, ω), and the offset if there is one."""
    penalty: FloatArray
    loss: Loss
    l2: FloatArray
    """(p,) λ of each parameter."""
    intercept: bool
    factor: Factor
    engine: Engine

    @property
    def T(self) -> FloatArray:
        return self.factor.matrix

    @property
    def classes(self) -> int:
        return self.loss.contrast.shape[1] if isinstance(self.loss, Softmax) else 1

    @cached_property
    def _kept(self) -> dict[int, FloatArray]:
        """z of each block, kept if all of it is small relative to a computer's memory."""
        small = sum(b[0].size for b in self.blocks) * 8 <= KEEP
        return {id(b): self.factor.rows(b[0]) for b in self.blocks} if small else {}

    def Z(self, block: RowBlock) -> FloatArray:
        kept = self._kept.get(id(block))
        return self.factor.rows(block[0]) if kept is None else kept

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
        """v (K', p): the least-squares solution for link(y); zero for classifiers."""
        loss = self.loss
        if isinstance(loss, Softmax):
            return np.zeros((self.classes, len(self.T)))
        return self._least_squares(loss.link)

    def _least_squares(self, wanted: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """v (1, p) whose margins are nearest to wanted(y)."""

        def block_sum(b: RowBlock) -> tuple[FloatArray]:
            target = wanted(b[1]) if len(b) < 4 else wanted(b[1]) - b[3]
            return (self.Z(b).T @ (b[2] * target),)

        # TᵀHT = I for the squared loss with these weights, so no solve is needed.
        return np.asarray(self.engine.sum_over(self.blocks, block_sum)[0][None, :])

    def _other_start(self) -> FloatArray:
        """v where the loss is finite: zero, or for a link with a lowest margin the mean's margin or any above it."""
        loss = self.loss
        if isinstance(loss, Softmax) or loss.lowest_margin == -np.inf:
            return np.zeros((self.classes, len(self.T)))
        total, weight = self.engine.sum_over(self.blocks, lambda b: (float(b[2] @ b[1]), float(b[2].sum())))
        v = self._least_squares(lambda y: np.full(len(y), loss.link(np.array([total / weight]))[0]))
        if np.isfinite(self.sums(v, hessian=False)[0]):
            return v
        rows = [(self.Z(b)[b[2] > 0], with_offset(np.zeros(len(b[1])), b)[b[2] > 0]) for b in self.blocks]
        Z, offset = (np.concatenate(part) for part in zip(*rows, strict=True))
        return inside_margins(Z, offset, loss.lowest_margin)[None, :]

    def sums(self, v: FloatArray, hessian: bool = True) -> tuple[float, FloatArray, FloatArray]:
        """Value, gradient (q,), Hessian (q, q) of eq. 13 in v."""
        if hessian and softmax_newton.is_large(self):
            value, gradient, _ = self.sums(v, hessian=False)
            return value, gradient, softmax_newton.hessian(self, v)

        def block_sums(block: RowBlock) -> tuple[Any, ...]:
            Z, y, weight = self.Z(block), block[1], block[2]
            if isinstance(self.loss, Softmax):
                return _softmax_sums(Z, y, weight, v, self.loss, hessian)
            return scalar_sums(Z, y, weight, with_offset(Z @ v[0], block), self.loss, hessian)

        value, gradient, H = self.engine.sum_over(self.blocks, block_sums)
        ridge = self.ridge()
        value = value + 0.5 * float(np.einsum("kp,pq,kq->", v, ridge, v))
        gradient = gradient + (v @ ridge).ravel()
        return value, gradient, H + np.kron(np.eye(self.classes), ridge) if hessian else H

    def minimise(self, v: FloatArray) -> tuple[FloatArray, int]:
        """Newton with step halving until no row's margin moves any more.

        The rule looks at rows and not at the objective: a row of little weight, or far in a tail where Newton gains one
        unit of margin per step, is invisible in the objective long before its margin has settled.
        """
        if softmax_newton.is_large(self):
            return softmax_newton.minimise(self, v, is_settled)
        quadratic = self.loss.quadratic
        value, g, H = self.sums(v, hessian=not quadratic)
        if not np.isfinite(value):
            v = self._other_start()
            value, g, H = self.sums(v, hessian=not quadratic)
        least, stalled = np.inf, 0
        for step in range(1, STEPS + 1):
            move = (g if quadratic else self._solve(H, g, v)).reshape(v.shape)
            size = self.largest_move(v, move)
            stalled = stalled + 1 if size > 0.9 * least else 0
            if is_settled(step, size, stalled):
                return v, step
            least = min(least, size)
            v, value, g, H = self._downhill(v, move, value, quadratic)
        self.refuse_separated(v)
        raise Refusal(f"Newton did not converge in {STEPS} steps (margins still move by {size:.1e}): use a larger l2")

    def largest_move(self, v: FloatArray, move: FloatArray) -> float:
        """max |Δm| / (1 + |m|) over rows of positive weight; for the squared loss relative to the margins."""

        def block(b: RowBlock) -> tuple[float, float, float]:
            Z, used = self.Z(b), b[2] > 0
            m, dm = (np.abs(k)[used] for k in (with_offset(Z @ v.T, b), Z @ move.T))
            ratio = float((dm / (1.0 + m)).max(initial=0.0))
            return (
                ratio,
                float(dm.max(initial=0.0)),
                float(max(m.max(initial=0.0), np.abs(b[1][used]).max(initial=0.0))),
            )

        parts = np.array(self.engine.map_over(self.blocks, block))
        if self.loss.quadratic:
            largest = float(parts[:, 2].max())
            return float(parts[:, 1].max()) / largest if largest > 0 else 0.0
        return float(parts[:, 0].max())

    def _solve(self, H: FloatArray, g: FloatArray, v: FloatArray) -> FloatArray:
        loss = self.loss
        if not isinstance(loss, Softmax) and (loss.has_kinks or not loss.convex) and not surely_positive(H):
            H = self._scoring_hessian(v, loss)
        try:
            return np.asarray(cho_solve(cho_factor(H), g))
        except np.linalg.LinAlgError:
            self.refuse_separated(v)
            raise Refusal("the Hessian became singular to rounding: use a larger l2") from None

    def _scoring_hessian(self, v: FloatArray, loss: ScalarLoss) -> FloatArray:
        """(p, p) with a positive curvature in the place of the observed one: Fisher scoring, or an upper bound."""

        def block_sum(b: RowBlock) -> tuple[FloatArray]:
            Z, weight = self.Z(b), b[2]
            m = _used_margins(with_offset(Z @ v[0], b), weight, loss)
            return (gram(Z, weight * loss.scoring_curvature(m, b[1])),)

        return np.asarray(self.engine.sum_over(self.blocks, block_sum)[0] + self.ridge())

    def refuse_separated(self, v: FloatArray) -> None:
        """Refuse if the loss reaches its infimum only at infinity (perfect or quasi separation)."""
        free = self.l2 == 0
        if free[: len(free) - self.intercept].any() and not self.loss.quadratic:
            rows = self.Z if free.all() else lambda b: times(b[0], np.eye(len(free))[:, free])
            Z = np.concatenate([rows(b) for b in self.blocks])
            y, weight = (np.concatenate([b[k] for b in self.blocks]) for k in (1, 2))
            refuse_if_separated(Z[weight > 0], y[weight > 0], self.loss)

    def _downhill(
        self, v: FloatArray, move: FloatArray, value: float, quadratic: bool
    ) -> tuple[FloatArray, float, FloatArray, FloatArray]:
        step_length = 1.0
        while True:
            trial = v - step_length * move
            trial_value, g, H = self.sums(trial, hessian=not quadratic)
            # Near the end the value no longer falls visibly: allow a rise within rounding.
            if np.isfinite(trial_value) and trial_value <= value + 1e-13 * abs(value):
                return trial, trial_value, g, H
            step_length /= 2
            if step_length < 1e-12:
                self.refuse_separated(v)
                if not isinstance(self.loss, Softmax) and self.loss.lowest_margin > -np.inf:
                    raise Refusal(
                        f"the weights run to a margin of {self.loss.lowest_margin:g}, where this link has no mean, so "
                        "no minimiser exists inside: use the log link or a larger l2"
                    )
                raise Refusal("no step lowers the loss: rescale the columns or use a larger l2")


def with_offset(m: FloatArray, block: RowBlock) -> FloatArray:
    """Margins (n,) or (n, K') plus the block's offset, if it has one."""
    return m if len(block) < 4 else m + block[3].reshape(-1, *[1] * (m.ndim - 1))


def surely_positive(H: FloatArray) -> bool:
    """Whether H (p, p) is positive definite beyond the rounding of its sums."""
    eigenvalues = np.linalg.eigvalsh(H)
    return bool(eigenvalues[0] > 1e-12 * len(H) * np.abs(eigenvalues[[0, -1]]).max())


def _used_margins(m: FloatArray, weight: FloatArray, loss: ScalarLoss) -> FloatArray:
    """(n,) margins; a row without weight gets a harmless one, since it must not overflow either."""
    return np.where(weight > 0, m, 0.0 if loss.lowest_margin == -np.inf else loss.lowest_margin + 1.0)


def is_settled(step: int, size: float, stalled: int) -> bool:
    """Whether a fit ends: the largest move of a margin, and for how many steps it has not become smaller."""
    return step > 1 and (size <= SETTLED or (stalled >= 3 and size <= ROUNDING))


def scalar_sums(
    Z: FloatArray, y: FloatArray, weight: FloatArray, m: FloatArray, loss: ScalarLoss, hessian: bool
) -> tuple[Any, ...]:
    """Value, gradient (p,) and Hessian (p, p) of some rows z with margins m, without the penalty."""
    m, p = _used_margins(m, weight, loss), Z.shape[1]
    value = float(weight @ loss.value(m, y))
    if not np.isfinite(value):  # the step was too long; nothing else of it is used
        return np.inf, np.zeros(p), np.zeros((p, p)) if hessian else 0.0
    gradient = Z.T @ (weight * loss.residual(m, y))
    return value, gradient, gram(Z, weight * loss.curvature(m, y)) if hessian else 0.0


def _softmax_sums(
    Z: FloatArray, y: FloatArray, weight: FloatArray, v: FloatArray, loss: Any, hessian: bool
) -> tuple[Any, ...]:
    m = Z @ v.T
    value = float(weight @ loss.value(m, y))
    gradient = (Z.T @ (weight[:, None] * loss.residual(m, y))).T.ravel()
    if not hessian:
        return value, gradient, 0.0
    S, p, K = loss.curvature(m, y), Z.shape[1], v.shape[0]
    H = np.empty((K, p, K, p))
    for k in range(K):  # one product per class: all its blocks to the right of the diagonal together
        weighted = (weight[:, None] * S[:, k, k:])[:, :, None] * Z[:, None, :]
        H[k, :, k:, :] = (Z.T @ weighted.reshape(len(Z), -1)).reshape(p, K - k, p)
        H[k + 1 :, :, k, :] = H[k, :, k + 1 :, :].transpose(1, 2, 0)
    return value, gradient, H.reshape(K * p, K * p)
