"""The history of a simulated training: one entry per round, as columns from which any dataframe is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.federated.budget import EpsilonFigure
from dosimeter.federated.state import State


class Round(NamedTuple):
    """One round as a simulation sees it. Internal but for ε, δ, m, z and C: nothing else was noised."""

    round: int
    accuracy: float
    """On the test rows, after the round."""
    loss: float
    """Mean -log p(label) on the test rows, nats."""
    epsilon: float
    """All rounds so far, at `delta`; an upper bound (or unaccounted: see the history's figure)."""
    delta: float
    per_round: float
    """m_t."""
    noise: float
    """z_t, or σ_t."""
    clip: float
    """C_t, or S_t."""
    sampled: int
    accepted: int
    refused: int
    variance: float
    """V_c of [Geyer19]; 0 where nobody came."""
    scale: float
    """U_s; 0 where nobody came."""


WHOLE = ("round", "sampled", "accepted", "refused")


@dataclass(frozen=True, eq=False)
class History:
    """What a simulated training did, and where it stands. Accuracies are without noise: for experiments.

    >>> from dosimeter.federated.budget import EpsilonFigure
    >>> from dosimeter.core.notion import Standing
    >>> figure = EpsilonFigure(0.0, 1e-3, 0, "add-or-remove-one", Standing.UPPER_BOUND, "nothing was released")
    >>> History((), State.of(np.zeros(2), 1.0), figure, "no round was asked for").columns["accuracy"].tolist()
    []
    """

    rounds: tuple[Round, ...]
    state: State
    """Pass it to `simulate` to go on."""
    figure: EpsilonFigure
    """(ε, δ) of the whole training, certified."""
    stopped: str
    """Why it ended, in words."""

    @property
    def columns(self) -> dict[str, Any]:
        """A column per quantity, (rounds,): `pandas.DataFrame(history.columns)`, or any other frame."""
        return {
            name: np.array([getattr(r, name) for r in self.rounds], dtype=np.int64 if name in WHOLE else np.float64)
            for name in Round._fields
        }

    @property
    def simulation(self) -> bool:
        """True where a seed drew the noise or the clients: then the model is not for release."""
        return self.state.simulation

    @property
    def accuracy(self) -> float:
        """After the last round, never of the best one: choosing a round by its accuracy is not accounted for."""
        if not self.rounds:
            raise Refusal(f"no round was trained ({self.stopped}): there is no accuracy")
        return self.rounds[-1].accuracy

    def after(self, earlier: Sequence[Round]) -> History:
        """The same with the rounds before it, where a training was resumed from a state."""
        joined = (*earlier, *self.rounds)
        if [r.round for r in joined] != list(range(len(joined))):
            raise Refusal("these rounds do not follow each other from the first")
        return History(joined, self.state, self.figure, self.stopped)

    def __repr__(self) -> str:
        kind = "simulation, not for release" if self.simulation else "noise and clients drawn for release"
        end = f"accuracy {self.accuracy:.4f}" if self.rounds else "no round"
        return f"<History of {len(self.rounds)} rounds, {end}, {self.figure}; {kind}; {self.stopped}>"
