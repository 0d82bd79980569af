"""Utility: the variance that noisy components explain, q of section 5.3 of [Zari22], and its controls.

"Explained variance" is about the second moment here ("captured energy" in the paper). q alone misleads: if 90 % of the
variance needs 12 of 14 directions, 12 random ones explain nearly as much. So q comes with two controls, a random
subspace and the components of the noise without data. Every figure is computed from the exact second moment and is
internal.
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
    """Explained variance of k components with its controls. Internal; the noise control is an estimate."""

    k: int
    explained: float
    """q."""
    random: float
    """Expected q of a uniformly random k-dimensional subspace, exactly."""
    noise: float
    """Mean q of the components of the noise alone."""
    noise_error: float
    """Standard error of `noise`."""
    standing: Standing = Standing.EXACT

    @property
    def gain(self) -> float:
        """(q - random)/(1 - random): 0 for a random subspace, 1 for the best one; 0 if k = d leaves no room."""
        room = 1 - self.random
        return (self.explained - self.random) / room if room > 1e-12 else 0.0


def rank_for_variance(values: ArrayLike, share: float = 0.9) -> int:
    """The smallest k whose eigenvalues hold this share of their sum.

    Parameters
    ----------
    values : array_like of shape (d,)
        Eigenvalues of a second moment, falling; negative ones count as 0.
    share : float, default 0.9
        Share of the sum, as in section 5.3 of [Zari22].

    Returns
    -------
    int
        k.

    Raises
    ------
    Refusal
        If share is not in (0, 1], or no eigenvalue is above 0.

    Examples
    --------
    >>> rank_for_variance([6.0, 3.0, 1.0]), rank_for_variance([6.0, 3.0, 1.0], 0.95)
    (2, 3)
    """
    falling = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    if not 0 < share <= 1:
        raise Refusal(f"the share of explained variance must be above 0 and at most 1, not {share}")
    if falling.ndim != 1 or not falling.sum() > 0:
        raise Refusal("no variance to explain: no eigenvalue is above 0")
    held = np.cumsum(falling)
    # A share that is met up to rounding counts as met: 0.9 of (0.6, 0.3, 0.1) is two of them.
    return int(np.searchsorted(held, share * held[-1] * (1 - 1e-12)) + 1)


def explained_variance(A: ArrayLike, vectors: ArrayLike, k: int) -> float:
    """Explained variance q of k directions, relative to the k best directions of A.

    Parameters
    ----------
    A : array_like of shape (d, d)
        The exact second moment.
    vectors : array_like of shape (d, >= k)
        Orthonormal columns; the first k are used.
    k : int
        Number of directions.

    Returns
    -------
    float
        q, from 0 to 1. Internal: it uses the exact A.

    Raises
    ------
    Refusal
        If k is out of range, or A is zero.

    Notes
    -----
    q = tr(V̂ᵀ A V̂) / tr(Vᵀ A V), the captured energy of section 5.3 of [Zari22].

    Examples
    --------
    >>> explained_variance(np.diag([3.0, 1.0]), [[0.0, 1.0], [1.0, 0.0]], 1)
    0.3333333333333333
    """
    M, V = np.asarray(A, dtype=np.float64), np.asarray(vectors, dtype=np.float64)[:, :k]
    if not 1 <= k <= V.shape[1]:
        raise Refusal(f"k must be from 1 to {V.shape[1]}, the number of components, not {k}")
    return float(np.einsum("dk,dk->", V, M @ V)) / _best(M, k)


def random_subspace(A: ArrayLike, k: int) -> float:
    """Expected explained variance q of a uniformly random k-dimensional subspace.

    Parameters
    ----------
    A : array_like of shape (d, d)
        The exact second moment.
    k : int
        Dimension of the subspace.

    Returns
    -------
    float
        Internal: it uses the exact A.

    Raises
    ------
    Refusal
        If A is zero.

    Notes
    -----
    E[V̂V̂ᵀ] = (k/d) I, so it is (k/d) tr A / Σ_{i<=k} λ_i.

    Examples
    --------
    >>> random_subspace(np.diag([3.0, 1.0]), 1)
    0.6666666666666666
    """
    M = np.asarray(A, dtype=np.float64)
    return float(k / len(M) * np.trace(M) / _best(M, k))


def noise_alone(
    A: ArrayLike, private_pca: PrivateComponents, k: int, rng: np.random.Generator, draws: int = 100
) -> tuple[float, float]:
    """Mean q of the components of the mechanism's noise without data, and its standard error. A simulation."""
    if draws < 2:
        raise Refusal(f"at least two draws are needed, not {draws}")
    lower = np.tril_indices(private_pca.box.d)
    q = np.empty(draws)
    for i in range(draws):
        N = np.zeros_like(private_pca.scales)
        N[lower] = private_pca.mechanism.law(1.0).draw(rng, len(lower[0])) * private_pca.scales[lower]  # type: ignore[call-arg]
        q[i] = explained_variance(A, components(N + np.tril(N, -1).T).vectors, k)
    return float(q.mean()), float(q.std(ddof=1) / np.sqrt(draws))


def utility(
    A: ArrayLike, private_pca: PrivateComponents, rng: np.random.Generator, *, share: float = 0.9, draws: int = 100
) -> Utility:
    """Explained variance of a release at the k that holds `share` of the exact variance, with both controls.

    Parameters
    ----------
    A : array_like of shape (d, d)
        The exact second moment about the release's centre.
    private_pca : PrivateComponents
        The release.
    rng : numpy.random.Generator
        Draws the noise control. A simulation.
    share : float, default 0.9
        Share of the variance that sets k, as in section 5.3 of [Zari22].
    draws : int, default 100
        Noise draws for the control.

    Returns
    -------
    Utility
        Internal: it uses the exact A.

    Raises
    ------
    Refusal
        If A is zero, share is out of range, or draws is below 2.

    Examples
    --------
    >>> from dosimeter.pca.bounds import Bounds
    >>> from dosimeter.pca.components import second_moment
    >>> from dosimeter.pca.mechanisms import AnalyticGaussian
    >>> from dosimeter.pca.release import release
    >>> X, rng = np.array([[0.5, 0.1], [0.4, 0.0]]), np.random.default_rng(0)
    >>> private_pca = release(X, AnalyticGaussian(1e5, 1e-5), bounds=Bounds(-1.0, 1.0), rng=rng)
    >>> round(utility(second_moment(X), private_pca, rng).explained, 2)
    1.0
    """
    M = np.asarray(A, dtype=np.float64)
    k = rank_for_variance(components(M).values, share)
    mean, error = noise_alone(M, private_pca, k, rng, draws)
    return Utility(k, explained_variance(M, private_pca.components.vectors, k), random_subspace(M, k), mean, error)


def _best(A: FloatArray, k: int) -> float:
    total = float(np.linalg.eigvalsh(A)[::-1][:k].sum())
    if not total > 0:
        raise Refusal("the second moment is zero: there is no variance to explain")
    return total
