"""Teachers: one model per partition, trained in parallel; only the votes are kept.

Only votes are needed, so training fills a table row by row. `Progress` holds the votes of the teachers that have
finished, and a digest of everything they depend on. An interrupted run resumes from it; a state from other data,
another estimator or another partition is refused.
"""

from __future__ import annotations

import platform
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dosimeter.core.arrays import Index, Mask
from dosimeter.core.errors import Refusal
from dosimeter.pate.estimators import describe_estimator, fit_fresh
from dosimeter.pate.partition import SALT, Partition, as_persons, digest_of
from dosimeter.pate.votes import Votes

_OPEN = -1
"""In the table of votes: this teacher has not voted yet."""


@dataclass(frozen=True, eq=False)
class Progress:
    """The votes so far, as plain arrays that `files` writes and reads. Internal.

    Examples
    --------
    >>> Progress(np.array([[0, 1], [-1, -1]], dtype=np.int32), np.array([2, 0], dtype=np.int32), 2, "digest")
    <Progress: 1 of 2 teachers finished, internal>
    """

    votes: NDArray[np.int32]
    """(teachers, queries), -1 in the rows of teachers that have not finished."""
    class_counts: NDArray[np.int32]
    """(teachers,) number of classes in the teacher's part; 0 if it has no rows or has not finished."""
    n_classes: int
    digest: str
    """Of the data, the queries, the estimator, the partition and the classes."""

    @property
    def finished(self) -> Mask:
        """(teachers,) whether each has voted."""
        return np.asarray((self.votes != _OPEN).all(axis=1))

    @property
    def empty(self) -> int:
        """Number of teachers that have no rows and vote by a public rule."""
        return int(np.sum(self.finished & (self.class_counts == 0)))

    @property
    def constant(self) -> int:
        """Number of teachers that saw only one class and always vote for it."""
        return int(np.sum(self.class_counts == 1))

    @property
    def lacking(self) -> int:
        """Number of teachers that lack a class, including those with one class or without rows."""
        return int(np.sum(self.finished & (self.class_counts < self.n_classes)))

    def with_votes(self, teachers: Sequence[int], votes: Any, class_counts: Any) -> Progress:
        """The state after these teachers have voted."""
        table, counts_after = self.votes.copy(), self.class_counts.copy()
        table[list(teachers)], counts_after[list(teachers)] = votes, class_counts
        return replace(self, votes=table, class_counts=counts_after)

    def __repr__(self) -> str:
        return f"<Progress: {int(self.finished.sum())} of {len(self.class_counts)} teachers finished, internal>"


@dataclass(frozen=True, eq=False)
class Teachers:
    """The ensemble: one estimator for each of `n_teachers` disjoint parts of the rows.

    Parameters
    ----------
    estimator : scikit-learn classifier or callable
        A classifier, cloned for each teacher, or factory(X, y) that returns an object with predict(X), where y holds
        class numbers. A random_state of None is set to the teacher's number, so that votes depend neither on the number
        of processes nor on a restart.
    n_teachers : int
        Number of parts, 2 or more.
    groups : sequence of hashable of length n, or Partition, optional
        The person of each row. Default: every row is a person.
    salt : str
        Public key of the hash that assigns people to teachers.
    even : bool, default False
        Equal parts, see `Partition.of`. Rows without persons are always split evenly, by their number: a replaced row
        keeps its part, and the number of rows is assumed public.

    Notes
    -----
    A teacher without rows votes by a public rule, `public_votes`.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = np.arange(12.0)[:, None], ["low"] * 6 + ["high"] * 6
    >>> teachers = Teachers(DecisionTreeClassifier(), 2, groups=list("mmnnooppqqrr"))
    >>> teachers.vote(X, y, [[0.0], [11.0]]).values.tolist()     # classes in order: high, low
    [[1, 0], [1, 0]]
    """

    estimator: Any
    n_teachers: int
    groups: Any = None
    salt: str = SALT
    even: bool = False
    """Equal parts, see `Partition.of`; rows without persons are always split evenly."""

    def partition(self, n: int) -> Partition:
        """The partition of n rows."""
        if isinstance(self.groups, Partition):
            partition = self.groups
            if partition.n_parts != self.n_teachers:
                raise Refusal(
                    f"{self.n_teachers} teachers for a partition into {partition.n_parts} parts: use the same number"
                )
        else:
            by_row = self.groups is None
            persons = range(n) if by_row else as_persons(self.groups)
            partition = Partition.of(persons, self.n_teachers, salt=self.salt, even=by_row or self.even)
        if partition.parts.size != n:
            raise Refusal(f"{partition.parts.size} persons for {n} rows: give each row one person")
        return partition

    def training(
        self, X: Any, y: ArrayLike, queries: Any, *, classes: Sequence[Hashable] | None = None
    ) -> TeacherTraining:
        """Check the arrays and prepare the training; nothing is trained yet.

        Parameters
        ----------
        X : array_like of shape (n, ...)
            Private rows.
        y : array_like of shape (n,)
            Their labels.
        queries : array_like of shape (q, ...)
            Public rows to vote on.
        classes : sequence of hashable, optional
            The public list of labels, in the order in which votes number them. Default: the sorted labels of y.

        Returns
        -------
        TeacherTraining

        Raises
        ------
        Refusal
            If shapes do not match, a label is not in `classes`, or the estimator cannot be trained.
        """
        X, queries = _as_rows(X, "X"), _as_rows(queries, "queries")
        if X.shape[1:] != queries.shape[1:]:
            raise Refusal(f"rows have shape {X.shape[1:]}, queries {queries.shape[1:]}: give both the same columns")
        codes, m = encode_labels(y, classes)
        if len(codes) != len(X):
            raise Refusal(f"{len(codes)} labels for {len(X)} rows: give each row one label")
        describe_estimator(self.estimator)  # refuses an untrainable estimator before the work starts
        return TeacherTraining(self.estimator, X, codes, queries, m, self.partition(len(X)))

    def vote(
        self,
        X: Any,
        y: ArrayLike,
        queries: Any,
        *,
        classes: Sequence[Hashable] | None = None,
        n_jobs: int | None = None,
    ) -> Votes:
        """Train all teachers and collect their votes in one call; `training` does it with a state that can be saved."""
        work = self.training(X, y, queries, classes=classes)
        *_, state = work.run(n_jobs=n_jobs)
        return work.votes(state)


@dataclass(frozen=True, eq=False)
class TeacherTraining:
    """Checked arrays and the work on them: `start`, `run` from a state, then `votes`. Internal.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = np.arange(12.0)[:, None], [0] * 6 + [1] * 6
    >>> work = Teachers(DecisionTreeClassifier(), 2).training(X, y, [[0.0], [11.0]])
    >>> *_, state = work.run(every=1)
    >>> state, work.votes(state)
    (<Progress: 2 of 2 teachers finished, internal>, <Votes of 2 teachers on 2 queries, 2 classes, internal>)
    """

    estimator: Any
    X: NDArray[Any]
    y: Index
    queries: NDArray[Any]
    n_classes: int
    partition: Partition

    def start(self) -> Progress:
        """The state before any teacher has voted."""
        shape = (self.partition.n_parts, len(self.queries))
        votes, class_counts = np.full(shape, _OPEN, dtype=np.int32), np.zeros(shape[0], dtype=np.int32)
        return Progress(votes, class_counts, self.n_classes, self.digest)

    def run(self, state: Progress | None = None, *, n_jobs: int | None = None, every: int = 8) -> Iterator[Progress]:
        """Train the remaining teachers and yield the state after each `every` of them; the last state is complete.

        Parameters
        ----------
        state : Progress, optional
            Where to resume; default: the start.
        n_jobs : int, optional
            As in joblib, whose backends (`with joblib.parallel_config("dask")`) all work.
        every : int, default 8
            Teachers between two states.

        Yields
        ------
        Progress

        Raises
        ------
        Refusal
            If the state belongs to other data or settings.
        """
        state = self.start() if state is None else self.check(state)
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise Refusal(f"every={every!r}: give a whole number of teachers, at least 1")
        if n_jobs == 0:
            raise Refusal("n_jobs=0: give a number of processes, or -1 for all cores")
        from joblib import Parallel, delayed  # type: ignore[import-untyped]

        remaining = np.flatnonzero(~state.finished).tolist()
        for start in range(0, len(remaining), every):
            batch = remaining[start : start + every]
            results = Parallel(n_jobs=n_jobs)(delayed(_teach)(self.estimator, *self._of(t)) for t in batch)
            state = state.with_votes(batch, np.array([v for v, _ in results]), [k for _, k in results])
            yield state
        if not remaining:
            yield state

    def check(self, state: Progress) -> Progress:
        """The state, if it belongs to this training; else a refusal."""
        if state.digest != self.digest or state.n_classes != self.n_classes:
            raise Refusal(
                "the saved state belongs to other rows, queries, classes, teachers, libraries or another estimator: "
                "start again, or use the inputs it was made from"
            )
        if state.votes.shape != (self.partition.n_parts, len(self.queries)) or state.class_counts.shape != (
            len(state.votes),
        ):
            raise Refusal(f"the saved state has votes of shape {state.votes.shape}: it is damaged; start again")
        return state

    def votes(self, state: Progress) -> Votes:
        """The complete state as `Votes`, with its provenance."""
        self.check(state)
        if not state.finished.all():
            waiting = int(np.sum(~state.finished))
            raise Refusal(f"{waiting} of {len(state.finished)} teachers have not voted: resume from this state")
        return Votes(state.votes, state.n_classes, self.provenance)

    @cached_property
    def provenance(self) -> dict[str, str | int]:
        """Everything the votes depend on. Internal: a digest of data can confirm a guess of all of it."""
        return {
            "estimator": describe_estimator(self.estimator),
            "teachers": self.partition.n_parts,
            "partition": self.partition.digest,
            "data": digest_of(self.X, self.y),
            "queries": digest_of(self.queries),
            "libraries": _library_versions(),
        }

    @cached_property
    def digest(self) -> str:
        """Digest of everything the votes depend on."""
        return digest_of(repr(self.provenance), self.n_classes)

    def _of(self, teacher: int) -> tuple[Any, ...]:
        rows = self.partition.rows(teacher)
        return self.X[rows], self.y[rows], self.queries, self.n_classes, teacher


def encode_labels(y: ArrayLike, classes: Sequence[Hashable] | None = None) -> tuple[Index, int]:
    """(n,) the number of each label in `classes` (default: sorted labels of y), and the number of classes.

    >>> encode_labels(["b", "a", "b"])[0].tolist(), encode_labels([1, 1], classes=[0, 1, 2])[1]
    ([1, 0, 1], 3)
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or not labels.size:
        raise Refusal(f"labels of shape {labels.shape}: give one label per row")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise Refusal(f"row {int(np.argmin(np.isfinite(labels)))} (from 0) has no label: drop such rows")
    values = labels.tolist()
    try:
        class_list = sorted(set(values)) if classes is None else list(classes)
    except TypeError:  # None or nan among text, or numbers among text
        raise Refusal("labels are missing or of mixed types: use only numbers or only text, or pass classes") from None
    number = {label: k for k, label in enumerate(class_list)}
    if len(number) < len(class_list):
        raise Refusal("duplicate class in the list of classes: name each once")
    if len(number) < 2:
        raise Refusal("only one class: there is nothing to vote on")
    unknown_row = next((row for row, label in enumerate(values) if label not in number), None)
    if unknown_row is not None:
        raise Refusal(f"the label of row {unknown_row} (from 0) is not in the list of classes: add it, or drop the row")
    return np.array([number[label] for label in values], dtype=np.intp), len(number)


def _teach(estimator: Any, X: Any, y: Index, queries: Any, m: int, teacher: int) -> tuple[NDArray[np.int32], int]:
    """One teacher's votes (q,) and the number of classes in its part. Runs in another process or on another machine."""
    classes = np.unique(y)
    if not classes.size:  # a refusal would reveal that no id falls here
        return public_votes(teacher, len(queries), m), 0
    if len(classes) == 1:  # most classifiers cannot fit one class; borrowing rows would break the partition
        return np.full(len(queries), classes[0], dtype=np.int32), 1
    predicted = np.asarray(fit_fresh(estimator, X, y, teacher).predict(queries))
    if predicted.shape != (len(queries),):
        raise Refusal(f"teacher {teacher} predicts shape {predicted.shape}: predict must return one class per query")
    votes = predicted.astype(np.int32) if predicted.dtype.kind in "iuf" else np.full(len(queries), -1, dtype=np.int32)
    if not (np.array_equal(votes, predicted) and (votes >= 0).all() and (votes < m).all()):
        raise Refusal(f"teacher {teacher} predicts a value that is not a class from 0 to {m - 1}")
    return votes, len(classes)


def public_votes(teacher: int, n_queries: int, n_classes: int) -> NDArray[np.int32]:
    """(q,) votes of a teacher without rows: (query + teacher) modulo m, so that every class gets its share of them.

    >>> public_votes(1, 4, 3).tolist()
    [1, 2, 0, 1]
    """
    return ((np.arange(n_queries) + teacher) % n_classes).astype(np.int32)


def _as_rows(values: Any, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise Refusal(f"{name} has rows of different lengths: give every row the same columns") from None
    if array.ndim < 2 or not len(array):
        raise Refusal(f"{name} has shape {array.shape}: give at least one row of columns")
    return array


def _library_versions() -> str:
    import joblib
    import sklearn

    numbers = {"numpy": np.__version__, "scikit-learn": sklearn.__version__, "joblib": joblib.__version__}
    return ", ".join([f"python {platform.python_version()}", *(f"{k} {v}" for k, v in numbers.items())])
