"""Labels of a column as positions among the levels that an encoder knows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.adapters.steps.feature import Feature
from dosimeter.adapters.steps.run import Category, Run
from dosimeter.core.arrays import Index
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_text

OTHER = -1
"""The position of a level that the encoder does not know and accepts."""
OTHER_NAME = "(other)"


@dataclass(frozen=True)
class LevelSet:
    """The levels of one column, in groups that an encoder does not distinguish."""

    levels: list[Any]
    groups: list[tuple[str, list[int]]]
    """(name, positions of its levels)."""
    reference: int | None = None
    """The group without a column of its own."""
    pooled: int | None = None
    """The group of infrequent levels."""

    @classmethod
    def of(cls, levels: list[Any], rare: Any, drop: int | None = None) -> LevelSet:
        """Levels in order, infrequent ones (an array or None) as one group at the end; drop: position of a level."""
        infrequent = set() if rare is None else set(rare.tolist())
        groups = [(str(level), [k]) for k, level in enumerate(levels) if level not in infrequent]
        if infrequent:
            name = "infrequent" if "infrequent" not in map(str, levels) else "(infrequent)"
            groups.append((name, [k for k, level in enumerate(levels) if level in infrequent]))
        reference = None if drop is None else next(g for g, (_, members) in enumerate(groups) if drop in members)
        return cls(levels, groups, reference, len(groups) - 1 if infrequent else None)

    @cached_property
    def gap(self) -> int | None:
        """The group of cells without a value and of no others: they are no unknowns, so no cell steps into it."""
        alone = (g for g, (_, members) in enumerate(self.groups) if all(is_missing(self.levels[k]) for k in members))
        return next(alone, None)

    @cached_property
    def values(self) -> list[int]:
        """The groups that hold values, the reference first if it does."""
        held = [g for g in range(len(self.groups)) if g != self.gap]
        return sorted(held, key=lambda g: g != self.reference)

    def category(self, labels: Feature, group: Index) -> Category:
        """The levels with a cell of each, the reference first; one more if the table has levels outside."""
        order = self.values
        names = [self.groups[g][0] for g in order]
        cells = [self.levels[self.groups[g][1][0]] for g in order]
        # Without a reference an unknown level is one more: its indicators are all zero.
        if self.reference in (None, self.gap) and (group == OTHER).any():
            names, cells = [*names, OTHER_NAME], [*cells, labels.values[int(np.argmax(group == OTHER))]]
        return Category(tuple(names), tuple(cells))

    @property
    def group_of(self) -> dict[int, int]:
        """Position of a level -> its group."""
        return {k: g for g, (_, members) in enumerate(self.groups) for k in members}


def is_missing(level: Any) -> bool:
    """Whether a level of an encoder stands for cells without a value."""
    return level is None or level != level or type(level).__name__ == "NAType"


def read_labels(feature: Feature, encoder: str, *, gaps: bool = False) -> Feature:
    """A column that an encoder may read: a source column, or text that a step made of one.

    gaps: whether the encoder has a level for cells without a value; otherwise they are refused.
    """
    if not gaps:
        feature.refuse_gaps()
    if not feature.raw and feature.is_number:
        raise CannotMeasure(
            f"{encoder} behind another transformer (column {safe_text(feature.name)}) makes labels of "
            "computed numbers: encode the column itself"
        )
    return feature


def positions_of(encoder: Any, feature: Feature, level_set: LevelSet, run: Run) -> Index:
    """(n,) which group each cell is in; 7.0 equals 7, and a categorical of numbers was read as text."""
    levels, group_of = level_set.levels, level_set.group_of
    place = {str(level): k for k, level in enumerate(levels)} | {level: k for k, level in enumerate(levels)}
    lookup = {cell: group_of[k] for cell, k in place.items()}
    if feature.coded is not None:
        table = np.array([lookup.get(cell, OTHER) for cell in feature.coded.cells], dtype=np.intp)
        groups = table[feature.coded.codes]
    else:
        cells = feature.values.tolist()
        groups = np.fromiter((lookup.get(cell, OTHER) for cell in cells), dtype=np.intp, count=len(cells))
    # An encoder behind an imputer has such a level only if the gaps came through: SimpleImputer does not fill None.
    unfilled = feature.imputed if feature.gaps is None else feature.gaps
    missing = next((group_of[k] for k, level in enumerate(levels) if is_missing(level)), None)
    if unfilled is not None and missing is not None:
        groups[unfilled] = missing
    unknown = groups == OTHER
    if unknown.any() and run.survey:
        _refuse_unknown(encoder, feature, int(np.argmax(unknown)))
    if unknown.any() and encoder.handle_unknown in ("infrequent_if_exist", "warn"):
        groups = np.where(unknown, OTHER if level_set.pooled is None else level_set.pooled, groups)
    return groups


def _refuse_unknown(encoder: Any, feature: Feature, row: int) -> None:
    if getattr(encoder, "handle_unknown", "error") == "error":
        raise Refusal(
            f"column {safe_text(feature.name)} has a level that {type(encoder).__name__} did not see (row {row} from "
            "0): pass the training table"
        )
