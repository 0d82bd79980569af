"""`dosimeter pate`: labels for public rows by a noisy vote of teachers, each trained on a part of a private table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli.options import (
    MODEL,
    NOISE,
    OUTPUT,
    START,
    TABLE,
    Categorical,
    Color,
    Decimal,
    Delimiter,
    DoseFileOut,
    DosesOut,
    Exclude,
    Json,
    Keys,
    LedgerPlace,
    Name,
    NoLedger,
    Note,
    Out,
    Override,
    Person,
    Quiet,
    To,
    opt,
)

if TYPE_CHECKING:
    from dosimeter.models.vote_set import VoteSet
    from dosimeter.pate.ensemble import Progress
    from dosimeter.results.labels import LabelRelease
    from dosimeter.workflows.booking import BookingOutcome, ReleaseSession
    from dosimeter.workflows.label import LabelJob
    from dosimeter.workflows.released import Released

DEMO_HEADING = "dosimeter {} · pate on digits that ship with scikit-learn, for a look at it"
DEMO_FOOTER = (
    "\nyour own tables:  dosimeter pate patients.csv --target readmitted --classes no,yes --public visitors.csv "
    '--person patient_id --budget "1 nat" --queries 20 --out labels.csv',
)


def pate(
    context: typer.Context,
    table: Annotated[
        Path | None,
        typer.Argument(
            help="The private table: .csv or .parquet. Without it: a demonstration.",
            show_default=False,
            rich_help_panel=START,
        ),
    ] = None,
    target: Annotated[str | None, opt("--target", help="The column of classes.", group=START)] = None,
    public: Annotated[Path | None, opt("--public", help="The public table whose rows get labels.", group=START)] = None,
    classes: Annotated[
        str | None,
        opt("--classes", help="The public list of classes, by commas; with --votes their number.", group=START),
    ] = None,
    person: Person = None,
    budget: Annotated[
        str | None, opt("--budget", help='All that may leak about a person: "1 nat".', group=START)
    ] = None,
    queries: Annotated[
        int | None, opt("--queries", help="Label this many public rows, the first ones; all by default.", group=START)
    ] = None,
    out: Out = None,
    votes: Annotated[
        Path | None, opt("--votes", help="Votes made elsewhere: a .npy file, teachers x queries.", group=MODEL)
    ] = None,
    teachers: Annotated[
        int,
        opt("--teachers", help="How many parts the private table is split into.", group=MODEL, show_default=True),
    ] = 50,
    estimator: Annotated[
        str,
        opt(
            "--estimator",
            help="What the teachers are: logistic, tree, forest or bayes.",
            group=MODEL,
            show_default=True,
        ),
    ] = "logistic",
    jobs: Annotated[
        int, opt("--jobs", help="Processes that train teachers; -1 for all cores.", group=MODEL, show_default=True)
    ] = 1,
    scale: Annotated[
        float | None,
        opt("--scale", help="A public noise scale in votes; with --budget it must keep within it.", group=NOISE),
    ] = None,
    noise: Annotated[
        str,
        opt(
            "--noise",
            help="laplace, gumbel, exponential, logistic or gaussian, on each count of votes.",
            group=NOISE,
            show_default=True,
        ),
    ] = "laplace",
    threshold: Annotated[
        float | None,
        opt("--threshold", help="Answer only if the first class has about this many votes.", group=NOISE),
    ] = None,
    delta: Annotated[
        float, opt("--delta", help="δ of the ε that is shown beside the nats.", group=NOISE, show_default=True)
    ] = 1e-5,
    categorical: Categorical = None,
    exclude: Exclude = None,
    bounds: Annotated[
        Path | None,
        opt(
            "--bounds",
            help="A .toml file with public bounds and levels of the private columns: no message depends on a cell.",
            group=TABLE,
        ),
    ] = None,
    missing: Annotated[
        str | None,
        opt("--missing", help="refuse, or drop rows with a missing value (the default with --bounds).", group=TABLE),
    ] = None,
    delimiter: Delimiter = ",",
    decimal: Decimal = ".",
    key: Annotated[
        str | None,
        opt("--key", help="The public column that names a row in --out, instead of its number.", group=OUTPUT),
    ] = None,
    student: Annotated[
        Path | None, opt("--student", help="Where a model of the labels is written: a .skops file.", group=OUTPUT)
    ] = None,
    doses_out: DosesOut = None,
    checkpoint: Annotated[
        Path | None,
        opt("--checkpoint", help="A .npz that keeps the votes while teachers train (internal).", group=OUTPUT),
    ] = None,
    resume: Annotated[bool, opt("--resume", help="Resume from --checkpoint, if it is there.", group=OUTPUT)] = False,
    ledger: LedgerPlace = None,
    keys: Keys = None,
    no_ledger: NoLedger = False,
    name: Name = None,
    to: To = None,
    note: Note = None,
    override: Override = None,
    dose_file: DoseFileOut = None,
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Label public rows by the noisy vote of teachers trained on disjoint parts of a private table (PATE).

    Without a table and votes it shows what it does on digits that ship with scikit-learn.
    """
    from dosimeter.cli.options import check_outputs, json_path, was_typed
    from dosimeter.cli.output import console, show
    from dosimeter.cli.provenance import provenance
    from dosimeter.core.version import __version__
    from dosimeter.workflows.label import check_checkpoint, prepare
    from dosimeter.workflows.label_question import LabelQuestion, check_kind

    question = LabelQuestion(
        target=target,
        public=public,
        votes=votes,
        classes=classes,
        person=person,
        queries=queries,
        teachers=teachers,
        estimator=estimator,
        key=key,
        categorical=categorical or (),
        exclude=exclude or (),
        bounds=bounds,
        missing=missing,
        delimiter=delimiter,
        decimal=decimal,
    )
    check_kind(table, question, [name for name in context.params if was_typed(context, name)])
    demo = table is None and votes is None
    _check_files(out, student, checkpoint, demo)
    session = _session(context, demo, votes, person)
    inputs = [path for path in (table, public, votes, bounds, *session.files) if path is not None]
    check_outputs([out, student, doses_out, dose_file, checkpoint, json_path(json)], inputs)
    check_checkpoint(checkpoint, resume)
    job = prepare(table, question, budget=budget, scale=scale, noise=noise, threshold=threshold, delta=delta)
    screen = console(quiet, color, json)
    cast = job.cast(
        checkpoint=checkpoint, inputs=inputs, jobs=jobs, watch=lambda states: _bar(states, teachers, screen)
    )
    released, outcome = _release(job, cast, demo or student is not None, session, out, inputs)
    files = () if outcome.refused else _write(job, cast, released, (out, student, doses_out), inputs)
    # Labels that were booked before are read back, so that the result is about them: no remark on another draw.
    remarks = () if outcome.booked else outcome.remarks
    result = released.result.with_fields(
        **outcome.fields,
        remarks=[*released.result.remarks, *remarks],
        written=[str(path) for path in files],
        reproduce=provenance(context),
    )
    show(
        result,
        quiet=quiet,
        color=color,
        json=json,
        inputs=inputs,
        written=files,
        outcome=replace(outcome, remarks=remarks),
        heading=DEMO_HEADING.format(__version__) if demo else "",
        footer=DEMO_FOOTER if demo else (),
    )
    if released.model.no_student and student is not None:
        raise _without_student(result, released.model.no_student, student, out)
    return 1 if outcome.refused else 0


def _check_files(out: Path | None, student: Path | None, checkpoint: Path | None, demo: bool) -> None:
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    if out is None and not demo:
        raise Refusal("--out is missing: name the .csv file for the labels")
    for flag, path, ending in (
        ("--out", out, ".csv"),
        ("--student", student, ".skops"),
        ("--checkpoint", checkpoint, ".npz"),
    ):
        if path is not None and path.suffix != ending:
            raise Refusal(f"{flag} {safe_text(path.name)}: name a {ending} file")


def _session(context: typer.Context, demo: bool, votes: Path | None, person: str | None) -> ReleaseSession:
    from dosimeter.cli.options import booking_session
    from dosimeter.core.errors import Refusal

    session = booking_session(context, "a demonstration" if demo else "")
    if votes is not None and session.needs_doses:
        raise Refusal(
            "--votes do not say who trained which teacher, so no person's dose is known: give the private table with "
            "--person, or pass --no-ledger"
        )
    session.needs_people(person)
    return session


def _bar(states: Iterator[Progress], teachers: int, screen: Any) -> Iterator[Progress]:
    """The states of training, with a bar on a terminal."""
    if not screen.is_terminal or screen.quiet:
        yield from states
        return
    from rich.progress import Progress as Bar

    from dosimeter.core.progress import stage

    stage("")  # the bar instead of the line
    with Bar(console=screen, transient=True) as bar:
        task = bar.add_task("training teachers", total=teachers)
        for state in states:
            bar.update(task, completed=int(state.finished.sum()))
            yield state


def _release(
    job: LabelJob, cast: VoteSet, student: bool, session: ReleaseSession, out: Path | None, inputs: list[Path]
) -> tuple[Released[LabelRelease], BookingOutcome]:
    """The labels drawn, booked and written. If they were booked before, the release is that of the stored labels."""
    from dosimeter.models.label_sheet import read_labels

    labels = job.draw(cast)
    released = job.release(cast, labels, student=student)
    if out is None:
        return released, session.nothing
    outcome = session.release(released, out, inputs)
    if outcome.refused:
        return job.release(cast, labels), outcome
    if outcome.artefact != released.artefact:
        released = job.release(cast, read_labels(cast, labels, outcome.artefact), student=student)
    return released, outcome


def _write(
    job: LabelJob,
    cast: VoteSet,
    released: Released[LabelRelease],
    files: tuple[Path | None, Path | None, Path | None],
    inputs: Sequence[Path],
) -> tuple[Path, ...]:
    """The student, made of public rows and their labels alone, and the nats of each person; then all files by name."""
    from dosimeter.files.atomic import write_bytes
    from dosimeter.files.csv_export import write_csv
    from dosimeter.workflows.label import doses_sheet

    out, student, doses_out = files
    if released.model.no_student:
        student = None
    if student is not None:
        write_bytes(student, released.extra_files[".skops"], inputs=inputs)
    if doses_out is not None:
        write_csv(doses_out, doses_sheet(job, cast), inputs=inputs)
    return tuple(path for path in (out, student, doses_out) if path is not None)


def _without_student(result: LabelRelease, reason: str, student: Path, out: Path | None) -> Exception:
    from dosimeter.core.errors import CannotMeasure
    from dosimeter.core.text import safe_text

    bound = result.publishable
    unaccounted = ", unaccounted" if bound.standing == "unaccounted" else ""
    kept = "no --out was named for them" if out is None else f"they are in {safe_text(out.name)}"
    return CannotMeasure(
        f"{safe_text(student.name)} was not written: {reason} (the {bound.queries} labels were drawn, at most "
        f"{bound.nats:.4g} nats are spent{unaccounted}, and {kept})"
    )
