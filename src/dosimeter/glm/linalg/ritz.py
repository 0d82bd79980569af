"""Ritz steps towards the largest eigenvalue of r² D + p pᵀ − q qᵀ, many rows at once; see docs/explanation/secular.md.

Coordinate 0 is treated separately: the eigenvalue may lie below r² D_0, but never below the floor r² D_1. The unknown
is its height δ above the floor, so that δ + r² (D_1 − D_k) keeps every digit however close the poles are.
Arrays have shape (coordinate, row). float32 inputs are computed in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import ellipj, ellipk

from dosimeter.core.arrays import FloatArray

Real = npt.NDArray[Any]
"""float32 or float64, the same throughout one call."""

PANEL = 150_000
"""Numbers of Z that the sums over all poles work on at a time: with E and EZ they stay in the cache."""

LUMPS, NEAREST = 14, 2e-3
"""This many poles replace all of them to 9e-7, from this height above the floor (in spreads) upwards."""

AT_FLOOR = 1e-13
"""A root certified to be below this share of the floor is the floor."""

SLOWEST = 1e-3
"""A Ritz value below the floor only says that the root is near it: δ then shrinks by this factor."""


@dataclass(frozen=True)
class Poles:
    """What all rows share, in units where D_0 = 1 and ‖D^(-1/2) v‖ = 1."""

    floor: float  # D_1
    spread: float  # D_1 − D_{p−1}, or 1 if all poles coincide
    outer: Real  # (poles, 2) gaps D_1 − D_k in units of the spread, and ones
    v: Real  # (poles,)
    vv: Real  # (poles,) v²
    near: float  # below this height, in units of the spread, the lumped poles are not accurate
    far: float  # from this height on a pole term equals its limit to rounding

    @classmethod
    def below(cls, D: FloatArray, v: FloatArray) -> Poles:
        """D (p,) descending from 1 and v (p,), p >= 2."""
        gaps = D[1] - D[1:]
        spread = float(gaps[-1]) or 1.0
        outer = np.stack((gaps / spread, np.ones(len(gaps))), axis=1)
        return cls(float(D[1]), spread, outer, v[1:], v[1:] ** 2, 0.0, 1e17)

    def lumped(self) -> tuple[Poles, Real]:
        """A few poles in float32, and shares (lumps, poles): 1/(e + gap_k) ≈ Σ_j share_jk / (e + lump_j)."""
        gaps: Real = self.outer[:, 0]
        share: Real = np.eye(len(gaps))
        near = 1e-5
        if len(gaps) > 2 * LUMPS:
            lumps, points = _zolotarev(LUMPS, NEAREST)
            share = np.linalg.solve(1.0 / np.add.outer(points, lumps), 1.0 / np.add.outer(points, gaps))
            gaps, near = lumps, NEAREST
        outer = np.stack((gaps, np.ones(len(gaps))), axis=1).astype(np.float32)
        few = Poles(self.floor, self.spread, outer, self.v, (share @ self.vv).astype(np.float32), near, 1e8)
        return few, share


def _zolotarev(count: int, nearest: float) -> tuple[FloatArray, FloatArray]:
    """Poles in [0, 1] and points in [nearest, ∞) that interpolate 1/(e + gap) best, (count,) each."""
    root = np.sqrt(1.0 + nearest)
    up, down = root - 1.0, -1.0 - root
    end = (nearest - up) / (nearest - down)
    m = 1.0 - end * end
    y = ellipj((2 * np.arange(count) + 1) * ellipk(m) / (2 * count), m)[2]
    return -(up + y * down) / (1.0 + y), (up - y * down) / (1.0 - y)


class PoleSums(Protocol):
    """The terms of the pole sums of some rows."""

    def sums(self, poles: Poles, e: Real) -> Real:
        """Σ z² E, Σ zv E, Σ v² E, then the same with E², E_k = 1 / (e + gap_k); (6, m)."""

    def take(self, rows: npt.NDArray[np.intp]) -> PoleSums:
        """Those of the rows at these positions."""


@dataclass(frozen=True)
class Lumped:
    """Terms summed in advance over the poles of each lump."""

    zz: Real  # (lumps, m)
    zv: Real  # (lumps, m)

    def sums(self, poles: Poles, e: Real) -> Real:
        """As in PoleSums."""
        out = np.empty((6, len(e)), e.dtype)
        E = _reciprocals(poles, e, np.empty_like(self.zz))
        for three in (out[:3], out[3:]):
            np.einsum("ij,ij->j", E, self.zz, out=three[0])
            np.einsum("ij,ij->j", E, self.zv, out=three[1])
            np.matmul(poles.vv, E, out=three[2])
            np.multiply(E, E, out=E)
        return out

    def moments(self, poles: Poles) -> tuple[Real, Real, Real, Real, Real, Real]:
        """Σ z², Σ zv, Σ v², then the same times D; (m,) each, those of v alike in all rows."""
        D = (poles.floor - poles.spread * poles.outer[:, 0]).astype(self.zz.dtype)
        both = np.stack((np.ones_like(D), D))
        (zz, dzz), (zv, dzv), (vv, dvv) = both @ self.zz, both @ self.zv, both @ poles.vv
        return zz, zv, vv, dzz, dzv, dvv

    def take(self, rows: npt.NDArray[np.intp]) -> Lumped:
        """As in PoleSums."""
        return Lumped(np.take(self.zz, rows, axis=1), np.take(self.zv, rows, axis=1))


@dataclass(frozen=True)
class Whole:
    """Every pole by itself."""

    Z: Real  # (p − 1, m)

    def sums(self, poles: Poles, e: Real) -> Real:
        """As in PoleSums, a panel of rows at a time."""
        out, p = np.empty((6, len(e)), e.dtype), len(self.Z)
        width = min(max(1, PANEL // p), len(e))
        work = np.empty((2, p * width), e.dtype)
        for start in range(0, len(e), width):
            part = slice(start, start + width)
            Z = self.Z[:, part]
            E, B = work[:, : Z.size].reshape(2, *Z.shape)
            _reciprocals(poles, e[part], E)
            np.multiply(E, Z, out=B)
            np.einsum("ij,ij->j", B, Z, out=out[0, part])
            np.matmul(poles.v, B, out=out[1, part])
            np.matmul(poles.vv, E, out=out[2, part])
            np.einsum("ij,ij->j", B, B, out=out[3, part])
            np.multiply(B, E, out=B)
            np.matmul(poles.v, B, out=out[4, part])
            np.multiply(E, E, out=E)
            np.matmul(poles.vv, E, out=out[5, part])
        return out

    def take(self, rows: npt.NDArray[np.intp]) -> Whole:
        """As in PoleSums."""
        return Whole(np.take(self.Z, rows, axis=1))


def _reciprocals(poles: Poles, e: Real, out: Real) -> Real:
    line = np.ones((2, len(e)), e.dtype)
    line[1] = e
    # A product of rank two writes the outer sum three times faster than broadcasting, and rounds the same.
    np.matmul(poles.outer, line, out=out)
    np.divide(1.0, out, out=out)
    return out


def phi(tau: float, a: Real, r: Real, root: Real) -> Real:
    """φ = ± a ‖t‖ / √A, within [−1, 1], (m,): k = φ |r|; root is √A, tau ‖t‖."""
    return np.where(root > 0, np.where(r < 0, -a, a) * tau / root, 0.0)


def normalise_row(sigma: float, r: Real, root: Real, norm: Real) -> tuple[Real, Real, Real]:
    """|r| √D_0 and b = √A, both in the unit m = max(|r| √D_0, √A ‖z‖), and m; (m,) each; sigma is √D_0."""
    R, length = np.abs(r) * sigma, root * norm
    unit = np.maximum(R, length)
    # A row of zeros (weight 0, say) gets r = 1 so that it converges; its unit 0 makes the result 0.
    return np.where(unit == 0, 1.0, R / unit), np.where(length > 0, root / unit, 0.0), unit


def step_coefficients(r: Real, b: Real, phi: Real, z0: Real, v0: float) -> tuple[Real, Real, Real, Real, Real, Real]:
    """The coefficients of a row's steps besides its pole sums: r², b², bk, k², b z_0, k v_0; (m,) each."""
    k = phi * r
    return r * r, b * b, b * k, k * k, b * z0, k * v0


def upper_bound(poles: Poles, r2: Real, bound: Real) -> Real:
    """An upper bound of the height δ of the root, (m,); slightly above, to allow for float32 rounding."""
    return np.maximum(1.00001 * bound - r2 * poles.floor, 1e-15 * bound)


def ritz_step(poles: Poles, terms: PoleSums, scalars: Real, delta: Real) -> tuple[Real, Real]:
    """How far the trial δ is above the Ritz value, and the gap to the second Ritz value; (m,) each.

    scalars (6, m): r², b², bk, k², b z_0, k v_0.
    """
    r2, _, _, _, bz0, q0 = scalars
    e = np.minimum(delta / (r2 * poles.spread), poles.far)
    sums = terms.sums(poles, e)
    f = e / delta
    weight = scalars[1:4] * f
    zz, zv, vv = weight * sums[:3]
    weight *= f
    yzz, yzv, yvv = weight * sums[3:]
    rest, s = 1.0 - zv, 1.0 + vv
    theta, qs = rest / s, q0 / s
    gamma = theta * rest - zz
    # Not 1 − γ: if p and q nearly vanish below coordinate 0, t has no digits in common with 1.
    t = zz + (zv * (2.0 - zv) + vv) / s
    alpha = delta - r2 * (1.0 - poles.floor) + q0 * qs
    beta = bz0 + q0 * theta
    cross = yzv + theta * yvv
    k11, k22 = 1.0 + qs * qs * yvv, yzz + theta * (yzv + cross)
    # There is no second direction if p and q vanish below coordinate 0: any large Ritz value replaces it. If it exists
    # but consists of cancelled terms, no step from here can be trusted; a gap of nan says so.
    exists = k22 > 0
    blurred = k22 < np.finfo(k22.dtype).eps ** 0.6 * (yzz + theta * theta * yvv)
    w = np.where(exists, 1.0 / np.sqrt(k11 * k22), 0.0)
    n22 = np.where(exists, t * gamma / k22, 10.0)
    rho, gap = _smaller((alpha - beta * beta) / k11, beta * t * w, n22, qs * cross * w)
    return rho, np.where(blurred, np.nan, gap)


def _smaller(n11: Real, n12: Real, n22: Real, k12: Real) -> tuple[Real, Real]:
    """Smaller eigenvalue of the pencil ([n11 n12; n12 n22], [1 k12; k12 1]) and the gap to the other."""
    # After a shift by the smaller diagonal entry the discriminant is a sum of squares: nothing cancels.
    low = np.minimum(n11, n22)
    off = n12 - low * k12
    det = np.maximum(1.0 - k12 * k12, 1e-30)
    half = np.abs(n11 - n22) - 2.0 * off * k12
    root = np.sqrt(half * half + 4.0 * det * (off * off))
    drop = np.where(half > 0, 2.0 * off * off / (half + root), (root - half) / (2.0 * det))
    return low - drop, root / det


def first_trial(poles: Poles, terms: Lumped, scalars: Real) -> tuple[Real, Real]:
    """A first δ from the Ritz value on span{e_0, p}, and the bound r² D_0 + ‖p‖²; (m,) each."""
    r2, b2, bk, k2, bz0, q0 = scalars
    zz, zv, vv, dzz, dzv, dvv = terms.moments(poles)
    pq = bk * zv + k2 * vv
    pp = np.maximum(b2 * zz + bk * zv + pq, np.finfo(r2.dtype).tiny)
    p0 = bz0 + q0
    first_diagonal = r2 + p0 * p0 - q0 * q0
    second_diagonal = (r2 * (b2 * dzz + 2.0 * bk * dzv + k2 * dvv) - pq * pq) / pp + pp
    off_diagonal = p0 - q0 * pq / pp
    half = 0.5 * (first_diagonal - second_diagonal)
    ritz = 0.5 * (first_diagonal + second_diagonal) + np.sqrt(half * half + off_diagonal * off_diagonal * pp)
    bound = r2 + pp + p0 * p0
    floor = r2 * poles.floor
    # Slightly above the Ritz value, which is below the root: close to a pole a step sees only that pole.
    above = np.maximum(0.95 * ritz + 0.05 * bound - floor, 0.02 * (bound - floor))
    return np.maximum(above, 1e-9 * bound), bound


def descend(
    poles: Poles, terms: PoleSums, scalars: Real, delta: Real, top: Real, tolerance: float, rounds: int
) -> npt.NDArray[np.intp]:
    """Ritz steps on δ (m,), in place and never above `top`, until the remaining error is below tolerance · μ.

    Returns the rows that did not get there.
    """
    active, current = np.arange(len(delta)), delta
    for _ in range(rounds):
        rho, gap = ritz_step(poles, terms, scalars, current)
        current, top, enough = advance(poles, scalars[0], current, top, rho, gap, tolerance)
        delta[active] = current
        left = np.flatnonzero(~enough)
        if not len(left):
            return left
        # Gathering rows costs about as much as a step on half of them.
        if len(left) < 0.6 * len(active) or len(active) < 100:
            active, terms, scalars = active[left], terms.take(left), scalars[:, left]
            current, top = current[left], top[left]
    return active


def advance(
    poles: Poles, r2: Real, here: Real, top: Real, rho: Real, gap: Real, tolerance: float
) -> tuple[Real, Real, Real]:
    """The next δ, the lowest known bound above the root, and whether that is enough; (m,) each."""
    floor, clear = poles.floor * r2, gap >= 0
    least = AT_FLOOR * floor
    ritz = here - rho
    top = np.where((rho > 0) & clear, np.minimum(top, here), top)
    new = np.where(ritz > 0, ritz, SLOWEST * here)
    # Close to a pole a step sees only that pole and creeps up: halve the bracket on the log scale instead.
    blind = (ritz > 1.5 * here) & (1e3 * here < floor)
    new = np.where(blind, np.sqrt(ritz * top), new)
    new = np.minimum(np.maximum(new, least), top)
    mu = floor + new
    # The error after a small step ρ is c ρ²/δ; c was below 1/2 in all measurements.
    enough = rho * rho <= mu * (tolerance * np.minimum(gap, new) + 1e-30 * mu)
    enough &= np.abs(rho) <= 0.1 * here
    enough |= (here <= 1.1 * least) & (rho >= 0) & clear
    return new, top, enough | (new < poles.near * poles.spread * r2)
