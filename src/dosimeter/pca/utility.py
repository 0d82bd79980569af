"""Utility: the energy that noisy components capture, q of section 5.3 of [Zari22], and what no components at all would.

q alone misleads: where 90 % of the energy needs 12 of 14 directions, 12 random ones capture nearly as much. It is
therefore shown with two controls, a random subspace and the components of the noise without any data.
Every figure here is computed from the exact second moment and is internal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing
from dosimeter.pca.components import components
from dosimeter.pca.release import PrivateComponents


@dataclass(frozen=True)
class Utility:
    """Captured energy at k components against its controls. Internal; the noise control is an estimate."""

    k: int
    captured: float
    """q."""
    random: float
    """Expected q of a uniformly random k-dimensional subspace, exactly."""
    noise: float
    """Mean q of the components of the noise alone."""
    noise_error: float
    """Its standard error."""
    standing: Standing = Standing.EXACT

    @property
    def gain(self) -> float:
        """(q - random)/(1 - random): 0 for a random subspace, 1 for the best one; 0 where k = d leaves no room."""
        room = 1 - self.random
        return (self.captured - self.random) / room if room > 1e-12 else 0.0


def rank_for_variance(values: ArrayLike, share: float = 0.9) -> int:
    """Least k whose eigenvalues hold this share of their sum; values (d,) falling.

    >>> rank_for_variance([6.0, 3.0, 1.0]), rank_for_variance([6.0, 3.0, 1.0], 0.95)
    (2, 3)
    """
    falling = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    if not 0 < share <= 1:
        raise Refusal(f"the share of energy must be above 0 and at most 1, not {share}")
    if falling.ndim != 1 or not falling.sum() > 0:
        raise Refusal("no energy: no eigenvalue is above 0")
    held = np.cumsum(falling)
    # A share that is met up to rounding is met: 0.9 of (0.6, 0.3, 0.1) is two of them.
    return int(np.searchsorted(held, share * held[-1] * (1 - 1e-12)) + 1)


def explained_variance(A: ArrayLike, vectors: ArrayLike, k: int) -> float:
    """q = tr(V̂ᵀ A V̂) / tr(Vᵀ A V): k columns of `vectors` (d, >= k) against the k best directions of A (d, d).

    >>> explained_variance(np.diag([3.0, 1.0]), [[0.0, 1.0], [1.0, 0.0]], 1)
    0.3333333333333333
    """
    M, V = np.asarray(A, dtype=np.float64), np.asarray(vectors, dtype=np.float64)[:, :k]
    if not 1 <= k <= V.shape[1]:
        raise Refusal(f"k must be from 1 to the {V.shape[1]} components there are, not {k}")
    return float(np.einsum("dk,dk->", V, M @ V)) / _best(M, k)


def random_subspace(A: ArrayLike, k: int) -> float:
    """Expected q of a uniformly random k-dimensional subspace: E[V̂V̂ᵀ] = (k/d) I, so (k/d) tr A / Σ_{i<=k} λ_i.

    >>> random_subspace(np.diag([3.0, 1.0]), 1)
    0.6666666666666666
    """
    M = np.asarray(A, dtype=np.float64)
    return float(k / len(M) * np.trace(M) / _best(M, k))


def noise_alone(
    A: ArrayLike, made: PrivateComponents, k: int, rng: np.random.Generator, draws: int = 100
) -> tuple[float, float]:
    """Mean q of the components of the mechanism's noise without data, and its standard error. A simulation."""
    if draws < 2:
        raise Refusal(f"at least two draws are needed, not {draws}")
    lower = np.tril_indices(made.box.d)
    q = np.empty(draws)
    for i in range(draws):
        N = np.zeros_like(made.scales)
        N[lower] = made.mechanism.law(1.0).draw(rng, len(lower[0])) * made.scales[lower]  # type: ignore[call-arg]
        q[i] = explained_variance(A, components(N + np.tril(N, -1).T).vectors, k)
    return float(q.mean()), float(q.std(ddof=1) / np.sqrt(draws))


def utility(
    A: ArrayLike, made: PrivateComponents, rng: np.random.Generator, *, share: float = 0.9, draws: int = 100
) -> Utility:
    """q of a release at the k that holds `share` of the energy of the exact A (d, d), with both controls."""
    M = np.asarray(A, dtype=np.float64)
    k = rank_for_variance(components(M).values, share)
    mean, error = noise_alone(M, made, k, rng, draws)
    return Utility(k, explained_variance(M, made.components.vectors, k), random_subspace(M, k), mean, error)


def _best(A: FloatArray, k: int) -> float:
    total = float(np.linalg.eigvalsh(A)[::-1][:k].sum())
    if not total > 0:
        raise Refusal("the second moment is zero: there is no energy to capture")
    return total
