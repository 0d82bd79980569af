"""Components against scikit-learn, and the attack for every number of components against one product."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.decomposition import PCA

from dosimeter import pca
from harness.registry import Ratio, Settings, row
from harness.timing import least
from pca import mnist


@row("pca", "Components against scikit-learn, the attack against one product", needs=("mnist",))
def against_sklearn(settings: Settings) -> Iterator[Ratio]:
    """MNIST, standardised; half of the rows are members."""
    X = mnist(settings.data)
    X = np.ascontiguousarray(X[:: 7 if settings.quick else 1])
    half, runs = len(X) // 2, min(settings.runs, 3)
    released = pca.components_of(X[:half])
    ours, peer, attack, product = least(
        runs,
        lambda: pca.components_of(X),
        lambda: PCA(svd_solver="covariance_eigh").fit(X),
        lambda: pca.auc_by_components(released, X[:half], X[half:], workers=1),
        lambda: X @ released.vectors,
    )
    size = f"MNIST {len(X):,} x {X.shape[1]}"
    yield Ratio(f"components, {size}", ours, peer, 'PCA(svd_solver="covariance_eigh")', 1.2)
    yield Ratio(f"attack for every k, {size}", attack, product, "X @ V", 4.0)
