"""`dosimeter federate init`: certificates, keys and config files of a new consortium."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dosimeter.cli.options import OUTPUT, START, Color, Json, Quiet, check_outputs, json_path, opt


def init(
    context: typer.Context,
    schema: Annotated[Path, opt("--schema", help="The .toml file that all sites agreed on.", group=START)],
    host: Annotated[str, opt("--host", help="Where sites reach the coordinator: an address or a name.", group=START)],
    out: Annotated[Path, opt("--out", help="A new folder, with one folder for each party.", group=START)],
    port: Annotated[int, opt("--port", help="The coordinator's port.", group=START, show_default=True)] = 8443,
    days: Annotated[
        int, opt("--days", help="How long the certificates are valid.", group=OUTPUT, show_default=True)
    ] = 365,
    site_noise: Annotated[
        bool, opt("--site-noise", help="Each site adds its own noise: no exact sum leaves it.", group=START)
    ] = False,
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Create an authority, certificates, keys, consortium.toml, a site.toml for every site, and a checklist."""
    from dosimeter.cli.output import show
    from dosimeter.cli.provenance import provenance
    from dosimeter.workflows.consortium_init import create_consortium

    check_outputs([json_path(json)], [schema])
    result = create_consortium(schema, host=host, out=out, port=port, days=days, site_noise=site_noise)
    show(
        result.with_fields(reproduce=provenance(context)),
        quiet=quiet,
        color=color,
        json=json,
        inputs=[schema],
        written=[out / "CHECKLIST.md"],
    )
    return 0
