"""`dosimeter federate site`: a hospital's side of a consortium; its rows stay here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dosimeter.cli.options import START, Color, Json, Quiet, check_outputs, json_path, opt


def site(
    context: typer.Context,
    config: Annotated[Path, opt("--config", help="site.toml, as `federate init` wrote it.", group=START)],
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Answer the coordinator's questions until the study has ended; book this site's patients in its own ledger.

    Exit 1: the study ended without a release, or the coordinator says that there is one and nothing was booked here.
    """
    from dosimeter.cli.output import show, step_printer
    from dosimeter.cli.provenance import provenance
    from dosimeter.tables.consortium_schema import CLIENTS
    from dosimeter.workflows.consortium_site import run_site

    check_outputs([json_path(json)], [config])
    result = run_site(config, say=step_printer(quiet)).with_fields(reproduce=provenance(context))
    show(result, quiet=quiet, color=color, json=json, inputs=[config])
    return 0 if result.released and (result.booked or result.kind == CLIENTS) else 1
