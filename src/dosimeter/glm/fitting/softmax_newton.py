"""Newton's method for a softmax model with many parameters: its Hessian (q, q) is summed once, at the end.

A Newton step solves H s = g by conjugate gradients, which need only H times a vector: one pass over the rows, O(n q).
In the coordinates v the first Hessian is close to a multiple of the identity. Later, rows that are fitted well have
lost their curvature, and the Hessian of the rows with the largest curvature, a quarter of them, preconditions the rest.

    H = Σ_{k<l} (c_k - c_l)(c_k - c_l)ᵀ ⊗ U_kl + ridge,     U_kl = Σ ω s_k s_l z zᵀ

because diag s - ssᵀ is the Laplacian of the weights s_k s_l; c_k are the rows of the contrast. Each U_kl is one
symmetric product of positive terms, so nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky
from scipy.linalg.lapack import dtrtri

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import RowBlock
from dosimeter.core.errors import Refusal
from dosimeter.core.progress import track
from dosimeter.glm.linalg.certified_eigenvalue import norm_estimate
from dosimeter.glm.losses.softmax import Softmax

if TYPE_CHECKING:
    from dosimeter.glm.fitting.newton import NewtonProblem

LARGE = 1e11
"""n q², a quarter of the operations of a Hessian, above which it is not summed at every step."""

SLOW = 25
"""Iterations of a solve after which the next ones are preconditioned."""

SHARE = 4
"""One row in this many makes up the preconditioner."""

PANEL = 1 << 20
"""Bytes of rows that stay in a core's cache between the two products of a pass."""

SINGULAR = 1e-9
"""Smallest over largest eigenvalue of a Hessian from which on it counts as singular."""

ITERATIONS = 500
"""A solve ends after this many iterations, converged or not: the step is still downhill."""

Precondition = Callable[[FloatArray], FloatArray]
"""A vector (K', p) times the inverse of a matrix close to the Hessian."""


def is_large(problem: NewtonProblem) -> bool:
    """Whether the Hessian is worth avoiding."""
    n = sum(len(b[1]) for b in problem.blocks)
    return isinstance(problem.loss, Softmax) and n * float(problem.classes * len(problem.T)) ** 2 > LARGE


@dataclass(frozen=True, eq=False)
class _State:
    """The objective at v and what a step from there needs."""

    v: FloatArray
    value: float
    gradient: FloatArray
    """(K', p)."""
    margins: list[FloatArray]
    """(rows, K') of each block."""


def minimise(
    problem: NewtonProblem, v: FloatArray, settled: Callable[[int, float, int], bool]
) -> tuple[FloatArray, int]:
    """The minimiser from v (K', p) and the number of steps; settled(step, size, stalled) decides when to stop."""
    state, least, stalled = _state(problem, v), np.inf, 0
    precondition: Precondition = _identity
    size = np.inf
    for step in range(1, 301):
        curvatures = _curvatures(problem, state)
        move, iterations = _solve(problem, state, curvatures, precondition)
        size = problem.largest_move(state.v, move)
        stalled = stalled + 1 if size > 0.9 * least else 0
        if settled(step, size, stalled):
            return state.v, step
        least = min(least, size)
        state = _downhill(problem, state, move)
        if iterations > SLOW:
            precondition = _preconditioner(problem, state)
    problem.refuse_separated(state.v)
    raise Refusal(f"Newton did not converge in 300 steps (margins still move by {size:.1e}): use a larger l2")


def _panels(Z: FloatArray) -> list[slice]:
    step = max(16, PANEL // (8 * Z.shape[1]))
    return [slice(i, i + step) for i in range(0, len(Z), step)]


def _state(problem: NewtonProblem, v: FloatArray) -> _State:
    """Value, gradient and margins in one pass."""
    loss, across = problem.loss, np.ascontiguousarray(v.T)

    def block(b: RowBlock) -> tuple[float, FloatArray, FloatArray]:
        Z, y, weight = problem.Z(b), b[1], b[2]
        gradient, margin = np.zeros(v.shape), np.empty((len(Z), len(v)))
        for s in _panels(Z):
            margin[s] = Z[s] @ across
            gradient += (weight[s, None] * loss.residual(margin[s], y[s])).T @ Z[s]
        return float(weight @ loss.value(margin, y)), gradient, margin

    parts = problem.engine.map_over(problem.blocks, block)
    pull = v @ problem.ridge()
    value = sum(part[0] for part in parts) + 0.5 * float(np.vdot(pull, v))
    return _State(v, value, sum(part[1] for part in parts) + pull, [part[2] for part in parts])


def _curvatures(problem: NewtonProblem, state: _State) -> list[FloatArray]:
    """(rows, K', K') ω times the curvature, of each block."""
    return [
        b[2][:, None, None] * problem.loss.curvature(m, b[1])
        for b, m in zip(problem.blocks, state.margins, strict=True)
    ]


def _solve(
    problem: NewtonProblem,
    state: _State,
    curvatures: list[FloatArray],
    precondition: Precondition,
) -> tuple[FloatArray, int]:
    """The Newton step (K', p) by preconditioned conjugate gradients, more exactly the closer the minimiser is."""
    ridge = problem.ridge()
    residual, step = state.gradient.copy(), np.zeros_like(state.gradient)
    pull = precondition(residual)
    product = float(np.vdot(residual, pull))
    first = np.sqrt(product)
    # With the square root of the decrement the steps converge superlinearly; 1e-3 is enough for what rounding leaves.
    target = first * max(min(0.1, 0.3 * np.sqrt(first)), 1e-3)
    direction, iterations = pull, 0
    while np.sqrt(product) > target and iterations < ITERATIONS:
        image = _hessian_times(problem, curvatures, ridge, direction)
        bend = float(np.vdot(direction, image))
        if not bend > 0.0:
            problem.refuse_separated(state.v)
            raise Refusal("the Hessian became singular to rounding: use a larger l2")
        length = product / bend
        step += length * direction
        residual -= length * image
        pull = precondition(residual)
        product, before = float(np.vdot(residual, pull)), product
        direction = pull + (product / before) * direction
        iterations += 1
    return step, iterations


def _hessian_times(
    problem: NewtonProblem, curvatures: list[FloatArray], ridge: FloatArray, x: FloatArray
) -> FloatArray:
    across = np.ascontiguousarray(x.T)

    def block(pair: tuple[RowBlock, FloatArray]) -> FloatArray:
        Z, S = problem.Z(pair[0]), pair[1]
        out = np.zeros(x.shape)
        for s in _panels(Z):
            bent = np.matmul(S[s], (Z[s] @ across)[:, :, None])[:, :, 0]
            out += bent.T @ Z[s]
        return out

    pairs = list(zip(problem.blocks, curvatures, strict=True))
    return np.asarray(sum(map(block, pairs)) + x @ ridge)


def _downhill(problem: NewtonProblem, state: _State, move: FloatArray) -> _State:
    length = 1.0
    while True:
        trial = _state(problem, state.v - length * move)
        if np.isfinite(trial.value) and trial.value <= state.value + 1e-13 * abs(state.value):
            return trial
        length /= 2
        if length < 1e-12:
            problem.refuse_separated(state.v)
            raise Refusal("no step lowers the loss: rescale the columns or use a larger l2")


def _identity(x: FloatArray) -> FloatArray:
    return x.copy()


def _preconditioner(problem: NewtonProblem, state: _State) -> Precondition:
    """The inverse of the Hessian of the rows with the largest curvature."""
    weights = [_pair_weights(problem, b, m) for b, m in zip(problem.blocks, state.margins, strict=True)]
    total = np.concatenate([w.sum(axis=1) for w in weights])
    place = len(total) - 1 - len(total) // SHARE
    least = np.partition(total, place)[place]

    def some() -> Iterator[tuple[FloatArray, FloatArray]]:
        for b, w in zip(problem.blocks, weights, strict=True):
            rows = np.flatnonzero(w.sum(axis=1) > least)
            yield problem.Z(b)[rows], w[rows]

    try:
        L = cholesky(_assemble(problem, some()).T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:  # too few rows for a parameter without penalty: the plain method remains
        return _identity
    return lambda x: cho_solve((L, True), x.ravel(), check_finite=False).reshape(x.shape)


def hessian(problem: NewtonProblem, v: FloatArray) -> FloatArray:
    """(q, q) of eq. 13 in v (K', p)."""

    def every() -> Iterator[tuple[FloatArray, FloatArray]]:
        for b in problem.blocks:
            Z = problem.Z(b)
            yield Z, _pair_weights(problem, b, Z @ v.T)

    return _assemble(problem, every())


def _pair_weights(problem: NewtonProblem, block: RowBlock, margin: FloatArray) -> FloatArray:
    """(rows, K(K - 1)/2) ω s_k s_l of a block."""
    s = problem.loss.probabilities(margin)  # type: ignore[union-attr]
    k, other = np.triu_indices(s.shape[1], 1)
    return np.asarray(block[2][:, None] * (s[:, k] * s[:, other]))


def _assemble(problem: NewtonProblem, parts: Iterator[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Σ_{k<l} (c_k - c_l)(c_k - c_l)ᵀ ⊗ U_kl + ridge from rows Z (n, p) and weights of pairs (n, K(K - 1)/2)."""
    C = problem.loss.contrast  # type: ignore[union-attr]
    K, p = C.shape[1], len(problem.T)
    first, second = np.triu_indices(len(C), 1)
    U = np.zeros((len(first), p, p))
    for Z, weight in track(parts, len(problem.blocks)):
        for pair, column in enumerate(np.sqrt(weight).T):
            scaled = column[:, None] * Z
            U[pair] += scaled.T @ scaled
    H = np.zeros((K, p, K, p))
    for pair, slope in enumerate(C[first] - C[second]):
        for a in np.flatnonzero(slope):
            for b in np.flatnonzero(slope[a:]) + a:
                H[a, :, b] += (slope[a] * slope[b]) * U[pair]
    ridge = problem.ridge()
    for k in range(K):
        H[k, :, k] += ridge
        H[k + 1 :, :, k] = H[k, :, k + 1 :].transpose(1, 2, 0)
    return H.reshape(K * p, K * p)


def inverse_root(H: FloatArray) -> FloatArray:
    """L⁻ᵀ (q, q) of the softmax Hessian H = L Lᵀ in the scale of the columns; overwrites H."""
    refusal = Refusal(
        "the softmax Hessian is singular to rounding, so the minimiser is not unique or nearly at infinity: "
        "use Softmax(reference=...) or a larger l2"
    )
    largest = norm_estimate(lambda x: H @ x, len(H))
    try:
        L = cholesky(H.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        raise refusal from None
    inverse, _ = dtrtri(L, lower=1, overwrite_c=1)
    if SINGULAR * largest * norm_estimate(lambda x: inverse.T @ (inverse @ x), len(H)) >= 1.0:
        raise refusal
    return np.asarray(inverse.T)
