"""`dosimeter reproduce NAME`: each printed number of a paper beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dosimeter.cli.output import console, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from dosimeter.reproduce.comparison import Report

PAPERS = ("geyer19", "hannun21", "saeidian21", "zari22")
WITHOUT_DATA = ("geyer19", "saeidian21")
"""Those whose printed numbers need no data; with it they tell more."""


def reproduce(
    name: Annotated[str, typer.Argument(help=f"The paper: {', '.join(PAPERS)}.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", envvar="DOSIMETER_DATA", help="The folder with the papers' data (or DOSIMETER_DATA)."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Only what takes seconds, or a minute: leaves out the long experiments; of zari22 a smoke test.",
        ),
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            min=1,
            help="geyer19: trainings of each line of its Table 1, 10 unless told; of 10,000 clients a tenth of them.",
        ),
    ] = None,
    json: Annotated[str | None, typer.Option("--json", help="Write the rows as JSON here; - for stdout.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with the rows and the figures here.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No words, only JSON and the exit code.")] = False,
) -> int:
    """Print each number of a paper beside ours. Exit 1 where one differs without a reason."""
    from importlib import import_module

    from dosimeter.core.errors import Refusal
    from dosimeter.core.progress import stage

    if name not in PAPERS:
        raise Refusal(f"no paper is called {name!r}: use {', '.join(PAPERS)}")
    if data is None and name not in WITHOUT_DATA:
        raise Refusal("the papers' data is not part of the package: pass --data or set DOSIMETER_DATA")
    if seeds is not None and name != "geyer19":
        raise Refusal(f"{name} trains nothing over several seeds: leave --seeds out")
    asked = {} if seeds is None else {"seeds": seeds}
    stage(f"reproducing {name}")
    told = import_module(f"dosimeter.reproduce.{name}").reproduction(data, quick, **asked)
    report = told.report
    if json is not None:
        write_json(report.plain(), json)
    if html is not None:
        from dosimeter.files.atomic import write_text
        from dosimeter.reproduce.html_page import page

        write_text(html, page(told))
    show(report, console(quiet, json=json))
    return 1 if report.unexplained else 0


def show(report: Report, words: Console) -> None:
    """The rows as a table."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading, side in (
        ("figure", "left"),
        ("paper", "right"),
        ("ours", "right"),
        ("", "left"),
        ("measured; why", "left"),
    ):
        table.add_column(heading, justify="right" if side == "right" else "left")
    for row in report.rows:
        words_of_row = "; ".join(part for part in (row.measured, row.why) if part)
        table.add_row(row.figure, f"{row.paper:.4g}", f"{row.ours:.4g}", row.state, words_of_row)
    words.print(table)
    if report.note:
        words.print(report.note)
