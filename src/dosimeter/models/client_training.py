"""A training by many clients over a network: what is agreed in advance, and the coordinator's run of it.

The section of the schema file:

[clients]
epsilon = 8.0                    # the budget of the whole training, for each client with all its rows
delta = 1e-5
rounds = 30
noise-multiplier = 1.4           # z; `dosimeter federate plan` gives it
clients-per-round = 100          # m; all clients by default
learning-rate = 0.3              # and the other settings of `dosimeter federate`

Everything is public and the same at all clients. The coordinator has no rows, and a client sees no other client's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.checks import number, whole
from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.engines.client_rounds import MOST_CLIENTS, ClientRounds
from dosimeter.engines.protocol.exchange import Exchange
from dosimeter.federated.accountant import LEAST_DELTA
from dosimeter.federated.budget import PrivacyBudget
from dosimeter.federated.client_sampling import PoissonSampling
from dosimeter.federated.history import History, Round
from dosimeter.federated.task import start_model
from dosimeter.files.federated_checkpoint import CheckpointWriter, checkpoint_lock, read_checkpoint, training_digest
from dosimeter.models.federated_rows import ClientPopulation
from dosimeter.models.federated_terms import FederatedTerms
from dosimeter.models.federated_training import Choices, Job
from dosimeter.models.round_schedule import LEAST_NOISE, MOST_NOISE, MOST_ROUNDS
from dosimeter.tables.bounds_file import nearest
from dosimeter.tables.client_rows import declared_encoding
from dosimeter.tables.declared_bounds import Declaration

AGREED = "columns, bounds, levels, classes and the list of clients were agreed before the training"
NETWORK = "who is asked in a round, and whether a client answers, shows on the network in sizes and times of messages"


@dataclass(frozen=True)
class ClientTerms:
    """What the section [clients] says; names and defaults are those of `dosimeter federate`."""

    epsilon: float
    rounds: int
    noise_multiplier: float
    delta: float = 1e-5
    clients_per_round: float | None = None
    architecture: str | None = None
    hidden: tuple[int, ...] | None = None
    epochs: int = 4
    batches: int | None = None
    batch_size: int | None = None
    learning_rate: float = 0.3
    momentum: float = 0.5
    clip_quantile: float = 0.7
    clip: float = 1.0

    def __post_init__(self) -> None:
        number("epsilon", self.epsilon, 0, 100)
        number("delta", self.delta, LEAST_DELTA, np.nextafter(1, 0), strictly=False)
        whole("rounds", self.rounds, 1, MOST_ROUNDS)
        number("noise-multiplier", self.noise_multiplier, LEAST_NOISE, MOST_NOISE, strictly=False)
        for name in ("learning_rate", "momentum", "clip_quantile", "clip"):
            number(name.replace("_", "-"), getattr(self, name), 0, 1e6, strictly=False)
        for name in ("epochs", "batches", "batch_size"):
            if getattr(self, name) is not None:
                whole(name.replace("_", "-"), getattr(self, name), 1, 1 << 24)

    @property
    def choices(self) -> Choices:
        """The settings of clients and curator, each checked."""
        return Choices.from_options(
            architecture=self.architecture,
            hidden=self.hidden,
            epochs=self.epochs,
            batches=self.batches,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            clip_quantile=self.clip_quantile,
            clip=self.clip,
            processes=1,
            simulation_seed=None,
            image_pooling=1,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the digest of a schema."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def client_terms_of(section: Mapping[str, Any], source: Location) -> ClientTerms:
    """The terms that a section declares; refused in one line if a key is unknown, missing or out of range.

    >>> section = {"epsilon": 8, "rounds": 10, "noise-multiplier": 1.4, "hidden": [32]}
    >>> client_terms_of(section, Location("schema.toml")).hidden
    (32,)
    """
    names = {field.name.replace("_", "-"): field.name for field in fields(ClientTerms)}
    for key in section:
        if key not in names:
            raise source.refusal(f"[clients] has no setting {safe_text(key)}", nearest(key, tuple(names)))
    for key in ("epsilon", "rounds", "noise-multiplier"):
        if key not in section:
            raise source.refusal(f"[clients] does not state {key}", "`dosimeter federate plan` gives rounds and noise")
    values = {names[key]: value for key, value in section.items()}
    if "hidden" in values:
        values["hidden"] = _widths(values["hidden"], source)
    if not isinstance(values.get("architecture"), str | None):
        raise source.refusal("architecture in [clients] is not a text", "use softmax or mlp")
    try:
        terms = ClientTerms(**values)
        terms.choices  # noqa: B018
    except Refusal as fault:
        raise source.refusal(f"[clients]: {fault}", "correct it") from None
    return terms


def client_job(
    terms: ClientTerms, columns: Mapping[str, Declaration], target: str, names: Sequence[str], study: str = "schema"
) -> Job:
    """The training that these clients agreed on. It holds no rows.

    columns: every column with its bounds or levels, the target among them. names: the roster, in its order.
    """
    if not 2 <= len(names) <= MOST_CLIENTS:
        raise Refusal(f"{len(names)} clients: a training has 2 to {MOST_CLIENTS}")
    encoding = declared_encoding(columns, target)
    width = len(encoding.columns.names)
    none = np.zeros(0, dtype=np.intp)
    population = ClientPopulation(
        study, np.zeros((0, width)), np.zeros(0), (none,), np.zeros((0, width)), np.zeros(0), encoding.classes, "",
        encoding.to_dict(), (AGREED, NETWORK), layout=encoding, names=tuple(names),
    )  # fmt: skip
    m = len(names) if terms.clients_per_round is None else number(
        "clients-per-round", terms.clients_per_round, 0, len(names)
    )  # fmt: skip
    cohort, budget = PoissonSampling(len(names)), PrivacyBudget(terms.epsilon, terms.delta)
    agreed = FederatedTerms(cohort, budget, m, terms.rounds, float(terms.noise_multiplier), "nothing")
    return Job(terms.choices, population, agreed)


def train_over_network(
    job: Job,
    exchange: Exchange,
    *,
    study: bytes,
    checkpoint: Path,
    deadline: float,
    progress: Callable[[Round], None] | None = None,
    score: Callable[[Any], Any] | None = None,
) -> History:
    """Train to the last round, or go on where the checkpoint stopped; the state is kept before each step.

    study: SHA-256 of what was agreed, carried by every message. checkpoint: a .npz file, internal. deadline: seconds of
    a round. Refused before any client is asked if all rounds together would exceed the budget.
    """
    refuse_over_budget(job)
    with checkpoint_lock(checkpoint):
        digest = network_digest(job, study)
        writer = CheckpointWriter(checkpoint, digest)
        state = job.curator.start(start_model(job.network, job.choices.seed))
        if checkpoint.exists():
            state, writer.earlier = read_checkpoint(checkpoint, digest)
            writer.serial = state.serial
        rounds = ClientRounds(job.curator, exchange, study, deadline, writer.keep, score)
        before = state.round
        history = rounds.run(state, job.terms.rounds, progress).after(writer.earlier)
        if before:
            history = replace(history, stop_reason=f"{history.stop_reason}; {before} were in the checkpoint")
        return history


def end_training(job: Job, exchange: Exchange, history: History, *, study: bytes, released: bool) -> None:
    """Tell the connected clients that the training has ended. Call it after the model was booked and written."""
    ClientRounds(job.curator, exchange, study, 60.0, lambda state, rounds: None).end(history.state, released)


def network_digest(job: Job, study: bytes) -> str:
    """Digest of recipe, roster and study: a checkpoint is resumed only under the same one."""
    return training_digest({"training": job.digest()}, [np.frombuffer(study, dtype=np.uint8)])


def refuse_over_budget(job: Job) -> None:
    """Refuse a plan whose rounds together exceed the budget, before any client is asked."""
    epsilon, budget = job.terms.figure.epsilon, job.terms.budget
    if epsilon > budget.epsilon:
        raise Refusal(
            f"{job.terms.rounds} rounds with z = {job.terms.noise:g} cost ε = {epsilon:.4g} at δ = {budget.delta:g}, "
            f"and the budget is {budget.epsilon:g}: `dosimeter federate plan` gives the noise that fits"
        )


def _widths(value: Any, source: Location) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(width) is int and width > 0 for width in value):
        raise source.refusal("hidden in [clients] is not a list of whole numbers", "write hidden = [64]")
    return tuple(value)
