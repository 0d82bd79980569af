"""The two levels of a category that are farthest apart, among K images: all pairs of few, a search among many.

Among many levels most pairs cannot be the farthest. |y_a - y_b|² = |y_a|² + |y_b|² - 2 y_a·y_b is bounded for all b at
once, by |y_a| + |y_b| and by the least that y_a·y_b can be; levels whose bound is below the distance of a pair that is
already known are left out, and the rest is compared pair by pair. The result is exact.
"""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray, Index

BLOCK = 16 << 20
"""Bytes of Gram matrices at a time."""

FEW = 256
"""Up to this many levels all pairs are compared."""

SEEDS = 8
"""The longest images, whose distances are the first bound."""

SLACK = 1e-9
"""Levels this close, relatively, to the bound stay: rounding never drops one."""


def largest_distances(points: FloatArray) -> FloatArray:
    """(g,) the largest distance between two of the K points (g, q, K), which are centred at zero."""
    g, _, K = points.shape
    if K > FEW:
        return np.array([_among_many(Y) for Y in points])
    out, groups_per_block = np.empty(g), max(1, BLOCK // (8 * K**2))
    for i in range(0, g, groups_per_block):
        Y = points[i : i + groups_per_block]
        G = Y.transpose(0, 2, 1) @ Y
        squared_lengths = np.einsum("gkk->gk", G)
        squares = squared_lengths[:, :, None] + squared_lengths[:, None, :] - 2 * G
        out[i : i + groups_per_block] = np.sqrt(np.maximum(squares.max(axis=(1, 2)), 0.0))
    return out


def _among_many(Y: FloatArray) -> float:
    """Of one set of points (q, K): |y_a - y_b| <= |y_a| + |y_b|, from the longest and the farthest from them."""
    length = np.sqrt(np.einsum("qk,qk->k", Y, Y))
    start, best = int(np.argmax(length)), 0.0
    for _ in range(4):
        away = Y - Y[:, [start]]
        squares = np.einsum("qk,qk->k", away, away)
        start = int(np.argmax(squares))
        best = max(best, float(np.sqrt(squares[start])))
    rest = np.flatnonzero(length + length.max() >= best * (1.0 - SLACK))
    rest = rest[np.argsort(-length[rest])]
    step = max(1, BLOCK // (8 * len(rest)))
    for i in range(0, len(rest), step):
        mine = rest[i : i + step]
        others = rest[i:][length[rest[i:]] + length[mine[0]] >= best * (1.0 - SLACK)]
        if not len(others):
            break
        products = Y[:, mine].T @ Y[:, others]
        squares = length[mine, None] ** 2 + length[others] ** 2 - 2.0 * products
        best = max(best, float(np.sqrt(max(0.0, float(squares.max())))))
    return best


class FactoredLevels:
    """Images y_k = s γ_k u + r β_k of K levels, with β (q, K) and γ (K,) the same on every row, centred.

    Rows differ in the vector u and the numbers s and r alone, so a row costs O(q K) for βᵀu and the pairs that remain.
    """

    def __init__(self, gamma: FloatArray, beta: FloatArray) -> None:
        self.gamma, self.beta = gamma, beta
        self.G = beta.T @ beta
        self.lengths = np.diag(self.G).copy()
        np.fill_diagonal(self.G, np.inf)
        self.against = -self.G.min(axis=1)  # the most that -β_a·β_b can be, for each level
        np.fill_diagonal(self.G, self.lengths)
        self.reach = float(np.abs(gamma).max())

    def largest_squares(
        self, tau: FloatArray, size: FloatArray, s: FloatArray, r: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) the largest |y_a - y_b|², and the largest sum of the terms in it that are not negative.

        tau (n, K) = u·β, size (n,) = |u|², s and r (n,).
        """
        best, terms = np.empty(len(tau)), np.empty(len(tau))
        for i in range(len(tau)):
            best[i], terms[i] = self._of_row(tau[i], float(size[i]), float(s[i]), float(r[i]))
        return best, terms

    def _of_row(self, tau: FloatArray, size: float, s: float, r: float) -> tuple[float, float]:
        gamma = self.gamma
        squares = s * s * size * gamma**2 + 2.0 * s * r * gamma * tau + r * r * self.lengths
        # y_a·y_b = γ_b (s²|u|²γ_a + s r τ_a) + τ_b s r γ_a + r² β_a·β_b: its least over b, for each a.
        side = s * s * size * gamma + s * r * tau
        least = np.abs(side) * self.reach + np.abs(s * r * gamma) * float(np.abs(tau).max()) + r * r * self.against
        length = np.sqrt(np.maximum(squares, 0.0))
        # The first bound is close for levels at right angles, the second for levels on a line.
        bound = np.minimum(squares + squares.max() + 2.0 * least, (length + length.max()) ** 2)
        seeds = np.argpartition(-squares, SEEDS)[:SEEDS]
        extremes = np.array([int(np.argmin(gamma)), int(np.argmax(gamma)), *seeds.tolist()], dtype=np.intp)
        best, terms = self._pairs(extremes, extremes, tau, size, s, r)
        rest = np.flatnonzero(bound >= best - SLACK * abs(best))
        rest = rest[np.argsort(-bound[rest])]
        # The most promising first: what they reach leaves few of the others to compare.
        first, step = 0, SEEDS
        while first < len(rest):
            part = self._pairs(rest[first : first + step], rest[first:], tau, size, s, r)
            best, terms = max(best, part[0]), max(terms, part[1])
            rest = rest[: int(np.searchsorted(-bound[rest], -best * (1.0 - SLACK), side="right"))]
            first, step = first + step, min(2 * step, max(1, BLOCK // (8 * max(1, len(rest)))))
        return best, terms

    def _pairs(self, a: Index, b: Index, tau: FloatArray, size: float, s: float, r: float) -> tuple[float, float]:
        slope = self.gamma[a][:, None] - self.gamma[b]
        positive = s * s * size * slope**2
        positive += r * r * (self.lengths[a][:, None] + self.lengths[b] - 2.0 * self.G[np.ix_(a, b)])
        squares = positive + 2.0 * s * r * slope * (tau[a][:, None] - tau[b])
        return float(squares.max()), float(positive.max())
