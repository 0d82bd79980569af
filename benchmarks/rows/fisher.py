"""All figures of a fit against one matrix product and against dense singular values, over a grid of sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dosimeter import glm
from fisher import LIMITS, NOISE, dense_svd, problem
from harness.registry import Ratio, Settings, row
from harness.timing import least

QUICK = ((2_000, 10), (12_665, 20), (30_162, 86))
GRID = (*QUICK, (8_000, 200), (100_000, 200), (1_000_000, 50))
SVD_ROWS = 500
"""Rows whose singular values are timed; the figure is scaled to all rows."""


@row("fisher", "η of every row, cell and the whole table against one matrix product")
def against_products(settings: Settings) -> Iterator[Ratio]:
    """Rows and cells against X @ H⁻¹, the whole table against one Gram matrix; the checks of the table included."""
    for n, d in QUICK if settings.quick else GRID:
        X, y, fit = problem(n, d)
        inverse, out = fit.factor.matrix @ fit.factor.matrix.T, np.empty((n, d))
        calls = (
            lambda X=X, inverse=inverse, out=out: np.matmul(X, inverse, out=out),
            lambda X=X: X.T @ X,
            lambda X=X, y=y, fit=fit: glm.measure(fit, X, y, NOISE).examples,
            lambda X=X, y=y, fit=fit: glm.measure(fit, X, y, NOISE).cells,
            lambda X=X, y=y, fit=fit: glm.measure(fit, X, y, NOISE).dataset,
        )
        # A call of a millisecond is soon disturbed: small tables get more runs.
        product, gram, rows, cells, whole = least(settings.runs if n * d > 1_000_000 else 8 * settings.runs, *calls)
        limit = LIMITS.get((n, d))
        size = f"{n:,} x {d}"
        yield Ratio(f"rows, {size}", rows, product, "X @ H⁻¹", limit and limit.examples)
        yield Ratio(f"cells, {size}", cells, product, "X @ H⁻¹")
        yield Ratio(f"dataset, {size}", whole, gram, "XᵀX", limit and limit.dataset)


@row("svd", "η of every row against dense singular values")
def against_svd(settings: Settings) -> Iterator[Ratio]:
    """The plain way: every Jacobian written out."""
    for n, d in ((2_000, 10), (12_665, 20), (30_162, 86)):
        X, y, fit = problem(n, d)
        some = replace(fit, margin=fit.margin[:SVD_ROWS])
        fast, slow = least(
            settings.runs,
            lambda X=X, y=y, fit=fit: glm.measure(fit, X, y, NOISE).examples,
            lambda some=some, X=X, y=y: dense_svd(some, X[:SVD_ROWS], y[:SVD_ROWS]),
        )
        yield Ratio(f"rows, {n:,} x {d}", fast, slow * n / SVD_ROWS, "written-out Jacobians and their SVD")
