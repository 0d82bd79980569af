"""`Fit`: the minimiser of [Hannun21] eq. 13, with the margins and derivatives that its leakage needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.fitting.newton import Loss
from dosimeter.glm.linalg.inverse_hessian import Factor
from dosimeter.glm.losses.label_weights import LabelWeights
from dosimeter.glm.losses.softmax import Softmax


@dataclass(frozen=True, eq=False)
class Fit:
    """A minimiser and what its leakage needs. Internal: it holds per-row margins and is never released.

    Examples
    --------
    >>> from dosimeter.glm.fitting.fit import fit
    >>> from dosimeter.glm.losses.loss import Squared
    >>> X, y = np.array([[1.0], [2.0]]), np.array([1.0, 2.0])
    >>> fit(X, y, Squared(), l2=0.0).w.round(12)
    array([1.])
    """

    loss: Loss
    l2_by_parameter: FloatArray
    """(p,) λ of each parameter; 0 for an intercept that is not penalised."""
    intercept: bool
    w: FloatArray
    """(p,), or (p, K') for Softmax; the intercept last."""
    factor: Factor
    """A (p, p): A Aᵀ = H⁻¹ for a single margin; for Softmax the scale of the columns, see `inner`."""
    inner: FloatArray
    """(q, q) with H⁻¹ = (I ⊗ A) inner innerᵀ (I ⊗ A)ᵀ, class after class; the identity for a single margin."""
    y: FloatArray
    """(n,) the targets."""
    offset: FloatArray | None
    """(n,) what is added to each margin, a known constant; None if nothing is."""
    margin: FloatArray
    """(n,) or (n, K') w·x of each row, plus its offset."""
    curvature: FloatArray
    """(n,) or (n, K', K') d²l/dm² of each row."""
    residual: FloatArray
    """(n,) or (n, K') dl/dm of each row, relatively exact where it is a small difference."""
    sample_weight: FloatArray
    """(n,) ω."""
    gradient_norm: float
    """||∇|| of eq. 13 at w: the convergence certificate."""
    decrement: float
    """√(∇ᵀ H⁻¹ ∇): the distance to the minimiser, in the metric of the Hessian."""
    iterations: int
    """Newton steps; 0 if the parameters were given."""
    reach: float
    """Largest Σ|xⱼ wⱼ| + |offset| of a row: the size against which rounding of a margin is judged."""
    fingerprint_direction: FloatArray
    """(d,) a direction unrelated to w; its products with the rows identify the table."""
    fingerprint: FloatArray
    """(n,) those products."""
    label_weights: LabelWeights | None = field(default=None, kw_only=True)
    """What each row weighs with each label, if that depends on the label; `sample_weight` has that of its own."""

    @property
    def penalty(self) -> FloatArray:
        """(p,) nλ of each parameter."""
        return self.n * self.l2_by_parameter

    @property
    def l2(self) -> float:
        """λ, if all columns have the same."""
        columns = self.l2_by_parameter[: len(self.coef)]
        if (columns != columns[0]).any():
            raise CannotMeasure("the columns have different penalties, so no single l2 describes this fit: use penalty")
        return float(columns[0])

    @property
    def penalises_intercept(self) -> bool:
        """Whether there is an intercept with a penalty."""
        return self.intercept and bool(self.l2_by_parameter[-1] > 0)

    @property
    def same_problem(self) -> dict[str, Any]:
        """Keyword arguments of `fit` that repeat this problem on a table of the same rows."""
        return {"l2": self.l2_by_parameter, "intercept": self.intercept, "offset": self.offset}

    @property
    def target_response(self) -> FloatArray:
        """(n,) -d²l/dm dy times ω, or with class weights how the weighted gradient moves with the label."""
        if isinstance(self.loss, Softmax):
            raise TypeError("this is for a single margin")
        if self.label_weights is not None:
            return self.label_weights.response(self.loss, self.margin)
        omega = self.sample_weight
        return omega if self.loss.canonical else omega * self.loss.target_derivative(self.margin, self.y)

    @property
    def label_moves(self) -> FloatArray | None:
        """(n, K', K) how the weighted gradient of Softmax moves with the class indicators, if classes have weights."""
        if self.label_weights is None or not isinstance(self.loss, Softmax):
            return None
        return self.label_weights.softmax_moves(self.residual, self.y, self.loss.contrast)

    @property
    def kink_distances(self) -> FloatArray:
        """(n,) how far each margin may move before its row's curvature jumps: at 0 a row has two derivatives and no
        figure is exact. Infinite for a smooth loss, and for a row without weight.
        """
        if isinstance(self.loss, Softmax):
            return np.full(self.n, np.inf)
        return np.where(self.sample_weight > 0, self.loss.distance_to_kink(self.margin, self.y), np.inf)

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
        columns = self.l2_by_parameter[: len(self.coef)]
        l2 = f"{columns[0]:g}" if (columns == columns[0]).all() else f"{columns.min():g} to {columns.max():g}"
        return (
            f"<Fit {self.loss.description}, {self.n} rows, {self.w.size} parameters, l2 = {l2}, "
            f"gradient norm {self.gradient_norm:.1e}>"
        )
