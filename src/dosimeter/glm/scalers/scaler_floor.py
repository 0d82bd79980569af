"""What a scaler fitted on the table leaves at any noise: the information in the fold about deviations and means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian, Rows
from dosimeter.glm.scalers.scaler import Scaler, StatisticMoves


@dataclass(frozen=True, eq=False)
class SeparateColumns:
    """Unknowns that move one standardised feature each, where what is known of one feature says nothing of another.

    The information about log-deviation and mean is then two numbers a feature, and everything that the fold adds to a
    row is a diagonal. True of every law with mean zero and independent coordinates.
    """

    features: Index
    """(t,) positions among the scaler's features."""
    unknowns: Index
    """(t,) the unknown of each."""
    reach: FloatArray
    """(t,) how far one unit of the unknown moves the feature."""
    by_scale: FloatArray
    """(t,) the information about an unknown is by_scale z² + by_mean."""
    by_mean: FloatArray
    """(t,)."""

    @classmethod
    def of(cls, scaler: Scaler, root: FloatArray) -> SeparateColumns | None:
        """root (r, 2k) as in `Scaler.rotate_moves`; None if features, or unknowns of a feature, are coupled."""
        if isinstance(scaler, StatisticMoves):
            return None
        k, moves = len(scaler.features), scaler.P != 0.0
        information = root.T @ root
        coupled = np.count_nonzero(information - np.diag(np.diagonal(information)))
        if coupled or (moves.sum(axis=0) > 1).any() or (moves.sum(axis=1) > 1).any():
            return None
        features, unknowns = np.nonzero(moves)
        reach = scaler.P[features, unknowns]
        squares = (reach / scaler.divisor) ** 2
        by_scale, by_mean = (np.diagonal(information)[features + i] * squares for i in (0, k))
        return cls(features, unknowns, reach, by_scale, by_mean)

    def among(self, columns: Index) -> tuple[Index, Index]:
        """Which of them are among the unknowns `columns`: their numbers, and their places in `columns`."""
        place = {int(j): i for i, j in enumerate(columns)}
        chosen = [t for t, j in enumerate(self.unknowns.tolist()) if j in place]
        places = [place[int(self.unknowns[t])] for t in chosen]
        return np.array(chosen, dtype=np.intp), np.array(places, dtype=np.intp)

    def squares(self, Z: FloatArray, chosen: Index) -> FloatArray:
        """(b, chosen) the information about each unknown of some rows, Z (b, k)."""
        return np.asarray(Z[:, self.features[chosen]] ** 2 * self.by_scale[chosen] + self.by_mean[chosen])

    def largest(self, chosen: int, sum_squares: FloatArray, sums: FloatArray, count: float) -> FloatArray:
        """The largest eigenvalue of by_scale zzᵀ + by_mean 11ᵀ over `count` rows, from Σz² and Σz."""
        scale, mean = self.by_scale[chosen] * sum_squares, self.by_mean[chosen] * count
        between = 2.0 * np.sqrt(self.by_scale[chosen] * self.by_mean[chosen]) * sums
        return np.asarray(0.5 * (scale + mean + np.hypot(scale - mean, between)))


@dataclass(frozen=True, eq=False)
class FloorJacobian(DenseJacobian):
    """The part that no scale of the noise removes: that of the fold's own derivative."""

    scaler: Scaler
    root: FloatArray
    """(r, 2k): rootᵀroot is the information about log-deviations, then means, of the features."""
    target_width: int = 1

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.scaler.n

    @property
    def m(self) -> int:  # type: ignore[override]
        return int(self.scaler.P.shape[1])

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.root)

    @cached_property
    def separate(self) -> SeparateColumns | None:
        """None if features or unknowns are coupled: the readings are then written out."""
        return SeparateColumns.of(self.scaler, self.root)

    def dense(self, rows: Rows) -> FloatArray:
        part = self.scaler.rotate_moves(rows, self.root)
        out = np.zeros((len(part), self.width, self.m + self.target_width))
        out[:, :, self.scaler.touched] = part
        return out

    def _touched(self, *columns: Index) -> tuple[FloorJacobian, tuple[Index, ...]]:
        """The same about the unknowns that move a scaler, and the places of `columns` among them; others are zero."""
        used = self.scaler.touched
        few = replace(self, scaler=replace(self.scaler, P=np.ascontiguousarray(self.scaler.P[:, used])))
        return few, tuple(np.flatnonzero(np.isin(used, some)).astype(np.intp) for some in columns)

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) of separate unknowns the largest cell: their Jacobians are orthogonal. No target moves a scaler."""
        if self.separate is None:
            few, (columns,) = self._touched(columns)
            return DenseJacobian.row_norms(few, columns, include_target)
        chosen, _ = self.separate.among(columns)
        out = np.zeros(self.n)
        for t in chosen:
            np.maximum(out, self.separate.squares(self.scaler.Z, np.array([t]))[:, 0], out=out)
        return np.sqrt(out)

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, k)."""
        if self.separate is None:
            return super().cell_norms(columns)
        chosen, places = self.separate.among(columns)
        out = np.zeros((self.n, len(columns)))
        out[:, places] = np.sqrt(self.separate.squares(self.scaler.Z, chosen))
        return out

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k); of separate unknowns the largest column of the group."""
        if self.separate is None:
            few, (columns, together) = self._touched(columns, tied)
            return DenseJacobian.norms_together(few, rows, columns, include_target, together)
        separate, k = self.separate, rows.shape[1]
        out = np.zeros(len(rows))
        for unknowns, shared in ((columns, False), (tied, True)):
            for t in separate.among(unknowns)[0]:
                Z = self.scaler.Z[:, separate.features[t]][rows]
                sums = Z.sum(axis=1)
                if shared:
                    squares = separate.by_scale[t] * sums**2 + separate.by_mean[t] * k**2
                else:
                    squares = separate.largest(t, np.einsum("gk,gk->g", Z, Z), sums, k)
                np.maximum(out, squares, out=out)
        return np.sqrt(out)

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """||J|| of some rows' unknowns together."""
        if self.separate is None:
            return super().together(rows, columns, include_target, tied)
        index = np.arange(self.n, dtype=np.intp)[rows]
        return float(self.norms_together(index[None], columns, include_target, tied)[0])
