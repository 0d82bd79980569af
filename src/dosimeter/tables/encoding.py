"""The encoding of a table: one column kind for each source column, one design matrix.

Numbers are standardised, scaled by public bounds, left as they are, or standardised by each part of the rows. Levels
come from the data (`learned_encoding`), from a public table, or from a declaration (`declared_bounds`). A category of k
levels becomes k indicators, or k - 1 columns: the corners of a simplex (`core/category.py`), -1/2 and 1/2 for two
levels, so that penalty, noise and figures do not depend on which level comes first.

A fit reads the leakage of a number in its original units u through dx/du, so its figures do not depend on these
coordinates. `sklearn_export` turns an encoding and an estimator into a scikit-learn pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.location import advice
from dosimeter.core.text import safe_text
from dosimeter.tables.column_encoding import CategoryColumn, ColumnEncoding, NumberColumn, NumericColumn, PartColumn
from dosimeter.tables.table import Table

PANEL = 1 << 11
"""Rows of a design that are written together."""


@dataclass(frozen=True)
class TableEncoding:
    """How columns become a design matrix. Holds no rows, only constants and levels.

    sources: one for each source column, in the order of the design. constant: columns left out because they have one
    value, as `remarks` report.

    >>> table = Table.of({"sex": ["m", "f"], "age": [60, 45]})
    >>> encoding = TableEncoding((NumberColumn("age", centre=50, scale=10), CategoryColumn("sex", ("f", "m"))))
    >>> encoding.design(table)
    array([[ 1. ,  0.5], [-0.5, -0.5]])
    >>> encoding.names, encoding.blocks
    (('age', 'sex=m'), {'age': (0,), 'sex': (1,)})
    """

    sources: tuple[ColumnEncoding, ...]
    constant: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.sources:
            raise Refusal("no column varies: there is nothing to fit")
        if all(label.indicators for label in self.labels):
            return  # indicators are known by their place
        used: set[str] = set()
        for name in self.names:
            if name in used:
                raise Refusal(f"two numbers of the design are called {safe_text(name)}: rename the column")
            used.add(name)

    def design(self, table: Table, parts: Sequence[Index] | None = None) -> FloatArray:
        """X, (n, d). parts: the rows of each part that standardises by itself; by default all rows are one part."""
        whole = (np.arange(table.n),) if parts is None else parts
        columns = [s.design(table, whole) if isinstance(s, PartColumn) else s.design(table) for s in self.sources]
        X = np.empty((table.n, sum(column.shape[1] for column in columns)))
        for i in range(0, table.n, PANEL):  # the rows of a panel stay in the cache while each column is written
            np.concatenate([column[i : i + PANEL] for column in columns], axis=1, out=X[i : i + PANEL])
        return X

    @property
    def numbers(self) -> tuple[NumericColumn, ...]:
        """The columns of numbers."""
        return tuple(s for s in self.sources if not isinstance(s, CategoryColumn))

    @property
    def labels(self) -> tuple[CategoryColumn, ...]:
        """The columns of labels."""
        return tuple(s for s in self.sources if isinstance(s, CategoryColumn))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of X, (d,)."""
        return tuple(name for source in self.sources for name in source.names)

    @property
    def unknowns(self) -> tuple[str, ...]:
        """The unknowns of a person, (m,): each number in its own unit, each coordinate of a simplex. Here m = d."""
        return self.names

    @property
    def centre(self) -> FloatArray:
        """(d,); 0 for labels."""
        return np.array([_centre_and_scale(s)[0] for s in self.sources for _ in s.names])

    @property
    def scale(self) -> FloatArray:
        """(d,); 1 for labels."""
        return np.array([_centre_and_scale(s)[1] for s in self.sources for _ in s.names])

    @property
    def fitted(self) -> NDArray[np.bool_]:
        """(d,) which columns of X are standardised by the table's own mean and deviation."""
        return np.array([isinstance(s, NumberColumn) and s.fitted for s in self.sources for _ in s.names])

    @property
    def input_map(self) -> FloatArray:
        """dx/du, (d, m): 1/scale for a number, 1 for a coordinate of a simplex."""
        return np.diag(1.0 / self.scale)

    @property
    def blocks(self) -> dict[str, tuple[int, ...]]:
        """Source column -> positions of its unknowns; a constant column has none and is not listed."""
        spans: dict[str, tuple[int, ...]] = {}
        first = 0
        for source in self.sources:
            spans[source.name] = tuple(range(first, first + len(source.names)))
            first += len(source.names)
        return spans

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the reader of the figures must know about this choice of columns."""
        return tuple(f"column {safe_text(name)} has one value only and is left out" for name in self.constant)

    def block(self, name: str) -> tuple[int, ...]:
        """Positions of a source column among the unknowns; a column that is not in the design is refused."""
        if name not in self.blocks:
            raise Refusal(f"there is no column {safe_text(name)} in the design: {advice(name, self.blocks)}")
        return self.blocks[name]


def _centre_and_scale(source: ColumnEncoding) -> tuple[float, float]:
    if isinstance(source, CategoryColumn):
        return 0.0, 1.0
    if isinstance(source, NumberColumn):
        return source.centre, source.scale
    raise CannotMeasure(f"column {safe_text(source.name)} is not encoded for a fit: it has no centre and scale")
