"""The state of a training: a plain value that a curator takes and returns. Saving it saves the training.

It is internal: it lists the sampled clients. Only its model, its clip and the parameters of its rounds may be released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.federated.accountant import Spend, Spending, add_rounds

VERSION = 1


class RoundRecord(NamedTuple):
    """One finished round. `sampled`, `accepted`, `refused` are internal: they were not noised."""

    per_round: float
    noise: float
    clip: float
    """C of the round."""
    share: float
    """The noisy share of clients within C; ½ if no bits were collected."""
    sampled: int
    accepted: int
    refused: int
    abandoned: bool


@dataclass(frozen=True, eq=False)
class State:
    """The state of a training: between two rounds, or with one open and already paid for. Internal.

    Parameters
    ----------
    model : (d,) array
        The model.
    velocity : (d,) array
        Of the server's momentum.
    clip : float
        C of the open round, or of the next.
    spent : tuple of Spend
        Every round that was opened, closed or not.
    history : tuple of RoundRecord
        Every finished round.
    participants : array of int
        Clients sampled for the open round. Internal.
    is_open : bool
        Whether a round is open.
    simulation : bool
        True once anything was drawn from a seed: not for release.
    cohort : str
        Text form of the cohort of these rounds: with more clients the same rounds would cost less.

    Examples
    --------
    >>> start = State.of(np.zeros(3), clip=1.0)
    >>> start.serial, start.round, start.is_open, State.from_dict(start.to_dict()).same_as(start)
    (0, 0, False, True)
    """

    model: FloatArray
    velocity: FloatArray
    clip: float
    spent: Spending = ()
    history: tuple[RoundRecord, ...] = ()
    participants: Index = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    is_open: bool = False
    simulation: bool = False
    cohort: str = ""

    @classmethod
    def of(cls, model: Any, clip: float, cohort: object = "") -> State:
        """The state before the first round; `model` is public, (d,)."""
        start = np.array(model, dtype=np.float64)
        if start.ndim != 1 or not start.size or not np.isfinite(start).all():
            raise Refusal(f"a model must be a flat vector of finite numbers, not of shape {start.shape}")
        return cls(start, np.zeros_like(start), float(clip), cohort=str(cohort))

    def __post_init__(self) -> None:
        for name, kind in (("model", np.float64), ("velocity", np.float64), ("participants", np.intp)):
            value = np.array(getattr(self, name), dtype=kind)
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def round(self) -> int:
        """Number of finished rounds, which is the number of the open or next round."""
        return len(self.history)

    @property
    def serial(self) -> int:
        """Rises by one at each step. A store of states accepts only the successor of the one it has."""
        return 2 * self.round + self.is_open

    @property
    def open_parameters(self) -> tuple[float, float]:
        """m and z of the open round as they were paid for: its noise follows these, even if the recipe has changed."""
        if not self.is_open:
            raise Refusal(f"round {self.round} is not open: call open_round first")
        return self.spent[-1].per_round, self.spent[-1].noise

    def refuse_other_cohort(self, cohort: object) -> None:
        """Refuse a cohort other than the one these rounds were accounted for."""
        if self.cohort != str(cohort):
            raise Refusal(
                f"this state belongs to {self.cohort or 'no cohort'}, not to {cohort}: resume it with its own recipe"
            )

    def with_open_round(self, participants: Index, per_round: float, noise: float, *, simulation: bool) -> State:
        """This state with a round opened and paid for."""
        return replace(
            self,
            participants=participants,
            spent=add_rounds(self.spent, per_round, noise),
            is_open=True,
            simulation=self.simulation or simulation,
        )

    def with_closed_round(self, entry: RoundRecord, **changed: Any) -> State:
        """This state with the round closed."""
        return replace(
            self, history=(*self.history, entry), participants=np.zeros(0, dtype=np.intp), is_open=False, **changed
        )

    def to_dict(self) -> dict[str, Any]:
        """Arrays and scalars only; `from_dict` restores the same state, bit for bit."""
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
    def from_dict(cls, saved: Mapping[str, Any]) -> State:
        """The state that `saved` came from; refused if it is incomplete or was altered."""
        differing = ({f.name for f in fields(cls)} | {"version"}) ^ set(saved)
        if differing:
            raise Refusal(f"a saved state has unexpected or missing parts: {', '.join(sorted(differing))}")
        if saved["version"] != VERSION:
            raise Refusal(f"a saved state of version {saved['version']!r} cannot be read; this is version {VERSION}")
        spent = tuple(Spend(float(m), float(z), int(n)) for m, z, n in np.asarray(saved["spent"]).tolist())
        history = tuple(_round_record(row) for row in np.asarray(saved["history"]).tolist())
        state = cls(
            model=saved["model"],
            velocity=saved["velocity"],
            clip=float(saved["clip"]),
            spent=spent,
            history=history,
            participants=np.asarray(saved["participants"], dtype=np.intp),
            is_open=bool(saved["is_open"]),
            simulation=bool(saved["simulation"]),
            cohort=str(saved["cohort"]),
        )
        state._refuse_unsound()
        return state

    def same_as(self, other: State) -> bool:
        """True if every part is equal, bit for bit."""
        return all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name))
            if isinstance(getattr(self, f.name), np.ndarray)
            else getattr(self, f.name) == getattr(other, f.name)
            for f in fields(self)
        )

    def _refuse_unsound(self) -> None:
        paid = sum(s.rounds for s in self.spent)
        if paid != self.round + self.is_open:
            raise Refusal(f"a saved state has {self.round + self.is_open} rounds but {paid} paid for: it was altered")
        if any(s.rounds < 1 or not s.noise >= 0 or not s.per_round > 0 for s in self.spent):
            raise Refusal("a saved state has rounds without clients or noise: it was altered")
        finite = np.isfinite(self.model).all() and np.isfinite(self.velocity).all() and 0 < self.clip < np.inf
        if self.model.shape != self.velocity.shape or not finite:
            raise Refusal("a saved state has a model that is not finite, or a velocity of another size: it was altered")
        if len(np.unique(self.participants)) < len(self.participants) or (len(self.participants) and not self.is_open):
            raise Refusal("a saved state has a client sampled twice, or without an open round: it was altered")


def _round_record(row: list[float]) -> RoundRecord:
    """A round record from its row of numbers."""
    m, z, C, share, sampled, accepted, refused, abandoned = row
    return RoundRecord(m, z, C, share, int(sampled), int(accepted), int(refused), bool(abandoned))
