"""`dosimeter attack inversion|membership TABLE`: the attack played, beside the figure that bounds it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli.environment import Command
from dosimeter.cli.options import Impute, MissingValues
from dosimeter.cli.output import console, write_json

if TYPE_CHECKING:
    from dosimeter.tables.table import Table

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Attack a noised linear model of one's own table.")

TableFile = Annotated[Path, typer.Argument(help="The training table: .csv or .parquet.", show_default=False)]
Target = Annotated[str, typer.Option("--target", help="The column that the model predicts.", show_default=False)]
Scale = Annotated[float, typer.Option("--scale", help="Scale of the noise on each weight.", show_default=False)]
Noise = Annotated[str, typer.Option("--noise", help="gaussian or laplace (membership: gaussian).")]
L2 = Annotated[
    float | None, typer.Option("--l2", help="Penalty λ on standardised columns; without it scikit-learn's default.")
]
Trials = Annotated[int, typer.Option("--trials", help="Releases to simulate.")]
Seed = Annotated[int, typer.Option("--seed", help="Of the simulation; nothing is released.")]
Nominal = Annotated[list[str] | None, typer.Option("--nominal", help="A column of codes. May be repeated.")]
Drop = Annotated[list[str] | None, typer.Option("--drop", help="A column to leave out. May be repeated.")]
Delimiter = Annotated[str, typer.Option("--delimiter", help="What separates cells in a .csv.")]
Json = Annotated[str | None, typer.Option("--json", help="Write the facts as JSON here; - for stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No words.")]


@app.command("inversion", cls=Command)
def inversion(
    table: TableFile,
    target: Target,
    column: Annotated[str, typer.Option("--column", help="The attribute that is guessed.", show_default=False)],
    scale: Scale,
    noise: Noise = "gaussian",
    l2: L2 = None,
    trials: Trials = 100,
    seed: Seed = 0,
    nominal: Nominal = None,
    drop: Drop = None,
    missing: MissingValues = "refuse",
    impute: Impute = None,
    delimiter: Delimiter = ",",
    json: Json = None,
    quiet: Quiet = False,
) -> int:
    """Guess one column of every row from the released weights, knowing everything else; the control does without."""
    from dosimeter.cli import show
    from dosimeter.models.linear_attack import invert

    people = _read(table, target, nominal, drop, missing, impute, delimiter)
    how = _how(nominal, scale, noise, l2, trials, seed)
    done = invert(people, target, column, **how)
    facts = {**done.facts(), "column": column, "noise": str(how["noise"]), "remarks": list(done.remarks)}
    facts |= {"highest_eta": float(done.eta.max()), "internal": True}
    if json is not None:
        write_json(facts, json, inputs=[table])
    interval = done.guesses.interval
    words = console(quiet, json=json)
    words.print(
        f"white-box inversion of {_safe(column)}, {done.levels} candidates, {trials} releases with {how['noise']}"
    )
    words.print(
        f"guessed right: {100 * done.guesses.figure:.1f} % [{100 * interval.low:.1f}, {100 * interval.high:.1f}]; "
        f"from everything else without the weights {100 * done.guesses.control_figure:.1f} %; by the shares of the "
        f"values alone {100 * done.by_prior:.1f} %"
    )
    top, rest = facts["top_1_percent"], facts["others"]
    words.print(f"of the 1 % with the highest figure: {100 * top:.1f} %; of the others: {100 * rest:.1f} %")
    if "rare" in facts:
        for line in show.rare(facts["rare"], column):
            words.print(line)
    words.print("the guesser knows everything else in the table; the figures are internal")
    for note in done.remarks:
        words.print(f"remark: {note}")
    return 0


@app.command("membership", cls=Command)
def membership(
    table: TableFile,
    target: Target,
    scale: Scale,
    noise: Noise = "gaussian",
    l2: L2 = None,
    trials: Trials = 2000,
    seed: Seed = 0,
    nominal: Nominal = None,
    drop: Drop = None,
    missing: MissingValues = "refuse",
    impute: Impute = None,
    delimiter: Delimiter = ",",
    json: Json = None,
    quiet: Quiet = False,
) -> int:
    """Tell whether a row took part, knowing everybody else: exact for every row, and played on the most exposed."""
    import numpy as np
    from scipy.special import ndtr, ndtri

    from dosimeter.models.linear_attack import presence
    from dosimeter.results.summarise import number_of

    people = _read(table, target, nominal, drop, missing, impute, delimiter)
    how = _how(nominal, scale, noise, l2, trials, seed)
    done = presence(people, target, **how)
    auc, caught = ndtr(done.mu / np.sqrt(2)), ndtr(done.mu + ndtri(0.01))
    row = number_of(people, done.row)
    facts = {
        "notion": "membership, strongest adversary",
        "standing": "exact",
        "noise": str(how["noise"]),
        "auc": {"typical": float(np.median(auc)), "highest": float(auc.max()), "highest_row": row},
        "tpr_at_1_percent_fpr": {"typical": float(np.median(caught)), "highest": float(caught.max())},
        "played": done.played.facts(),
        "internal": True,
        "remarks": list(done.remarks),
    }
    if json is not None:
        write_json(facts, json, inputs=[table])
    interval = done.played.interval
    words = console(quiet, json=json)
    words.print(f"membership of each row, {how['noise']}, against somebody who knows everybody else (exact)")
    words.print(f"AUC: typical {np.median(auc):.3f}, highest {auc.max():.3f} (row {row}); 0.5 is a coin")
    words.print(
        f"caught at 1 % false alarms: typical {100 * np.median(caught):.1f} %, highest {100 * caught.max():.1f} %"
    )
    words.print(
        f"played on row {row}: AUC {done.played.figure:.3f} [{interval.low:.3f}, {interval.high:.3f}] from {trials} "
        "releases with and without it"
    )
    for note in done.remarks:
        words.print(f"remark: {note}")
    return 0


def _safe(text: str) -> str:
    from dosimeter.core.text import safe_text

    return safe_text(text)


def _read(
    table: Path,
    target: str,
    nominal: list[str] | None,
    drop: list[str] | None,
    missing: str,
    impute: list[str] | None,
    delimiter: str,
) -> Table:
    from dosimeter.cli.options import read

    return read(table, delimiter, missing, None, nominal or [], drop or [], target=target, impute=impute or ())


def _how(
    nominal: list[str] | None, scale: float, noise: str, l2: float | None, trials: int, seed: int
) -> dict[str, Any]:
    import numpy as np

    from dosimeter.cli.checks import not_negative, positive
    from dosimeter.cli.options import law_of
    from dosimeter.core.errors import Refusal

    if not 2 <= trials <= 1_000_000:
        raise Refusal(f"--trials {trials}: give a whole number from 2 to 1000000")
    if seed < 0:
        raise Refusal(f"--seed {seed}: give a whole number, 0 or above")
    law: Any = law_of(noise)
    return {
        "noise": law(positive("--scale", scale)),
        "l2": None if l2 is None else not_negative("--l2", l2),
        "trials": trials,
        "rng": np.random.Generator(np.random.PCG64(seed)),
        "nominal": tuple(nominal or ()),
    }
