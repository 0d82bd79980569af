"""A table and its declared bounds made into rows of numbers, and components into a scikit-learn object."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text
from dosimeter.pca.bounds import Bounds
from dosimeter.pca.sensitivity import REPLACE
from dosimeter.tables.bounds_file import CategoryBounds, Declared, NumberBounds
from dosimeter.tables.table import Table

if TYPE_CHECKING:
    from dosimeter.pca.release import PrivateComponents

_FAR = 1e100
"""Beyond any bounds: a value that overflows while it is scaled is clamped like one that does not."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The table as numbers, with the public bounds that hold for them."""

    X: FloatArray
    """(n, d): numbers scaled so that their bounds are -1 and 1 (or as they are), then an indicator for each level."""
    columns: tuple[NumberBounds | CategoryBounds, ...]
    bounds: Bounds
    declared: Declared
    ids: tuple[Hashable, ...] | None
    unknown: int
    """Labels outside the public list: all their indicators are 0. Internal."""
    incomplete: int = 0
    """Rows of the table that X has not: a value is missing or cannot be read. Internal."""
    counts: Mapping[Hashable, int] = field(default_factory=dict)
    """Rows of each person, incomplete ones among them; empty where no person was named. Internal."""

    @property
    def absent(self) -> list[Hashable]:
        """People of whom no row is complete. Internal."""
        there = set(self.ids or ())
        return [who for who in self.counts if who not in there]

    @property
    def most_rows(self) -> int:
        """Rows of the person with the most. Internal."""
        return max(self.counts.values(), default=1)

    @property
    def numbers(self) -> list[NumberBounds]:
        """The first columns of X."""
        return [c for c in self.columns if isinstance(c, NumberBounds)]

    @property
    def categories(self) -> list[CategoryBounds]:
        """The others."""
        return [c for c in self.columns if isinstance(c, CategoryBounds)]

    def given(self, relation: str) -> tuple[FloatArray, list[Hashable] | None]:
        """What a release is made of: rows (m, d), and whose they are where a person is the unit.

        Where one is replaced and N is counted, nobody may fall out of the count for a gap: the public centre, held to
        its bounds, stands for each incomplete row, or for each person without a complete row. Where N is declared such
        rows add nothing.
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
        """N where it is declared: of people or rows that may come and go, or of people who are replaced."""
        return self.declared.n if relation != REPLACE or self.ids is not None else None


def from_table(table: Table) -> Declared:
    """Bounds and levels read off the table: not private, whatever noise follows."""
    columns: dict[str, NumberBounds | CategoryBounds] = {}
    for name in table.names:
        values = table[name]
        if table.kind(name) == "text":
            columns[name] = CategoryBounds(name, tuple(sorted(set(values.tolist()))))
            continue
        low, high = float(values.min()), float(values.max())
        # A constant column has no range of its own; any will do, its one value stays where it is.
        columns[name] = NumberBounds(name, low, high if high > low else low + 1.0, low + (high - low) / 2)
    return Declared(columns, public=False)


def prepare(
    table: Table,
    declared: Declared,
    person: str | None,
    dropped: Sequence[str] = (),
    everybody: Sequence[Hashable | None] = (),
) -> Rows:
    """Numbers and bounds of a table; refused where a column is not what was declared.

    everybody: whose row it is of all rows, the incomplete ones among them, None for nobody's; without it the complete
    ones are all.
    """
    names = [name for name in table.names if name != person]
    if not names:
        raise Refusal("the table has no column besides the person: components need some")
    columns = declared.of(names, dropped)
    parts, lower, upper, centre, unknown = [], [], [], [], 0
    for column in columns:
        if isinstance(column, NumberBounds):
            parts.append(_scaled(table, column, declared.own_units)[:, None])
            ends = np.array([column.lower, column.upper, column.centre])
            low, high, middle = ends if declared.own_units else _to_unit(ends, column)
            lower.append(low)
            upper.append(high)
            centre.append(middle)
        else:
            values = table[column.name].astype(str)
            parts.append((values[:, None] == np.array(column.levels)[None, :]).astype(np.float64))
            unknown += int((parts[-1].sum(axis=1) == 0).sum())
            size = len(column.levels)
            lower, upper, centre = lower + [0.0] * size, upper + [1.0] * size, centre + [0.0] * size
    norm = _norm(columns, np.array(lower), np.array(upper), np.array(centre), declared)
    ids = None if person is None else tuple(table[person].tolist())
    counts = {} if ids is None else dict(Counter(who for who in everybody or ids if who is not None))
    held = Bounds(lower, upper, norm, centre)
    return Rows(np.hstack(parts), columns, held, declared, ids, unknown, table.dropped, counts)


def _scaled(table: Table, column: NumberBounds, own_units: bool) -> FloatArray:
    if table.kind(column.name) == "text":
        what = f"column {safe_text(column.name)} holds text, and lower and upper were declared"
        raise Refusal(f"{what}: declare levels = [...] for a category, or --drop it")
    values = np.asarray(table[column.name], dtype=np.float64)
    return values if own_units else _to_unit(values, column)


def _to_unit(values: FloatArray, column: NumberBounds) -> FloatArray:
    """-1 at lower, 1 at upper; what lies outside is clamped later, and counted there."""
    with np.errstate(over="ignore"):
        placed = 2 * ((values - column.lower) / (column.upper - column.lower)) - 1
    return np.asarray(np.clip(placed, -_FAR, _FAR))


def _norm(
    columns: Sequence[NumberBounds | CategoryBounds],
    lower: FloatArray,
    upper: FloatArray,
    centre: FloatArray,
    told: Declared,
) -> float | None:
    """The declared row norm; with categories at most what follows from one level a category: all of it public."""
    if not any(isinstance(c, CategoryBounds) for c in columns):
        return told.row_norm
    d = sum(isinstance(c, NumberBounds) for c in columns)
    reach = np.maximum(np.abs(lower - centre), np.abs(upper - centre))[:d]
    # Not the root of a sum of squares: bounds of 1e200 are refused later, in one line, and must not overflow here.
    most = math.hypot(*reach, math.sqrt(len(columns) - d))
    return most if told.row_norm is None else min(most, told.row_norm)


def pipeline(rows: Rows, made: PrivateComponents, k: int) -> Any:
    """A fitted Pipeline over the source columns: public bounds, then a scikit-learn PCA with the released components.

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
        levels = [list(c.levels) for c in labels]
        encoder = OneHotEncoder(categories=levels, handle_unknown="ignore", sparse_output=False)
        parts.append(("labels", encoder, list(range(len(numbers), len(numbers) + len(labels)))))
    before = ColumnTransformer(parts).fit(_example(numbers, labels))
    # Fitted on an array, so that no dataframe library is needed; with the names, frames are read by name.
    before.feature_names_in_ = np.array([c.name for c in rows.columns], dtype=object)
    for name, group in (("numbers", numbers), ("labels", labels)):
        step = before.named_transformers_.get(name)
        if group and not isinstance(step, str):
            step.feature_names_in_ = np.array([c.name for c in group], dtype=object)
    model = Pipeline([("columns", before), ("components", plain_pca(made, k))])
    recipe = made.release.recipe
    model.recipe_ = {
        "kind": recipe.kind,
        "noise": recipe.noise,
        **dict(recipe.settings),
        "components": k,
        "not_covered": list(recipe.uncovered),
        "private": not recipe.uncovered,
    }
    return model


def plain_pca(made: PrivateComponents, k: int) -> Any:
    """scikit-learn's PCA carrying k released components; its variances are those of the noisy second moment."""
    from sklearn.decomposition import PCA

    found, d = made.components, made.box.d
    model = PCA(n_components=k)
    model.components_ = np.ascontiguousarray(found.vectors[:, :k].T)
    model.mean_ = found.mean.copy()
    model.explained_variance_ = found.values[:k].copy()
    total = float(found.values.sum())
    model.explained_variance_ratio_ = model.explained_variance_ / total if total > 0 else np.zeros(k)
    model.singular_values_ = np.sqrt(model.explained_variance_ * made.n_samples)
    model.noise_variance_ = float(found.values[k:].mean()) if k < d else 0.0
    model.n_components_, model.n_samples_, model.n_features_in_ = k, made.n_samples, d
    return model


def _example(numbers: Sequence[NumberBounds], labels: Sequence[CategoryBounds]) -> Any:
    """Two or more made-up rows at the public bounds: what the transformers are fitted on instead of people."""
    size = max([2, *(len(c.levels) for c in labels)])
    made = np.zeros((size, len(numbers) + len(labels)), dtype=object if labels else np.float64)
    for j, number in enumerate(numbers):
        made[:, j] = number.lower
        made[1, j] = number.upper
    for j, label in enumerate(labels):
        made[:, len(numbers) + j] = [label.levels[i % len(label.levels)] for i in range(size)]
    return made
