"""The student: any estimator trained on the released labels, and the privacy cost of its accuracy.

Training is post-processing of released labels and public queries: the student leaks nothing beyond them (Lemma 6 of
[Saeidian21]), whatever it memorises.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.density import Density
from dosimeter.core.errors import Refusal
from dosimeter.pate.doses import public_bound
from dosimeter.pate.estimators import fit_fresh
from dosimeter.pate.label import Labels
from dosimeter.pate.threshold import Threshold


@dataclass(frozen=True)
class Student:
    """A classifier to be trained on noisy labels; refused queries are dropped.

    Parameters
    ----------
    estimator : scikit-learn classifier or callable
        A classifier, or factory(X, y) that returns an object with predict(X).

    Examples
    --------
    >>> from dosimeter.core.noise import Laplace
    >>> from dosimeter.pate.label import label
    >>> from dosimeter.pate.votes import Votes
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> labels = label(Votes([[0, 1]] * 1000, n_classes=2), Laplace(1.0))
    >>> model = Student(DecisionTreeClassifier()).fit([[0.0], [5.0]], labels, classes=["low", "high"])
    >>> model.predict([[1.0], [4.0]]).tolist()
    ['low', 'high']
    """

    estimator: Any

    def fit(self, X: Any, labels: Labels, classes: Sequence[Hashable] | None = None) -> Any:
        """A model of the answered queries.

        Parameters
        ----------
        X : array_like of shape (q, ...)
            The queries.
        labels : Labels
            Their released labels.
        classes : sequence of hashable, optional
            Names of the classes, which the model then predicts; default: class numbers.

        Returns
        -------
        object
            The fitted model.

        Raises
        ------
        Refusal
            If fewer than two classes were released.
        """
        X, values = _match_rows(X, labels)
        answered = values >= 0
        present = np.unique(values[answered])
        if not present.size:
            raise Refusal("every query was refused, so there is no label to learn from: lower the threshold")
        if present.size == 1:
            raise Refusal(
                f"all {int(answered.sum())} labels are class {present[0]}, so there is nothing to learn: use more "
                "queries or a larger budget"
            )
        return fit_fresh(self.estimator, X[answered], _name_classes(values[answered], labels.n_classes, classes))

    def learning_curve(
        self,
        X: Any,
        labels: Labels,
        X_test: Any,
        y_test: ArrayLike,
        sizes: Sequence[int],
        noise: Density,
        *,
        threshold: Threshold | None = None,
    ) -> LearningCurve:
        """Accuracy on test rows after the first k queries, with the nats spent by then.

        Parameters
        ----------
        X : array_like of shape (q, ...)
            The queries.
        labels : Labels
            Their released labels.
        X_test, y_test : array_like of shape (t, ...) and (t,)
            Test rows and their class numbers.
        sizes : sequence of int
            The values of k.
        noise : Density
            The noise the labels were released with.
        threshold : Threshold, optional
            The threshold the labels were released with.

        Returns
        -------
        LearningCurve

        Raises
        ------
        Refusal
            If noise or threshold differ from the labels' recipe, or a size is out of range.
        """
        X, values = _match_rows(X, labels)
        recipe = labels.release.recipe
        if repr(noise) != recipe.noise:
            raise Refusal(f"the labels were released with {recipe.noise}, not {noise!r}: pass their noise")
        if _threshold_settings(threshold) != (recipe.settings["threshold"], recipe.settings["threshold noise"]):
            # A threshold with little noise costs more than the vote; if it were left out, it would be free.
            raise Refusal(f"the labels were not released with the threshold {threshold!r}: pass theirs")
        truth, test = np.asarray(y_test), np.asarray(X_test)
        if truth.shape != (len(test),) or not truth.size:
            raise Refusal(f"{len(test)} test rows and labels of shape {truth.shape}: give each row one label")
        counts = [_check_size(k, len(values)) for k in sizes]
        spent = [public_bound(k, labels.n_classes, noise, threshold=threshold).nats for k in counts]
        accuracies = [self._accuracy(X[:k], values[:k], test, truth) for k in counts]
        answered = [int(np.sum(values[:k] >= 0)) for k in counts]
        return LearningCurve(np.array(counts), np.array(answered), np.array(spent), np.array(accuracies))

    def _accuracy(self, X: NDArray[Any], values: NDArray[Any], test: NDArray[Any], truth: NDArray[Any]) -> float:
        answered = values >= 0
        present = np.unique(values[answered])
        if present.size < 2:  # with no label or one class, predict that class, or the first
            return float(np.mean(truth == (present[0] if present.size else 0)))
        return float(
            np.mean(np.asarray(fit_fresh(self.estimator, X[answered], values[answered]).predict(test)) == truth)
        )


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Accuracy and privacy cost after k queries. Computed from released labels: public if the test rows are.

    Examples
    --------
    >>> LearningCurve(np.array([10]), np.array([9]), np.array([0.5]), np.array([0.9]))
    <LearningCurve: accuracy 0.900 after 10 queries and at most 0.5 nats>
    """

    queries: Index
    """(s,) k."""
    answered: Index
    """(s,) how many of them got a label."""
    nats: FloatArray
    """(s,) spent after k queries: upper bound, data-independent, about any one teacher's part; every query counts."""
    accuracy: FloatArray
    """(s,) share of the test rows that the student predicts correctly."""

    def __repr__(self) -> str:
        k, nats, accuracy = self.queries[-1], self.nats[-1], self.accuracy[-1]
        return f"<LearningCurve: accuracy {accuracy:.3f} after {k} queries and at most {nats:.4g} nats>"


def _match_rows(X: Any, labels: Labels) -> tuple[NDArray[Any], NDArray[np.int64]]:
    rows, values = np.asarray(X), labels.values
    if rows.ndim < 2 or len(rows) != len(values):
        raise Refusal(f"queries of shape {rows.shape} for {len(values)} labels: pass the rows that were labelled")
    return rows, values


def _name_classes(values: NDArray[np.int64], m: int, classes: Sequence[Hashable] | None) -> NDArray[Any]:
    if classes is None:
        return values
    if len(classes) != m:
        raise Refusal(f"{len(classes)} names for {m} classes: name every class")
    # Use only names that were released: the width of an array of all names reveals the longest one.
    return np.array([classes[value] for value in values.tolist()])


def _threshold_settings(threshold: Threshold | None) -> tuple[float | None, str | None]:
    """As in the recipe of labels."""
    return (None, None) if threshold is None else (threshold.T, repr(threshold.noise))


def _check_size(k: Any, most: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= most:
        raise Refusal(f"size {k!r}: use whole numbers from 1 to {most}, the number of labelled queries")
    return int(k)
