"""What a sum over a site's rows can be at most, from the public bounds of the columns and the number of rows.

A site that errs or lies within these bounds is not noticed: integrity is not covered. What lies outside them no table
gives, so the computation stops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.engines.protocol.fields import Malformed
from dosimeter.glm.losses.scalar_loss import ScalarLoss

SLACK = 1e-6
"""Relative; sums of many rows are rounded."""


@dataclass(frozen=True, eq=False)
class PublicBounds:
    """The bounds of a schema, as a fit uses them."""

    sizes: FloatArray
    """(p,) the largest magnitude of each encoded column, 1 for the intercept."""
    targets: tuple[float, float]
    """The lowest and the highest target."""
    loss: ScalarLoss
    target_size: float = 0.0
    """A lower bound of the largest target: relative steps of a least-squares fit are measured against it."""

    def coordinates(self, matrix: FloatArray) -> FloatArray:
        """(p,) the largest magnitude of each coordinate x̃ A of a row; matrix: A (p, p)."""
        return np.asarray(self.sizes @ np.abs(matrix))

    def longest_row(self, matrix: FloatArray) -> float:
        """At least |x̃ A| of every row."""
        return float(np.linalg.norm(self.coordinates(matrix)))

    def margin(self, w: FloatArray) -> float:
        """The largest margin of a row at weights w (p,)."""
        return float(self.sizes @ np.abs(w)) * (1 + SLACK)

    def residual(self, w: FloatArray) -> float:
        """The largest |dl/dm| of a row: it grows with the margin, and is linear in the target."""
        with np.errstate(over="ignore"):
            return float(np.abs(self.loss.residual(*self._corners(w))).max())

    def curvature(self, w: FloatArray) -> float:
        """The largest d²l/dm² of a row; of the losses that sites offer it is largest at an end or in the middle."""
        with np.errstate(over="ignore"):
            return float(self.loss.curvature(*self._corners(w)).max())

    def value(self, w: FloatArray) -> float:
        """At least |l| of every row."""
        M, Y = self.margin(w), max(map(abs, self.targets))
        with np.errstate(over="ignore"):
            ends = float(np.abs(self.loss.value(*self._corners(w))).max())
        return ends + Y * (M + math.log1p(Y) + 1.0)

    def check_newton(self, rows: int, matrix: FloatArray, w: FloatArray, answer: dict[str, Any]) -> None:
        """Refuse value, gradient and Hessian that no table of this many rows gives."""
        z = self.coordinates(matrix)
        self.check_sums(np.array([answer["value"]]), np.array([rows * self.value(w)]))
        self.check_sums(answer["gradient"], rows * self.residual(w) * z)
        self.check_symmetric(answer["hessian"], rows * self.curvature(w) * np.outer(z, z))

    def check_symmetric(self, matrix: FloatArray, most: FloatArray) -> None:
        """Refuse a Gram matrix that is not symmetric, is negative in some direction or is too large."""
        self.check_sums(matrix, most)
        if not np.abs(matrix - matrix.T).max() <= SLACK * float(np.abs(matrix).max()):
            self.refuse()
        self.check_sums(np.diag(matrix), np.diag(most), least=0.0)
        size = float(np.diag(matrix).max())
        try:
            np.linalg.cholesky(matrix + SLACK * max(size, 1e-300) * np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            self.refuse()

    def check_sums(self, sums: FloatArray, most: FloatArray, least: float | None = None) -> None:
        """Refuse sums above `most` in magnitude, or below `least`."""
        allowed = most * (1 + SLACK) + 1e-300
        if not (np.abs(sums) <= allowed).all() or (least is not None and not (sums >= least - SLACK * allowed).all()):
            self.refuse()

    @staticmethod
    def refuse() -> NoReturn:
        """The fault of a sum out of its bounds."""
        raise Malformed("a sum that no table within the schema gives")

    def _corners(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        M = self.margin(w)
        m, y = np.meshgrid([-M, 0.0, M], list(self.targets))
        return m.ravel(), y.ravel()
