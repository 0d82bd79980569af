"""Huber regression with a scale: weights, intercept and scale σ minimise one objective together (Huber 1981).

    Σ ω (σ + H(z) σ) + α ||w||²,      z = (w·x + b - y)/σ,      H(z) = z² if |z| <= ε, else 2ε|z| - ε²

This is scikit-learn's HuberRegressor. G is half the gradient; with ψ = z inside and ±ε outside, x̃ with a 1 last:

    G_w = Σ ω ψ x̃ + α w          dG_w/dx = ω (1 x̃ wᵀ/σ + ψ I)     dG_w/dy = -ω 1 x̃/σ
    G_σ = Σ ω (1 - min(z², ε²))/2  dG_σ/dx = -ω 1 z w/σ              dG_σ/dy = ω 1 z/σ        (1: inside)

G is continuous and its derivative jumps where |z| = ε: figures hold while no row crosses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Mask
from dosimeter.core.checks import number
from dosimeter.glm.equations.estimating_equations import EstimatingEquations, Kink
from dosimeter.glm.equations.released_map import ReleasedMap
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.linalg.validation import HUGE, check_table
from dosimeter.glm.losses.loss import TargetKind

OUTLIERS = (
    "which rows count linearly depends on the table: the choice is not covered, and the attribute outliers_ in the "
    "model's file tells it for each row: remove it"
)


@dataclass(frozen=True, eq=False, repr=False)
class HuberRegression(EstimatingEquations):
    """scikit-learn's HuberRegressor on its table; θ = (weights, intercept, σ). Internal.

    Parameters
    ----------
    X, y : array_like of shape (n, d) and (n,)
        The table.
    epsilon : float, default 1.35
        ε > 1: residuals beyond εσ count linearly.
    alpha : float, default 1e-4
        The penalty α ||w||².
    sample_weight : array_like of shape (n,), optional
        ω; default ones.
    intercept : bool, default True
        Whether there is an unpenalised intercept.

    Raises
    ------
    Refusal
        If the table or an option is invalid.

    Notes
    -----
    Released by default: weights, intercept and σ (`coef_`, `intercept_`, `scale_`); `weights_map` leaves σ out.

    Examples
    --------
    >>> X, y = np.array([[1.0], [2.0], [3.0], [5.0]]), np.array([1.0, 2.0, 4.0, 40.0])
    >>> HuberRegression(X, y, intercept=False).solve().kinks[0].distance > 0.05
    True
    """

    X: FloatArray
    y: FloatArray
    epsilon: float = 1.35
    alpha: float = 1e-4
    sample_weight: Any = None
    intercept: bool = True
    target = TargetKind.NUMBER

    def __post_init__(self) -> None:
        X, y, weight = check_table(self.X, self.y, self.sample_weight)
        number("epsilon", self.epsilon, 1.0, HUGE)
        number("alpha", self.alpha, 0.0, HUGE, strictly=False)
        for name, values in (("X", X), ("y", y), ("sample_weight", weight)):
            object.__setattr__(self, name, values)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return (*(f"weight {j}" for j in range(self.d)), *(["intercept"] if self.intercept else []), "scale")

    @cached_property
    def released(self) -> ReleasedMap:
        """Weights, intercept and σ."""
        return ReleasedMap.identity(self.parameter_names, "the weights and the scale")

    @property
    def weights_map(self) -> ReleasedMap:
        """Weights and intercept alone: all that a prediction needs."""
        return ReleasedMap.part(np.s_[:-1], self.parameter_names[:-1], "the weights")

    @property
    def not_covered(self) -> tuple[str, ...]:
        return (OUTLIERS,)

    def value(self, theta: FloatArray) -> FloatArray:
        X, z, _, omega = self._state(theta, np.s_[:])
        G = np.empty(len(theta))
        G[:-1] = (omega * np.clip(z, -self.epsilon, self.epsilon)) @ X
        G[: self.d] += self.alpha * theta[: self.d]
        G[-1] = omega @ (1.0 - np.minimum(z**2, self.epsilon**2)) / 2.0
        return G

    def derivative(self, theta: FloatArray) -> tuple[FloatArray, ...]:
        X, z, inside, omega = self._state(theta, np.s_[:])
        rows = np.column_stack([X, -z])[inside]
        H = (rows.T * (omega[inside] / theta[-1])) @ rows
        H[np.arange(self.d), np.arange(self.d)] += self.alpha
        return (H,)

    def row_derivative(self, theta: FloatArray, rows: Rows) -> FloatArray:
        X, z, inside, omega = self._state(theta, rows)
        d, slope = self.d, omega * inside / theta[-1]
        out = np.zeros((len(X), len(theta), d + 1))
        moved = slope[:, None] * np.column_stack([X, -z])  # dG/d(margin)
        out[:, :, :d] = moved[:, :, None] * theta[:d]
        out[:, np.arange(d), np.arange(d)] += (omega * np.clip(z, -self.epsilon, self.epsilon))[:, None]
        out[:, :, d] = -moved
        return out

    def start(self) -> FloatArray:
        """Least squares with the penalty, and the deviation of its residuals."""
        X, omega = self._rows(np.s_[:]), self.sample_weight
        ridge = np.full(X.shape[1], max(self.alpha, 1e-9 * float(omega.sum())))
        w = np.linalg.solve((X.T * omega) @ X + np.diag(ridge), X.T @ (omega * self.y))
        spread = float(np.sqrt(omega @ (X @ w - self.y) ** 2 / omega.sum()))
        return np.append(w, spread if spread > 0 else 1.0)

    def admissible(self, theta: FloatArray) -> bool:
        return bool(theta[-1] > 0)

    def distances(self, theta: FloatArray) -> FloatArray:
        """(n,) by how much each row's residual is from a kink, in units of the target."""
        _, z, _, _ = self._state(theta, np.s_[:])
        return np.asarray(np.abs(np.abs(z) - self.epsilon) * theta[-1])

    def kinks(self, theta: FloatArray) -> tuple[Kink, ...]:
        """The row nearest to the end of the quadratic part, relative to εσ."""
        relative = self.distances(theta) / (self.epsilon * theta[-1])
        relative[self.sample_weight == 0] = np.inf
        row = int(relative.argmin())
        return (Kink(f"row {row} is at the end of the quadratic part", float(relative[row])),)

    def _rows(self, rows: Rows) -> FloatArray:
        X = self.X[rows]
        return np.column_stack([X, np.ones(len(X))]) if self.intercept else X

    def _state(self, theta: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray, Mask, FloatArray]:
        """x̃ (k, p), z (k,), whether each row is inside, ω."""
        X = self._rows(rows)
        z = (X @ theta[:-1] - self.y[rows]) / theta[-1]
        return X, z, np.abs(z) <= self.epsilon, np.asarray(self.sample_weight)[rows]
