"""A site's own ledger: whether its patients stay within their limits, and the release booked in one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dosimeter.core.accounts import Booking, PersonDoses
from dosimeter.core.errors import LimitExceeded, Refusal, StorageFault
from dosimeter.core.release import Recipe
from dosimeter.engines.protocol.assembly import Values
from dosimeter.files.atomic import write_bytes
from dosimeter.ledger import Ledger, OverBudget
from dosimeter.models.site_memory import Declined, SiteMemory
from dosimeter.tables.consortium_schema import ConsortiumSchema

PENDING = "pending.json"
FINISHED = "finished.json"
Doses = Callable[[dict[str, Any]], tuple[PersonDoses, ...]]
"""What was kept of a release that this site agreed to -> each patient's dose."""


@dataclass(frozen=True)
class SiteBooking:
    """The ledger of one site, and the folder with what it agreed to."""

    schema: ConsortiumSchema
    number: int
    ledger: Callable[[], Ledger]
    """Opens the ledger."""
    folder: Path
    say: Callable[[str], None]
    memory: SiteMemory

    @contextmanager
    def open_ledger(self) -> Iterator[Ledger]:
        """The ledger. What is wrong with it is said at the site: its texts name files and releases, and no patient."""
        try:
            with self.ledger() as ledger:
                yield ledger
        except (Declined, LimitExceeded, StorageFault):
            raise
        except Refusal as fault:
            raise StorageFault(str(fault)) from None

    def within(self, proposal: bytes, facts: dict[str, Any], doses: Doses) -> bool:
        """Whether the ledger takes these doses; a yes is kept, so that the release can be booked after a restart.

        facts: what `doses` needs later, plain values. As private as the table.
        """
        name = self.schema.release.name
        pending = {**facts, "proposal": proposal.hex()}
        planned = self.booking(doses(pending), Recipe("planned", "planned"), b"-", b"")
        with self.open_ledger() as ledger:
            if any(entry.name == name for entry in ledger.releases()):
                self.say(f"{name} is booked already, and a second draw is a second release: answered no")
                return False
            violations = ledger.preview(planned)
        if violations:
            self.say(f"{violations[0].people} of this site's patients would exceed its ledger's limits: answered no")
            return False
        write_bytes(self.folder / PENDING, json.dumps(pending).encode())
        self.say(f"{len(facts['ids'])} patients within their limits: answered yes")
        return True

    def booking(self, doses: tuple[PersonDoses, ...], recipe: Recipe, artefact: bytes, fingerprint: bytes) -> Booking:
        """What the ledger takes."""
        note = booking_note(self.schema, self.number)
        return Booking(self.schema.release.name, recipe, artefact, doses, fingerprint, note)

    def pending(self, proposal: bytes) -> dict[str, Any]:
        """What this site agreed to under this proposal."""
        path = self.folder / PENDING
        if not path.exists():
            raise Declined("no release waits to be booked here")
        facts: dict[str, Any] = json.loads(path.read_bytes())
        if facts["proposal"] != proposal.hex():
            raise Declined("this site did not agree to this release")
        return facts

    def book(self, values: Values, doses: Doses) -> Values:
        """The answer to `book`: doses and bytes in one transaction, once per name."""
        pending = self.pending(values["proposal"])
        booking = self.booking(doses(pending), recipe_of(values["recipe"]), values["artefact"], values["fingerprint"])
        with self.open_ledger() as ledger:
            try:
                receipt = ledger.book(booking)
            except OverBudget:
                self.say("this site's patients would exceed its ledger's limits now: not booked")
                return {"booked": False}
        if receipt.artefact != values["artefact"]:
            self.say(f"{self.schema.release.name} is booked with other bytes: a second draw was refused")
            return {"booked": False}
        write_bytes(self.folder / FINISHED, json.dumps({"seq": receipt.seq, "head": receipt.head}).encode())
        self.say(f"booked as {receipt.name}: entry {receipt.seq}, {len(pending['ids'])} patients")
        return {"booked": True}


def booking_note(schema: ConsortiumSchema, number: int) -> str:
    """The note of a site's entry: of which study it is."""
    return f"consortium study {schema.study}, site {number} of {len(schema.sites)}"


def recipe_text(recipe: Recipe) -> str:
    """A recipe as it travels."""
    return json.dumps(
        {
            "kind": recipe.kind,
            "noise": recipe.noise,
            "settings": dict(recipe.settings),
            "not_covered": list(recipe.not_covered),
        }
    )


def recipe_of(text: str) -> Recipe:
    """The recipe that travelled as JSON."""
    try:
        facts = json.loads(text)
        return Recipe(facts["kind"], facts["noise"], facts["settings"], tuple(facts["not_covered"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Declined("a recipe that cannot be read") from None
