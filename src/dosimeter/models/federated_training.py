"""How clients and curator learn, as chosen on the command line, and the training itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from dosimeter.cli.checks import positive
from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text
from dosimeter.models.federated_rows import ClientPopulation
from dosimeter.models.federated_terms import FederatedTerms

if TYPE_CHECKING:
    from dosimeter.federated.curator import Curator
    from dosimeter.federated.history import History
    from dosimeter.federated.local_training import LocalSGD
    from dosimeter.federated.networks import Network
    from dosimeter.federated.state import State
    from dosimeter.federated.task import Task

MODELS = ("softmax", "mlp")
MANY = 1000
"""From so many clients on a hidden layer pays for its parameters; chosen on MNIST (docs/federated.md)."""
HIDDEN, BATCHES = (64,), 10
MOST_PROCESSES = 256


@dataclass(frozen=True)
class Choices:
    """Everything about learning; none of it is read off the clients' rows, and tuning it on them is not covered."""

    model: str | None
    hidden: tuple[int, ...]
    epochs: int
    batches: int
    batch: int
    rate: float
    momentum: float
    quantile: float
    clip: float
    processes: int
    simulate: int | None
    pool: int

    @property
    def seed(self) -> int:
        """Of made-up clients' shards and of first weights, which hide nobody; of all other draws in simulation only."""
        return 0 if self.simulate is None else self.simulate

    @classmethod
    def checked(
        cls,
        model: str | None,
        hidden: str | None,
        epochs: int,
        batches: int | None,
        batch_size: int | None,
        rate: float,
        momentum: float,
        quantile: float,
        clip: float,
        processes: int,
        simulate: int | None,
        pool: int,
    ) -> Choices:
        """The options, each refused where it makes no sense."""
        if model is not None and model not in MODELS:
            raise Refusal(f"--model {safe_text(model)}: use softmax or mlp")
        if model == "softmax" and hidden is not None:
            raise Refusal("--hidden is for --model mlp: softmax regression has no hidden layer")
        if batches is not None and batch_size is not None:
            raise Refusal("--batches and --batch-size: give one of the two")
        for option, value, low, high in (
            ("--epochs", epochs, 1, 10_000),
            ("--batches", batches, 1, 1 << 24),
            ("--batch-size", batch_size, 1, 1 << 24),
            ("--processes", processes, 1, MOST_PROCESSES),
            ("--simulate", simulate, 0, (1 << 63) - 1),
        ):
            if value is not None and not low <= value <= high:
                raise Refusal(f"{option} {value}: give a whole number from {low} to {high}")
        if pool not in (1, 2, 4, 7):
            raise Refusal(f"--pool {pool}: squares of 1, 2, 4 or 7 pixels a side fill an image of 28")
        if not 0 <= momentum < 1:
            raise Refusal(f"--momentum {momentum:g}: give a number from 0 to below 1")
        if not 0 < quantile < 1:
            raise Refusal(f"--quantile {quantile:g}: give a share above 0 and below 1")
        if not 1e-6 <= positive("--clip", clip) <= 1e6:
            raise Refusal(f"--clip {clip:g}: give a number from 1e-6 to 1e6")
        if positive("--learning-rate", rate) > 1e3:
            raise Refusal(f"--learning-rate {rate:g}: give a number up to 1000")
        widths = _hidden(hidden)
        kind = "mlp" if model is None and hidden is not None else model
        parts = (0, batch_size) if batch_size is not None else (batches or BATCHES, 0)
        return cls(kind, widths, epochs, *parts, rate, momentum, quantile, clip, processes, simulate, pool)

    def job(self, people: ClientPopulation, terms: FederatedTerms) -> Job:
        """The training of these people by these terms."""
        return Job(self, people, terms)


def _hidden(given: str | None) -> tuple[int, ...]:
    if given is None:
        return HIDDEN
    parts = given.split(",")
    if not all(part.strip().isdecimal() and 1 <= int(part) <= 1 << 16 for part in parts):
        raise Refusal(f"--hidden {safe_text(given)}: give whole numbers by commas, such as 64 or 600,100")
    return tuple(int(part) for part in parts)


@dataclass(frozen=True, eq=False)
class Job:
    """One training: who, by which terms, and how."""

    choices: Choices
    people: ClientPopulation
    terms: FederatedTerms

    @property
    def network(self) -> Network:
        """Inputs, hidden layers, classes."""
        from dosimeter.federated.networks import Network

        kind = self.choices.model or ("mlp" if self.terms.cohort.clients >= MANY else "softmax")
        hidden = self.choices.hidden if kind == "mlp" else ()
        return Network((self.people.X.shape[1], *hidden, len(self.people.classes)))

    @property
    def local(self) -> LocalSGD:
        """What a client does."""
        from dosimeter.federated.local_training import LocalSGD

        return LocalSGD(self.choices.epochs, self.choices.rate, self.choices.batch, self.choices.batches)

    @property
    def curator(self) -> Curator:
        """What the curator does."""
        from dosimeter.federated.adaptive_clipping import QuantileClip
        from dosimeter.federated.curator import Curator
        from dosimeter.federated.schedule import Constant

        rule = QuantileClip(self.choices.clip, self.choices.quantile)
        schedule = Constant(self.terms.per_round, self.terms.noise)
        return Curator(self.terms.cohort, schedule, self.terms.budget, rule, self.choices.momentum)

    @property
    def task(self) -> Task:
        """Rows, clients, network."""
        from dosimeter.federated.task import Task

        p = self.people
        K = self.terms.cohort.clients
        return Task(self.network, self.local, p.X, p.y, p.clients, p.X_test, p.y_test, declared=K)

    def recipe(self) -> dict[str, Any]:
        """Everything that fixes the training but the rows; plain values."""
        told = asdict(self.choices)
        told.pop("processes")  # how many hands there are changes nothing
        return {
            **told,
            "widths": list(self.network.widths),
            "clients": self.terms.cohort.clients,
            "sampling": self.terms.cohort.in_words,
            "per_round": self.terms.per_round,
            "noise": self.terms.noise,
            "rounds": self.terms.rounds,
            "budget_epsilon": self.terms.budget.epsilon,
            "budget_delta": self.terms.budget.delta,
        }

    def digest(self) -> str:
        """The name under which a kept state is taken back: recipe and rows."""
        import numpy as np

        from dosimeter.files.federated_checkpoint import digest_of

        sizes = np.array([len(rows) for rows in self.people.clients])
        return digest_of(self.recipe(), [self.people.X, self.people.y, np.concatenate(self.people.clients), sizes])

    def run(
        self,
        state: State | None,
        keep: Callable[[Any, Any], None] | None,
        progress: Any,
        *,
        earlier: Sequence[Any] = (),
        spread: bool = False,
    ) -> History:
        """Rounds from this state to the last; clients and noise from the system's bits unless it is a simulation.

        earlier: the rounds before this state. What was read off the clients' rows makes the figure unaccounted.
        """
        from dosimeter.core.notion import Standing
        from dosimeter.federated.simulate import simulate

        done = simulate(
            self.task, self.curator, seed=self.choices.seed, rounds=self.terms.rounds, state=state,
            processes=self.choices.processes, spread=spread, for_release=self.choices.simulate is None,
            keep=keep, progress=progress,
        ).after(earlier)  # fmt: skip
        if state is not None and state.round:
            done = replace(done, stopped=f"{done.stopped}; {state.round} were in the checkpoint")
        if not self.people.unpaid:
            return done
        unpaid = replace(done.figure, standing=Standing.UNACCOUNTED, uncovered=self.people.unpaid)
        return replace(done, figure=unpaid)
