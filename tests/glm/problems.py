"""Random problems, ordinary and adversarial, for the oracle tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dosimeter import glm


@dataclass(frozen=True, eq=False)
class Problem:
    name: str
    X: np.ndarray
    y: np.ndarray
    loss: object
    l2: float = 0.01
    sample_weight: np.ndarray | None = None
    intercept: bool = False

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


def targets(loss, margin, rng):
    """A target that suits the loss, drawn at the margins."""
    if loss.target is glm.TargetKind.NUMBER:
        return margin + rng.standard_normal(len(margin))
    if loss.target is glm.TargetKind.TWO_CLASSES:
        return (rng.random(len(margin)) < 1 / (1 + np.exp(-np.clip(margin, -30, 30)))).astype(float)
    if loss.target is glm.TargetKind.COUNT:
        return rng.poisson(np.exp(np.clip(margin, -3, 3)) + 0.5).astype(float)
    return rng.integers(0, loss.n_classes, len(margin)).astype(float)


FORMULAS = {
    glm.Squared: lambda exp, log, m, y: (m - y) ** 2 / 2,
    glm.Logistic: lambda exp, log, m, y: -y * log(1 / (1 + exp(-m))) - (1 - y) * log(1 - 1 / (1 + exp(-m))),
    glm.Poisson: lambda exp, log, m, y: exp(m) - y * m,
}
"""The value of every loss of one margin, written from the paper: the row that a new loss needs. All laws and oracles of
`tests/glm` and of `tests/laws/test_loss_laws.py` then run on it. exp, log: of numpy, or in multiple precision."""

LOSSES = {
    **{name: loss() for name, loss in glm.LOSSES.items()},
    "softmax with a reference": glm.Softmax(3, 1),
    "softmax about the mean": glm.Softmax(3, "mean"),
}


def ordinary(seed=0, n=40, d=3):
    """Every loss, weighted and not, with and without intercept."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    w = rng.standard_normal(d)
    for name, loss in LOSSES.items():
        y = targets(loss, X @ w, rng)
        for weight in (None, rng.uniform(0.2, 3.0, n)):
            for intercept in (False, True):
                description = (
                    "weighted" if weight is not None else "plain",
                    "intercept" if intercept else "no intercept",
                )
                label = ", ".join([name, *description])
                yield Problem(label, X, y, loss, 0.01, weight, intercept)


def adversarial():
    """Tables on which a careless implementation fails."""
    rng = np.random.default_rng(7)

    def make(name, X, loss=None, l2=0.01, weight=None, y=None, intercept=False):
        loss = loss or glm.Squared()
        y = targets(loss, X @ rng.standard_normal(X.shape[1]), rng) if y is None else y
        return Problem(name, np.ascontiguousarray(X), y, loss, l2, weight, intercept)

    normal = rng.standard_normal
    yield make("one column", normal((30, 1)))
    yield make("one column, logistic", normal((30, 1)), glm.Logistic())
    yield make("two columns", normal((30, 2)))
    X = normal((6, 3))
    yield make("residuals exactly zero", X, l2=0.0, y=X @ np.array([1.0, -2.0, 0.5]))
    yield make("target zero, weights zero", normal((20, 4)), y=np.zeros(20))
    Q = np.linalg.qr(normal((40, 5)))[0]
    yield make("repeated eigenvalues", Q * 3.0, l2=0.0)
    yield make("nearly repeated eigenvalues", Q * (1 + 1e-10 * np.arange(5)), l2=0.0)
    w = np.array([2.0, 1.0, -1.0])
    yield make("rows parallel to the weights", np.outer(normal(30), w) + 1e-3 * normal((30, 3)), l2=1e-4)
    X = normal((50, 4))
    X[0] *= 1e6
    yield make("leverage of a million", X)
    yield make("leverage of a million, logistic", X, glm.Logistic())
    X = normal((60, 3))
    near = (X @ np.array([5.0, -3.0, 1.0]) > 0).astype(float)
    near[0] = 1 - near[0]
    yield make("nearly separable", X, glm.Logistic(), l2=1e-8, y=near)
    yield make("weights over eight decades", normal((60, 4)), weight=10.0 ** rng.uniform(-4, 4, 60))
    yield make(
        "weights over eight decades, poisson",
        normal((60, 4)),
        glm.Poisson(),
        weight=10.0 ** rng.uniform(-4, 4, 60),
    )
    X = np.zeros((30, 5))
    X[np.arange(30), np.arange(30) % 5] = normal(30)
    yield make("one feature in each row", X)
    yield make("a row of zeros", np.vstack([normal((20, 3)), np.zeros((1, 3))]))
    U, _, V = np.linalg.svd(normal((60, 6)), full_matrices=False)
    yield make("condition number 1e8", (U * np.logspace(0, -8, 6)) @ V, l2=0.0)
    yield make("columns of unlike units", normal((40, 4)) * 10.0 ** np.array([-9, 0, 5, 9]), l2=0.0)
    yield make("as many rows as parameters and one", normal((5, 4)), l2=0.0)
    yield make("more columns than rows", normal((8, 20)), l2=0.1)
    yield make("zero weights on some rows", normal((30, 3)), weight=np.repeat([1.0, 0.0], 15))
    yield make("softmax, leverage", np.vstack([normal((40, 3)), 1e3 * normal((1, 3))]), glm.Softmax(4, 0))
