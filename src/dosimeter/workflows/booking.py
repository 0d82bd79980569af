"""What every verb that writes a noised artefact calls: it books, writes from the stored bytes, and says so.

The spend and the bytes are committed together; the file outside is written afterwards from what was stored. A run that
was killed in between is repeated under the same name: nothing is spent again and the same draw is written.
"""

from __future__ import annotations

import hashlib
import secrets
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dosimeter.core.accounts import Booking
    from dosimeter.ledger import Ledger
    from dosimeter.report.terminal import Page
    from dosimeter.workflows.person_doses import BookingRequest

LedgerAt = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        envvar="DOSIMETER_LEDGER",
        help="The ledger: a path, or the URL of a database (or DOSIMETER_LEDGER, or [ledger] url in dosimeter.toml).",
        show_default=False,
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option("--keys", envvar="DOSIMETER_LEDGER_KEYS", help="The ledger's key file.", show_default=False),
]
NoLedger = Annotated[bool, typer.Option("--no-ledger", help="Do not book, although a ledger is configured.")]
Name = Annotated[
    str | None, typer.Option("--name", help="What the release is called in the ledger.", show_default=False)
]
To = Annotated[str | None, typer.Option("--to", help="Who gets it, for the ledger.", show_default=False)]
Note = Annotated[str | None, typer.Option("--note", help="Anything else for the ledger.", show_default=False)]
Override = Annotated[
    str | None,
    typer.Option("--override", help="Why it may go out over a budget; recorded.", show_default=False),
]
DoseFile = Annotated[
    Path | None,
    typer.Option("--dose", help="Write the dose file here, to book it later (internal).", show_default=False),
]

NO_LEDGER = "not booked: no ledger is configured"
DECLINED = "not booked: --no-ledger"
WHERE = "--ledger PATH, DOSIMETER_LEDGER, or [ledger] url in dosimeter.toml"
NOT_PEOPLE = "rows are not people, and a ledger keeps a total per person: name the column that says whose row it is"
EARLIER = "booked before: the stored bytes were written; what is said of noisy results is of a draw that nobody gets"
REPLACED = (
    "this replaced the {} that was there: a second draw from the same data is a second release, and where the first "
    "was seen both together tell more (a ledger counts both)"
)
_WORDS = ("name", "to", "note", "override")
_TYPED = ("override", "no_ledger")
"""Never taken from a variable or a file: what sets a limit aside is said each time."""


@dataclass(frozen=True, eq=False)
class BookingOutcome:
    """What became of a release: its bytes as they left, and whether they are booked."""

    words: str
    artefact: bytes = b""
    booked: dict[str, Any] | None = None
    refused: tuple[dict[str, Any], ...] = ()
    """Where somebody would pass a limit: each limit in plain values. Nothing was written then. Internal."""
    lines: tuple[str, ...] = ()
    """The refusal in words: what, then the ways out."""
    remarks: tuple[str, ...] = ()
    digest: str = ""
    """SHA-256 of the file that was written, hex: a page and a file that belong together can be told by it."""

    @property
    def facts(self) -> dict[str, Any]:
        """For the verb's JSON."""
        more: dict[str, Any] = {"refused": list(self.refused)} if self.refused else {}
        return {"booked": self.booked or False, **more, **({"artefact": self.digest} if self.digest else {})}

    @contextmanager
    def spent(self, out: Path) -> Iterator[None]:
        """Around the export: where it fails the booking stands, and the words say so."""
        from dosimeter.cli.environment import Stopped
        from dosimeter.core.errors import Refusal

        try:
            yield
        except KeyboardInterrupt:
            if not self.booked:
                raise
            raise Stopped(f"booked as {self.booked['name']}, and the same command writes the file") from None
        except Refusal as error:
            if not self.booked:
                raise
            name = self.booked["name"]
            again = shlex.join(["dosimeter", "ledger", "artefact", name, "--out", f"FILE{out.suffix}"])
            raise Refusal(
                f"booked as {name}, but the file could not be written ({error}): `{again}` gives the bytes, and "
                "nothing is spent again"
            ) from None

    def refuse(self, page: Page) -> None:
        """The refusal at the end of a page."""
        for k, line in enumerate(self.lines):
            page.add("" if k else "refused", line.removeprefix("refused: "), "red")


@dataclass(frozen=True, eq=False)
class ReleaseSession:
    """Where a verb's release is booked, or why it is not; the ledger is open before the work begins."""

    words: str
    """Why it is not booked."""
    ledger: Ledger | None = None
    blank: Booking | None = None
    """Name, receiver, note and override, checked; the rest is filled in when the release is there."""
    dose: Path | None = None
    files: tuple[Path, ...] = field(default=())
    """The ledger's own files, which no output may overwrite."""

    @property
    def wanted(self) -> bool:
        """Whether doses by person are needed at all."""
        return self.ledger is not None or self.dose is not None

    @property
    def name(self) -> str:
        """Under which it is booked, "" where it is not."""
        return "" if self.blank is None else self.blank.name

    @property
    def nothing(self) -> BookingOutcome:
        """Where nothing leaves."""
        return BookingOutcome(self.words)

    def needs_people(self, person: str | None) -> None:
        """Refused before the work where doses are wanted and nobody is named."""
        from dosimeter.core.errors import Refusal

        if self.wanted and person is None:
            raise Refusal(f"{NOT_PEOPLE}, --person")

    def leave(
        self, data: bytes, out: Path | None, inputs: Sequence[Path], given: Callable[[], BookingRequest]
    ) -> BookingOutcome:
        """Book, then write what was stored to `out`, then the dose file; or neither book nor write."""
        from dosimeter.core.accounts import parts_of
        from dosimeter.core.text import safe_text
        from dosimeter.files.atomic import write_bytes

        what = given() if self.wanted else None
        if what is not None:
            parts_of(what.doses)  # what could not be booked later is refused before anything is written
        receipt = BookingOutcome(self.words, data) if self.ledger is None or what is None else self.book(what, data)
        if receipt.refused:
            return receipt
        if out is not None:
            again = () if receipt.booked or not out.exists() else (REPLACED.format(safe_text(out.name)),)
            with receipt.spent(out):
                write_bytes(out, receipt.artefact, inputs=inputs)
            digest = hashlib.sha256(receipt.artefact).hexdigest()
            receipt = replace(receipt, digest=digest, remarks=(*receipt.remarks, *again))
        if self.dose is not None and what is not None:
            _write_dose(self.dose, what, receipt.artefact, inputs)
        return receipt

    def book(self, what: BookingRequest, data: bytes, again: str = "") -> BookingOutcome:
        """The one way into the ledger: bytes and spend in one transaction, or the refusal in words.

        again: the verb that would make it once more, where that is not the one that was called.
        """
        from dosimeter.ledger import OverBudget
        from dosimeter.report.ledger_refusal import facts_of, lines_of

        if self.ledger is None or self.blank is None:
            return BookingOutcome(self.words, data)
        booking = replace(self.blank, recipe=what.recipe, artefact=data, doses=what.doses, draw=what.draw)
        try:
            done = self.ledger.book(booking)
        except OverBudget as stop:
            lines = lines_of(stop.over, what, again)
            return BookingOutcome(lines[0], data, refused=tuple(map(facts_of, stop.over)), lines=lines)
        booked = {"name": done.name, "seq": done.seq, "head": done.head}
        return BookingOutcome(_said(done), done.artefact, booked, remarks=() if done.fresh else (EARLIER,))


def _said(done: Any) -> str:
    entry = f"booked as {done.name}: entry {done.seq}, head {done.head}"
    if not done.fresh:
        return f"{entry}, earlier: nothing more was spent, and these are the bytes of that time"
    return f"{entry}, over a budget by override" if done.over else entry


def desk(context: typer.Context, never: str = "") -> ReleaseSession:
    """The desk that a verb's options and the configuration name; `never` says in words why nothing is booked here."""
    from dosimeter.core.errors import Refusal

    told = context.params
    typed = {name for name in told if _typed(context, name)}
    for name in _TYPED:
        if told.get(name) and name not in typed:
            option = name.replace("_", "-")
            raise Refusal(f"--{option} is said each time: take it out of the environment and of dosimeter.toml")
    asked = [name for name in _WORDS if told.get(name) is not None and name in typed]
    dose: Path | None = told["dose"] if "no_ledger" in told else None  # `release` reads one instead
    if never:
        for name in (*asked, *(["dose"] if dose is not None else [])):
            raise Refusal(f"--{name} is for a release, and {never} is never booked: leave it out")
        return ReleaseSession(NO_LEDGER if told["ledger"] is None else f"not booked: {never}")
    if told.get("no_ledger"):
        if asked or "ledger" in typed:
            option = asked[0] if asked else "ledger"
            raise Refusal(f"--no-ledger and --{option}: leave one of the two out")
        return ReleaseSession(DECLINED, dose=dose)
    if told["ledger"] is None:
        if asked:
            raise Refusal(f"--{asked[0]} is for a ledger and none is configured: {WHERE}")
        return ReleaseSession(NO_LEDGER, dose=dose)
    made = _open(told, dose)
    if made.ledger is not None:
        context.call_on_close(made.ledger.close)
    return made


def _typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _open(told: dict[str, Any], dose: Path | None) -> ReleaseSession:
    from dosimeter.core.accounts import Booking
    from dosimeter.core.errors import Refusal
    from dosimeter.core.release import Recipe

    if told["name"] is None:
        raise Refusal("--name is missing: a ledger books a release under a name, such as --name readmission-2026-11")
    for word in _WORDS:
        if told[word] is not None and not told[word].strip():
            raise Refusal(f"--{word} is empty: say something, or leave it out")
    name, to, note, override = ((told[word] or "").strip() for word in _WORDS)
    blank = Booking(name, Recipe("nothing yet", "none"), b"-", (), b"", note, to, override)
    return ReleaseSession(
        "", open_ledger(told["ledger"], told["keys"]), blank, dose, files_of(told["ledger"], told["keys"])
    )


def open_ledger(where: str | None, keys: Path | None, *, without_keys: bool = False) -> Ledger:
    """The ledger that is configured, or a refusal that says how one is."""
    from dosimeter.core.errors import Refusal
    from dosimeter.ledger import Ledger

    if where is None:
        raise Refusal(f"no ledger is configured: {WHERE}; `dosimeter ledger init` makes one")
    return Ledger.open(where, keys, without_keys=without_keys)


def files_of(where: str | None, keys: Path | None) -> tuple[Path, ...]:
    """The files of a ledger, its key file and their logs."""
    from dosimeter.ledger import files_of as files

    return () if where is None else files(where, keys)


def _write_dose(path: Path, what: BookingRequest, artefact: bytes, inputs: Sequence[Path]) -> None:
    from dosimeter.files.dose_file import DoseFile as Written
    from dosimeter.files.dose_file import write_doses

    digest = hashlib.sha256(artefact).hexdigest()
    write_doses(path, Written(what.verb, what.recipe, digest, what.doses, secrets.token_hex(16)), inputs=inputs)
