"""From a private and a public table to the queries that teachers answer, and from their labels to a student."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.pate.ensemble import Teachers, TeacherTraining
from dosimeter.pate.label import Labels
from dosimeter.pate.partition import Partition
from dosimeter.pate.student import Student
from dosimeter.tables.classes import MOST_CLASSES, class_names, class_positions
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.learned_encoding import public_encoding
from dosimeter.tables.sklearn_export import pipeline
from dosimeter.tables.table import Table

ESTIMATORS = ("logistic", "tree", "forest", "bayes")
OTHER_LABELS = "earlier and later labels of the same people: each run adds its own nats"


@dataclass(frozen=True)
class LabelAccuracy:
    """Shares of right answers, by the public table's own target; None if they are not known."""

    labels: float | None = None
    student: float | None = None


@dataclass(frozen=True, eq=False)
class LabelTask:
    """The rows to learn from and the queries, as arrays."""

    columns: TableEncoding
    X: FloatArray
    """(n, d) private."""
    y: NDArray[np.str_]
    """(n,) private."""
    persons: tuple[Any, ...] | None
    """(n,) private; None if every row counts as another person."""
    places: Index
    """(n,) positions of the private rows in their source, from 0."""
    source_rows: int
    """Rows of the private source, including those left out for a missing value."""
    public: FloatArray
    """(p, d) all rows of the public table."""
    rows: Index
    """(p,) their positions in its source, from 0."""
    truth: NDArray[np.str_] | None
    """(p,) the public table's own target, if it has one: for scoring only."""
    n_queries: int
    """The queries are the first public rows, this many."""
    classes: tuple[str, ...]
    declared: bool
    """Whether the classes were listed in advance. If read off the private table, one person's label changes them."""
    not_covered: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    """On public columns that are not used."""

    @property
    def queries(self) -> FloatArray:
        """(k, d)."""
        return self.public[: self.n_queries]

    def training(self, estimator: str, n_teachers: int) -> TeacherTraining:
        """The training of the teachers, not started."""
        teachers = Teachers(estimator_of(estimator), n_teachers, groups=self.partition(n_teachers))
        return teachers.training(self.X, self.y, self.queries, classes=self.classes)

    def partition(self, n_teachers: int) -> Partition:
        """Persons by their own ids, or rows by their places in the source; never by values or by other rows.

        If a row is left out, or a person added or removed, all others keep their teachers.
        """
        if self.persons is not None:
            return Partition.of(self.persons, n_teachers)
        parts = Partition.of(range(self.source_rows), n_teachers, even=True).parts[self.places]
        return Partition.from_parts(parts, persons=self.places, n_parts=n_teachers)

    def student(self, labels: Labels) -> Any:
        """A logistic model of the labelled public rows, as a Pipeline over their columns by name."""
        fitted = Student(estimator_of("logistic")).fit(self.queries, labels, self.classes)
        return pipeline(self.columns, fitted)

    def score(self, labels: Labels, student: Any = None) -> LabelAccuracy:
        """Of the labels that were given, and of a student on the public rows that were no queries."""
        if self.truth is None:
            return LabelAccuracy()
        k, answered = self.n_queries, ~labels.refused
        names = np.asarray(self.classes)[np.maximum(labels.values, 0)]
        right = float(np.mean(names[answered] == self.truth[:k][answered])) if answered.any() else None
        if student is None or len(self.public) <= k:
            return LabelAccuracy(right)
        predicted = student.named_steps["model"].predict(self.public[k:])
        return LabelAccuracy(right, float(np.mean(predicted == self.truth[k:])))


def label_task(
    private: Table,
    public: Table,
    target: str,
    *,
    person: str | None = None,
    categorical: Sequence[str] = (),
    classes: Sequence[str] | None = None,
    queries: int | None = None,
) -> LabelTask:
    """Columns by the public table, classes as listed or as in the private table, the first public rows as queries.

    >>> private = Table.of({"age": [31, 54, 47, 62], "ill": ["no", "yes", "no", "yes"]})
    >>> task = label_task(private, Table.of({"age": [40, 50, 60]}), "ill", queries=2)
    >>> task.queries.tolist(), task.classes
    ([[40.0], [50.0]], ('no', 'yes'))
    """
    y = class_names(private, target, classes)
    if person == target:
        raise Refusal(f"the target {safe_text(target)} is also the person: name two columns")
    aside = [target, *([] if person is None else [person])]
    codes = [name for name in categorical if name not in aside]
    columns, remarks = public_encoding(private, public, aside=aside, categorical=codes)
    k = public.n if queries is None else queries
    if not 1 <= k <= public.n:
        raise Refusal(f"{option('queries', k)}: give a number of public rows from 1 to {public.n}")
    return LabelTask(
        columns=columns,
        X=columns.design(private),
        y=y,
        persons=None if person is None else tuple(private[person].tolist()),
        places=private.rows,
        source_rows=max(private.n + private.dropped, int(private.rows.max()) + 1),
        public=columns.design(public),
        rows=public.rows,
        truth=_truth(public, target, classes) if target in public.names else None,
        n_queries=k,
        classes=_class_list(classes, y, target),
        declared=classes is not None,
        not_covered=_not_covered(target, person, classes is None),
        remarks=remarks,
    )


def estimator_of(name: str) -> Any:
    """A classifier by name. One that needs scaling scales inside, so that each teacher does so on its own rows."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    if name == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    if name == "tree":
        return DecisionTreeClassifier()
    if name == "forest":
        return RandomForestClassifier(n_estimators=50)
    if name == "bayes":
        return GaussianNB(var_smoothing=1e-3)
    raise Refusal(f"{option('estimator', safe_text(name))}: use {', '.join(ESTIMATORS)}")


def _class_list(classes: Sequence[str] | None, y: NDArray[np.str_], target: str) -> tuple[str, ...]:
    if classes is None:
        return tuple(sorted(set(y.tolist())))
    listed = check_classes(classes)
    if not set(y.tolist()) <= set(listed):
        raise Refusal(f"the target {safe_text(target)} has a value that is not in the list of classes: add it there")
    return listed


def check_classes(classes: Sequence[str]) -> tuple[str, ...]:
    """A list of classes that can be voted on, checked before any row is read."""
    listed = tuple(classes)
    if not 2 <= len(listed) <= MOST_CLASSES or len(set(listed)) < len(listed) or not all(listed):
        raise Refusal(f"{option('classes')}: {len(listed)} classes; list from 2 to {MOST_CLASSES}, each once")
    return listed


def _truth(public: Table, target: str, classes: Sequence[str] | None) -> NDArray[np.str_]:
    """(n,) the public rows' own classes, as the list writes them; a class that is not listed stays as it is."""
    names = class_names(public, target, classes)
    if classes is None:
        return names
    listed = zip(class_positions(names.tolist(), classes).tolist(), names.tolist(), strict=True)
    return np.array([name if k < 0 else classes[k] for k, name in listed])


def _not_covered(target: str, person: str | None, read: bool) -> tuple[str, ...]:
    """read: the classes were read off the private table."""
    notes = ["the choice of columns, teachers and estimator, if made by looking at the private table"]
    if read:
        notes.insert(
            0,
            f"the list of classes: read off {safe_text(target)}, where one person's label changes it, and with it the "
            f"noise and every figure ({option('classes')} lists them in advance)",
        )
    if person is None:
        notes += [
            f"which rows belong to one person: each row counts as another person ({option('person')} names the column)",
            "how many rows there are: a row's place in the file decides its teacher",
        ]
    else:
        notes.append(
            "who is in the table: a person's rows, and whether they are there, are covered; which of several persons "
            "it is moves two teachers, and has a figure of its own"
        )
    notes.append(OTHER_LABELS)
    return tuple(notes)
