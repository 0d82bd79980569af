"""Gaussian naive Bayes: means, variances and counts of each class are released.

θ = (N_k, μ_kj, v_kj), explicit:  v_kj = Σ ω e_ik (x_ij - μ_kj)²/N_k + s max_j var(x_j), s = `var_smoothing`, var over
all rows alike. With the deviation δ = x - μ_k:

    dv_kj/dx_ij = 2 ω e_ik δ_kj/N_k,      dv_kj/de_ik = ω (δ_kj² - v⁰_kj)/N_k,      v⁰ before smoothing

and the column of the largest variance, held, adds 2 s (x_ij - mean_j)/n to every variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.checks import number
from dosimeter.glm.equations.class_moments import ClassMoments, check_priors
from dosimeter.glm.equations.class_target import check_classes, class_kind
from dosimeter.glm.equations.estimating_equations import EstimatingEquations, Kink
from dosimeter.glm.equations.released_map import ReleasedMap
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.losses.loss import TargetKind

NOTHING = 5e-7
"""A share of a figure that is not seen in its first six digits."""

LARGEST = "the column whose variance smooths the others depends on the table: the choice is not covered"
ATTRIBUTES = (
    "the attributes class_count_ and epsilon_ in the model's file are further releases: remove them, or measure "
    "moments_map"
)


@dataclass(frozen=True, eq=False, repr=False)
class GaussianNaiveBayes(EstimatingEquations):
    """scikit-learn's GaussianNB on its table; θ = counts, means and variances, class after class. Internal.

    Parameters
    ----------
    X, y : array_like of shape (n, d) and (n,)
        The table and the class number of each row, from 0.
    n_classes : int
        K.
    var_smoothing : float, default 1e-9
        Share of the largest variance of a column that is added to every variance.
    priors : array_like of shape (K,), optional
        Public class shares; default: estimated and released.
    sample_weight : array_like of shape (n,), optional
        ω; default ones.

    Raises
    ------
    Refusal
        If a class has no row.

    Notes
    -----
    Released by default: `theta_`, `var_` and, if estimated, `class_prior_`. `moments_map` has `class_count_` instead of
    the shares.

    Examples
    --------
    >>> X, y = np.array([[1.0], [3.0], [4.0], [8.0]]), np.array([0.0, 0.0, 1.0, 1.0])
    >>> GaussianNaiveBayes(X, y, 2, var_smoothing=0.0).solve().released      # means, variances, shares
    array([2. , 6. , 1. , 4. , 0.5, 0.5])
    """

    X: FloatArray
    y: FloatArray
    n_classes: int
    var_smoothing: float = 1e-9
    priors: Any = None
    sample_weight: Any = None

    def __post_init__(self) -> None:
        X, y, weight = check_classes(self.X, self.y, self.n_classes, self.sample_weight)
        number("var_smoothing", self.var_smoothing, 0.0, 1e6, strictly=False)
        priors = check_priors(self.priors, self.n_classes)
        for name, values in (("X", X), ("y", y), ("sample_weight", weight), ("priors", priors)):
            object.__setattr__(self, name, values)

    @property
    def target(self) -> TargetKind:  # type: ignore[override]
        """The class."""
        return class_kind(self.n_classes)

    @property
    def target_width(self) -> int:
        return int(self._classes.T.shape[1])

    @property
    def parameter_names(self) -> tuple[str, ...]:
        K, d = range(self.n_classes), range(self.d)
        cells = [(k, j) for k in K for j in d]
        return (
            *(f"count {k}" for k in K),
            *(f"mean {k}: {j}" for k, j in cells),
            *(f"variance {k}: {j}" for k, j in cells),
        )

    @cached_property
    def released(self) -> ReleasedMap:
        """`theta_`, `var_` and the estimated `class_prior_`."""
        K = self.n_classes
        names = self.parameter_names[K:]
        if self.priors is not None:
            return ReleasedMap.part(np.s_[K:], names, "the means and variances of the classes")

        def value(theta: FloatArray) -> FloatArray:
            return np.concatenate([theta[K:], theta[:K] / theta[:K].sum()])

        def push(theta: FloatArray, moves: FloatArray) -> FloatArray:
            total, counts = theta[:K].sum(), moves[:, :K]
            shares = (counts - (theta[:K] / total)[:, None] * counts.sum(axis=1, keepdims=True)) / total
            return np.concatenate([moves[:, K:], shares], axis=1)

        named = (*names, *(f"share {k}" for k in range(K)))
        return ReleasedMap("the means, variances and shares of the classes", named, value, push)

    @property
    def moments_map(self) -> ReleasedMap:
        """`class_count_`, `theta_` and `var_`."""
        return ReleasedMap.identity(self.parameter_names, "the counts, means and variances of the classes")

    @property
    def not_covered(self) -> tuple[str, ...]:
        return (LARGEST, ATTRIBUTES) if self._chooses_a_column else (ATTRIBUTES,)

    def value(self, theta: FloatArray) -> FloatArray:
        return theta - self.start()

    def derivative(self, theta: FloatArray) -> tuple[FloatArray, ...]:
        return ()

    def start(self) -> FloatArray:
        """The moments themselves."""
        N, mu = self._classes.counts(), self._classes.means()
        return np.concatenate([N, mu.ravel(), self._variances(N, mu).ravel() + self._smoothing])

    def row_derivative(self, theta: FloatArray, rows: Rows) -> FloatArray:
        K, d, classes = self.n_classes, self.d, self._classes
        N, mu = theta[:K], theta[K : K + K * d].reshape(K, d)
        variances = theta[K + K * d :].reshape(K, d) - self._smoothing
        delta, share = classes.deviations(mu, rows), classes.shares(N, rows)
        moves = np.zeros((len(share), K, d, d + self.target_width))
        each = np.arange(d)
        moves[:, :, each, each] = 2.0 * (share * classes.e[rows])[:, :, None] * delta
        squares = share[:, :, None] * (delta**2 - variances)
        moves[:, :, :, d:] = squares[:, :, :, None] * classes.T[:, None, :]
        j = self._largest
        spread = 2.0 * self.var_smoothing * (self.X[rows, j] - self.X[:, j].mean()) / self.n
        moves[:, :, :, j] += spread[:, None, None]
        means = classes.mean_moves(N, mu, rows).reshape(len(share), K * d, -1)
        return -np.concatenate([classes.count_moves(rows), means, moves.reshape(len(share), K * d, -1)], axis=1)

    def kinks(self, theta: FloatArray) -> tuple[Kink, ...]:
        """How far the second largest variance of a column is below the largest, if it smooths visibly.

        A cell moves the mean of its class by at least ω/n, and all variances through the smoothing by at most
        2 s |x - mean|/n each: where that is nothing next to the first, either column gives the figure.
        """
        if not self._chooses_a_column or self._smoothed_share <= NOTHING:
            return ()
        second, first = np.sort(self._column_variances)[-2:]
        distance = 1.0 - float(second / first) if first > 0 else 0.0
        return (Kink("two columns share the largest variance, which smooths the others", distance),)

    @cached_property
    def _smoothed_share(self) -> float:
        """At most this share of a cell's move is through the smoothing."""
        weight = np.asarray(self.sample_weight)
        used = weight[weight > 0]
        least = float(used.min() / weight.sum()) * self.n if len(used) else 0.0
        furthest = float(np.abs(self.X - self.X.mean(axis=0)).max())
        share = 2.0 * self.var_smoothing * furthest * np.sqrt(self.n_classes * self.d)
        return share / least if least > 0 else np.inf

    @property
    def _chooses_a_column(self) -> bool:
        return self.var_smoothing > 0 and self.d > 1

    @cached_property
    def _classes(self) -> ClassMoments:
        return ClassMoments.of(self.X, self.y, np.asarray(self.sample_weight), self.n_classes)

    @cached_property
    def _column_variances(self) -> FloatArray:
        return np.asarray(self.X.var(axis=0))

    @property
    def _largest(self) -> int:
        return int(self._column_variances.argmax())

    @property
    def _smoothing(self) -> float:
        return self.var_smoothing * float(self._column_variances.max())

    def _variances(self, N: FloatArray, mu: FloatArray) -> FloatArray:
        """(K, d) before smoothing."""
        out = np.empty(mu.shape)
        for k in range(self.n_classes):
            out[k] = (self._classes.weight * self._classes.e[:, k]) @ (self.X - mu[k]) ** 2 / N[k]
        return out
