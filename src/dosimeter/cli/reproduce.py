"""`dosimeter reproduce NAME`: each printed number of a paper beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dosimeter.cli.options import START, Color, Json, Quiet, check_outputs, json_path, opt


def reproduce(
    name: Annotated[
        str, typer.Argument(help="The paper: geyer19, hannun21, saeidian21 or zari22.", show_default=False)
    ],
    data: Annotated[
        Path | None,
        opt(
            "--data", envvar="DOSIMETER_DATA", help="The folder with the papers' data (or DOSIMETER_DATA).", group=START
        ),
    ] = None,
    quick: Annotated[
        bool,
        opt(
            "--quick",
            help="Only what takes seconds or a minute: leaves out the long experiments; of zari22 a smoke test.",
            group=START,
        ),
    ] = False,
    seeds: Annotated[
        int | None,
        opt(
            "--seeds",
            min=1,
            help="geyer19: trainings of each line of its Table 1, by default 10; of 10,000 clients a tenth of them.",
            group=START,
        ),
    ] = None,
    html: Annotated[
        Path | None, opt("--html", help="Write a page with the rows and the figures here.", group=START)
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Print each number of a paper beside ours. Exit 1: a number differs without a reason."""
    from dosimeter.cli.output import show
    from dosimeter.reproductions.reproduce import reproduction, result_of

    check_outputs([html, json_path(json)], [])
    paper = reproduction(name, data, quick, seeds)
    result = result_of(paper.report)
    if html is not None:
        from dosimeter.files.atomic import write_text
        from dosimeter.reproductions.html_page import page

        write_text(html, page(paper))
    show(result, quiet=quiet, color=color, json=json, written=[html] if html is not None else [])
    return 1 if result.unexplained else 0
