"""A table with declared bounds as rows of numbers, and its components as a pipeline over its columns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.pca.bounds import Bounds
from dosimeter.pca.sensitivity import REPLACE
from dosimeter.tables.bounds_file import TableBounds
from dosimeter.tables.column_encoding import CategoryColumn, ColumnEncoding, NumberColumn, RangeColumn
from dosimeter.tables.column_levels import level_names
from dosimeter.tables.declared_bounds import Declaration, Range, text_refusal
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.sklearn_estimators import principal_components
from dosimeter.tables.sklearn_export import input_order, pipeline
from dosimeter.tables.table import Table

if TYPE_CHECKING:
    from dosimeter.pca.release import PrivateComponents


@dataclass(frozen=True, eq=False)
class ComponentRows:
    """The table as numbers, with the public bounds that hold for them."""

    X: FloatArray
    """(n, d): numbers scaled so that their bounds are -1 and 1 (or as they are), then an indicator for each level."""
    encoding: TableEncoding
    bounds: Bounds
    declared: TableBounds
    ids: tuple[Hashable, ...] | None
    unlisted: int
    """Labels outside the public list: all their indicators are 0. Internal."""
    incomplete: int = 0
    """Rows of the table that are not in X: a value is missing or cannot be read. Internal."""
    counts: Mapping[Hashable, int] = field(default_factory=dict)
    """Rows of each person, incomplete rows included; empty if no person was named. Internal."""
    numbers: Index | None = None
    """(n,) number of each row in its source; None: rows are numbered as they stand."""

    @property
    def first_rows(self) -> NDArray[np.int64]:
        """(n,) number of the first row of each row's person; the row's own if no person was named."""
        numbers = np.arange(len(self.X)) if self.numbers is None else self.numbers
        return numbers.astype(np.int64) if self.ids is None else first_rows(np.array(self.ids, dtype=object), numbers)

    @property
    def absent(self) -> list[Hashable]:
        """People without a complete row. Internal."""
        present = set(self.ids or ())
        return [person for person in self.counts if person not in present]

    @property
    def most_rows(self) -> int:
        """Rows of the person with the most. Internal."""
        return max(self.counts.values(), default=1)

    def for_release(self, relation: str) -> tuple[FloatArray, list[Hashable] | None]:
        """What a release is made of: rows (m, d), and their persons if a person is the unit.

        If one row or person is replaced and N is counted, a missing value must not lower the count: the public centre,
        clipped to its bounds, replaces each incomplete row, or each person without a complete row. If N is
        declared, such rows add nothing.
        """
        ids = None if self.ids is None else list(self.ids)
        if relation != REPLACE or not self.declared.public:
            return self.X, ids
        gaps = self.absent if ids is not None else [None] * self.incomplete
        if not gaps:
            return self.X, ids
        box = self.bounds.over(self.X.shape[1])
        centre = np.tile(np.clip(box.centre, box.lower, box.upper), (len(gaps), 1))
        return np.vstack([self.X, centre]), None if ids is None else [*ids, *gaps]

    def n_public(self, relation: str) -> int | None:
        """N if it is declared: of people or rows that are added or removed, or of people who are replaced."""
        return self.declared.n if relation != REPLACE or self.ids is not None else None


def bounds_from_table(table: Table) -> TableBounds:
    """Bounds and levels read off the table: not private, whatever noise follows."""
    columns: dict[str, Declaration] = {}
    for name in table.names:
        values = table[name]
        if table.kind(name) == "text":
            columns[name] = level_names(table, name)
            continue
        low, high = float(values.min()), float(values.max())
        # A constant column has no range. Any range does: its one value stays where it is.
        columns[name] = Range(low, high if high > low else low + 1.0, low + (high - low) / 2)
    return TableBounds(columns, public=False)


def component_rows(
    table: Table,
    declared: TableBounds,
    person: str | None,
    excluded: Sequence[str] = (),
    every_person: Sequence[Hashable | None] = (),
) -> ComponentRows:
    """Numbers and bounds of a table. Refused if a column is not what was declared.

    every_person: the person of each row of the file, incomplete rows included, None for a row without one. Empty if
    all rows are complete.
    """
    encoding, bounds = component_encoding(table, declared, person, excluded)
    X = encoding.design(table)
    ids = None if person is None else tuple(table[person].tolist())
    counts = {} if ids is None else dict(Counter(name for name in every_person or ids if name is not None))
    return ComponentRows(
        X, encoding, bounds, declared, ids, unlisted_labels(encoding, table), table.dropped, counts, table.rows
    )


def component_encoding(
    table: Table, declared: TableBounds, person: str | None, excluded: Sequence[str] = ()
) -> tuple[TableEncoding, Bounds]:
    """How the columns become numbers, and the bounds of these. Only the kinds of the columns are read."""
    names = [name for name in table.names if name != person]
    if not names:
        raise Refusal("the table has no column besides the person: components need some")
    columns = declared.for_columns(names, excluded)
    encoding = TableEncoding(tuple(_source(table, name, columns[name], declared.own_units) for name in columns))
    return encoding, row_bounds(encoding, columns, declared.row_norm)


def unlisted_labels(encoding: TableEncoding, table: Table) -> int:
    """Labels outside the public lists. Internal."""
    return sum(int((label.positions(table) < 0).sum()) for label in encoding.labels)


def first_rows(ids: NDArray[Any], numbers: Index) -> NDArray[np.int64]:
    """(n,) the smallest number among the rows of each row's person.

    >>> first_rows(np.array(["a", "b", "a"], dtype=object), np.array([7, 4, 5])).tolist()
    [5, 4, 5]
    """
    code: dict[Hashable, int] = {}
    person = np.array([code.setdefault(name, len(code)) for name in ids.tolist()], dtype=np.intp)
    first = np.full(len(code), np.iinfo(np.int64).max)
    np.minimum.at(first, person, numbers)
    return np.asarray(first[person])


def _source(table: Table, name: str, declaration: Declaration, own_units: bool) -> ColumnEncoding:
    if isinstance(declaration, tuple):
        return CategoryColumn(name, declaration, indicators=True, as_text=name in table.texts)
    if table.kind(name) == "text":
        raise text_refusal(name)
    # Not clipped here: the release clips rows, and counts what it clips.
    return NumberColumn(name) if own_units else RangeColumn(name, declaration.lower, declaration.upper, clip=False)


def row_bounds(encoding: TableEncoding, declared: Mapping[str, Declaration], row_norm: float | None) -> Bounds:
    """Public bounds and centre of each column of the design; an indicator lies between 0 and 1 and is not centred."""
    box: list[FloatArray] = []
    for source in encoding.sources:
        declaration = declared[source.name]
        if isinstance(declaration, tuple):
            box += [np.array([0.0, 1.0, 0.0])] * len(source.names)
        else:
            ends = np.array([declaration.lower, declaration.upper, declaration.middle])
            box.append(source.place(ends) if isinstance(source, RangeColumn) else ends)
    lower, upper, centre = (np.array(values) for values in zip(*box, strict=True))
    return Bounds(lower, upper, _norm(encoding, lower, upper, centre, row_norm), centre)


def _norm(
    encoding: TableEncoding, lower: FloatArray, upper: FloatArray, centre: FloatArray, declared: float | None
) -> float | None:
    """The declared row norm, but at most what follows from one level a category. All of it is public."""
    if not encoding.labels:
        return declared
    reach = np.maximum(np.abs(lower - centre), np.abs(upper - centre))[: len(encoding.numbers)]
    # Not the root of a sum of squares: bounds of 1e200 are refused later, in one line, and must not overflow here.
    most = math.hypot(*reach, math.sqrt(len(encoding.labels)))
    return most if declared is None else min(most, declared)


def _reordered(pca: Any, encoding: TableEncoding) -> Any:
    """The PCA with its inputs in the order of the pipeline: levels that are whole numbers stand in ascending order."""
    order = input_order(encoding)
    pca.mean_, pca.components_ = pca.mean_[order], np.ascontiguousarray(pca.components_[:, order])
    return pca


def fitted_pipeline(rows: ComponentRows, private: PrivateComponents, k: int) -> Any:
    """A fitted Pipeline over the source columns, as `encoded_pipeline`."""
    return encoded_pipeline(rows.encoding, private, k)


def encoded_pipeline(encoding: TableEncoding, private: PrivateComponents, k: int) -> Any:
    """A fitted Pipeline over the source columns: public bounds, then a scikit-learn PCA with k released components.

    `recipe_` is a plain dict of the public constants. Nothing in it needs this package.
    """
    model = pipeline(encoding, _reordered(principal_components(private, k), encoding), step="components")
    recipe = private.release.recipe
    model.recipe_ = {
        "kind": recipe.kind,
        "noise": recipe.noise,
        **dict(recipe.settings),
        "components": k,
        "not_covered": list(recipe.not_covered),
        "private": not recipe.not_covered,
    }
    return model
