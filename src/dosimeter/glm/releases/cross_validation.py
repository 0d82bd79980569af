"""Held-out scores of a noised model, beside a rule that uses only the target.

k folds, with all rows of a person in one of them. For each fold the model is fitted to the others, in the same way and
with the same noise, and scored on the rows left out. The score is the expectation over the noise,

    squared   E (y - m - x̃b)² = (y - m)² + v             any law, v = x̃ᵀΣx̃ (means of zero)
    logistic  P(correct side of 0) = Φ(±m/√v)            Gaussian
    softmax   P(largest margin) = E Π Φ((m - mⱼ)/√v + z)  Gaussian, the margins of the classes
    Poisson   E exp(m + x̃b) = exp(m + v/2)               Gaussian

and simulated for other laws and losses. The base rate predicts the table's mean, or its largest class, for everyone: R²
and D² of 0, and an accuracy of at least one over the number of classes. (Learned on the folds it would fall below a
coin for balanced classes: the larger class of the others is the smaller one here.) Internal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Density, Gaussian
from dosimeter.core.progress import stage, track
from dosimeter.glm.fitting.fit import fit as minimise
from dosimeter.glm.fitting.newton import Loss
from dosimeter.glm.linalg.validation import check_offset
from dosimeter.glm.losses.softmax import Softmax
from dosimeter.glm.releases.folds import FOLDS, FoldRule
from dosimeter.glm.releases.noise_choice import EQUALISED, KINDS, SHAPED
from dosimeter.glm.reweighting.irfil import irfil

TRIALS = 32
"""Simulated releases for a law and loss without a formula."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Margins of every row by a model that was not fitted on it. Internal.

    Examples
    --------
    >>> from dosimeter.glm.losses.loss import Squared
    >>> X = np.arange(20.0)[:, None]
    >>> scores = cross_validate(X, 2 * X[:, 0] + 1, Squared(), lambda n: 0.0, kind="isotropic")
    >>> scores.name, round(scores.score(0.0), 6), scores.base
    ('R²', 1.0, 0.0)
    """

    loss: Loss
    y: FloatArray
    margin: FloatArray
    """(n,) or (n, K') without noise."""
    moved: FloatArray
    """(n,) variance of the margin for noise of unit variance (isotropic) or unit c (shaped)."""
    rows: FloatArray
    """(n, p) the rows, with their 1 for the intercept."""
    folds: int
    """Number of folds."""

    @property
    def name(self) -> str:
        """'R²', 'accuracy' or 'D²', on rows left out."""
        return self.loss.score_name

    @property
    def base(self) -> float:
        """The score of the base rate."""
        return self.loss.base_score(self.y)

    def score(self, scale: float, law: type[Density] = Gaussian) -> float:
        """The expected score with noise of this scale (√c for shaped noise); 0 is the model without noise."""
        law_at: Any = law
        variance = self.moved * (law_at(scale).variance if scale > 0 else 0.0)
        known = law is Gaussian or (self.loss.quadratic and law.symmetric)
        if scale == 0 or (known and self.loss.has_expected_score):
            return self.loss.expected_score(self.margin, self.y, variance)
        weights = (self.rows.shape[1], *self.margin.shape[1:])
        draws = law_at(scale).draw(np.random.Generator(np.random.PCG64(0)), (TRIALS, *weights))
        no_variance = np.zeros_like(variance)
        return float(
            np.mean([self.loss.expected_score(self.margin + self.rows @ b, self.y, no_variance) for b in draws])
        )


def fold_of(n: int, groups: Sequence[Hashable] | None, folds: int = FOLDS, numbers: Any = None) -> Index:
    """(n,) the fold of each row: of its person, by the rule of `folds.FoldRule`.

    numbers: (n,) numbers of the rows in their source, ascending; default: 0, 1, ...
    """
    number = np.arange(n) if numbers is None else np.asarray(numbers)
    if groups is None:
        return FoldRule.of(number, folds).folds_of(number)
    order: dict[Hashable, int] = {}
    person = np.array([order.setdefault(name, len(order)) for name in groups], dtype=np.intp)
    first = number[np.unique(person, return_index=True)[1]]
    return np.asarray(FoldRule.of(first, folds).folds_of(first)[person])


def cross_validate(
    X: Any,
    y: Any,
    loss: Loss,
    l2: Callable[[int], Any],
    *,
    kind: str,
    rounds: int = 0,
    groups: Sequence[Hashable] | None = None,
    intercept: bool = True,
    sample_weight: Any = None,
    offset: Any = None,
    penalised_intercept: bool = False,
    start: Any = None,
    row_numbers: Any = None,
    **options: Any,
) -> HeldOut:
    """Cross-validate a model together with the noise of its release.

    Parameters
    ----------
    X, y : array_like of shape (n, d) and (n,)
        The table.
    loss : Loss
        One of `glm.LOSSES`, or `Softmax(...)`.
    l2 : callable
        Number of rows -> penalty λ, one number or one per column.
    kind : {"isotropic", "shaped", "equalised"}
        How noise is added.
    rounds : int, default 0
        Reweightings, for equalised noise.
    groups : sequence of hashable of length n, optional
        The person of each row; their rows are in one fold.
    intercept : bool, default True
        Whether the model has an intercept.
    sample_weight, offset : array_like of shape (n,), optional
        ω of each row, and what is added to its margin, also when it is left out.
    penalised_intercept : bool, default False
        As in `glm.fit`.
    start : array_like of shape (p,) or (p, K'), optional
        Parameters of the whole table: each fold of a convex loss is fitted from there, which is quicker.
    row_numbers : array_like of shape (n,), optional
        Numbers of the rows in their source, ascending; in a large table they decide the fold. Default: 0, 1, ...
    **options
        `input_map`, `target_unit`, `tied`, ... of `irfil`, for equalised noise.

    Returns
    -------
    HeldOut
        Internal.

    Raises
    ------
    Refusal
        If a fold cannot be fitted, or there is only one person.

    Examples
    --------
    >>> from dosimeter.glm.losses.loss import Squared
    >>> X = np.arange(20.0)[:, None]
    >>> cross_validate(X, X[:, 0] ** 2, Squared(), lambda n: 0.0, kind="isotropic").folds
    5
    """
    if kind not in KINDS:
        raise Refusal(f"kind {kind!r} is not one of {', '.join(KINDS)}")
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    rows = np.column_stack([X, np.ones(len(X))]) if intercept else X
    fold = fold_of(len(X), groups, numbers=row_numbers)
    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    added = check_offset(offset, len(X))
    margins = (len(X), loss.contrast.shape[1]) if isinstance(loss, Softmax) else (len(X),)
    margin, margin_variance = np.zeros(margins) if added is None else added.copy(), np.zeros(len(X))
    folds = int(fold.max()) + 1
    stage("scoring on people left out")
    for k in track(range(folds)):
        left_out = fold == k
        kept = ~left_out
        kept_groups = None if groups is None else [g for g, keep in zip(groups, kept.tolist(), strict=True) if keep]
        settings: dict[str, Any] = {"sample_weight": weight[kept], "intercept": intercept}
        settings |= {"offset": None if added is None else added[kept], "penalised_intercept": penalised_intercept}
        penalty = l2(int(kept.sum()))
        if kind == EQUALISED:
            fitted = irfil(
                X[kept], y[kept], loss, penalty, rounds=rounds, groups=kept_groups, tolerance=0.0, **settings, **options
            ).fit
        else:
            # Another start could lead to another minimum of a loss that is not convex.
            begin = start if isinstance(loss, Softmax) or loss.convex else None
            fitted = minimise(X[kept], y[kept], loss, penalty, start=begin, **settings)
        margin[left_out] += rows[left_out] @ fitted.w
        directions = rows[left_out] @ fitted.factor.matrix if kind == SHAPED else rows[left_out]
        margin_variance[left_out] = np.sum(directions**2, axis=1)
    return HeldOut(loss, y, margin, margin_variance, rows, folds)
