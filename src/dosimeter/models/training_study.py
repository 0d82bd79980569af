"""A training that protects patients, at the coordinator: each site's sum in a round, noise once, accounted first.

The state is kept before a round is asked and before its model leaves. A round that was open when the coordinator was
killed is asked again; sites answer with the same draw, and of the first noise nothing was released.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from dosimeter.core.progress import advance, note, stage
from dosimeter.core.release import Recipe
from dosimeter.engines.consortium_operations import EVENT_LIMITS, MATCH, PATIENT_SUM
from dosimeter.engines.protocol.assembly import Values
from dosimeter.engines.protocol.fields import Malformed
from dosimeter.federated.budget import EpsilonFigure
from dosimeter.federated.curator import Curator
from dosimeter.federated.site_sums import RoundRequest, SiteSum, decode_sum, encode_sum
from dosimeter.federated.state import State
from dosimeter.files.federated_checkpoint import CheckpointWriter, read_state
from dosimeter.models.consortium_study import CoordinatorStudy, Refused, StudyDraw, sites_without
from dosimeter.models.consortium_training import PatientTraining
from dosimeter.tables.sklearn_estimators import network_classifier, network_regressor
from dosimeter.tables.sklearn_export import input_order, pipeline

STATE = "training.npz"
EVERY = 10.0
"""Seconds between two writings of what a page shows."""


def prepare_training(study: CoordinatorStudy) -> StudyDraw | Refused:
    """The sites' yes to all rounds, then round after round; the model of the last one leaves."""
    training, path = PatientTraining(study.schema), study.journal.folder / STATE
    digest = study.schema.digest.hex()
    curator = training.curator
    stage("waiting for the sites")
    study.assembly.ask(MATCH.name)
    if path.exists():
        state = read_state(path, digest)
        writer = CheckpointWriter(path, digest, state.serial)
        study.say(f"going on after {state.round} rounds")
    else:
        stage("asking the sites for their limits")
        question = {"proposal": study.proposal(), "people": study.schema.patients}
        refused = sites_without(study.assembly.ask(EVENT_LIMITS.name, question), "within")
        if refused:
            return Refused(refused)
        state, writer = curator.start(training.start()), CheckpointWriter(path, digest)
    state = run_rounds(study, training, curator, state, writer)
    return _draw(study, training, state, curator.figure(state))


def run_rounds(
    study: CoordinatorStudy, training: PatientTraining, curator: Curator, state: State, writer: CheckpointWriter
) -> State:
    """All rounds that are left."""
    rounds = training.terms.rounds
    stage("training")
    shown = -math.inf
    while state.is_open or state.round < rounds:
        if not state.is_open:
            state = curator.open_site_round(state)
            writer.keep(state)
        number = state.round
        state = curator.close_site_round(
            state, _sums(study, training, curator.request(state, training.terms.learning_rate))
        )
        writer.keep(state)
        advance(state.round / rounds)
        note(f"round {number + 1} of {rounds}")
        # ε of the rounds so far takes a second of accounting: shown from time to time.
        if time.monotonic() - shown > EVERY or state.round == rounds:
            shown = time.monotonic()
            study.journal.show(**status(study, training, curator, state))
    return state


def status(study: CoordinatorStudy, training: PatientTraining, curator: Curator, state: State) -> dict[str, Any]:
    """What a page of a running training shows: public numbers only."""
    budget = curator.budget
    return {
        "study": study.schema.study,
        "kind": study.schema.kind,
        "stage": "training",
        "round": state.round,
        "rounds": training.terms.rounds,
        "spent": curator.figure(state, quick=True).epsilon,
        "budget": budget.epsilon,
        "delta": budget.delta,
    }


def _sums(study: CoordinatorStudy, training: PatientTraining, request: RoundRequest) -> list[SiteSum | None]:
    """The sum of each site; None for a site that is absent or sent what cannot be one: its patients are absent."""
    declared = {site.number: site.patients or 0 for site in study.schema.sites}

    def check(site: int, values: Values) -> None:
        if _decoded(values, request, declared[site]) is None:
            raise Malformed("a sum that its declared patients cannot have")

    question = {"round": request.round, "model": request.model, "clip": request.clip}
    answers, faults = study.assembly.ask_present(PATIENT_SUM.name, question, check=check)
    for text in faults.values():
        study.say(f"round {request.round + 1}: {text}; its patients count as absent")
    return [
        _decoded(answers[site], request, declared[site]) if site in answers else None for site in study.assembly.sites
    ]


def _decoded(values: Values, request: RoundRequest, patients: int) -> SiteSum | None:
    """Checked as the bytes of the simulator's sites are."""
    return decode_sum(encode_sum(SiteSum(values["steps"], int(values["halves"]))), request, patients)


def _draw(study: CoordinatorStudy, training: PatientTraining, state: State, figure: EpsilonFigure) -> StudyDraw:
    import skops.io as sio

    encoding, network = training.encoding, training.network
    inputs = input_order(encoding.columns)
    weights = training.released_model(state.model)
    last = (
        network_classifier(network, weights, encoding.classes, inputs)
        if encoding.classes
        else network_regressor(network, weights, inputs)
    )
    m, z = training.parameters
    settings: dict[str, Any] = {
        "rounds": state.round, "patients": study.schema.patients, "per_round": m, "noise": z,
        "sampling": training.cohort.description, "epsilon": figure.epsilon, "delta": figure.delta, "unit": "person",
        "adjacency": training.cohort.adjacency, "widths": "-".join(map(str, network.widths)),
        "sites": len(study.schema.sites), "study": study.schema.study,
    }  # fmt: skip
    recipe = Recipe("federated model", f"Gaussian on the sum of clipped updates, z = {z:g}", settings)
    figures: dict[str, Any] = {
        "epsilon_cost": figure.epsilon if math.isfinite(figure.epsilon) else None,
        "people": study.schema.patients,
        "rounds": state.round,
        "parameters": network.size,
        "noise": z,
        "per_round": m,
        "absent": int(sum(record.refused for record in state.history)),
        "clip_last": float(np.float64(state.clip)),
        "not_covered": [],
    }
    return StudyDraw(sio.dumps(pipeline(encoding.columns, last)), recipe, figures)
