"""Class weights: what a row weighs with each label that it could have.

With class weights the loss of a row is v(y) l(m, y): another label changes the weight too. With v_ik the weight of row
i if its label were k, the gradient by the margin moves with the label by

    two labels     cᵢ = v_i0 l'(mᵢ, y₀) - v_i1 l'(mᵢ, y₁)          instead of ωᵢ (l'(mᵢ, y₀) - l'(mᵢ, y₁))
    K classes      L_ik = v_ik Cᵀ(e_k - pᵢ), centred over k        instead of ωᵢ Cᵀe_k

The first is per unit of y, the second is about the class indicators of `equations/class_target.py`. If all classes
weigh the same, both are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.glm.losses.scalar_loss import ScalarLoss


@dataclass(frozen=True, eq=False)
class LabelWeights:
    """The weight of each row with each label.

    >>> from dosimeter.glm.losses.loss import Logistic
    >>> heavy = LabelWeights(np.array([[1.0, 3.0]]), np.array([0.0, 1.0]))
    >>> heavy.response(Logistic(), np.zeros(1))                                  # 1 · 1/2 + 3 · 1/2
    array([2.])
    """

    weights: FloatArray
    """(n, K) v."""
    labels: FloatArray
    """(K,) what the loss takes for each of them."""

    def of_rows(self, rows: Index) -> LabelWeights:
        """The same of some rows."""
        return LabelWeights(self.weights[rows], self.labels)

    def moves(self, loss: ScalarLoss, margin: FloatArray, rows: slice | Index = np.s_[:]) -> FloatArray:
        """(k, K) -v l'(m, label), centred: how the gradient by the margin moves with each indicator."""
        weights = self.weights[rows]
        columns = [loss.residual(margin, np.full(len(margin), label)) for label in self.labels.tolist()]
        each = -weights * np.where(weights > 0, np.column_stack(columns), 0.0)
        return np.asarray(each - each.mean(axis=1, keepdims=True))

    def response(self, loss: ScalarLoss, margin: FloatArray, rows: slice | Index = np.s_[:]) -> FloatArray:
        """(k,) c of two labels, per unit of y; of more the norm over the centred indicators, per unit of theirs."""
        moves = self.moves(loss, margin, rows)
        if len(self.labels) == 2:
            return np.asarray((moves[:, 1] - moves[:, 0]) / (self.labels[1] - self.labels[0]))
        unit = float(np.linalg.norm(self.labels - self.labels.mean()))
        return np.asarray(np.linalg.norm(moves, axis=1) / unit)

    def softmax_moves(self, residual: FloatArray, y: FloatArray, contrast: FloatArray) -> FloatArray:
        """(n, K', K) Lᵢᵀ; residual (n, K') of each row's own class y."""
        own = contrast[y.astype(np.intp)]
        to_class = contrast[None] - (residual + own)[:, None, :]
        each = self.weights[:, :, None] * to_class
        return np.asarray((each - each.mean(axis=1, keepdims=True)).transpose(0, 2, 1))
