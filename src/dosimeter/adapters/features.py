"""Design matrices: the model's columns, and how they depend on the source columns of a table.

Everything between the table and the model is frozen. Affine steps are one constant map (`through`); steps that bend add
a map for each row (`row_map`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dosimeter import glm
from dosimeter.adapters.chain import Chain, KeptRows
from dosimeter.adapters.source_readings import SourceReading, readings
from dosimeter.adapters.steps.feature import MOMENTS, Feature, Unknown, Varies, raw_feature, table_of
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.category import coordinates, simplex, step_of
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.text import safe_list
from dosimeter.glm.linalg.sparse_table import Table, is_sparse
from dosimeter.glm.row_maps.map_parts import level_roots
from dosimeter.tables.column_values import spread

LEVELS_AT_ONCE = 32 << 20
"""Bytes of columns at every level of a category at a time."""

FEW_LEVELS = 256
"""Up to this many levels a category's coordinates are solved for; more by running sums."""


@dataclass(frozen=True, eq=False)
class LearnedScalers:
    """Features behind a scaler of exactly these rows, and how the rows move its constants."""

    features: Index
    """(k,)."""
    by_scale: FloatArray
    """(n, k) as in `glm.scaler.StatisticMoves`."""
    by_mean: FloatArray
    """(n, k)."""
    statistics: tuple[str, ...]
    """What the scalers took from the rows."""
    additive: NDArray[np.bool_]
    """(k,) whether the moves of several rows add: of means and deviations, not of extremes and quantiles."""

    def of_people(self, ids: Sequence[Any], tied: NDArray[np.bool_]) -> LearnedScalers:
        """The same for rows of people. tied: (d,) features of columns that never change within a person.

        The rows of a person share an extreme or a quantile, and move it once, not once each.
        """
        _, person, counts = np.unique(np.array(list(map(str, ids))), return_inverse=True, return_counts=True)
        share = np.where(tied[self.features] & ~self.additive, 1.0 / counts[person][:, None], 1.0)
        return replace(self, by_scale=self.by_scale * share, by_mean=self.by_mean * share)

    def scaled(self, unit: FloatArray) -> LearnedScalers | None:
        """The same if each feature is multiplied by a constant (d,); None if one is 0."""
        own = unit[self.features]
        return None if (own == 0.0).any() else replace(self, by_scale=self.by_scale / own, by_mean=self.by_mean / own)

    def among(self, kept: Index) -> LearnedScalers | None:
        """Those of the features kept, in their new places; None if there is none."""
        place = {int(j): i for i, j in enumerate(kept)}
        chosen = [t for t, j in enumerate(self.features.tolist()) if j in place]
        if not chosen:
            return None
        features = np.array([place[int(self.features[t])] for t in chosen], dtype=np.intp)
        parts = self.by_scale[:, chosen], self.by_mean[:, chosen]
        return LearnedScalers(features, *parts, self.statistics, self.additive[chosen])


@dataclass(frozen=True, eq=False)
class Design:
    """The model's design matrix, and how it depends on the source columns."""

    X: Table
    """(n, d): an array, or a scipy.sparse table where a category has many levels."""
    names: tuple[str, ...]
    """(d,) the features."""
    constant_map: FloatArray
    """(d, m) dX/d unknown where it is the same on every row, in the source columns' own units."""
    blocks: dict[str, tuple[int, ...]]
    """Every source column in the table's order -> positions of its unknowns; () for a dropped column."""
    vertices: dict[str, FloatArray]
    """Every category -> (k, m') its levels in the coordinates of its unknowns, one apart (`core/category.py`).

    A column of two values is a category, however it is written: its unknown is the step between them."""
    spread: FloatArray
    """(m,) standard deviation of each unknown over the rows; 1 for categories and constants."""
    not_covered: tuple[str, ...] = ()
    known: NDArray[np.bool_] | None = None
    """(n, m) True where a cell was filled: it is a constant, not an unknown. None if no cell was filled."""
    fitted: Any = ()
    """(d,) which features were standardised by mean and deviation (1/n) of exactly these rows; empty for none."""
    learned: LearnedScalers | None = None
    """Scalers of these rows by other statistics, and those of `fitted`; None if there is none but those of `fitted`."""
    row_map: glm.RowMap | None = None
    """dX/d unknown of every row, `constant_map` included; None if it is the same on every row."""
    binned: frozenset[str] = frozenset()
    """Numbers that are read as categories of their bins."""
    remarks: tuple[str, ...] = ()
    """On the steps before the model."""
    estimated: bool = False
    """Whether a derivative is by differences."""
    unfoldable: tuple[str, ...] = ()
    """Steps that cannot be folded into weights of the source columns."""
    hints: tuple[str, ...] = ()
    """What may be wrong if the coefficients are not a minimum."""

    def read(self, leak: glm.Leakage) -> glm.Leakage:
        """The leakage with filled cells as constants instead of unknowns."""
        return leak if self.known is None else glm.with_known(leak, self.known)

    def input_map(self, units: FloatArray | float = 1.0) -> Any:
        """dX/d unknown as `glm.measure` takes it, for unknowns in units (m,) of the source columns' own."""
        if self.row_map is None:
            return self.constant_map if isinstance(units, float) and units == 1.0 else self.constant_map * units
        return self.row_map.in_units(
            np.broadcast_to(np.asarray(units, dtype=np.float64), (self.constant_map.shape[1],))
        )

    def touched_by(self, features: Any) -> NDArray[np.bool_]:
        """(m,) whether each unknown moves any of the features (d,) on any row."""
        if self.row_map is not None:
            return self.row_map.touched_by(features)
        return np.asarray(np.any(self.constant_map[np.asarray(features)] != 0.0, axis=0))

    def with_ones(self) -> Design:
        """A last column of ones that no unknown moves."""
        return replace(
            self,
            X=_with_ones(self.X),
            names=(*self.names, "intercept"),
            constant_map=np.vstack([self.constant_map, np.zeros((1, self.constant_map.shape[1]))]),
            row_map=None if self.row_map is None else self.row_map.with_constant_column(),
            fitted=np.append(self.fitted, False) if np.any(self.fitted) else (),
        )

    @property
    def nominal(self) -> frozenset[str]:
        """The categories."""
        return frozenset(self.vertices)


def _with_ones(X: Table) -> Table:
    ones = np.ones((X.shape[0], 1))
    return sparse.csr_array(sparse.hstack([X, ones])) if is_sparse(X) else np.hstack([X, ones])


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


def assemble(chain: Chain, sources: Sequence[str]) -> Design:
    """The design behind the steps; `sources` are all columns of the table, in its order."""
    features = chain.features
    if not features:
        raise CannotMeasure("the model sees no column at all: there is nothing that could leak")
    for feature in features:
        feature.refuse_gaps()
    by_source = readings(chain, sources)
    unknowns = [unknown for name in sources for unknown in by_source[name].unknowns]
    position_of = {unknown: j for j, unknown in enumerate(unknowns)}
    constant_map = _constant_part(features, by_source, position_of)
    blocks = {name: tuple(position_of[unknown] for unknown in by_source[name].unknowns) for name in sources}
    level_read = {name: reading for name, reading in by_source.items() if reading.by_level}
    labels = {name for name, reading in by_source.items() if reading.category is not None and not reading.by_level}
    observed = {name: chain.observed(name) for name in blocks if name in chain.columns}
    affine = {name: () if name in level_read else block for name, block in blocks.items()}
    vertices = categories(constant_map, affine, labels, observed)
    vertices |= {name: simplex(len(blocks[name]) + 1) for name in level_read}
    log = chain.log
    return Design(
        X=table_of(features),
        names=tuple(feature.name for feature in features),
        constant_map=constant_map,
        blocks=blocks,
        vertices=vertices,
        spread=np.array([1.0 if source in vertices else spread(chain.observed(source)) for source, _ in unknowns]),
        not_covered=_not_covered(features),
        known=known_cells(blocks, chain.filled, chain.n, len(unknowns)),
        fitted=_fitted(features),
        learned=_learned(features),
        row_map=_row_map(chain, constant_map, by_source, blocks),
        binned=frozenset(name for name, r in by_source.items() if r.category is not None and r.category.binned),
        remarks=(*log.remarks, *(_estimate_remark(name, error) for name, error in log.estimates.items())),
        estimated=bool(log.estimates),
        unfoldable=tuple(log.unfoldable),
        hints=tuple(log.hints),
    )


def _estimate_remark(name: str, error: float) -> str:
    return (
        f"the derivative of {name} is by differences of its transform: an estimate, whose two step sizes agree to "
        f"{max(error, 1e-15):.1g}"
    )


def _constant_part(
    features: Sequence[Feature], by_source: Mapping[str, SourceReading], position_of: Mapping[Unknown, int]
) -> FloatArray:
    """(d, m) the slopes that are the same on every row."""
    constant_map = np.zeros((len(features), len(position_of)))
    for i, feature in enumerate(features):
        for unknown, slope in feature.slopes.items():
            reading = by_source[unknown[0]]
            if reading.by_level or isinstance(slope, Varies):
                continue
            if unknown in position_of:
                constant_map[i, position_of[unknown]] += slope
            else:  # a number whose levels are numbers too
                for level, move in reading.moves.items():
                    constant_map[i, position_of[unknown[0], level]] += slope * move
    return constant_map


def _row_map(
    chain: Chain,
    constant_map: FloatArray,
    by_source: Mapping[str, SourceReading],
    blocks: Mapping[str, tuple[int, ...]],
) -> glm.RowMap | None:
    """The maps of all rows; None if one map serves all."""
    features = chain.features
    pairs = [
        (j, source)
        for j, feature in enumerate(features)
        for (source, _), slope in feature.slopes.items()
        if isinstance(slope, Varies) and not by_source[source].by_level
    ]
    pairs.sort(key=lambda pair: blocks[pair[1]][0])
    slopes = []
    if pairs:
        columns = np.array([j for j, _ in pairs], dtype=np.intp)
        unknowns = np.array([blocks[source][0] for _, source in pairs], dtype=np.intp)
        kept = KeptRows(lambda rows: chain.slopes(pairs, rows), chain.n, 8 * len(pairs))
        slopes.append(glm.Slopes(columns, unknowns, kept))
    levels = [_levels(chain, name, r, blocks[name]) for name, r in by_source.items() if r.by_level]
    return glm.RowMap(constant_map, tuple(slopes), tuple(levels)) if slopes or levels else None


def _levels(chain: Chain, name: str, reading: SourceReading, block: tuple[int, ...]) -> glm.Levels:
    chosen = np.array([j for j, feature in enumerate(chain.features) if name in feature.sources], dtype=np.intp)
    category = reading.category
    if category is None:
        raise TypeError("a column that is read level by level has levels")
    row_bytes = 8 * len(chosen) * len(category.cells)
    kept = KeptRows(lambda rows: chain.levels(name, category, chosen, rows), chain.n, row_bytes)

    def roots(rows: Index) -> FloatArray:
        step = max(1, LEVELS_AT_ONCE // row_bytes)
        parts = [level_roots(kept(rows[i : i + step])) for i in range(0, len(rows), step)]
        return np.concatenate(parts) if parts else np.empty((0, len(chosen), len(chosen)))

    every = np.arange(len(block), dtype=np.intp)
    kept_roots = KeptRows(roots, chain.n, 8 * len(chosen) ** 2)
    return glm.Levels(chosen, np.array(block, dtype=np.intp), kept, every, kept_roots)


def categories(
    constant_map: FloatArray,
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
            if len(V) <= FEW_LEVELS:
                constant_map[:, positions] = np.linalg.solve(V[1:] - V[0], constant_map[:, positions].T).T
            else:
                _to_coordinates(constant_map, positions)
            vertices[name] = V
        elif step is not None:
            constant_map[:, positions] *= step
            vertices[name] = simplex(2)
    return vertices


def _to_coordinates(constant_map: FloatArray, positions: list[int]) -> None:
    """The same by running sums, a few features at a time: nothing of the size of all levels squared is made."""
    for first in range(0, len(constant_map), 64):
        block = constant_map[first : first + 64]
        block[:, positions] = coordinates(np.column_stack([np.zeros(len(block)), block[:, positions]]))


def _fitted(features: Sequence[Feature]) -> Any:
    """(d,) standardised features whose values do have mean 0 and deviation 1: scalers of other rows do not."""
    standardised = [f.standardised and _has_mean_0_and_deviation_1(f.numbers) for f in features]
    return np.array(standardised, dtype=bool) if any(standardised) else ()


def _learned(features: Sequence[Feature]) -> LearnedScalers | None:
    """None if the last scalers of all features are whole StandardScalers, or of other rows."""
    if all(feature.statistic_moves is None for feature in features):
        return None
    return learned_scalers(features)


def learned_scalers(features: Sequence[Feature]) -> LearnedScalers | None:
    """Every feature behind a scaler of these rows whose moves are known; None if there is none."""
    chosen, by_scale, by_mean, statistics, additive = [], [], [], [], []
    for j, feature in enumerate(features):
        moves, n = feature.statistic_moves, len(feature.values)
        if moves is None and feature.standardised and _has_mean_0_and_deviation_1(feature.numbers):
            moves = -feature.numbers / n, np.full(n, -1.0 / n)
        if moves is not None:
            chosen.append(j)
            by_scale.append(moves[0])
            by_mean.append(moves[1])
            statistics += sorted(feature.of_these_rows)
            additive.append(feature.of_these_rows <= MOMENTS)
    if not chosen:
        return None
    return LearnedScalers(
        np.array(chosen, dtype=np.intp),
        np.column_stack(by_scale),
        np.column_stack(by_mean),
        tuple(dict.fromkeys(statistics)),
        np.array(additive),
    )


def _has_mean_0_and_deviation_1(values: FloatArray) -> bool:
    return bool(abs(values.mean()) < 1e-7 and abs(values.std() - 1.0) < 1e-7)


def _not_covered(features: Sequence[Feature]) -> tuple[str, ...]:
    """One sentence for each statistic of the data that was held fixed."""
    by_statistic: dict[str, dict[str, None]] = {}
    for feature in features:
        for statistic in sorted(feature.statistics):
            sources = by_statistic.setdefault(statistic, {})
            sources.update(dict.fromkeys(source for source, _ in feature.slopes))
            sources.update(dict.fromkeys(sorted(feature.bent)))
    return tuple(held_fixed(statistic, names) for statistic, names in by_statistic.items())


HELD_FIXED = "are statistics of the data, held fixed: not covered"
"""How such a sentence ends."""


def held_fixed(statistic: str, names: Iterable[str]) -> str:
    """The sentence for a statistic of the data that the figures treat as a constant."""
    return f"{statistic} of {safe_list(names)} {HELD_FIXED}"


__all__ = ["Design", "Feature", "assemble", "categories", "held_fixed", "known_cells", "raw_feature"]
