"""Ritz steps towards the largest eigenvalue of r² D + p pᵀ − q qᵀ, many rows at once; see docs/secular.md.

Coordinate 0 stands apart: the eigenvalue may lie below r² D_0, but never below the floor r² D_1. The unknown
is its height δ above the floor, so that δ + r² (D_1 − D_k) keeps every digit however close the poles are.
Arrays lie as (coordinate, row). What comes in float32 is computed in float32.
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
"""Numbers of Z that the sums over all poles work on at a time: with E and EZ they stay near the core."""

LUMPS, NEAREST = 14, 2e-3
"""So many poles stand for all of them to 9e-7, from this height above the floor (in spreads) upwards."""

AT_FLOOR = 1e-13
"""A root certified to be below this share of the floor is the floor."""

SLOWEST = 1e-3
"""A Ritz value below the floor says only that the root is near it: δ then shrinks by this factor."""


@dataclass(frozen=True)
class Poles:
    """What all rows share, in units where D_0 = 1 and ‖D^(-1/2) v‖ = 1."""

    floor: float  # D_1
    spread: float  # D_1 − D_{p−1}, or 1 if all poles coincide
    outer: Real  # (poles, 2) gaps D_1 − D_k in units of the spread, and ones
    v: Real  # (poles,)
    vv: Real  # (poles,) v²
    near: float  # below this height, in units of the spread, the poles do not stand for those they replace
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
            lumps, at = _zolotarev(LUMPS, NEAREST)
            share = np.linalg.solve(1.0 / np.add.outer(at, lumps), 1.0 / np.add.outer(at, gaps))
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

    def take(self, at: npt.NDArray[np.intp]) -> PoleSums:
        """Those of the rows at these places."""


class WithMoments(Protocol):
    """Terms that also give the sums a first trial starts from."""

    def moments(self, poles: Poles) -> tuple[Real, Real, Real, Real, Real, Real]:
        """Σ z², Σ zv, Σ v², then the same times D; (m,) each, those of v alike in all rows."""


@dataclass(frozen=True)
class Lumped:
    """Terms summed over the poles of each lump beforehand."""

    zz: Real  # (lumps, m)
    zv: Real  # (lumps, m)

    def sums(self, poles: Poles, e: Real) -> Real:
        """As in Terms."""
        out = np.empty((6, len(e)), e.dtype)
        E = _reciprocals(poles, e, np.empty_like(self.zz))
        for three in (out[:3], out[3:]):
            np.einsum("ij,ij->j", E, self.zz, out=three[0])
            np.einsum("ij,ij->j", E, self.zv, out=three[1])
            np.matmul(poles.vv, E, out=three[2])
            np.multiply(E, E, out=E)
        return out

    def moments(self, poles: Poles) -> tuple[Real, Real, Real, Real, Real, Real]:
        """As in WithMoments."""
        D = (poles.floor - poles.spread * poles.outer[:, 0]).astype(self.zz.dtype)
        both = np.stack((np.ones_like(D), D))
        (zz, dzz), (zv, dzv), (vv, dvv) = both @ self.zz, both @ self.zv, both @ poles.vv
        return zz, zv, vv, dzz, dzv, dvv

    def take(self, at: npt.NDArray[np.intp]) -> Lumped:
        """As in Terms."""
        return Lumped(np.take(self.zz, at, axis=1), np.take(self.zv, at, axis=1))


@dataclass(frozen=True)
class Whole:
    """Every pole on its own."""

    Z: Real  # (p − 1, m)

    def sums(self, poles: Poles, e: Real) -> Real:
        """As in Terms, a panel of rows at a time."""
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

    def take(self, at: npt.NDArray[np.intp]) -> Whole:
        """As in Terms."""
        return Whole(np.take(self.Z, at, axis=1))


def _reciprocals(poles: Poles, e: Real, out: Real) -> Real:
    line = np.ones((2, len(e)), e.dtype)
    line[1] = e
    # A product of rank two writes the outer sum three times faster than broadcasting, and rounds the same.
    np.matmul(poles.outer, line, out=out)
    np.divide(1.0, out, out=out)
    return out


def tilt(tau: Any, a: Real, r: Real, root: Real) -> Real:
    """φ = ± a ‖t‖ / √A, within [−1, 1], (m,): k = φ |r|; root is √A, tau ‖t‖."""
    return np.where(root > 0, np.where(r < 0, -a, a) * tau / root, 0.0)


def in_units(sigma: Any, r: Real, root: Real, norm: Real) -> tuple[Real, Real, Real]:
    """|r| √D_0 and b = √A, both in the unit m = max(|r| √D_0, √A ‖z‖), and m; (m,) each; sigma is √D_0."""
    R, length = np.abs(r) * sigma, root * norm
    unit = np.maximum(R, length)
    # A row of zeros (weight 0, say) is given r = 1 so that it converges; its unit 0 makes the result 0.
    return np.where(unit == 0, 1.0, R / unit), np.where(length > 0, root / unit, 0.0), unit


def six(r: Real, b: Real, phi: Real, z0: Real, v0: Any) -> tuple[Real, Real, Real, Real, Real, Real]:
    """What a row's steps need beside its pole sums: r², b², bk, k², b z_0, k v_0; (m,) each."""
    k = phi * r
    return r * r, b * b, b * k, k * k, b * z0, k * v0


def ceiling(poles: Poles, r2: Real, bound: Real) -> Real:
    """A height δ that the root does not exceed, (m,); a little above, for what float32 rounds away."""
    return np.maximum(1.00001 * bound - r2 * poles.floor, 1e-15 * bound)


def ritz_step(poles: Poles, terms: PoleSums, scalars: Real, delta: Real) -> tuple[Real, Real]:
    """How far the trial δ lies above the Ritz value, and the gap to the second Ritz value; (m,) each.

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
    # Not 1 − γ: where p and q all but vanish below coordinate 0, t has no digits in common with 1.
    t = zz + (zv * (2.0 - zv) + vv) / s
    alpha = delta - r2 * (1.0 - poles.floor) + q0 * qs
    beta = bz0 + q0 * theta
    cross = yzv + theta * yvv
    k11, k22 = 1.0 + qs * qs * yvv, yzz + theta * (yzv + cross)
    # No second direction where p and q vanish below coordinate 0: any large Ritz value stands for it. Where
    # it is there but made of cancelled terms, no step from here can be trusted, which a gap of nan says.
    there = k22 > 0
    blurred = k22 < np.finfo(k22.dtype).eps ** 0.6 * (yzz + theta * theta * yvv)
    w = np.where(there, 1.0 / np.sqrt(k11 * k22), 0.0)
    n22 = np.where(there, t * gamma / k22, 10.0)
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


def first_trial(poles: Poles, terms: WithMoments, scalars: Real) -> tuple[Real, Real]:
    """A first δ from the Ritz value on span{e_0, p}, and the bound r² D_0 + ‖p‖²; (m,) each."""
    r2, b2, bk, k2, bz0, q0 = scalars
    zz, zv, vv, dzz, dzv, dvv = terms.moments(poles)
    pq = bk * zv + k2 * vv
    pp = np.maximum(b2 * zz + bk * zv + pq, np.finfo(r2.dtype).tiny)
    p0 = bz0 + q0
    own = r2 + p0 * p0 - q0 * q0
    other = (r2 * (b2 * dzz + 2.0 * bk * dzv + k2 * dvv) - pq * pq) / pp + pp
    both = p0 - q0 * pq / pp
    half = 0.5 * (own - other)
    ritz = 0.5 * (own + other) + np.sqrt(half * half + both * both * pp)
    bound = r2 + pp + p0 * p0
    floor = r2 * poles.floor
    # A little above the Ritz value, which lies below the root: the poles blind a step taken close to them.
    above = np.maximum(0.95 * ritz + 0.05 * bound - floor, 0.02 * (bound - floor))
    return np.maximum(above, 1e-9 * bound), bound


def descend(
    poles: Poles, terms: PoleSums, scalars: Real, delta: Real, top: Real, tolerance: float, rounds: int
) -> npt.NDArray[np.intp]:
    """Ritz steps on δ (m,), in place and never above `top`, until the error left is below tolerance · μ.

    Returns the rows where it never was.
    """
    at, here = np.arange(len(delta)), delta
    for _ in range(rounds):
        rho, gap = ritz_step(poles, terms, scalars, here)
        here, top, enough = advance(poles, scalars[0], here, top, rho, gap, tolerance)
        delta[at] = here
        left = np.flatnonzero(~enough)
        if not len(left):
            return left
        # Gathering rows costs about as much as a step on half of them.
        if len(left) < 0.6 * len(at) or len(at) < 100:
            at, terms, scalars = at[left], terms.take(left), scalars[:, left]
            here, top = here[left], top[left]
    return at


def advance(
    poles: Poles, r2: Real, here: Real, top: Real, rho: Real, gap: Real, tolerance: float
) -> tuple[Real, Real, Real]:
    """The next δ, the lowest bound known above the root, and whether that is enough; (m,) each."""
    floor, clear = poles.floor * r2, gap >= 0
    least = AT_FLOOR * floor
    ritz = here - rho
    top = np.where((rho > 0) & clear, np.minimum(top, here), top)
    new = np.where(ritz > 0, ritz, SLOWEST * here)
    # Close to a pole a step sees nothing else and creeps up: halve the bracket on the log scale instead.
    blind = (ritz > 1.5 * here) & (1e3 * here < floor)
    new = np.where(blind, np.sqrt(ritz * top), new)
    new = np.minimum(np.maximum(new, least), top)
    mu = floor + new
    # The error after a small step ρ is c ρ²/δ; c was below 1/2 wherever it was measured.
    enough = rho * rho <= mu * (tolerance * np.minimum(gap, new) + 1e-30 * mu)
    enough &= np.abs(rho) <= 0.1 * here
    enough |= (here <= 1.1 * least) & (rho >= 0) & clear
    return new, top, enough | (new < poles.near * poles.spread * r2)
