"""`dosimeter federate`: a model trained by many clients that does not show whether any one of them took part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli.output import console, write_json
from dosimeter.workflows.booking import DoseFile, Keys, LedgerAt, Name, NoLedger, Note, Override, To

if TYPE_CHECKING:
    from dosimeter.models.federated_rows import ClientPopulation
    from dosimeter.models.federated_terms import FederatedTerms
    from dosimeter.models.federated_training import Job
    from dosimeter.workflows.booking import BookingOutcome, ReleaseSession

Words = typer.Option
OF_TABLES = ("target", "client", "test", "bounds", "classes", "nominal", "drop", "missing", "delimiter")
OF_IMAGES = ("pool", "data")


def federate(
    context: typer.Context,
    plan: Annotated[
        str | None,
        typer.Argument(help="'plan': how many rounds, or how much noise, without any training.", show_default=False),
    ] = None,
    dataset: Annotated[
        str | None, Words("--dataset", help="Made-up clients on public images: digits or mnist.", show_default=False)
    ] = None,
    table: Annotated[
        Path | None, Words("--table", help="The clients' rows: .csv or .parquet.", show_default=False)
    ] = None,
    target: Annotated[str | None, Words("--target", help="The column of classes.", show_default=False)] = None,
    client: Annotated[
        str | None, Words("--client", help="The column that says whose row it is: a hospital.", show_default=False)
    ] = None,
    test: Annotated[
        Path | None, Words("--test", help="Public rows to measure accuracy on; without, none is.", show_default=False)
    ] = None,
    bounds: Annotated[
        Path | None,
        Words("--bounds", help="Public bounds (.toml); without, each client standardises by itself."),
    ] = None,
    classes: Annotated[
        str | None, Words("--classes", help="The public list of classes, by commas.", show_default=False)
    ] = None,
    clients: Annotated[
        int | None,
        Words("--clients", help="K: how many clients there are (public); a table may hold fewer.", show_default=False),
    ] = None,
    epsilon: Annotated[float | None, Words("--epsilon", help="ε for the whole training.", show_default=False)] = None,
    delta: Annotated[
        float | None, Words("--delta", help="δ for the whole training: below 1/K; 1e-5 without it.", show_default=False)
    ] = None,
    per_round: Annotated[
        float | None, Words("--per-round", help="m: clients asked in a round, on average; K/4 without it.")
    ] = None,
    rounds: Annotated[
        int | None, Words("--rounds", help="How many; the noise follows. K/20 from 10 to 50 without it.")
    ] = None,
    noise: Annotated[
        float | None, Words("--noise", help="z: noise on the sum over the clip; the rounds follow.")
    ] = None,
    sampling: Annotated[
        str, Words("--sampling", help="poisson, or fixed: exactly m, at more than twice the price.")
    ] = "poisson",
    model: Annotated[
        str | None, Words("--model", help="softmax or mlp; mlp from 1,000 clients on without it.", show_default=False)
    ] = None,
    hidden: Annotated[
        str | None, Words("--hidden", help="Widths of an mlp's hidden layers, by commas; 64 without it.")
    ] = None,
    pool: Annotated[int, Words("--pool", help="MNIST: average squares of so many pixels a side (1, 2, 4, 7).")] = 2,
    epochs: Annotated[int, Words("--epochs", help="E: times a client goes over its rows in a round.")] = 4,
    batches: Annotated[
        int | None, Words("--batches", help="B: batches of a client; 10 without it.", show_default=False)
    ] = None,
    batch_size: Annotated[
        int | None, Words("--batch-size", help="Rows of a batch, instead of --batches.", show_default=False)
    ] = None,
    learning_rate: Annotated[float, Words("--learning-rate", help="Of the clients.")] = 0.3,
    momentum: Annotated[float, Words("--momentum", help="Of the curator, from 0 to below 1.")] = 0.5,
    quantile: Annotated[
        float, Words("--quantile", help="The share of clients that the clip should leave whole.")
    ] = 0.7,
    clip: Annotated[float, Words("--clip", help="The clip of the first round; it adapts.")] = 1.0,
    processes: Annotated[int, Words("--processes", help="Processes that train clients.")] = 1,
    checkpoint: Annotated[
        Path | None, Words("--checkpoint", help="A .npz that keeps the state of each round (internal).")
    ] = None,
    resume: Annotated[bool, Words("--resume", help="Go on from --checkpoint, if it is there.")] = False,
    simulate: Annotated[
        int | None,
        Words("--simulate", help="Draw clients and noise from this seed: NOT FOR RELEASE.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None,
        Words("--data", envvar="DOSIMETER_DATA", help="The folder with MNIST (or DOSIMETER_DATA)."),
    ] = None,
    nominal: Annotated[list[str] | None, Words("--nominal", help="A column of codes. May be repeated.")] = None,
    drop: Annotated[list[str] | None, Words("--drop", help="A column to leave out. May be repeated.")] = None,
    missing: Annotated[
        str | None,
        Words(
            "--missing",
            help="refuse, or drop rows with a missing value (the default with --bounds).",
            show_default=False,
        ),
    ] = None,
    delimiter: Annotated[str, Words("--delimiter", help="What separates cells in a .csv.")] = ",",
    out: Annotated[
        Path | None,
        Words(
            "--out", help="Where the model goes: .safetensors, or .skops with .safetensors beside.", show_default=False
        ),
    ] = None,
    history: Annotated[
        Path | None, Words("--history", help="Each round as CSV, V_c and U_s too (internal).", show_default=False)
    ] = None,
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
    """Train one model on many clients' rows so that nobody can tell from it whether any one client took part.

    Without arguments it shows what it does on digits that ship with scikit-learn, dealt to 500 made-up clients.
    """
    from dosimeter.cli.options import check_outputs
    from dosimeter.models import federated_rows as population
    from dosimeter.models.federated_training import Choices
    from dosimeter.results import federated_facts as trained
    from dosimeter.results.provenance import how_asked
    from dosimeter.tables.network_export import refuse_own_scales

    demo = _check_kind(context, plan, dataset, table)
    only_plan = plan is not None
    _check_files(out, history, checkpoint, resume, demo or only_plan)
    at = _desk(context, only_plan, table, simulate, sampling)
    inputs = [path for path in (table, test, bounds, *at.files) if path is not None]
    check_outputs(
        [out, _beside(out), history, checkpoint, dose, None if json in (None, "-") else Path(str(json))], inputs
    )
    _check_checkpoint(checkpoint, resume)
    choices = Choices.checked(
        model, hidden, epochs, batches, batch_size, learning_rate, momentum, quantile, clip, processes, simulate, pool
    )
    words = console(quiet, color, json)
    people: ClientPopulation | None = None
    K = population.DEMO_CLIENTS if demo and clients is None else clients
    if table is not None and not (only_plan and K is not None):
        people = population.of_table(
            table, str(target), str(client), test=test, bounds=bounds, classes=classes, drop=drop or [],
            read={"missing": _missing(missing, bounds), "delimiter": delimiter}, nominal=nominal or [], clients=clients,
        )  # fmt: skip
        if _beside(out) is not None and people.layout is not None:
            refuse_own_scales(people.layout)
        K = len(people.clients) if clients is None else clients
    agreed = _terms(K, demo, epsilon, delta, per_round, rounds, noise, sampling)
    facts = trained.planned(agreed, only_plan, demo) | {"reproduce": how_asked(context)}
    if only_plan or agreed.over:
        if json is not None:
            write_json(facts, json, inputs=inputs)
        trained.tell_plan(facts, words)
        return 1 if agreed.over else 0
    if people is None:
        people = population.of_images(dataset or "digits", agreed.cohort.clients, choices.seed, data, pool)
    job = choices.job(people, agreed)
    done = _train(job, checkpoint, resume, inputs, words, spread=history is not None)
    facts = trained.facts_of(job, done, demo) | {"reproduce": how_asked(context)}
    receipt = _leave(job, done, facts, at, (out, history), inputs)
    if json is not None:
        write_json(facts, json, inputs=inputs)
    trained.tell(facts, words, receipt)
    return 1 if receipt.refused else 0


def _desk(context: typer.Context, plan: bool, table: Path | None, seed: int | None, sampling: str) -> ReleaseSession:
    """Where the model is booked, client by client; what a plan, a seed or made-up clients give is not."""
    from dosimeter.workflows.booking import desk
    from dosimeter.workflows.person_doses import check_sampling

    never = "a plan" if plan else "made-up clients" if table is None else "a simulation" if seed is not None else ""
    at = desk(context, never)
    if at.wanted:
        check_sampling(sampling)
    return at


def _check_kind(context: typer.Context, plan: str | None, dataset: str | None, table: Path | None) -> bool:
    """True for the demonstration; options that do not go together are refused, and none is passed over in silence."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.models.federated_rows import DATASETS

    given = {name for name in context.params if _asked(context, name)}
    if plan is not None and plan != "plan":
        raise Refusal(f"{safe_text(plan)}: the only word here is plan; a table is named by --table")
    if dataset is not None and table is not None:
        raise Refusal("--dataset and --table: whose rows are they? Leave one of the two out")
    if dataset is not None and dataset not in DATASETS:
        raise Refusal(f"--dataset {safe_text(dataset)}: use digits or mnist")
    if table is None:
        for name in OF_TABLES:
            if name in given:
                raise Refusal(f"--{name} is for a table: name it with --table")
    else:
        for name, what in (("target", "the column of classes"), ("client", "the column that says whose row it is")):
            if context.params[name] is None:
                raise Refusal(f"--{name} is missing: name {what}")
        for name in OF_IMAGES:
            if name in given:
                raise Refusal(f"--{name} is for made-up clients, and --table has its own: leave one of the two out")
    if dataset != "mnist" and {"pool", "data"} & given:
        raise Refusal("--pool and --data are for --dataset mnist")
    return plan is None and dataset is None and table is None


def _asked(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _missing(asked: str | None, bounds: Path | None) -> str:
    """With declared columns one client's gap does not end the run unless that is asked for."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    policy = asked or ("refuse" if bounds is None else "drop")
    if policy not in ("refuse", "drop"):
        raise Refusal(f"--missing {safe_text(policy)}: use refuse or drop")
    return policy


def _check_files(
    out: Path | None, history: Path | None, checkpoint: Path | None, resume: bool, nothing_leaves: bool
) -> None:
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    if out is None and not nothing_leaves:
        raise Refusal("--out is missing: name the .skops or .safetensors file where the model goes")
    kinds = (
        ("--out", out, (".skops", ".safetensors")),
        ("--history", history, (".csv",)),
        ("--checkpoint", checkpoint, (".npz",)),
    )
    for option, path, endings in kinds:
        if path is not None and path.suffix not in endings:
            raise Refusal(f"{option} {safe_text(path.name)}: name a {' or '.join(endings)} file")
    if resume and checkpoint is None:
        raise Refusal("--resume from what? Name the file with --checkpoint")


def _terms(
    K: int | None,
    demo: bool,
    epsilon: float | None,
    delta: float | None,
    per_round: float | None,
    rounds: int | None,
    noise: float | None,
    sampling: str,
) -> FederatedTerms:
    from dosimeter.cli.checks import positive
    from dosimeter.core.errors import Refusal
    from dosimeter.federated.accountant import LEAST_DELTA
    from dosimeter.models.federated_terms import DELTA, DEMO_DELTA, DEMO_EPSILON, terms

    if epsilon is None and not demo:
        raise Refusal("state a budget: --epsilon 8, say (and --delta, 1e-05 without it)")
    if K is None:
        raise Refusal("--clients is missing: say how many clients there are")
    if rounds is not None and not 1 <= rounds <= 1 << 20:
        raise Refusal(f"--rounds {rounds}: give a whole number from 1 to {1 << 20}")
    if noise is not None and not 0.05 <= positive("--noise", noise) <= 1e4:
        raise Refusal(f"--noise {noise:g}: give a multiplier from 0.05 to 10000")
    least = DEMO_DELTA if demo and epsilon is None else DELTA
    found = least if delta is None else delta
    if not LEAST_DELTA <= found < 1:
        raise Refusal(
            f"--delta {found:g}: give a number from {LEAST_DELTA:g}, which is still told apart from 0, to below 1"
        )
    wanted = DEMO_EPSILON if epsilon is None else positive("--epsilon", epsilon)
    if wanted > 100:
        raise Refusal(f"--epsilon {wanted:g}: above 100 nobody is protected; give a smaller one")
    return terms(
        K, epsilon=wanted, delta=found, per_round=per_round, rounds=rounds, noise=noise, sampling=sampling
    )  # fmt: skip


def _train(job: Job, checkpoint: Path | None, resume: bool, inputs: list[Path], words: Any, *, spread: bool) -> Any:
    """The history; kept after every step where there is a file for it, and gone on from there."""
    from dosimeter.files.federated_checkpoint import CheckpointWriter, alone_with, read_kept

    with nullcontext() if checkpoint is None else alone_with(checkpoint):
        state, keeper = None, None
        if checkpoint is not None:
            name = job.digest()
            keeper = CheckpointWriter(checkpoint, name, inputs=inputs)
            _check_checkpoint(checkpoint, resume)
            if checkpoint.exists():
                state, keeper.earlier = read_kept(checkpoint, name)
                keeper.serial = state.serial
        with _bar(job, words) as progress, _kept(checkpoint):
            if keeper is None:
                return job.run(state, None, progress, spread=spread)
            return job.run(state, keeper.keep, progress, earlier=keeper.earlier, spread=spread)


def _check_checkpoint(checkpoint: Path | None, resume: bool) -> None:
    """Refuse a checkpoint from which nobody can go on before tables are read and ε is computed."""
    from dosimeter.core.errors import Refusal
    from dosimeter.files.federated_checkpoint import check_whole

    if checkpoint is None or not checkpoint.exists():
        return
    if not resume:
        raise Refusal(f"--checkpoint {checkpoint}: it exists; go on from it with --resume, or name another")
    check_whole(checkpoint)


@contextmanager
def _kept(checkpoint: Path | None) -> Iterator[None]:
    """Ctrl-C after a round that was kept is no loss, and is told so."""
    from dosimeter.cli.environment import Stopped

    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is None or not checkpoint.exists():
            raise
        raise Stopped("go on with --resume") from None


@contextmanager
def _bar(job: Job, words: Any) -> Iterator[Any]:
    """On a terminal a bar with round, accuracy on public rows, ε spent and left."""
    if not words.is_terminal or words.quiet:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from dosimeter.core.progress import stage

    stage("")  # the bar instead of the line
    shown = TextColumn("round {task.completed}/{task.total}"), BarColumn(), TextColumn("{task.description}")
    with Progress(*shown, TimeRemainingColumn(), console=words, transient=True) as bar:
        task = bar.add_task("", total=job.terms.rounds)

        def step(entry: Any) -> None:
            right = f"accuracy {entry.accuracy:.3f} (public rows), " if job.people.tested else ""
            left = max(0.0, job.terms.budget.epsilon - entry.epsilon)
            bar.update(
                task, completed=entry.round + 1, description=f"{right}ε spent {entry.epsilon:.2f}, left {left:.2f}"
            )

        yield step


def _beside(out: Path | None) -> Path | None:
    """Where the network goes beside a pipeline; None where it is the file itself."""
    return out.with_suffix(".safetensors") if out is not None and out.suffix == ".skops" else None


def _leave(
    job: Job,
    done: Any,
    facts: dict[str, Any],
    at: ReleaseSession,
    files: tuple[Path | None, Path | None],
    inputs: list[Path],
) -> BookingOutcome:
    """The model booked and written, with the name it is booked under; then the history, which is internal."""
    from dosimeter.files.csv_export import write_sheet
    from dosimeter.files.safetensors import as_safetensors
    from dosimeter.results.federated_facts import history_of, story
    from dosimeter.workflows.person_doses import of_training

    out, history = files
    beside, receipt = _beside(out), at.nothing
    if out is not None:
        # Number and head of the entry follow from these bytes and cannot stand in them.
        told = {**story(facts), "booked": {"name": at.name} if at.ledger is not None else False}
        data = b"" if beside is None else _pipeline(job, done)
        if beside is not None:
            told["pipeline_sha256"] = sha256(data).hexdigest()
        network = as_safetensors(job.network, done.state.model, told)
        receipt = at.leave(data or network, out, inputs, lambda: of_training(job, done))
        facts |= receipt.facts
        facts["remarks"] += receipt.remarks
        if beside is not None and not receipt.refused and receipt.artefact != data:
            facts["remarks"].append(f"{beside.name} was not written: {out.name} is of an earlier training, as booked")
            beside = None
        if beside is not None and not receipt.refused:
            _write_beside(beside, network, out, inputs)
            facts["artefact_beside"] = sha256(network).hexdigest()
    if receipt.refused:
        return receipt
    if history is not None:
        columns = history_of(done, bool(job.people.tested))
        write_sheet(history, {name: list(values) for name, values in columns.items()}, inputs=inputs)
    facts["written"] = [str(path) for path in (out, beside, history) if path is not None]
    return receipt


def _write_beside(path: Path, network: bytes, out: Path, inputs: list[Path]) -> None:
    """The network, once the pipeline is written: a failure here takes nothing of that back, and says so."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.files.atomic import write_bytes

    try:
        write_bytes(path, network, inputs=inputs)
    except Refusal as error:
        raise Refusal(f"{error} ({safe_text(out.name)} was written, and holds the whole model)") from None


def _pipeline(job: Job, done: Any) -> bytes:
    """The model as a scikit-learn pipeline."""
    import skops.io as sio

    from dosimeter.tables.network_export import pipeline

    people = job.people
    made: bytes = sio.dumps(pipeline(people.layout, job.network, done.state.model, people.classes))
    return made
