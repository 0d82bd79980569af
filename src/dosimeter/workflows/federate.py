"""`dm.federate`: one model trained by many clients, private for each client [Geyer19]."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dosimeter.core.errors import Interrupted, NoiseWarning, Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.federated.history import History
from dosimeter.models.federated_rows import DATASETS, DEMO_CLIENTS, ClientPopulation, image_clients, table_clients
from dosimeter.models.federated_terms import DELTA, DEMO_DELTA, DEMO_EPSILON, FederatedTerms
from dosimeter.models.federated_training import Choices, Job
from dosimeter.results.federated import FederatedRelease
from dosimeter.workflows.federated_release import release
from dosimeter.workflows.federation_plan import checked_terms
from dosimeter.workflows.people_table import Names, as_names
from dosimeter.workflows.released import Released

Progress = Callable[[Job], AbstractContextManager[Callable[[Any], None] | None]]
"""The training -> a context that gives what is called after each round, or None."""


def federate(
    table: Any = None,
    target: str | None = None,
    *,
    client: str | None = None,
    unit: str = "client",
    person: str | None = None,
    site: str | None = None,
    dataset: str | None = None,
    test: Any = None,
    bounds: str | Path | None = None,
    classes: str | Sequence[str] | None = None,
    clients: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    clients_per_round: float | None = None,
    rounds: int | None = None,
    noise_multiplier: float | None = None,
    schedule: str | Sequence[Any] | None = None,
    sampling: str = "poisson",
    architecture: str | None = None,
    hidden: str | Sequence[int] | None = None,
    image_pooling: int = 2,
    epochs: int = 4,
    batches: int | None = None,
    batch_size: int | None = None,
    learning_rate: float = 0.3,
    momentum: float = 0.5,
    clip_quantile: float = 0.7,
    clip: float = 1.0,
    processes: int = 1,
    scheduler: str | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    simulation_seed: int | None = None,
    data: str | Path | None = None,
    categorical: Names = (),
    exclude: Names = (),
    missing: str | None = None,
    delimiter: str = ",",
    decimal: str = ".",
) -> Released[FederatedRelease]:
    """Train one model on many clients' rows such that it does not show whether any one client took part.

    Parameters
    ----------
    table
        The clients' rows: a dataframe, or a path to .csv or .parquet. Without it, made-up clients on public digits.
    target, client
        The column of classes, and the column that says whose row it is (a hospital). A target with bounds of its own in
        `bounds` is a number, and the model a regression.
    unit, person, site
        Whom to protect: "client", or "patient". Then `person` is the column of patients, who take the place of the
        clients: `clients` is the declared number of patients, and each makes one gradient step in a round. `site` is
        the column of the hospital that sums its patients' updates. Needs `bounds`.
    dataset
        Made-up clients on public images, instead of a table: "digits" or "mnist" (the latter from the folder `data`).
    test
        Public rows to measure accuracy on. Without them no accuracy is measured.
    bounds, classes, clients
        Public facts: bounds of the columns (a TOML file), the list of classes, and the number of clients. What is read
        off the rows instead makes (ε, δ) unaccounted.
    epsilon, delta
        The budget for the whole training: adding or removing one client with all its rows. δ is 1e-5 by default.
    clients_per_round, rounds, noise_multiplier, schedule, sampling
        As in `plan_federation`.
    architecture, hidden, image_pooling
        "softmax" or "mlp", and the widths of an mlp's hidden layers. An mlp from 1,000 clients on by default. MNIST
        images are averaged over squares of `image_pooling` pixels a side.
    epochs, batches, batch_size, learning_rate, processes
        How a client trains in a round, and in how many processes clients are trained.
    scheduler
        Address of a Dask scheduler, `tls://HOST:PORT`, whose workers train the clients instead. They get the rows of
        all clients.
    momentum, clip_quantile, clip
        How the curator aggregates: server momentum, the share of updates that the adaptive clip leaves whole, and its
        first value.
    checkpoint, resume
        A .npz file that keeps the state after each round, and whether to go on from it. Internal.
    simulation_seed
        Draw clients and noise from this seed: a simulation, not for release.
    categorical, exclude, missing, delimiter, decimal
        How the table is read.

    Returns
    -------
    Released[FederatedRelease]
        `.artefact` is the model's file: .skops bytes if bounds were declared, else .safetensors. `.extra_files` holds
        the network beside a pipeline. `.result` holds (ε, δ), its standing and what is not covered.

    Warns
    -----
    NoiseWarning
        Before the training, if the noise of a round is longer than the longest mean update.

    Raises
    ------
    Refusal
        The budget allows no such training, a column is missing, or options contradict each other.

    Examples
    --------
    >>> release = federate(epsilon=8, delta=1e-4, rounds=2, clients=200, epochs=1, simulation_seed=1)
    >>> release.result.guarantee.unit, release.result.rounds
    ('client', 2)
    """
    demo = table is None and dataset is None
    training = prepare(
        demo=demo,
        table=table,
        target=target,
        client=client,
        unit=unit,
        person=person,
        site=site,
        dataset=dataset,
        test=test,
        bounds=bounds,
        classes=classes,
        clients=clients,
        epsilon=epsilon,
        delta=delta,
        clients_per_round=clients_per_round,
        rounds=rounds,
        noise_multiplier=noise_multiplier,
        schedule=schedule,
        sampling=sampling,
        choices=Choices.from_options(
            architecture=architecture,
            hidden=hidden,
            epochs=epochs,
            batches=batches,
            batch_size=batch_size,
            learning_rate=learning_rate,
            momentum=momentum,
            clip_quantile=clip_quantile,
            clip=clip,
            processes=processes,
            simulation_seed=simulation_seed,
            image_pooling=image_pooling,
            scheduler=scheduler,
        ),
        data=data,
        categorical=as_names(categorical),
        exclude=as_names(exclude),
        missing=missing,
        delimiter=delimiter,
        decimal=decimal,
    )
    if training.terms.over:
        raise Refusal(f"{training.terms.over}; nothing was trained")
    if drowned := training.job.drowned:
        warnings.warn(drowned, NoiseWarning, stacklevel=2)
    kept = None if checkpoint is None else Path(checkpoint)
    history = train(training.job, kept, resume)
    return release(training.job, history, demo=demo, pipeline=bounds is not None)


@dataclass(frozen=True, eq=False)
class Training:
    """A training before its first round."""

    terms: FederatedTerms
    job: Job


def prepare(
    *,
    demo: bool,
    table: Any,
    target: str | None,
    client: str | None,
    unit: str,
    person: str | None,
    site: str | None,
    dataset: str | None,
    test: Any,
    bounds: str | Path | None,
    classes: str | Sequence[str] | None,
    clients: int | None,
    epsilon: float | None,
    delta: float | None,
    clients_per_round: float | None,
    rounds: int | None,
    noise_multiplier: float | None,
    schedule: str | Sequence[Any] | None,
    sampling: str,
    choices: Choices,
    data: str | Path | None,
    categorical: Sequence[str],
    exclude: Sequence[str],
    missing: str | None,
    delimiter: str,
    decimal: str,
    pipeline: bool = False,
) -> Training:
    """The rows read, the terms computed, everything checked. If `terms.over` is set there is nothing to train.

    pipeline: the model leaves as a scikit-learn pipeline, which needs declared bounds.
    """
    population: ClientPopulation | None = None
    patients = _is_patient(unit, client, person, site, bounds, sampling, table)
    column = person if patients else client
    if patients:
        choices = choices.for_patients()
    if dataset is not None and dataset not in DATASETS:
        raise Refusal(f"{option('dataset', safe_text(dataset))}: use digits or mnist")
    count = DEMO_CLIENTS if demo and clients is None else clients
    if table is not None:
        if dataset is not None:
            raise Refusal(f"{option('dataset')} and {option('table')}: whose rows are they? Leave one of the two out")
        for name, value, meaning in (
            ("target", target, "the column to learn"),
            ("person" if patients else "client", column, "the column that says whose row it is"),
        ):
            if value is None:
                raise Refusal(f"{option(name)} is missing: name {meaning}")
        population = table_clients(
            table,
            str(target),
            str(column),
            site=site,
            test=test,
            bounds=None if bounds is None else Path(bounds),
            classes=classes,
            exclude=exclude,
            missing=_missing_policy(missing, bounds is not None),
            delimiter=delimiter,
            decimal=decimal,
            categorical=categorical,
            clients=clients,
        )
        if pipeline and population.layout is not None:
            from dosimeter.tables.sklearn_export import refuse_part_scales

            refuse_part_scales(population.layout.columns)
        count = len(population.clients) if clients is None else clients
    if epsilon is None and not demo:
        raise Refusal(f"state a budget: {option('epsilon', 8)}, say (and {option('delta')}, 1e-05 without it)")
    if count is None:
        raise Refusal(f"{option('clients')} is missing: say how many clients there are")
    budget_delta = (DEMO_DELTA if demo and epsilon is None else DELTA) if delta is None else delta
    agreed = checked_terms(
        count,
        DEMO_EPSILON if epsilon is None else epsilon,
        budget_delta,
        clients_per_round,
        rounds,
        noise_multiplier,
        sampling,
        schedule,
    )
    if population is None and not agreed.over:
        folder = None if data is None else Path(data)
        population = image_clients(dataset or "digits", count, choices.seed, folder, choices.pool)
    return Training(agreed, Job(choices, population, agreed) if population is not None else _nothing(choices, agreed))


def _is_patient(unit: str, client: Any, person: Any, site: Any, bounds: Any, sampling: str, table: Any) -> bool:
    """True if patients are protected. Options that do not fit the unit are refused."""
    if unit not in ("client", "patient"):
        raise Refusal(f"{option('unit', safe_text(unit))}: use client or patient")
    if unit == "client":
        if person is not None or site is not None:
            raise Refusal(f"{option('person')} and {option('site')} are for {option('unit', 'patient')}")
        return False
    if table is None:
        raise Refusal(f"{option('unit', 'patient')} is for a table: name it with {option('table')}")
    if client is not None:
        raise Refusal(f"{option('client')} is for {option('unit', 'client')}: name {option('person')} instead")
    if person is not None and person == site:
        raise Refusal(f"{safe_text(person)} is both the person and the site: name two columns")
    if bounds is None:
        raise Refusal(
            f"{option('unit', 'patient')} needs {option('bounds')}: scales read off the rows would depend on everybody"
        )
    if sampling != "poisson":
        raise Refusal(f"{option('unit', 'patient')} needs {option('sampling', 'poisson')}: sites draw independently")
    return True


def _nothing(choices: Choices, agreed: FederatedTerms) -> Job:
    """A job without rows, for terms that the budget does not allow."""
    import numpy as np

    empty = ClientPopulation("", np.zeros((0, 1)), np.zeros(0), (), np.zeros((0, 1)), np.zeros(0), (), "", {}, ())
    return Job(choices, empty, agreed)


def _missing_policy(requested: str | None, declared: bool) -> str:
    """With declared columns one client's gap does not end the run unless that is asked for."""
    policy = requested or ("drop" if declared else "refuse")
    if policy not in ("refuse", "drop"):
        raise Refusal(f"{option('missing', safe_text(policy))}: use refuse or drop")
    return policy


def train(
    job: Job,
    checkpoint: Path | None = None,
    resume: bool = False,
    *,
    inputs: Sequence[Path] = (),
    progress: Progress | None = None,
    statistics: bool = False,
) -> History:
    """Train to the last round; keep the state after every round if there is a file for it, and go on from it.

    statistics: compute V_c and U_s of each round. Internal.
    """
    from dosimeter.files.federated_checkpoint import CheckpointWriter, checkpoint_lock, read_checkpoint

    with nullcontext() if checkpoint is None else checkpoint_lock(checkpoint):
        state, writer = None, None
        if checkpoint is not None:
            name = job.digest()
            writer = CheckpointWriter(checkpoint, name, inputs=inputs)
            check_checkpoint(checkpoint, resume)
            if checkpoint.exists():
                state, writer.earlier = read_checkpoint(checkpoint, name)
                writer.serial = state.serial
        with nullcontext() if progress is None else progress(job) as step, _resumable(checkpoint):
            if writer is None:
                return job.run(state, None, step, spread=statistics)
            return job.run(state, writer.keep, step, earlier=writer.earlier, spread=statistics)


def check_sampling(sampling: str) -> None:
    """Refused before the training: dp-accounting composes no samples of fixed size with anything else."""
    if sampling == "fixed":
        raise Refusal(
            "samples of fixed size compose only with rounds of the same training, and a ledger composes across "
            f"releases: use {option('sampling', 'poisson')}, or {option('no_ledger')}"
        )


def check_checkpoint(checkpoint: Path | None, resume: bool) -> None:
    """Refuse a checkpoint that cannot be resumed, before tables are read and ε is computed."""
    from dosimeter.files.federated_checkpoint import check_checkpoint as check_file

    if resume and checkpoint is None:
        raise Refusal(f"{option('resume')} from what? Name the file with {option('checkpoint')}")
    if checkpoint is None or not checkpoint.exists():
        return
    if not resume:
        shown = option("checkpoint", safe_text(checkpoint, 120))
        raise Refusal(f"{shown}: it exists; go on from it with {option('resume')}, or name another")
    check_file(checkpoint)


@contextmanager
def _resumable(checkpoint: Path | None) -> Iterator[None]:
    """Ctrl-C after a round that was kept loses nothing, and the message says so."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is None or not checkpoint.exists():
            raise
        raise Interrupted(f"go on with {option('resume')}") from None
