"""The settings of clients and curator, and the training itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from dosimeter.core.checks import positive
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.models.federated_rows import ClientPopulation
from dosimeter.models.federated_terms import FederatedTerms
from dosimeter.models.round_schedule import as_text

if TYPE_CHECKING:
    from dosimeter.federated.curator import Curator
    from dosimeter.federated.history import History
    from dosimeter.federated.local_training import LocalSGD
    from dosimeter.federated.networks import Network
    from dosimeter.federated.patient_rounds import PatientTask
    from dosimeter.federated.state import State
    from dosimeter.federated.task import Task
    from dosimeter.federated.worker_pool import TrainerFactory

ARCHITECTURES = ("softmax", "mlp")
MANY = 1000
"""From this many clients on a hidden layer is worth its parameters; chosen on MNIST (docs/explanation/federated.md)."""
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
    unit: str = "client"
    """ "client", or "patient"."""
    scheduler: str | None = None
    """Of a Dask cluster whose workers train the clients."""

    @property
    def seed(self) -> int:
        """For the shards of made-up clients and the first weights, which are public; for all draws of a simulation."""
        return 0 if self.simulate is None else self.simulate

    @classmethod
    def from_options(
        cls,
        *,
        architecture: str | None,
        hidden: str | Sequence[int] | None,
        epochs: int,
        batches: int | None,
        batch_size: int | None,
        learning_rate: float,
        momentum: float,
        clip_quantile: float,
        clip: float,
        processes: int,
        simulation_seed: int | None,
        image_pooling: int,
        scheduler: str | None = None,
    ) -> Choices:
        """The options, each refused if it makes no sense."""
        if architecture is not None and architecture not in ARCHITECTURES:
            raise Refusal(f"{option('architecture', safe_text(architecture))}: use softmax or mlp")
        if architecture == "softmax" and hidden is not None:
            mlp = option("architecture", "mlp")
            raise Refusal(f"{option('hidden')} is for {mlp}: softmax regression has no hidden layer")
        if batches is not None and batch_size is not None:
            raise Refusal(f"{option('batches')} and {option('batch_size')}: give one of the two")
        for name, value, low, high in (
            ("epochs", epochs, 1, 10_000),
            ("batches", batches, 1, 1 << 24),
            ("batch_size", batch_size, 1, 1 << 24),
            ("processes", processes, 1, MOST_PROCESSES),
            ("simulation_seed", simulation_seed, 0, (1 << 63) - 1),
        ):
            if value is not None and not low <= value <= high:
                raise Refusal(f"{option(name, value)}: give a whole number from {low} to {high}")
        if scheduler is not None and processes != 1:
            raise Refusal(
                f"{option('scheduler')} and {option('processes')}: clients are trained in one place; leave one out"
            )
        if image_pooling not in (1, 2, 4, 7):
            pooling = option("image_pooling", image_pooling)
            raise Refusal(f"{pooling}: squares of 1, 2, 4 or 7 pixels a side fill an image of 28")
        if not 0 <= momentum < 1:
            raise Refusal(f"{option('momentum', float(momentum))}: give a number from 0 to below 1")
        if not 0 < clip_quantile < 1:
            raise Refusal(f"{option('clip_quantile', float(clip_quantile))}: give a share above 0 and below 1")
        if not 1e-6 <= positive("clip", clip) <= 1e6:
            raise Refusal(f"{option('clip', float(clip))}: give a number from 1e-6 to 1e6")
        if positive("learning_rate", learning_rate) > 1e3:
            raise Refusal(f"{option('learning_rate', float(learning_rate))}: give a number up to 1000")
        kind = "mlp" if architecture is None and hidden is not None else architecture
        parts = (0, batch_size) if batch_size is not None else (batches or BATCHES, 0)
        return cls(
            kind,
            _hidden(hidden),
            epochs,
            *parts,
            learning_rate,
            momentum,
            clip_quantile,
            clip,
            processes,
            simulation_seed,
            image_pooling,
            scheduler=scheduler,
        )

    def for_patients(self) -> Choices:
        """The same for patients: each makes one gradient step in a round."""
        defaults = (4, BATCHES, 0, 1)
        if (self.epochs, self.batches, self.batch, self.processes) != defaults or self.scheduler is not None:
            names = ", ".join(option(name) for name in ("epochs", "batches", "batch_size", "processes", "scheduler"))
            raise Refusal(f"{names} are for clients: a patient makes one gradient step in a round, in this process")
        return replace(self, epochs=1, batches=1, unit="patient")

    def job(self, people: ClientPopulation, terms: FederatedTerms) -> Job:
        """The training of these people by these terms."""
        return Job(self, people, terms)


def _hidden(widths: str | Sequence[int] | None) -> tuple[int, ...]:
    if widths is None:
        return HIDDEN
    parts = widths.split(",") if isinstance(widths, str) else [str(width) for width in widths]
    if not parts or not all(part.strip().isdecimal() and 1 <= int(part) <= 1 << 16 for part in parts):
        shown = option("hidden", safe_text(widths))
        raise Refusal(f"{shown}: give whole numbers by commas, such as 64 or 600,100")
    return tuple(int(part) for part in parts)


@dataclass(frozen=True, eq=False)
class Job:
    """One training: settings, clients and terms."""

    choices: Choices
    people: ClientPopulation
    terms: FederatedTerms

    @property
    def network(self) -> Network:
        """Inputs, hidden layers, classes or one number."""
        from dosimeter.federated.networks import Network

        kind = self.choices.model or (
            "mlp" if self.terms.cohort.clients >= MANY and not self.protects_patients else "softmax"
        )
        hidden = self.choices.hidden if kind == "mlp" else ()
        if self.is_regression:
            return Network((self.people.X.shape[1], *hidden, 1), end="identity")
        return Network((self.people.X.shape[1], *hidden, len(self.people.classes)))

    @property
    def is_regression(self) -> bool:
        """True if the target is a number with declared bounds."""
        return self.people.layout is not None and self.people.layout.target_range is not None

    def released_model(self, model: Any) -> Any:
        """(d,) what leaves: a regression's last layer is brought from [-1, 1] to the unit of its target."""
        import numpy as np

        flat = np.array(model, dtype=np.float64)
        if self.is_regression and self.people.layout is not None:
            centre, half = self.people.layout.target_scale
            W, b = self.network.layers(flat[None])[-1]
            W *= half
            b *= half
            b += centre
        return flat

    @property
    def local(self) -> LocalSGD:
        """How a client trains."""
        from dosimeter.federated.local_training import LocalSGD

        return LocalSGD(self.choices.epochs, self.choices.rate, self.choices.batch, self.choices.batches)

    @property
    def curator(self) -> Curator:
        """How the curator aggregates."""
        from dosimeter.federated.adaptive_clipping import QuantileClip
        from dosimeter.federated.curator import Curator

        rule = QuantileClip(self.choices.clip, self.choices.quantile)
        unit = "person" if self.protects_patients else "client"
        return Curator(
            self.terms.cohort, self.terms.schedule, self.terms.budget, rule, self.choices.momentum, unit=unit
        )

    @property
    def drowned(self) -> str:
        """A warning if the noise of a round is longer than the longest mean update, else ""."""
        return self.terms.drowned(self.network.size)

    @property
    def protects_patients(self) -> bool:
        """True if a patient is the unit."""
        return self.choices.unit == "patient"

    @property
    def patient_task(self) -> PatientTask:
        """Rows of each site, patient by patient."""
        from dosimeter.federated.patient_rounds import PatientTask
        from dosimeter.federated.patient_updates import PatientRows

        rows = self.people
        sites = rows.sites or (range(len(rows.clients)),)
        tables = tuple(PatientRows.of(rows.X, rows.y, [rows.clients[k] for k in own]) for own in sites)
        network, K = self.network, self.terms.cohort.clients
        return PatientTask(network, self.choices.rate, tables, rows.X_test, rows.y_test, K)

    @property
    def task(self) -> Task:
        """Rows, clients, network."""
        from dosimeter.federated.task import Task

        rows, clients = self.people, self.terms.cohort.clients
        parts = rows.X, rows.y, rows.clients, rows.X_test, rows.y_test
        return Task(self.network, self.local, *parts, declared_clients=clients)

    def recipe(self) -> dict[str, Any]:
        """Everything that fixes the training but the rows; plain values."""
        settings = asdict(self.choices)
        for place in ("processes", "scheduler"):  # where clients are trained does not change the result
            settings.pop(place)
        return {
            **settings,
            "widths": list(self.network.widths),
            "clients": self.terms.cohort.clients,
            "sampling": self.terms.cohort.description,
            "per_round": self.terms.per_round,
            "noise": self.terms.noise,
            "rounds": self.terms.rounds,
            "schedule": as_text(self.terms.listed),
            "budget_epsilon": self.terms.budget.epsilon,
            "budget_delta": self.terms.budget.delta,
        }

    def digest(self) -> str:
        """Digest of recipe, rows and roster: a checkpoint is resumed only under the same digest."""
        import numpy as np

        from dosimeter.files.federated_checkpoint import training_digest

        sizes = np.array([len(rows) for rows in self.people.clients])
        return training_digest(
            self.recipe(),
            [
                self.people.X,
                self.people.y,
                np.concatenate(self.people.clients),
                sizes,
                *map(np.asarray, self.people.sites),
                # Which client or patient has which number: the same rows under other names are another training.
                np.frombuffer("\0".join(self.people.names).encode("utf-8", "surrogatepass"), dtype=np.uint8),
            ],
        )

    def _trainer(self) -> TrainerFactory | None:
        """The workers of a cluster, if one was named."""
        if self.choices.scheduler is None:
            return None
        from dosimeter.engines.dask_trainer import dask_trainer

        return dask_trainer(self.choices.scheduler)

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

        release = self.choices.simulate is None
        seed, rounds = self.choices.seed, self.terms.rounds
        if self.protects_patients:
            from dosimeter.federated.patient_rounds import train_patients

            history = train_patients(
                self.patient_task, self.curator, seed=seed, rounds=rounds, state=state, for_release=release,
                save_state=keep, progress=progress,
            ).after(earlier)  # fmt: skip
        else:
            history = simulate(
                self.task, self.curator, seed=seed, rounds=rounds, state=state, processes=self.choices.processes,
                trainer=self._trainer(), update_statistics=spread, for_release=release, save_state=keep,
                progress=progress,
            ).after(earlier)  # fmt: skip
        if state is not None and state.round:
            reason = f"{history.stop_reason}; {state.round} were in the checkpoint"
            history = replace(history, stop_reason=reason)
        if not self.people.read_off_rows:
            return history
        figure = replace(history.figure, standing=Standing.UNACCOUNTED, not_covered=self.people.read_off_rows)
        return replace(history, figure=figure)
