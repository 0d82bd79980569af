"""`dosimeter release MODEL`: book a noised artefact that was made without a ledger, or refuse it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dosimeter.cli.options import (
    LEDGER_PLACES,
    START,
    Color,
    Json,
    Keys,
    LedgerPlace,
    Name,
    Note,
    Override,
    Quiet,
    To,
    booking_session,
    check_outputs,
    json_path,
    opt,
)


def release(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="The file that is to be sent.", show_default=False)],
    dose_file: Annotated[
        Path,
        opt("--dose-file", help="Its dose file, written by --dose-file of fix, pca, pate or federate.", group=START),
    ],
    ledger: LedgerPlace = None,
    keys: Keys = None,
    name: Name = None,
    to: To = None,
    note: Note = None,
    override: Override = None,
    out: Annotated[Path | None, opt("--out", help="Write the booked bytes here, to be sent.", group=START)] = None,
    json: Json = None,
    quiet: Quiet = False,
    color: Color = True,
) -> int:
    """Book a release in the ledger for every person in it.

    Exit 1: someone would exceed a budget; nothing was booked or written.
    """
    from dosimeter.cli.output import show
    from dosimeter.core.errors import Refusal
    from dosimeter.workflows.release import book_file

    if ledger is None:
        raise Refusal(f"no ledger is configured: {LEDGER_PLACES}; `dosimeter ledger init` makes one")
    session = booking_session(context)
    inputs = [model, dose_file, *session.files]
    check_outputs([out, json_path(json)], inputs)
    result, outcome = book_file(session, model, dose_file, out)
    written = [Path(result.written)] if result.written else []
    show(result, quiet=quiet, color=color, json=json, inputs=inputs, written=written, outcome=outcome)
    return 1 if outcome.refused else 0
