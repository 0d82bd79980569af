"""Softmax on a table for which no square matrix of all weights is practical: an upper and a lower bound of every row.

With the centred row v = I ⊗ x − M and S ⪰ nλ of `fitting/wide_softmax.py`, the Jacobian of a row's cells and target is

    J = [ S⁻¹(v Θ + ρ ⊗ [I, 0]) ;  A Θ − Zᵀ(ρ ⊗ [I, 0]) ],    Θ = [S'G, −ωCᵀ],  Z = S⁻¹M,  A = Hbb⁻¹ − Zᵀv,

the second part for the intercepts. Only R = vᵀS⁻²v (K', K') is not known exactly, and

    R ⪯ Σ yyᵀ/μ² + (vᵀv − Σ yyᵀ)/(nλ)²,   y = vᵀφ   over leading eigenpairs (μ, φ) of S,
    R ⪯ S'⁻¹/(4nλ),                       because nλ S⁻² ⪯ S⁻¹ − S⁻¹ v S' vᵀ S⁻¹,

and so does every mixture of the two. Derivation: docs/explanation/wide.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.progress import stage
from dosimeter.glm.fitting.wide_softmax import CentredSoftmax
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.linalg.sparse_table import column_squares, row_squares
from dosimeter.glm.wide.normalised_rows import Unwritten

LEADING = 256
"""Eigenvectors of S that are split off."""

NUMBERS = 1 << 26
"""Numbers that these eigenvectors and their Lanczos basis may take: half a gibibyte."""

MIXTURES = np.linspace(0.0, 1.0, 9)
"""Shares of the two bounds of R that are tried."""

SLACK = 1e-9
"""Relative margin of the bounds for rounding."""

BLOCK = 2_048
"""Rows whose small matrices are decomposed at a time."""


@dataclass(frozen=True, eq=False)
class BoundedSoftmax(Unwritten):
    """The protocol `Jacobian` as upper bounds; `row_bracket` holds the lower ones too."""

    S: CentredSoftmax
    w: FloatArray
    """(d, K') the coefficients."""
    rho: FloatArray
    """(n, K') ω times the residual."""
    weight: FloatArray
    """(n,) ω."""
    C: FloatArray
    """(K, K') contrast times the target's unit."""
    whitening: float
    label_moves: FloatArray | None = None
    """(n, K', K) Lᵢᵀ in the place of ωᵢCᵀ, if classes have weights (`losses/label_weights.py`)."""

    @property
    def n(self) -> int:
        return len(self.rho)

    @property
    def m(self) -> int:
        return len(self.w)

    @property
    def target_width(self) -> int:
        return len(self.C)

    @property
    def ridge(self) -> float:
        return self.S.ridge

    @cached_property
    def lengths(self) -> FloatArray:
        """(n,) |ρ|."""
        return np.asarray(np.linalg.norm(self.rho, axis=1))

    # --- what rows share --------------------------------------------------------------------------------------------

    @cached_property
    def _products(self) -> FloatArray:
        """(n, K', K') x·M of every block and column."""
        K = self.S.classes
        flat = self.S.mean.transpose(1, 0, 2).reshape(self.m, -1)
        return np.asarray(self.S.X @ flat).reshape(self.n, K, K)

    @cached_property
    def _squared_means(self) -> FloatArray:
        """(K', K', K', K') MₖᵀMₗ."""
        return np.asarray(np.einsum("kda,ldb->klab", self.S.mean, self.S.mean, optimize=True))

    @cached_property
    def _solutions(self) -> FloatArray:
        """Z (K', d, K') = S⁻¹M; zero without an intercept."""
        if not self.S.intercept:
            return np.zeros_like(self.S.mean)
        columns = [self.S.solve(np.ascontiguousarray(self.S.mean[:, :, a].T)).T for a in range(self.S.classes)]
        return np.stack(columns, axis=2)

    @cached_property
    def _centred_squares(self) -> FloatArray:
        """(n, K', K') vᵀv."""
        cross = self._products
        squares = row_squares(self.S.X)[:, None, None] * np.eye(self.S.classes)
        return np.asarray(squares - cross - cross.transpose(0, 2, 1) + np.einsum("kkab->ab", self._squared_means))

    @cached_property
    def _leading(self) -> tuple[FloatArray, FloatArray]:
        """μ (q,) and vᵀφ (n, K', q) of leading eigenpairs of S, through vectors with K' numbers for each row."""
        n, K, S = self.n, self.S.classes, self.S
        count = min(LEADING, n * K // 4, self.m * K // 4, NUMBERS // (3 * n * K))
        if count < 1:
            return np.empty(0), np.empty((n, K, 0))
        stage("leading directions")
        values, vectors = np.linalg.eigh(S.D)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ vectors.transpose(0, 2, 1)

        def images(f: FloatArray) -> FloatArray:
            """vᵀ Σ v S'^½ f: f and the result (n, K')."""
            pull = np.einsum("nab,nb->na", root, f)
            z = np.asarray(S.X @ np.asarray(S.X.T @ self._centred(pull)))
            return z - S.corner @ np.einsum("nab,nb->a", S.D, z) if S.intercept else z

        def operator(f: FloatArray) -> FloatArray:
            return np.asarray(np.einsum("nab,nb->na", root, images(f.reshape(n, K)))).ravel()

        start = np.cos(1.0 + np.arange(n * K))  # fixed, so that figures do not change from run to run
        square = LinearOperator((n * K, n * K), matvec=operator, dtype=np.float64)
        top, f = eigsh(square, k=count, v0=start, tol=1e-10)
        keep = top > 1e-6 * self.ridge
        top, f = top[keep], f[:, keep]
        y = [images(f[:, q].reshape(n, K)) / np.sqrt(top[q]) for q in range(len(top))]
        return top + self.ridge, np.stack(y, axis=2) if y else np.empty((n, K, 0))

    def _centred(self, pull: FloatArray) -> FloatArray:
        """(n, K') what Xᵀ takes for Σ v f: the mean's part is a multiple of each row's curvature."""
        if not self.S.intercept:
            return pull
        return np.asarray(pull - self.S.D @ (self.S.corner @ pull.sum(axis=0)))

    # --- bounds of R ------------------------------------------------------------------------------------------------

    @cached_property
    def _parts(self) -> tuple[FloatArray, FloatArray]:
        """(n, K', K') Σ yyᵀ/μ², and vᵀv outside the leading eigenvectors."""
        values, y = self._leading
        rest = self._centred_squares - y @ y.transpose(0, 2, 1)
        squares, vectors = np.linalg.eigh(rest)
        rest = (vectors * np.maximum(squares, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1)
        return np.asarray((y / values**2) @ y.transpose(0, 2, 1)), np.asarray(rest)

    @cached_property
    def _least_known(self) -> FloatArray:
        """(n, K', K') at most R: no other eigenvalue of S is above the smallest leading one."""
        inside, rest = self._parts
        values = self._leading[0]
        return inside + rest / float(values.min()) ** 2 if len(values) else inside

    @cached_property
    def _spread(self) -> FloatArray:
        """(n, K', K') the bound of R by leading eigenpairs."""
        inside, rest = self._parts
        return np.asarray(inside + rest / self.ridge**2)

    @cached_property
    def _own(self) -> FloatArray:
        """(n, K', K') the bound of R by the row's own curvature."""
        values, vectors = np.linalg.eigh(self.S.D)
        largest = values[:, -1:]
        safe = np.maximum(values, 1e-12 * np.where(largest > 0, largest, 1.0))
        return np.asarray((vectors / (4.0 * self.ridge * safe)[:, None, :]) @ vectors.transpose(0, 2, 1))

    def _least(self, moves: FloatArray) -> FloatArray:
        """(n,) an upper bound of ||R^½ T||, from T Tᵀ (n, K', K')."""
        out = np.empty(self.n)
        for i in range(0, self.n, BLOCK):
            s = slice(i, i + BLOCK)
            values, vectors = np.linalg.eigh(moves[s])
            half = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
            by_spread, by_own = (half.transpose(0, 2, 1) @ bound[s] @ half for bound in (self._spread, self._own))
            tried = [np.linalg.eigvalsh(t * by_spread + (1.0 - t) * by_own)[:, -1] for t in MIXTURES]
            out[s] = np.sqrt(np.maximum(np.min(tried, axis=0), 0.0))
        return out

    @cached_property
    def _corners(self) -> FloatArray:
        """A (n, K', K'): what the intercepts move by for each margin of a row; zero without one."""
        if not self.S.intercept:
            return np.zeros((self.n, self.S.classes, self.S.classes))
        K, Z = self.S.classes, self._solutions
        flat = Z.transpose(1, 0, 2).reshape(self.m, -1)
        along = np.asarray(self.S.X @ flat).reshape(self.n, K, K).transpose(0, 2, 1)
        fixed = np.einsum("kda,kdb->ab", Z, self.S.mean, optimize=True)
        return np.asarray(self.S.corner - along + fixed)

    @cached_property
    def _moved_corners(self) -> FloatArray:
        """(n,) ||Zᵀ(ρ ⊗ I)||."""
        if not self.S.intercept:
            return np.zeros(self.n)
        squares = np.einsum("kda,ldb->klab", self._solutions, self._solutions, optimize=True)
        total = np.einsum("nk,nl,klab->nab", self.rho, self.rho, squares, optimize=True)
        return np.sqrt(np.maximum(np.linalg.eigvalsh(total)[:, -1], 0.0))

    # --- rows -------------------------------------------------------------------------------------------------------

    def _cells_together(self, columns: Index) -> FloatArray:
        """(n,) an upper bound for some cells of each row, without whitening."""
        G = self.w[columns].T
        moves = self.S.D @ (G @ G.T) @ self.S.D
        apart = self._least(moves) + self.lengths / self.ridge
        if len(columns) == self.m:
            apart = np.minimum(apart, self._with_cross_term(G))
        return np.hypot(apart, _norms(self._corners, moves) + self._moved_corners)

    def _with_cross_term(self, G: FloatArray) -> FloatArray:
        """(n,) ||v S'G + ρ ⊗ I||/nλ: exact in its signs, with nλ for S."""
        rho, D, K = self.rho, self.S.D, self.S.classes
        Mx = np.einsum("nk,nkb->nb", rho, self._products)
        cross = np.einsum("nc,na->nca", np.asarray(self.S.X @ G.T), rho)
        cross -= np.einsum("cd,nk,kda->nca", G, rho, self.S.mean, optimize=True)
        inner = row_squares(self.S.X)[:, None, None] * (rho[:, :, None] * rho[:, None, :])
        inner -= rho[:, :, None] * Mx[:, None, :] + Mx[:, :, None] * rho[:, None, :]
        inner += np.einsum("nk,nl,klab->nab", rho, rho, self._squared_means, optimize=True)
        out = np.empty(self.n)
        for i in range(0, self.n, BLOCK):
            s = slice(i, min(i + BLOCK, self.n))
            gram, core = np.zeros((2, s.stop - s.start, 2 * K, 2 * K))
            gram[:, :K, :K], gram[:, K:, K:] = G @ G.T, inner[s]
            gram[:, :K, K:], gram[:, K:, :K] = cross[s], cross[s].transpose(0, 2, 1)
            core[:, :K, :K] = D[s] @ self._centred_squares[s] @ D[s]
            core[:, :K, K:] = core[:, K:, :K] = D[s]
            values, vectors = np.linalg.eigh(gram)
            half = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
            out[s] = np.linalg.eigvalsh(half.transpose(0, 2, 1) @ core @ half)[:, -1]
        return np.sqrt(self.lengths**2 + np.maximum(out, 0.0)) / self.ridge

    @cached_property
    def _labels(self) -> tuple[FloatArray, FloatArray]:
        """(n,), (n,) bounds for the target, without whitening."""
        L = self.weight[:, None, None] * self.C.T if self.label_moves is None else self.label_moves
        moves = L @ L.transpose(0, 2, 1)
        corner = _norms(self._corners, moves)
        lower = np.linalg.eigvalsh(L.transpose(0, 2, 1) @ (self._least_known + _gram(self._corners)) @ L)[:, -1]
        return np.sqrt(np.maximum(lower, 0.0)), np.hypot(self._least(moves), corner)

    @cached_property
    def _whole(self) -> FloatArray:
        return self._cells_together(np.arange(self.m, dtype=np.intp))

    @cached_property
    def _free_level(self) -> float:
        """A lower bound of ||J||/|ρ| over all cells: of a direction e that moves no margin through the weights.

        With more columns than rows some e is outside the rows, and J e is ρ/nλ. Otherwise e is a mixture of rare
        columns with w·e = 0, and ||S⁻¹(ρ ⊗ e)|| is at least |ρ| over the quadratic form of S there.
        """
        if self.m > self.n:
            return 1.0 / self.ridge
        largest = np.asarray(np.linalg.eigvalsh(self.S.D)[:, -1], dtype=np.float64)
        rare = np.argsort(column_squares(self.S.X, largest), kind="stable")[: self.S.classes + 1]
        if len(rare) <= self.S.classes:
            return 0.0
        e = np.linalg.svd(self.w[rare].T)[2][-1]
        return 1.0 / (self.ridge + float(largest @ np.asarray(self.S.X[:, rare] @ e) ** 2))

    def _upper(self, columns: Index) -> FloatArray:
        """(n,) of some cells."""
        if not len(columns):
            return np.zeros(self.n)
        return self._whole if len(columns) == self.m else self._cells_together(columns)

    def row_bracket(self, columns: Index, include_target: bool) -> tuple[FloatArray, FloatArray]:
        """(n,), (n,) a lower and an upper bound of ||J|| over some columns and, if included, the target."""
        lower = self.lengths * self._free_level if len(columns) == self.m else np.zeros(self.n)
        upper = self._upper(columns)
        if include_target:
            lower, upper = np.maximum(lower, self._labels[0]), np.hypot(upper, self._labels[1])
        return self.whitening * lower * (1.0 - SLACK), self.whitening * upper * (1.0 + SLACK)

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) upper bounds."""
        return self.row_bracket(columns, include_target)[1]

    def target_norms(self) -> FloatArray:
        """(n,) upper bounds."""
        return self.row_bracket(np.empty(0, dtype=np.intp), True)[1]

    def target_steps(self, vertices: FloatArray, shared: list[Index] | None) -> FloatArray:
        """(n,) or (groups,) upper bounds of the largest step between two classes at the vertices (K, K)."""
        apart = vertices[:, None, :] - vertices[None, :, :]
        longest = float(np.sqrt(np.max(np.sum(apart**2, axis=2))))
        norms = longest * self.target_norms()
        return norms if shared is None else np.array([norms[rows].sum() for rows in shared])

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, j) upper bounds."""
        return np.column_stack([self.row_norms(columns[k : k + 1], False) for k in range(len(columns))])

    def cells_of(self, rows: Index) -> FloatArray:
        """(k, m) upper bounds of every cell of some rows."""
        out = np.empty((len(rows), self.m))
        for position, row in enumerate(rows.tolist()):
            slopes = self.S.D[row] @ self.w.T
            bounds = [np.einsum("aj,ab,bj->j", slopes, bound[row], slopes) for bound in (self._spread, self._own)]
            apart = np.sqrt(np.maximum(np.min(bounds, axis=0), 0.0)) + self.lengths[row] / self.ridge
            moved = np.linalg.norm(np.einsum("k,kda->da", self.rho[row], self._solutions), axis=1)
            corner = np.linalg.norm(self._corners[row] @ slopes, axis=0) + moved
            out[position] = self.whitening * (1.0 + SLACK) * np.hypot(apart, corner)
        return out

    def column_norms(self) -> FloatArray:
        """(m,) upper bounds of each column over all rows."""
        sizes = self._least(self.S.D @ self.S.D) + _norms(self._corners, self.S.D @ self.S.D)
        level = np.linalg.norm(self.lengths) / self.ridge + np.linalg.norm(self._moved_corners)
        return np.asarray(self.whitening * (np.linalg.norm(self.w, axis=1) * np.linalg.norm(sizes) + level))

    # --- rows together ----------------------------------------------------------------------------------------------

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """An upper bound for some rows' unknowns together."""
        index = np.arange(self.n, dtype=np.intp)[rows]
        return float(self.norms_together(index[None], columns, include_target, tied)[0])

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) upper bounds for g groups of k rows each: squares of separate unknowns add, lengths of tied ones."""
        squares = np.zeros(len(rows))
        if len(columns) or include_target:
            squares += (self.row_norms(columns, include_target) ** 2)[rows].sum(axis=1)
        if len(shared := tied[tied < self.m]):
            squares += self.row_norms(shared, False)[rows].sum(axis=1) ** 2
        if (tied >= self.m).any():
            squares += self.target_norms()[rows].sum(axis=1) ** 2
        return np.sqrt(squares)


def _gram(A: FloatArray) -> FloatArray:
    """(n, K', K') AᵀA."""
    return np.asarray(A.transpose(0, 2, 1) @ A)


def _norms(A: FloatArray, moves: FloatArray) -> FloatArray:
    """(n,) ||A T|| from T Tᵀ."""
    return np.asarray(np.sqrt(np.maximum(np.linalg.eigvalsh(A @ moves @ A.transpose(0, 2, 1))[:, -1], 0.0)))
