"""What a site remembers of a study over restarts: how much it was asked, and what it must not be asked again.

A coordinator that asks again after a kill sends the same bytes, or begins a new run. Everything else counts: the limit
on questions bounds what exact sums at chosen weights tell.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

from dosimeter.core.errors import Refusal
from dosimeter.engines.protocol.message import Message
from dosimeter.files.atomic import write_bytes

ASKED = "asked.json"
MOST_FITS = 5
"""Different fits at which a site reads doses for the coordinator, and weights at which it scores: one run has one."""
MOST_EXPOSED = 5
"""Questions whose answer would show few patients, after which a site answers none. An honest run stops at the first.
Which of them are refused tells where patients lie."""


class Declined(Refusal):
    """A question that this site does not answer."""


@dataclass(frozen=True)
class SiteMemory:
    """The file of one study at one site."""

    folder: Path
    study: bytes
    most_questions: int

    def admit(self, question: Message, *, counts: bool = True) -> None:
        """Count a question, unless it is the last one again; refuse an older round and one question too many.

        counts: False for one whose answer tells nothing.
        """
        facts, digest = self._facts(), sha256(question.pack()).hexdigest()
        if counts and facts["exposed"] >= MOST_EXPOSED:
            raise Declined(f"{MOST_EXPOSED} questions of this study rested on few patients: this site answers no more")
        if question.round < facts["round"]:
            raise Declined("an older round: the coordinator's state was lost, or an older copy of it is used")
        if digest == facts["question"]:
            return
        count = facts["count"] + counts
        if count > self.most_questions:
            raise Declined(f"more than {self.most_questions} questions in one study (most-questions)")
        self._keep({**facts, "count": count, "round": question.round, "question": digest})

    def admit_fit(self, operation: str, fit: bytes) -> None:
        """Refuse doses and scores at ever new fits: they would add up to the exact dose of the most exposed patient,
        and to the exact place of any patient in an order.

        A fit that was asked before is answered again.
        """
        facts, digest = self._facts(), sha256(fit).hexdigest()
        known = facts["fits"].get(operation, [])
        if digest in known:
            return
        if len(known) >= MOST_FITS:
            raise Declined(f"{operation} at more than {MOST_FITS} different fits in one study")
        self._keep({**facts, "fits": {**facts["fits"], operation: [*known, digest]}})

    def refuse_exposed(self) -> NoReturn:
        """Refuse a question that rests on few patients, and count it."""
        facts = self._facts()
        self._keep({**facts, "exposed": facts["exposed"] + 1})
        raise Declined("at these weights the sum rests on fewer than three patients")

    def _facts(self) -> dict[str, Any]:
        path = self.folder / ASKED
        first = {"study": self.study.hex(), "count": 0, "round": 0, "question": "", "fits": {}, "exposed": 0}
        facts: dict[str, Any] = first | (json.loads(path.read_bytes()) if path.exists() else {})
        if facts["study"] != self.study.hex():
            raise Declined("the state folder belongs to another study: name another one in site.toml")
        return facts

    def _keep(self, facts: dict[str, Any]) -> None:
        write_bytes(self.folder / ASKED, json.dumps(facts).encode())


def questions_asked(folder: Path) -> int:
    """How many questions of its study a site has counted."""
    path = folder / ASKED
    return int(json.loads(path.read_bytes())["count"]) if path.exists() else 0


def admit_round(path: Path, number: int, model: bytes) -> None:
    """Refuse an older round of a training, and the same round with another model; both survive a restart.

    A second model under one number: the noise of the round before was drawn twice, or more is asked than was agreed.
    """
    digest = sha256(model).hexdigest()
    last, known = _last_round(path)
    if number < last:
        raise Declined("an older round")
    if number == last and digest != known:
        raise Declined("a second model for the same round: its noise was drawn twice")
    if number > last:
        write_bytes(path, json.dumps({"round": number, "model": digest}).encode())


def _last_round(path: Path) -> tuple[int, str]:
    """The last round that was answered, and the digest of its model."""
    if not path.exists():
        return -1, ""
    try:
        facts = json.loads(path.read_bytes())
        return int(facts["round"]), str(facts["model"])
    except (ValueError, KeyError, TypeError):
        raise Declined(f"{path.name} is damaged: restore it, or leave the training") from None
