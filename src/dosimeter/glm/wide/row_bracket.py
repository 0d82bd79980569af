"""Two bounds of ||J|| from a few numbers per row, where J Jᵀ cannot be decomposed.

The intercept is eliminated (`linalg/conjugate_gradients.py`): u = S⁻¹x_c and v = S⁻¹P²w of d numbers each, with
τ and v_b for the intercept; B = S⁻¹P, and −q₁ᵀP is the intercept's row of it. With A = a²||g||² + c² and k = a r,

    J Jᵀ = r² [[ B Bᵀ, −t ], [ −tᵀ, |P q₁|² ]] + A ũ ũᵀ + k (ũ ṽᵀ + ṽ ũᵀ),     t = S⁻¹P²q₁,  ũ = (u, τ),  ṽ = (v, v_b).

Split the space into û = u/|u|, the intercept and the rest, on which J Jᵀ ⪯ r²b², b >= ||B||. The matrix of the norms of
the blocks, with the diagonal as it is, has an eigenvalue that is at least ||J||² and grows with every entry; so upper
bounds of the entries may be inserted. Its upper left corner alone gives a lower bound in the same way. Another upper
bound is r²||[B; −q₁ᵀP]||² plus the larger eigenvalue of the part of rank two; another lower one r²ℓ², if some unknown
direction that no margin sees has ||B·|| >= ℓ. Derivation: docs/explanation/wide.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Border:
    """The intercept's part."""

    tau: FloatArray
    """(n,) τ."""
    mixed: FloatArray
    """(n,) −u·t."""
    v: float
    """v_b."""
    corner: float
    """|P q₁|²."""
    side: float
    """|t|²."""


@dataclass(frozen=True, eq=False)
class Products:
    """What is known of the rows (n,): bounds of three squares, and exact products with vectors that all rows share."""

    u_low: FloatArray
    """|u|² is between this"""
    u_high: FloatArray
    """and this."""
    h_low: FloatArray
    """|Bᵀu|² is between this"""
    h_high: FloatArray
    """and this."""
    q_high: FloatArray
    """|BBᵀu|² is at most this."""
    uv: FloatArray
    """u·v."""
    vv: float
    """|v|²."""
    border: Border | None
    """None without an intercept."""


@dataclass(frozen=True, eq=False)
class Reach:
    """How far one unknown can move the released values, whichever it is."""

    b: float
    """At least ||S⁻¹P||: the coefficients alone."""
    full: float
    """At least ||H⁻¹P||: with the intercept."""
    level: float
    """ℓ, 0 if none is known."""


def bracket(p: Products, A: FloatArray, a: FloatArray, r: FloatArray, reach: Reach) -> tuple[FloatArray, FloatArray]:
    """(n,), (n,) a lower and an upper bound of ||J||, unwhitened; A, a, r (n,).

    >>> one, zero = np.ones(1), np.zeros(1)
    >>> exact = Products(one, one, one, one, one, zero, 0.0, None)
    >>> [x.round(6).tolist() for x in bracket(exact, 3 * one, zero, one, Reach(1.0, 1.0, 1.0))]    # √(1 + 3)
    [[2.0], [2.0]]
    """
    k = a * r
    upper = np.minimum((r * reach.full) ** 2 + _rank_two(p, A, k), _blocks(p, A, k, r, (r * reach.b) ** 2))
    lower = np.maximum(_corner(p, A, k, r), (r * reach.level) ** 2)
    return np.sqrt(np.minimum(lower, upper)), np.sqrt(upper)


def _rank_two(p: Products, A: FloatArray, k: FloatArray) -> FloatArray:
    """The larger eigenvalue of A ũũᵀ + k (ũṽᵀ + ṽũᵀ), which grows with |u|²."""
    square, uv, vv = p.u_high, p.uv, p.vv
    if p.border is not None:
        square, uv, vv = square + p.border.tau**2, uv + p.border.tau * p.border.v, vv + p.border.v**2
    trace = A * square + 2 * k * uv
    return np.asarray(0.5 * (trace + np.sqrt(trace**2 + 4 * k * k * np.maximum(square * vv - uv**2, 0.0))))


def _blocks(p: Products, A: FloatArray, k: FloatArray, r: FloatArray, floor: FloatArray) -> FloatArray:
    """The eigenvalue of the matrix of norms at the head of the file; infinite where u is not known to be > 0."""
    known = p.u_low > 0
    low, high = np.where(known, p.u_low, 1.0), np.where(known, p.u_high, 1.0)
    r2 = r * r
    bent = np.sqrt(np.maximum(p.q_high / low - (p.h_low / high) ** 2, 0.0))
    apart = np.sqrt(np.maximum(p.u_high * p.vv - p.uv**2, 0.0))
    N = np.zeros((len(r), 3, 3))
    N[:, 0, 0] = np.minimum(r2 * p.h_high / low, floor) + A * p.u_high + 2 * k * p.uv
    N[:, 1, 1] = floor
    N[:, 0, 1] = N[:, 1, 0] = np.minimum(r2 * bent, 0.5 * floor) + np.abs(k) * apart
    if p.border is None:
        return np.where(known, np.linalg.eigvalsh(N[:, :2, :2])[:, -1], np.inf)
    tau = p.border.tau
    side = np.sqrt(np.maximum(p.border.side - p.border.mixed**2 / high, 0.0))
    N[:, 2, 2] = _border_square(p.border, A, k, r)
    N[:, 0, 2] = N[:, 2, 0] = _mixed(p, p.border, A, k, r)[1]
    N[:, 1, 2] = N[:, 2, 1] = r2 * side + np.abs(k * tau) * np.sqrt(np.maximum(p.vv - p.uv**2 / high, 0.0))
    return np.where(known, np.linalg.eigvalsh(N)[:, -1], np.inf)


def _border_square(border: Border, A: FloatArray, k: FloatArray, r: FloatArray) -> FloatArray:
    """The intercept's diagonal entry of J Jᵀ."""
    return np.asarray(r * r * border.corner + A * border.tau**2 + 2 * k * border.tau * border.v)


def _mixed(p: Products, border: Border, A: FloatArray, k: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds of |ûᵀJJᵀe| for the intercept's axis e: |f/x + g x| over the possible x = |u|."""
    f = r * r * border.mixed + k * border.tau * p.uv
    g = A * border.tau + k * border.v
    low, high = np.sqrt(np.where(p.u_low > 0, p.u_low, 1.0)), np.sqrt(np.where(p.u_low > 0, p.u_high, 1.0))
    first, last = f / low + g * low, f / high + g * high
    # Of one sign, f and g leave a least value at x² = f/g; of two signs it may be zero, if the ends differ in sign.
    turn = np.clip(np.sqrt(np.divide(f, g, out=np.ones_like(f), where=f * g > 0)), low, high)
    least = np.minimum(np.minimum(np.abs(first), np.abs(last)), np.abs(f / turn + g * turn))
    return np.where(first * last > 0, least, 0.0), np.maximum(np.abs(first), np.abs(last))


def _corner(p: Products, A: FloatArray, k: FloatArray, r: FloatArray) -> FloatArray:
    """A lower bound of the larger eigenvalue of J Jᵀ on û and the intercept."""
    known = p.u_low > 0
    m = r * r * p.h_low / np.where(known, p.u_high, 1.0) + A * p.u_low + 2 * k * p.uv
    m = np.where(known, np.maximum(m, 0.0), 0.0)
    if p.border is None:
        return m
    other = np.maximum(_border_square(p.border, A, k, r), 0.0)
    off = np.where(known, _mixed(p, p.border, A, k, r)[0], 0.0)
    return np.asarray(0.5 * (m + other) + np.hypot(0.5 * (m - other), off))
