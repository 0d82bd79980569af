"""Features of a model, and how each depends on the unknowns of a person: x = Σ slope · unknown + const.

An unknown is a number of the table in its own unit, or one indicator of a categorical column. Everything between the
table and the model is frozen and affine, so one slope per pair describes it (`input_map` in `glm`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.category import simplex, step_of
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_list, safe_text
from dosimeter.tables.column_values import spread

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
    """True if it is a source column as it was read."""
    statistics: frozenset[str] = frozenset()
    """Statistics of the data that it was computed with, held fixed."""
    gaps: NDArray[np.bool_] | None = None
    """(n,) True where the value is still missing; None if none is."""
    standardised: bool = False
    """Whether the last step subtracted its mean and divided by its standard deviation."""
    levels: tuple[Any, ...] = ()
    """For an indicator: all levels that its encoder knows."""
    fill: Any = None
    """The declared constant that replaces a missing value of the source column."""

    def refuse_gaps(self) -> None:
        """Refuse a column with gaps that were not filled."""
        if self.gaps is not None:
            row = int(np.argmax(self.gaps))
            raise Refusal(
                f"column {safe_text(self.name)} has no value in row {row} (from 0), and no SimpleImputer of the model "
                "fills it: fill it or leave the row out"
            )

    @property
    def numbers(self) -> FloatArray:
        """(n,) float64; text is refused."""
        if self.values.dtype.kind not in "fb":
            raise Refusal(
                f"column {safe_text(self.name)} holds text where the model saw numbers: pass the training table"
            )
        return np.asarray(self.values, dtype=np.float64)

    def affine(self, factor: float, shift: float, statistic: str = "") -> Feature:
        """factor · x + shift, with constants that are the named statistic of the data."""
        feature = replace(
            self,
            values=factor * self.numbers + shift,
            slopes={unknown: factor * slope for unknown, slope in self.slopes.items()},
            raw=False,
            standardised=False,
        )
        return replace(feature, statistics=self.statistics | {statistic}) if statistic else feature


@dataclass(frozen=True, eq=False)
class Design:
    """The model's design matrix, and how it depends on the source columns."""

    X: FloatArray
    """(n, d)."""
    names: tuple[str, ...]
    """(d,) the features."""
    through: FloatArray
    """(d, m) dX/d unknown, in the source columns' own units."""
    blocks: dict[str, tuple[int, ...]]
    """Every source column in the table's order -> positions of its unknowns; () for a dropped column."""
    vertices: dict[str, FloatArray]
    """Every category -> (k, m') its levels in the coordinates of its unknowns, one apart (`core/category.py`).

    A column of two values is a category, however it is written: its unknown is the step between them."""
    spread: FloatArray
    """(m,) standard deviation of each unknown over the rows; 1 for categories and constants."""
    uncovered: tuple[str, ...] = ()
    known: NDArray[np.bool_] | None = None
    """(n, m) True where a cell was filled: it is a constant, not an unknown. None if no cell was filled."""
    fitted: Any = ()
    """(d,) which features were standardised by mean and deviation (1/n) of exactly these rows; empty for none."""

    def read(self, leak: glm.Leakage) -> glm.Leakage:
        """The leakage with filled cells as constants instead of unknowns."""
        return leak if self.known is None else glm.with_known(leak, self.known)

    @property
    def nominal(self) -> frozenset[str]:
        """The categories."""
        return frozenset(self.vertices)


def known_cells(
    blocks: Mapping[str, Sequence[int]], gaps: Mapping[str, NDArray[np.bool_]], n: int, m: int
) -> NDArray[np.bool_] | None:
    """(n, m) True for the unknowns of cells that were missing; None if there are none."""
    masks = {name: mask for name, mask in gaps.items() if blocks.get(name)}
    if not masks:
        return None
    known = np.zeros((n, m), dtype=bool)
    for name, mask in masks.items():
        known[:, list(blocks[name])] = mask[:, None]
    return known


def raw_feature(name: str, column: NDArray[Any], gaps: NDArray[np.bool_] | None = None) -> Feature:
    """A source column (n,) as it was read; gaps: (n,) where it has no value."""
    slopes: dict[Unknown, float] = {} if column.dtype.kind == "O" else {(name, None): 1.0}
    return Feature(name, column, slopes, raw=True, gaps=gaps)


def assemble(
    features: Sequence[Feature],
    columns: Mapping[str, NDArray[Any]],
    sources: Sequence[str],
    gaps: Mapping[str, NDArray[np.bool_]] | None = None,
) -> Design:
    """The matrix of the features; `columns` were read, `sources` are all of them in the table's order.

    gaps: column -> where it had no value and an imputer filled it.
    """
    if not features:
        raise CannotMeasure("the model sees no column at all: there is nothing that could leak")
    for feature in features:
        feature.refuse_gaps()
    masks = gaps or {}
    unknowns = _unknowns(features, sources)
    position_of = {unknown: j for j, unknown in enumerate(unknowns)}
    through = np.zeros((len(features), len(unknowns)))
    for i, feature in enumerate(features):
        for unknown, slope in feature.slopes.items():
            through[i, position_of[unknown]] = slope
    blocks = {name: tuple(j for j, (source, _) in enumerate(unknowns) if source == name) for name in sources}
    labels = {source for source, level in unknowns if level is not None}
    observed = {name: columns[name] for name in blocks if name in columns}
    observed |= {name: observed[name][~mask] for name, mask in masks.items() if name in observed}
    vertices = categories(through, blocks, labels, observed)
    return Design(
        X=np.column_stack([feature.numbers for feature in features]),
        names=tuple(feature.name for feature in features),
        through=through,
        blocks=blocks,
        vertices=vertices,
        spread=np.array(
            [1.0 if source in vertices else _spread(columns[source], masks.get(source)) for source, _ in unknowns]
        ),
        uncovered=_uncovered(features),
        known=known_cells(blocks, masks, len(features[0].values), len(unknowns)),
        fitted=_fitted(features),
    )


def _spread(column: NDArray[Any], missing: NDArray[np.bool_] | None) -> float:
    """The spread of the observed values: filled constants would lower it, and every figure with it."""
    return spread(column if missing is None else column[~missing])


def categories(
    through: FloatArray,
    blocks: Mapping[str, tuple[int, ...]],
    labels: Collection[str],
    columns: Mapping[str, NDArray[Any]],
) -> dict[str, FloatArray]:
    """The vertices of every category; `through` (d, m) is converted in place to the coordinates of `core/category.py`.

    labels: columns whose unknowns are indicators of every level but one. Other columns of
    two values are categories too, with the step between the two as their unit.
    """
    vertices = {}
    for name, block in blocks.items():
        if not block:
            continue
        positions = list(block)
        step = None if name in labels or name not in columns else step_of(columns[name])
        if name in labels:
            V = simplex(len(block) + 1)
            through[:, positions] = np.linalg.solve(V[1:] - V[0], through[:, positions].T).T
            vertices[name] = V
        elif step is not None:
            through[:, positions] *= step
            vertices[name] = simplex(2)
    return vertices


def _fitted(features: Sequence[Feature]) -> Any:
    """(d,) standardised features whose values do have mean 0 and deviation 1: scalers of other rows do not."""
    standardised = [f.standardised and _has_mean_0_and_deviation_1(f.numbers) for f in features]
    return np.array(standardised, dtype=bool) if any(standardised) else ()


def _has_mean_0_and_deviation_1(values: FloatArray) -> bool:
    return bool(abs(values.mean()) < 1e-7 and abs(values.std() - 1.0) < 1e-7)


def _unknowns(features: Sequence[Feature], sources: Sequence[str]) -> list[Unknown]:
    """In the table's order, levels in the order in which the encoder lists them."""
    unknowns = dict.fromkeys(unknown for feature in features for unknown in feature.slopes)
    order = {name: k for k, name in enumerate(sources)}
    ranked = sorted(unknowns, key=lambda unknown: order[unknown[0]])  # stable, so levels keep their order
    numbers, labels = ({s for s, level in unknowns if (level is None) is want} for want in (True, False))
    both = sorted(numbers & labels)
    if both:
        raise CannotMeasure(
            f"column {safe_text(both[0])} enters both as a number and as labels, so its cell is not one "
            "unknown: give the model one of the two"
        )
    return ranked


def _uncovered(features: Sequence[Feature]) -> tuple[str, ...]:
    """One sentence for each statistic of the data that was held fixed."""
    by_statistic: dict[str, dict[str, None]] = {}
    for feature in features:
        for statistic in sorted(feature.statistics):
            sources = by_statistic.setdefault(statistic, {})
            sources.update(dict.fromkeys(source for source, _ in feature.slopes))
    return tuple(held_fixed(statistic, names) for statistic, names in by_statistic.items())


def held_fixed(statistic: str, names: Iterable[str]) -> str:
    """The sentence for a statistic of the data that the figures treat as a constant."""
    return f"{statistic} of {safe_list(names)} are statistics of the data, held fixed: not covered"
