"""Fisher information loss of a noisy second moment: what it tells about each row's numbers (docs/pca.md).

An entry a_ij = Σ z_i z_j / N with noise of information w_ij moves by z_j/N with z_i: about one row z the information is

    F = diag(V z²) + V ∘ zzᵀ + 2 diag(V_kk z_k²),     V = w / N²,

(‖z‖² I + zzᵀ + 2 diag(z²))/(N s)² for noise of one scale s. A noisy mean of the same rows adds v I, v its information
over N². A clamped cell moves nothing; a shortened row moves beside itself only. Where a person's rows weigh 1 in all,
y = z/√k stands for z: A is Σ yyᵀ/N, and the mean Σ y/√k/N. Components are made from the noisy matrix and mean, so for
them every figure is an upper bound.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.dose import Dose
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Gaussian
from dosimeter.core.notion import FISHER, MEMBERSHIP, Notion, Standing
from dosimeter.pca.bounded_sums import root_weights
from dosimeter.pca.bounds import ClippedRows
from dosimeter.pca.mechanisms import true_sensitivity
from dosimeter.pca.release import PERSON, PrivateComponents
from dosimeter.pca.secular import beside_itself, diagonal_plus_rank_one

_NUMBERS = 1 << 20
"""Numbers in one temporary array: 8 MB."""
_ALIKE = 1e-12
MATRIX, COMPONENTS = "second moment", "components"


@dataclass(frozen=True, eq=False)
class MomentLeakage:
    """η and μ of the rows of a private second moment. Internal: a figure per person is itself private.

    >>> from dosimeter.pca.bounds import Bounds
    >>> from dosimeter.pca.mechanisms import AnalyticGaussian
    >>> from dosimeter.pca.release import release
    >>> X = np.array([[3.0, 4.0], [0.0, 1.0]])
    >>> made = release(X, AnalyticGaussian(1.0, 1e-5), bounds=Bounds(row_norm=6.0))
    >>> leak = measure(made, X)
    >>> (leak.cells[1] * 2 * made.scales[0, 0]).round(6).tolist()      # N s η = √(‖x‖² + 3 x_k²): of 0 and of 1
    [1.0, 2.0]
    """

    made: PrivateComponents
    held: ClippedRows
    """Its rows are y = r z: of weight one, or less where a person has several."""
    V: FloatArray
    """(d, d) information of each entry over N²."""
    v: float
    """Of each entry of the mean over N²; 0 where no mean was released."""
    roots: FloatArray
    """(n,) r, the roots of the weights."""

    @property
    def examples(self) -> FloatArray:
        """(n,) η of each row, √‖F‖₂, in the columns' own units."""
        return np.sqrt(self._by_blocks(self._largest))

    @property
    def cells(self) -> FloatArray:
        """(n, d) η of each cell when the rest of the row is known."""
        return np.sqrt(self._by_blocks(self._diagonal))

    @property
    def membership(self) -> FloatArray:
        """(n,) μ of each row's presence: ‖lower(zzᵀ)‖ / (N s), all others known, N fixed. Gaussian noise only."""
        self._refuse_no_mu()
        Q = self.held.rows**2
        moment = self._halved(np.einsum("nd,nd->n", Q @ self.V, Q), Q**2 @ np.diag(self.V))
        return np.asarray(np.sqrt(moment + self.v * self.roots**2 * Q.sum(axis=1)))

    @property
    def auc(self) -> FloatArray:
        """(n,) Φ(μ/√2) of the strongest adversary against the matrix."""
        return np.asarray(ndtr(self.membership / np.sqrt(2.0)))

    def group(self, labels: Sequence[Hashable]) -> dict[Hashable, float]:
        """η of each group of rows, all their numbers unknown together: a person with several rows."""
        single = self.examples
        return {
            who: float(single[rows[0]]) if len(rows) == 1 else self._stacked(rows)
            for who, rows in self._rows_of(labels).items()
        }

    def group_membership(self, labels: Sequence[Hashable]) -> dict[Hashable, float]:
        """μ of the presence of all rows of each group."""
        self._refuse_no_mu()
        out: dict[Hashable, float] = {}
        for who, rows in self._rows_of(labels).items():
            Y = self.held.rows[rows]
            moved, mean = Y.T @ Y, self.roots[rows] @ Y
            moment = self._halved((self.V * moved**2).sum(), (np.diag(self.V * moved**2)).sum())
            out[who] = float(np.sqrt(moment + self.v * float(mean @ mean)))
        return out

    def dose(
        self, person: Sequence[Hashable] | None = None, *, of: str = MATRIX, notion: Notion = FISHER, **how: Any
    ) -> Dose:
        """One row per person (several rows may be one person), or per row; `notion` FISHER or MEMBERSHIP.

        of: "second moment" where the noisy matrix leaves (exact), "components" where only they do (an upper bound).
        """
        if of not in (MATRIX, COMPONENTS):
            raise Refusal(f"of={of!r} is not one of {MATRIX!r}, {COMPONENTS!r}")
        if notion not in (FISHER, MEMBERSHIP):
            raise Refusal(f"a private second moment has no {notion}: use FISHER or MEMBERSHIP")
        uncovered = self.made.release.recipe.uncovered
        standing = Standing.EXACT if of == MATRIX else Standing.UPPER_BOUND
        how = {"standing": Standing.UNACCOUNTED if uncovered else standing, "uncovered": uncovered, **how}
        if person is None and self.made.unit == PERSON:
            raise Refusal("the release is about people: say whose each row is")
        if person is None:
            figures = self.examples if notion is FISHER else self.membership
            return Dose.of_reading(notion, "example", range(len(figures)), figures, **how)
        by_person = self.group(person) if notion is FISHER else self.group_membership(person)
        return Dose.of_reading(notion, "person", list(by_person), list(by_person.values()), **how)

    def matrix(self, rows: Sequence[int]) -> FloatArray:
        """(m d, m d) Fisher information about the numbers of these m rows, row after row.

        Between rows a and b it is Jₐᵀ (diag(V yₐy_b) + V ∘ y_b yₐᵀ + 2 diag(V_kk yₐy_b) + v rₐr_b) J_b, J = dy/dx.
        """
        index, V = np.asarray(rows, dtype=np.intp), self.V
        Z, J = self.held.rows[index], self._jacobians(index)
        m, d = Z.shape
        cross = Z[:, None, :] * Z[None, :, :]
        straight = cross @ V + 2 * np.diag(V) * cross
        F = V[None, :, None, :] * Z.T[None, :, :, None] * Z[:, None, None, :]  # (row a, cell k, row b, cell l)
        straight += self.v * np.outer(self.roots[index], self.roots[index])[:, :, None]
        F[:, np.arange(d), :, np.arange(d)] += np.moveaxis(straight, 2, 0)
        left = np.swapaxes(J, 1, 2) @ F.reshape(m, d, m * d)
        both = np.swapaxes(J, 1, 2) @ left.reshape(m * d, m, d).transpose(1, 2, 0)
        return np.asarray(both.reshape(m * d, m * d).T)

    def _jacobians(self, index: Index) -> FloatArray:
        """(m, d, d) dy/dx of the clipping and weighing of each row; 0 for clamped cells."""
        Z, factor = self.held.rows[index], self.held.factor[index]
        P = np.tile(np.eye(Z.shape[1]), (len(Z), 1, 1))
        short = factor < 1
        u = _directions(Z[short])
        P[short] = factor[short, None, None] * (P[short] - u[:, :, None] * u[:, None, :])
        return np.asarray(P * ~self.held.clamped[index][:, None, :] * self.roots[index][:, None, None])

    def _stacked(self, rows: Index) -> float:
        """η of several rows together: of their own matrix if that is small, else by products with the entries."""
        m, d = len(rows), self.held.rows.shape[1]
        if m * d <= 1024:
            return float(np.sqrt(max(np.linalg.eigvalsh(self.matrix(list(rows)))[-1], 0.0)))
        from scipy.sparse.linalg import LinearOperator, eigsh

        operator = LinearOperator((m * d, m * d), matvec=lambda v: self._product(rows, np.reshape(v, (m, d))).ravel())
        start = self.held.rows[rows].ravel() + 1e-3 * np.abs(self.held.rows[rows]).max() + 1e-300
        top = eigsh(operator, k=1, v0=start, tol=1e-10, return_eigenvectors=False)
        return float(np.sqrt(max(float(top[0]), 0.0)))

    def _product(self, rows: Index, v: FloatArray) -> FloatArray:
        """F v for the rows stacked, v (m, d): how far the entries move, weighed, and back."""
        Z, r = self.held.rows[rows], self.roots[rows]
        inside = self._through(rows, v)
        moved = Z.T @ inside
        moved = self.V * (moved + moved.T)
        moved[np.diag_indices_from(moved)] *= 2
        return self._through(rows, Z @ moved + self.v * np.outer(r, r @ inside), back=True)

    def _through(self, rows: Index, v: FloatArray, *, back: bool = False) -> FloatArray:
        """J v of every row, or Jᵀ v, (m, d)."""
        free, Z, factor = ~self.held.clamped[rows], self.held.rows[rows], self.held.factor[rows]
        v = v if back else v * free
        short = factor < 1
        u = _directions(Z[short])
        v = v * self.roots[rows][:, None]
        v[short] = factor[short, None] * (v[short] - u * np.einsum("nd,nd->n", u, v[short])[:, None])
        return np.asarray(v * free if back else v)

    def _by_blocks(self, f: Any) -> FloatArray:
        step = max(1, _NUMBERS // self.held.rows.shape[1])
        n = len(self.held.rows)
        parts = [f(slice(start, min(start + step, n))) for start in range(0, n, step)]
        return np.asarray(np.maximum(np.concatenate(parts), 0.0))

    def _diagonal(self, s: slice) -> FloatArray:
        """(m, d) diagonal of the information about each row of the block."""
        Z, V, own = self.held.rows[s], self.V, np.diag(self.V)
        Q, w = Z * Z, self.roots[s] ** 2
        straight = Q @ V + 2 * own * Q + (self.v * w)[:, None]  # the diagonal part of F
        out = straight + own * Q
        short = self.held.factor[s] < 1
        if short.any():
            z, a = Z[short], straight[short]
            u = _directions(z)
            Fu = a * u + z * ((z * u) @ V)
            beside = out[short] - 2 * u * Fu + u**2 * np.einsum("nd,nd->n", u, Fu)[:, None]
            out[short] = self.held.factor[s][short, None] ** 2 * beside
        return np.where(self.held.clamped[s], 0.0, w[:, None] * out)

    def _largest(self, s: slice) -> FloatArray:
        """(m,) largest eigenvalue of the information about each row of the block."""
        Z, clamped, factor = self.held.rows[s], self.held.clamped[s], self.held.factor[s]
        omega, even = _product_form(self.V), bool(np.ptp(self.V) == 0)
        short, cut, w = factor < 1, clamped.any(axis=1), self.roots[s] ** 2
        out = np.empty(len(Z))
        plain = ~short if omega is not None else np.zeros(len(Z), bool)
        if plain.any() and omega is not None:
            out[plain] = w[plain] * self._secular(Z[plain], clamped[plain], omega, w[plain])
        round_ = short & ~cut if even else np.zeros(len(Z), bool)
        if round_.any():
            sizes = np.einsum("nd,nd->n", Z[round_], Z[round_])
            t = beside_itself(_directions(Z[round_]) ** 2)
            spare = 1.0 if Z.shape[1] > 1 else 0.0
            moment = self.V[0, 0] * sizes * (spare + 2 * t)
            out[round_] = w[round_] * factor[round_] ** 2 * (moment + spare * self.v * w[round_])
        for i in np.flatnonzero(~plain & ~round_):
            row = (s.start or 0) + int(i)
            out[i] = np.linalg.eigvalsh(self.matrix([row]))[-1]
        return out

    def _secular(self, Z: FloatArray, clamped: Mask, omega: FloatArray, w: FloatArray) -> FloatArray:
        """λ₁ of diag(D) + yyᵀ, y = ω z, over the cells that were not clamped."""
        Q, own = Z * Z, np.diag(self.V)
        D = Q @ self.V + (3 * own - omega**2) * Q + (self.v * w)[:, None]
        return diagonal_plus_rank_one(np.where(clamped, 0.0, D), np.where(clamped, 0.0, omega * Z))

    def _rows_of(self, labels: Sequence[Hashable]) -> dict[Hashable, Index]:
        if len(labels) != len(self.held.rows):
            raise Refusal(f"{len(self.held.rows)} rows need as many labels, not {len(labels)}")
        found: dict[Hashable, list[int]] = {}
        for i, who in enumerate(labels):
            found.setdefault(who, []).append(i)
        return {who: np.array(rows, dtype=np.intp) for who, rows in found.items()}

    def _refuse_no_mu(self) -> None:
        if self.made.mechanism.law is not Gaussian:
            raise CannotMeasure(
                f"{self.made.mechanism.law.__name__} noise has no μ: use AnalyticGauss, or read epsilon()"
            )

    @staticmethod
    def _halved(both: Any, diagonal: Any) -> Any:
        """Σ over i >= j from the sum over all (i, j) and that over i = j."""
        return (both + diagonal) / 2


def measure(made: PrivateComponents, X: ArrayLike, person: Sequence[Hashable] | None = None) -> MomentLeakage:
    """What the noisy second moment and mean tell about each row of the table X (n, d) they were made from.

    person: whose each row is, as the release was given it; needed where its unit is a person.
    """
    held = made.box.clip(X)
    roots = np.ones(len(held.rows))
    if made.unit == PERSON:
        if person is None or len(person) != len(held.rows):
            raise Refusal("the release is about people: say whose each row is")
        roots = root_weights(person)[0]
        held = ClippedRows(held.rows * roots[:, None], held.clamped, held.factor)
    moved = true_sensitivity(made.mechanism, made.box, made.n_samples).entries
    if ((made.scales == 0) & (moved > 0)).any():
        i, j = (int(k) for k in np.argwhere((made.scales == 0) & (moved > 0))[0])
        raise CannotMeasure(f"unbounded: entry [{i}, {j}] varies with the rows and has no noise")
    unit = made.mechanism.law(1.0).fisher_information  # type: ignore[call-arg]
    V = np.zeros_like(made.scales)
    np.divide(unit, (made.n_samples * made.scales) ** 2, out=V, where=made.scales > 0)
    v = unit / (made.n_samples * made.mean_scale) ** 2 if made.mean_scale > 0 else 0.0
    return MomentLeakage(made, held, V, v, roots)


def _directions(Z: FloatArray) -> FloatArray:
    """(m, d) rows of length one; a row of nobody, of weight 0, stays 0."""
    size = np.linalg.norm(Z, axis=1, keepdims=True)
    return np.asarray(np.divide(Z, size, out=np.zeros_like(Z), where=size > 0))


def _product_form(V: FloatArray) -> FloatArray | None:
    """ω with V_ij = ω_i ω_j beside the diagonal, (d,), or None where there is none."""
    d = len(V)
    omega = np.zeros(d)
    beside = V - np.diag(np.diag(V))
    live = np.flatnonzero(beside.any(axis=1))
    m = len(live)
    if m == 0:
        return omega
    part = beside[np.ix_(live, live)] + np.eye(m)
    if (part <= 0).any():
        return None
    if m == 2:
        omega[live] = np.sqrt(part[0, 1])
        return omega
    logs = np.log(part).sum(axis=1)
    omega[live] = np.exp((logs - logs.sum() / (2 * (m - 1))) / (m - 2))
    exact = np.outer(omega, omega)
    np.fill_diagonal(exact, 0.0)
    return omega if np.allclose(exact, beside, rtol=_ALIKE, atol=0.0) else None
