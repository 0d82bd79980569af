"""`dm.fix` of a table that is read in blocks: the same release, with a few blocks in memory.

Everything but the noise is decided first: fit, scale, scores on people left out, doses, groups. All of it is a function
of the table and can be computed again after a stop. Then, only if the model may leave, the noise is drawn once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dosimeter.core.dose import Dose
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.face import option
from dosimeter.core.noise import Density, no_noise
from dosimeter.core.notion import FISHER, Standing
from dosimeter.core.progress import stage
from dosimeter.core.release import Recipe
from dosimeter.engines.reading_store import every_reading
from dosimeter.models.block_release import BlockRelease, plan_block_release
from dosimeter.results.block_figures import BlockReader
from dosimeter.results.block_linear import block_release_result
from dosimeter.results.linear import UNIT, LinearRelease
from dosimeter.tables.sklearn_estimators import refuse_unexportable
from dosimeter.workflows.block_table import Place
from dosimeter.workflows.drawn_release import EARLIER, draw_once, released_score
from dosimeter.workflows.measure_blocks import BlockLeakage, measure_blocks
from dosimeter.workflows.people_table import FitBounds
from dosimeter.workflows.released import Released

if TYPE_CHECKING:
    from dosimeter.core.accounts import PersonDoses

SIMULATED = "the noise was drawn from a seed: a simulation, not for release"


def refuse_memory_only(*, equalise: bool, noise_shape: str | None, store_fisher_blocks: bool) -> None:
    """Refuse what is computed for tables in memory only."""
    todo = "leave it out, or take a table that fits into memory"
    if equalise:
        raise CannotMeasure(f"{option('equalise')} reweights a table in memory, and this one is read in blocks: {todo}")
    if noise_shape == "hessian":
        raise CannotMeasure(f"{option('noise_shape', 'hessian')} is for tables in memory: {todo}")
    if store_fisher_blocks:
        raise CannotMeasure(f"{option('store_fisher_blocks')} is for tables in memory: {todo}")


def fix_blocks(
    source: Any,
    target: str,
    person: str | None,
    *,
    place: Place,
    categorical: tuple[str, ...],
    exclude: tuple[str, ...],
    tied: tuple[str, ...],
    not_tied: tuple[str, ...],
    missing: str,
    declared: FitBounds,
    limit: float | None,
    scale: float | None,
    law: type[Density],
    l2: float | None,
    loss: str,
    kind_chosen: bool,
    scaler: str,
    even_if_useless: bool,
    simulation_seed: int | None,
    rng: np.random.Generator | None,
) -> Released[LinearRelease]:
    """Fit, choose the noise, measure; then draw it, if the model may leave. kind_chosen: left to the program."""
    exact = measure_blocks(
        source,
        target,
        person,
        place=place,
        categorical=categorical,
        exclude=exclude,
        tied=tied,
        not_tied=not_tied,
        missing=missing,
        declared=declared,
        noise=no_noise,
        loss=loss,
        l2=l2,
        unit="sd",
        include_target=True,
        scaler=scaler,
        task=repr(("fix", limit, scale, law.__name__, kind_chosen, simulation_seed)),
    )
    table = exact.table
    refuse_unexportable(exact.model.loss)
    release = plan_block_release(
        exact.model,
        exact.fit,
        table.parts,
        table.engine,
        table.sample_block(person),
        max_dose=limit if scale is None else None,
        scale=scale,
        l2=l2,
        law=law,
        chosen=kind_chosen,
        folder=table.folder / "exact",
    )
    if simulation_seed is not None:
        plan = release.plan
        release = replace(release, plan=replace(plan, not_covered=(*plan.not_covered, SIMULATED)))
    leak = BlockLeakage(
        table, release.model, exact.fit, BlockReader(release.model, exact.fit, table.folder, bounded=True)
    )
    within = limit is None or release.plan.counted <= limit
    result = block_release_result(
        release, leak.figures, leak.groups(), limit=limit, within=within, dropped=table.dropped
    )
    result = result.with_fields(useless=release.useful.worse and not even_if_useless)
    if not within or result.useless:
        recipe = Recipe("weights", release.plan.noise_description, release.plan.public_settings)
        return Released("fix", result, b"", recipe, (), b"")
    return _drawn(release, leak, result, place, rng)


def _drawn(
    release: BlockRelease, leak: BlockLeakage, result: LinearRelease, place: Place, rng: np.random.Generator | None
) -> Released[LinearRelease]:
    """The last step: the noise, and the score of what leaves."""
    stage("drawing the noise")
    drawn = draw_once(release, None if place.checkpoint is None else leak.table.folder, rng)
    stage("scoring the released model")
    after = released_score(release, drawn, leak.table)
    remarks = [*result.remarks, *([EARLIER] if drawn.earlier else [])]
    result = result.with_fields(score=result.score.model_copy(update={"after": after}), remarks=remarks)
    doses = () if release.model.person is None else StoredDoses(release, leak)
    return Released("fix", result, drawn.artefact, drawn.recipe, doses, drawn.noise(release), model=drawn.model)


@dataclass(frozen=True, eq=False)
class StoredDoses(Sequence["PersonDoses"]):
    """The doses of a release for a ledger, read from the disk when they are wanted."""

    release: BlockRelease
    leak: BlockLeakage

    @cached_property
    def dose(self) -> Dose:
        """One row per person, in the order of their first rows."""
        readings = list(every_reading(self.leak.reader.folder))
        order = np.argsort(np.concatenate([each["row"] for each in readings]), kind="stable")
        ids = np.concatenate([each["person"].astype(object) for each in readings])[order]
        eta = np.concatenate([each["eta"] for each in readings])[order]
        not_covered = self.release.not_covered
        return Dose.of_figures(
            FISHER,
            "person",
            tuple(ids.tolist()),
            eta,
            standing=Standing.UNACCOUNTED if not_covered else Standing.EXACT,
            measured_in=UNIT,
            not_covered=not_covered,
        )

    def __len__(self) -> int:
        return 1

    @overload
    def __getitem__(self, index: int) -> PersonDoses: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PersonDoses]: ...
    def __getitem__(self, index: int | slice) -> PersonDoses | Sequence[PersonDoses]:
        return (self.dose,)[index]
