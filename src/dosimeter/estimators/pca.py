"""Principal components with scikit-learn's interface, from a noisy second moment.

`fit` clips the rows to declared bounds, draws the noise safely and keeps only what is released: `components_`,
`explained_variance_`, the noisy `mean_` and `release_`. The exact moments are discarded. `released_` is a plain
scikit-learn PCA with the same components, which works without this package.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.utils.validation import check_is_fitted, validate_data

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.estimators.private_weights import generator
from dosimeter.pca.bounds import Bounds
from dosimeter.pca.mechanism import MEAN_SHARE, Mechanism
from dosimeter.pca.mechanisms import AnalyticGaussian, LaplaceJoint, LaplaceSplit, PLDLaplace
from dosimeter.pca.release import release
from dosimeter.pca.utility import rank_for_variance

MECHANISMS = ("gaussian", "laplace", "laplace-split", "laplace-joint")


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """(ε, δ)-differentially private principal components of rows within declared bounds.

    Parameters
    ----------
    n_components : int, float or None, default None
        A number, a share of the variance by the *noisy* eigenvalues (post-processing: it costs no privacy and follows
        the noise), or None for all columns.
    epsilon, delta : float, default 1.0 and 1e-6
        The privacy budget; "laplace-joint" uses no delta.
    lower, upper : float or (d,) array, optional
        Public bounds of the columns.
    row_norm : float, optional
        Public bound of the norm of a centred row. Needed if there are no column bounds.
    centre : (d,) array, optional
        Public centre; by default the middle of the bounds.
    mean_share : float
        Share of the budget for a noisy mean, which the components are about; 0: about the public centre.
    n_samples : int, optional
        Public number of rows (or persons), needed for "add-or-remove-one".
    neighbours : {"replace-one", "add-or-remove-one"}, default "replace-one"
        Adjacency: of a row, or of a person with all their rows if `fit` gets `person`.
    mechanism : {"gaussian", "laplace", "laplace-split", "laplace-joint"}, default "gaussian"
        "gaussian" is the analytic Gaussian; "laplace" one query per entry, accounted by its privacy loss;
        "laplace-split" the same by a composition theorem; "laplace-joint" pure ε.
    private : bool, default True
        False allows bounds taken from the table; the release then says "not private".
    random_state : int, Generator or None, default None
        None draws from the operating system; anything else is a simulation, stamped "not for release".

    Attributes
    ----------
    components_ : (k, d) array
    explained_variance_, explained_variance_ratio_ : (k,) arrays
        By the noisy eigenvalues.
    mean_ : (d,) array
        Noisy.
    release_ : Release
        What may be published, with its recipe.
    dose_ : dose of the release
    epsilon_ : float
        ε at `delta` that the release costs, an upper bound; at most `epsilon`.
    remarks_ : tuple of str
    released_ : PCA
        The same components as a plain scikit-learn model.

    Raises
    ------
    Refusal
        From `fit`, if bounds are missing or a parameter is out of range.

    Notes
    -----
    The components are eigenvectors of A + E, with A the second moment of the clipped rows about the noisy mean and E
    symmetric noise: the input perturbation of [Zari22], Table 1 (docs/explanation/pca.md).

    Examples
    --------
    >>> X = np.array([[0.0, 0.1], [1.0, 0.9], [0.5, 0.4], [0.2, 0.1]])
    >>> model = PrivatePCA(1, epsilon=2.0, lower=0.0, upper=1.0).fit(X)
    >>> model.transform(X).shape, sorted(model.release_.values), model.release_.recipe.simulation
    ((4, 1), ['centre', 'lower', 'mean', 'second_moment', 'upper'], False)
    """

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        lower: Any = None,
        upper: Any = None,
        row_norm: float | None = None,
        centre: Any = None,
        mean_share: float = MEAN_SHARE,
        n_samples: int | None = None,
        neighbours: str = "replace-one",
        mechanism: str = "gaussian",
        private: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.lower = lower
        self.upper = upper
        self.row_norm = row_norm
        self.centre = centre
        self.mean_share = mean_share
        self.n_samples = n_samples
        self.neighbours = neighbours
        self.mechanism = mechanism
        self.private = private
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, person: Any = None) -> Self:
        """Clip X (n, d), draw the noise, keep the release; y is ignored.

        person: (n,) the person of each row; the guarantee is then per person, whose rows together weigh as one.
        """
        X = validate_data(self, X, dtype=np.float64)
        self._refuse_bad_count(X.shape[1])
        private_components = release(
            X,
            self._mechanism(),
            bounds=self._bounds(),
            person=None if person is None else np.asarray(person, dtype=object).tolist(),
            n_samples=self.n_samples,
            private=self.private,
            rng=generator(self.random_state),
        )
        components = private_components.components
        k = self._count(components.values)
        self.release_, self.dose_, self.remarks_ = (
            private_components.release,
            private_components.dose,
            private_components.remarks,
        )
        self.epsilon_ = private_components.epsilon(self.delta)
        """ε at delta that the release costs, an upper bound; at most `epsilon`."""
        self.n_components_ = k
        self.components_ = np.ascontiguousarray(components.vectors[:, :k].T)
        self.explained_variance_ = components.values[:k].copy()
        total = float(components.values.sum())
        self.explained_variance_ratio_ = self.explained_variance_ / total if total > 0 else np.zeros(k)
        self.mean_ = components.mean.copy()
        return self

    def transform(self, X: Any) -> FloatArray:
        """(n, k) scores (X - mean_) V."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray((X - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> FloatArray:
        """(n, d) rows in the span of the components, from scores (n, k)."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X, dtype=np.float64) @ self.components_ + self.mean_)

    @property
    def released_(self) -> PCA:
        """The same components as a plain scikit-learn PCA."""
        check_is_fitted(self)
        plain = PCA(n_components=self.n_components_)
        plain.components_, plain.mean_ = self.components_.copy(), self.mean_.copy()
        plain.explained_variance_ = self.explained_variance_.copy()
        plain.explained_variance_ratio_ = self.explained_variance_ratio_.copy()
        N = self.release_.recipe.settings["n_samples"]
        plain.singular_values_ = np.sqrt(plain.explained_variance_ * N)
        plain.n_components_, plain.n_samples_, plain.noise_variance_ = self.n_components_, N, 0.0
        plain.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            plain.feature_names_in_ = self.feature_names_in_
        return plain

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def _mechanism(self) -> Mechanism:
        if self.mechanism == "laplace-joint":
            return LaplaceJoint(self.epsilon, self.neighbours, self.mean_share)
        kinds = {"gaussian": AnalyticGaussian, "laplace": PLDLaplace, "laplace-split": LaplaceSplit}
        if self.mechanism not in kinds:
            raise Refusal(f"mechanism {self.mechanism!r} is not one of {', '.join(MECHANISMS)}")
        return kinds[self.mechanism](self.epsilon, self.delta, self.neighbours, self.mean_share)

    def _bounds(self) -> Bounds | None:
        if self.lower is None and self.upper is None and self.row_norm is None:
            return None  # `release` refuses this unless private=False
        return Bounds(self.lower, self.upper, self.row_norm, self.centre)

    def _refuse_bad_count(self, d: int) -> None:
        n: Any = self.n_components
        if n is None or (isinstance(n, float) and 0 < n < 1):
            return
        if isinstance(n, bool) or not isinstance(n, Integral) or not 1 <= int(n) <= d:
            raise Refusal(f"n_components={n!r}: must be 1 to {d}, a share between 0 and 1, or None")

    def _count(self, values: FloatArray) -> int:
        if self.n_components is None:
            return len(values)
        if isinstance(self.n_components, float):
            return rank_for_variance(values, self.n_components) if values.sum() > 0 else 1
        return int(self.n_components)
