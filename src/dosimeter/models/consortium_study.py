"""A study at the coordinator: decide, draw once, have every site book, release. Resumed after a kill at any moment.

The order is what makes it safe. The journal is written before anybody is asked. A draw is kept before a site hears of
it, so it is the only one of the study. A release is written only after every site has booked it. What is asked again
after a kill is answered as before: sites compute the same sums, and a ledger books a name once.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.release import Recipe
from dosimeter.engines.consortium_operations import BOOK, FINISH
from dosimeter.engines.protocol.assembly import Assembly, Values
from dosimeter.files.consortium_journal import RELEASED, Journal
from dosimeter.models.site_booking import recipe_of, recipe_text
from dosimeter.tables.consortium_schema import ConsortiumSchema

GOODBYE = 60.0
"""Seconds that sites have to hear that a study has ended, after the release was written: those that try again to reach
the coordinator do so every few seconds."""
AGAIN = 12.0
"""The same in a run after the release, which only writes the file again: most sites have heard it by then."""


@dataclass(frozen=True)
class CoordinatorStudy:
    """One study at the coordinator."""

    schema: ConsortiumSchema
    assembly: Assembly
    journal: Journal
    say: Callable[[str], None]
    """Tells the people at the coordinator, in one line."""

    def proposal(self) -> bytes:
        """A new name for what the sites are asked to agree to, kept before they are asked."""
        token = secrets.token_bytes(16)
        self.journal.keep(proposal=token.hex())
        return token

    def finish(self, released: bool, seconds: float = GOODBYE) -> None:
        """Tell the sites that hear it that the study has ended."""
        self.assembly.ask_present(FINISH.name, {"released": released}, deadline=seconds)


@dataclass(frozen=True, eq=False)
class StudyDraw:
    """What leaves, drawn once, and what the result says about it."""

    artefact: bytes
    recipe: Recipe
    figures: Mapping[str, Any]
    """Plain values for the result."""
    fingerprint: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    """A token created with the draw: it identifies the noise in the sites' ledgers."""
    kept: Mapping[str, Any] = field(default_factory=dict)
    """Plain values that are needed after the draw, also by a later run. Internal."""


@dataclass(frozen=True)
class Refused:
    """Sites that answered no. Nothing was drawn. Internal."""

    sites: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class StudyOutcome:
    """What became of a study."""

    artefact: bytes = b""
    """b"" if nothing is released."""
    recipe: Recipe | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    refused: tuple[int, ...] = ()
    """Sites that answered no before the draw. Internal."""
    unbooked: tuple[int, ...] = ()
    """Sites that could not book the draw: nothing was released. Internal."""
    earlier: bool = False
    """Whether the noise was drawn by an earlier run."""


def release_once(
    study: CoordinatorStudy, prepare: Callable[[CoordinatorStudy], StudyDraw | Refused], *, sites_book: bool = True
) -> StudyOutcome:
    """Draw, unless an earlier run did, and have every site book it.

    prepare: everything up to the draw. sites_book: False if the sites booked what they sent.
    """
    journal = study.journal
    earlier = journal.has_drawn
    if not earlier:
        draw = prepare(study)
        if isinstance(draw, Refused):
            return StudyOutcome(refused=draw.sites)
        journal.keep_draw(
            draw.artefact,
            recipe=json.loads(recipe_text(draw.recipe)),
            figures=dict(draw.figures),
            fingerprint=draw.fingerprint.hex(),
            kept=dict(draw.kept),
        )
    else:
        study.say("the noise was drawn by an earlier run: this run continues with the same release")
    artefact = journal.artefact()
    recipe = recipe_of(json.dumps(journal.facts["recipe"]))
    figures = journal.facts["figures"]
    if sites_book and journal.stage != RELEASED:
        unbooked = _book(study, artefact, recipe)
        if unbooked:
            return StudyOutcome(recipe=recipe, figures=figures, unbooked=unbooked, earlier=earlier)
    return StudyOutcome(artefact, recipe, figures, earlier=earlier)


def _book(study: CoordinatorStudy, artefact: bytes, recipe: Recipe) -> tuple[int, ...]:
    """Sites whose ledgers do not take the draw."""
    facts = study.journal.facts
    answers = study.assembly.ask(
        BOOK.name,
        {
            "proposal": bytes.fromhex(facts["proposal"]),
            "artefact": artefact,
            "recipe": recipe_text(recipe),
            "fingerprint": bytes.fromhex(facts["fingerprint"]),
        },
    )
    return sites_without(answers, "booked")


def sites_without(answers: Mapping[int, Values], flag: str) -> tuple[int, ...]:
    """The sites whose answer has no such flag."""
    return tuple(site for site, answer in answers.items() if not answer[flag])


def listed(sites: Iterable[int]) -> str:
    """Sites in a sentence.

    >>> listed((2,)), listed((1, 3))
    ('site 2', 'sites 1, 3')
    """
    numbers = list(sites)
    return f"{'site' if len(numbers) == 1 else 'sites'} {', '.join(map(str, numbers))}"


def refuse_unfinished(outcome: StudyOutcome) -> None:
    """Refuse to release what a site did not book."""
    if outcome.unbooked:
        raise Refusal(f"{listed(outcome.unbooked)} did not book the release: nothing was released")
