"""`dosimeter pca TABLE`: principal components, released within a budget of differential privacy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dosimeter.cli.options import (
    MODEL,
    NOISE,
    OUTPUT,
    START,
    TABLE,
    Categorical,
    CheckpointFolder,
    Color,
    Decimal,
    Delimiter,
    DoseFileOut,
    EngineName,
    Exclude,
    Json,
    Keys,
    LedgerPlace,
    Memory,
    Name,
    NoLedger,
    Note,
    Out,
    Override,
    Person,
    Quiet,
    SchedulerAddress,
    To,
    opt,
)

if TYPE_CHECKING:
    from dosimeter.workflows.booking import ReleaseSession

DELTA = 1e-6
HEADING = (
    "dosimeter {} · pca: 1797 handwritten digits of 64 pixels (shipped with scikit-learn)\n"
    "the bounds of a pixel, 0 to 16, are public: they are the format's"
)
FOOTER = (
    "\nyour own table:  dosimeter pca people.csv --template > bounds.toml   # fill it in",
    "                 dosimeter pca people.csv --epsilon 1 --bounds bounds.toml --out components.skops",
)


def pca(
    context: typer.Context,
    table: Annotated[
        Path | None,
        typer.Argument(
            help="The table: .csv, .parquet, or a folder of Parquet files. Without it: a demonstration.",
            show_default=False,
            rich_help_panel=START,
        ),
    ] = None,
    person: Person = None,
    epsilon: Annotated[
        float | None,
        opt("--epsilon", help="ε of the budget: how far one row, or person, may shift any probability.", group=START),
    ] = None,
    bounds: Annotated[
        Path | None, opt("--bounds", help="A .toml file with the public bounds of each column.", group=START)
    ] = None,
    template: Annotated[bool, opt("--template", help="Print a bounds file to fill in, and stop.", group=START)] = False,
    out: Out = None,
    delta: Annotated[
        float,
        opt("--delta", help="δ of the budget; keep it well below 1 over the rows.", group=NOISE, show_default=True),
    ] = DELTA,
    mechanism: Annotated[
        str,
        opt(
            "--mechanism",
            help="analyze-gauss, laplace, laplace-split, laplace-joint (δ = 0), or published-...",
            group=NOISE,
            show_default=True,
        ),
    ] = "analyze-gauss",
    neighbours: Annotated[
        str | None,
        opt(
            "--neighbours",
            help="replace-one (the default) or add-or-remove, which needs n in the bounds file.",
            group=NOISE,
        ),
    ] = None,
    mean_share: Annotated[
        float | None,
        opt(
            "--mean-share",
            help="Part of the budget for a noisy mean (0.1); 0: components about the public centre.",
            group=NOISE,
        ),
    ] = None,
    not_private: Annotated[
        bool, opt("--not-private", help="Read the bounds off the table; the result says 'not private'.", group=NOISE)
    ] = False,
    components: Annotated[
        str | None,
        opt("--components", help="How many (5), or a share of the noisy variance (0.9).", group=MODEL),
    ] = None,
    attack: Annotated[
        bool,
        opt("--attack", help="Run the membership attack on halves of the table, before and after noise.", group=OUTPUT),
    ] = False,
    categorical: Categorical = None,
    exclude: Exclude = None,
    missing: Annotated[
        str | None,
        opt(
            "--missing",
            help="drop what a row with a missing value would add (the default with --bounds), or refuse.",
            group=TABLE,
        ),
    ] = None,
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
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Release principal components of a table with noise on their second moment, and say what they leak.

    Without a table it shows what it does on digits that ship with scikit-learn.
    """
    from dosimeter.cli.options import check_outputs, json_path
    from dosimeter.cli.output import show
    from dosimeter.cli.provenance import provenance
    from dosimeter.core.version import __version__
    from dosimeter.workflows import components as workflow

    _check_out(table, out, template)
    session = _session(context, table, template, not_private, person)
    inputs = [path for path in (table, bounds, *session.files) if path is not None]
    check_outputs([out, dose_file, json_path(json)], inputs)
    if table is not None and template:
        text = workflow.bounds_template(table, person=person, exclude=exclude or (), delimiter=delimiter)
        print(text, end="")  # to stdout: it is what was requested
        return 0
    released = workflow.components(
        table,
        person=person,
        epsilon=epsilon,
        delta=delta,
        bounds=bounds,
        not_private=not_private,
        components=_count(components),
        mean_share=mean_share,
        mechanism=mechanism,
        neighbours=neighbours,
        attack=attack,
        categorical=categorical or (),
        exclude=exclude or (),
        missing=missing,
        delimiter=delimiter,
        decimal=decimal,
        engine=engine,
        memory=memory,
        checkpoint=checkpoint,
        scheduler=scheduler,
    )
    outcome = session.nothing
    result = released.result.with_fields(reproduce=provenance(context))
    if out is not None and released.artefact:
        outcome = session.release(released, out, inputs)
        result = result.with_fields(
            **outcome.fields,
            remarks=[*result.remarks, *outcome.remarks],
            written="" if outcome.refused else str(out),
        )
    show(
        result,
        quiet=quiet,
        color=color,
        json=json,
        inputs=inputs,
        written=[Path(result.written)] if result.written else [],
        outcome=outcome,
        heading=HEADING.format(__version__) if table is None else "",
        footer=FOOTER if table is None else (),
    )
    return 0 if released.artefact and not outcome.refused else 1


def _check_out(table: Path | None, out: Path | None, template: bool) -> None:
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    if out is not None and out.suffix != ".skops":
        raise Refusal(f"--out {safe_text(out.name)}: the components are a .skops file")
    if table is None and template:
        raise Refusal("--template without a table: name the table first")
    if table is not None and out is None and not template:
        raise Refusal("--out is missing: name the .skops file for the components")


def _session(
    context: typer.Context, table: Path | None, template: bool, not_private: bool, person: str | None
) -> ReleaseSession:
    """Where the components are booked: those of a table with public bounds, person by person."""
    from dosimeter.cli.options import booking_session
    from dosimeter.core.errors import Refusal

    session = booking_session(context, "a demonstration" if table is None else "a template" if template else "")
    session.needs_people(person)
    if session.needs_doses and not_private:
        raise Refusal("--not-private has no guarantee that could be booked: declare --bounds, or pass --no-ledger")
    return session


def _count(text: str | None) -> int | float | None:
    """A whole number, or a share of the explained variance."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    if text is None:
        return None
    try:
        return int(text) if text.strip().isdecimal() else float(text)
    except ValueError:
        raise Refusal(f"--components {safe_text(text)}: give a whole number, or a share such as 0.9") from None
