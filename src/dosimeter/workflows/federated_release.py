"""A trained federated model as bytes, with its result, its recipe and the event of every client."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from dosimeter.core.accounts import SharedEventDose
from dosimeter.core.dose import EventDose
from dosimeter.core.release import Recipe
from dosimeter.federated.accountant import event_of
from dosimeter.federated.history import History
from dosimeter.models.federated_training import Job
from dosimeter.results.federated import FederatedRelease, not_covered
from dosimeter.workflows.booking import outside_a_ledger
from dosimeter.workflows.released import Released


def release(
    job: Job, history: History, *, demo: bool = False, pipeline: bool = False, booked_as: str = ""
) -> Released[FederatedRelease]:
    """The trained model as bytes, with its result and the event of every client.

    pipeline: as a scikit-learn pipeline, with the network beside it. booked_as: the name in the ledger, which the
    network's metadata carries; number and head of the entry follow from the bytes and cannot be in them.
    """
    from dosimeter.files.safetensors import as_safetensors

    result = FederatedRelease.of(job, history, demo=demo)
    metadata = result.metadata({"name": booked_as} if booked_as else False)
    model: Any = None
    data = b""
    if pipeline:
        model, data = _pipeline(job, history)
        metadata["pipeline_sha256"] = sha256(data).hexdigest()
    network = as_safetensors(job.network, job.released_model(history.state.model), metadata)
    return Released(
        "federate",
        result,
        data or network,
        _recipe(job, history),
        _client_events(job, history),
        # No two trainings end in the same numbers: the model identifies all its noise.
        history.state.model.tobytes(),
        model=model,
        extra_files={".safetensors": network} if pipeline else {},
    )


def _pipeline(job: Job, history: History) -> tuple[Any, bytes]:
    """The model as a scikit-learn pipeline, and its skops bytes."""
    import skops.io as sio

    from dosimeter.tables.sklearn_estimators import network_classifier, network_regressor
    from dosimeter.tables.sklearn_export import input_order, pipeline

    columns = None if job.people.layout is None else job.people.layout.columns
    inputs = None if columns is None else input_order(columns)
    weights = job.released_model(history.state.model)
    estimator = (
        network_regressor(job.network, weights, inputs)
        if job.is_regression
        else network_classifier(job.network, weights, job.people.classes, inputs)
    )
    model = pipeline(columns, estimator)
    data: bytes = sio.dumps(model)
    return model, data


def _recipe(job: Job, history: History) -> Recipe:
    settings: Mapping[str, object] = {**job.recipe(), "rounds trained": history.state.round}
    plain = {k: v if isinstance(v, str | int | float | bool | None) else str(v) for k, v in settings.items()}
    return Recipe(
        "federated model",
        f"Gaussian on the sum of clipped updates, z = {job.terms.noise:g}",
        plain,
        outside_a_ledger((*job.people.read_off_rows, *not_covered(job.curator.unit), *job.people.assumptions)),
        simulation=history.state.simulation,
    )


def _client_events(job: Job, history: History) -> tuple[SharedEventDose, ...]:
    """One event for every client, asked or not; none for made-up clients."""
    if not job.people.names:
        return ()
    cohort = job.terms.cohort
    event = EventDose(
        event_of(history.state.spent, cohort), job.curator.unit, cohort.adjacency, history.figure.standing
    )
    return (SharedEventDose(job.people.names, event),)


def history_columns(history: History, tested: bool) -> dict[str, list[Any]]:
    """Each round's columns; without rows to measure on there is no accuracy and no loss. Internal."""
    left_out = () if tested else ("accuracy", "loss")
    return {name: list(values) for name, values in history.columns.items() if name not in left_out}
