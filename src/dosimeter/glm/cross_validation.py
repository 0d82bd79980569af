"""How well a noised model does on people it was not fitted on, beside a rule that looks at nothing but the target.

k folds, the rows of a person in one of them. On each the model is fitted to the others, in the same way and with the
same noise, and scored on the rows left out; the score is the expectation over the noise,

    squared   E (y - m - x̃b)² = (y - m)² + v        any law, v = x̃ᵀΣx̃ (means of zero)
    logistic  P(right side of 0) = Φ(±m/√v)         Gaussian
    Poisson   E exp(m + x̃b) = exp(m + v/2)          Gaussian

and simulated for other laws. The base rate predicts the table's mean, or its larger class, for everybody: R² and D² of
0, and an accuracy of a half or more. (Learned on the folds it would fall below a coin where classes are even: the
larger class of the others is the smaller one here.) Internal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, xlogy

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density, Gaussian, Laplace, LogisticNoise
from dosimeter.core.progress import counted, stage
from dosimeter.glm.fit import Loss
from dosimeter.glm.fit import fit as minimise
from dosimeter.glm.irfil import irfil
from dosimeter.glm.loss import Logistic, Poisson, Squared
from dosimeter.glm.noise_choice import EQUALISED, KINDS, SHAPED

FOLDS = 5
TRIALS = 32
"""Simulated releases for a law and loss without a formula."""
NAMES = {Squared: "R²", Logistic: "accuracy", Poisson: "D²"}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Margins of every row by a model that did not see it."""

    loss: Loss
    y: FloatArray
    margin: FloatArray
    """(n,) without noise."""
    moved: FloatArray
    """(n,) variance of the margin for noise of unit variance (isotropic) or unit c (shaped)."""
    rows: FloatArray
    """(n, p) the rows, with their 1."""
    folds: int

    @property
    def name(self) -> str:
        """'R²', 'accuracy' or 'D²', on rows left out."""
        return NAMES[type(self.loss)]

    @property
    def base(self) -> float:
        """The base rate's score."""
        if isinstance(self.loss, Logistic):
            ones = float(np.mean(self.y > 0.5))
            return max(ones, 1.0 - ones)
        return 0.0

    def score(self, scale: float, law: type[Density] = Gaussian) -> float:
        """The expected score with noise of this scale (√c for shaped noise); 0 is the model without noise."""
        at: Any = law
        variance = self.moved * (at(scale).variance if scale > 0 else 0.0)
        symmetric = law in (Gaussian, Laplace, LogisticNoise)
        if isinstance(self.loss, Squared) and (symmetric or scale == 0):
            return self._explained(np.sum((self.y - self.margin) ** 2 + variance))
        if law is Gaussian or scale == 0:
            return self._gaussian(self.margin, variance)
        draws = at(scale).draw(np.random.Generator(np.random.PCG64(0)), (TRIALS, self.rows.shape[1]))
        still = np.zeros_like(variance)
        return float(np.mean([self._gaussian(self.margin + self.rows @ b, still) for b in draws]))

    def _gaussian(self, m: FloatArray, variance: FloatArray) -> float:
        if isinstance(self.loss, Squared):
            return self._explained(np.sum((self.y - m) ** 2 + variance))
        if isinstance(self.loss, Logistic):
            side = np.where(self.y > 0.5, m, -m)
            with np.errstate(divide="ignore", invalid="ignore"):
                right = np.where(variance > 0, ndtr(side / np.sqrt(variance)), side > 0)
            return float(right.mean())
        with np.errstate(over="ignore"):
            spent = np.sum(2 * (xlogy(self.y, self.y) - self.y * m - self.y + np.exp(m + variance / 2)))
        return self._explained(spent)

    def _explained(self, spent: Any) -> float:
        y = self.y
        whole = np.sum((y - y.mean()) ** 2) if isinstance(self.loss, Squared) else np.sum(2 * xlogy(y, y / y.mean()))
        return float(1.0 - spent / whole)


def fold_of(n: int, groups: Sequence[Hashable] | None, folds: int = FOLDS) -> Index:
    """(n,) the fold of each row: people, or rows, shuffled by a public seed and dealt in turn."""
    who = list(range(n)) if groups is None else list(groups)
    number = {person: k for k, person in enumerate(dict.fromkeys(who))}
    if len(number) < 2:
        raise Refusal("one person alone cannot be left out: there is nobody to learn from")
    dealt = np.random.Generator(np.random.PCG64(0)).permutation(len(number)) % min(folds, len(number))
    return np.asarray(dealt[[number[person] for person in who]], dtype=np.intp)


def held_out(
    X: Any,
    y: Any,
    loss: Loss,
    l2: Callable[[int], float],
    *,
    kind: str,
    rounds: int = 0,
    groups: Sequence[Hashable] | None = None,
    intercept: bool = True,
    sample_weight: Any = None,
    **how: Any,
) -> HeldOut:
    """Cross-validation of a model of X (n, d), y (n,). l2: number of rows -> penalty λ. kind: one of `KINDS`.

    how: through, label_unit, tied, ... of `irfil`, for equalised noise. A fold that cannot be fitted is refused.
    """
    if kind not in KINDS:
        raise Refusal(f"kind {kind!r} is not one of {', '.join(KINDS)}")
    if type(loss) not in NAMES:
        raise CannotMeasure(f"a {loss.name} model is measured but not scored here: use two classes")
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    rows = np.column_stack([X, np.ones(len(X))]) if intercept else X
    fold = fold_of(len(X), groups)
    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    margin, moved = np.zeros(len(X)), np.zeros(len(X))
    folds = int(fold.max()) + 1
    stage("scoring on people left out")
    for k in counted(range(folds)):
        out = fold == k
        into = ~out
        their = None if groups is None else [g for g, keep in zip(groups, into.tolist(), strict=True) if keep]
        settings: dict[str, Any] = {"sample_weight": weight[into], "intercept": intercept}
        penalty = l2(int(into.sum()))
        if kind == EQUALISED:
            fitted = irfil(
                X[into], y[into], loss, penalty, rounds=rounds, groups=their, tolerance=0.0, **settings, **how
            ).fit
        else:
            fitted = minimise(X[into], y[into], loss, penalty, **settings)
        margin[out] = rows[out] @ fitted.w
        spread = rows[out] @ fitted.factor.matrix if kind == SHAPED else rows[out]
        moved[out] = np.sum(spread**2, axis=1)
    return HeldOut(loss, y, margin, moved, rows, folds)
