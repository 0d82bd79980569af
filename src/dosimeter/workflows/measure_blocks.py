"""`dm.measure` of a table that is read in blocks: the same figures, with a few blocks in memory."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.adapters.named_errors import name_columns_in_refusals
from dosimeter.core.checks import positive
from dosimeter.core.engine import MappedPart
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.face import option
from dosimeter.core.location import advice
from dosimeter.core.noise import no_noise
from dosimeter.core.progress import stage
from dosimeter.core.text import safe_text
from dosimeter.engines.fingerprint import fingerprint
from dosimeter.engines.reading_store import every_reading
from dosimeter.files.reading_export import write_reading_blocks
from dosimeter.glm.fitting.block_fit import BlockFit, fit_blocks
from dosimeter.models.block_model import BlockModel, prepare_blocks
from dosimeter.results.block_figures import BlockReader, first_pass, first_terms, second_terms
from dosimeter.results.block_groups import GroupReader, block_groups
from dosimeter.results.block_measurement import BlockFigures, attributes, block_measurement, wanted_bins
from dosimeter.results.linear_parts import GroupFigures
from dosimeter.results.measurement import Measurement
from dosimeter.tables.block_reading import BlockReading
from dosimeter.tables.declared_bounds import Range
from dosimeter.tables.table import Table
from dosimeter.tables.table_summary import LabelSummary
from dosimeter.workflows.block_table import BlockTable, Place, TableSource, open_blocks
from dosimeter.workflows.people_table import FitBounds, as_names


@dataclass(frozen=True, eq=False)
class BlockLeakage:
    """What `measure` returns for a table that is read in blocks. As private as the table.

    η of every person (or row) is on the disk as long as this object lives: `doses()` yields it in blocks and
    `write_doses` writes it to a .parquet or .csv file. `result()` is the same `Measurement` as for a table in memory.
    """

    table: BlockTable
    model: BlockModel
    fit: BlockFit
    """The exact minimiser that was measured."""
    reader: BlockReader

    @cached_property
    def figures(self) -> BlockFigures:
        """Quantiles, the most exposed people and the columns: two passes over the rows."""
        engine, parts, reader = self.table.engine, self.table.parts, self.reader
        stage("measuring every row")
        first = first_pass(engine.sum_over(parts, partial(first_terms, reader=reader)), reader)
        stage("measuring every column")
        second = engine.sum_over(parts, partial(second_terms, reader=reader, wanted=wanted_bins(first)))
        over_all: dict[str, float] = {}
        if reader.bounded:
            jacobian = reader.leakage(self.table.sample_block(self.model.person)).leak.jacobian
            over_all, again = attributes(first, reader, jacobian)
            if again:
                (sums,) = engine.sum_over(parts, partial(_columns_again, reader=reader, names=again))
                for name, M in zip(again, sums.items, strict=True):
                    over_all[name] = math.sqrt(max(0.0, float(np.linalg.eigvalsh(M)[-1])))
        return BlockFigures.of(reader, first, second, self.table.summaries, self.table.sample, over_all)

    @property
    def attributes(self) -> dict[str, float]:
        """Source column -> η of the column over all rows together."""
        return self.figures.attributes

    @property
    def highest(self) -> float:
        """The highest η of a person, or row; of an exact release at noise of scale 1."""
        return self.figures.first.highest

    def doses(self) -> Iterator[dict[str, NDArray[Any]]]:
        """η of every person, or row, in blocks: arrays `row` (of their first row, from 1), `eta`, and `person`."""
        self.figures  # noqa: B018 - computes and writes them
        for readings in every_reading(self.reader.folder):
            eta = readings["eta"]
            shown = eta if self.reader.bounded else np.where(eta > 0, np.inf, 0.0)
            named = {"person": readings["person"]} if "person" in readings else {}
            yield {**named, "row": readings["row"] + 1, "eta": shown}

    def write_doses(self, path: str | Path, inputs: Sequence[Any] = ()) -> None:
        """Write one dose per person, or per row under its number, to a .parquet or .csv file. Internal."""
        unit = f"eta_in_{'standard_deviations' if self.model.unit == 'sd' else 'own_units'}"
        key = "row" if self.model.person is None else "person"
        blocks = ({key: block[key], unit: block["eta"]} for block in self.doses())
        write_reading_blocks(path, blocks, inputs=inputs)

    def result(
        self, limit: float | None = None, groups: str | Sequence[str] = (), show_ids: bool = False
    ) -> Measurement:
        """Everything that was measured, as one typed result; parameters as of `ModelLeakage.result`."""
        requested = as_names(groups)
        if limit is not None:
            positive("limit", limit)
        figures = self.figures
        for name in requested:
            if name not in self.table.summaries:
                raise Refusal(f"there is no column {safe_text(name)}: {advice(name, tuple(self.table.summaries))}")
        return block_measurement(
            figures,
            limit=limit,
            groups=self.groups(requested),
            requested=requested,
            show_ids=show_ids,
            dropped=self.table.dropped,
        )

    def groups(self, requested: Sequence[str] = ()) -> list[GroupFigures]:
        """Groups of people by the columns of the model and those requested; four passes."""
        stage("comparing groups")
        names = tuple(dict.fromkeys([*requested, *self.model.design.blocks]))
        return block_groups(
            GroupReader(self.reader.folder, names, self.model.person),
            self.table.parts,
            self.table.engine,
            median=self.figures.dose(0.5),
            people=self.figures.first.people,
            requested=requested,
            bounded=self.reader.bounded,
        )

    def __repr__(self) -> str:
        return f"<BlockLeakage of {self.table.n} rows of {safe_text(self.table.source.label, 60)}, {self.model.noise}>"


def _columns_again(table: Table, reader: BlockReader, names: tuple[str, ...]) -> tuple[Any]:
    from dosimeter.core.engine import Each

    leak = reader.leakage(table)
    return (Each(tuple(leak.persons_together(np.arange(leak.leak.n), name) for name in names)),)


@contextmanager
def _levels_in_refusals(table: BlockTable, target: str) -> Iterator[None]:
    """A refusal about the target says where the last of its levels first appears: it may be a typing error."""
    try:
        yield
    except Refusal as refusal:
        summary = table.summaries[target]
        if (
            not isinstance(summary, LabelSummary)
            or len(summary.levels) < 3
            or not str(refusal).startswith("the target")
        ):
            raise
        k = int(np.argmax(summary.first))
        row = int(summary.first[k])
        place = table.source.place_of(row)
        shown = f"{safe_text(summary.levels[k])} first in row {row + place.first}"
        raise type(refusal)(f"{safe_text(place.label, 120)}: {refusal} ({shown})") from None


def _noise_key(noise: Any) -> str:
    """Differs if the noise does: two covariances of one trace are written alike."""
    try:
        return f"{noise} {fingerprint(noise)}"
    except TypeError:  # a noise of the caller's own without a fingerprint: a checkpoint with it is never resumed
        return uuid.uuid4().hex


def measure_blocks(
    source: TableSource,
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
    noise: Any,
    loss: str,
    l2: float | None,
    unit: str,
    include_target: bool,
    scaler: str,
    task: str = "",
) -> BlockLeakage:
    """Fit a model of the table and prepare to measure it; passes over the rows run as they are needed.

    task: what else the work in a checkpoint is for.
    """
    if missing not in ("refuse", "drop"):
        todo = f"use {option('missing', 'drop')}, or fill them in the table"
        raise CannotMeasure(f"{option('missing', missing)} is for tables in memory: {todo}")
    text = tuple(dict.fromkeys([*([] if person is None else [person]), *categorical, *declared.text]))
    classes = declared.classes(target)
    reading = BlockReading(
        text, missing, None if declared.numbers is None else tuple(declared.numbers), target, classes,
        keep_class_names=target in categorical, person=person or "",
    )  # fmt: skip
    bounds = declared.bounds or {}
    table = open_blocks(
        source,
        place,
        reading=reading,
        exclude=exclude,
        needed=(target, *([] if person is None else [person]), *categorical, *tied, *not_tied),
        person=person,
        bounds={name: (b.lower, b.upper) for name, b in bounds.items() if isinstance(b, Range)},
        levels={name: b for name, b in bounds.items() if isinstance(b, tuple) and name != target},
        task=repr((target, person, categorical, exclude, tied, not_tied, missing, bounds, declared.own_units,
                   _noise_key(noise), loss, l2, unit, include_target, scaler)) + task,
    )  # fmt: skip
    stage("preparing the columns")
    with _levels_in_refusals(table, target):
        model = prepare_blocks(
            table.summaries,
            table.n,
            target,
            noise=noise,
            loss=loss,
            l2=l2,
            person=person,
            categorical=categorical,
            unit=unit,
            include_target=include_target,
            declared=declared.bounds,
            own_units=declared.own_units,
            scaler=scaler,
        )
    if person is not None:
        stage("looking for values that never change within a person")
        model = replace(model, named_ties=(*tied, *not_tied))
        (facts,) = table.engine.sum_over(table.parts, model.tie_terms)
        model = model.with_ties(facts, tied, not_tied)
    stage("fitting the model")
    with name_columns_in_refusals(model.design.names):
        fitted = fit_blocks(
            [MappedPart(part, model.rows) for part in table.parts],
            model.loss,
            n=table.n,
            d=len(model.encoding.names),
            l2=model.penalty.l2,
            engine=table.engine,
            sample=(model.matrix(table.sample), model.labels(table.sample)),
            largest=model.largest(table.summaries),
        )
    reader = BlockReader(model, fitted, table.folder, bounded=noise is not no_noise)
    return BlockLeakage(table, model, fitted, reader)
