"""`dosimeter ledger`: the book of releases: made, read, asked about one person, checked, copied out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli.environment import Command, CommandGroup
from dosimeter.cli.output import console, write_json
from dosimeter.workflows.booking import Keys, LedgerAt, open_ledger

if TYPE_CHECKING:
    from dosimeter.ledger import Ledger

HELP = "The book of releases: what each person was exposed to in all, and the limits."
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=HELP)
keys_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The key file, without which no id is known.")
app.add_typer(keys_app, name="keys", cls=CommandGroup)

Json = Annotated[str | None, typer.Option("--json", help="Write the facts as JSON here; - for stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No words.")]
Person = Annotated[str, typer.Argument(help="The person's id, as it stands in the table.", show_default=False)]
Out = Annotated[Path | None, typer.Option("--out", help="A file to write instead of stdout.", show_default=False)]


@app.command("init", cls=Command)
def init(
    ledger: LedgerAt = None,
    keys: Keys = None,
    budget: Annotated[
        list[str] | None,
        typer.Option("--budget", help='A limit for everybody: "fil=0.3", "leakage=2 nats", "eps=3@1e-6". Repeat it.'),
    ] = None,
    sign: Annotated[bool, typer.Option("--sign", help="Sign every entry (Ed25519, key in the key file).")] = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Make a ledger, with budgets that refuse; its key file, which alone knows the ids, lies beside it."""
    from dosimeter.core.accounts import LedgerLimit
    from dosimeter.core.errors import Refusal
    from dosimeter.ledger import Ledger
    from dosimeter.report import ledger_text as spoken
    from dosimeter.results import ledger as books
    from dosimeter.workflows.booking import WHERE, files_of

    if ledger is None:
        raise Refusal(f"where shall it be? Name it: {WHERE}")
    limits = tuple(LedgerLimit.parse(text) for text in budget or ())
    check(json, files_of(ledger, keys))
    with Ledger.create(ledger, limits, keys, sign=sign) as book:
        _say(books.opened(book, ledger), json, quiet, spoken.opened)


@app.command("list", cls=Command)
def list_(ledger: LedgerAt = None, keys: Keys = None, json: Json = None, quiet: Quiet = False) -> None:
    """All releases, with their dates, receivers and how many people stand in them."""
    from dosimeter.report import ledger_text as spoken
    from dosimeter.results import ledger as books

    with _open(ledger, keys, json, without_keys=True) as book:
        _say(books.releases(book), json, quiet, spoken.releases)


@app.command("person", cls=Command)
def person(who: Person, ledger: LedgerAt = None, keys: Keys = None, json: Json = None, quiet: Quiet = False) -> None:
    """What was released about one person: each release, its dose, the totals, and what is left of the budgets."""
    from dosimeter.report import ledger_text as spoken
    from dosimeter.results import ledger as books

    with _open(ledger, keys, json) as book:
        _say(books.person(book, who), json, quiet, spoken.person)


@app.command("budget", cls=Command)
def budget(
    limits: Annotated[
        list[str] | None,
        typer.Argument(help='Limits to set: "fil=0.3". Without any: those that hold.', show_default=False),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="Why, for the book.", show_default=False)] = "",
    ledger: LedgerAt = None,
    keys: Keys = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """The budgets and how near the nearest person is; or set one, which is recorded."""
    from dosimeter.core.accounts import LedgerLimit
    from dosimeter.core.errors import Refusal
    from dosimeter.report import ledger_text as spoken
    from dosimeter.results import ledger as books

    parsed = [LedgerLimit.parse(text) for text in limits or ()]
    if note and not parsed:
        raise Refusal('--note without a limit: name one, such as "fil=0.3"')
    if len({one.key for one in parsed}) < len(parsed):
        raise Refusal("two limits for one notion: name each once")
    with _open(ledger, keys, json, without_keys=not parsed) as book:
        if parsed:
            books.budgets(book)  # a book that cannot be read is told before it is written into
        for one in parsed:
            book.set_budget(one, note)
        _say(books.budgets(book), json, quiet, spoken.budgets)


@app.command("compare", cls=Command)
def compare(
    first: Annotated[str, typer.Argument(help="The name of a release.", show_default=False)],
    second: Annotated[str, typer.Argument(help="The name of another.", show_default=False)],
    ledger: LedgerAt = None,
    keys: Keys = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Two releases side by side, such as this month's model and the last one's."""
    from dosimeter.report import ledger_text as spoken
    from dosimeter.results import ledger as books

    with _open(ledger, keys, json, without_keys=True) as book:
        _say(books.compared(book, first, second), json, quiet, spoken.compared)


@app.command("verify", cls=Command)
def verify(
    public_key: Annotated[
        str, typer.Option("--public-key", help="The key that must have signed it (hex).", show_default=False)
    ] = "",
    ledger: LedgerAt = None,
    keys: Keys = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Check every entry against the chain of digests. Exit 4: something was changed, dropped or put back."""
    import re

    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.report import ledger_text as spoken
    from dosimeter.results import ledger as books

    if public_key and not re.fullmatch("[0-9a-f]{64}", public_key):
        raise Refusal(
            f"--public-key {safe_text(public_key)}: give 64 hexadecimal digits, as `ledger verify` prints them"
        )
    with _open(ledger, keys, json, without_keys=True) as book:
        _say(books.verified(book.verify(public_key)), json, quiet, spoken.verified)


@app.command("export", cls=Command)
def export(
    out: Out = None,
    format: Annotated[str, typer.Option("--format", help="json: the whole book; csv: a line for each dose.")] = "json",
    ledger: LedgerAt = None,
    keys: Keys = None,
) -> None:
    """The book as JSON or CSV, people under their pseudonyms (internal)."""
    import sys

    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.files.atomic import write_text
    from dosimeter.results import ledger as books
    from dosimeter.workflows.booking import files_of

    if format not in ("json", "csv"):
        raise Refusal(f"--format {safe_text(format)}: use json or csv")
    with _open(ledger, keys, None if out is None else str(out), without_keys=True) as book:
        text = books.as_json(book) if format == "json" else books.as_csv(book)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text, inputs=files_of(ledger, keys))


@app.command("artefact", cls=Command)
def artefact(
    name: Annotated[str, typer.Argument(help="The name of a release.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="Where the stored bytes go.", show_default=False)],
    ledger: LedgerAt = None,
    keys: Keys = None,
    quiet: Quiet = False,
) -> None:
    """Write a release's bytes once more, as they were booked; nothing is spent."""
    from dosimeter.core.text import safe_text
    from dosimeter.files.atomic import write_bytes
    from dosimeter.workflows.booking import files_of

    with _open(ledger, keys, str(out), without_keys=True) as book:
        data = book.artefact(name)
    write_bytes(out, data, inputs=files_of(ledger, keys))
    console(quiet).print(f"written: {safe_text(out)}, as booked under {safe_text(name)}")


@app.command("erase", cls=Command)
def erase(
    who: Person,
    yes: Annotated[bool, typer.Option("--yes", help="Yes: it cannot be undone.")] = False,
    ledger: LedgerAt = None,
    keys: Keys = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Forget who a person is: their rows stay in the chain as nobody's, and their total begins anew."""
    from dosimeter.core.errors import Refusal
    from dosimeter.report import ledger_text as spoken
    from dosimeter.results import ledger as books

    if not yes:
        raise Refusal("erasing cannot be undone, and a total that begins anew forgets what was released: add --yes")
    with _open(ledger, keys, json) as book:
        _say(books.erased(book, book.erase(who)), json, quiet, spoken.erased)


@keys_app.command("backup", cls=Command)
def backup(
    to: Annotated[Path, typer.Argument(help="Where the copy goes.", show_default=False)],
    ledger: LedgerAt = None,
    keys: Keys = None,
    quiet: Quiet = False,
) -> None:
    """Copy the key file; keep the copy apart from the database, and as closely."""
    from dosimeter.core.text import safe_text

    with _open(ledger, keys, str(to)) as book:
        book.keys.backup(to)
    console(quiet).print(f"written: {safe_text(to)}; whoever has it and the database knows who is who")


@keys_app.command("rotate", cls=Command)
def rotate(ledger: LedgerAt = None, keys: Keys = None, quiet: Quiet = False) -> None:
    """A new master key: people move over as they are seen again; pseudonyms stay."""
    with _open(ledger, keys, None) as book:
        book.rotate()
    console(quiet).print("a new master key is in use; back up the key file again (dosimeter ledger keys backup)")


def _open(ledger: str | None, keys: Path | None, output: str | None, *, without_keys: bool = False) -> Ledger:
    """without_keys: the verb reads the book only, and does so without the key file where that is lost."""
    from dosimeter.workflows.booking import files_of

    check(output, files_of(ledger, keys))
    return open_ledger(ledger, keys, without_keys=without_keys)


def check(output: str | None, inputs: Sequence[Path] = ()) -> None:
    """An output that cannot be written is refused first, and so is one that would overwrite the ledger."""
    from dosimeter.cli.options import check_outputs
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    if output in (None, "-"):
        return
    wanted = Path(str(output))
    # By name as well: `init` asks before there is a file.
    if wanted.absolute() in [path.absolute() for path in inputs]:
        raise Refusal(f"{safe_text(wanted, 120)}: the output is the ledger: write to another file")
    check_outputs([wanted], [path for path in inputs if path.exists()])


def _say(facts: dict[str, Any], json: str | None, quiet: bool, tell: Any) -> None:
    if json is not None:
        write_json(facts, json)
    tell(facts, console(quiet, json=json))
