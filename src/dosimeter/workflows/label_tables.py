"""What `label` reads: votes made elsewhere, or a private and a public table; each as a task for teachers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.models.label_task import LabelTask, check_classes, estimator_of, label_task
from dosimeter.models.vote_set import DroppedRows, ImportedVotes, TablesTask
from dosimeter.tables.declared_rows import DeclaredRows, check_declared, declared_rows
from dosimeter.workflows.label_question import LabelQuestion
from dosimeter.workflows.people_table import Data, FitBounds, every_value, is_path, names_of, read_people

if TYPE_CHECKING:
    from dosimeter.tables.table import Table

DEMO_QUERIES = 50
"""Of the demonstration, chosen on the digits themselves, so that most labels come out right."""


def imported_votes(question: LabelQuestion) -> ImportedVotes:
    """Votes in a file, or in an array."""
    import numpy as np

    from dosimeter.files.pate_checkpoint import read_votes
    from dosimeter.pate.votes import Votes

    count, votes = str(question.classes or "").strip(), question.votes
    if not count.isdecimal():
        raise Refusal(
            f"{option('votes')} needs {option('classes')} and the number of classes, such as {option('classes', 10)}"
        )
    values = read_votes(votes) if is_path(votes) else np.asarray(votes)
    if values.ndim == 2 and question.queries is not None:
        if not 1 <= question.queries <= values.shape[1]:
            raise Refusal(f"{option('queries', question.queries)}: the file has votes on {values.shape[1]} queries")
        values = values[:, : question.queries]
    try:
        return ImportedVotes(Votes(values, int(count)), Path(votes).name if is_path(votes) else "an array")
    except Refusal as error:
        raise Refusal(f"{safe_text(votes, 120) if is_path(votes) else 'votes'}: {error}") from None


def tables_task(table: Data, question: LabelQuestion) -> TablesTask:
    """Two tables read, or the digits without them."""
    estimator_of(question.estimator)  # a name that is not known is refused before anything is read
    if table is None:
        return _digits_task(question)
    declared = question.declared()
    classes = question.public_classes(declared)
    if classes is not None:
        check_classes(classes)
    _refuse_itself(table, question.public)
    private = _read_private(table, question, declared, classes)
    codes = tuple(dict.fromkeys([*question.categorical, *declared.text]))
    rows = _read_public(question, codes, private.table.names)
    key, person = question.key, question.person
    task = label_task(
        private.table,
        rows.drop([] if key is None else [key]),
        str(question.target),
        person=person,
        categorical=codes,
        classes=classes,
        queries=question.queries,
    )
    names = task.rows + 1 if key is None else rows[key]
    return TablesTask(
        task=task,
        keys=tuple(names[: task.n_queries].tolist()),
        source=Path(table).name if is_path(table) else "a dataframe",
        estimator=question.estimator,
        teachers=question.teachers,
        key_name="row" if key is None else "key",
        dropped=_count_dropped(table, private.table, question),
        remarks=(*_in_both(private.table, task, rows, person), *private.remarks),
    )


def _digits_task(question: LabelQuestion) -> TablesTask:
    """The demonstration."""
    from dosimeter.datasets import digits

    classes = question.class_list or [*digits.CLASSES]
    check_classes(classes)
    private, rows = digits.digits()
    queries = DEMO_QUERIES if question.queries is None else question.queries
    task = label_task(private, rows, digits.TARGET, classes=classes, queries=queries)
    return TablesTask(
        task=task,
        keys=tuple((task.rows + 1)[: task.n_queries].tolist()),
        source="digits that ship with scikit-learn",
        estimator=question.estimator,
        teachers=question.teachers,
    )


def _read_private(
    table: Data, question: LabelQuestion, declared: FitBounds, classes: Sequence[str] | None
) -> DeclaredRows:
    """The private table, within its declared bounds if there are any."""
    aside = [name for name in (question.target, question.person) if name is not None]
    if declared.bounds is not None:
        check_declared(names_of(table, question.delimiter), declared.bounds, aside, question.exclude)
    people = read_people(
        table,
        target=question.target,
        person=question.person,
        categorical=tuple(dict.fromkeys([*question.categorical, *declared.text])),
        exclude=question.exclude,
        missing=question.missing_policy,
        declared=declared.numbers,
        classes=classes,
        keep_class_names=True,
        delimiter=question.delimiter,
        decimal=question.decimal,
    )
    return declared_rows(people, declared.bounds or {}, aside)


def _read_public(question: LabelQuestion, codes: Sequence[str], used: Sequence[str]) -> Table:
    """The public table. A column to leave out that only the private table has is no mistake here."""
    key = question.key
    if key is not None and key in used and key != question.person:
        raise Refusal(f"{option('key', safe_text(key))} is a column that the teachers learn from: name another")
    excluded = [name for name in question.exclude if name != key]
    if excluded:
        with suppress(Refusal):  # what is wrong with the table is said when it is read
            names = names_of(question.public, question.delimiter)
            excluded = [name for name in excluded if name in names]
    return read_people(
        question.public,
        categorical=list(dict.fromkeys([*codes, *([] if key is None else [key])])),
        exclude=excluded,
        missing=question.missing_policy,
        delimiter=question.delimiter,
        decimal=question.decimal,
    )


def _count_dropped(table: Data, private: Table, question: LabelQuestion) -> DroppedRows:
    """The rows left out are not in the table that was read: the column of persons is read once more, alone."""
    person = question.person
    if person is None or not private.dropped:
        return DroppedRows(private.dropped, private.dropped)
    if question.bounds is not None:
        persons = {name for name in every_value(table, person, question.delimiter) if name is not None}
    else:
        others = [name for name in dict.fromkeys([*private.names, *question.exclude]) if name != person]
        column = read_people(table, person=person, exclude=others, missing="drop", delimiter=question.delimiter)
        persons = set(column[person].tolist())
    return DroppedRows(private.dropped, len(persons - set(private[person].tolist())))


def _refuse_itself(table: Data, public: Data) -> None:
    """The noise protects the private rows from the labels, and not from being the public rows themselves."""
    same = table is public
    if is_path(table) and is_path(public):
        with suppress(OSError):  # a file that is not there is refused when it is read
            same = Path(table).samefile(public)
    if same:
        name = Path(public).name if is_path(public) else "frame"
        shown = option("public", safe_text(name))
        raise Refusal(f"{shown} is the private table itself: name a table of public rows")


def _in_both(private: Table, task: LabelTask, public: Table, person: str | None) -> tuple[str, ...]:
    """Remarks if public rows are also private ones, or public names those of private persons. Internal."""
    import numpy as np

    known = {row.tobytes() for row in np.ascontiguousarray(task.X)}
    same = sum(row.tobytes() in known for row in np.ascontiguousarray(task.public))
    remarks = []
    if same:
        remarks.append(
            f"{same} of {len(task.public)} public rows are rows of the private table too, in all columns that the "
            "teachers learn from: if they are private, what is beside the labels is not protected"
        )
    if person is not None and person in public.names:
        both = set(map(str, public[person].tolist())) & set(map(str, private[person].tolist()))
        if both:
            remarks.append(
                f"{len(both)} of the public table's {safe_text(person)} are persons of the private table too"
            )
    return tuple(remarks)
