"""Teachers: one model a part, trained in parallel, of which only the votes are kept.

Since nothing but votes is needed, training is a plain table that fills row by row: `Progress` holds the votes of the
teachers that are done, and a digest of everything they depend on. A run that was killed goes on from it; a state of
other data, another estimator or another partition is refused.
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
from dosimeter.pate.estimators import described, taught
from dosimeter.pate.partition import SALT, Partition, as_persons, digest_of
from dosimeter.pate.votes import Votes

_OPEN = -1
"""In the table of votes: this teacher has not voted yet."""


@dataclass(frozen=True, eq=False)
class Progress:
    """The votes so far, as plain arrays that `io` writes and reads. Internal."""

    votes: NDArray[np.int32]
    """(teachers, queries), -1 in the rows of teachers that are not done."""
    seen: NDArray[np.int32]
    """(teachers,) how many classes the teacher's part holds; 0 where it has no rows, and where it is not done."""
    n_classes: int
    digest: str
    """Of the data, the queries, the estimator, the partition and the classes."""

    @property
    def done(self) -> Mask:
        """(teachers,)."""
        return np.asarray((self.votes != _OPEN).all(axis=1))

    @property
    def empty(self) -> int:
        """How many teachers have no rows and vote by a public rule."""
        return int(np.sum(self.done & (self.seen == 0)))

    @property
    def constant(self) -> int:
        """How many teachers saw one class only and vote for it always."""
        return int(np.sum(self.seen == 1))

    @property
    def lacking(self) -> int:
        """How many teachers lack a class, those with one class or without rows among them."""
        return int(np.sum(self.done & (self.seen < self.n_classes)))

    def with_votes(self, teachers: Sequence[int], votes: Any, seen: Any) -> Progress:
        """The state after these teachers have voted."""
        table, counts = self.votes.copy(), self.seen.copy()
        table[list(teachers)], counts[list(teachers)] = votes, seen
        return replace(self, votes=table, seen=counts)

    def __repr__(self) -> str:
        return f"<Progress: {int(self.done.sum())} of {len(self.seen)} teachers done, internal>"


@dataclass(frozen=True, eq=False)
class Teachers:
    """How the teachers come about: one `estimator` for each of `n_teachers` disjoint parts of the rows.

    estimator: a scikit-learn classifier (cloned for each teacher), or a callable factory(X, y) that returns something
    with predict(X), y the numbers of the classes. groups: (n,) the person of each row, or a `Partition`; without it
    every row is a person. A random_state of None is set to the teacher's number, so that votes depend neither on the
    number of processes nor on a restart. Where no row has the hash of a teacher, that teacher votes by a public rule.

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
    """Of persons, see `Partition.of`. Rows without persons are always dealt evenly, by their number: a row that is
    replaced keeps its place, and how many rows there are is taken as known."""

    def partition(self, n: int) -> Partition:
        """Of n rows."""
        if isinstance(self.groups, Partition):
            made = self.groups
            if made.n_parts != self.n_teachers:
                raise Refusal(f"{self.n_teachers} teachers for a partition into {made.n_parts} parts: make them equal")
        else:
            rows = self.groups is None
            persons = range(n) if rows else as_persons(self.groups)
            made = Partition.of(persons, self.n_teachers, salt=self.salt, even=rows or self.even)
        if made.parts.size != n:
            raise Refusal(f"{made.parts.size} persons for {n} rows: give each row its person")
        return made

    def training(self, X: Any, y: ArrayLike, queries: Any, *, classes: Sequence[Hashable] | None = None) -> Training:
        """The work of teaching rows X (n, ...) with labels y (n,) and voting on queries (q, ...), none of it done.

        classes: the public list of labels, in the order in which votes number them; taken from y if not given.
        """
        X, queries = _rows(X, "X"), _rows(queries, "queries")
        if X.shape[1:] != queries.shape[1:]:
            raise Refusal(f"rows of shape {X.shape[1:]}, queries of shape {queries.shape[1:]}: give the same columns")
        codes, m = coded(y, classes)
        if len(codes) != len(X):
            raise Refusal(f"{len(codes)} labels for {len(X)} rows: give each row its label")
        described(self.estimator)  # what cannot be taught is refused before the work starts
        return Training(self.estimator, X, codes, queries, m, self.partition(len(X)))

    def vote(
        self,
        X: Any,
        y: ArrayLike,
        queries: Any,
        *,
        classes: Sequence[Hashable] | None = None,
        n_jobs: int | None = None,
    ) -> Votes:
        """Train every teacher and let it vote, at one go; `training` is the same with a state that survives."""
        work = self.training(X, y, queries, classes=classes)
        *_, state = work.run(n_jobs=n_jobs)
        return work.votes(state)


@dataclass(frozen=True, eq=False)
class Training:
    """Checked arrays, and the work on them: `start`, `run` from a state, and at last `votes`."""

    estimator: Any
    X: NDArray[Any]
    y: Index
    queries: NDArray[Any]
    n_classes: int
    partition: Partition

    def start(self) -> Progress:
        """Nobody has voted yet."""
        shape = (self.partition.n_parts, len(self.queries))
        votes, seen = np.full(shape, _OPEN, dtype=np.int32), np.zeros(shape[0], dtype=np.int32)
        return Progress(votes, seen, self.n_classes, self.digest)

    def run(self, state: Progress | None = None, *, n_jobs: int | None = None, every: int = 8) -> Iterator[Progress]:
        """The state after each `every` teachers, from `state` or from nothing; the last one is complete.

        n_jobs: as in joblib, whose backends (`with joblib.parallel_config("dask")`) all work.
        """
        state = self.start() if state is None else self.checked(state)
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise Refusal(f"every={every!r}: give a whole number of teachers above 0")
        if n_jobs == 0:
            raise Refusal("n_jobs=0: give a number of processes, or -1 for all cores")
        from joblib import Parallel, delayed  # type: ignore[import-untyped]

        waiting = np.flatnonzero(~state.done).tolist()
        for start in range(0, len(waiting), every):
            now = waiting[start : start + every]
            told = Parallel(n_jobs=n_jobs)(delayed(_teach)(self.estimator, *self._of(t)) for t in now)
            state = state.with_votes(now, np.array([v for v, _ in told]), [k for _, k in told])
            yield state
        if not waiting:
            yield state

    def checked(self, state: Progress) -> Progress:
        """The state, if it is one of this very work."""
        if state.digest != self.digest or state.n_classes != self.n_classes:
            raise Refusal(
                "the state is of other rows, queries, classes, teachers, libraries or another estimator: start anew, "
                "or give back what it was made from"
            )
        if state.votes.shape != (self.partition.n_parts, len(self.queries)) or state.seen.shape != (len(state.votes),):
            raise Refusal(f"the state has votes of shape {state.votes.shape}: it is damaged; start anew")
        return state

    def votes(self, state: Progress) -> Votes:
        """The complete state as `Votes`, with where they come from."""
        self.checked(state)
        if not state.done.all():
            raise Refusal(f"{int(np.sum(~state.done))} of {len(state.seen)} teachers have not voted: run on from here")
        return Votes(state.votes, state.n_classes, self.provenance)

    @cached_property
    def provenance(self) -> dict[str, str | int]:
        """What the votes depend on. Internal: a digest of data confirms a guess of all of it."""
        return {
            "estimator": described(self.estimator),
            "teachers": self.partition.n_parts,
            "partition": self.partition.digest,
            "data": digest_of(self.X, self.y),
            "queries": digest_of(self.queries),
            "libraries": _libraries(),
        }

    @cached_property
    def digest(self) -> str:
        """Of all that the votes depend on."""
        return digest_of(repr(self.provenance), self.n_classes)

    def _of(self, teacher: int) -> tuple[Any, ...]:
        rows = self.partition.rows(teacher)
        return self.X[rows], self.y[rows], self.queries, self.n_classes, teacher


def coded(y: ArrayLike, classes: Sequence[Hashable] | None = None) -> tuple[Index, int]:
    """(n,) the number of each label in `classes` (sorted labels of y if not given), and how many classes there are.

    >>> coded(["b", "a", "b"])[0].tolist(), coded([1, 1], classes=[0, 1, 2])[1]
    ([1, 0, 1], 3)
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or not labels.size:
        raise Refusal(f"labels of shape {labels.shape}: give one label a row")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise Refusal(f"row {int(np.argmin(np.isfinite(labels)))} (from 0) has no label: leave such rows out")
    found = labels.tolist()
    try:
        safe_list = sorted(set(found)) if classes is None else list(classes)
    except TypeError:  # None or nan among text, numbers among text
        raise Refusal("labels of unlike kinds, or missing: give numbers or text throughout, or the classes") from None
    place = {label: k for k, label in enumerate(safe_list)}
    if len(place) < len(safe_list):
        raise Refusal("a class stands twice in the list of classes: name each once")
    if len(place) < 2:
        raise Refusal("one class only: there is nothing to vote on")
    strange = next((row for row, label in enumerate(found) if label not in place), None)
    if strange is not None:
        raise Refusal(
            f"the label of row {strange} (from 0) is not in the list of classes: add it, or leave the row out"
        )
    return np.array([place[label] for label in found], dtype=np.intp), len(place)


def _teach(estimator: Any, X: Any, y: Index, queries: Any, m: int, teacher: int) -> tuple[NDArray[np.int32], int]:
    """One teacher's votes (q,) and the number of classes in its part. Runs in another process or on another machine."""
    seen = np.unique(y)
    if not seen.size:  # a refusal would tell that nobody's id falls here
        return public_votes(teacher, len(queries), m), 0
    if len(seen) == 1:  # most classifiers refuse to fit one class; asking other parts for rows would break the parts
        return np.full(len(queries), seen[0], dtype=np.int32), 1
    said = np.asarray(taught(estimator, X, y, teacher).predict(queries))
    if said.shape != (len(queries),):
        raise Refusal(f"teacher {teacher} answers with shape {said.shape}: predict must give one class a query")
    whole = said.astype(np.int32) if said.dtype.kind in "iuf" else np.full(len(queries), -1, dtype=np.int32)
    if not (np.array_equal(whole, said) and (whole >= 0).all() and (whole < m).all()):
        raise Refusal(f"teacher {teacher} answers with something that is not a class from 0 to {m - 1}")
    return whole, len(seen)


def public_votes(teacher: int, n_queries: int, n_classes: int) -> NDArray[np.int32]:
    """(q,) votes of a teacher without rows: (query + teacher) modulo m, so that every class gets its share of them.

    >>> public_votes(1, 4, 3).tolist()
    [1, 2, 0, 1]
    """
    return ((np.arange(n_queries) + teacher) % n_classes).astype(np.int32)


def _rows(values: Any, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise Refusal(f"{name} has rows of unlike lengths: give rows of the same columns") from None
    if array.ndim < 2 or not len(array):
        raise Refusal(f"{name} of shape {array.shape}: give rows of columns, at least one")
    return array


def _libraries() -> str:
    import joblib
    import sklearn

    numbers = {"numpy": np.__version__, "scikit-learn": sklearn.__version__, "joblib": joblib.__version__}
    return ", ".join([f"python {platform.python_version()}", *(f"{k} {v}" for k, v in numbers.items())])
