"""`dm.components`: principal components of a table, released within a budget of differential privacy [Zari22]."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dosimeter.core.checks import positive
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.engines.frame_sources import frame_source
from dosimeter.engines.memory import memory_bytes
from dosimeter.engines.parquet_source import ParquetSource
from dosimeter.models.component_release import (
    MECHANISMS,
    TableComponents,
    mechanism_of,
    neighbour_relation,
    release_components,
)
from dosimeter.models.component_rows import ComponentRows, bounds_from_table, component_rows
from dosimeter.results.component_parts import InternalComponentFigures
from dosimeter.results.components import ComponentsRelease
from dosimeter.tables.bounds_file import TableBounds, bounds_of, read_bounds, template, template_hint
from dosimeter.tables.declared_bounds import Range
from dosimeter.tables.table import Table
from dosimeter.workflows.block_table import Place, block_source
from dosimeter.workflows.components_blocks import ComponentReading, components_blocks
from dosimeter.workflows.people_table import (
    Data,
    Names,
    as_names,
    check_reading,
    every_value,
    is_path,
    names_of,
    read_people,
)
from dosimeter.workflows.released import Released

DELTA = 1e-6
DEMO_EPSILON = 1.0
"""Of the demonstration, fixed in advance. The bounds of the digits, 0 to 16, are those of the format."""
DEFAULT_MECHANISM = next(iter(MECHANISMS))
BoundsSource = str | os.PathLike[str] | Mapping[str, Any] | TableBounds
"""A bounds file (TOML), or its content as a dict."""


def components(
    table: Data = None,
    *,
    person: str | None = None,
    epsilon: float | None = None,
    delta: float = DELTA,
    bounds: BoundsSource | None = None,
    not_private: bool = False,
    components: int | float | None = None,
    mean_share: float | None = None,
    mechanism: str = DEFAULT_MECHANISM,
    neighbours: str | None = None,
    attack: bool = False,
    categorical: Names = (),
    exclude: Names = (),
    missing: str | None = None,
    delimiter: str = ",",
    decimal: str = ".",
    engine: str | None = None,
    memory: str | int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    scheduler: str | None = None,
) -> Released[ComponentsRelease]:
    """Release the principal components of a table with noise on its second moment.

    Without a table it releases the components of 1,797 handwritten digits that ship with scikit-learn, for
    demonstration.

    Parameters
    ----------
    table
        A .csv or .parquet file, or a dataframe: one row or more a person. A folder of Parquet files, a polars
        LazyFrame, an Arrow dataset and an array mapped into memory are read in blocks, and so is a .csv or .parquet
        file too large for `memory`.
    person
        The column that says whose row it is. ε is then for a person with all their rows, else for a row.
    epsilon, delta
        The budget. Keep δ well below 1 over the number of rows. 0 works with laplace-joint and laplace-split.
    bounds
        What is known of each column without the table: a .toml file, or the same as a dict
        (`{"age": {"lower": 18, "upper": 100}, "city": {"levels": ["Graz", "Ulm"]}}`). `bounds_template` prints a file
        to fill in.
    not_private
        Read the bounds off the table instead. Then no guarantee is claimed.
    components
        How many components, or a share of the noisy variance below 1. 5, or all columns if there are fewer, by default.
    mean_share
        Part of the budget for a noisy mean, 0.1 by default. With 0 the components are about the public centre.
    mechanism
        analyze-gauss, laplace, laplace-split, laplace-joint, or one of Table 1 of [Zari22] as published-...
    neighbours
        "replace-one" (the default), or "add-or-remove", which needs a public n in the bounds.
    attack
        Also run the membership attack on halves of the table, before and after the noise. A simulation. Of a table of
        more than 65,536 rows it attacks some people only, whom a public rule chooses.
    categorical, exclude
        Columns of codes, and columns to leave out.
    missing
        "drop" what a row with a missing value would add (the default with bounds), or "refuse".
    delimiter
        What separates cells in a .csv.
    decimal
        The decimal mark of numbers in a .csv: "." or ",".
    engine, memory, checkpoint, scheduler
        Where it is computed, as in `measure`. With a checkpoint the noise is drawn once: the same call returns the same
        release.

    Returns
    -------
    Released[ComponentsRelease]
        `model` is a scikit-learn Pipeline that works without dosimeter; `result` has the guarantee, the doses and the
        explained variance. `artefact` is empty if the noise does not prove the stated budget.

    Raises
    ------
    Refusal
        An option is out of its range, or the table does not have the declared columns.

    Notes
    -----
    The release is A + noise, A = Σ zzᵀ/N over the rows within their bounds (section 3 of [Zari22]); components are
    post-processing. docs/explanation/pca.md has the sensitivities.

    Examples
    --------
    >>> people = {"age": [23, 35, 41, 58, 64, 77], "weight": [61, 70, 82, 75, 90, 68]}
    >>> bounds = {"age": {"lower": 18, "upper": 100}, "weight": {"lower": 30, "upper": 150}}
    >>> released = components(people, epsilon=1, bounds=bounds, components=1)
    >>> released.result.guarantee.holds, released.model["components"].components_.shape
    (True, (1, 2))
    """
    _check(table, epsilon, bounds, not_private)
    categorical, exclude = as_names(categorical), as_names(exclude)
    place = Place(engine, memory, checkpoint, scheduler)
    if table is None:
        if place != Place():
            raise Refusal(f"{option('engine')} and the like are for a table: name the table first")
        rows = _digits()
    else:
        declared = None if bounds is None else _declared(bounds, categorical)
        source = block_source(table, place, delimiter=delimiter, decimal=decimal)
        if source is not None:
            policy = missing or ("refuse" if declared is None else "drop")
            check_reading(None, person, categorical, exclude, (), (), policy, None)
            _check_person(person, declared)
            relation = neighbour_relation(neighbours, declared or TableBounds({}, public=False))
            recipe = mechanism_of(mechanism, _budget(epsilon), delta, relation, mean_share)
            reading = ComponentReading(person, tuple(categorical), tuple(exclude), policy, declared)
            return components_blocks(source, place, reading, recipe, mechanism, components, attack)
        rows = _read(table, declared, person, categorical, exclude, missing, delimiter, decimal)
    relation = neighbour_relation(neighbours, rows.declared)
    recipe = mechanism_of(mechanism, _budget(epsilon), delta, relation, mean_share)
    release = release_components(rows, recipe, mechanism, components)
    return _released(release, attack or table is None)


def _budget(epsilon: float | None) -> float:
    return DEMO_EPSILON if epsilon is None else epsilon


def _check_person(person: str | None, declared: TableBounds | None) -> None:
    if person is not None and declared is not None and person in declared.columns:
        raise Refusal(f"{option('person', safe_text(person))}: the bounds declare it a column; leave it out there")


def bounds_template(table: Data, *, person: str | None = None, exclude: Names = (), delimiter: str = ",") -> str:
    """A bounds file (TOML) with every column of a table, to fill in without looking at its values.

    Parameters
    ----------
    table
        A .csv or .parquet file, a dataframe, or a table that is read in blocks. Only the names of its columns are read.
    person, exclude
        The column of persons and columns to leave out: they need no bounds.
    delimiter
        What separates cells in a .csv.

    Returns
    -------
    str
        The text of the file.

    Examples
    --------
    >>> print(bounds_template({"id": ["a"], "age": [31]}, person="id").splitlines()[-3])
    [age]
    """
    exclude = as_names(exclude)
    source = frame_source(table)
    if source is None and is_path(table) and Path(table).is_dir():
        source = ParquetSource.of(Path(table), memory_bytes(None))
    names = names_of(table, delimiter) if source is None else list(source.names)
    label = os.path.basename(table) if isinstance(table, str | os.PathLike) else "frame"
    Location(label).check_known([*exclude, *([] if person is None else [person])], names)
    return template([name for name in names if name != person and name not in exclude])


def _check(table: Data, epsilon: float | None, bounds: BoundsSource | None, not_private: bool) -> None:
    """Options that contradict each other, before anything is read."""
    from dosimeter.pca.calibration import EPSILONS

    least, most = EPSILONS
    if epsilon is not None and not least <= positive("epsilon", epsilon) <= most:
        why = "above it nobody is protected, below it nothing is found"
        raise Refusal(f"{option('epsilon', float(epsilon))}: give a number from {least:g} to {most:g}; {why}")
    if bounds is not None and not_private:
        raise Refusal(
            f"{option('bounds')} and {option('not_private')}: with bounds it is private; leave one of the two out"
        )
    if table is None:
        for name, value in (("bounds", bounds), ("not_private", not_private)):
            if value:
                raise Refusal(f"{option(name)} without a table: name the table first")
        return
    if epsilon is None:
        raise Refusal(f"state a budget: {option('epsilon', 1)}, say (and {option('delta')}, {DELTA:g} without it)")
    if bounds is None and not not_private:
        raise Refusal(
            "no bounds: write what is known of each column without the table into a file ([age] and below it lower = "
            f"18, upper = 100; {template_hint()}) and pass {option('bounds', 'FILE')}, or {option('not_private')} "
            "to read the bounds off the table"
        )


def _declared(bounds: BoundsSource, categorical: Sequence[str]) -> TableBounds:
    if isinstance(bounds, TableBounds):
        declared = bounds
    else:
        declared = bounds_of(bounds) if isinstance(bounds, Mapping) else read_bounds(bounds)
    for name in categorical:
        if isinstance(declared.columns.get(name), Range):
            shown = safe_text(name)
            raise Refusal(
                f"{option('categorical', shown)}: the bounds declare it a number; give [{shown}] levels = [...]"
            )
    return declared


def _read(
    table: Data,
    declared: TableBounds | None,
    person: str | None,
    categorical: Sequence[str],
    exclude: Sequence[str],
    missing: str | None,
    delimiter: str,
    decimal: str,
) -> ComponentRows:
    if declared is None:
        people = read_people(
            table, person=person, categorical=categorical, exclude=exclude, missing=missing or "refuse",
            delimiter=delimiter, decimal=decimal,
        )  # fmt: skip
        return component_rows(people, bounds_from_table(people.drop([person] if person else [])), person, exclude)
    _check_person(person, declared)
    # Names before values: a column that is not declared is refused whatever its cells are.
    names = [name for name in names_of(table, delimiter) if name not in exclude and name != person]
    declared.for_columns(names, exclude)
    codes = list(dict.fromkeys([*categorical, *(name for name in declared.categories if name not in exclude)]))
    people = read_people(
        table, person=person, categorical=codes, exclude=exclude, missing=missing or "drop", delimiter=delimiter,
        decimal=decimal, declared=[name for name in names if name not in codes],
    )  # fmt: skip
    persons = every_value(table, person, delimiter) if person and people.dropped else []
    return component_rows(people, declared, person, exclude, persons)


def _digits() -> ComponentRows:
    """All 1,797 digits: a pixel is from 0 to 16 by the format, which is public."""
    from sklearn.datasets import load_digits

    data = load_digits()
    pixels = Table.of({name: data.data[:, j] for j, name in enumerate(data.feature_names)})
    declared = TableBounds({name: Range(0.0, 16.0, 8.0) for name in pixels.names})
    return component_rows(pixels, declared, None)


def _released(release: TableComponents, attack: bool) -> Released[ComponentsRelease]:
    import skops.io as sio

    from dosimeter.models.component_attack import split_half_attack
    from dosimeter.models.component_rows import fitted_pipeline

    attacked = split_half_attack(release.rows, release.private.mechanism, release.k) if attack else None
    result = ComponentsRelease.of(release, InternalComponentFigures.of(release), attacked)
    model = fitted_pipeline(release.rows, release.private, release.k) if release.is_released else None
    return Released(
        verb="pca",
        result=result,
        artefact=b"" if model is None else sio.dumps(model),
        recipe=release.recipe,
        doses=release.person_doses,
        noise_fingerprint=release.noise.tobytes(),
        model=model,
    )
