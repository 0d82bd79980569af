"""One column on its way into the model, and how it depends on the unknowns of a person.

An unknown is a number of the table in its own unit, or one indicator of a categorical column. Behind affine steps a
feature is x = Σ slope · unknown + const. Behind a smooth step the slope of a number differs from row to row. A category
behind such a step has no slope: the feature is bent in it, and is evaluated at every level instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text
from dosimeter.glm.linalg.sparse_table import Table

LEVELS = "the levels"
"""What an encoder learns: which levels there are. It moves no number."""

MOMENTS = frozenset({"mean", "scale", "mean and scale"})
"""What a StandardScaler learns: statistics that every row moves."""

Unknown = tuple[str, str | None]
"""(source column, level), the level None for a number."""


class Varies(Enum):
    """The type of `VARIES`."""

    VARIES = "varies"


VARIES: Final = Varies.VARIES
"""A slope that is not the same on every row; it is computed for a block of rows at a time."""

Slope = float | FloatArray | Varies
"""One for all rows, (n,) one for each row, or VARIES if they are not computed in this run."""


@dataclass(frozen=True, eq=False)
class Coded:
    """A source column by its distinct cells: it holds cells[codes]."""

    cells: tuple[Any, ...]
    codes: Index
    """(n,)."""


@dataclass(frozen=True, eq=False)
class IndicatorColumn:
    """Whether each row has one level of a category of many: an array that is made when it is asked for."""

    codes: Index
    """(n,) each row's level; shared by the indicators of a category."""
    level: int
    dtype: ClassVar[np.dtype[Any]] = np.dtype(bool)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Any:
        return self.codes[rows] == self.level

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.codes == self.level, dtype=dtype)

    def tolist(self) -> list[bool]:
        """As a list of booleans."""
        return np.asarray(self).tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class Feature:
    """One column on its way into the model.

    >>> age = Feature("age", np.array([40.0, 60.0]), {("age", None): 1.0})
    >>> age.affine(0.1, -5.0, "mean and scale").values
    array([-1.,  1.])
    """

    name: str
    values: NDArray[Any]
    """(n,) numbers, or text for a source column that is not encoded yet."""
    slopes: Mapping[Unknown, Slope] = field(default_factory=dict)
    raw: bool = False
    """True if it is a source column as it was read."""
    statistics: frozenset[str] = frozenset()
    """Statistics of the data that it was computed with, held fixed."""
    gaps: NDArray[np.bool_] | None = None
    """(n,) True where the value is still missing; None if none is."""
    standardised: bool = False
    """Whether the last step subtracted its mean and divided by its standard deviation."""
    of_these_rows: frozenset[str] = frozenset()
    """Those of `statistics` that are statistics of exactly these rows, as its values show."""
    statistic_moves: tuple[FloatArray, FloatArray] | None = None
    """(n,) how each row's value moves the log of the divisor, and the shift, of the scaler that it came through; None
    if there is no scaler of these rows, or it is not known."""
    levels: tuple[Any, ...] = ()
    """For an indicator of a OneHotEncoder: all levels that its encoder knows."""
    fill: Any = None
    """The declared constant that replaces a missing value of the source column."""
    sources: frozenset[str] = frozenset()
    """Every source column that it is computed from."""
    bent: frozenset[str] = frozenset()
    """Sources in which it has no slope: it is evaluated at each of their levels."""
    imputed: NDArray[np.bool_] | None = None
    """(n,) True where an imputer filled text; None if none did."""
    coded: Coded | None = None
    """Of a source column that is set to one level after another."""

    def refuse_gaps(self) -> None:
        """Refuse a column with gaps that were not filled."""
        if self.gaps is not None:
            row = int(np.argmax(self.gaps))
            raise Refusal(
                f"column {safe_text(self.name)} has no value in row {row} (from 0), and no SimpleImputer of the model "
                "fills it: fill it or leave the row out"
            )

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers."""
        return self.values.dtype.kind in "fb"

    @property
    def numbers(self) -> FloatArray:
        """(n,) float64; text is refused."""
        if not self.is_number:
            raise Refusal(
                f"column {safe_text(self.name)} holds text where the model saw numbers: pass the training table"
            )
        return np.asarray(self.values, dtype=np.float64)

    def is_scaled_by_these_rows(self, nominal: Collection[str]) -> bool:
        """Whether constants that it came through are moved by single rows; nominal: the categories among its sources.

        The ends of a category are its values, and no statistic.
        """
        numbers = any(source not in nominal for source, _ in self.slopes)
        return bool(self.of_these_rows and numbers) or bool(self.of_these_rows & MOMENTS)

    def affine(self, factor: float, shift: float, statistic: str = "") -> Feature:
        """factor · x + shift, with constants that are the named statistic of the data."""
        feature = replace(
            self,
            values=factor * self.numbers + shift,
            slopes={unknown: times(slope, factor) for unknown, slope in self.slopes.items()},
            raw=False,
            standardised=False,
            statistic_moves=None,
        )
        return replace(feature, statistics=self.statistics | {statistic}) if statistic else feature


def times(slope: Slope, factor: float | FloatArray) -> Slope:
    """factor · slope."""
    return slope if isinstance(slope, Varies) else factor * slope


def raw_feature(name: str, column: NDArray[Any], gaps: NDArray[np.bool_] | None = None) -> Feature:
    """A source column (n,) as it was read; gaps: (n,) where it has no value."""
    slopes: dict[Unknown, Slope] = {} if column.dtype.kind == "O" else {(name, None): 1.0}
    return Feature(name, column, slopes, raw=True, gaps=gaps, sources=frozenset({name}))


Features = tuple[Feature, ...]


LARGE = 1 << 24
"""Numbers of a table from which indicators of many levels stay sparse: 134 MB."""


def table_of(features: Features) -> Table:
    """(n, d) as `matrix_of`; a scipy.sparse table if it is large and most columns are indicators of many levels."""
    n, indicators = len(features[0].values), [isinstance(feature.values, IndicatorColumn) for feature in features]
    if n * len(features) <= LARGE or np.mean(indicators) < 0.8:
        return matrix_of(features)
    columns: list[tuple[Index, FloatArray]] = []
    kept_order: dict[int, tuple[Index, Index]] = {}
    for feature in features:
        values: Any = feature.values
        if isinstance(values, IndicatorColumn):
            if id(values.codes) not in kept_order:
                order = np.argsort(values.codes, kind="stable")
                kept_order[id(values.codes)] = (order, values.codes[order])
            order, ordered = kept_order[id(values.codes)]
            first, last = np.searchsorted(ordered, [values.level, values.level + 1])
            rows = np.sort(order[first:last])
            columns.append((rows, np.ones(len(rows))))
        else:
            numbers = feature.numbers
            rows = np.flatnonzero(numbers)
            columns.append((rows, numbers[rows]))
    ends = np.cumsum([0, *(len(rows) for rows, _ in columns)])
    data, indices = (np.concatenate([column[k] for column in columns]) for k in (1, 0))
    return sparse.csr_array(sparse.csc_array((data, indices, ends), shape=(n, len(features))))


def matrix_of(features: Features) -> FloatArray:
    """(n, d) the values of features that hold numbers."""
    X = np.empty((len(features[0].values), len(features)))
    for j, feature in enumerate(features):
        X[:, j] = feature.numbers
    return X
