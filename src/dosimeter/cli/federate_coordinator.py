"""`dosimeter federate coordinator`: one model of all sites' patients, whose rows stay where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dosimeter.cli.options import START, Color, Json, Quiet, check_outputs, json_path, opt


def coordinator(
    context: typer.Context,
    config: Annotated[Path, opt("--config", help="consortium.toml, as `federate init` wrote it.", group=START)],
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Wait for the sites, fit, draw the noise once, have every site book it, write the release.

    After a stop the same command goes on; it never draws twice. Exit 1: a site said no; nothing was released.
    """
    from dosimeter.cli.output import show, step_printer
    from dosimeter.cli.provenance import provenance
    from dosimeter.workflows.coordinator import run_coordinator

    check_outputs([json_path(json)], [config])
    released = run_coordinator(config, say=step_printer(quiet))
    result = released.result.with_fields(reproduce=provenance(context))
    paths = [result.written] if isinstance(result.written, str) else result.written
    written = [Path(path) for path in paths if path]
    show(result, quiet=quiet, color=color, json=json, inputs=[config], written=written)
    return 0 if released.artefact else 1
