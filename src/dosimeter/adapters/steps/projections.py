"""Projections: fixed matrices on the columns, fitted (PCA and its kin) or random."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.adapters.steps.chain_rule import linear
from dosimeter.adapters.steps.feature import Features
from dosimeter.adapters.steps.registry import Route, step
from dosimeter.adapters.steps.run import Run, require_fitted
from dosimeter.core.arrays import FloatArray


def _project(
    transformer: Any, features: Features, matrix: Any, mean: Any, run: Run, *statistics: str, name: str
) -> Features:
    """matrix · (x - mean)."""
    M = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)
    centre = np.zeros(len(features)) if mean is None else np.asarray(mean, dtype=np.float64)
    names = [f"{name} {k}" for k in range(len(M))]
    return linear(features, M, -(M @ centre), names, run, *statistics)


@step("PCA", "IncrementalPCA", route=Route.AFFINE, remark="mean and components are held fixed, whiten=True too")
def read_pca(pca: Any, features: Features, run: Run) -> Features:
    components: FloatArray = np.asarray(require_fitted(pca, "components_", len(features)), dtype=np.float64)
    if pca.whiten:
        scale = np.sqrt(np.asarray(pca.explained_variance_, dtype=np.float64))
        components = components / np.maximum(scale, np.finfo(scale.dtype).eps)[:, None]
    return _project(pca, features, components, pca.mean_, run, "means and components", name="component")


@step("TruncatedSVD", route=Route.AFFINE, remark="components are held fixed")
def read_svd(svd: Any, features: Features, run: Run) -> Features:
    components = require_fitted(svd, "components_", len(features))
    return _project(svd, features, components, None, run, "components", name="component")


@step("FastICA", route=Route.AFFINE, remark="mean and components are held fixed")
def read_ica(ica: Any, features: Features, run: Run) -> Features:
    components = require_fitted(ica, "components_", len(features))
    return _project(ica, features, components, getattr(ica, "mean_", None), run, "means and components", name="source")


@step("FactorAnalysis", route=Route.AFFINE, remark="means, loadings and noise variances are held fixed")
def read_factor_analysis(model: Any, features: Features, run: Run) -> Features:
    """The posterior mean of the factors, (I + WΨ⁻¹Wᵀ)⁻¹ WΨ⁻¹ (x - mean)."""
    W = np.asarray(require_fitted(model, "components_", len(features)), dtype=np.float64)
    weighted = W / np.asarray(model.noise_variance_, dtype=np.float64)
    M = np.linalg.solve(np.eye(len(W)) + weighted @ W.T, weighted)
    return _project(model, features, M, model.mean_, run, "means and loadings", name="factor")


@step(
    "GaussianRandomProjection",
    "SparseRandomProjection",
    route=Route.AFFINE,
    remark="the matrix is random and independent of the data: nothing is held fixed",
)
def read_random_projection(projection: Any, features: Features, run: Run) -> Features:
    components = require_fitted(projection, "components_", len(features))
    return _project(projection, features, components, None, run, name="projection")
