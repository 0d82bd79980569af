"""Normalizer: each row divided by its norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.adapters.steps.chain_rule import mixed
from dosimeter.adapters.steps.feature import Features, matrix_of
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Run
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure


@step("Normalizer", route=Route.DERIVATIVE, remark="l1, l2 and max; a row of zeros is refused")
def read_normalizer(normalizer: Any, features: Features, run: Run) -> Features:
    for feature in features:
        feature.refuse_gaps()
    X = matrix_of(features)
    size = _norms(X, normalizer.norm)
    if run.survey and (size == 0.0).any():
        row = int(np.argmax(size == 0.0))
        raise CannotMeasure(
            f"Normalizer has no derivative in row {row} (from 0), which is zero in every column: leave the row out"
        )
    scale = np.where(size == 0.0, 1.0, size)

    def derivative(inputs: list[int]) -> FloatArray:
        """d(x_o / s)/dx_j = δ_oj / s - x_o s'_j / s²."""
        D = np.zeros((*X.shape, len(inputs)))
        moves = _norm_slopes(X, scale, normalizer.norm)
        for k, j in enumerate(inputs):
            D[:, :, k] = -X * (moves[:, j] / scale**2)[:, None]
            D[:, j, k] += 1.0 / scale
        return D

    names = [feature.name for feature in features]
    return mixed(features, X / scale[:, None], names, derivative, run)


def _norms(X: FloatArray, kind: str) -> FloatArray:
    if kind == "l1":
        return np.asarray(np.abs(X).sum(axis=1))
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", X, X)) if kind == "l2" else np.abs(X).max(axis=1))


def _norm_slopes(X: FloatArray, scale: FloatArray, kind: str) -> FloatArray:
    """(k, d) ds/dx."""
    if kind == "l2":
        return X / scale[:, None]
    sign = np.where(X < 0.0, -1.0, 1.0)
    if kind == "l1":
        return sign
    largest = np.arange(X.shape[1]) == np.argmax(np.abs(X), axis=1)[:, None]
    return np.asarray(sign * largest)
