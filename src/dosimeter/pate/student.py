"""The student: any estimator on the labels that were released, and what its accuracy costs.

Training is post-processing of released labels and public queries: the student gives away nothing beyond them
(Lemma 6 of [Saeidian21]), whatever it memorises.
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
from dosimeter.pate.doses import published
from dosimeter.pate.estimators import taught
from dosimeter.pate.label import Labels
from dosimeter.pate.threshold import Threshold


@dataclass(frozen=True)
class Student:
    """A scikit-learn classifier or factory(X, y), taught with noisy labels; queries without an answer are left out.

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
        """A model of the answered rows of X (q, ...); it speaks the names in `classes`, or numbers without them."""
        X, values = _matched(X, labels)
        answered = values >= 0
        found = np.unique(values[answered])
        if not found.size:
            raise Refusal("every query was refused: there is no label to learn from; lower the threshold")
        if found.size == 1:
            raise Refusal(
                f"all {int(answered.sum())} labels are class {found[0]}: there is nothing to learn; ask more queries, "
                "or allow a larger budget"
            )
        return taught(self.estimator, X[answered], _named(values[answered], labels.n_classes, classes))

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
        """Accuracy on the test rows after the first k queries, for each k of `sizes`, beside the nats spent by then.

        noise, threshold: those that the labels were made with. y_test: numbers of classes.
        """
        X, values = _matched(X, labels)
        made = labels.release.recipe
        if repr(noise) != made.noise:
            raise Refusal(f"the labels were made with {made.noise}, not {noise!r}: give their noise")
        if _threshold(threshold) != (made.settings["threshold"], made.settings["threshold noise"]):
            # A threshold with little noise costs more than the vote, and left out it would be charged nothing.
            raise Refusal(f"the labels were not made with the threshold {threshold!r}: give the one that they had")
        truth, test = np.asarray(y_test), np.asarray(X_test)
        if truth.shape != (len(test),) or not truth.size:
            raise Refusal(f"{len(test)} test rows and labels of shape {truth.shape}: give each row its label")
        asked = [_size(k, len(values)) for k in sizes]
        spent = [published(k, labels.n_classes, noise, threshold=threshold).nats for k in asked]
        said = [self._accuracy(X[:k], values[:k], test, truth) for k in asked]
        answered = [int(np.sum(values[:k] >= 0)) for k in asked]
        return LearningCurve(np.array(asked), np.array(answered), np.array(spent), np.array(said))

    def _accuracy(self, X: NDArray[Any], values: NDArray[Any], test: NDArray[Any], truth: NDArray[Any]) -> float:
        answered = values >= 0
        found = np.unique(values[answered])
        if found.size < 2:  # nothing, or one class: the best that can be said is that class, or the first
            return float(np.mean(truth == (found[0] if found.size else 0)))
        return float(np.mean(np.asarray(taught(self.estimator, X[answered], values[answered]).predict(test)) == truth))


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """What so many queries bought. Made of released labels: public where the test rows are, and not otherwise."""

    queries: Index
    """(s,) k."""
    answered: Index
    """(s,) how many of them got a label."""
    nats: FloatArray
    """(s,) spent after k queries: upper bound, data-independent, about any one teacher's part; every query counts."""
    accuracy: FloatArray
    """(s,) share of the test rows that the student gets right."""

    def __repr__(self) -> str:
        k, nats, accuracy = self.queries[-1], self.nats[-1], self.accuracy[-1]
        return f"<LearningCurve: accuracy {accuracy:.3f} after {k} queries and at most {nats:.4g} nats>"


def _matched(X: Any, labels: Labels) -> tuple[NDArray[Any], NDArray[np.int64]]:
    rows, values = np.asarray(X), labels.values
    if rows.ndim < 2 or len(rows) != len(values):
        raise Refusal(f"queries of shape {rows.shape} for {len(values)} labels: give the rows that were labelled")
    return rows, values


def _named(values: NDArray[np.int64], m: int, classes: Sequence[Hashable] | None) -> NDArray[Any]:
    if classes is None:
        return values
    if len(classes) != m:
        raise Refusal(f"{len(classes)} names for {m} classes: name each")
    # By the names that were released alone: the width of an array of all names tells the longest of them.
    return np.array([classes[value] for value in values.tolist()])


def _threshold(threshold: Threshold | None) -> tuple[float | None, str | None]:
    """As the recipe of labels has it."""
    return (None, None) if threshold is None else (threshold.T, repr(threshold.noise))


def _size(k: Any, most: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= most:
        raise Refusal(f"a size of {k!r}: give whole numbers from 1 to the {most} queries that were labelled")
    return int(k)
