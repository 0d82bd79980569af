"""`dm.components` of a table that is read in blocks: the same figures, with a few blocks in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import overload

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.accounts import PersonDoses, SharedEventDose
from dosimeter.core.dose import Dose
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.notion import Standing
from dosimeter.core.progress import stage
from dosimeter.core.selection import quantile
from dosimeter.engines.reading_store import every_reading
from dosimeter.models.block_components import (
    COLUMNS,
    BlockComponents,
    BlockDoses,
    ComponentModel,
    DoseReader,
    MomentSums,
    dose_terms,
    end_terms,
    measurable,
    median_terms,
    moment_terms,
    with_centres,
)
from dosimeter.models.component_attack import (
    MANY,
    AttackSetting,
    HalfRule,
    SplitHalf,
    attack_generator,
    attack_halves,
)
from dosimeter.models.component_release import component_count, dose_units, released_count
from dosimeter.models.component_rows import bounds_from_table, component_encoding
from dosimeter.pca.bounds import Bounds
from dosimeter.pca.mechanism import Mechanism
from dosimeter.pca.moment_plan import PERSON, ROW, MomentPlan, plan_moments
from dosimeter.pca.release import MomentPair, exact_moments, private_components
from dosimeter.pca.sensitivity import REPLACE
from dosimeter.results.block_components import block_component_figures
from dosimeter.results.components import ComponentsRelease
from dosimeter.tables.block_reading import BlockReading
from dosimeter.tables.bounds_file import TableBounds
from dosimeter.tables.declared_bounds import Range
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.table import Table
from dosimeter.tables.table_summary import MOST_LEVELS, LabelSummary, representatives
from dosimeter.workflows.block_table import BlockTable, Place, TableSource, open_blocks
from dosimeter.workflows.drawn_components import EARLIER, draw_components_once
from dosimeter.workflows.person_column import PersonColumn
from dosimeter.workflows.released import Released


@dataclass(frozen=True)
class ComponentReading:
    """How the table is read."""

    person: str | None
    categorical: tuple[str, ...]
    exclude: tuple[str, ...]
    missing: str
    declared: TableBounds | None
    """None: bounds are read off the table, and nothing is private."""


def components_blocks(
    source: TableSource,
    place: Place,
    reading: ComponentReading,
    mechanism: Mechanism,
    name: str,
    components: int | float | None,
    attack: bool,
) -> Released[ComponentsRelease]:
    """Sum the moments, read the doses, and draw the noise last. name: of the mechanism."""
    person = reading.person
    table, column = _open(source, place, reading, repr((mechanism, name, components, attack)))
    shown = representatives(table.summaries)
    declared = reading.declared or _bounds_read(table, shown)
    encoding, bounds = component_encoding(shown, declared, None, reading.exclude)
    if not declared.public:
        bounds = _design_bounds(table, encoding)
    model = ComponentModel(encoding, bounds.over(len(encoding.names)), person)
    count = component_count(components, len(encoding.names))
    rng = attack_generator()
    rule = _halves(table, model, place, rng) if attack else None
    stage("summing the moments")
    sums = MomentSums.of(table.engine.sum_over(table.parts, partial(moment_terms, model=model, rule=rule)))
    rows_of_people = column.rows_of_people() if declared.public and person is not None and table.dropped else None
    people = sums.people if rows_of_people is None else len(rows_of_people)
    plan, exact, clipped_share = _plan(table, model, declared, bounds, mechanism, sums, people)
    stage("measuring every person")
    doses, reason = _doses(table, model, plan, shown)
    stage("drawing the noise")
    drawn = draw_components_once(
        plan, exact, model, count, None if place.checkpoint is None else table.folder, declared.public
    )
    private = private_components(plan, drawn.noised, clipped_share, simulation=False)
    k, share = released_count(private, count)
    release = BlockComponents(
        private=private,
        declared=declared,
        mechanism=name,
        k=k,
        share=share,
        model=model,
        exact=exact,
        sums=sums,
        doses=doses,
        reason=reason,
        incomplete=table.dropped,
        people=people,
        most_rows=sums.most_rows if rows_of_people is None else int(rows_of_people.max()),
    )
    attacked: SplitHalf | None = None
    if rule is not None:
        stage("attacking halves of the table")
        setting = AttackSetting(bounds, declared.public, declared.n, person is not None)
        attacked = attack_halves(sums.halves, rule, setting, model.box, mechanism, k, rng)
    result = ComponentsRelease.of(release, block_component_figures(release), attacked)
    if drawn.earlier:
        result = result.with_fields(remarks=[*result.remarks, EARLIER])
    booked = person is not None and declared.public
    return Released(
        verb="pca",
        result=result,
        artefact=drawn.artefact,
        recipe=release.recipe,
        doses=StoredComponentDoses(release, column) if booked else (),
        noise_fingerprint=release.noise.tobytes(),
        model=drawn.model,
    )


def _open(source: TableSource, place: Place, reading: ComponentReading, task: str) -> tuple[BlockTable, PersonColumn]:
    """The table after its first pass, and its column of persons."""
    person, declared, exclude = reading.person, reading.declared, reading.exclude
    persons = () if person is None else (person,)
    codes = reading.categorical
    numbers = None
    bounds: dict[str, tuple[float, float]] = {}
    levels: dict[str, tuple[str, ...]] = {}
    if declared is not None:
        # Names before values: a column that is not declared is refused whatever its cells are.
        names = [name for name in source.names if name not in exclude and name != person]
        declared.for_columns(names, exclude)
        codes = tuple(dict.fromkeys([*codes, *(name for name in declared.categories if name not in exclude)]))
        numbers = tuple(name for name in names if name not in codes)
        bounds = {n: (c.lower, c.upper) for n, c in declared.columns.items() if isinstance(c, Range)}
        levels = {n: c for n, c in declared.columns.items() if isinstance(c, tuple)}
    table = open_blocks(
        source,
        place,
        reading=BlockReading(tuple(dict.fromkeys([*persons, *codes])), reading.missing, numbers, person=person or ""),
        exclude=exclude,
        needed=(*persons, *codes),
        person=person,
        bounds={n: ends for n, ends in bounds.items() if n in source.names},
        levels={n: some for n, some in levels.items() if n in source.names},
        task=repr(("pca", reading, task)),
        sampled=False,
    )
    return table, PersonColumn(source, table, place, person or "")


def _bounds_read(table: BlockTable, shown: Table) -> TableBounds:
    for name, summary in table.summaries.items():
        if isinstance(summary, LabelSummary) and len(summary.levels) > MOST_LEVELS:
            raise Refusal(
                f"column {name} has more than {MOST_LEVELS} levels: it looks like an identifier; leave it out with "
                f"{option('exclude', name)}"
            )
    return bounds_from_table(shown)


def _design_bounds(table: BlockTable, encoding: TableEncoding) -> Bounds:
    """The ends of each column of the design, read off the table: not private."""
    stage("reading the bounds")
    (ends,) = table.engine.sum_over(table.parts, partial(end_terms, encoding=encoding))
    d = len(encoding.names)
    return Bounds(-ends.value[:d], ends.value[d:])


# --- the attack ---


def _halves(table: BlockTable, model: ComponentModel, place: Place, rng: np.random.Generator) -> HalfRule:
    """Who is a member, and who is attacked."""
    people = table.n if table.people is None else table.people
    first: NDArray[np.int64] | int = people
    if people <= MANY:
        stage("splitting the people")
        first = np.unique(np.concatenate(table.engine.map_over(table.parts, partial(_first_rows, model=model))))
    rule = HalfRule.of(first, table.n, rng)
    if rule.share * table.n * model.box.d * 8 > place.bytes / 8:
        raise Refusal(
            f"{option('attack')}: a thousand people have more rows than {option('memory')} holds: leave the attack out"
        )
    return rule


def _first_rows(table: Table, model: ComponentModel) -> NDArray[np.int64]:
    return np.unique(model.first_rows(table))


# --- the plan and the doses ---


def _plan(
    table: BlockTable,
    model: ComponentModel,
    declared: TableBounds,
    bounds: Bounds,
    mechanism: Mechanism,
    sums: MomentSums,
    people: int,
) -> tuple[MomentPlan, MomentPair, float]:
    """Constants, exact moments and the share of changed rows; gaps as in `ComponentRows.for_release`."""
    by_person = model.person is not None
    replaced = mechanism.relation == REPLACE
    gaps = 0
    if replaced and declared.public:
        gaps = people - sums.people if by_person else table.dropped
    units = sums.people + gaps if by_person else sums.rows + gaps
    plan = plan_moments(
        model.box.d,
        units,
        PERSON if by_person else ROW,
        mechanism,
        bounds,
        n_samples=declared.n if not replaced or by_person else None,
        private=declared.public,
        bounds_read=not declared.public,
    )
    products, added = with_centres(sums.products, sums.sums, gaps, plan.box)
    return plan, exact_moments(plan, units, products, added), sums.changed / (sums.rows + gaps)


def _doses(table: BlockTable, model: ComponentModel, plan: MomentPlan, shown: Table) -> tuple[BlockDoses | None, str]:
    """How the doses spread, by two passes, and why the next notion cannot be measured."""
    keys, reason = measurable(plan, model, shown.take(np.arange(2)))
    if not keys:
        return None, reason
    reader = DoseReader(model, plan, keys, table.folder)
    counts, ends, top, spread = table.engine.sum_over(table.parts, partial(dose_terms, reader=reader))
    bins = tuple(each.bins_for([0.5]) for each in spread.items)
    stage("finding the typical dose")
    (collected,) = table.engine.sum_over(table.parts, partial(median_terms, reader=reader, bins=bins))
    typical = [quantile(each, some, 0.5) for each, some in zip(spread.items, collected.items, strict=True)]
    lowest, *highest = ends.value.tolist()
    people, zero = (int(count) for count in counts)
    doses = BlockDoses(
        reader,
        people,
        zero,
        -lowest,
        dict(zip(keys, highest, strict=True)),
        dict(zip(keys, typical, strict=True)),
        top,
    )
    return doses, reason


# --- what a ledger needs ---


@dataclass(frozen=True, eq=False)
class StoredComponentDoses(Sequence[PersonDoses]):
    """The doses of a release for a ledger, read from the disk when they are wanted."""

    release: BlockComponents
    column: PersonColumn

    @cached_property
    def doses(self) -> tuple[PersonDoses, ...]:
        """One event for every person, and η² and μ² where they can be measured."""
        release, keys = self.release, () if self.release.doses is None else self.release.doses.reader.notions
        ids, figures = self._readings(keys)
        present = set(ids)
        absent = [] if release.people == len(ids) else [p for p in self.column.names() if p not in present]
        not_covered = release.private.not_covered
        units = {notion.key: (notion, unit) for notion, unit in dose_units(release.declared)}
        measured = [
            Dose.of_figures(
                units[key][0],
                "person",
                ids,
                figures[key],
                standing=Standing.UNACCOUNTED if not_covered else Standing.UPPER_BOUND,
                not_covered=not_covered,
                measured_in=units[key][1],
            )
            for key in keys
        ]
        return (SharedEventDose((*ids, *absent), release.private.dose), *measured)

    def _readings(self, keys: Sequence[str]) -> tuple[tuple[str, ...], dict[str, NDArray[np.float64]]]:
        """People in the order of their first rows, and their figures by notion."""
        if not keys:
            return tuple(self.column.names()), {}
        folder = self.release.doses.reader.folder if self.release.doses is not None else self.column.table.folder
        readings = list(every_reading(folder))
        order = np.argsort(np.concatenate([each["row"] for each in readings]), kind="stable")
        ids = np.concatenate([each["person"].astype(object) for each in readings])[order]
        every = {key: np.concatenate([each[COLUMNS[key]] for each in readings])[order] for key in keys}
        return tuple(ids.tolist()), every

    def __len__(self) -> int:
        measured = 0 if self.release.doses is None else len(self.release.doses.highest)
        return 1 + measured

    @overload
    def __getitem__(self, index: int) -> PersonDoses: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PersonDoses]: ...
    def __getitem__(self, index: int | slice) -> PersonDoses | Sequence[PersonDoses]:
        return self.doses[index]
