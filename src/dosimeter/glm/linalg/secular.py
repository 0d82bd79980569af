"""Largest eigenvalue of every row's J Jᵀ by a secular equation, O(p) per step and row: docs/explanation/secular.md.

    M = r² diag(D) + A z zᵀ + a r (z vᵀ + v zᵀ),     A = a² s + c²,   s >= vᵀ D⁺ v

is a diagonal that all rows share plus a part of rank two. With b = √A and k = a r / b it is
r² D + p pᵀ − q qᵀ, p = b z + k v, q = k v. The first steps run in float32 on a dozen poles that replace all
p of them; one step in float64 on the true poles then gives full accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.glm.linalg.ritz import (
    Lumped,
    Poles,
    Real,
    Whole,
    descend,
    first_trial,
    normalise_row,
    phi,
    step_coefficients,
    upper_bound,
)

BLOCK, MOST_ROWS, FEWEST_ROWS = 600_000, 16_384, 4_096
"""Numbers of Z and rows held at a time: numpy's fixed cost per call is spread, and Z stays in the caches."""

CANCELLED = 1e-4
"""An eigenvalue below this share of its bound is a remainder of p pᵀ − q qᵀ: such a row is solved densely."""

ROUGH, FINE = 1e-6, 1e-12
"""Error allowed after the float32 and the float64 steps; the last step squares it."""

HUGE = 1e153
"""The square of a norm above this may exceed float64's range."""

Fill = Callable[[slice, FloatArray], object]
"""Writes Zᵀ of some rows into an array (p, m)."""


def largest_eigenvalues(
    D: FloatArray,
    Z: FloatArray,
    v: FloatArray,
    a: FloatArray,
    r: FloatArray,
    A: FloatArray,
    rest: FloatArray | None = None,
) -> FloatArray:
    """(n,) λ₁ of r² diag(D) + A z zᵀ + a r (z vᵀ + v zᵀ) for each row z of Z.

    D (p,) descending and >= 0, v (p,) zero where D is, Z (n, p), a, r, A (n,) with A >= a² s, s = vᵀD⁺v. `rest` (n,) is
    A − a² s if that is known without subtracting, as c² often is. It matters only for rows that cancel (x ∥ w,
    r ≈ −a x·w): without it they lose the digits that the subtraction loses.

    >>> D, Z, zero = np.array([2.0, 1.0]), np.array([[3.0, 4.0], [1.0, 0.0]]), np.zeros(2)
    >>> largest_eigenvalues(D, Z, zero, zero, np.array([0.0, 2.0]), np.ones(2)).round(9)
    array([25.,  9.])
    """
    if Z.shape != (len(r), len(D)):
        raise Refusal(f"Z must be {(len(r), len(D))}, a row for each r and a column for each D, not {Z.shape}")
    return _by_blocks(lambda s, out: np.copyto(out, Z[s].T), D, v, a, r, A, rest)


def row_eigenvalues(
    X: FloatArray,
    B: FloatArray,
    D: FloatArray,
    v: FloatArray,
    a: FloatArray,
    r: FloatArray,
    A: FloatArray,
    rest: FloatArray | None = None,
) -> FloatArray:
    """(n,) `largest_eigenvalues` of Z = X B without holding Z.

    X (n, d), B (d, p); a B of d + 1 rows has the intercept's row last.
    """
    n, d = X.shape
    if n != len(r) or B.shape not in ((d, len(D)), (d + 1, len(D))):
        raise Refusal(f"X {X.shape} and B {B.shape} do not fit {len(r)} rows and {len(D)} eigenvalues")
    left, constant = np.ascontiguousarray(B[:d].T), B[d:].sum(axis=0)[:, None]

    def fill(s: slice, out: FloatArray) -> None:
        np.matmul(left, X[s].T, out=out)
        if len(B) > d:
            out += constant

    return _by_blocks(fill, D, v, a, r, A, rest)


@dataclass(frozen=True)
class _Shared:
    """What all rows share, in units where D_0 = 1 and t = D^(-1/2) v has length 1."""

    sigma: float  # √D_0
    tau: float  # ‖t‖ before
    root: FloatArray  # (p,) √D
    t: FloatArray  # (p,)
    v0: float
    poles: Poles
    lumps: Poles
    share: Real  # (lumps, p − 1) of z²
    share_v: Real  # (lumps, p − 1) of z, v inside

    @classmethod
    def of(cls, D: FloatArray, v: FloatArray) -> _Shared:
        sigma = float(np.sqrt(D[0]))
        unit = sigma or 1.0
        root = np.sqrt(D) / unit
        # If √D is only rounding, v is too, and their quotient would be arbitrary.
        t = np.divide(v / unit, root, out=np.zeros(len(D)), where=root > 4e-16)
        top = float(np.abs(t).max()) or 1.0
        tau = float(np.linalg.norm(t / top)) * top
        t /= tau or 1.0
        poles = Poles.below(D / (D[0] or 1.0), root * t)
        lumps, share = poles.lumped()
        single = np.float32
        v0 = float(root[0] * t[0])
        return cls(sigma, tau, root, t, v0, poles, lumps, share.astype(single), (share * poles.v).astype(single))

    def lumped(self, single: Real, square: Real) -> Lumped:
        """The pole terms of float32 rows z and z² (p − 1, m), which are overwritten if the poles are few."""
        if len(self.share) == len(single):
            return Lumped(square, np.multiply(single, self.share_v.diagonal()[:, None], out=single))
        return Lumped(self.share @ square, self.share_v @ single)


@dataclass(frozen=True)
class _Rows:
    """A block of rows, each divided by m = max(|r| √D_0, √A ‖z‖)."""

    Z: FloatArray  # (p, m), each row times a power of two where it was very long or very short
    single: Real  # (2, p, m) z and z² in float32
    r: FloatArray  # |r| √D_0 / m
    b: FloatArray  # √A / m, with that power of two taken out again
    phi: FloatArray  # ± a ‖t‖ / √A, within [−1, 1]; k = φ r
    rest: FloatArray  # (A − a² ‖t‖²) / A
    unit: FloatArray  # m


def _by_blocks(
    fill: Fill,
    D: FloatArray,
    v: FloatArray,
    a: FloatArray,
    r: FloatArray,
    A: FloatArray,
    rest: FloatArray | None,
) -> FloatArray:
    n, p = len(r), len(D)
    _check(D, v, a, r, A, rest)
    # A second, unused coordinate gives a single one the pole below it that the method needs.
    shared = _Shared.of(np.append(D, 0.0), np.append(v, 0.0)) if p == 1 else _Shared.of(D, v)
    step = _rows_at_a_time(n, len(shared.root))
    out = np.empty(n)
    # One allocation instead of two: malloc then keeps it, and the next call has no page faults.
    pool = np.empty((2, len(shared.root) * step))
    for i in range(0, n, step):
        s = slice(i, min(i + step, n))
        Z = pool[0, : len(shared.root) * (s.stop - i)].reshape(-1, s.stop - i)
        Z[p:] = 0.0
        fill(s, Z[:p])
        block_values = a[s], r[s], A[s], None if rest is None else rest[s]
        out[s] = _block(shared, i, Z, pool[1], *block_values)
    return out


def _rows_at_a_time(n: int, width: int) -> int:
    # Equal blocks; a small table is cut too, so that the extra memory stays below twice its size.
    blocks = max(-(-n // max(1, min(BLOCK // width, MOST_ROWS))), min(4, n // FEWEST_ROWS), 1)
    return max(1, -(-n // blocks))


def _block(
    shared: _Shared,
    start: int,
    Z: FloatArray,
    work: FloatArray,
    a: FloatArray,
    r: FloatArray,
    A: FloatArray,
    rest: FloatArray | None,
) -> FloatArray:
    """λ₁ of rows Z (p, m), the first being row `start`; overwrites Z, and `work` of the same size."""
    # A nan inside a step marks a row that does not converge there; it is then solved densely.
    with np.errstate(all="ignore"):
        rows = _scale(shared, Z, work, a, r, A, rest)
        if not (rows.unit < HUGE).all():
            row = start + int(np.flatnonzero(~(rows.unit < HUGE))[0])
            raise Refusal(f"row {row} is not finite, or its norm squared exceeds a float64: rescale it")
        return np.asarray(_solve(shared, rows) * rows.unit * rows.unit)


def _check(D: FloatArray, v: FloatArray, a: FloatArray, r: FloatArray, A: FloatArray, rest: FloatArray | None) -> None:
    if not len(D) or v.shape != D.shape or (np.diff(D) > 0).any() or not D[-1] >= 0:
        raise Refusal(f"D must be descending and not negative and v as long: got D = {D}, v of shape {v.shape}")
    per_row = (a, r, A) if rest is None else (a, r, A, rest)
    if any(x.shape != a.shape for x in per_row):
        raise Refusal(f"a, r, A and rest need one value per row: got shapes {[x.shape for x in per_row]}")
    if not all(np.isfinite(x).all() for x in (D, v, *per_row)) or any((x < 0).any() for x in per_row[2:]):
        raise Refusal("D, v, a, r, A and rest must be finite, A and rest not negative")


def _scale(
    shared: _Shared,
    Z: FloatArray,
    work: FloatArray,
    a: FloatArray,
    r: FloatArray,
    A: FloatArray,
    rest: FloatArray | None,
) -> _Rows:
    """The rows in units in which float32 neither overflows nor underflows; scales Z in place."""
    root = np.sqrt(A)
    row_phi = phi(shared.tau, a, r, root)
    share = np.maximum(1.0 - row_phi * row_phi, 0.0) if rest is None else np.where(root > 0, rest / A, 0.0)
    single = work.view(np.float32)[: 2 * Z.size].reshape(2, *Z.shape)
    size = _squares(Z, single)
    extreme = np.flatnonzero(~((size > 1e-12) & (size < 1e12)))
    if len(extreme):
        power = np.frexp(np.abs(Z[:, extreme]).max(axis=0))[1]
        Z[:, extreme] = np.ldexp(Z[:, extreme], -power)
        root[extreme] = np.ldexp(root[extreme], power)
        size = _squares(Z, single)
    R, b, unit = normalise_row(shared.sigma, r, root, np.sqrt(size))
    return _Rows(Z, single, R, b, row_phi, share, unit)


def _squares(Z: FloatArray, single: Real) -> FloatArray:
    """z and z² in float32 into `single` (2, p, m), and ‖z‖² (m,)."""
    np.copyto(single[0], Z, casting="same_kind")
    np.multiply(single[0], single[0], out=single[1])
    return np.asarray(np.ones(len(Z), np.float32) @ single[1], dtype=np.float64)


def _solve(shared: _Shared, rows: _Rows) -> FloatArray:
    """The largest eigenvalue of each scaled row, (m,)."""
    poles = shared.poles
    scalars = np.stack(step_coefficients(rows.r, rows.b, rows.phi, rows.Z[0], shared.v0))
    scalars_single, terms = scalars.astype(np.float32), shared.lumped(*rows.single[:, 1:])
    trial, bound = first_trial(shared.lumps, terms, scalars_single)
    top = upper_bound(poles, scalars[0], bound)
    unsolved = descend(shared.lumps, terms, scalars_single, trial, top.astype(np.float32), ROUGH, rounds=6)
    lower_bound = np.maximum(shared.lumps.near * poles.spread * scalars[0], 1e-15 * bound)
    delta = np.minimum(np.maximum(trial, lower_bound), top)
    delta[unsolved] = top[unsolved]
    unsolved = descend(poles, Whole(rows.Z[1:]), scalars, delta, top, FINE, rounds=25)
    out = scalars[0] * poles.floor + delta
    doubtful = ~(out > CANCELLED * bound)
    doubtful[unsolved] = True
    doubtful_rows = np.flatnonzero(doubtful)
    size = max(1, BLOCK // (len(rows.Z) * (len(rows.Z) + 1)))
    for i in range(0, len(doubtful_rows), size):
        out[doubtful_rows[i : i + size]] = _dense(shared, rows, doubtful_rows[i : i + size])
    return np.asarray(out)


def _dense(shared: _Shared, rows: _Rows, row_index: npt.NDArray[np.intp]) -> FloatArray:
    """The same from a factor, M = G Gᵀ, G = [r D^½ + φ b z tᵀ, b √rest z]: nothing is squared or cancels."""
    p, z = len(rows.Z), (rows.Z[:, row_index] * rows.b[row_index]).T
    G = np.empty((len(row_index), p, p + 1))
    G[:, :, :p] = rows.phi[row_index, None, None] * z[:, :, None] * shared.t
    G[:, np.arange(p), np.arange(p)] += rows.r[row_index, None] * shared.root
    G[:, :, p] = np.sqrt(rows.rest[row_index, None]) * z
    return np.asarray(np.linalg.norm(G, 2, axis=(1, 2)) ** 2)
