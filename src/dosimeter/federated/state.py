"""The state of a training: a plain value that a curator returns and takes back. Whoever keeps it keeps the training.

It is internal: it holds who was asked. Of its parts only the model, the clip and the book of rounds may leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.federated.accountant import Spend, Spent, booked

VERSION = 1


class RoundRecord(NamedTuple):
    """One round that is over. `sampled`, `accepted`, `refused` are internal: they were not noised."""

    per_round: float
    noise: float
    clip: float
    """C the round was clipped at."""
    share: float
    """The noisy share of clients within C; ½ where no bit was asked for."""
    sampled: int
    accepted: int
    refused: int
    abandoned: bool


@dataclass(frozen=True, eq=False)
class State:
    """Where the training stands: between two rounds, or with one open and already paid for.

    >>> start = State.of(np.zeros(3), clip=1.0)
    >>> start.serial, start.round, start.is_open, State.from_plain(start.plain()).same_as(start)
    (0, 0, False, True)
    """

    model: FloatArray
    """(d,)."""
    velocity: FloatArray
    """(d,) of the server's momentum."""
    clip: float
    """C for the round that is open, or else for the next."""
    spent: Spent = ()
    """Every round that was opened, whether or not it was closed."""
    history: tuple[RoundRecord, ...] = ()
    participants: Index = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    """Who was asked in the open round. Internal."""
    is_open: bool = False
    simulation: bool = False
    """True once anything was drawn from a seed: not for release."""
    cohort: str = ""
    """Whom the book is about, in words: the same rounds cost less if there were more clients."""

    @classmethod
    def of(cls, model: Any, clip: float, cohort: object = "") -> State:
        """The state before the first round; `model` is public, (d,)."""
        start = np.array(model, dtype=np.float64)
        if start.ndim != 1 or not start.size or not np.isfinite(start).all():
            raise Refusal(f"a model is a flat vector of finite numbers, not of shape {start.shape}")
        return cls(start, np.zeros_like(start), float(clip), cohort=str(cohort))

    def __post_init__(self) -> None:
        for name, kind in (("model", np.float64), ("velocity", np.float64), ("participants", np.intp)):
            value = np.array(getattr(self, name), dtype=kind)
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def round(self) -> int:
        """Rounds that are over; the number of the round that is open or comes next."""
        return len(self.history)

    @property
    def serial(self) -> int:
        """Rises by one at each step. Whoever keeps states accepts only the successor of the one it has."""
        return 2 * self.round + self.is_open

    @property
    def open_terms(self) -> tuple[float, float]:
        """m and z of the open round as they were booked: what it must be noised with, whatever a recipe says by now."""
        if not self.is_open:
            raise Refusal(f"round {self.round} is not open: open_round first")
        return self.spent[-1].per_round, self.spent[-1].noise

    def refuse_other_cohort(self, cohort: object) -> None:
        """A book is read with the cohort it was written for, or not at all."""
        if self.cohort != str(cohort):
            raise Refusal(
                f"this state is of {self.cohort or 'no cohort'}, not of {cohort}: resume it with its own recipe"
            )

    def opened(self, participants: Index, per_round: float, noise: float, *, simulation: bool) -> State:
        """The same with a round open, and paid for."""
        return replace(
            self,
            participants=participants,
            spent=booked(self.spent, per_round, noise),
            is_open=True,
            simulation=self.simulation or simulation,
        )

    def closed(self, entry: RoundRecord, **changed: Any) -> State:
        """The same with the round over."""
        return replace(
            self, history=(*self.history, entry), participants=np.zeros(0, dtype=np.intp), is_open=False, **changed
        )

    def plain(self) -> dict[str, Any]:
        """Arrays and scalars only; `from_plain` gives the same state back, bit for bit."""
        return {
            "version": VERSION,
            "model": np.array(self.model),
            "velocity": np.array(self.velocity),
            "clip": self.clip,
            "spent": np.array(self.spent, dtype=np.float64).reshape(-1, len(Spend._fields)),
            "history": np.array(self.history, dtype=np.float64).reshape(-1, len(RoundRecord._fields)),
            "participants": np.array(self.participants, dtype=np.int64),
            "is_open": self.is_open,
            "simulation": self.simulation,
            "cohort": self.cohort,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> State:
        """The state that `plain` was made from; refused where it is not whole."""
        lost = ({f.name for f in fields(cls)} | {"version"}) ^ set(plain)
        if lost:
            raise Refusal(f"a kept state has other parts than expected: {', '.join(sorted(lost))}")
        if plain["version"] != VERSION:
            raise Refusal(f"a kept state of version {plain['version']!r} cannot be read; this is version {VERSION}")
        spent = tuple(Spend(float(m), float(z), int(n)) for m, z, n in np.asarray(plain["spent"]).tolist())
        history = tuple(_closed(row) for row in np.asarray(plain["history"]).tolist())
        state = cls(
            model=plain["model"],
            velocity=plain["velocity"],
            clip=float(plain["clip"]),
            spent=spent,
            history=history,
            participants=np.asarray(plain["participants"], dtype=np.intp),
            is_open=bool(plain["is_open"]),
            simulation=bool(plain["simulation"]),
            cohort=str(plain["cohort"]),
        )
        state._refuse_unsound()
        return state

    def same_as(self, other: State) -> bool:
        """Equal in every part, bit for bit."""
        return all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name))
            if isinstance(getattr(self, f.name), np.ndarray)
            else getattr(self, f.name) == getattr(other, f.name)
            for f in fields(self)
        )

    def _refuse_unsound(self) -> None:
        paid = sum(s.rounds for s in self.spent)
        if paid != self.round + self.is_open:
            raise Refusal(f"a kept state has {self.round + self.is_open} rounds and {paid} paid for: it was altered")
        if any(s.rounds < 1 or not s.noise >= 0 or not s.per_round > 0 for s in self.spent):
            raise Refusal("a kept state has rounds that were paid for with nothing: it was altered")
        finite = np.isfinite(self.model).all() and np.isfinite(self.velocity).all() and 0 < self.clip < np.inf
        if self.model.shape != self.velocity.shape or not finite:
            raise Refusal("a kept state has a model that is not finite, or a velocity of another size: it was altered")
        if len(np.unique(self.participants)) < len(self.participants) or (len(self.participants) and not self.is_open):
            raise Refusal("a kept state has somebody asked twice, or in no round: it was altered")


def _closed(row: list[float]) -> RoundRecord:
    """An entry of the history from its row of numbers."""
    m, z, C, share, sampled, accepted, refused, abandoned = row
    return RoundRecord(m, z, C, share, int(sampled), int(accepted), int(refused), bool(abandoned))
