"""The whole path from a raw table to the distribution of the release: the oracle of the scaler's figures.

Standardise, minimise by Newton, fold into raw units: the mean μ and the covariance Σ of the released numbers. Fisher
information then follows from the exact divergence between neighbouring tables, KL(θ, θ ± h) = ½ I h² + O(h⁴), without
any derivative. Nothing of the package is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Law = tuple[np.ndarray, np.ndarray]
"""Mean (q,) and a square root (q, q) of the covariance."""


def residual_and_curvature(loss: str, m: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if loss == "squared":
        return m - y, np.ones_like(m)
    if loss == "logistic":
        s = 1 / (1 + np.exp(-m))
        return s - y, s * (1 - s)
    return np.exp(m) - y, np.exp(m)


def minimiser(X: np.ndarray, y: np.ndarray, loss: str, l2: float, weight: Any = 1.0) -> np.ndarray:
    """argmin Σ ω l(w·x̃, y) + (nλ/2)|w|², the intercept last and without penalty."""
    Xt = np.column_stack([X, np.ones(len(X))])
    penalty = np.append(np.full(X.shape[1], len(X) * l2), 0.0)
    w = np.zeros(Xt.shape[1])
    if loss == "poisson":
        w[-1] = np.log(y.mean())
    for _ in range(60):
        r, a = residual_and_curvature(loss, Xt @ w, y)
        step = np.linalg.solve(
            Xt.T @ (Xt * (weight * a)[:, None]) + np.diag(penalty), Xt.T @ (weight * r) + penalty * w
        )
        w = w - step
        if np.abs(step).max() < 1e-15:
            break
    return w


def fold(m: np.ndarray, s: np.ndarray) -> np.ndarray:
    """A (p, p): standardised weights and intercept to those of the raw columns."""
    A = np.diag(np.append(1 / s, 1.0))
    A[-1, :-1] = -m / s
    return A


def released(
    U: np.ndarray, y: np.ndarray, loss: str, l2: float, sigma: float, fitted: Any = True, bounds: Any = None
) -> Law:
    """The distribution of the folded weights with Gaussian noise of deviation sigma on each standardised weight."""
    d = U.shape[1]
    m, s = np.zeros(d), np.ones(d)
    if bounds is not None:
        lower, upper = np.array(bounds, dtype=float).T
        U, m, s = np.clip(U, lower, upper), (lower + upper) / 2, (upper - lower) / 2
    else:
        which = np.broadcast_to(fitted, d)
        m[which], s[which] = U.mean(axis=0)[which], U.std(axis=0)[which]
    A = fold(m, s)
    return A @ minimiser((U - m) / s, y, loss, l2), sigma * A


def divergence(a: Law, b: Law) -> float:
    """KL(a, b) by eigenvalues e of the change of covariance: Σ log1p(e) - e/(1 + e) keeps its digits at e = 1e-6."""
    L = np.linalg.solve(a[1], b[1])
    e = np.linalg.eigvalsh(L @ L.T - np.eye(len(L)))
    moved = np.linalg.solve(b[1], b[0] - a[0])
    return 0.5 * float(np.sum(np.log1p(e) - e / (1 + e)) + moved @ moved)


def information(law: Callable[[np.ndarray], Law], directions: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """(k, k) Fisher information about the coefficients of `directions` (k, ...), by second differences of KL."""
    here = law(np.zeros(directions.shape[1:]))

    def along(v: np.ndarray) -> float:
        # Steps h and 2h remove the fourth order.
        at_step, at_double_step = (
            sum(divergence(here, law(t * h * v)) for t in (1, -1)) / h**2 for h in (step, 2 * step)
        )
        return (4 * at_step - at_double_step) / 3

    k = len(directions)
    diagonal = [along(directions[i]) for i in range(k)]
    out = np.diag(diagonal)
    for i in range(k):
        for j in range(i):
            both = along(directions[i] + directions[j])
            out[i, j] = out[j, i] = (both - diagonal[i] - diagonal[j]) / 2
    return out


def norm(I: np.ndarray) -> float:
    return float(np.sqrt(np.linalg.eigvalsh(I)[-1]))
