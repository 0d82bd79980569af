"""`dosimeter pate`: labels for public rows by a noisy vote of teachers, each trained on a part of a private table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli.output import console, write_json
from dosimeter.workflows.booking import DoseFile, Keys, LedgerAt, Name, NoLedger, Note, Override, To

if TYPE_CHECKING:
    from dosimeter.models.label_inputs import VoteNoise, VoteSet
    from dosimeter.pate.label import Labels
    from dosimeter.workflows.booking import BookingOutcome, ReleaseSession

DEMO_BUDGET, DEMO_QUERIES = "10 nats", 50
"""Without a table. Chosen on the digits themselves, so that most labels come out right."""

OF_TABLES = ("target", "public", "person", "key", "nominal", "drop", "missing", "delimiter")
OF_TEACHERS = ("teachers", "estimator", "student", "doses", "resume", "jobs")

Words = typer.Option
TableFile = Annotated[
    Path | None,
    typer.Argument(help="The private table: .csv or .parquet. Without it: a demonstration.", show_default=False),
]


def pate(
    context: typer.Context,
    table: TableFile = None,
    target: Annotated[str | None, Words("--target", help="The column of classes.", show_default=False)] = None,
    public: Annotated[
        Path | None, Words("--public", help="The public table whose rows get labels.", show_default=False)
    ] = None,
    votes: Annotated[
        Path | None,
        Words("--votes", help="Votes made elsewhere: a .npy file, teachers x queries.", show_default=False),
    ] = None,
    classes: Annotated[
        str | None,
        Words(
            "--classes", help="The public list of classes, by commas; with --votes their number.", show_default=False
        ),
    ] = None,
    teachers: Annotated[int, Words("--teachers", help="How many parts the private table is cut into.")] = 50,
    budget: Annotated[
        str | None,
        Words("--budget", help='All that may be given away about a person: "1 nat".', show_default=False),
    ] = None,
    scale: Annotated[
        float | None, Words("--scale", help="A public noise scale in votes; with --budget it must keep within it.")
    ] = None,
    noise: Annotated[
        str, Words("--noise", help="laplace, gumbel, exponential, logistic or gaussian, on each count of votes.")
    ] = "laplace",
    threshold: Annotated[
        float | None, Words("--threshold", help="Answer only where the first class has about so many votes.")
    ] = None,
    delta: Annotated[float, Words("--delta", help="The δ of the ε that is shown beside.")] = 1e-5,
    queries: Annotated[
        int | None, Words("--queries", help="Ask the first so many public rows; all without it.", show_default=False)
    ] = None,
    person: Annotated[
        str | None, Words("--person", help="The column that says whose row it is (one person may have several).")
    ] = None,
    key: Annotated[
        str | None, Words("--key", help="The public column that names a row in --out, instead of its number.")
    ] = None,
    estimator: Annotated[
        str, Words("--estimator", help="What the teachers are: logistic, tree, forest or bayes.")
    ] = "logistic",
    nominal: Annotated[list[str] | None, Words("--nominal", help="A column of codes. May be repeated.")] = None,
    drop: Annotated[list[str] | None, Words("--drop", help="A column to leave out. May be repeated.")] = None,
    missing: Annotated[str, Words("--missing", help="refuse, or drop rows with a missing value.")] = "refuse",
    delimiter: Annotated[str, Words("--delimiter", help="What separates cells in a .csv.")] = ",",
    out: Annotated[Path | None, Words("--out", help="Where the labels go: a .csv file.", show_default=False)] = None,
    student: Annotated[
        Path | None, Words("--student", help="Where a model of the labels goes: a .skops file.", show_default=False)
    ] = None,
    doses: Annotated[
        Path | None, Words("--doses", help="Write the nats of each person as CSV (internal).", show_default=False)
    ] = None,
    resume: Annotated[
        Path | None,
        Words("--resume", help="A .npz file with the votes so far (internal), to go on from.", show_default=False),
    ] = None,
    jobs: Annotated[int, Words("--jobs", help="Processes that train teachers; -1 for all cores.")] = 1,
    ledger: LedgerAt = None,
    keys: Keys = None,
    no_ledger: NoLedger = False,
    name: Name = None,
    to: To = None,
    note: Note = None,
    override: Override = None,
    dose: DoseFile = None,
    json: Annotated[str | None, Words("--json", help="Write the facts as JSON here; - for stdout.")] = None,
    quiet: Annotated[bool, Words("--quiet", "-q", help="No words, only files and the exit code.")] = False,
    color: Annotated[bool, Words("--color/--no-color", help="Colours in the terminal.")] = True,
) -> int:
    """Label public rows by the noisy vote of teachers trained on disjoint parts of a private table (PATE).

    Without a table and votes it shows what it does on digits that ship with scikit-learn.
    """
    from dosimeter.cli.options import check_outputs
    from dosimeter.files.pate_checkpoint import read_progress
    from dosimeter.models import label_inputs as ballot
    from dosimeter.pate.label import label
    from dosimeter.results import label_facts as voted
    from dosimeter.results.provenance import how_asked

    demo = _check_kind(context, table, votes)
    _check_files(out, student, resume, demo)
    at = _desk(context, demo, votes, person)
    inputs = [path for path in (table, public, votes, *at.files) if path is not None]
    check_outputs([out, student, doses, dose, resume, None if json in (None, "-") else Path(str(json))], inputs)
    if resume is not None and resume.exists():
        read_progress(resume)  # a damaged file is refused before tables are read and teachers are trained
    limit, law = _limit(budget, scale, demo), _law(noise, delta)
    asked: Any
    if votes is not None:
        asked = ballot.from_votes(votes, classes, queries)
    else:
        asked = ballot.from_tables(
            table, public, target,
            person=person, key=key, classes=classes, queries=DEMO_QUERIES if demo and queries is None else queries,
            nominal=nominal or [], drop=drop or [], read={"delimiter": delimiter, "missing": missing},
            estimator=estimator, teachers=teachers,
        )  # fmt: skip
    words = console(quiet, color, json)
    how = ballot.how(law, limit, scale, threshold, asked.sizes)
    if how.over:
        words.print(how.over, style="red")
        return 1
    cast = asked.cast(resume=resume, inputs=inputs, jobs=jobs, words=words)
    labels, receipt = _leave(cast, label(cast.votes, how.noise, threshold=how.threshold), how, at, out, inputs)
    fit = not receipt.refused and (demo or student is not None)
    model, why = _student(cast, labels) if fit else (None, "")
    facts = {**voted.facts_of(cast, labels, how, delta, model, demo), **receipt.facts}
    facts["remarks"] += [*(f"no student: {reason}" for reason in [why] if reason), *_replaced(receipt)]
    files = () if receipt.refused else (out, None if why else student, doses)
    _write(cast, how, model, files[1:], inputs)
    facts["written"] = [str(path) for path in files if path is not None]
    facts["reproduce"] = how_asked(context)
    if json is not None:
        write_json(facts, json, inputs=inputs)
    voted.tell(facts, words, receipt)
    if why and student is not None:
        raise _without_student(why, student, out, facts["publishable"])
    return 1 if receipt.refused else 0


def _desk(context: typer.Context, demo: bool, votes: Path | None, person: str | None) -> ReleaseSession:
    from dosimeter.core.errors import Refusal
    from dosimeter.workflows.booking import desk

    at = desk(context, "a demonstration" if demo else "")
    if votes is not None and at.wanted:
        raise Refusal(
            "--votes do not say whose data taught whom, so nobody's dose is known: give the private table with "
            "--person, or pass --no-ledger"
        )
    at.needs_people(person)
    return at


def _leave(
    cast: VoteSet, labels: Labels, how: VoteNoise, at: ReleaseSession, out: Path | None, inputs: list[Path]
) -> tuple[Labels, BookingOutcome]:
    """The labels booked and written; where they were booked before, those of that time."""
    from dosimeter.models.label_inputs import as_sheet, from_sheet
    from dosimeter.workflows.person_doses import of_labels

    if out is None:
        return labels, at.nothing
    data = as_sheet(cast, labels)
    receipt = at.leave(data, out, inputs, lambda: of_labels(cast, labels, how))
    if receipt.refused or receipt.artefact == data:
        return labels, receipt
    return from_sheet(cast, labels, receipt.artefact), receipt


def _replaced(receipt: BookingOutcome) -> tuple[str, ...]:
    """Labels that were booked before are read back, so that what is said is of them: no remark on another draw."""
    return () if receipt.booked else receipt.remarks


def _student(cast: VoteSet, labels: Labels) -> tuple[Any, str]:
    """A model of the labels, or why there is none. The labels are drawn by then and paid for: they are kept."""
    from dosimeter.core.errors import Refusal

    try:
        return (None if cast.ballot is None else cast.ballot.student(labels)), ""
    except Refusal as error:
        return None, str(error)


def _without_student(why: str, student: Path, out: Path | None, told: dict[str, Any]) -> Exception:
    from dosimeter.core.errors import CannotMeasure

    unpaid = ", unaccounted" if told["standing"] == "unaccounted" else ""
    kept = "no --out was named for them" if out is None else f"they are in {out.name}"
    return CannotMeasure(
        f"{student.name} was not written: {why} (the {told['queries']} labels were drawn, at most {told['nats']:.4g} "
        f"nats are spent{unpaid}, and {kept})"
    )


def _check_kind(context: typer.Context, table: Path | None, votes: Path | None) -> bool:
    """True for the demonstration; options that do not go together are refused, and none is passed over in silence."""
    from dosimeter.core.errors import Refusal

    given = [name for name in context.params if _asked(context, name)]
    if votes is not None:
        if table is not None:
            raise Refusal("--votes are votes already and the table is for teachers trained here: leave one out")
        for name in (*OF_TABLES, *OF_TEACHERS):
            if name in given:
                raise Refusal(f"--votes are votes already and --{name} is for teachers trained here: leave one out")
        return False
    if table is None:
        for name in OF_TABLES:
            if name in given:
                raise Refusal(f"--{name} without a table: name the private table first")
        return True
    for name, what in (("target", "the column of classes"), ("public", "the public table whose rows get labels")):
        if context.params[name] is None:
            raise Refusal(f"--{name} is missing: name {what}")
    return False


def _asked(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _check_files(out: Path | None, student: Path | None, resume: Path | None, demo: bool) -> None:
    from dosimeter.core.errors import Refusal

    if out is None and not demo:
        raise Refusal("--out is missing: name the .csv file where the labels go")
    for option, path, ending in (
        ("--out", out, ".csv"),
        ("--student", student, ".skops"),
        ("--resume", resume, ".npz"),
    ):
        if path is not None and path.suffix != ending:
            raise Refusal(f"{option} {path.name}: name a {ending} file")


def _limit(budget: str | None, scale: float | None, demo: bool) -> float | None:
    """The budget in nats; None where a public scale alone decides."""
    from dosimeter.cli.checks import positive
    from dosimeter.core.errors import Refusal
    from dosimeter.pate.budget import nats

    if scale is not None:
        positive("--scale", scale)
    if budget is None and scale is None:
        if not demo:
            raise Refusal('state a limit: --budget "1 nat", or a public --scale')
        budget = DEMO_BUDGET
    return None if budget is None else nats(budget)


def _law(noise: str, delta: float) -> Any:
    from dosimeter.core.errors import Refusal
    from dosimeter.core.noise import NOISES
    from dosimeter.core.text import safe_text

    if noise not in NOISES:
        raise Refusal(f"--noise {safe_text(noise)}: use {', '.join(NOISES)}")
    if not 0 < delta < 1:
        raise Refusal(f"--delta {delta:g}: give a number above 0 and below 1")
    return NOISES[noise]


def _write(cast: VoteSet, how: VoteNoise, model: Any, files: tuple[Path | None, ...], inputs: Sequence[Path]) -> None:
    """The student, made of public rows and their labels alone, and the nats of each person."""
    from dosimeter.files.atomic import write_bytes
    from dosimeter.files.csv_export import write_sheet

    student, doses = files or (None, None)
    if student is not None:
        write_bytes(student, _skops(model), inputs=inputs)
    if doses is not None and cast.teacher_of is not None:
        from dosimeter.pate.doses import dose

        told = dose(cast.votes, how.noise, threshold=how.threshold, person=cast.teacher_of)
        ids = [str(i) if isinstance(i, str) else int(i) + 1 for i in told.ids]  # type: ignore[call-overload]
        write_sheet(doses, {"person" if isinstance(ids[0], str) else "row": ids, "nats": told.reading}, inputs=inputs)


def _skops(model: Any) -> bytes:
    import skops.io as sio

    data: bytes = sio.dumps(model)
    return data
