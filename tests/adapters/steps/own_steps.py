"""Steps of one's own, as users write them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin


class Waves(TransformerMixin, BaseEstimator):
    """Smooth, without state: sine and cosine of every column."""

    def __init__(self, period: float = 30.0) -> None:
        self.period = period

    def fit(self, X: Any, y: Any = None) -> Waves:
        return self

    def transform(self, X: Any) -> Any:
        angle = 2 * np.pi * np.asarray(X, dtype=float) / self.period
        return np.hstack([np.sin(angle), np.cos(angle)])


class Winsor(TransformerMixin, BaseEstimator):
    """Learns two quantiles and clips at them: it bends there."""

    def fit(self, X: Any, y: Any = None) -> Winsor:
        self.low_, self.high_ = np.quantile(np.asarray(X, dtype=float), [0.1, 0.9], axis=0)
        return self

    def transform(self, X: Any) -> Any:
        return np.clip(np.asarray(X, dtype=float), self.low_, self.high_)


class Hinge(TransformerMixin, BaseEstimator):
    """Bends at a value that a row has."""

    def __init__(self, knot: float = 50.0) -> None:
        self.knot = knot

    def fit(self, X: Any, y: Any = None) -> Hinge:
        return self

    def transform(self, X: Any) -> Any:
        X = np.asarray(X, dtype=float)
        return np.hstack([0.3 * X, np.maximum(X - self.knot, 0.0)])


class Ratio(TransformerMixin, BaseEstimator):
    """Reads columns of a frame by name, and returns a frame."""

    def fit(self, X: Any, y: Any = None) -> Ratio:
        return self

    def transform(self, X: Any) -> Any:
        return X.assign(ratio=X["bmi"] / X["age"])[["ratio", "bmi"]]


class Region(TransformerMixin, BaseEstimator):
    """Text to text: the country of a town."""

    def fit(self, X: Any, y: Any = None) -> Region:
        return self

    def transform(self, X: Any) -> Any:
        towns = np.asarray(X, dtype=object)
        return np.where(np.isin(towns, ["ulm"]), "de", "at").astype(object)


class TownSize(TransformerMixin, BaseEstimator):
    """Text to a number."""

    SIZES: ClassVar = {"graz": 0.3, "linz": 0.2, "ulm": 0.13, "wien": 1.9}

    def fit(self, X: Any, y: Any = None) -> TownSize:
        return self

    def transform(self, X: Any) -> Any:
        return np.array([[np.log(self.SIZES[town])] for town in np.asarray(X, dtype=object)[:, 0]])


class TownTimes(TransformerMixin, BaseEstimator):
    """Text and a number together: they interact."""

    def fit(self, X: Any, y: Any = None) -> TownTimes:
        return self

    def transform(self, X: Any) -> Any:
        cells = np.asarray(X, dtype=object)
        size = np.array([TownSize.SIZES[town] for town in cells[:, 0]])
        age = cells[:, 1].astype(float)
        return np.column_stack([size * np.sqrt(np.abs(age)), age])


class Steps(TransformerMixin, BaseEstimator):
    """Jumps: whole numbers."""

    def fit(self, X: Any, y: Any = None) -> Steps:
        return self

    def transform(self, X: Any) -> Any:
        return np.floor(np.asarray(X, dtype=float) / 2.0)


class Centred(TransformerMixin, BaseEstimator):
    """Mixes rows: subtracts the mean of whatever table it is given."""

    def fit(self, X: Any, y: Any = None) -> Centred:
        return self

    def transform(self, X: Any) -> Any:
        X = np.asarray(X, dtype=float)
        return X - X.mean(axis=0)


class Ranked(TransformerMixin, BaseEstimator):
    """Mixes rows: divides by the largest value of the table."""

    def fit(self, X: Any, y: Any = None) -> Ranked:
        return self

    def transform(self, X: Any) -> Any:
        X = np.asarray(X, dtype=float)
        return X / np.abs(X).max(axis=0)


class Lagged(TransformerMixin, BaseEstimator):
    """Mixes rows: the row before."""

    def fit(self, X: Any, y: Any = None) -> Lagged:
        return self

    def transform(self, X: Any) -> Any:
        X = np.asarray(X, dtype=float)
        return np.hstack([X, np.vstack([X[:1], X[:-1]])])


class Noisy(TransformerMixin, BaseEstimator):
    """Another output on every call."""

    def fit(self, X: Any, y: Any = None) -> Noisy:
        return self

    def transform(self, X: Any) -> Any:
        X = np.asarray(X, dtype=float)
        return X + np.random.default_rng().normal(size=X.shape)


class Shorter(TransformerMixin, BaseEstimator):
    """Returns fewer rows."""

    def fit(self, X: Any, y: Any = None) -> Shorter:
        return self

    def transform(self, X: Any) -> Any:
        return np.asarray(X, dtype=float)[1:]


class Broken(TransformerMixin, BaseEstimator):
    """Raises."""

    def fit(self, X: Any, y: Any = None) -> Broken:
        return self

    def transform(self, X: Any) -> Any:
        raise RuntimeError("the server\nis down")


class Single(TransformerMixin, BaseEstimator):
    """Computes in float32: too few digits for differences."""

    def fit(self, X: Any, y: Any = None) -> Single:
        return self

    def transform(self, X: Any) -> Any:
        return np.exp(np.asarray(X, dtype=np.float32) / np.float32(50.0))
