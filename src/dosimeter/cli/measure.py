"""`dosimeter measure TABLE`: what the weights of a linear model leak about each person in its training table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dosimeter.cli.options import (
    MODEL,
    NOISE,
    OUTPUT,
    BoundsFile,
    Categorical,
    CheckpointFolder,
    Color,
    Decimal,
    Delimiter,
    DosesOut,
    EngineName,
    Exclude,
    Impute,
    Json,
    KnownTarget,
    Loss,
    MaxDose,
    Memory,
    MissingValues,
    ModelFile,
    NoiseLaw,
    NotTied,
    Penalty,
    Person,
    Quiet,
    Scale,
    SchedulerAddress,
    ShowIds,
    TableFile,
    Target,
    Tied,
    check_outputs,
    dose_table,
    json_path,
    opt,
    refuse_fit_options,
)

EPILOG = dose_table()


def measure(
    context: typer.Context,
    table: TableFile,
    target: Target,
    person: Person = None,
    max_dose: MaxDose = None,
    scale: Scale = None,
    noise: NoiseLaw = "gaussian",
    release: Annotated[
        str,
        opt(
            "--release",
            help="weights, or predictions: the model stays inside and only answers --queries.",
            group=MODEL,
            show_default=True,
        ),
    ] = "weights",
    queries: Annotated[
        Path | None,
        opt("--queries", help="The public rows that are answered, with the model's columns.", group=MODEL),
    ] = None,
    answer: Annotated[
        str | None,
        opt(
            "--answer",
            help="What a query is answered with: predictions (a mean or probabilities; the default), margins or "
            "labels. --scale is then of the noise on each answer.",
            group=MODEL,
        ),
    ] = None,
    unit: Annotated[
        str,
        opt(
            "--unit",
            help="sd: η per standard deviation of a number; raw: in its own unit. A category: per step.",
            group=NOISE,
            show_default=True,
        ),
    ] = "sd",
    model: ModelFile = None,
    loss: Loss = "auto",
    l2: Penalty = None,
    known_target: KnownTarget = False,
    scaler: Annotated[
        str | None,
        opt(
            "--scaler",
            help="total (default for a model fitted here): figures include the mean and deviation that columns are "
            "standardised by; held (default for --model): these count as public.",
            group=MODEL,
        ),
    ] = None,
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
    group: Annotated[
        list[str] | None, opt("--group", help="A column whose groups to compare. May be repeated.", group=OUTPUT)
    ] = None,
    doses_out: DosesOut = None,
    show_ids: ShowIds = False,
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Measure what the weights of a linear model leak about every person in its training table.

    Exit code 1 if someone is above --max-dose.
    """
    from dosimeter.cli.output import show
    from dosimeter.cli.provenance import provenance
    from dosimeter.core.checks import positive
    from dosimeter.files.csv_export import write_csv
    from dosimeter.workflows.measure import measure as measure_model
    from dosimeter.workflows.measure_blocks import BlockLeakage
    from dosimeter.workflows.noise_name import noise_class

    if model is not None:
        refuse_fit_options(context, ("loss", "l2", "bounds"))
    inputs = [path for path in (table, model, bounds, queries) if path is not None]
    check_outputs([doses_out, json_path(json)], inputs)
    limit = None if max_dose is None else positive("max_dose", max_dose)
    noise_class(noise)  # a wrong name is refused although an exact release has no noise
    fitted_here = model is None  # options of a fit may be set in dosimeter.toml, and are then not for a given model
    leak = measure_model(
        model,
        table,
        target=target,
        person=person,
        noise=None if scale is None else noise,
        scale=scale,
        release=release,
        queries=queries,
        answer=answer,
        loss=loss if fitted_here else "auto",
        l2=l2 if fitted_here else None,
        bounds=bounds if fitted_here else None,
        unit=unit,
        known_target=known_target,
        categorical=categorical or (),
        exclude=exclude or (),
        tied=tied or (),
        not_tied=not_tied or (),
        scaler=scaler,
        missing=missing,
        impute=impute,
        delimiter=delimiter,
        decimal=decimal,
        engine=engine,
        memory=memory,
        checkpoint=checkpoint,
        scheduler=scheduler,
    )
    if isinstance(leak, BlockLeakage):
        result = leak.result(limit=limit, groups=group or (), show_ids=show_ids)
        result = result.with_fields(reproduce=provenance(context))
        if doses_out is not None:
            leak.write_doses(doses_out, inputs=inputs)
        written = [] if doses_out is None else [doses_out]
        show(result, quiet=quiet, color=color, json=json, inputs=inputs, written=written)
        return 0 if result.verdict is None or result.verdict.within else 1
    result = leak.result(limit=limit, groups=group or (), show_ids=show_ids)
    result = result.with_fields(reproduce=provenance(context, leak.table))
    if doses_out is not None:
        write_csv(doses_out, leak.dose_columns(), inputs=inputs)
    written = [] if doses_out is None else [doses_out]
    show(result, quiet=quiet, color=color, json=json, inputs=inputs, written=written)
    return 0 if result.verdict is None or result.verdict.within else 1
