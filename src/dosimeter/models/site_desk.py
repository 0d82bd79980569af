"""What a site answers: every operation of the list, computed with its rows, and nothing else.

`answer` takes the bytes of a question and returns the bytes of an answer. It never raises: whatever goes wrong becomes
a status without a text, and the reason is said at the site, without a cell of the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.accounts import Booking
from dosimeter.core.dose import Dose
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import FISHER, Standing
from dosimeter.core.release import Recipe
from dosimeter.core.scale_ladder import SCALE_NOT_COVERED, rung, rung_above
from dosimeter.core.text import safe_text
from dosimeter.engines.consortium_operations import BOOK, FINISH, LIMITS, MATCH, MOMENTS, SCALE, SCORE
from dosimeter.engines.protocol.assembly import Values
from dosimeter.engines.protocol.fields import Malformed, pack, unpack
from dosimeter.engines.protocol.message import Message, Status, read_message
from dosimeter.engines.protocol.operations import operation_named
from dosimeter.engines.site_sums import SUMS
from dosimeter.files.atomic import write_bytes
from dosimeter.glm.block_scores import score_terms
from dosimeter.glm.loss import LOSSES
from dosimeter.ledger import Ledger, OverBudget
from dosimeter.models.consortium_fit import fit_of, totals_of, totals_values
from dosimeter.models.consortium_model import LAWS, consortium_model
from dosimeter.models.site_table import SiteTable, check_dose_units
from dosimeter.tables.consortium_schema import ConsortiumSchema
from dosimeter.tables.weight_folding import model_inputs

MOST_QUESTIONS = 1000
"""Of one study: a fit takes ten to thirty. Each is an exact sum at weights that the coordinator chooses."""


class Declined(Refusal):
    """A question that this site does not answer."""


@dataclass
class SiteDesk:
    """One site of one study: its table, its ledger, and a folder for what must survive a restart."""

    schema: ConsortiumSchema
    number: int
    read: Callable[[], SiteTable]
    """Reads and checks the table."""
    ledger: Callable[[], Ledger]
    """Opens the ledger."""
    folder: Path
    say: Callable[[str], None]
    """Tells the people at the site, in one line without a cell of the table."""
    most_questions: int = MOST_QUESTIONS
    finished: bool | None = None
    """Whether the study ended with a release; None while it runs."""
    _table: SiteTable | None = field(default=None, repr=False)
    _last_round: int = -1

    def answer(self, data: bytes) -> bytes:
        """The answer to a question, whatever it is; empty if the bytes are no question to this site."""
        try:
            question = read_message(data)
        except Malformed:
            self.say("a message that is none of this protocol was dropped")
            return b""
        status, body = self._status(question)
        return question.answer(status, body).pack()

    def _status(self, question: Message) -> tuple[Status, bytes]:
        name = safe_text(question.operation)
        try:
            self._check(question)
            operation = operation_named(question.operation)
            values = unpack(operation.question, question.body, self.schema.sizes)
        except (Declined, Malformed) as fault:
            self.say(f"{name}: not answered: {fault}")
            return Status.REFUSED, b""
        except Exception as fault:
            self.say(f"{name}: failed ({type(fault).__name__})")
            return Status.FAILED, b""
        try:
            table = self._checked_table()
        except Exception as fault:
            reason = str(fault) if isinstance(fault, Refusal) else type(fault).__name__
            self.say(f"this site does not match the schema: {safe_text(reason, 300)}")
            return Status.NO_MATCH, b""
        try:
            return Status.DONE, pack(operation.answer, self._run(question.operation, values, table), self.schema.sizes)
        except Declined as fault:
            self.say(f"{name}: not answered: {fault}")
            return Status.REFUSED, b""
        except Exception as fault:  # its text may quote a cell
            self.say(f"{name}: failed ({type(fault).__name__})")
            return Status.FAILED, b""

    def _check(self, question: Message) -> None:
        if question.status is not None or question.site != self.number:
            raise Declined("a message to another site")
        if question.study != self.schema.digest:
            raise Declined("the coordinator has another schema file than this site")
        if question.round < self._last_round:
            raise Declined("an older round")
        if question.round > self._last_round:
            self._count()
        self._last_round = question.round

    def _count(self) -> None:
        """Count the questions of a study, also over restarts."""
        path = self.folder / "questions"
        count = (int(path.read_text()) if path.exists() else 0) + 1
        if count > self.most_questions:
            raise Declined(f"more than {self.most_questions} questions in one study (most-questions)")
        write_bytes(path, str(count).encode())

    def _checked_table(self) -> SiteTable:
        if self._table is None:
            self._table = self.read()
        return self._table

    def _run(self, name: str, values: Values, table: SiteTable) -> Values:
        if name in SUMS:
            return SUMS[name].run(table.block, values, LOSSES[self.schema.loss]())
        handlers: dict[str, Callable[[Values, SiteTable], Values]] = {
            MATCH.name: lambda values, table: {},
            MOMENTS.name: lambda values, table: totals_values(table.totals),
            SCALE.name: self._scale,
            LIMITS.name: self._limits,
            SCORE.name: self._score,
            BOOK.name: self._book,
            FINISH.name: self._finish,
        }
        return handlers[name](values, table)

    # --- doses ---

    def doses(self, values: Values, table: SiteTable, scale: float) -> dict[Any, float]:
        """η of each of the site's patients, with noise of this scale on the weights."""
        totals = totals_of(values)
        check_dose_units(totals, table.totals)
        model = consortium_model(self.schema, totals, LAWS[self.schema.release.noise](scale))  # type: ignore[call-arg]
        return dict(model.leakage(fit_of(values, model), table.table).persons)

    def _scale(self, values: Values, table: SiteTable) -> Values:
        limit = self.schema.release.max_dose
        if limit is None:
            raise Declined("the schema has a public scale")
        highest = max(self.doses(values, table, 1.0).values())
        k = rung_above(max(highest / limit, 1e-140))
        while max(self.doses(values, table, rung(k)).values()) > limit:
            k += 1
        return {"rung": k}

    def _limits(self, values: Values, table: SiteTable) -> Values:
        scale, release = float(values["scale"]), self.schema.release
        doses = self.doses(values, table, scale)
        highest = max(doses.values())
        if release.scale is not None and scale != release.scale:
            raise Declined("another noise scale than the schema's")
        if release.max_dose is not None and highest > release.max_dose:
            self.say("a patient would exceed the agreed max-dose at this noise: answered no")
            return {"within": False}
        pending = Pending(values["proposal"].hex(), scale, bool(values["chosen"]), tuple(doses), tuple(doses.values()))
        with self.ledger() as ledger:
            if any(entry.name == release.name for entry in ledger.releases()):
                self.say(f"{release.name} is booked already, and a second draw is a second release: answered no")
                return {"within": False}
            violations = ledger.preview(self._booking(pending, Recipe("weights", "planned"), b"-", b""))
        if violations:
            self.say(f"{violations[0].people} of this site's patients would exceed its ledger's limits: answered no")
            return {"within": False}
        write_bytes(self.folder / "pending.json", pending.to_json())
        self.say(f"{len(doses)} patients within their limits, highest dose of this release {highest:.4g}: answered yes")
        return {"within": True}

    def _booking(self, pending: Pending, recipe: Recipe, artefact: bytes, fingerprint: bytes) -> Booking:
        not_covered = (SCALE_NOT_COVERED,) if pending.chosen else ()
        dose = Dose.of_figures(
            FISHER,
            "person",
            pending.ids,
            np.array(pending.doses),
            standing=Standing.UNACCOUNTED if not_covered else Standing.EXACT,
            measured_in="standard deviations",
            not_covered=not_covered,
        )
        note = f"consortium study {self.schema.study}, site {self.number} of {len(self.schema.sites)}"
        return Booking(self.schema.release.name, recipe, artefact, (dose,), fingerprint, note)

    def _book(self, values: Values, table: SiteTable) -> Values:
        pending = read_pending(self.folder / "pending.json")
        if pending.proposal != values["proposal"].hex():
            raise Declined("this site did not agree to this release")
        recipe = recipe_of(values["recipe"])
        with self.ledger() as ledger:
            try:
                receipt = ledger.book(self._booking(pending, recipe, values["artefact"], values["fingerprint"]))
            except OverBudget:
                self.say("this site's patients would exceed its ledger's limits now: not booked")
                return {"booked": False}
        if receipt.artefact != values["artefact"]:
            self.say(f"{self.schema.release.name} is booked with other bytes: a second draw was refused")
            return {"booked": False}
        self.say(f"booked as {receipt.name}: entry {receipt.seq}, {len(pending.ids)} patients")
        return {"booked": True}

    # --- the rest ---

    def _score(self, values: Values, table: SiteTable) -> Values:
        m = model_inputs(table.encoder.encoding, table.table) @ values["coef"] + values["intercept"]
        part, whole = score_terms(LOSSES[self.schema.loss](), m, table.block[1], values["mean"])
        return {"part": min(float(part), 1e300), "whole": float(whole)}

    def _finish(self, values: Values, table: SiteTable) -> Values:
        self.finished = bool(values["released"])
        self.say("the study has ended: " + ("released" if self.finished else "nothing was released"))
        return {}


@dataclass(frozen=True)
class Pending:
    """The doses of a release that this site agreed to, until it is booked. As private as the table."""

    proposal: str
    scale: float
    chosen: bool
    """Whether the scale was chosen from the data."""
    ids: tuple[Any, ...]
    doses: tuple[float, ...]

    def to_json(self) -> bytes:
        """As a file of the site."""
        return json.dumps({**vars(self), "doses": [dose.hex() for dose in self.doses]}).encode()


def read_pending(path: Path) -> Pending:
    """The doses that wait to be booked."""
    if not path.exists():
        raise Declined("no release waits to be booked here")
    facts = json.loads(path.read_bytes())
    doses = tuple(float.fromhex(dose) for dose in facts["doses"])
    return Pending(facts["proposal"], facts["scale"], facts["chosen"], tuple(facts["ids"]), doses)


def recipe_of(text: str) -> Recipe:
    """The recipe that travelled as JSON."""
    try:
        facts = json.loads(text)
        return Recipe(facts["kind"], facts["noise"], facts["settings"], tuple(facts["not_covered"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Declined("a recipe that cannot be read") from None
