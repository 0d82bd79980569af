"""The scale of the noise for a limit, on a table that is read in blocks: the same rung as for a table in memory.

The highest dose at a scale is a maximum over blocks, and one pass finds it for several scales. At scale 1 with the
scaler held fixed it is `at_one`, and the fitted scaler leaves `floor` at any scale; a first guess of the rung follows
from the two (`glm.calibrate`), and the rungs about the guesses of all limits are looked at in one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.engine import Engine, Largest
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Density, no_noise
from dosimeter.core.progress import stage
from dosimeter.core.scale_ladder import rung, rung_above
from dosimeter.core.selection import Collected, Counts, quantile
from dosimeter.engines.reading_store import every_reading, write_readings
from dosimeter.glm.blocks.block_leakage import measure_block
from dosimeter.glm.fitting.block_fit import BlockFit
from dosimeter.glm.releases.calibrate import (
    DoseAtScale,
    above_floor,
    at_scale,
    check_target,
    on_ladder,
    refuse_below_floor,
)
from dosimeter.glm.scalers.fitted_scaler import floor_of
from dosimeter.models.block_model import BlockModel
from dosimeter.tables.table import Table


@dataclass(frozen=True, eq=False)
class ExactDoses:
    """The exact weights: doses at noise of scale 1, which rank people, and what the choice of a scale begins with."""

    people: int
    highest: float
    typical: float
    at_one: float
    """The highest dose at scale 1 of the noise, a fitted scaler held fixed."""
    floor: float
    """The highest that a fitted scaler leaves at any scale of this law; 0 if nothing was fitted."""
    folder: Path
    """Where they are kept, with the first row of each person."""

    @property
    def spread(self) -> float:
        """The highest over the typical."""
        return self.highest / self.typical if self.typical > 0 else float("inf")

    def first_rows(self) -> NDArray[np.int64]:
        """(people,) number of each person's first row, ascending."""
        return np.sort(np.concatenate([readings["row"] for readings in every_reading(self.folder)]))


def exact_doses(
    model: BlockModel, fitted: BlockFit, parts: Sequence[Any], engine: Engine, law: type[Density], folder: Path
) -> ExactDoses:
    """One pass over the parts; the doses are kept in the folder."""
    stage("measuring the exact weights")
    f = partial(_exact_terms, model=replace(model, noise=no_noise), fitted=fitted, law=law, folder=folder)
    people, largest, counts = engine.sum_over(parts, f)
    wanted = counts.bins_for([0.5])
    middle = sum_of(Collected.of(readings["eta"], wanted) for readings in every_reading(folder))
    highest, at_one, floor = largest.value.tolist()
    return ExactDoses(int(people), highest, quantile(counts, middle, 0.5), at_one, floor, folder)


def sum_of(terms: Iterable[Any]) -> Any:
    """The sum of one or more terms."""
    each = iter(terms)
    total = next(each)
    for item in each:
        total = total + item
    return total


def _exact_terms(
    table: Table, model: BlockModel, fitted: BlockFit, law: type[Density], folder: Path
) -> tuple[int, Largest, Counts]:
    leak = model.leakage(fitted, table)
    eta = leak.unit_scale_eta
    first = table.rows if leak.ids is None else table.rows[_first_of_each(leak.ids)]
    write_readings(folder, int(table.rows[0]), {"row": first.astype(np.int64), "eta": eta})
    noise, block = at_scale(law, 1.0), model.rows(table)
    frozen, _ = measure_block(fitted, block, noise, **model.measure_options)
    floor = 0.0
    if model.has_scaler:
        total, _ = measure_block(fitted, block, noise, **model.measure_options, scaled=model.design.fitted)
        left = floor_of(total)
        floor = 0.0 if left is None else model.highest(left, table)
    return len(eta), Largest(np.array([eta.max(), model.highest(frozen, table), floor])), Counts.of(eta)


def _first_of_each(ids: Sequence[Any]) -> NDArray[np.intp]:
    first: dict[Any, int] = {}
    for row, person in enumerate(ids):
        first.setdefault(person, row)
    return np.array(list(first.values()), dtype=np.intp)


@dataclass(eq=False)
class HighestDose:
    """scale -> the highest dose of a person, or row; each scale is looked at once."""

    model: BlockModel
    fitted: BlockFit
    parts: Sequence[Any]
    engine: Engine
    law: type[Density]
    exact: ExactDoses
    known: dict[float, float] = field(default_factory=dict)

    @property
    def total(self) -> bool:
        """Whether figures go through a fitted scaler."""
        return self.model.has_scaler and self.model.scaler == "total"

    @cached_property
    def whole(self) -> HighestDose | None:
        """Of a scaler that is held: the doses through it."""
        if self.total or not self.model.has_scaler:
            return None
        return replace(self, model=replace(self.model, scaler="total"), known={})

    @property
    def reading(self) -> DoseAtScale:
        """As `glm.calibrate` takes it, of a scale instead of a leakage."""
        name = "highest example" if self.model.person is None else "highest person"
        return DoseAtScale(name, lambda scale: self.at(scale))  # type: ignore[arg-type]  # see `scale_for`

    def at(self, scale: float) -> float:
        """At one scale."""
        self.look_at([scale])
        return self.known[scale]

    def look_at(self, scales: Iterable[float]) -> None:
        """One pass for all scales that are not known yet."""
        new = tuple(sorted({float(s) for s in scales} - self.known.keys()))
        if new:
            f = partial(
                _highest_terms, model=self.model, fitted=self.fitted, law=self.law, scales=new, total=self.total
            )
            (largest,) = self.engine.sum_over(self.parts, f)
            self.known |= dict(zip(new, largest.value.tolist(), strict=True))

    def prepare(self, limits: Iterable[float]) -> None:
        """Look at the rungs that `scale_for` begins with, for all these limits at once."""
        scales: list[float] = []
        for limit in limits:
            if limit > self.exact.floor and self.exact.at_one > 0:
                floor = self.exact.floor
                guess = self.exact.at_one / ((limit**2 - floor**2) ** 0.5 if self.total else limit - floor)
                k = rung_above(guess)
                scales += [rung(k), *([rung(k - 1)] if self.total else [])]
        self.look_at(scales)

    def scale_for(self, limit: float) -> float:
        """The rung above the scale that meets a limit; refused if no scale does."""
        check_target(limit)
        reading, exact = self.reading, self.exact
        refuse_below_floor(limit, exact.floor, reading)
        if not exact.at_one > 0 and not exact.floor > 0:
            raise Refusal(
                f"the {reading.name} is zero at every scale: nothing leaks there, so no target determines a scale"
            )
        # Here a leakage is known by its scale alone: the figures of the rows are in the blocks.
        leak: Any = float
        if self.total:
            return above_floor(exact.at_one, exact.floor, limit, reading, leak, self.law.__name__).scale
        allowed = limit - exact.floor  # a scaler that is held leaves its floor beside the figure
        scale = on_ladder(exact.at_one / allowed, allowed, reading, leak, self.law.__name__).scale
        if self.whole is not None and self.whole.at(scale) > limit:  # a penalised fit moves with its scaler
            scale = on_ladder(self.whole.scale_for(limit), allowed, reading, leak, self.law.__name__).scale
        return scale

    def beside(self, scale: float) -> float:
        """What a limit counts beside the figure."""
        return 0.0 if self.whole is None else max(self.exact.floor, self.whole.at(scale) - self.at(scale))


def _highest_terms(
    table: Table, model: BlockModel, fitted: BlockFit, law: type[Density], scales: tuple[float, ...], total: bool
) -> tuple[Largest]:
    block, scaled = model.rows(table), model.design.fitted if total else None
    leaks = (measure_block(fitted, block, at_scale(law, s), **model.measure_options, scaled=scaled)[0] for s in scales)
    return (Largest(np.array([model.highest(leak, table) for leak in leaks])),)
