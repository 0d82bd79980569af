"""`dosimeter fix TABLE`: a linear model released with noise that keeps every person below a dose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dosimeter.cli.options import (
    LEDGER,
    MODEL,
    NOISE,
    START,
    BoundsFile,
    Categorical,
    CheckpointFolder,
    Color,
    Decimal,
    Delimiter,
    DoseFileOut,
    EngineName,
    Exclude,
    Impute,
    Json,
    Keys,
    LedgerPlace,
    Loss,
    MaxDose,
    Memory,
    MissingValues,
    Name,
    NoiseLaw,
    NoLedger,
    Note,
    NotTied,
    Override,
    Penalty,
    Person,
    Quiet,
    SchedulerAddress,
    TableFile,
    Target,
    Tied,
    To,
    booking_session,
    check_outputs,
    dose_table,
    json_path,
    opt,
    refuse_fit_options,
    was_typed,
)

if TYPE_CHECKING:
    from dosimeter.workflows.booking import BookingOutcome, ReleaseSession

EPILOG = dose_table()
STORED = "the ledger keeps each person's Fisher matrix of this release: another about the same rows adds exactly"


def fix(
    context: typer.Context,
    table: TableFile,
    target: Target,
    out: Annotated[Path, opt("--out", help="Where the released model is written: a .skops file.", group=START)],
    person: Person = None,
    max_dose: MaxDose = None,
    scale: Annotated[
        float | None,
        opt(
            "--scale",
            help="A public noise scale; without it the noise follows from --max-dose. With both, the limit must hold.",
            group=NOISE,
        ),
    ] = None,
    noise: NoiseLaw = "gaussian",
    noise_shape: Annotated[
        str,
        opt(
            "--noise-shape",
            help="auto: the noise that costs least; hessian: shaped; none: the same on all weights.",
            group=NOISE,
            show_default=True,
        ),
    ] = "auto",
    equalise: Annotated[
        bool, opt("--equalise", help="Reweight people so that their doses become equal.", group=NOISE)
    ] = False,
    reweighting_rounds: Annotated[
        int | None, opt("--reweighting-rounds", help="Rounds of --equalise. By default 3.", group=NOISE)
    ] = None,
    even_if_useless: Annotated[
        bool, opt("--even-if-useless", help="Write a model although a constant prediction does better.", group=NOISE)
    ] = False,
    model: Annotated[
        Path | None,
        opt(
            "--model",
            help="A fitted model to release, .skops or .json: its own preprocessing and penalty.",
            group=MODEL,
        ),
    ] = None,
    loss: Loss = "auto",
    l2: Penalty = None,
    scaler: Annotated[
        str,
        opt(
            "--scaler",
            help="total: figures include the mean and deviation that columns are standardised by; held: these count "
            "as public.",
            group=MODEL,
            show_default=True,
        ),
    ] = "total",
    categorical: Categorical = None,
    exclude: Exclude = None,
    tied: Tied = None,
    not_tied: NotTied = None,
    bounds: BoundsFile = None,
    missing: MissingValues = "refuse",
    impute: Impute = None,
    delimiter: Delimiter = ",",
    decimal: Decimal = ".",
    engine: EngineName = None,
    memory: Memory = None,
    checkpoint: CheckpointFolder = None,
    scheduler: SchedulerAddress = None,
    ledger: LedgerPlace = None,
    keys: Keys = None,
    no_ledger: NoLedger = False,
    name: Name = None,
    to: To = None,
    note: Note = None,
    override: Override = None,
    dose_file: DoseFileOut = None,
    store_fisher_blocks: Annotated[
        bool,
        opt(
            "--store-fisher-blocks",
            help="Keep each person's Fisher matrix in the ledger, so that totals are exact.",
            group=LEDGER,
        ),
    ] = False,
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Fit a linear model, put noise on it so that no dose is above the limit, and write it.

    Exit code 1: nothing was written, because a limit was exceeded or the model would be useless.
    """
    from dosimeter.cli.output import show
    from dosimeter.cli.provenance import provenance
    from dosimeter.workflows.fix import fix as release_model

    session = _session(context, out, person, store_fisher_blocks)
    if model is not None:
        refuse_fit_options(context, ("loss", "l2", "bounds", "categorical", "scaler", "impute"))
    inputs = [path for path in (table, bounds, model, *session.files) if path is not None]
    check_outputs([out, dose_file, json_path(json)], inputs)
    fitted_here = model is None  # options of a fit may be set in dosimeter.toml, and are then not for a given model
    released = release_model(
        table,
        target,
        model=model,
        person=person,
        max_dose=max_dose,
        scale=scale,
        noise=noise,
        loss=loss if fitted_here else "auto",
        l2=l2 if fitted_here else None,
        bounds=bounds if fitted_here else None,
        categorical=(categorical or ()) if fitted_here else (),
        scaler=scaler if fitted_here else "total",
        impute=impute if fitted_here else None,
        equalise=equalise,
        reweighting_rounds=reweighting_rounds if equalise or was_typed(context, "reweighting_rounds") else None,
        noise_shape=noise_shape,
        exclude=exclude or (),
        tied=tied or (),
        not_tied=not_tied or (),
        missing=missing,
        store_fisher_blocks=store_fisher_blocks,
        even_if_useless=even_if_useless,
        delimiter=delimiter,
        decimal=decimal,
        engine=engine,
        memory=memory,
        checkpoint=checkpoint,
        scheduler=scheduler,
    )
    outcome = session.release(released, out, inputs) if released.artefact else session.nothing
    result = released.result.with_fields(reproduce=provenance(context, released.table), **outcome.fields)
    result = result.with_fields(remarks=[*result.remarks, *_remarks(outcome, store_fisher_blocks)])
    written = [path for path in (out, dose_file) if path is not None]
    show(
        result,
        quiet=quiet,
        color=color,
        json=json,
        inputs=inputs,
        written=written if released.artefact and not outcome.refused else (),
        outcome=replace(outcome, remarks=()),
    )
    return 0 if released.artefact and not outcome.refused else 1


def _session(context: typer.Context, out: Path, person: str | None, store_fisher_blocks: bool) -> ReleaseSession:
    """Where the model is booked, person by person."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    if out.suffix != ".skops":
        raise Refusal(f"--out {safe_text(out.name)}: a released model is a .skops file")
    session = booking_session(context)
    session.needs_people(person)
    if store_fisher_blocks and session.ledger is None:
        raise Refusal(f"--store-fisher-blocks is for a ledger, and this is {session.text}: leave it out")
    if store_fisher_blocks and session.dose_file is not None:
        raise Refusal("--store-fisher-blocks and --dose-file: a dose file carries no blocks; leave one of the two out")
    return session


def _remarks(outcome: BookingOutcome, store_fisher_blocks: bool) -> tuple[str, ...]:
    stored = store_fisher_blocks and outcome.booked is not None and not outcome.remarks
    return (*outcome.remarks, *((STORED,) if stored else ()))
