"""Fisher information loss of a noisy second moment: what it reveals about each row's numbers (docs/explanation/pca.md).

An entry a_ij = Σ z_i z_j / N with noise of information w_ij moves by z_j/N with z_i. The information about one row z is

    F = diag(V z²) + V ∘ zzᵀ + 2 diag(V_kk z_k²),     V = w / N²,

(‖z‖² I + zzᵀ + 2 diag(z²))/(N s)² for noise of one scale s. A noisy mean of the same rows adds v I, v its information
over N². A clamped cell moves nothing; a row scaled down to the norm moves only across its own direction. If a person's
rows weigh 1 in total, y = z/√k replaces z: A is Σ yyᵀ/N, and the mean Σ y/√k/N. Components are computed from the noisy
matrix and mean, so every figure is an upper bound for them.
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
from dosimeter.core.face import option
from dosimeter.core.noise import Gaussian
from dosimeter.core.notion import FISHER, MEMBERSHIP, Notion, Standing
from dosimeter.pca.bounded_sums import root_weights
from dosimeter.pca.bounds import ClippedRows
from dosimeter.pca.mechanism import true_sensitivity
from dosimeter.pca.moment_plan import PERSON, MomentPlan
from dosimeter.pca.release import PrivateComponents
from dosimeter.pca.secular import diagonal_plus_rank_one, projected_diagonal_eigenvalue

_NUMBERS = 1 << 20
"""Numbers in one temporary array: 8 MB."""
_ALIKE = 1e-12
MATRIX, COMPONENTS = "second moment", "components"


@dataclass(frozen=True, eq=False)
class MomentLeakage:
    """Fisher information loss η and membership μ of the rows of a private second moment.

    Internal: a figure per person is itself private.

    Notes
    -----
    η is √‖F‖₂ for a row and √F_kk for a cell, F as in the module docs (docs/explanation/pca.md). It is exact for the
    noisy matrix and an upper bound for its components.

    Examples
    --------
    >>> from dosimeter.pca.bounds import Bounds
    >>> from dosimeter.pca.mechanisms import AnalyticGaussian
    >>> from dosimeter.pca.release import release
    >>> X = np.array([[3.0, 4.0], [0.0, 1.0]])
    >>> private_pca = release(X, AnalyticGaussian(1.0, 1e-5), bounds=Bounds(row_norm=6.0))
    >>> leak = measure(private_pca, X)
    >>> (leak.cells[1] * 2 * private_pca.scales[0, 0]).round(6).tolist()      # N s η = √(‖x‖² + 3 x_k²): of 0 and of 1
    [1.0, 2.0]
    """

    private_pca: PrivateComponents | MomentPlan
    """The release that was measured, or its plan: the figures do not depend on the draw."""
    clipped: ClippedRows
    """Its rows are y = r z, with weight 1, or less if a person has several rows."""
    V: FloatArray
    """(d, d) information of each entry over N²."""
    v: float
    """Information of each entry of the mean over N²; 0 if no mean was released."""
    roots: FloatArray
    """(n,) r, the square roots of the weights."""

    @property
    def examples(self) -> FloatArray:
        """(n,) η of each row, √‖F‖₂, in the columns' units."""
        return np.sqrt(self._by_blocks(self._largest_eigenvalues))

    @property
    def cells(self) -> FloatArray:
        """(n, d) η of each cell when the rest of the row is known."""
        return np.sqrt(self._by_blocks(self._diagonal))

    @property
    def membership(self) -> FloatArray:
        """(n,) μ of each row's presence: ‖lower(zzᵀ)‖ / (N s), all other rows known, N fixed. Gaussian noise only."""
        self._refuse_without_mu()
        Q = self.clipped.rows**2
        moment = self._lower_triangle_sum(np.einsum("nd,nd->n", Q @ self.V, Q), Q**2 @ np.diag(self.V))
        return np.asarray(np.sqrt(moment + self.v * self.roots**2 * Q.sum(axis=1)))

    @property
    def auc(self) -> FloatArray:
        """(n,) Φ(μ/√2), the AUC of the strongest adversary who sees the matrix."""
        return np.asarray(ndtr(self.membership / np.sqrt(2.0)))

    def group(self, labels: Sequence[Hashable]) -> dict[Hashable, float]:
        """η of each group of rows whose numbers are all unknown: a person with several rows."""
        single = self.examples
        return {
            label: float(single[rows[0]]) if len(rows) == 1 else self._eta_together(rows)
            for label, rows in self._rows_of(labels).items()
        }

    def group_membership(self, labels: Sequence[Hashable]) -> dict[Hashable, float]:
        """μ of the presence of all rows of each group."""
        self._refuse_without_mu()
        mu_of_group: dict[Hashable, float] = {}
        for label, rows in self._rows_of(labels).items():
            Y = self.clipped.rows[rows]
            change, mean = Y.T @ Y, self.roots[rows] @ Y
            moment = self._lower_triangle_sum((self.V * change**2).sum(), (np.diag(self.V * change**2)).sum())
            mu_of_group[label] = float(np.sqrt(moment + self.v * float(mean @ mean)))
        return mu_of_group

    def dose(
        self, person: Sequence[Hashable] | None = None, *, of: str = MATRIX, notion: Notion = FISHER, **options: Any
    ) -> Dose:
        """The dose, one entry per person (who may have several rows), or per row.

        Parameters
        ----------
        person : sequence of hashable, optional
            Whose each row is.
        of : {"second moment", "components"}
            What is released: the noisy matrix (the dose is exact) or only its components (an upper bound).
        notion : Notion
            FISHER or MEMBERSHIP.
        **options
            Passed to `Dose.of_figures`.
        """
        if of not in (MATRIX, COMPONENTS):
            raise Refusal(f"of={of!r} is not one of {MATRIX!r}, {COMPONENTS!r}")
        if notion not in (FISHER, MEMBERSHIP):
            raise Refusal(f"a private second moment has no {notion} dose: use FISHER or MEMBERSHIP")
        not_covered = self.private_pca.not_covered
        standing = Standing.EXACT if of == MATRIX else Standing.UPPER_BOUND
        options = {"standing": Standing.UNACCOUNTED if not_covered else standing, "not_covered": not_covered, **options}
        if person is None and self.private_pca.unit == PERSON:
            raise Refusal(f"the release protects people: pass {option('person')}, whose each row is")
        if person is None:
            figures = self.examples if notion is FISHER else self.membership
            return Dose.of_figures(notion, "example", range(len(figures)), figures, **options)
        by_person = self.group(person) if notion is FISHER else self.group_membership(person)
        return Dose.of_figures(notion, "person", list(by_person), list(by_person.values()), **options)

    def matrix(self, rows: Sequence[int]) -> FloatArray:
        """(m d, m d) Fisher information about the numbers of these m rows, row after row.

        Between rows a and b it is Jₐᵀ (diag(V yₐy_b) + V ∘ y_b yₐᵀ + 2 diag(V_kk yₐy_b) + v rₐr_b) J_b, J = dy/dx.
        """
        index, V = np.asarray(rows, dtype=np.intp), self.V
        Z, J = self.clipped.rows[index], self._jacobians(index)
        m, d = Z.shape
        cross = Z[:, None, :] * Z[None, :, :]
        diagonal_part = cross @ V + 2 * np.diag(V) * cross
        F = V[None, :, None, :] * Z.T[None, :, :, None] * Z[:, None, None, :]  # (row a, cell k, row b, cell l)
        diagonal_part += self.v * np.outer(self.roots[index], self.roots[index])[:, :, None]
        F[:, np.arange(d), :, np.arange(d)] += np.moveaxis(diagonal_part, 2, 0)
        left = np.swapaxes(J, 1, 2) @ F.reshape(m, d, m * d)
        F_of_x = np.swapaxes(J, 1, 2) @ left.reshape(m * d, m, d).transpose(1, 2, 0)
        return np.asarray(F_of_x.reshape(m * d, m * d).T)

    def _jacobians(self, index: Index) -> FloatArray:
        """(m, d, d) dy/dx of clipping and weighting each row; 0 for clamped cells."""
        Z, factor = self.clipped.rows[index], self.clipped.factor[index]
        P = np.tile(np.eye(Z.shape[1]), (len(Z), 1, 1))
        scaled = factor < 1
        u = _directions(Z[scaled])
        P[scaled] = factor[scaled, None, None] * (P[scaled] - u[:, :, None] * u[:, None, :])
        return np.asarray(P * ~self.clipped.clamped[index][:, None, :] * self.roots[index][:, None, None])

    def _eta_together(self, rows: Index) -> float:
        """η of several rows together: from their matrix if that is small, else from products with F."""
        m, d = len(rows), self.clipped.rows.shape[1]
        if m * d <= 1024:
            return float(np.sqrt(max(np.linalg.eigvalsh(self.matrix(list(rows)))[-1], 0.0)))
        from scipy.sparse.linalg import LinearOperator, eigsh

        operator = LinearOperator((m * d, m * d), matvec=lambda v: self._product(rows, np.reshape(v, (m, d))).ravel())
        start = self.clipped.rows[rows].ravel() + 1e-3 * np.abs(self.clipped.rows[rows]).max() + 1e-300
        top = eigsh(operator, k=1, v0=start, tol=1e-10, return_eigenvectors=False)
        return float(np.sqrt(max(float(top[0]), 0.0)))

    def _product(self, rows: Index, v: FloatArray) -> FloatArray:
        """F v for the rows stacked, v (m, d): the weighted change of the entries, mapped back to the rows."""
        Z, r = self.clipped.rows[rows], self.roots[rows]
        row_change = self._apply_jacobian(rows, v)
        change = Z.T @ row_change
        change = self.V * (change + change.T)
        change[np.diag_indices_from(change)] *= 2
        return self._apply_jacobian(rows, Z @ change + self.v * np.outer(r, r @ row_change), back=True)

    def _apply_jacobian(self, rows: Index, v: FloatArray, *, back: bool = False) -> FloatArray:
        """J v of every row, or Jᵀ v, (m, d)."""
        free, Z, factor = ~self.clipped.clamped[rows], self.clipped.rows[rows], self.clipped.factor[rows]
        v = v if back else v * free
        scaled = factor < 1
        u = _directions(Z[scaled])
        v = v * self.roots[rows][:, None]
        v[scaled] = factor[scaled, None] * (v[scaled] - u * np.einsum("nd,nd->n", u, v[scaled])[:, None])
        return np.asarray(v * free if back else v)

    def _by_blocks(self, f: Any) -> FloatArray:
        step = max(1, _NUMBERS // self.clipped.rows.shape[1])
        n = len(self.clipped.rows)
        parts = [f(slice(start, min(start + step, n))) for start in range(0, n, step)]
        return np.asarray(np.maximum(np.concatenate(parts), 0.0))

    def _diagonal(self, s: slice) -> FloatArray:
        """(m, d) diagonal of the information about each row of the block."""
        Z, V, entry_diagonal = self.clipped.rows[s], self.V, np.diag(self.V)
        Q, w = Z * Z, self.roots[s] ** 2
        diagonal_part = Q @ V + 2 * entry_diagonal * Q + (self.v * w)[:, None]  # the diagonal part of F
        out = diagonal_part + entry_diagonal * Q
        scaled = self.clipped.factor[s] < 1
        if scaled.any():
            z, a = Z[scaled], diagonal_part[scaled]
            u = _directions(z)
            Fu = a * u + z * ((z * u) @ V)
            projected = out[scaled] - 2 * u * Fu + u**2 * np.einsum("nd,nd->n", u, Fu)[:, None]
            out[scaled] = self.clipped.factor[s][scaled, None] ** 2 * projected
        return np.where(self.clipped.clamped[s], 0.0, w[:, None] * out)

    def _largest_eigenvalues(self, s: slice) -> FloatArray:
        """(m,) largest eigenvalue of the information about each row of the block."""
        Z, clamped, factor = self.clipped.rows[s], self.clipped.clamped[s], self.clipped.factor[s]
        omega, equal_noise = _product_form(self.V), bool(np.ptp(self.V) == 0)
        scaled, any_clamped, w = factor < 1, clamped.any(axis=1), self.roots[s] ** 2
        out = np.empty(len(Z))
        unscaled = ~scaled if omega is not None else np.zeros(len(Z), bool)
        if unscaled.any() and omega is not None:
            out[unscaled] = w[unscaled] * self._secular(Z[unscaled], clamped[unscaled], omega, w[unscaled])
        on_sphere = scaled & ~any_clamped if equal_noise else np.zeros(len(Z), bool)
        if on_sphere.any():
            sizes = np.einsum("nd,nd->n", Z[on_sphere], Z[on_sphere])
            t = projected_diagonal_eigenvalue(_directions(Z[on_sphere]) ** 2)
            spare = 1.0 if Z.shape[1] > 1 else 0.0
            moment = self.V[0, 0] * sizes * (spare + 2 * t)
            out[on_sphere] = w[on_sphere] * factor[on_sphere] ** 2 * (moment + spare * self.v * w[on_sphere])
        for i in np.flatnonzero(~unscaled & ~on_sphere):
            row = (s.start or 0) + int(i)
            out[i] = np.linalg.eigvalsh(self.matrix([row]))[-1]
        return out

    def _secular(self, Z: FloatArray, clamped: Mask, omega: FloatArray, w: FloatArray) -> FloatArray:
        """λ₁ of diag(D) + yyᵀ, y = ω z, over the cells that were not clamped."""
        Q, entry_diagonal = Z * Z, np.diag(self.V)
        D = Q @ self.V + (3 * entry_diagonal - omega**2) * Q + (self.v * w)[:, None]
        return diagonal_plus_rank_one(np.where(clamped, 0.0, D), np.where(clamped, 0.0, omega * Z))

    def _rows_of(self, labels: Sequence[Hashable]) -> dict[Hashable, Index]:
        if len(labels) != len(self.clipped.rows):
            raise Refusal(f"{len(self.clipped.rows)} rows need one label each, not {len(labels)} labels")
        rows_of: dict[Hashable, list[int]] = {}
        for i, label in enumerate(labels):
            rows_of.setdefault(label, []).append(i)
        return {label: np.array(rows, dtype=np.intp) for label, rows in rows_of.items()}

    def _refuse_without_mu(self) -> None:
        if self.private_pca.mechanism.law is not Gaussian:
            raise CannotMeasure(
                f"{self.private_pca.mechanism.law.__name__} noise has no μ: use AnalyticGaussian, or read epsilon()"
            )

    @staticmethod
    def _lower_triangle_sum(both: Any, diagonal: Any) -> Any:
        """Σ over i >= j from the sum over all (i, j) and the sum over i = j."""
        return (both + diagonal) / 2


def measure(
    private_pca: PrivateComponents | MomentPlan, X: ArrayLike, person: Sequence[Hashable] | None = None
) -> MomentLeakage:
    """Fisher information loss and membership μ of each row, for a noisy second moment and mean.

    Parameters
    ----------
    private_pca : PrivateComponents or MomentPlan
        The release, or its plan.
    X : array_like of shape (n, d)
        The table it was made from, or some of its rows; of a person all or none.
    person : sequence of hashable, optional
        Whose each row is, as passed to `release`; needed if the release's unit is a person.

    Returns
    -------
    MomentLeakage
        Internal: figures per row.

    Raises
    ------
    Refusal
        If `person` is missing although the release protects people.
    CannotMeasure
        If an entry varies with the rows and has no noise.

    Examples
    --------
    >>> from dosimeter.pca.bounds import Bounds
    >>> from dosimeter.pca.mechanisms import AnalyticGaussian
    >>> from dosimeter.pca.release import release
    >>> X = np.array([[3.0, 4.0], [0.0, 1.0]])
    >>> leak = measure(release(X, AnalyticGaussian(1.0, 1e-5), bounds=Bounds(row_norm=6.0)), X)
    >>> leak.cells.shape, bool(leak.examples[0] > leak.examples[1])
    ((2, 2), True)
    """
    clipped = private_pca.box.clip(X)
    roots = np.ones(len(clipped.rows))
    if private_pca.unit == PERSON:
        if person is None or len(person) != len(clipped.rows):
            raise Refusal(f"the release protects people: pass {option('person')}, whose each row is")
        roots = root_weights(person)[0]
        clipped = ClippedRows(clipped.rows * roots[:, None], clipped.clamped, clipped.factor)
    moves = true_sensitivity(private_pca.mechanism, private_pca.box, private_pca.n_samples).entries
    if ((private_pca.scales == 0) & (moves > 0)).any():
        i, j = (int(k) for k in np.argwhere((private_pca.scales == 0) & (moves > 0))[0])
        raise CannotMeasure(f"unbounded leakage: entry [{i}, {j}] varies with the rows but has no noise")
    unit = private_pca.mechanism.law(1.0).fisher_information  # type: ignore[call-arg]
    V = np.zeros_like(private_pca.scales)
    np.divide(unit, (private_pca.n_samples * private_pca.scales) ** 2, out=V, where=private_pca.scales > 0)
    v = unit / (private_pca.n_samples * private_pca.mean_scale) ** 2 if private_pca.mean_scale > 0 else 0.0
    return MomentLeakage(private_pca, clipped, V, v, roots)


def _directions(Z: FloatArray) -> FloatArray:
    """(m, d) rows scaled to length 1; a row without a person, of weight 0, stays 0."""
    size = np.linalg.norm(Z, axis=1, keepdims=True)
    return np.asarray(np.divide(Z, size, out=np.zeros_like(Z), where=size > 0))


def _product_form(V: FloatArray) -> FloatArray | None:
    """ω (d,) with V_ij = ω_i ω_j off the diagonal, or None if there is none."""
    d = len(V)
    omega = np.zeros(d)
    off_diagonal = V - np.diag(np.diag(V))
    live = np.flatnonzero(off_diagonal.any(axis=1))
    m = len(live)
    if m == 0:
        return omega
    live_block = off_diagonal[np.ix_(live, live)] + np.eye(m)
    if (live_block <= 0).any():
        return None
    if m == 2:
        omega[live] = np.sqrt(live_block[0, 1])
        return omega
    logs = np.log(live_block).sum(axis=1)
    omega[live] = np.exp((logs - logs.sum() / (2 * (m - 1))) / (m - 2))
    exact = np.outer(omega, omega)
    np.fill_diagonal(exact, 0.0)
    return omega if np.allclose(exact, off_diagonal, rtol=_ALIKE, atol=0.0) else None
