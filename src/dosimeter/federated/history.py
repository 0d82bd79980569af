"""The history of a simulated training: one entry per round, available as columns for any dataframe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.federated.budget import EpsilonFigure
from dosimeter.federated.state import State


class Round(NamedTuple):
    """One round of a simulation. Internal except ε, δ, m, z and C: nothing else was noised.

    Parameters
    ----------
    round : int
        Its number, from 0.
    accuracy, loss : float
        On the test rows after the round; loss is the mean of -log p(label) in nats.
    epsilon, delta : float
        Cost of all rounds so far: an upper bound, or unaccounted (see `History.figure`).
    per_round : float
        m_t.
    noise : float
        z_t, or σ_t of [Geyer19].
    clip : float
        C_t, or S_t of [Geyer19].
    sampled, accepted, refused : int
        Clients sampled, and messages accepted and refused.
    variance, scale : float
        V_c and U_s of [Geyer19]; 0 if no client answered.

    Examples
    --------
    >>> Round(0, 0.9, 0.3, 1.2, 1e-5, 100, 1.0, 0.5, 98, 97, 1, 0.01, 0.1).accepted
    97
    """

    round: int
    accuracy: float
    loss: float
    epsilon: float
    delta: float
    per_round: float
    noise: float
    clip: float
    sampled: int
    accepted: int
    refused: int
    variance: float
    scale: float


INTEGER_COLUMNS = ("round", "sampled", "accepted", "refused")


@dataclass(frozen=True, eq=False)
class History:
    """The rounds of a simulated training and its last state. Accuracies are without noise: for experiments.

    Parameters
    ----------
    rounds : tuple of Round
        The rounds.
    state : State
        The state after the last; pass it to `simulate` to continue.
    figure : EpsilonFigure
        (ε, δ) of the whole training, certified.
    stop_reason : str
        Why the training ended.

    Examples
    --------
    >>> from dosimeter.core.notion import Standing
    >>> figure = EpsilonFigure(0.0, 1e-3, 0, "add-or-remove-one", Standing.UPPER_BOUND, "nothing was released")
    >>> History((), State.of(np.zeros(2), 1.0), figure, "no rounds were requested").columns["accuracy"].tolist()
    []
    """

    rounds: tuple[Round, ...]
    state: State
    figure: EpsilonFigure
    stop_reason: str

    @property
    def columns(self) -> dict[str, Any]:
        """One array per quantity, (rounds,): `pandas.DataFrame(history.columns)`, or any other frame."""
        return {
            name: np.array(
                [getattr(r, name) for r in self.rounds], dtype=np.int64 if name in INTEGER_COLUMNS else np.float64
            )
            for name in Round._fields
        }

    @property
    def simulation(self) -> bool:
        """True if a seed drew the noise or the clients: the model is then not for release."""
        return self.state.simulation

    @property
    def accuracy(self) -> float:
        """After the last round, never the best one: choosing a round by its accuracy is not accounted for."""
        if not self.rounds:
            raise Refusal(f"no round was trained ({self.stop_reason}), so there is no accuracy")
        return self.rounds[-1].accuracy

    def after(self, earlier: Sequence[Round]) -> History:
        """This history with the earlier rounds of a resumed training in front."""
        rounds = (*earlier, *self.rounds)
        if [r.round for r in rounds] != list(range(len(rounds))):
            raise Refusal("these rounds are not consecutive from round 0")
        return History(rounds, self.state, self.figure, self.stop_reason)

    def __repr__(self) -> str:
        kind = "simulation, not for release" if self.simulation else "noise and clients drawn for release"
        outcome = f"accuracy {self.accuracy:.4f}" if self.rounds else "no round"
        return f"<History of {len(self.rounds)} rounds, {outcome}, {self.figure}; {kind}; {self.stop_reason}>"
