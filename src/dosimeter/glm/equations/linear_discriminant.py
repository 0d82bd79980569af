"""Linear discriminant analysis: a smooth map of class counts, means and the pooled covariance.

θ = (N_k, μ_k, Σ), explicit; Σ = Σ_k c_k Σ_i e_ik (x_i - μ_k)(x_i - μ_k)ᵀ, then shrunk to (1-s) Σ + s (tr Σ/d) 1.

| solver      | c_k             | centre x̄ | released                                              |
| svd         | 1/n, 1/(n - K)  | Σ π_k μ_k | β_k = Σ⁻¹ν_k, ν_k = μ_k - x̄                           |
| lsqr, eigen | π_k/N_k         | 0         | b_k = log π_k - ½ ν_k·β_k - x̄·β_k                     |

(scikit-learn divides by n - K up to 1.8. π_k = N_k/n unless priors are given; two classes release the differences
β_1 - β_0 and b_1 - b_0.) The three solvers compute the same map by different routes. Its differential is

    dβ_k = Σ⁻¹(dν_k - dΣ β_k),      db_k = dπ_k/π_k - β_k·dν_k + ½ β_k·dΣ β_k - dx̄·β_k - x̄·dβ_k

and one row's dΣ β_k is known in closed form: no (d, d) matrix is made for a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.checks import number
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.glm.equations.class_moments import ClassMoments, check_priors
from dosimeter.glm.equations.class_target import check_classes, class_kind
from dosimeter.glm.equations.estimating_equations import EstimatingEquations, Solution
from dosimeter.glm.equations.pooled_covariance import PooledCovariance
from dosimeter.glm.equations.released_map import ReleasedMap
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.linalg.inverse_blocks import invert
from dosimeter.glm.losses.loss import TargetKind

ATTRIBUTES = (
    "the attributes means_, priors_, covariance_, xbar_ and scalings_ in the model's file are further releases: "
    "remove them, or measure moments_map"
)


@dataclass(frozen=True, eq=False, repr=False)
class LinearDiscriminant(EstimatingEquations):
    """scikit-learn's LinearDiscriminantAnalysis on its table; θ = counts, means, pooled covariance. Internal.

    Parameters
    ----------
    X, y : array_like of shape (n, d) and (n,)
        The table and the class number of each row, from 0.
    n_classes : int
        K.
    solver : {"svd", "lsqr", "eigen"}, default "svd"
        As in scikit-learn; it decides which of several equivalent parameters are released.
    shrinkage : float from 0 to 1, optional
        Of the covariance, for "lsqr" and "eigen"; "auto" depends on the table in a way that is not covered.
    priors : array_like of shape (K,), optional
        Public class shares; default: estimated.
    tol : float, default 1e-4
        Relative size of a direction below which "svd" drops it; a table on which it would is refused.
    unbiased : bool, default False
        Whether "svd" divides the covariance by n - K, as scikit-learn does up to 1.8, instead of by n.

    Raises
    ------
    Refusal
        If a class has no row.
    CannotMeasure
        If shrinkage is "auto", or "svd" drops a direction.

    Notes
    -----
    Released by default: `coef_` and `intercept_`, class after class, the intercept last. `moments_map` releases shares,
    means and the distinct entries of the covariance; discriminants computed from these, noised, add nothing.

    Examples
    --------
    >>> X, y = np.array([[0.0], [2.0], [4.0], [6.0]]), np.array([0.0, 0.0, 1.0, 1.0])
    >>> LinearDiscriminant(X, y, 2).solve().released      # (5 - 1)/1, and its value at the middle is zero
    array([  4., -12.])
    """

    X: FloatArray
    y: FloatArray
    n_classes: int
    solver: Literal["svd", "lsqr", "eigen"] = "svd"
    shrinkage: float | None = None
    priors: Any = None
    tol: float = 1e-4
    unbiased: bool = False

    def __post_init__(self) -> None:
        X, y, _ = check_classes(self.X, self.y, self.n_classes)
        for name, values in (("X", X), ("y", y), ("priors", check_priors(self.priors, self.n_classes))):
            object.__setattr__(self, name, values)
        if self.solver not in ("svd", "lsqr", "eigen"):
            raise Refusal(f"solver must be 'svd', 'lsqr' or 'eigen', not {self.solver!r}")
        if isinstance(self.shrinkage, str):
            raise CannotMeasure(
                f"shrinkage={self.shrinkage!r} is estimated from the table, and its derivative is not known here: "
                "pass a number"
            )
        if self.shrinkage is not None:
            number("shrinkage", self.shrinkage, 0.0, 1.0, strictly=False)
            if self.solver == "svd":
                raise Refusal("solver 'svd' has no shrinkage: use 'lsqr' or 'eigen'")
        if self.unbiased and (self.solver != "svd" or len(X) <= self.n_classes):
            raise Refusal("unbiased is for solver 'svd' and more rows than classes")
        if self.solver == "svd":
            self._refuse_dropped_directions()
        else:
            invert((self._covariance.value(),), self.d)  # a singular covariance is refused here

    @property
    def target(self) -> TargetKind:  # type: ignore[override]
        """The class."""
        return class_kind(self.n_classes)

    @property
    def target_width(self) -> int:
        return int(self._classes.T.shape[1])

    @property
    def parameter_names(self) -> tuple[str, ...]:
        K, d = range(self.n_classes), self.d
        means = (f"mean {k}: {j}" for k in K for j in range(d))
        return (*(f"count {k}" for k in K), *means, *(f"covariance {i}, {j}" for i in range(d) for j in range(i + 1)))

    @property
    def not_covered(self) -> tuple[str, ...]:
        return (ATTRIBUTES,)

    @cached_property
    def released(self) -> ReleasedMap:
        """`coef_` and `intercept_`."""
        outputs = 1 if self.n_classes == 2 else self.n_classes
        each = [*(f"weight {j}" for j in range(self.d)), "intercept"]
        names = tuple(f"output {b}: {name}" for b in range(outputs) for name in each)
        return ReleasedMap("the discriminants", names, self._coefficients, self._push)

    @cached_property
    def moments_map(self) -> ReleasedMap:
        """`priors_` (if estimated), `means_` and the distinct entries of `covariance_`."""
        if self.solver == "svd" and (self.priors is not None or self.unbiased):
            raise CannotMeasure(
                "with solver 'svd' and given priors, or divided by n - K, covariance_ "
                "is not the covariance of the discriminants: use 'lsqr'"
            )
        K = self.n_classes
        names = self.parameter_names[K:]
        if self.priors is not None:
            return ReleasedMap.part(np.s_[K:], names, "the means and the covariance")
        scale = np.ones((len(names) + K, 1))
        scale[:K] = 1.0 / self.n
        return ReleasedMap(
            "the shares, the means and the covariance",
            (*(f"share {k}" for k in range(K)), *names),
            lambda theta: theta * scale[:, 0],
            lambda theta, moves: moves * scale,
        )

    def value(self, theta: FloatArray) -> FloatArray:
        return theta - self.start()

    def derivative(self, theta: FloatArray) -> tuple[FloatArray, ...]:
        return ()

    def start(self) -> FloatArray:
        """The moments themselves."""
        N, mu = self._classes.counts(), self._classes.means()
        return np.concatenate([N, mu.ravel(), self._covariance.value()[self._lower]])

    def row_derivative(self, theta: FloatArray, rows: Rows) -> FloatArray:
        N, mu, _ = self._moments(theta)
        covariance = self._covariance.moves(mu, rows)[:, self._lower[0], self._lower[1]]
        means = self._classes.mean_moves(N, mu, rows)
        means = means.reshape(len(means), -1, means.shape[3])
        return -np.concatenate([self._classes.count_moves(rows), means, covariance], axis=1)

    def moves(self, solution: Solution, released: ReleasedMap, rows: Rows) -> FloatArray:
        """(k, r, d + t); for the discriminants without a (d, d) matrix for each row."""
        if released is not self.released:
            return super().moves(solution, released, rows)
        theta = solution.theta
        N, mu, _ = self._moments(theta)
        counts, means = self._classes.count_moves(rows), self._classes.mean_moves(N, mu, rows)
        along = self._covariance.moves_along(mu, self._state(theta)[1], rows)
        return self._discriminant_moves(theta, counts, means, along)

    def row_size(self, released: ReleasedMap) -> int:
        if released is not self.released:
            return super().row_size(released)
        return 4 * self.n_classes * (self.d + 1) * (self.d + self.target_width)

    def _push(self, theta: FloatArray, moves: FloatArray) -> FloatArray:
        """(k, r, u) from moves of θ (k, q, u)."""
        K, d = self.n_classes, self.d
        u = moves.shape[2]
        covariance = np.empty((len(moves), d, d, u))
        covariance[:, self._lower[0], self._lower[1]] = moves[:, K + K * d :]
        covariance[:, self._lower[1], self._lower[0]] = moves[:, K + K * d :]
        beta = self._state(theta)[1]
        along = np.einsum("nijt,kj->nkit", covariance, beta)
        return self._discriminant_moves(theta, moves[:, :K], moves[:, K : K + K * d].reshape(-1, K, d, u), along)

    def _discriminant_moves(self, theta: FloatArray, dN: FloatArray, dmu: FloatArray, along: FloatArray) -> FloatArray:
        """(k, r, u) from dN (k, K, u), dμ (k, K, d, u) and dΣ β (k, K, d, u)."""
        N, mu, _ = self._moments(theta)
        inverse, beta, centre = self._state(theta)
        shares = self._shares(N)
        dlog = (
            np.zeros_like(dN) if self.priors is not None else dN / N[:, None] - dN.sum(axis=1, keepdims=True) / N.sum()
        )
        dcentre = np.zeros((len(dN), self.d, dN.shape[2]))
        if self.solver == "svd":
            dcentre = np.einsum("k,nkdu->ndu", shares, dmu) + np.einsum("kd,nku->ndu", mu, shares[:, None] * dlog)
        dnu = dmu - dcentre[:, None]
        dbeta = inverse @ (dnu - along)
        dintercept = (
            dlog
            - np.einsum("kd,nkdu->nku", beta, dnu - 0.5 * along)
            - np.einsum("kd,ndu->nku", beta, dcentre)
            - np.einsum("d,nkdu->nku", centre, dbeta)
        )
        stacked = np.concatenate([dbeta, dintercept[:, :, None, :]], axis=2)
        if self.n_classes == 2:
            return np.asarray(stacked[:, 1] - stacked[:, 0])
        return stacked.reshape(len(stacked), -1, dN.shape[2])

    def _coefficients(self, theta: FloatArray) -> FloatArray:
        """(r,) class after class, the intercept last."""
        N, mu, _ = self._moments(theta)
        _, beta, centre = self._state(theta)
        nu = mu - centre
        intercept = np.log(self._shares(N)) - 0.5 * np.einsum("kd,kd->k", nu, beta) - beta @ centre
        stacked = np.column_stack([beta, intercept])
        return np.asarray(stacked[1] - stacked[0] if self.n_classes == 2 else stacked.ravel())

    def _moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """N (K,), μ (K, d), Σ (d, d)."""
        K, d = self.n_classes, self.d
        Sigma = np.empty((d, d))
        Sigma[self._lower] = theta[K + K * d :]
        Sigma.T[self._lower] = theta[K + K * d :]
        return theta[:K], theta[K : K + K * d].reshape(K, d), Sigma

    def _state(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Σ⁻¹ (d, d), β (K, d), x̄ (d,)."""
        kept = self.__dict__.get("_kept")  # the state of the last θ: every block of rows asks for the same one
        if kept is not None and kept[0] is theta:
            return kept[1]  # type: ignore[no-any-return]
        N, mu, Sigma = self._moments(theta)
        (inverse,) = invert((Sigma,), self.d).blocks
        centre = self._shares(N) @ mu if self.solver == "svd" else np.zeros(self.d)
        state = inverse, (mu - centre) @ inverse, centre
        self.__dict__["_kept"] = theta, state
        return state

    def _shares(self, N: FloatArray) -> FloatArray:
        """π (K,)."""
        return N / N.sum() if self.priors is None else np.asarray(self.priors)

    @cached_property
    def _classes(self) -> ClassMoments:
        return ClassMoments.of(self.X, self.y, np.ones(len(self.X)), self.n_classes)

    @cached_property
    def _covariance(self) -> PooledCovariance:
        priors = None if self.solver == "svd" else self.priors
        return PooledCovariance(self._classes, priors, self.shrinkage or 0.0, self.unbiased)

    @cached_property
    def _lower(self) -> tuple[Any, Any]:
        return np.tril_indices(self.d)

    def _refuse_dropped_directions(self) -> None:
        """Refuse a table on which "svd" drops a direction: within the classes, or between their means."""
        mu, N = self._classes.means(), self._classes.counts()
        within = self._covariance.value()
        scale = np.sqrt(np.diag(within))
        constant = np.flatnonzero(~(scale > 0))
        if len(constant):
            raise CannotMeasure(f"column {constant[0]} is constant within every class: drop it")
        values, vectors = np.linalg.eigh(within / np.outer(scale, scale))
        if not np.sqrt(max(values[0], 0.0)) > self.tol:
            raise CannotMeasure("the columns are dependent within the classes, and solver 'svd' drops a direction")
        shares = self._shares(N)
        whitened = (np.sqrt(shares)[:, None] * (mu - shares @ mu) / scale) @ (vectors / np.sqrt(values))
        sizes = np.linalg.svd(whitened, compute_uv=False)
        between = min(self.n_classes - 1, self.d)
        if not sizes[between - 1] > self.tol * sizes[0]:
            raise CannotMeasure("the means of the classes are dependent, and solver 'svd' drops a direction of them")
