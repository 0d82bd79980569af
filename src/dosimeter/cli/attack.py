"""`dosimeter attack inversion|membership TABLE`: an attack on simulated releases, beside the figure that bounds it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dosimeter.cli.environment import Command
from dosimeter.cli.options import (
    NOISE,
    START,
    Categorical,
    Color,
    Decimal,
    Delimiter,
    Exclude,
    Impute,
    Json,
    Loss,
    MissingValues,
    Penalty,
    Quiet,
    TableFile,
    Target,
    check_outputs,
    json_path,
    opt,
)

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Attack a linear model of a table, released with noise."
)

Scale = Annotated[float, opt("--scale", help="Scale of the noise on each weight.", group=START)]
Noise = Annotated[
    str,
    opt(
        "--noise",
        help="gaussian, laplace, gumbel or logistic; membership: gaussian.",
        group=NOISE,
        show_default=True,
    ),
]
ReleaseKind = Annotated[
    str,
    opt(
        "--release",
        help="weights, or predictions: an attack on the answers to --queries alone.",
        group=NOISE,
        show_default=True,
    ),
]
Queries = Annotated[
    Path | None, opt("--queries", help="The public rows that are answered, with the model's columns.", group=NOISE)
]
AnswerKind = Annotated[
    str | None,
    opt(
        "--answer",
        help="What a query is answered with: predictions (the default), margins or labels. --scale is then of the "
        "noise on each answer.",
        group=NOISE,
    ),
]
Trials = Annotated[int, opt("--trials", help="Releases to simulate.", group=NOISE, show_default=True)]
Seed = Annotated[
    int, opt("--seed", help="Seed of the simulation. Nothing is released.", group=NOISE, show_default=True)
]


@app.command("inversion", cls=Command)
def inversion(
    context: typer.Context,
    table: TableFile,
    target: Target,
    column: Annotated[str, opt("--column", help="The column that is guessed.", group=START)],
    scale: Scale,
    noise: Noise = "gaussian",
    release: ReleaseKind = "weights",
    queries: Queries = None,
    answer: AnswerKind = None,
    loss: Loss = "auto",
    l2: Penalty = None,
    trials: Trials = 100,
    seed: Seed = 0,
    categorical: Categorical = None,
    exclude: Exclude = None,
    missing: MissingValues = "refuse",
    impute: Impute = None,
    delimiter: Delimiter = ",",
    decimal: Decimal = ".",
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Guess one column of every row from released weights or answers; the attacker knows everything else."""
    return _attack(context, table, json, quiet, color)


@app.command("membership", cls=Command)
def membership(
    context: typer.Context,
    table: TableFile,
    target: Target,
    scale: Scale,
    noise: Noise = "gaussian",
    release: ReleaseKind = "weights",
    queries: Queries = None,
    answer: AnswerKind = None,
    loss: Loss = "auto",
    l2: Penalty = None,
    trials: Trials = 2000,
    seed: Seed = 0,
    categorical: Categorical = None,
    exclude: Exclude = None,
    missing: MissingValues = "refuse",
    impute: Impute = None,
    delimiter: Delimiter = ",",
    decimal: Decimal = ".",
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Guess whether a row took part, knowing all other rows: exact for every row, simulated on the most exposed."""
    return _attack(context, table, json, quiet, color)


SHOWN = ("table", "json", "quiet", "color")
"""Options that the attack itself does not take."""


def _attack(context: typer.Context, table: Path, json: str | None, quiet: bool, color: bool) -> int:
    """The options of a subcommand are the arguments of the attack."""
    from dosimeter.cli.output import show
    from dosimeter.cli.provenance import provenance
    from dosimeter.workflows.attack import attack

    queries = context.params["queries"]
    inputs = [path for path in (table, queries) if path is not None]
    check_outputs([json_path(json)], inputs)
    options = {name: value for name, value in context.params.items() if name not in SHOWN}
    lists = ("categorical", "exclude", "impute")
    options |= {name: options[name] or () for name in lists}
    report = attack(table, options.pop("target"), kind=str(context.info_name), **options)
    result = report.with_fields(reproduce=provenance(context))
    show(result, quiet=quiet, color=color, json=json, inputs=inputs)
    return 0
