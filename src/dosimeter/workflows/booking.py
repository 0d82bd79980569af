"""Booking a release and writing its file, in an order that survives a crash.

The spend and the bytes are committed together; the file is written afterwards from what was stored. A run that was
killed in between is repeated under the same name: nothing is spent again, and the same draw is written.
"""

from __future__ import annotations

import hashlib
import secrets
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dosimeter.core.errors import Interrupted, Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.results.parts import BookingRecord, PassedLimit
from dosimeter.results.result import Result
from dosimeter.workflows.released import Released

if TYPE_CHECKING:
    from dosimeter.core.accounts import Booking
    from dosimeter.ledger import Ledger

R = TypeVar("R", bound=Result)

NO_LEDGER = "not booked: no ledger is configured"
DECLINED = "not booked: --no-ledger"
NOT_PEOPLE = "rows are not people, and a ledger keeps a total per person: name the column that says whose row it is"
EARLIER = (
    "This name is already booked, so the stored file was written again. The scores above belong to a new noise draw "
    "that was discarded."
)
ADDS_UP = "earlier and later "
"""How a verb begins to say that releases add up. A ledger adds them, so there it is no gap."""
REPLACED = (
    "this replaced the {} that was there: a second draw from the same data is a second release, and both together leak "
    "more if the first was seen (a ledger counts both)"
)


@dataclass(frozen=True)
class BookingOptions:
    """Where and how a release is booked."""

    ledger: str | None = None
    """A path, or the URL of a database."""
    keys: Path | None = None
    no_ledger: bool = False
    name: str | None = None
    to: str | None = None
    note: str | None = None
    override: str | None = None
    dose_file: Path | None = None
    """Where the doses are written, to be booked later. Internal."""


@dataclass(frozen=True, eq=False)
class BookingOutcome:
    """What became of a release: its bytes as they were written, and whether they are booked."""

    text: str
    """Booked as what, or why not."""
    artefact: bytes = b""
    booked: BookingRecord | None = None
    refused: tuple[PassedLimit, ...] = ()
    """Limits that someone would exceed. Nothing was written then. Internal."""
    ways_out: tuple[str, ...] = ()
    """The refusal in sentences: what would be exceeded, then what can be done. Internal."""
    remarks: tuple[str, ...] = ()
    digest: str = ""
    """SHA-256 of the file that was written, hex: it ties a report to its file."""

    @property
    def fields(self) -> dict[str, object]:
        """Fields of the verb's result."""
        refused = {"refused": list(self.refused)} if self.refused else {}
        digest = {"artefact": self.digest} if self.digest else {}
        return {"booked": self.booked or False, **refused, **digest}

    @contextmanager
    def spent(self, out: Path) -> Iterator[None]:
        """Around writing the file: if that fails, the booking stands and the message says so."""
        try:
            yield
        except KeyboardInterrupt:
            if not self.booked:
                raise
            raise Interrupted(f"booked as {self.booked.name}, and the same command writes the file") from None
        except Refusal as error:
            if not self.booked:
                raise
            again = shlex.join(["dosimeter", "ledger", "artefact", self.booked.name, "--out", f"FILE{out.suffix}"])
            raise Refusal(
                f"booked as {self.booked.name}, but the file could not be written ({error}): `{again}` gives the "
                "bytes, and nothing is spent again"
            ) from None


@dataclass(frozen=True, eq=False)
class ReleaseSession:
    """Where a release is booked, or why it is not. The ledger is opened before the work begins."""

    text: str
    """Why it is not booked."""
    ledger: Ledger | None = None
    blank: Booking | None = None
    """Name, receiver, note and override, checked; the rest is filled in when the release exists."""
    dose_file: Path | None = None
    files: tuple[Path, ...] = field(default=())
    """The ledger's own files, which no output may overwrite."""

    @property
    def needs_doses(self) -> bool:
        """Whether doses by person are needed at all."""
        return self.ledger is not None or self.dose_file is not None

    @property
    def name(self) -> str:
        """The name of the booking, "" if there is none."""
        return "" if self.blank is None else self.blank.name

    @property
    def nothing(self) -> BookingOutcome:
        """The outcome if nothing is released."""
        return BookingOutcome(self.text)

    def close(self) -> None:
        """Close the ledger."""
        if self.ledger is not None:
            self.ledger.close()

    def needs_people(self, person: str | None) -> None:
        """Refused before the work if doses are wanted and no person is named."""
        if self.needs_doses and person is None:
            raise Refusal(f"{NOT_PEOPLE}, {option('person')}")

    def release(self, released: Released[R], out: Path | None, inputs: Sequence[Path] = ()) -> BookingOutcome:
        """Book, then write the stored bytes to `out`, then the dose file; or neither book nor write."""
        from dosimeter.core.accounts import parts_of
        from dosimeter.files.atomic import write_pieces

        if self.needs_doses:
            parts_of(released.doses)  # what could not be booked later is refused before anything is written
        outcome = self.book(released)
        if outcome.refused:
            return outcome
        if out is not None:
            replaced = self._replaced(out, outcome)
            with outcome.spent(out):
                pieces = (outcome.artefact,) if released.pieces is None else released.pieces()
                digest = write_pieces(out, pieces, inputs=inputs)
            outcome = replace(outcome, digest=digest, remarks=(*outcome.remarks, *replaced))
        if self.dose_file is not None:
            write_dose_file(self.dose_file, released, outcome.artefact, inputs)
        return outcome

    def _replaced(self, out: Path, outcome: BookingOutcome) -> tuple[str, ...]:
        """The remark on an earlier draw that is written over; none for the same bytes."""
        if outcome.booked or not out.exists():
            return ()
        same = bool(outcome.artefact) and out.stat().st_size == len(outcome.artefact)
        return () if same and out.read_bytes() == outcome.artefact else (REPLACED.format(safe_text(out.name)),)

    def book(self, released: Released[R], again: str = "") -> BookingOutcome:
        """The one way into the ledger: bytes and spend in one transaction, or the refusal in sentences.

        again: the verb that would make the release once more, if it is not the one that was called.
        """
        if self.ledger is None or self.blank is None:
            return BookingOutcome(self.text, released.artefact)
        from dosimeter.ledger import OverBudget
        from dosimeter.workflows.ledger_refusal import passed_limit, ways_out

        if released.pieces is not None:
            raise Refusal("a ledger keeps the bytes of a release, and these are too large to hold: release fewer rows")
        booking = replace(
            self.blank,
            recipe=released.recipe,
            artefact=released.artefact,
            doses=tuple(released.doses),
            noise_fingerprint=released.noise_fingerprint,
        )
        try:
            entry = self.ledger.book(booking)
        except OverBudget as stop:
            lines = ways_out(stop.over, released, again)
            refused = tuple(map(passed_limit, stop.over))
            return BookingOutcome(lines[0], released.artefact, refused=refused, ways_out=lines)
        booked = BookingRecord(name=entry.name, seq=entry.seq, head=entry.head)
        return BookingOutcome(_entry_text(entry), entry.artefact, booked, remarks=() if entry.fresh else (EARLIER,))


def outside_a_ledger(notes: Sequence[str]) -> tuple[str, ...]:
    """What is not covered although a ledger adds up all releases."""
    return tuple(note for note in notes if not note.startswith(ADDS_UP))


def _entry_text(entry: Any) -> str:
    text = f"booked as {entry.name}: entry {entry.seq}, head {entry.head}"
    if not entry.fresh:
        return f"{text}, earlier: nothing more was spent, and these are the bytes of that time"
    return f"{text}, over a budget by override" if entry.over else text


def open_session(options: BookingOptions, never: str = "") -> ReleaseSession:
    """The session that the options describe. never: why a release of this kind is never booked, "" if it may be."""
    if never:
        return ReleaseSession(NO_LEDGER if options.ledger is None else f"not booked: {never}")
    if options.no_ledger:
        return ReleaseSession(DECLINED, dose_file=options.dose_file)
    if options.ledger is None:
        return ReleaseSession(NO_LEDGER, dose_file=options.dose_file)
    return _open(options)


def _open(options: BookingOptions) -> ReleaseSession:
    from dosimeter.core.accounts import Booking
    from dosimeter.core.release import Recipe
    from dosimeter.ledger import ledger_files

    if options.name is None:
        name = option("name", "readmission-2026-11")
        raise Refusal(f"{option('name')} is missing: a ledger books a release under a name, such as {name}")
    for field_name in ("name", "to", "note", "override"):
        value = getattr(options, field_name)
        if value is not None and not value.strip():
            raise Refusal(f"{option(field_name)} is empty: say something, or leave it out")
    name, to, note, override = (
        (value or "").strip() for value in (options.name, options.to, options.note, options.override)
    )
    blank = Booking(name, Recipe("nothing yet", "none"), b"-", (), b"", note, to, override)
    ledger = open_ledger(options.ledger, options.keys)
    return ReleaseSession("", ledger, blank, options.dose_file, ledger_files(str(options.ledger), options.keys))


def open_ledger(place: str | None, keys: Path | None, *, without_keys: bool = False) -> Ledger:
    """The ledger that is configured, or a refusal that says how to configure one."""
    from dosimeter.ledger import Ledger

    if place is None:
        raise Refusal(
            "no ledger is configured: --ledger PATH, DOSIMETER_LEDGER, or [ledger] url in dosimeter.toml; `dosimeter "
            "ledger init` makes one"
        )
    return Ledger.open(place, keys, without_keys=without_keys)


def write_dose_file(path: Path, released: Released[Any], artefact: bytes, inputs: Sequence[Path] = ()) -> None:
    """Write the doses of a release for booking later. Internal."""
    from dosimeter.files.dose_file import DoseFile, write_doses

    digest = hashlib.sha256(artefact).hexdigest()
    file = DoseFile(released.verb, released.recipe, digest, tuple(released.doses), secrets.token_hex(16))
    write_doses(path, file, inputs=inputs)
