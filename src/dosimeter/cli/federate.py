"""`dosimeter federate` and `dosimeter federate plan`: a model trained by many clients, private for each client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli.environment import Command, CommandGroup
from dosimeter.cli.federate_coordinator import coordinator
from dosimeter.cli.federate_init import init
from dosimeter.cli.federate_site import site as site_command
from dosimeter.cli.options import (
    MODEL,
    NOISE,
    OUTPUT,
    START,
    TABLE,
    BoundsFile,
    Categorical,
    Color,
    Decimal,
    Delimiter,
    DoseFileOut,
    Exclude,
    Json,
    Keys,
    LedgerPlace,
    Name,
    NoLedger,
    Note,
    Override,
    Quiet,
    To,
    booking_session,
    check_outputs,
    json_path,
    opt,
    was_typed,
)

if TYPE_CHECKING:
    from dosimeter.federated.history import History
    from dosimeter.models.federated_training import Job
    from dosimeter.results.federated import FederatedRelease
    from dosimeter.workflows.booking import BookingOutcome, ReleaseSession

app = typer.Typer(cls=CommandGroup, invoke_without_command=True)
app.command("init", cls=Command)(init)
app.command("coordinator", cls=Command)(coordinator)
app.command("site", cls=Command)(site_command)

OF_TABLES = (
    "target", "client", "unit", "person", "site", "test", "bounds", "classes", "categorical", "exclude", "missing",
    "delimiter", "decimal",
)  # fmt: skip
OF_IMAGES = ("image_pooling", "data")
YOURS = "--table hospitals.csv --target readmitted --client hospital_id --epsilon 8 --out model.safetensors"
PLAN = "--clients 1000 --clients-per-round 220 --epsilon 8 --rounds 54"
DEMO_FOOTER = (f"\nyour own clients:  dosimeter federate {YOURS}", f"before training:   dosimeter federate plan {PLAN}")
ROUNDS = "Rounds and noise"

Clients = Annotated[
    int | None,
    opt("--clients", help="K: how many clients, or patients, there are (public); a table may hold fewer.", group=START),
]
Epsilon = Annotated[float | None, opt("--epsilon", help="ε for the whole training.", group=START)]
Delta = Annotated[
    float | None, opt("--delta", help="δ for the whole training, below 1/K. By default 1e-5.", group=START)
]
ClientsPerRound = Annotated[
    float | None,
    opt(
        "--clients-per-round",
        help="m: clients asked in a round, on average. By default the m of least noise.",
        group=ROUNDS,
    ),
]
Rounds = Annotated[
    int | None,
    opt("--rounds", help="How many rounds; the noise follows. By default K/20, from 10 to 50.", group=ROUNDS),
]
NoiseMultiplier = Annotated[
    float | None, opt("--noise-multiplier", help="z: noise on the sum over the clip; the rounds follow.", group=ROUNDS)
]
Schedule = Annotated[
    str | None,
    opt(
        "--schedule",
        help="Rounds whose m and z change: ROUNDSxCLIENTS:NOISE by commas, such as 10x50:1.1,20x200:1.6.",
        group=ROUNDS,
    ),
]
Sampling = Annotated[
    str,
    opt(
        "--sampling",
        help="poisson, or fixed: exactly m, at more than twice the privacy cost.",
        group=ROUNDS,
        show_default=True,
    ),
]


@app.command("plan", cls=Command)
def plan(
    context: typer.Context,
    clients: Clients = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    clients_per_round: ClientsPerRound = None,
    rounds: Rounds = None,
    noise_multiplier: NoiseMultiplier = None,
    schedule: Schedule = None,
    parameters: Annotated[
        int | None,
        opt("--parameters", help="Size of the model to train: warns if the noise exceeds the signal.", group=ROUNDS),
    ] = None,
    sampling: Sampling = "poisson",
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """How many rounds, or how much noise, without any training."""
    from dosimeter.cli.output import show
    from dosimeter.cli.provenance import provenance
    from dosimeter.core.errors import Refusal
    from dosimeter.models.federated_terms import DELTA
    from dosimeter.workflows.federation_plan import plan_federation

    check_outputs([json_path(json)], [])
    if epsilon is None:
        raise Refusal("state a budget, for example --epsilon 8 (and --delta; 1e-05 without it)")
    if clients is None:
        raise Refusal("--clients is missing: say how many clients there are")
    result = plan_federation(
        clients,
        epsilon=epsilon,
        delta=DELTA if delta is None else delta,
        clients_per_round=clients_per_round,
        rounds=rounds,
        noise_multiplier=noise_multiplier,
        schedule=schedule,
        parameters=parameters,
        sampling=sampling,
    ).with_fields(reproduce=provenance(context))
    show(result, quiet=quiet, color=color, json=json)
    return 1 if result.over else 0


@app.callback()
def federate(
    context: typer.Context,
    table: Annotated[Path | None, opt("--table", help="The clients' rows: .csv or .parquet.", group=START)] = None,
    target: Annotated[
        str | None, opt("--target", help="The column of classes; with bounds in --bounds a number.", group=START)
    ] = None,
    client: Annotated[
        str | None, opt("--client", help="The column that names the client of a row: a hospital.", group=START)
    ] = None,
    unit: Annotated[
        str,
        opt("--unit", help="Whom to protect: client, or patient (with --person).", group=START, show_default=True),
    ] = "client",
    person: Annotated[
        str | None, opt("--person", help="The column that names the patient, for --unit patient.", group=START)
    ] = None,
    site: Annotated[
        str | None, opt("--site", help="The column that names the patient's hospital, if there is one.", group=START)
    ] = None,
    clients: Clients = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    out: Annotated[
        Path | None,
        opt("--out", help="Where the model goes: .safetensors, or .skops with .safetensors beside it.", group=START),
    ] = None,
    dataset: Annotated[
        str | None, opt("--dataset", help="Made-up clients on public images: digits or mnist.", group=START)
    ] = None,
    clients_per_round: ClientsPerRound = None,
    rounds: Rounds = None,
    noise_multiplier: NoiseMultiplier = None,
    schedule: Schedule = None,
    sampling: Sampling = "poisson",
    architecture: Annotated[
        str | None, opt("--architecture", help="softmax or mlp. By default mlp from 1,000 clients on.", group=MODEL)
    ] = None,
    hidden: Annotated[
        str | None, opt("--hidden", help="Widths of an mlp's hidden layers, by commas. By default 64.", group=MODEL)
    ] = None,
    image_pooling: Annotated[
        int,
        opt(
            "--image-pooling",
            help="MNIST: average squares of that many pixels a side (1, 2, 4, 7).",
            group=MODEL,
            show_default=True,
        ),
    ] = 2,
    epochs: Annotated[
        int, opt("--epochs", help="E: times a client goes over its rows in a round.", group=MODEL, show_default=True)
    ] = 4,
    batches: Annotated[int | None, opt("--batches", help="B: batches of a client. By default 10.", group=MODEL)] = None,
    batch_size: Annotated[
        int | None, opt("--batch-size", help="Rows of a batch, instead of --batches.", group=MODEL)
    ] = None,
    learning_rate: Annotated[
        float, opt("--learning-rate", help="Learning rate of the clients.", group=MODEL, show_default=True)
    ] = 0.3,
    momentum: Annotated[
        float, opt("--momentum", help="Momentum of the curator, from 0 to below 1.", group=NOISE, show_default=True)
    ] = 0.5,
    clip_quantile: Annotated[
        float,
        opt(
            "--clip-quantile",
            help="The share of updates that the clip should leave whole.",
            group=NOISE,
            show_default=True,
        ),
    ] = 0.7,
    clip: Annotated[
        float, opt("--clip", help="The clip of the first round; it adapts.", group=NOISE, show_default=True)
    ] = 1.0,
    processes: Annotated[
        int, opt("--processes", help="Processes that train clients.", group=MODEL, show_default=True)
    ] = 1,
    scheduler: Annotated[
        str | None,
        opt("--scheduler", help="A Dask scheduler, tls://HOST:PORT, whose workers train clients.", group=MODEL),
    ] = None,
    checkpoint: Annotated[
        Path | None, opt("--checkpoint", help="A .npz that keeps the state of each round (internal).", group=OUTPUT)
    ] = None,
    resume: Annotated[bool, opt("--resume", help="Resume from --checkpoint, if it is there.", group=OUTPUT)] = False,
    simulation_seed: Annotated[
        int | None,
        opt("--simulation-seed", help="Draw clients and noise from this seed: NOT FOR RELEASE.", group=NOISE),
    ] = None,
    test: Annotated[
        Path | None,
        opt("--test", help="Public rows to measure accuracy on. Without them no accuracy is measured.", group=TABLE),
    ] = None,
    bounds: BoundsFile = None,
    classes: Annotated[str | None, opt("--classes", help="The public list of classes, by commas.", group=TABLE)] = None,
    data: Annotated[
        Path | None,
        opt("--data", envvar="DOSIMETER_DATA", help="The folder with MNIST (or DOSIMETER_DATA).", group=TABLE),
    ] = None,
    categorical: Categorical = None,
    exclude: Exclude = None,
    missing: Annotated[
        str | None,
        opt("--missing", help="refuse, or drop rows with a missing value (the default with --bounds).", group=TABLE),
    ] = None,
    delimiter: Delimiter = ",",
    decimal: Decimal = ".",
    history: Annotated[
        Path | None, opt("--history", help="Write each round as CSV, with V_c and U_s (internal).", group=OUTPUT)
    ] = None,
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
    """Train one model on many clients' rows such that it does not show whether any one client took part.

    Without arguments it shows what it does on digits that ship with scikit-learn, dealt to 500 made-up clients.
    `dosimeter federate plan` computes rounds or noise without any training.
    """
    from dosimeter.cli.output import console, show, warn
    from dosimeter.cli.provenance import provenance
    from dosimeter.models.federated_training import Choices
    from dosimeter.results.federated import FederatedPlan
    from dosimeter.workflows.federate import check_checkpoint, prepare, train

    if context.invoked_subcommand is not None:
        return 0
    demo = _check_kind(context, dataset, table)
    _check_files(out, history, checkpoint, nothing_released=demo)
    session = _session(context, table, simulation_seed, sampling)
    inputs = [path for path in (table, test, bounds, *session.files) if path is not None]
    check_outputs([out, _beside(out), history, checkpoint, dose_file, json_path(json)], inputs)
    check_checkpoint(checkpoint, resume)
    training = prepare(
        demo=demo,
        table=table,
        target=target,
        client=client,
        unit=unit,
        person=person,
        site=site,
        dataset=dataset,
        test=test,
        bounds=bounds,
        classes=classes,
        clients=clients,
        epsilon=epsilon,
        delta=delta,
        clients_per_round=clients_per_round,
        rounds=rounds,
        noise_multiplier=noise_multiplier,
        schedule=schedule,
        sampling=sampling,
        choices=Choices.from_options(
            architecture=architecture,
            hidden=hidden,
            epochs=epochs,
            batches=batches,
            batch_size=batch_size,
            learning_rate=learning_rate,
            momentum=momentum,
            clip_quantile=clip_quantile,
            clip=clip,
            processes=processes,
            scheduler=scheduler,
            simulation_seed=simulation_seed,
            image_pooling=image_pooling,
        ),
        data=data,
        categorical=categorical or (),
        exclude=exclude or (),
        missing=missing,
        delimiter=delimiter,
        decimal=decimal,
        pipeline=_beside(out) is not None,
    )
    made_by = provenance(context)
    if training.terms.over:
        refused = FederatedPlan.of(training.terms, demo=demo).with_fields(plan=False, reproduce=made_by)
        show(refused, quiet=quiet, color=color, json=json, inputs=inputs)
        return 1
    terminal = console(quiet, color, json)
    if drowned := training.job.drowned:
        warn(drowned, quiet)
    statistics = history is not None
    trained = train(
        training.job, checkpoint, resume, inputs=inputs, progress=lambda job: _bar(job, terminal), statistics=statistics
    )
    result, outcome = _release(training.job, trained, session, demo, (out, history), inputs)
    show(
        result.with_fields(reproduce=made_by),
        quiet=quiet,
        color=color,
        json=json,
        inputs=inputs,
        written=[Path(path) for path in result.written],
        outcome=outcome,
        heading="federated training on digits that ship with scikit-learn, for a look at it" if demo else "",
        footer=DEMO_FOOTER if demo else (),
    )
    return 1 if outcome.refused else 0


def _session(context: typer.Context, table: Path | None, seed: int | None, sampling: str) -> ReleaseSession:
    """Where the model is booked, client by client. Releases from a seed or from made-up clients are not."""
    from dosimeter.workflows.federate import check_sampling

    never = "made-up clients" if table is None else "a simulation" if seed is not None else ""
    session = booking_session(context, never)
    if session.needs_doses:
        check_sampling(sampling)
    return session


def _check_kind(context: typer.Context, dataset: str | None, table: Path | None) -> bool:
    """True for the demonstration. Options that do not fit are refused; none is ignored in silence."""
    from dosimeter.core.errors import Refusal

    typed = {name for name in context.params if was_typed(context, name)}
    if dataset is not None and table is not None:
        raise Refusal("--dataset and --table: whose rows are they? Leave one of the two out")
    unfit = OF_TABLES if table is None else OF_IMAGES
    reason = "is for a table: name it with --table" if table is None else "is for made-up clients: leave it out"
    for name in unfit:
        if name in typed:
            raise Refusal(f"--{name.replace('_', '-')} {reason}")
    if dataset != "mnist" and set(OF_IMAGES) & typed:
        raise Refusal("--image-pooling and --data are for --dataset mnist")
    return dataset is None and table is None


def _check_files(out: Path | None, history: Path | None, checkpoint: Path | None, *, nothing_released: bool) -> None:
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    if out is None and not nothing_released:
        raise Refusal("--out is missing: name the .skops or .safetensors file where the model goes")
    kinds = (
        ("--out", out, (".skops", ".safetensors")),
        ("--history", history, (".csv",)),
        ("--checkpoint", checkpoint, (".npz",)),
    )
    for flag, path, endings in kinds:
        if path is not None and path.suffix not in endings:
            raise Refusal(f"{flag} {safe_text(path.name)}: name a {' or '.join(endings)} file")


@contextmanager
def _bar(job: Job, terminal: Any) -> Iterator[Any]:
    """On a terminal a bar with round, accuracy on public rows, ε spent and left."""
    if not terminal.is_terminal or terminal.quiet:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from dosimeter.core.progress import stage

    stage("")  # the bar instead of the line
    columns = TextColumn("round {task.completed}/{task.total}"), BarColumn(), TextColumn("{task.description}")
    with Progress(*columns, TimeRemainingColumn(), console=terminal, transient=True) as bar:
        task = bar.add_task("", total=job.terms.rounds)

        def step(record: Any) -> None:
            accuracy = f"accuracy {record.accuracy:.3f} (public rows), " if job.people.tested else ""
            left = max(0.0, job.terms.budget.epsilon - record.epsilon)
            text = f"{accuracy}ε spent {record.epsilon:.2f}, left {left:.2f}"
            bar.update(task, completed=record.round + 1, description=text)

        yield step


def _beside(out: Path | None) -> Path | None:
    """Where the network goes beside a pipeline; None if it is the file itself."""
    return out.with_suffix(".safetensors") if out is not None and out.suffix == ".skops" else None


def _release(
    job: Job,
    trained: History,
    session: ReleaseSession,
    demo: bool,
    files: tuple[Path | None, Path | None],
    inputs: list[Path],
) -> tuple[FederatedRelease, BookingOutcome]:
    """The model booked and written, then the history, which is internal."""
    from dosimeter.files.csv_export import write_csv
    from dosimeter.workflows.federated_release import history_columns, release

    out, history = files
    beside = _beside(out)
    released = release(job, trained, demo=demo, pipeline=beside is not None, booked_as=session.name)
    if out is None:
        return released.result, session.nothing
    outcome = session.release(released, out, inputs)
    result = released.result.with_fields(**outcome.fields)
    remarks = [*result.remarks, *outcome.remarks]
    if outcome.refused:
        return result.with_fields(remarks=remarks), outcome
    if beside is not None and outcome.artefact != released.artefact:
        remarks.append(f"{beside.name} was not written: {out.name} is of an earlier training, as booked")
        beside = None
    if beside is not None:
        network = released.extra_files[".safetensors"]
        _write_beside(beside, network, out, inputs)
        result = result.with_fields(artefact_beside=sha256(network).hexdigest())
    if history is not None:
        write_csv(history, history_columns(trained, bool(job.people.tested)), inputs=inputs)
    written = [str(path) for path in (out, beside, history) if path is not None]
    return result.with_fields(remarks=remarks, written=written), outcome


def _write_beside(path: Path, network: bytes, out: Path, inputs: list[Path]) -> None:
    """Write the network after the pipeline. If this fails, the pipeline stays, and the message says so."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.files.atomic import write_bytes

    try:
        write_bytes(path, network, inputs=inputs)
    except Refusal as error:
        raise Refusal(f"{error} ({safe_text(out.name)} was written, and holds the whole model)") from None
