"""How each source column is read: as a number, as a category by constant steps, or level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dosimeter.adapters.chain import Chain
from dosimeter.adapters.steps.feature import Unknown, Varies
from dosimeter.adapters.steps.run import MOST_VALUES, Category
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.text import safe_text


@dataclass(frozen=True)
class SourceReading:
    """The unknowns of one source column."""

    unknowns: tuple[Unknown, ...] = ()
    category: Category | None = None
    by_level: bool = False
    """Whether the features are evaluated at each of its levels."""
    moves: dict[str, float] = field(default_factory=dict)
    """Level -> how far its number is from the reference's, if the column enters as a number as well."""


def readings(chain: Chain, sources: Sequence[str]) -> dict[str, SourceReading]:
    """Every source column -> how it is read."""
    unknowns: dict[str, dict[Unknown, None]] = {}
    for feature in chain.features:
        for unknown in feature.slopes:
            unknowns.setdefault(unknown[0], {})[unknown] = None
    return {name: _reading(chain, name, tuple(unknowns.get(name, ()))) for name in sources}


def _reading(chain: Chain, name: str, unknowns: tuple[Unknown, ...]) -> SourceReading:
    features, log = chain.features, chain.log
    declared = log.categories.get(name, [])
    number, bent = (name, None) in unknowns, any(name in feature.bent for feature in features)
    if not unknowns and not bent:
        return SourceReading()
    if not declared:
        if not bent:
            return SourceReading(unknowns)
        return _by_level(name, _two_values(chain, name))
    if name in chain.two_valued and any(category.binned for category in declared):
        return _by_level(name, _two_values(chain, name))
    category = _common(chain, name, declared, number)
    if number and category.binned:
        raise CannotMeasure(
            f"column {safe_text(name)} enters both as a number and by its bins, so its cell is not one unknown: give "
            "the model one of the two"
        )
    agree = all(other.levels == category.levels for other in declared)
    varies = any(isinstance(feature.slopes.get((name, None)), Varies) for feature in features)
    if bent or varies or name in log.by_level or not agree:
        return _by_level(name, category)
    levels = tuple((name, level) for level in category.levels[1:])
    if not number:
        # If the features name every level, their order is kept.
        return SourceReading(unknowns if set(unknowns) == set(levels) else levels, category)
    first = float(category.cells[0])
    moves = {level: float(cell) - first for level, cell in zip(category.levels[1:], category.cells[1:], strict=True)}
    return SourceReading(levels, category, moves=moves)


def _with_every_value(chain: Chain, name: str, category: Category) -> Category:
    """The levels, and one for each value of the table that is in no level alone."""
    known = {*category.cells, *map(str, category.cells)}
    more = sorted(value for value in set(chain.observed(name).tolist()) if known.isdisjoint((value, str(value))))
    if len(more) > MOST_VALUES:
        raise CannotMeasure(
            f"column {safe_text(name)} enters both as a number and by levels that pool many of its values, too many to "
            "evaluate each: give the model one of the two"
        )
    return Category((*category.levels, *map(str, more)), (*category.cells, *more)) if more else category


def _by_level(name: str, category: Category) -> SourceReading:
    return SourceReading(tuple((name, level) for level in category.levels[1:]), category, by_level=True)


def _two_values(chain: Chain, name: str) -> Category:
    if name not in chain.two_valued:
        raise CannotMeasure(
            f"column {safe_text(name)} has no levels at which a step could be evaluated: encode it first"
        )
    column = chain.observed(name)
    low, high = column.min(), column.max()
    return Category((str(low), str(high)), (low.item(), high.item()))


def _common(chain: Chain, name: str, declared: Sequence[Category], number: bool) -> Category:
    """The finest of several encoders' levels: each of the others must know no cell that it does not.

    Values that an encoder pools differ for whatever else reads the column: another encoder, or a step of numbers.
    """
    finest = max(declared, key=lambda category: len(category.cells))
    if not finest.binned and (number or any(other.levels != finest.levels for other in declared)):
        finest = _with_every_value(chain, name, finest)
    for other in declared:
        inside = {str(cell) for cell in other.cells} <= {str(cell) for cell in finest.cells}
        if not inside or other.binned != finest.binned or (other.binned and other.levels != finest.levels):
            raise CannotMeasure(
                f"column {safe_text(name)} is split into different levels by two steps: give both the same levels"
            )
    return finest
