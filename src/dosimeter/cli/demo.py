"""`dosimeter demo`: the whole road on real patients, in ten seconds and without a file of one's own."""

from __future__ import annotations

from typing import Annotated

import typer

from dosimeter.cli.output import console, write_json

SCALE, L2, LIMIT = 1.0, 0.01, 10.0
"""Fixed beforehand, not tuned on the patients. η = 10 lets somebody pin a value to a tenth of its spread."""


def demo(
    max_dose: Annotated[
        float, typer.Option("--max-dose", help="The limit that the verdict is about (the exit code stays 0).")
    ] = LIMIT,
    scale: Annotated[float, typer.Option("--scale", help="Standard deviation of the noise on each weight.")] = SCALE,
    json: Annotated[str | None, typer.Option("--json", help="Write the facts as JSON here; - for stdout.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No words, only JSON.")] = False,
    color: Annotated[bool, typer.Option("--color/--no-color", help="Colours in the terminal.")] = True,
) -> int:
    """Measure a model of 442 diabetes patients: what its weights give away about each of them."""
    from dosimeter import Gaussian, __version__
    from dosimeter.cli import show
    from dosimeter.cli.checks import positive
    from dosimeter.datasets.demo import TARGET, diabetes
    from dosimeter.frames.own import fit_table
    from dosimeter.report.summarise import summarise

    positive("--max-dose", max_dose)
    out = console(quiet, color, json)
    table = diabetes()
    own = fit_table(table, TARGET, l2=L2, noise=Gaussian(positive("--scale", scale)))
    facts = summarise(own.leakage, table, limit=max_dose)
    facts["model"][own.score_name] = own.score
    if json is not None:
        write_json(facts, json)
    out.print(f"dosimeter {__version__} · demo: {table.n} diabetes patients (shipped with scikit-learn)")
    columns = len(own.leakage.columns)
    out.print(
        f"linear regression of {TARGET} on {columns} columns, R² {own.score:.2f}; "
        f"noise on each released weight: {own.leakage.noise}\n"
    )
    show.measurement(facts, out, "patient", f"patient {facts['dose']['highest_row']}")
    out.print("\nyour own table:  dosimeter measure patients.csv --target COLUMN --scale 1 --max-dose 10")
    return 0
