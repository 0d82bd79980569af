"""`dosimeter scan FILE`: what a model file holds about people, without ever unpickling it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dosimeter.cli.options import (
    OUTPUT,
    START,
    TABLE,
    Color,
    Decimal,
    Delimiter,
    Exclude,
    Json,
    MissingRows,
    Person,
    Quiet,
    check_outputs,
    json_path,
    opt,
)


def scan(
    file: Annotated[
        Path,
        typer.Argument(
            help="A model file (.skops, .onnx, .safetensors, .npz, .json, .pkl, .joblib, .pt, .rds), or a folder.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path | None,
        opt("--data", help="The training table, .csv or .parquet: its rows that are found are named.", group=START),
    ] = None,
    person: Person = None,
    show_ids: Annotated[
        bool, opt("--show-ids", help="Show whose rows were found; with --person.", group=OUTPUT)
    ] = False,
    redact: Annotated[
        Path | None,
        opt("--redact", help="Write the model without the people in it here: .skops, .npz, MLflow.", group=OUTPUT),
    ] = None,
    tolerance: Annotated[
        float | None, opt("--tolerance", help="Relative difference that is still the same number.", group=TABLE)
    ] = None,
    exclude: Exclude = None,
    missing: MissingRows = "refuse",
    delimiter: Delimiter = ",",
    decimal: Decimal = ".",
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Look for training rows, single people's values, statistics and lists in a model file.

    Nothing in the file is run. Exit 1: rows or single people's values are inside. Exit 3: none were seen, but part of
    the file could not be read.
    """
    from dosimeter.cli.output import show
    from dosimeter.workflows.scan import scan as scan_file

    inputs = [file, *([data] if data else [])]
    check_outputs([json_path(json), redact], inputs)
    result = scan_file(
        file,
        data=data,
        person=person,
        show_ids=show_ids,
        redact=redact,
        tolerance=tolerance,
        exclude=exclude or (),
        missing=missing,
        delimiter=delimiter,
        decimal=decimal,
    )
    show(result, quiet=quiet, color=color, json=json, inputs=inputs)
    if result.people_inside and not result.removed:
        return 1
    return 3 if result.not_looked_into else 0
