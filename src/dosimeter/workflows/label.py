"""`dm.label`: labels for public rows by a noisy vote of teachers trained on a private table [Saeidian21]."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from dosimeter.models.vote_noise import VoteNoise, vote_noise
from dosimeter.models.vote_set import ImportedVotes, TablesTask, VoteSet, Watch
from dosimeter.results.labels import LabelRelease
from dosimeter.workflows.booking import outside_a_ledger
from dosimeter.workflows.label_question import LabelQuestion, check_kind
from dosimeter.workflows.label_tables import imported_votes, tables_task
from dosimeter.workflows.people_table import BoundsSource, Data, Names, as_names
from dosimeter.workflows.released import Released

if TYPE_CHECKING:
    from dosimeter.core.arrays import FloatArray
    from dosimeter.core.dose import Dose
    from dosimeter.core.release import Recipe
    from dosimeter.pate.label import Labels

DEMO_BUDGET = "10 nats"
"""Of the demonstration, chosen on the digits themselves, so that most labels come out right."""
MOST_HELD = 1 << 22
"""Labels of imported votes whose .csv is held as bytes; more of them are written piece by piece."""
BESIDE = "the (ε, δ) shown beside the nats: the same labels, so they are booked once, in nats"
ADAPTIVE = (
    "queries chosen after earlier labels were seen: nats read off the votes add for queries fixed in advance; "
    "the published nats of each release add for all"
)


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
    categorical: Names = (),
    exclude: Names = (),
    bounds: BoundsSource | None = None,
    missing: str | None = None,
    delimiter: str = ",",
    decimal: str = ".",
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
        Instead of tables: votes made elsewhere, teachers × queries, as a .npy file or an array of class numbers. A
        file, and a memory map opened for reading only, may be larger than memory: they are read in blocks of queries.
    classes
        The list of classes, fixed in advance: a list, or text with commas. With votes their number. If it is left out,
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
    bounds
        What is known about the private columns without the table: a .toml file, or column -> (lower, upper) or a list
        of levels. Numbers are clipped, an unlisted label counts as the first level, and a cell or a line that cannot
        be read counts as missing: no message quotes it. Levels of the target are the classes.
    missing
        "refuse", or "drop" rows with a missing value. Without it: "drop" with bounds, else "refuse".
    delimiter
        What separates cells in a .csv.
    decimal
        The decimal mark of numbers in a .csv: "." or ",".
    checkpoint, resume
        A .npz file that keeps the votes while teachers train (internal), and whether to go on from it.
    jobs
        Processes that train teachers; -1 for all cores.

    Returns
    -------
    Released[LabelRelease]
        `model` has the rows' keys, their labels and the student; `artefact` is the .csv of keys and labels, or
        `pieces` yields it if votes on more than 4 million queries were passed; `doses` are the nats of each person for
        the votes that were cast.

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
        target, public, votes, classes, person, queries, teachers, estimator, key, as_names(categorical),
        as_names(exclude), bounds, missing, delimiter, decimal,
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
        in_pieces = votes.task is None and votes.votes.n_queries > MOST_HELD
        return Released(
            verb="pate",
            result=result,
            artefact=b"" if in_pieces else rows.to_csv(),
            recipe=account.recipe(labels),
            doses=(account.nats,) if votes.persons_named else (),
            noise_fingerprint=secrets.token_bytes(16),
            model=rows,
            extra_files={} if model is None else {".skops": _skops(model)},
            pieces=rows.pieces if in_pieces else None,
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
        return replace(nats, standing=Standing.UNACCOUNTED, not_covered=outside_a_ledger(self.votes.not_covered))

    def recipe(self, labels: Labels) -> Recipe:
        """How the labels were made, with the bound for every table."""
        from dosimeter.pate.doses import public_bound

        cast, recipe = self.votes.votes, labels.release.recipe
        bound = public_bound(cast.n_queries, cast.n_classes, self.noise.noise, threshold=self.noise.threshold).nats
        gaps = outside_a_ledger((*self.votes.not_covered, BESIDE, ADAPTIVE))
        return replace(recipe, settings={**recipe.settings, "published nats": bound}, not_covered=gaps)


def doses_sheet(job: LabelJob, votes: VoteSet) -> dict[str, Sequence[str | int] | FloatArray]:
    """The nats of each person, or of each row by its number, as columns. Internal."""
    nats = LabelAccount(votes, job.noise).nats
    ids = [str(i) if isinstance(i, str) else int(i) + 1 for i in nats.ids]  # type: ignore[call-overload]
    return {"person" if isinstance(ids[0], str) else "row": ids, "nats": nats.figures}


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
    task = imported_votes(question) if question.votes is not None else tables_task(table, question)
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
