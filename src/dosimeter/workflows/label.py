"""`dm.label`: labels for public rows by a noisy vote of teachers trained on a private table [Saeidian21]."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dosimeter.core.checks import positive
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.noise import NOISES
from dosimeter.core.notion import Standing
from dosimeter.core.text import safe_text
from dosimeter.models.label_sheet import LabelledRows
from dosimeter.models.label_task import LabelTask, check_classes, estimator_of, label_task
from dosimeter.models.vote_noise import VoteNoise, vote_noise
from dosimeter.models.vote_set import DroppedRows, ImportedVotes, TablesTask, VoteSet, Watch
from dosimeter.results.labels import LabelRelease
from dosimeter.workflows.booking import outside_a_ledger
from dosimeter.workflows.people_table import Data, is_path, names_of, read_people
from dosimeter.workflows.released import Released

if TYPE_CHECKING:
    from dosimeter.core.dose import Dose
    from dosimeter.core.release import Recipe
    from dosimeter.pate.label import Labels
    from dosimeter.tables.table import Table

DEMO_BUDGET, DEMO_QUERIES = "10 nats", 50
"""Of the demonstration, chosen on the digits themselves, so that most labels come out right."""
BESIDE = "the (ε, δ) shown beside the nats: the same labels, so they are booked once, in nats"
ADAPTIVE = (
    "queries chosen after earlier labels were seen: nats read off the votes add for queries fixed beforehand; "
    "the published nats of each release add for all"
)
OF_TABLES = ("target", "public", "person", "key", "categorical", "exclude", "missing", "delimiter")
OF_TEACHERS = ("teachers", "estimator", "student", "doses_out", "checkpoint", "resume", "jobs")
"""Options that do not go with votes made elsewhere."""


@dataclass(frozen=True)
class LabelQuestion:
    """What is asked of whom: the options of `label` about tables, classes and teachers."""

    target: str | None = None
    public: Data = None
    votes: Any = None
    classes: Sequence[str] | str | int | None = None
    person: str | None = None
    queries: int | None = None
    teachers: int = 50
    estimator: str = "logistic"
    key: str | None = None
    categorical: Sequence[str] = ()
    exclude: Sequence[str] = ()
    missing: str = "refuse"
    delimiter: str = ","

    @property
    def passed(self) -> list[str]:
        """Options that do not have their default value."""
        return [field.name for field in fields(self) if not _is_default(getattr(self, field.name), field.default)]

    @property
    def class_list(self) -> list[str] | None:
        """The classes that were listed."""
        if self.classes is None or isinstance(self.classes, int):
            return None if self.classes is None else [str(self.classes)]
        return [name.strip() for name in self.classes.split(",")] if isinstance(self.classes, str) else [*self.classes]


def _is_default(value: Any, default: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(tuple(value) == default)
    return value is default or (isinstance(value, str | int) and bool(value == default))


def label(
    table: Data = None,
    *,
    target: str | None = None,
    public: Data = None,
    votes: Any = None,
    classes: Sequence[str] | str | int | None = None,
    person: str | None = None,
    budget: str | None = None,
    scale: float | None = None,
    noise: str = "laplace",
    threshold: float | None = None,
    delta: float = 1e-5,
    queries: int | None = None,
    teachers: int = 50,
    estimator: str = "logistic",
    key: str | None = None,
    student: bool = False,
    categorical: Sequence[str] = (),
    exclude: Sequence[str] = (),
    missing: str = "refuse",
    delimiter: str = ",",
    checkpoint: str | Path | None = None,
    resume: bool = False,
    jobs: int = 1,
) -> Released[LabelRelease]:
    """Label public rows by the noisy vote of teachers, each trained on a part of a private table (PATE).

    Without a table and votes it labels digits that ship with scikit-learn, for demonstration.

    Parameters
    ----------
    table
        The private table: a .csv or .parquet file, or a dataframe.
    target
        Its column of classes.
    public
        The public table whose rows get labels: a file or a dataframe with the same columns; the target is only used
        to score the labels.
    votes
        Instead of tables: votes made elsewhere, teachers × queries, as a .npy file or an array of class numbers.
    classes
        The list of classes, fixed beforehand: a list, or text with commas. With votes their number. If it is left out,
        the classes are read off the private table, and no figure is claimed.
    person
        The column that says whose row it is. All rows of a person go to one teacher.
    budget
        All that may leak about a person: "1 nat". The noise follows from it.
    scale
        A public noise scale in votes instead. With a budget it must keep within it.
    noise
        laplace, gumbel, exponential, logistic or gaussian, on each count of votes.
    threshold
        Answer only if the first class has about this many votes. A refusal is an output like any other.
    delta
        δ of the (ε, δ) that is shown beside the nats.
    queries
        Label the first public rows, this many; all of them by default.
    teachers, estimator
        How many parts the private table is split into, and what learns from each: logistic, tree, forest or bayes.
    key
        The public column that names a row in the labels, instead of its number.
    student
        Also fit a scikit-learn model of the labelled public rows.
    categorical, exclude
        Columns of codes, and columns to leave out.
    missing
        "refuse", or "drop" rows with a missing value.
    delimiter
        What separates cells in a .csv.
    checkpoint, resume
        A .npz file that keeps the votes while teachers train (internal), and whether to go on from it.
    jobs
        Processes that train teachers; -1 for all cores.

    Returns
    -------
    Released[LabelRelease]
        `model` has the rows' keys, their labels and the student; `artefact` is the .csv of keys and labels; `doses` are
        the nats of each person for the votes that were cast.

    Raises
    ------
    LimitExceeded
        The public scale breaks the budget.
    Refusal
        Options contradict each other, or the tables do not fit.

    Notes
    -----
    The label of a query is argmaxⱼ vⱼ + Nⱼ over the counts v of the votes. The published bound is k log B₁ nats for k
    queries (Prop. 12 of [Saeidian21]), the same for every table.

    Examples
    --------
    >>> private = {"x": [0.1, 0.2, 0.8, 0.9] * 10, "ill": ["no", "no", "yes", "yes"] * 10}
    >>> released = label(private, target="ill", public={"x": [0.0, 1.0]}, classes="no,yes", teachers=5, scale=0.01)
    >>> released.model.labels, round(released.result.publishable.nats, 3)
    (('no', 'yes'), 1.386)
    """
    question = LabelQuestion(
        target, public, votes, classes, person, queries, teachers, estimator, key, categorical, exclude, missing,
        delimiter,
    )  # fmt: skip
    kept = None if checkpoint is None else Path(checkpoint)
    check_kind(table, question, question.passed)
    check_checkpoint(kept, resume)
    job = prepare(table, question, budget=budget, scale=scale, noise=noise, threshold=threshold, delta=delta)
    cast = job.cast(checkpoint=kept, jobs=jobs)
    return job.release(cast, job.draw(cast), student=student or job.demo)


@dataclass(frozen=True, eq=False)
class LabelJob:
    """What is to be labelled, and the noise; no teacher is trained yet."""

    task: ImportedVotes | TablesTask
    noise: VoteNoise
    delta: float
    demo: bool = False

    def cast(
        self,
        *,
        checkpoint: Path | None = None,
        inputs: Sequence[Path] = (),
        jobs: int = 1,
        watch: Watch = iter,
    ) -> VoteSet:
        """The votes of all teachers. watch: shows the progress of their training."""
        return self.task.cast(checkpoint=checkpoint, inputs=inputs, jobs=jobs, watch=watch)

    def draw(self, votes: VoteSet) -> Labels:
        """Labels by noisy vote. Each call draws new noise: a second draw is a second release."""
        from dosimeter.pate.label import label as noisy_labels

        return noisy_labels(votes.votes, self.noise.noise, threshold=self.noise.threshold)

    def release(self, votes: VoteSet, labels: Labels, *, student: bool = False) -> Released[LabelRelease]:
        """The labels as a release, with a student that learns from them if one is requested."""
        model, no_student = _fit_student(votes, labels) if student else (None, "")
        rows = LabelledRows.of(votes, labels, model, no_student)
        result = LabelRelease.of(
            votes, labels, self.noise, delta=self.delta, student=model, no_student=no_student, demo=self.demo
        )
        account = LabelAccount(votes, self.noise)
        return Released(
            verb="pate",
            result=result,
            artefact=rows.to_csv(),
            recipe=account.recipe(labels),
            doses=(account.nats,) if votes.persons_named else (),
            noise_fingerprint=secrets.token_bytes(16),
            model=rows,
            extra_files={} if model is None else {".skops": _skops(model)},
        )


@dataclass(frozen=True, eq=False)
class LabelAccount:
    """What a ledger needs of a labelling: the nats of each person, and what they do not cover. Internal."""

    votes: VoteSet
    noise: VoteNoise

    @cached_property
    def nats(self) -> Dose:
        """Nats of each person, or each row, for the votes that were cast."""
        from dosimeter.pate.doses import dose

        if self.votes.teacher_of is None:
            raise Refusal("votes without people: nobody's dose is known")
        cast = self.votes.votes
        nats = dose(cast, self.noise.noise, threshold=self.noise.threshold, person=self.votes.teacher_of)
        if self.votes.declared:
            return nats
        return replace(nats, standing=Standing.UNACCOUNTED, uncovered=outside_a_ledger(self.votes.not_covered))

    def recipe(self, labels: Labels) -> Recipe:
        """How the labels were made, with the bound for every table."""
        from dosimeter.pate.doses import public_bound

        cast, recipe = self.votes.votes, labels.release.recipe
        bound = public_bound(cast.n_queries, cast.n_classes, self.noise.noise, threshold=self.noise.threshold).nats
        gaps = outside_a_ledger((*self.votes.not_covered, BESIDE, ADAPTIVE))
        return replace(recipe, settings={**recipe.settings, "published nats": bound}, uncovered=gaps)


def doses_sheet(job: LabelJob, votes: VoteSet) -> dict[str, Any]:
    """The nats of each person, or of each row by its number, as columns. Internal."""
    nats = LabelAccount(votes, job.noise).nats
    ids = [str(i) if isinstance(i, str) else int(i) + 1 for i in nats.ids]  # type: ignore[call-overload]
    return {"person" if isinstance(ids[0], str) else "row": ids, "nats": nats.reading}


def check_kind(table: Data, question: LabelQuestion, passed: Sequence[str]) -> None:
    """Refuse options that do not fit; none is ignored in silence. passed: the options that the caller gave."""
    if question.votes is not None:
        unfit = [option(name) for name in (*OF_TABLES, *OF_TEACHERS) if name in passed]
        if table is not None or unfit:
            other = "the table" if table is not None else unfit[0]
            raise Refusal(
                f"{option('votes')} are votes already and {other} is for teachers trained here: leave one out"
            )
        return
    if table is None:
        for name in OF_TABLES:
            if name in passed:
                raise Refusal(f"{option(name)} without a table: name the private table first")
        return
    needed = (("target", "the column of classes"), ("public", "the public table whose rows get labels"))
    for name, description in needed:
        if getattr(question, name) is None:
            raise Refusal(f"{option(name)} is missing: name {description}")


def check_checkpoint(checkpoint: Path | None, resume: bool) -> None:
    """Refuse a checkpoint that cannot be used, before tables are read and teachers are trained."""
    from dosimeter.files.pate_checkpoint import read_progress

    if resume and checkpoint is None:
        raise Refusal(f"{option('resume')} from what? Name the file with {option('checkpoint')}")
    if checkpoint is None or not checkpoint.exists():
        return
    if not resume:
        shown = option("checkpoint", safe_text(checkpoint, 120))
        raise Refusal(f"{shown}: it exists; go on from it with {option('resume')}, or name another")
    read_progress(checkpoint)


def prepare(
    table: Data,
    question: LabelQuestion,
    *,
    budget: str | None = None,
    scale: float | None = None,
    noise: str = "laplace",
    threshold: float | None = None,
    delta: float = 1e-5,
) -> LabelJob:
    """Read the tables or the votes, and find the noise. A scale that breaks the budget is refused."""
    demo = table is None and question.votes is None
    limit, law = _limit(budget, scale, demo), _law(noise, delta)
    task = _imported(question) if question.votes is not None else _tables(table, question)
    return LabelJob(task, vote_noise(law, limit, scale, threshold, task.sizes), delta, demo)


def _limit(budget: str | None, scale: float | None, demo: bool) -> float | None:
    """The budget in nats; None if a public scale alone decides."""
    from dosimeter.pate.budget import nats

    if scale is not None:
        positive("scale", scale)
    if budget is None and scale is None:
        if not demo:
            raise Refusal(f"state a limit: {option('budget', '1 nat')}, or a public {option('scale')}")
        budget = DEMO_BUDGET
    return None if budget is None else nats(budget)


def _law(noise: str, delta: float) -> Any:
    if noise not in NOISES:
        raise Refusal(f"{option('noise', safe_text(noise))}: use {', '.join(NOISES)}")
    if not 0 < delta < 1:
        raise Refusal(f"{option('delta', float(delta))}: give a number above 0 and below 1")
    return NOISES[noise]


def _imported(question: LabelQuestion) -> ImportedVotes:
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


def _tables(table: Data, question: LabelQuestion) -> TablesTask:
    """Two tables read, or the digits without them."""
    from dosimeter.datasets import digits

    estimator_of(question.estimator)  # a name that is not known is refused before anything is read
    classes, target, queries, dropped = question.class_list, question.target, question.queries, DroppedRows()
    if classes is not None:
        check_classes(classes)
    if table is None:
        private, rows = digits.digits()
        target, source = digits.TARGET, "digits that ship with scikit-learn"
        classes = [*digits.CLASSES] if classes is None else classes
        queries = DEMO_QUERIES if queries is None else queries
    else:
        _refuse_itself(table, question.public)
        private = _read_private(table, question, classes)
        rows = _read_public(question, private.names)
        dropped = _count_dropped(table, private, question)
        source = Path(table).name if is_path(table) else "a dataframe"
    key, person = question.key, question.person
    task = label_task(
        private,
        rows.drop([] if key is None else [key]),
        str(target),
        person=person,
        categorical=question.categorical,
        classes=classes,
        queries=queries,
    )
    names = task.rows + 1 if key is None else rows[key]
    return TablesTask(
        task=task,
        keys=tuple(names[: task.n_queries].tolist()),
        source=source,
        estimator=question.estimator,
        teachers=question.teachers,
        key_name="row" if key is None else "key",
        dropped=dropped,
        remarks=() if table is None else _in_both(private, task, rows, person),
    )


def _read_private(table: Data, question: LabelQuestion, classes: Sequence[str] | None) -> Table:
    return read_people(
        table,
        target=question.target,
        person=question.person,
        categorical=question.categorical,
        exclude=question.exclude,
        missing=question.missing,
        classes=classes,
        keep_class_names=True,
        delimiter=question.delimiter,
    )


def _read_public(question: LabelQuestion, used: Sequence[str]) -> Table:
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
        categorical=list(dict.fromkeys([*question.categorical, *([] if key is None else [key])])),
        exclude=excluded,
        missing=question.missing,
        delimiter=question.delimiter,
    )


def _count_dropped(table: Data, private: Table, question: LabelQuestion) -> DroppedRows:
    """The rows left out are not in the table that was read: the column of persons is read once more, alone."""
    person = question.person
    if person is None or not private.dropped:
        return DroppedRows(private.dropped, private.dropped)
    others = [name for name in dict.fromkeys([*private.names, *question.exclude]) if name != person]
    column = read_people(table, person=person, exclude=others, missing="drop", delimiter=question.delimiter)
    return DroppedRows(private.dropped, len(set(column[person].tolist()) - set(private[person].tolist())))


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


def _fit_student(votes: VoteSet, labels: Labels) -> tuple[Any, str]:
    """A model of the labels, or why there is none. The labels are drawn by then and paid for: they are kept."""
    try:
        return (None if votes.task is None else votes.task.student(labels)), ""
    except Refusal as error:
        return None, str(error)


def _skops(model: Any) -> bytes:
    import skops.io as sio

    data: bytes = sio.dumps(model)
    return data
