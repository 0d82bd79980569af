"""`dosimeter ledger`: releases and each person's doses: create, list, ask about one person, verify, export."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dosimeter.cli.environment import Command, CommandGroup
from dosimeter.cli.options import LEDGER_PLACES, START, Json, Keys, LedgerPlace, Quiet, check_outputs, json_path, opt

if TYPE_CHECKING:
    from dosimeter.ledger import Ledger

HELP = "The ledger of releases: what each person was exposed to in total, and the limits."
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=HELP)
keys_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The key file; without it no id is known.")
app.add_typer(keys_app, name="keys", cls=CommandGroup)

PersonId = Annotated[str, typer.Argument(help="The person's id, as it is in the table.", show_default=False)]
ReleaseName = Annotated[str, typer.Argument(help="The name of a release.", show_default=False)]


@app.command("init", cls=Command)
def init(
    ledger: LedgerPlace = None,
    keys: Keys = None,
    budget: Annotated[
        list[str] | None,
        opt("--budget", help='A limit per person: "fil=1", "leakage=2 nats", "eps=3@1e-6". Repeat it.', group=START),
    ] = None,
    sign: Annotated[bool, opt("--sign", help="Sign every entry (Ed25519, key in the key file).", group=START)] = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Create a ledger with budgets that refuse.

    Its key file is written beside it and is the only place that holds the ids.
    """
    from dosimeter.cli.output import show
    from dosimeter.core.accounts import LedgerLimit
    from dosimeter.core.errors import Refusal
    from dosimeter.ledger import Ledger, ledger_files
    from dosimeter.results.ledger import LedgerCreated

    if ledger is None:
        raise Refusal(f"name the ledger to create: {LEDGER_PLACES}")
    limits = tuple(LedgerLimit.parse(text) for text in budget or ())
    check_output_file(json_path(json), ledger_files(ledger, keys))
    with Ledger.create(ledger, limits, keys, sign=sign) as created:
        show(LedgerCreated.of(created, ledger), quiet=quiet, json=json)


@app.command("list", cls=Command)
def list_(ledger: LedgerPlace = None, keys: Keys = None, json: Json = None, quiet: Quiet = False) -> None:
    """List the releases with their dates, receivers and number of people."""
    from dosimeter.cli.output import show
    from dosimeter.results.ledger import LedgerReleases

    with _open(ledger, keys, json_path(json), without_keys=True) as opened:
        show(LedgerReleases.of(opened), quiet=quiet, json=json)


@app.command("person", cls=Command)
def person(
    person: PersonId, ledger: LedgerPlace = None, keys: Keys = None, json: Json = None, quiet: Quiet = False
) -> None:
    """Show what was released about one person: each release, its dose, the totals, and what is left of the budgets."""
    from dosimeter.cli.output import show
    from dosimeter.results.ledger import PersonAnswer

    with _open(ledger, keys, json_path(json)) as opened:
        show(PersonAnswer.of(opened, person), quiet=quiet, json=json)


@app.command("budget", cls=Command)
def budget(
    limits: Annotated[
        list[str] | None,
        typer.Argument(help='Limits to set: "fil=1". Without any: show the current ones.', show_default=False),
    ] = None,
    note: Annotated[str, opt("--note", help="Why, for the ledger.", group=START)] = "",
    ledger: LedgerPlace = None,
    keys: Keys = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Show the budgets and the highest total under each, or set a budget; a new budget is recorded."""
    from dosimeter.cli.output import show
    from dosimeter.core.accounts import LedgerLimit
    from dosimeter.core.errors import Refusal
    from dosimeter.results.ledger import LedgerBudgets

    parsed = [LedgerLimit.parse(text) for text in limits or ()]
    if note and not parsed:
        raise Refusal('--note without a limit: name one, such as "fil=1"')
    if len({limit.key for limit in parsed}) < len(parsed):
        raise Refusal("two limits for one notion: name each once")
    with _open(ledger, keys, json_path(json), without_keys=not parsed) as opened:
        if parsed:
            LedgerBudgets.of(opened)  # a ledger that cannot be read is refused before it is written to
        for limit in parsed:
            opened.set_budget(limit, note)
        show(LedgerBudgets.of(opened), quiet=quiet, json=json)


@app.command("compare", cls=Command)
def compare(
    first: ReleaseName,
    second: ReleaseName,
    ledger: LedgerPlace = None,
    keys: Keys = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Compare two releases, such as this month's model and last month's."""
    from dosimeter.cli.output import show
    from dosimeter.results.ledger import LedgerComparison

    with _open(ledger, keys, json_path(json), without_keys=True) as opened:
        show(LedgerComparison.of(opened, first, second), quiet=quiet, json=json)


@app.command("verify", cls=Command)
def verify(
    public_key: Annotated[
        str, opt("--public-key", help="The key that must have signed it (64 hexadecimal digits).", group=START)
    ] = "",
    ledger: LedgerPlace = None,
    keys: Keys = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Check every entry against the hash chain. Exit 4: something was changed, removed or rolled back."""
    from dosimeter.cli.output import show
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.results.ledger import LedgerVerified

    if public_key and not re.fullmatch("[0-9a-f]{64}", public_key):
        raise Refusal(
            f"--public-key {safe_text(public_key)}: give 64 hexadecimal digits, as `ledger verify` prints them"
        )
    with _open(ledger, keys, json_path(json), without_keys=True) as opened:
        show(LedgerVerified.of(opened.verify(public_key)), quiet=quiet, json=json)


@app.command("export", cls=Command)
def export(
    out: Annotated[Path | None, opt("--out", help="A file to write instead of stdout.", group=START)] = None,
    format: Annotated[
        str,
        opt("--format", help="json: the whole ledger; csv: a line for each dose.", group=START, show_default=True),
    ] = "json",
    ledger: LedgerPlace = None,
    keys: Keys = None,
) -> None:
    """Write the ledger as JSON or CSV, people under their pseudonyms (internal)."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.files.atomic import write_text
    from dosimeter.ledger import ledger_files
    from dosimeter.results.ledger import ledger_csv, ledger_json

    if format not in ("json", "csv"):
        raise Refusal(f"--format {safe_text(format)}: use json or csv")
    with _open(ledger, keys, out, without_keys=True) as opened:
        text = ledger_json(opened) if format == "json" else ledger_csv(opened)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text, inputs=ledger_files(str(ledger), keys))


@app.command("artefact", cls=Command)
def artefact(
    name: ReleaseName,
    out: Annotated[Path, opt("--out", help="Where the stored bytes go.", group=START)],
    ledger: LedgerPlace = None,
    keys: Keys = None,
    quiet: Quiet = False,
) -> None:
    """Write the file of a release again, as it was booked; nothing is spent."""
    from dosimeter.cli.output import console
    from dosimeter.core.text import safe_text
    from dosimeter.files.atomic import write_bytes
    from dosimeter.ledger import ledger_files

    with _open(ledger, keys, out, without_keys=True) as opened:
        data = opened.artefact(name)
    write_bytes(out, data, inputs=ledger_files(str(ledger), keys))
    console(quiet).print(f"written: {safe_text(out)}, as booked under {safe_text(name)}")


@app.command("erase", cls=Command)
def erase(
    person: PersonId,
    yes: Annotated[bool, opt("--yes", help="Confirm: it cannot be undone.", group=START)] = False,
    ledger: LedgerPlace = None,
    keys: Keys = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Forget who a person is: their entries stay in the chain, without a link, and their total restarts at zero."""
    from dosimeter.cli.output import show
    from dosimeter.core.errors import Refusal
    from dosimeter.results.ledger import PersonErased

    if not yes:
        raise Refusal("erasing cannot be undone, and a total that restarts forgets what was released: add --yes")
    with _open(ledger, keys, json_path(json)) as opened:
        show(PersonErased.of(opened, opened.erase(person)), quiet=quiet, json=json)


@keys_app.command("backup", cls=Command)
def backup(
    to: Annotated[Path, typer.Argument(help="Where the copy goes.", show_default=False)],
    ledger: LedgerPlace = None,
    keys: Keys = None,
    quiet: Quiet = False,
) -> None:
    """Copy the key file. Keep the copy in another place than the database, and as safe."""
    from dosimeter.cli.output import console
    from dosimeter.core.text import safe_text

    with _open(ledger, keys, to) as opened:
        opened.keys.backup(to)
    console(quiet).print(f"written: {safe_text(to)}; anyone who has it and the database knows who is who")


@keys_app.command("rotate", cls=Command)
def rotate(ledger: LedgerPlace = None, keys: Keys = None, quiet: Quiet = False) -> None:
    """Use a new master key. People get it when they are booked again; pseudonyms stay the same."""
    from dosimeter.cli.output import console

    with _open(ledger, keys, None) as opened:
        opened.rotate()
    console(quiet).print("a new master key is in use; back up the key file again (dosimeter ledger keys backup)")


def _open(ledger: str | None, keys: Path | None, output: Path | None, *, without_keys: bool = False) -> Ledger:
    """without_keys: the verb only reads the ledger, and does so without the key file if that is lost."""
    from dosimeter.ledger import ledger_files
    from dosimeter.workflows.booking import open_ledger

    check_output_file(output, () if ledger is None else ledger_files(ledger, keys))
    return open_ledger(ledger, keys, without_keys=without_keys)


def check_output_file(output: Path | None, inputs: Sequence[Path] = ()) -> None:
    """An output that cannot be written is refused first, and so is one that would overwrite the ledger."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    if output is None:
        return
    # By name as well: `init` asks before there is a file.
    if output.absolute() in [path.absolute() for path in inputs]:
        raise Refusal(f"{safe_text(output, 120)}: the output is the ledger: write to another file")
    check_outputs([output], [path for path in inputs if path.exists()])
