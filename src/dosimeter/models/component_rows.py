"""A table with declared bounds as rows of numbers, and components as a scikit-learn object."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.pca.bounds import Bounds
from dosimeter.pca.sensitivity import REPLACE
from dosimeter.tables.bounds_file import CategoryBounds, NumberBounds, TableBounds
from dosimeter.tables.table import Table

if TYPE_CHECKING:
    from dosimeter.pca.release import PrivateComponents

_FAR = 1e100
"""Beyond any bounds: a value that overflows when scaled is clamped like any other."""


@dataclass(frozen=True, eq=False)
class ComponentRows:
    """The table as numbers, with the public bounds that hold for them."""

    X: FloatArray
    """(n, d): numbers scaled so that their bounds are -1 and 1 (or as they are), then an indicator for each level."""
    columns: tuple[NumberBounds | CategoryBounds, ...]
    bounds: Bounds
    declared: TableBounds
    ids: tuple[Hashable, ...] | None
    unlisted: int
    """Labels outside the public list: all their indicators are 0. Internal."""
    incomplete: int = 0
    """Rows of the table that are not in X: a value is missing or cannot be read. Internal."""
    counts: Mapping[Hashable, int] = field(default_factory=dict)
    """Rows of each person, incomplete rows included; empty if no person was named. Internal."""

    @property
    def absent(self) -> list[Hashable]:
        """People without a complete row. Internal."""
        present = set(self.ids or ())
        return [person for person in self.counts if person not in present]

    @property
    def most_rows(self) -> int:
        """Rows of the person with the most. Internal."""
        return max(self.counts.values(), default=1)

    @property
    def numbers(self) -> list[NumberBounds]:
        """The first columns of X."""
        return [column for column in self.columns if isinstance(column, NumberBounds)]

    @property
    def categories(self) -> list[CategoryBounds]:
        """The other columns."""
        return [column for column in self.columns if isinstance(column, CategoryBounds)]

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
    columns: dict[str, NumberBounds | CategoryBounds] = {}
    for name in table.names:
        values = table[name]
        if table.kind(name) == "text":
            columns[name] = CategoryBounds(name, tuple(sorted(set(values.tolist()))))
            continue
        low, high = float(values.min()), float(values.max())
        # A constant column has no range. Any range does: its one value stays where it is.
        columns[name] = NumberBounds(name, low, high if high > low else low + 1.0, low + (high - low) / 2)
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
    names = [name for name in table.names if name != person]
    if not names:
        raise Refusal("the table has no column besides the person: components need some")
    columns = declared.for_columns(names, excluded)
    parts, lower, upper, centre, unlisted = [], [], [], [], 0
    for column in columns:
        if isinstance(column, NumberBounds):
            parts.append(_scale(table, column, declared.own_units)[:, None])
            ends = np.array([column.lower, column.upper, column.centre])
            low, high, middle = ends if declared.own_units else _to_unit(ends, column)
            lower.append(low)
            upper.append(high)
            centre.append(middle)
        else:
            values = table[column.name].astype(str)
            parts.append((values[:, None] == np.array(column.levels)[None, :]).astype(np.float64))
            unlisted += int((parts[-1].sum(axis=1) == 0).sum())
            size = len(column.levels)
            lower, upper, centre = lower + [0.0] * size, upper + [1.0] * size, centre + [0.0] * size
    norm = _norm(columns, np.array(lower), np.array(upper), np.array(centre), declared)
    ids = None if person is None else tuple(table[person].tolist())
    counts = {} if ids is None else dict(Counter(name for name in every_person or ids if name is not None))
    bounds = Bounds(lower, upper, norm, centre)
    return ComponentRows(np.hstack(parts), columns, bounds, declared, ids, unlisted, table.dropped, counts)


def _scale(table: Table, column: NumberBounds, own_units: bool) -> FloatArray:
    if table.kind(column.name) == "text":
        conflict = f"column {safe_text(column.name)} holds text, and lower and upper were declared"
        raise Refusal(f"{conflict}: declare levels = [...] for a category, or leave it out ({option('exclude')})")
    values = np.asarray(table[column.name], dtype=np.float64)
    return values if own_units else _to_unit(values, column)


def _to_unit(values: FloatArray, column: NumberBounds) -> FloatArray:
    """-1 at lower, 1 at upper; values outside are clamped and counted later."""
    with np.errstate(over="ignore"):
        placed = 2 * ((values - column.lower) / (column.upper - column.lower)) - 1
    return np.asarray(np.clip(placed, -_FAR, _FAR))


def _norm(
    columns: Sequence[NumberBounds | CategoryBounds],
    lower: FloatArray,
    upper: FloatArray,
    centre: FloatArray,
    declared: TableBounds,
) -> float | None:
    """The declared row norm, but at most what follows from one level a category. All of it is public."""
    if not any(isinstance(column, CategoryBounds) for column in columns):
        return declared.row_norm
    d = sum(isinstance(column, NumberBounds) for column in columns)
    reach = np.maximum(np.abs(lower - centre), np.abs(upper - centre))[:d]
    # Not the root of a sum of squares: bounds of 1e200 are refused later, in one line, and must not overflow here.
    most = math.hypot(*reach, math.sqrt(len(columns) - d))
    return most if declared.row_norm is None else min(most, declared.row_norm)


def fitted_pipeline(rows: ComponentRows, private: PrivateComponents, k: int) -> Any:
    """A fitted Pipeline over the source columns: public bounds, then a scikit-learn PCA with k released components.

    `recipe_` is a plain dict of the public constants. Nothing in it needs this package.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

    numbers, labels = rows.numbers, rows.categories
    parts: list[Any] = []
    if numbers:
        scaler = "passthrough" if rows.declared.own_units else MinMaxScaler(feature_range=(-1, 1), clip=True)
        parts.append(("numbers", scaler, list(range(len(numbers)))))
    if labels:
        levels = [list(column.levels) for column in labels]
        encoder = OneHotEncoder(categories=levels, handle_unknown="ignore", sparse_output=False)
        parts.append(("labels", encoder, list(range(len(numbers), len(numbers) + len(labels)))))
    encoding = ColumnTransformer(parts).fit(_example(numbers, labels))
    # Fitted on an array, so that no dataframe library is needed; with the names, frames are read by name.
    encoding.feature_names_in_ = np.array([column.name for column in rows.columns], dtype=object)
    for name, group in (("numbers", numbers), ("labels", labels)):
        step = encoding.named_transformers_.get(name)
        if group and not isinstance(step, str):
            step.feature_names_in_ = np.array([column.name for column in group], dtype=object)
    model = Pipeline([("columns", encoding), ("components", sklearn_pca(private, k))])
    recipe = private.release.recipe
    model.recipe_ = {
        "kind": recipe.kind,
        "noise": recipe.noise,
        **dict(recipe.settings),
        "components": k,
        "not_covered": list(recipe.uncovered),
        "private": not recipe.uncovered,
    }
    return model


def sklearn_pca(private: PrivateComponents, k: int) -> Any:
    """scikit-learn's PCA with k released components; its variances are those of the noisy second moment."""
    from sklearn.decomposition import PCA

    components, d = private.components, private.box.d
    model = PCA(n_components=k)
    model.components_ = np.ascontiguousarray(components.vectors[:, :k].T)
    model.mean_ = components.mean.copy()
    model.explained_variance_ = components.values[:k].copy()
    total = float(components.values.sum())
    model.explained_variance_ratio_ = model.explained_variance_ / total if total > 0 else np.zeros(k)
    model.singular_values_ = np.sqrt(model.explained_variance_ * private.n_samples)
    model.noise_variance_ = float(components.values[k:].mean()) if k < d else 0.0
    model.n_components_, model.n_samples_, model.n_features_in_ = k, private.n_samples, d
    return model


def _example(numbers: Sequence[NumberBounds], labels: Sequence[CategoryBounds]) -> Any:
    """Two or more made-up rows at the public bounds: the transformers are fitted on them instead of people."""
    size = max([2, *(len(column.levels) for column in labels)])
    rows = np.zeros((size, len(numbers) + len(labels)), dtype=object if labels else np.float64)
    for j, number in enumerate(numbers):
        rows[:, j] = number.lower
        rows[1, j] = number.upper
    for j, label in enumerate(labels):
        rows[:, len(numbers) + j] = [label.levels[i % len(label.levels)] for i in range(size)]
    return rows
