"""What each verb's release gives whom: a recipe, a dose for every person, and the draw. Internal."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.notion import Standing
from dosimeter.core.release import Recipe

if TYPE_CHECKING:
    from dosimeter.core.accounts import PersonDoses
    from dosimeter.federated.history import History
    from dosimeter.models.component_rows import Rows
    from dosimeter.models.federated_training import Job
    from dosimeter.models.label_inputs import VoteNoise, VoteSet
    from dosimeter.models.linear_release import TableRelease
    from dosimeter.pate.label import Labels
    from dosimeter.pca.release import PrivateComponents

BESIDE = "the (ε, δ) shown beside the nats: the same labels, so they are booked once, in nats"
ADAPTIVE = (
    "queries chosen after earlier labels were seen: nats read off the votes add for queries fixed beforehand; "
    "the published nats of each release add for all"
)
KEPT = "earlier and later "
"""How a verb begins to say that releases add up; a ledger adds them, so there it is no gap."""
FIXED = (
    "samples of fixed size compose only with rounds of the same training, and a ledger composes across releases: "
    "use --sampling poisson, or --no-ledger"
)


@dataclass(frozen=True, eq=False)
class BookingRequest:
    """What leaves, but for its bytes: how it was made, what it gives each person, and a mark of its noise."""

    verb: str
    recipe: Recipe
    doses: tuple[PersonDoses, ...]
    draw: bytes
    """The bytes of the noise where they are at hand, else random ones made with the draw."""


def of_repair(done: TableRelease, keep_blocks: bool = False) -> BookingRequest:
    """A noised linear model: η² of each person, with their Fisher matrix if asked."""
    dose = done.dose_with_blocks if keep_blocks else done.dose
    return BookingRequest("fix", done.release.recipe, (dose,), done.drawn.tobytes())


def of_components(rows: Rows, made: PrivateComponents, k: int) -> BookingRequest:
    """Components: one event for every person, all their rows together, and η² and μ² where they can be measured."""
    from dosimeter.core.accounts import SharedEventDose
    from dosimeter.results.component_facts import TAKEN

    recipe = made.release.recipe
    told = replace(recipe, settings={**recipe.settings, "components": k}, uncovered=(*recipe.uncovered, TAKEN))
    doses = (SharedEventDose(tuple(rows.counts), made.dose), *_measured(rows, made))
    return BookingRequest("pca", told, doses, _moment_noise(rows, made).tobytes())


def _measured(rows: Rows, made: PrivateComponents) -> tuple[PersonDoses, ...]:
    from dosimeter.core.notion import FISHER, MEMBERSHIP
    from dosimeter.pca.fisher import measure
    from dosimeter.results.component_facts import COMPARES, MEASURED_IN

    found: list[PersonDoses] = []
    try:
        leak = measure(made, rows.X, rows.ids)
        # μ has no unit of an unknown; what is compared takes its place, so that unlike comparisons are never added.
        units = (FISHER, MEASURED_IN[rows.declared.own_units]), (MEMBERSHIP, COMPARES["membership"])
        for notion, unit in units:
            found.append(leak.dose(rows.ids, of="components", notion=notion, measured_in=unit))
    except CannotMeasure:
        pass  # Laplace noise has no μ, and an entry without noise no η: the event stands for both
    return tuple(found)


def _moment_noise(rows: Rows, made: PrivateComponents) -> Any:
    """(d, d) noisy minus exact: the noise, up to rounding."""
    from dosimeter.pca.bounded_sums import root_weights

    X, person = rows.given(made.mechanism.relation)
    Y = made.box.clip(X).rows
    if person is not None:
        Y = Y * root_weights(person)[0][:, None]
    return made.second_moment - Y.T @ Y / made.n_samples


def of_labels(cast: VoteSet, labels: Labels, how: VoteNoise) -> BookingRequest:
    """Labels: the nats of each person at these very votes; the bound for print stands in the recipe."""
    from dosimeter.pate.doses import dose, published

    if cast.teacher_of is None:
        raise Refusal("votes without people: nobody's dose is known")
    votes = cast.votes
    bound = published(votes.n_queries, votes.n_classes, how.noise, threshold=how.threshold).nats
    recipe = labels.release.recipe
    gaps = _gaps((*cast.uncovered, BESIDE, ADAPTIVE))
    told = replace(recipe, settings={**recipe.settings, "published nats": bound}, uncovered=gaps)
    nats = dose(votes, how.noise, threshold=how.threshold, person=cast.teacher_of)
    if not cast.declared:
        nats = replace(nats, standing=Standing.UNACCOUNTED, uncovered=_gaps(cast.uncovered))
    return BookingRequest("pate", told, (nats,), secrets.token_bytes(16))


def of_training(job: Job, done: History) -> BookingRequest:
    """A federated model: one event for every client, asked or not."""
    from dosimeter.core.accounts import SharedEventDose
    from dosimeter.core.dose import EventDose
    from dosimeter.federated.accountant import event_of
    from dosimeter.results.federated_facts import NOT_COVERED

    cohort = job.terms.cohort
    event = EventDose(event_of(done.state.spent, cohort), "client", cohort.adjacency, done.figure.standing)
    settings: Mapping[str, Any] = {**job.recipe(), "rounds trained": done.state.round}
    plain = {k: v if isinstance(v, str | int | float | bool | None) else str(v) for k, v in settings.items()}
    recipe = Recipe(
        "federated model",
        f"Gaussian on the sum of clipped updates, z = {job.terms.noise:g}",
        plain,
        _gaps((*job.people.unpaid, *NOT_COVERED, *job.people.assumed)),
        simulation=done.state.simulation,
    )
    # No two trainings end in the same numbers: the model is a mark of all its noise.
    return BookingRequest("federate", recipe, (SharedEventDose(job.people.names, event),), done.state.model.tobytes())


def _gaps(notes: Sequence[str]) -> tuple[str, ...]:
    """What is not covered although a ledger adds up all releases."""
    return tuple(note for note in notes if not note.startswith(KEPT))


def check_sampling(sampling: str) -> None:
    """Refused before the training: dp-accounting composes no samples of fixed size with anything else."""
    if sampling == "fixed":
        raise Refusal(FIXED)
