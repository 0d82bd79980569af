"""Tables with more columns than rows, or sparse, for the oracle tests of the routes for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from dosimeter import glm

from .problems import targets


@dataclass(frozen=True, eq=False)
class WideTable:
    name: str
    X: np.ndarray
    y: np.ndarray
    loss: object
    l2: float
    sample_weight: np.ndarray | None
    intercept: bool

    @property
    def sparse(self):
        return sparse.csr_array(self.X)

    def fit(self, X=None, y=None, **options):
        return glm.fit(
            self.X if X is None else X,
            self.y if y is None else y,
            self.loss,
            self.l2,
            sample_weight=self.sample_weight,
            intercept=self.intercept,
            **options,
        )


SHAPES = {"far more columns": (12, 40), "one column more": (20, 21), "more rows": (30, 12)}


def counts(n, d, rng):
    """Word counts: most cells are zero, one row is empty, two rows are alike."""
    X = rng.poisson(0.4, (n, d)) * rng.integers(1, 4, (n, d)).astype(float)
    X[1] = X[2]
    X[4] = 0.0
    return X


def wide_tables(shapes=SHAPES, seed=0):
    """Every loss, weighted and not, with and without intercept, for each shape; a weight is zero."""
    rng = np.random.default_rng(seed)
    for shape_name, (n, d) in shapes.items():
        X = counts(n, d, rng)
        smooth = {name: kind for name, kind in glm.LOSSES.items() if kind().convex and not kind().has_kinks}
        for name, kind in smooth.items():
            y = targets(kind(), X @ rng.standard_normal(d) * 0.3, rng)
            if kind().target.classes:
                y[:2] = 0.0, 1.0
            for weight in (None, rng.uniform(0.2, 3.0, n) * (np.arange(n) != 3)):
                for intercept in (False, True):
                    words = [
                        name,
                        shape_name,
                        "plain" if weight is None else "weighted",
                        "intercept" if intercept else "no intercept",
                    ]
                    yield WideTable(", ".join(words), X, y, kind(), 0.05, weight, intercept)
