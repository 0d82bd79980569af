"""Norms of single rows through a fitted scaler, from the frozen ones: correction steps, then a certificate.

With the singular vectors of b = Q R Tᵀ as bases, a row's frozen Jacobian is a diagonal and a part of rank one,

    J = -z hᵀ - r R,     h = (a Tᵀg, -c),  z = Qᵀu,

so JᵀJ = r²R² + |z|² hhᵀ + hwᵀ + whᵀ with w = r R z, and (JᵀJ - θ)⁻¹ costs O(p). The scaler adds a small E to J and a
diagonal floor Φ to the square. Starting from the frozen eigenvector, each step solves the frozen problem for the
residual and takes the best vector of the space (Davidson), which gains several digits a step. A value is accepted if it
is certified: θ with residual ρ is within ρ²/(θ - τ) of the largest eigenvalue if all others are at most τ < θ - ρ. They
are if the frozen matrix has one eigenvalue above (√(τ - |Φ|) - |E|)² (Weyl), which follows from the inertia of a 2 x 2
matrix. In a long table the scaler changes so little that the first correction also gives the value to second order,
with a certificate of its own, and no further product is needed. Rows without a certificate are left to the caller.
Derivation: docs/explanation/scaler.md, 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.linalg.secular import largest_eigenvalues
from dosimeter.glm.scalers.scaler_floor import SeparateColumns

STEPS = 4
"""Correction steps; two are usual."""
EXACT = 1e-13
"""Relative error of a square that a certificate allows."""
CANCELLED = 1e-3
"""A square below this share of its terms is computed from the Jacobian."""
NEAR_POLE, DOUBTFUL = 1e-8, 1e-6
"""Distance to a pole, and a determinant, below which the inertia is not trusted."""
SMALL = 1e-7
"""Relative size up to which a second-order term is used: the digits of a correction suffice for EXACT."""
NUMBERS = 120_000
"""Numbers of a block of rows: it and its temporaries stay in the caches."""


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """What all rows share, in the bases of the frozen Jacobian."""

    base: ScalarJacobian
    include_target: bool
    Z: FloatArray
    """(n, t) standardised values of the touched unknowns."""
    rotated: FloatArray
    """(p, p) Fᵀ Q: rows x̃A times this are z."""
    root: FloatArray
    """(m,) singular values of b."""
    g: FloatArray
    """(m,) Tᵀg."""
    places: FloatArray
    """(m, t) T at the touched unknowns."""
    moved: FloatArray
    """(t, p) what one z adds to the mean, rotated."""
    shifted: FloatArray
    """(t, p) what an unknown adds whatever its z."""
    floors: tuple[FloatArray, FloatArray]
    """(t,) the floor of an unknown is floors[0] z² + floors[1]."""

    @classmethod
    def of(
        cls,
        base: ScalarJacobian,
        separate: SeparateColumns,
        Z: FloatArray,
        moves: tuple[FloatArray, FloatArray],
        columns: Index,
        include_target: bool,
    ) -> ScaledRows:
        """Z (n, k) and moves (q, k), (q, k) of the scaler's features; at most as many columns as weights."""
        chosen, places = separate.among(columns)
        features, reach = separate.features[chosen], separate.reach[chosen]
        Q, root, turn = np.linalg.svd(base.b[:, columns])
        moved, shifted = (np.ascontiguousarray((reach * move[:, features]).T @ Q) for move in moves)
        return cls(
            base,
            include_target,
            Z if np.array_equal(features, np.arange(Z.shape[1])) else np.ascontiguousarray(Z[:, features]),
            base.F.T @ Q,
            root,
            turn @ base.g[columns],
            np.ascontiguousarray(turn[:, places]),
            moved,
            shifted,
            (separate.by_scale[chosen], separate.by_mean[chosen]),
        )

    def norms(self, rows: Index) -> tuple[FloatArray, Mask]:
        """(k,) norms of some rows, and which of them are certified."""
        out, certified = np.empty(len(rows)), np.empty(len(rows), dtype=bool)
        step = max(1, NUMBERS // len(self.rotated))
        for i in range(0, len(rows), step):
            block = _Block(self, rows[i : i + step])
            with np.errstate(all="ignore"):  # a nan is a row without a certificate
                squares, certified[i : i + step] = block.solve()
            out[i : i + step] = np.sqrt(np.maximum(squares, 0.0))
        return out, certified


class _Block:
    """Some rows: vectors of unknowns are (k, m + 1), the target last; of weights (k, p)."""

    def __init__(self, shared: ScaledRows, rows: Index, z: FloatArray | None = None) -> None:
        base = shared.base
        self.shared, self.rows, self.m = shared, rows, len(shared.root)
        self.z = base.factor.rows(base.X[rows], shared.rotated) if z is None else z
        self.a, self.r = base.a[rows], base.r[rows]
        self.c = base.c[rows] if shared.include_target else np.zeros(len(rows))
        self.zeta = shared.Z[rows]
        self.floor = self.zeta**2 * shared.floors[0] + shared.floors[1]
        self.size = _dots(self.z, self.z)
        self.roots = self.r[:, None] * shared.root
        self.poles = np.zeros((len(rows), self.m + 1))
        np.square(self.roots, out=self.poles[:, : self.m])
        self.h = np.column_stack([self.a[:, None] * shared.g, -self.c])
        self.w = np.zeros_like(self.h)
        np.multiply(self.roots, self.z[:, : self.m], out=self.w[:, : self.m])

    def among(self, some: Mask) -> _Block:
        """Some of the rows."""
        return _Block(self.shared, self.rows[some], self.z[some])

    def gram(self, x: FloatArray) -> FloatArray:
        """(JᵀJ + Φ) x."""
        shared, m = self.shared, self.m
        touched = x[:, :m] @ shared.places
        y = -_dots(self.h, x)[:, None] * self.z
        y[:, :m] -= self.roots * x[:, :m]
        y += (self.zeta * touched) @ shared.moved
        if shared.shifted.any():
            y += touched @ shared.shifted
        out = -_dots(self.z, y)[:, None] * self.h
        out[:, :m] -= self.roots * y[:, :m]
        back = self.zeta * (y @ shared.moved.T) + self.floor * touched
        if shared.shifted.any():
            back += y @ shared.shifted.T
        out[:, :m] += back @ shared.places.T
        return out

    def sums(self, E: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Σ E h², Σ E hw, Σ E w²."""
        Eh, Ew = E * self.h, E * self.w
        return _dots(Eh, self.h), _dots(Eh, self.w), _dots(Ew, self.w)

    def frozen(self) -> tuple[FloatArray, FloatArray]:
        """The largest eigenvalue of the frozen JᵀJ, and its vector of length one."""
        shared, p = self.shared, self.z.shape[1]
        D, v = np.zeros(p), np.zeros(p)
        D[: self.m], v[: self.m] = shared.root**2, shared.root * shared.g
        A = self.a**2 * (shared.g @ shared.g) + self.c**2
        rest = self.c**2 if shared.root[-1] > 0 else None
        value = largest_eigenvalues(D, self.z, v, self.a, self.r, A, rest)
        E = _inverse(value[:, None] - self.poles, 1e-14 * value[:, None])
        hh, hw, _ = self.sums(E)
        return value, _unit(E * ((1.0 - hw)[:, None] * self.h + hh[:, None] * self.w))

    def correction(self, theta: FloatArray, x: FloatArray, residual: FloatArray) -> FloatArray:
        """The frozen problem solved for the residual, orthogonal to x (Olsen)."""
        E = _inverse(self.poles - theta[:, None], 1e-14 * theta[:, None])
        hh, hw, ww = self.sums(E)
        # (C⁻¹ + UᵀEU)⁻¹ of U = [h, w] and C = [[|z|², 1], [1, 0]].
        p, q, s = hh, 1.0 + hw, ww - self.size
        det = p * s - q * q

        def solve(v: FloatArray) -> FloatArray:
            Ev = E * v
            hv, wv = _dots(self.h, Ev), _dots(self.w, Ev)
            first, second = (s * hv - q * wv) / det, (p * wv - q * hv) / det
            return np.asarray(Ev - E * (first[:, None] * self.h + second[:, None] * self.w))

        inverse_residual, inverse_x = solve(residual), solve(x)
        share = _dots(x, inverse_residual) / _dots(x, inverse_x)
        return inverse_residual - share[:, None] * inverse_x

    def solve(self) -> tuple[FloatArray, Mask]:
        """The largest eigenvalue of each row, and whether it is certified."""
        values, x = self.frozen()
        certified, pending = np.zeros(len(values), dtype=bool), np.arange(len(values))
        block, space, images = self, [x], [self.gram(x)]
        for step in range(STEPS):
            theta, x, residual = _best(space, images)
            rho = np.sqrt(_dots(residual, residual))
            accepted = block.certified(theta, rho)
            if accepted.all() or step == STEPS - 1:
                values[pending[accepted]], certified[pending[accepted]] = theta[accepted], True
                break
            change = block.correction(theta, x, residual)
            if step == 0:
                gain = -_dots(residual, change)
                sure = block.certified_with(gain, values, theta, rho, np.sqrt(_dots(change, change)))
                theta, accepted = np.where(accepted, theta, theta + gain), accepted | sure
            values[pending[accepted]], certified[pending[accepted]] = theta[accepted], True
            if accepted.all():
                break
            if accepted.any():
                rest = ~accepted
                pending, block, change = pending[rest], block.among(rest), change[rest]
                space, images = [v[rest] for v in space], [v[rest] for v in images]
            space.append(_orthogonal(change, space))
            images.append(block.gram(space[-1]))
        terms = self.poles[:, 0] + _dots(self.h, self.h) * self.size
        return values, certified & (values > CANCELLED * terms)

    def certified(self, theta: FloatArray, rho: FloatArray) -> Mask:
        """Whether theta is within EXACT of the largest eigenvalue."""
        gap = np.maximum(np.maximum(rho**2 / (EXACT * theta), 2.0 * rho), DOUBTFUL * theta)
        other = np.sqrt(np.maximum(theta - gap - self.most_floor, 0.0)) - self.added
        return np.asarray((other > 0) & self.one_above(other * other)) if (other > 0).any() else other > 0

    def certified_with(
        self, gain: FloatArray, frozen: FloatArray, theta: FloatArray, rho: FloatArray, change: FloatArray
    ) -> Mask:
        """Whether theta + gain is within EXACT of the largest eigenvalue, gain of second order.

        frozen: the largest eigenvalue of the frozen matrix; change: the length of the correction.
        """
        # What the scaler adds to JᵀJ has at most this norm; it is also at most what the start lost of `frozen`.
        apart = (2.0 * np.sqrt(frozen) + self.added) * self.added + self.most_floor
        gap = np.maximum(rho * change * (apart + rho) / (EXACT * theta), np.maximum(2.0 * rho, DOUBTFUL * theta))
        other = np.sqrt(np.maximum(theta - gap - self.most_floor, 0.0)) - self.added
        least = other * other - np.abs(frozen - theta) - apart
        possible = (other > 0) & (least > 0) & (np.abs(gain) <= SMALL * theta)
        return np.asarray(possible & self.one_above(least)) if possible.any() else possible

    @cached_property
    def most_floor(self) -> FloatArray:
        """(k,) the norm of the floor."""
        return np.asarray(self.floor.max(axis=1, initial=0.0))

    @cached_property
    def added(self) -> FloatArray:
        """(k,) at least the norm of what the scaler adds to the mean."""
        moved, shifted = self.shared.moved, self.shared.shifted
        mm, ms, ss = (np.einsum("tp,tp->t", u, v) for u, v in ((moved, moved), (moved, shifted), (shifted, shifted)))
        squares = self.zeta**2 @ mm + 2.0 * self.zeta @ ms + ss.sum()
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)) * (1 + 1e-12))

    def one_above(self, s: FloatArray) -> Mask:
        """Whether one eigenvalue of the frozen JᵀJ is above s (k,): by the inertia of what is left of U = [h, w]."""
        distance = s[:, None] - self.poles
        hh, hw, ww = self.sums(1.0 / distance)
        corner, side = ww + self.size, hw - 1.0
        det, terms = hh * corner - side * side, np.abs(hh * corner) + side * side
        positive = np.where(det < 0, 1, np.where(hh + corner > 0, 2, 0))
        sure = (np.abs(distance).min(axis=1) > NEAR_POLE * s) & (np.abs(det) > DOUBTFUL * terms)
        return np.asarray(sure & ((distance < 0).sum(axis=1) + positive == 2))


def _dots(u: FloatArray, v: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("kp,kp->k", u, v))


def _unit(v: FloatArray) -> FloatArray:
    """Rows of length one; zero rows stay."""
    return np.asarray(v / np.sqrt(np.maximum(_dots(v, v), 1e-300))[:, None])


def _inverse(values: FloatArray, least: Any) -> FloatArray:
    """1 / values, with values nearer to zero than `least` moved there: a direction, not a figure."""
    near = np.abs(values) < least
    return np.asarray(1.0 / (np.where(near, np.where(values < 0, -least, least), values) if near.any() else values))


def _orthogonal(v: FloatArray, space: list[FloatArray]) -> FloatArray:
    """v of length one, orthogonal to the space; twice, so that it is to rounding."""
    for _ in range(2):
        v = _unit(v)
        for other in space:
            v = v - _dots(other, v)[:, None] * other
    return _unit(v)


def _largest_vector(small: FloatArray) -> FloatArray:
    """(k, s) the eigenvector of the largest eigenvalue of small symmetric matrices (k, s, s)."""
    if small.shape[1] == 2:
        angle = 0.5 * np.arctan2(small[:, 0, 1] + small[:, 1, 0], small[:, 0, 0] - small[:, 1, 1])
        return np.column_stack([np.cos(angle), np.sin(angle)])
    small = np.nan_to_num(0.5 * (small + small.transpose(0, 2, 1)), posinf=0.0, neginf=0.0)
    return np.asarray(np.linalg.eigh(small)[1][:, :, -1])


def _best(space: list[FloatArray], images: list[FloatArray]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The largest Ritz value of the space, its vector of length one, and its residual."""
    if len(space) == 1:
        x, image = space[0], images[0]
    else:
        small = np.empty((len(space[0]), len(space), len(space)))
        for i, v in enumerate(space):
            for j, w in enumerate(images):
                small[:, i, j] = _dots(v, w)
        weights = _largest_vector(small)
        x, image = np.zeros_like(space[0]), np.zeros_like(space[0])
        for k, (v, w) in enumerate(zip(space, images, strict=True)):
            x += weights[:, k, None] * v
            image += weights[:, k, None] * w
    theta = _dots(x, image)
    return theta, x, image - theta[:, None] * x
