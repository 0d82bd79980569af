"""From a private and a public table to what the teachers are asked, and from their labels to a student."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text
from dosimeter.pate.ensemble import Teachers, Training
from dosimeter.pate.label import Labels
from dosimeter.pate.partition import Partition
from dosimeter.pate.student import Student
from dosimeter.tables.classes import places
from dosimeter.tables.public_encoding import MOST_CLASSES, PublicColumns, class_names
from dosimeter.tables.table import Table

ESTIMATORS = ("logistic", "tree", "forest", "bayes")


@dataclass(frozen=True, eq=False)
class LabelTask:
    """The rows to learn from and the questions, as arrays; what the questions may not tell is in `uncovered`."""

    columns: PublicColumns
    X: FloatArray
    """(n, d) private."""
    y: NDArray[np.str_]
    """(n,) private."""
    persons: tuple[Any, ...] | None
    """(n,) private; None where every row is taken for another person."""
    places: Index
    """(n,) positions of the private rows in their source, from 0."""
    source_rows: int
    """Rows of the private source, those left out for a missing value among them."""
    public: FloatArray
    """(p, d) all rows of the public table."""
    rows: Index
    """(p,) their positions in its source, from 0."""
    truth: NDArray[np.str_] | None
    """(p,) the public table's own target, if it has one: for scoring only."""
    n_queries: int
    """The first so many public rows are asked."""
    classes: tuple[str, ...]
    declared: bool
    """Whether the classes were listed beforehand; read off the private table, one person's label changes them."""
    uncovered: tuple[str, ...]

    @property
    def queries(self) -> FloatArray:
        """(k, d)."""
        return self.public[: self.n_queries]

    def training(self, estimator: str, n_teachers: int) -> Training:
        """The work of teaching, none of it done."""
        teachers = Teachers(estimator_of(estimator), n_teachers, groups=self.partition(n_teachers))
        return teachers.training(self.X, self.y, self.queries, classes=self.classes)

    def partition(self, n_teachers: int) -> Partition:
        """Persons by their own ids, rows by their places in the source: nobody else's rows decide, and no row's values.

        A row left out, and a person added or removed, leave all others with their teachers.
        """
        if self.persons is not None:
            return Partition.of(self.persons, n_teachers)
        parts = Partition.of(range(self.source_rows), n_teachers, even=True).parts[self.places]
        return Partition.given(parts, persons=self.places, n_parts=n_teachers)

    def student(self, labels: Labels) -> Any:
        """A logistic model of the labelled public rows, as a Pipeline over their columns by name."""
        fitted = Student(estimator_of("logistic")).fit(self.queries, labels, self.classes)
        return self.columns.pipeline(fitted)

    def score(self, labels: Labels, student: Any = None) -> dict[str, float]:
        """Right answers among the labels given, and of a student on the public rows that were not asked."""
        if self.truth is None:
            return {}
        k, given = self.n_queries, ~labels.refused
        names = np.asarray(self.classes)[np.maximum(labels.values, 0)]
        told = {"labels": float(np.mean(names[given] == self.truth[:k][given]))} if given.any() else {}
        if student is not None and len(self.public) > k:
            said = student.named_steps["model"].predict(self.public[k:])
            told["student"] = float(np.mean(said == self.truth[k:]))
        return told


def ballot(
    private: Table,
    public: Table,
    target: str,
    *,
    person: str | None = None,
    nominal: Sequence[str] = (),
    classes: Sequence[str] | None = None,
    queries: int | None = None,
) -> LabelTask:
    """Columns by the public table, classes as listed or as found, the first `queries` public rows as questions.

    >>> private = Table.of({"age": [31, 54, 47, 62], "ill": ["no", "yes", "no", "yes"]})
    >>> asked = ballot(private, Table.of({"age": [40, 50, 60]}), "ill", queries=2)
    >>> asked.queries.tolist(), asked.classes
    ([[40.0], [50.0]], ('no', 'yes'))
    """
    y = class_names(private, target, classes)
    if person == target:
        raise Refusal(f"the target {safe_text(target)} is also the person: name two columns")
    aside = [target, *([] if person is None else [person])]
    columns = PublicColumns.of(private, public, aside=aside, nominal=[n for n in nominal if n not in aside])
    k = public.n if queries is None else queries
    if not 1 <= k <= public.n:
        raise Refusal(f"{k} queries of {public.n} public rows: ask from 1 to {public.n}")
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
        classes=_listed(classes, y, target),
        declared=classes is not None,
        uncovered=_uncovered(target, person, classes is None),
    )


def estimator_of(name: str) -> Any:
    """A classifier by name; what needs scaling scales inside, so that each teacher does so on its own rows."""
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
    raise Refusal(f"estimator {safe_text(name)}: use {', '.join(ESTIMATORS)}")


def _listed(classes: Sequence[str] | None, y: NDArray[np.str_], target: str) -> tuple[str, ...]:
    if classes is None:
        return tuple(sorted(set(y.tolist())))
    safe_list = check_classes(classes)
    if not set(y.tolist()) <= set(safe_list):
        raise Refusal(f"the target {safe_text(target)} has a value that is not in the list of classes: add it there")
    return safe_list


def check_classes(classes: Sequence[str]) -> tuple[str, ...]:
    """A list of classes that can be voted on, before any row is looked at."""
    safe_list = tuple(classes)
    if not 2 <= len(safe_list) <= MOST_CLASSES or len(set(safe_list)) < len(safe_list) or not all(safe_list):
        raise Refusal(f"{len(safe_list)} classes: list from 2 to {MOST_CLASSES}, each once, separated by commas")
    return safe_list


def _truth(public: Table, target: str, classes: Sequence[str] | None) -> NDArray[np.str_]:
    """(n,) the public rows' own classes, as the list writes them; one that is not listed is as it stands."""
    found = class_names(public, target, classes)
    if classes is None:
        return found
    place = zip(places(found.tolist(), classes).tolist(), found.tolist(), strict=True)
    return np.array([name if k < 0 else classes[k] for k, name in place])


def _uncovered(target: str, person: str | None, found: bool) -> tuple[str, ...]:
    notes = ["the choice of columns, teachers and estimator, if made by looking at the private table"]
    if found:
        notes.insert(
            0,
            f"the list of classes: read off {safe_text(target)}, where one person's label changes it, and with it the "
            "noise and every figure (--classes lists them beforehand)",
        )
    if person is None:
        notes += [
            "whose rows are whose: each row is taken for another person (--person names the column)",
            "how many rows there are: a row's place in the file decides its teacher",
        ]
    else:
        notes.append(
            "who is in the table: a person's rows, and whether they are there, are covered; which of several persons "
            "it is moves two teachers, and has a figure of its own"
        )
    notes.append("earlier and later labels of the same people: each run adds its own nats")
    return tuple(notes)
