"""`dosimeter release MODEL`: book a noised artefact that was made without a ledger, or refuse it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli.output import console, write_json
from dosimeter.workflows.booking import Keys, LedgerAt, Name, Note, Override, To

if TYPE_CHECKING:
    from rich.console import Console

    from dosimeter.workflows.booking import BookingOutcome
    from dosimeter.workflows.person_doses import BookingRequest


def release(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="The file that is to leave.", show_default=False)],
    dose: Annotated[
        Path, typer.Option("--dose", help="Its dose file, written by --dose of fix, pca, pate or federate.")
    ],
    ledger: LedgerAt = None,
    keys: Keys = None,
    name: Name = None,
    to: To = None,
    note: Note = None,
    override: Override = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the booked bytes here, to be sent.", show_default=False)
    ] = None,
    json: Annotated[str | None, typer.Option("--json", help="Write the facts as JSON here; - for stdout.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No words.")] = False,
    color: Annotated[bool, typer.Option("--color/--no-color", help="Colours in the terminal.")] = True,
) -> int:
    """Book a release for everybody in it. Exit 1: somebody would pass a budget; nothing was booked or written."""
    from dosimeter.cli.options import check_outputs
    from dosimeter.core.errors import Refusal
    from dosimeter.files.atomic import write_bytes
    from dosimeter.workflows.booking import WHERE, desk

    if ledger is None:
        raise Refusal(f"no ledger is configured: {WHERE}; `dosimeter ledger init` makes one")
    at = desk(context)
    inputs = [model, dose, *at.files]
    check_outputs([out, None if json in (None, "-") else Path(str(json))], inputs)
    given, data = _read(model, dose)
    receipt = at.book(given, data, again=given.verb)
    if not receipt.refused and receipt.artefact != data:
        raise Refusal(
            f"{at.name} is booked already with other bytes (the same recipe and doses, another draw): give this one a "
            "name of its own, or take the bytes of that time with `dosimeter ledger artefact`"
        )
    if out is not None and not receipt.refused:
        with receipt.spent(out):
            write_bytes(out, receipt.artefact, inputs=inputs)
    facts = _facts(given, receipt, out)
    if json is not None:
        write_json(facts, json, inputs=inputs)
    _tell(facts, receipt, console(quiet, color, json))
    return 1 if receipt.refused else 0


def _read(model: Path, dose: Path) -> tuple[BookingRequest, bytes]:
    """The bytes that are to leave and what they give whom; the dose file says whose doses these are by a digest."""
    import hashlib

    from dosimeter.core.accounts import MOST_BYTES
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.files.dose_file import read_doses
    from dosimeter.files.file_checks import cannot, regular_file
    from dosimeter.workflows.person_doses import BookingRequest

    told = read_doses(dose)
    file, source = regular_file(model, MOST_BYTES)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise cannot(error, source, "read") from None
    if hashlib.sha256(data).hexdigest() != told.artefact:
        raise Refusal(
            f"{safe_text(dose.name)} is the dose of another file: {safe_text(model.name)} has other bytes than "
            "those it was written for"
        )
    return BookingRequest(told.verb, told.recipe, told.doses, bytes.fromhex(told.draw)), data


def _facts(given: BookingRequest, receipt: BookingOutcome, out: Path | None) -> dict[str, Any]:
    from dosimeter.core.version import __version__

    return {
        "schema": "dosimeter.release/1",
        "version": __version__,
        "verb": given.verb,
        "kind": given.recipe.kind,
        "noise": given.recipe.noise,
        "not_covered": list(given.recipe.uncovered),
        **receipt.facts,
        "written": "" if out is None or receipt.refused else str(out),
    }


def _tell(facts: dict[str, Any], receipt: BookingOutcome, words: Console) -> None:
    from dosimeter.core.text import safe_text

    for line in receipt.lines:
        words.print(line, style="red")
    if receipt.refused:
        return
    words.print(f"{safe_text(facts['kind'])}, {safe_text(facts['noise'], 120)}: {receipt.words}")
    if facts["written"]:
        words.print(f"written: {safe_text(facts['written'])}")
