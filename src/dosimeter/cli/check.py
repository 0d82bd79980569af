"""`dosimeter check FOLDER`: everything that is to leave an environment, in one pass, against a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dosimeter.cli.options import START, Color, Json, Quiet, check_outputs, json_path, opt


def check(
    context: typer.Context,
    folder: Annotated[
        list[Path],
        typer.Argument(help="The folder with everything that is to leave, or files.", show_default=False),
    ],
    policy: Annotated[
        Path | None,
        opt("--policy", help="Limits and rules, the training table and the ledger: a .toml file.", group=START),
    ] = None,
    out: Annotated[
        Path | None, opt("--out", help="Write the page here (.html, internal), outside the folder.", group=START)
    ] = None,
    allow_review: Annotated[
        bool, opt("--allow-review", help="Exit 0 if files need a person's look and none fails.", group=START)
    ] = False,
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Check every file of a folder that is to leave: what is inside, what it leaks, whether it is booked.

    Exit 1: a file fails. Exit 3: a file needs a person's look, and none fails.
    """
    from dosimeter.cli.output import show
    from dosimeter.cli.provenance import provenance
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.workflows.check import check as check_folder

    inputs = [*([] if policy is None else [policy]), *(place for place in folder if place.is_file())]
    check_outputs([out, json_path(json)], inputs)
    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        raise Refusal(f"--out {safe_text(out.name)}: a page is an .html file (a browser prints it as PDF)")
    for path in (out, json_path(json)):
        if path is not None and any(path.resolve().is_relative_to(place.resolve()) for place in folder):
            raise Refusal(f"{safe_text(path, 120)}: the report is internal and must not leave: write it elsewhere")
    result = check_folder(folder, policy=policy).with_fields(reproduce=provenance(context))
    if out is not None:
        from dosimeter.files.atomic import write_text

        write_text(out, result.to_html("internal"), inputs=inputs)
    written = [] if out is None else [out]
    show(result, quiet=quiet, color=color, json=json, inputs=inputs, written=written)
    return 0 if allow_review and not result.failed else result.exit_code
