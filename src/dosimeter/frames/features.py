"""Features of a model and how each follows from what is unknown of a person: x = Σ slope · unknown + const.

An unknown is a number of the table in its own unit, or one indicator of a nominal column. All that lies
between the table and the model is frozen and affine, so one slope a pair says all (`through` in `glm`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.notion import FloatArray
from dosimeter.core.refusal import CannotMeasure, Refusal
from dosimeter.io.text import harmless, listed

Unknown = tuple[str, str | None]
"""(source column, level), the level None for a number."""


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
    slopes: Mapping[Unknown, float] = field(default_factory=dict)
    raw: bool = False
    """True while it is a source column as it was read."""
    statistics: frozenset[str] = frozenset()
    """What was taken from the data to make it and is held fixed."""

    @property
    def numbers(self) -> FloatArray:
        """(n,) float64; text is refused."""
        if self.values.dtype.kind not in "fb":
            raise Refusal(
                f"column {harmless(self.name)} holds text where the model saw numbers: pass the training table"
            )
        return np.asarray(self.values, dtype=np.float64)

    def affine(self, factor: float, shift: float, statistic: str = "") -> Feature:
        """factor · x + shift, with constants that are the named statistic of the data."""
        made = replace(
            self,
            values=factor * self.numbers + shift,
            slopes={unknown: factor * slope for unknown, slope in self.slopes.items()},
            raw=False,
        )
        return replace(made, statistics=self.statistics | {statistic}) if statistic else made


@dataclass(frozen=True, eq=False)
class Design:
    """The model's matrix and its way back to the source columns."""

    X: FloatArray
    """(n, d)."""
    names: tuple[str, ...]
    """(d,) the features."""
    through: FloatArray
    """(d, m) dX/d unknown, in the source columns' own units."""
    blocks: dict[str, tuple[int, ...]]
    """Every source column in the table's order -> positions of its unknowns; none for one that is dropped."""
    nominal: frozenset[str]
    """Source columns whose unknowns are indicators."""
    spread: FloatArray
    """(m,) standard deviation of each unknown over the rows; 1 for indicators, booleans and constants."""
    uncovered: tuple[str, ...] = ()


def raw_feature(name: str, column: NDArray[Any]) -> Feature:
    """A source column (n,) as it was read."""
    slopes: dict[Unknown, float] = {} if column.dtype.kind == "O" else {(name, None): 1.0}
    return Feature(name, column, slopes, raw=True)


def assemble(features: Sequence[Feature], columns: Mapping[str, NDArray[Any]], sources: Sequence[str]) -> Design:
    """The matrix of the features; `columns` were read, `sources` are all of them in the table's order."""
    if not features:
        raise CannotMeasure("the model sees no column at all: there is nothing that could leak")
    unknowns = _unknowns(features, sources)
    place = {unknown: j for j, unknown in enumerate(unknowns)}
    through = np.zeros((len(features), len(unknowns)))
    for i, feature in enumerate(features):
        for unknown, slope in feature.slopes.items():
            through[i, place[unknown]] = slope
    blocks = {name: tuple(j for j, (source, _) in enumerate(unknowns) if source == name) for name in sources}
    return Design(
        X=np.column_stack([feature.numbers for feature in features]),
        names=tuple(feature.name for feature in features),
        through=through,
        blocks=blocks,
        nominal=frozenset(source for source, level in unknowns if level is not None),
        spread=np.array([1.0 if level is not None else spread(columns[source]) for source, level in unknowns]),
        uncovered=_uncovered(features),
    )


def spread(column: NDArray[Any]) -> float:
    """Standard deviation (as StandardScaler's, 1/n); 1 for booleans and for a column that does not vary."""
    if column.dtype.kind == "b":
        return 1.0
    numbers = np.asarray(column, dtype=np.float64)
    size = float(np.abs(numbers).max(initial=0.0))
    deviation = float((numbers / size).std()) * size if size > 0 else 0.0
    return deviation if deviation > 1e-12 * size else 1.0


def _unknowns(features: Sequence[Feature], sources: Sequence[str]) -> list[Unknown]:
    """In the table's order, levels in the order in which the encoder lists them."""
    found = dict.fromkeys(unknown for feature in features for unknown in feature.slopes)
    order = {name: k for k, name in enumerate(sources)}
    ranked = sorted(found, key=lambda unknown: order[unknown[0]])  # stable, so levels keep their order
    numbers, labels = ({s for s, level in found if (level is None) is want} for want in (True, False))
    both = sorted(numbers & labels)
    if both:
        raise CannotMeasure(
            f"column {harmless(both[0])} enters both as a number and as labels, so its cell is not one "
            "unknown: "
            "give the model one of the two"
        )
    return ranked


def _uncovered(features: Sequence[Feature]) -> tuple[str, ...]:
    """One sentence for each statistic of the data that was held fixed."""
    by_statistic: dict[str, dict[str, None]] = {}
    for feature in features:
        for statistic in sorted(feature.statistics):
            found = by_statistic.setdefault(statistic, {})
            found.update(dict.fromkeys(source for source, _ in feature.slopes))
    return tuple(held_fixed(statistic, names) for statistic, names in by_statistic.items())


def held_fixed(statistic: str, names: Iterable[str]) -> str:
    """The sentence for a statistic of the data that the figures take for a constant."""
    return f"{statistic} of {listed(names)} are statistics of the data, held fixed: not covered"
