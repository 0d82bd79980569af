"""Random problems, ordinary and adversarial, for the oracle tests."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import mpmath as mp
import numpy as np
from scipy.special import ndtr

from dosimeter import glm
from dosimeter.glm.losses.margin_losses import RobustRegression
from dosimeter.glm.losses.positive_losses import LINKS, PowerVariance


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
    if isinstance(loss, PowerVariance):
        return positive_targets(loss, margin, rng)
    if loss.target is glm.TargetKind.NUMBER:
        return margin + rng.standard_normal(len(margin))
    if loss.target is glm.TargetKind.TWO_CLASSES:
        return (rng.random(len(margin)) < 1 / (1 + np.exp(-np.clip(margin, -30, 30)))).astype(float)
    if loss.target is glm.TargetKind.COUNT:
        return rng.poisson(np.exp(np.clip(margin, -3, 3)) + 0.5).astype(float)
    return rng.integers(0, loss.n_classes, len(margin)).astype(float)


def positive_targets(loss, margin, rng):
    """Positive numbers about the mean; some are zero where the loss accepts zeros."""
    k = LINKS[loss.link_function]
    mean = np.exp(np.clip(margin, -3, 3)) if k is None else margin**k
    y = mean * rng.gamma(8.0, 1 / 8, len(margin))
    return np.where(rng.random(len(y)) < 0.15, 0.0, y) if 0 < loss.power < 2 and k is None else y


NUMPY = SimpleNamespace(
    exp=lambda x: np.exp(np.minimum(x, 500.0)),
    log=np.log,
    ncdf=ndtr,
    positive=lambda x: np.maximum(x, 0.0),
    least=np.minimum,
)
DIGITS = SimpleNamespace(exp=mp.exp, log=mp.log, ncdf=mp.ncdf, positive=lambda x: max(x, mp.mpf(0)), least=min)
"""The functions of a row of `FORMULAS`, of numpy and in multiple precision."""

_probit = lambda f, m, y: -y * f.log(f.ncdf(m)) - (1 - y) * f.log(f.ncdf(-m))  # noqa: E731


def _huber(f, m, y, delta):
    size = abs(m - y)
    inside = f.least(size, delta)
    return inside**2 / 2 + delta * (size - inside)


FORMULAS = {
    glm.Squared(): lambda f, m, y: (m - y) ** 2 / 2,
    glm.Logistic(): lambda f, m, y: -y * f.log(1 / (1 + f.exp(-m))) - (1 - y) * f.log(1 - 1 / (1 + f.exp(-m))),
    glm.Poisson(): lambda f, m, y: f.exp(m) - y * m,
    glm.Probit(): _probit,
    glm.ComplementaryLogLog(): lambda f, m, y: -y * f.log(1 - f.exp(-f.exp(m))) + (1 - y) * f.exp(m),
    glm.NegativeBinomial(): lambda f, m, y: (y + 1) * f.log(1 + f.exp(m)) - y * m,
    glm.NegativeBinomial(0.25): lambda f, m, y: (y + 4) * f.log(1 + f.exp(m) / 4) - y * m,
    glm.SquaredHinge(): lambda f, m, y: y * f.positive(1 - m) ** 2 + (1 - y) * f.positive(1 + m) ** 2,
    glm.SquaredEpsilonInsensitive(): lambda f, m, y: (m - y) ** 2,
    glm.SquaredEpsilonInsensitive(0.25): lambda f, m, y: f.positive(abs(m - y) - 0.25) ** 2,
    glm.Huber(): lambda f, m, y: _huber(f, m, y, 1.35),
    glm.Huber(1.5, 0.5): lambda f, m, y: _huber(f, m, y, 0.75),
    glm.Gamma(): lambda f, m, y: y * (f.exp(-m) - 1) + m,
    glm.Gamma("inverse"): lambda f, m, y: y * (m - 1) - f.log(m),
    glm.Gamma("identity"): lambda f, m, y: y * (1 / m - 1) + f.log(m),
    glm.InverseGaussian(): lambda f, m, y: y * (f.exp(-2 * m) - 1) / 2 - f.exp(-m) + 1,
    glm.InverseGaussian("inverse-squared"): lambda f, m, y: y * (m - 1) / 2 - m**0.5 + 1,
    glm.InverseGaussian("inverse"): lambda f, m, y: y * (m**2 - 1) / 2 - m + 1,
    glm.Tweedie(): lambda f, m, y: 2 * y * (f.exp(-m / 2) - 1) + 2 * (f.exp(m / 2) - 1),
    glm.Tweedie(0.0): lambda f, m, y: (f.exp(m) - y) ** 2 / 2 - (1 - y) ** 2 / 2,
    glm.Tweedie(1.0): lambda f, m, y: f.exp(m) - 1 - y * m,
    glm.Tweedie(1.0, "sqrt"): lambda f, m, y: m**2 - 1 - 2 * y * f.log(m),
    glm.Tweedie(2.0): lambda f, m, y: y * (f.exp(-m) - 1) + m,
    glm.Tweedie(2.5): lambda f, m, y: y * (f.exp(-1.5 * m) - 1) / 1.5 - 2 * (f.exp(-m / 2) - 1),
    glm.Tweedie(3.0): lambda f, m, y: y * (f.exp(-2 * m) - 1) / 2 - f.exp(-m) + 1,
    glm.Tweedie(1.5, "identity"): lambda f, m, y: 2 * y * (m**-0.5 - 1) + 2 * (m**0.5 - 1),
}
"""The value of every loss of one margin, written from the paper: the row that a new loss needs, and more for other
values of its parameters. All laws and oracles of `tests/glm` and of `tests/laws/test_loss_laws.py` then run on it. f:
`NUMPY` or `DIGITS`."""

LOSSES = {
    **{name: loss() for name, loss in glm.LOSSES.items()},
    "softmax with a reference": glm.Softmax(3, 1),
    "softmax about the mean": glm.Softmax(3, "mean"),
}


def table(loss, n=60, d=3, seed=5):
    """X (n, d) and targets that suit the loss: heavy tails for a robust one, positive margins for a link of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    m = X @ np.linspace(1.0, -0.5, d)
    if loss.lowest_margin == 0:
        X = np.abs(X) + 0.2
        m = X @ np.linspace(0.6, 0.2, d)
    return X, m + rng.standard_t(3, n) if isinstance(loss, RobustRegression) else targets(loss, m, rng)


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
