"""A dose: leakage per unit in its additive coordinate, with its notion, ids and standing."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.fisher_block import FisherBlock, check_blocks
from dosimeter.core.html_table import html_table
from dosimeter.core.notion import FISHER, Notion, Standing

UNITS = ("example", "person", "attribute", "cell", "label", "group", "teacher", "client", "dataset")


@dataclass(frozen=True, eq=False)
class Dose:
    """Leakage of each unit, one row per id, in the coordinate in which releases add.

    Parameters
    ----------
    notion : Notion
        The kind of leakage, which defines the coordinate and how it is read.
    unit : str
        What an id stands for, one of `UNITS`: "person", "example", "client", ...
    ids : tuple (k,)
        The ids, each once.
    amounts : array (k,)
        Leakage in `notion.coordinate` (η², μ² or nats); infinite where the value is released exactly.
    standing : Standing
        What the figures are worth: exact, a bound, an estimate, or unaccounted.
    measured_in : str
        The unit of the unknown: "own units" of the columns, or "standard deviations".
    not_covered : tuple of str
        Choices made from the data that the figures do not cover.
    fisher_blocks : tuple of FisherBlock
        The Fisher matrix of each id, if a ledger is to store it. A sum of doses has none.

    Raises
    ------
    Refusal
        For an unknown unit, a duplicate id, a negative or nan amount, or Fisher blocks that do not match the amounts.

    Notes
    -----
    Doses of the same notion, unit and scale add with `+`; an id missing from one of them counts as 0 there. The sum of
    exact doses is exact for the units in `notion.exact_units`. For all others it is an upper bound:
    ||I₁ + I₂|| <= ||I₁|| + ||I₂|| for Fisher information, Lemma 5 of [Saeidian21] for maximal leakage.

    Examples
    --------
    >>> from dosimeter.core.notion import FISHER
    >>> may = Dose.of_figures(FISHER, "person", ["ann", "bob"], [0.3, 0.1])
    >>> june = Dose.of_figures(FISHER, "person", ["bob", "eve"], [0.1, 0.2])
    >>> total = may + june
    >>> dict(zip(total.ids, total.figures.round(4).tolist()))
    {'ann': 0.3, 'bob': 0.1414, 'eve': 0.2}
    >>> total.standing.value
    'upper bound'
    """

    notion: Notion
    unit: str
    ids: tuple[Hashable, ...]
    amounts: FloatArray
    standing: Standing = Standing.EXACT
    measured_in: str = "own units"
    not_covered: tuple[str, ...] = ()
    fisher_blocks: tuple[FisherBlock, ...] = ()

    def __post_init__(self) -> None:
        amounts = np.array(self.amounts, dtype=np.float64)
        if self.unit not in UNITS:
            raise Refusal(f"unit {self.unit!r} is not one of {', '.join(UNITS)}")
        if self.notion.composes_events:
            raise Refusal(f"a dose of {self.notion.name} is an event and not a number per row: use EventDose")
        if amounts.shape != (len(self.ids),):
            raise Refusal(f"a dose needs one amount per id: {len(self.ids)} ids, amounts of shape {amounts.shape}")
        if len(set(self.ids)) != len(self.ids):
            raise Refusal("duplicate id in a dose: combine each person's rows first")
        if np.isnan(amounts).any() or (amounts < 0).any():
            raise Refusal("a dose is never negative and never nan; check the figure it was computed from")
        if self.fisher_blocks:
            if self.notion.name != FISHER.name:
                raise Refusal(f"blocks are Fisher matrices; {self.notion.name} has none")
            check_blocks(self.fisher_blocks, amounts)
        amounts.setflags(write=False)
        object.__setattr__(self, "amounts", amounts)

    @classmethod
    def of_figures(cls, notion: Notion, unit: str, ids: Sequence[Hashable], figures: Any, **fields: Any) -> Dose:
        """A dose from figures as they are read.

        Parameters
        ----------
        notion, unit, ids
            As in `Dose`.
        figures : array (k,)
            Figures as they are read: η, nats or μ.
        **fields
            Other fields of `Dose`, such as `standing`.

        Returns
        -------
        Dose

        Raises
        ------
        Refusal
            If a figure is negative.

        Examples
        --------
        >>> from dosimeter.core.notion import FISHER
        >>> Dose.of_figures(FISHER, "person", ["ann"], [3.0]).amounts
        array([9.])
        """
        read = np.asarray(figures, dtype=np.float64)
        if (read < 0).any():
            raise Refusal("a figure is never negative; check how it was computed")
        return cls(notion, unit, tuple(ids), notion.write(read), **fields)

    @property
    def figures(self) -> FloatArray:
        """(k,) the figures as they are read: η, nats or μ."""
        return self.notion.read(self.amounts)

    @property
    def highest(self) -> tuple[Hashable, float]:
        """The id with the largest dose, and its figure."""
        position = int(np.argmax(self.amounts))
        return self.ids[position], float(self.figures[position])

    def __add__(self, other: Dose) -> Dose:
        """The total dose from two releases; an id absent from one of them received nothing from it."""
        if not isinstance(other, Dose):
            return NotImplemented
        self._refuse_unlike(other)
        ids = tuple(dict.fromkeys(self.ids + other.ids))
        place = {i: k for k, i in enumerate(ids)}
        total = np.zeros(len(ids))
        for dose in (self, other):
            # Plain indexing is enough: ids are unique within a dose.
            total[[place[i] for i in dose.ids]] += dose.amounts
        standing = self.standing.weaker(other.standing)
        if standing is Standing.EXACT and self.unit not in self.notion.exact_units:
            standing = Standing.UPPER_BOUND
        not_covered = tuple(dict.fromkeys(self.not_covered + other.not_covered))
        return replace(self, ids=ids, amounts=total, standing=standing, not_covered=not_covered, fisher_blocks=())

    def _refuse_unlike(self, other: Dose) -> None:
        for field in ("notion", "unit", "measured_in"):
            first, second = getattr(self, field), getattr(other, field)
            if first != second:
                raise Refusal(
                    f"unlike doses are never added: {field} {str(first)!r} and {str(second)!r}; keep them side by side"
                )

    def __repr__(self) -> str:
        top_id, top = self.highest if self.ids else ("nobody", 0.0)
        return (
            f"<Dose of {len(self.ids)} {self.unit}s: {self.notion.name} ({self.notion.symbol}), "
            f"{self.standing.value}, highest {self.notion.symbol} = {top:.4g} ({top_id})>"
        )

    def _repr_html_(self) -> str:
        """For a notebook, without ids. Internal: a dose is itself private."""
        symbol, figures = self.notion.symbol, self.figures
        rows: list[tuple[str, object]] = [("notion", f"{self.notion.name} ({symbol})"), ("unit", self.unit)]
        if len(figures):
            rows += [(f"typical {symbol}", float(np.median(figures))), (f"highest {symbol}", float(figures.max()))]
        rows += [("standing", self.standing.value), ("measured in", self.measured_in)]
        rows += [("not covered", note) for note in self.not_covered]
        return html_table(f"Dose of {len(self.ids)} {self.unit}s (internal: do not publish)", rows)


@dataclass(frozen=True)
class EventDose:
    """A differential-privacy dose: one event of dp-accounting for all units, never a number per row.

    `adjacency` ('add-or-remove-one' or 'replace-one') is part of the notion; events of unlike adjacency never mix.
    """

    event: Any
    unit: str
    adjacency: str
    standing: Standing = Standing.UPPER_BOUND

    def __post_init__(self) -> None:
        if self.adjacency not in ("add-or-remove-one", "replace-one"):
            raise Refusal(f"adjacency {self.adjacency!r} is not one of 'add-or-remove-one', 'replace-one'")

    def __add__(self, other: EventDose) -> EventDose:
        """Composition of events [dp-accounting]."""
        if not isinstance(other, EventDose):
            return NotImplemented
        if (self.unit, self.adjacency) != (other.unit, other.adjacency):
            raise Refusal(
                f"unlike doses are never added: ({self.unit}, {self.adjacency}) and ({other.unit}, {other.adjacency})"
            )
        from dp_accounting.dp_event import ComposedDpEvent

        composed = ComposedDpEvent([self.event, other.event])
        return replace(self, event=composed, standing=self.standing.weaker(other.standing))

    def epsilon(self, delta: float) -> float:
        """ε at δ by the privacy loss distribution accountant of dp-accounting."""
        from dp_accounting import NeighboringRelation
        from dp_accounting.pld import PLDAccountant

        relation, event = (
            {
                "add-or-remove-one": NeighboringRelation.ADD_OR_REMOVE_ONE,
                "replace-one": NeighboringRelation.REPLACE_ONE,
            }[self.adjacency],
            self.event,
        )
        if self.adjacency == "replace-one" and not PLDAccountant(relation).supports(event) and _has_replacement(event):
            relation, event = NeighboringRelation.REPLACE_SPECIAL, _replacement(event)
        return float(PLDAccountant(relation).compose(event).get_epsilon(delta))


def _has_replacement(event: Any) -> bool:
    """Whether `_replacement` applies to every part. For sampling or randomised response it would be too low."""
    from dp_accounting import dp_event

    if isinstance(event, dp_event.ComposedDpEvent):
        return all(map(_has_replacement, event.events))
    if isinstance(event, dp_event.SelfComposedDpEvent):
        return _has_replacement(event.event)
    known = dp_event.GaussianDpEvent, dp_event.LaplaceDpEvent, dp_event.DiscreteLaplaceDpEvent, dp_event.NoOpDpEvent
    return isinstance(event, known)


def _replacement(event: Any) -> Any:
    """The same event with half the multiplier: replacement as one shift, not as a removal and an addition.

    dp-accounting supports Laplace noise only under the relation in which a multiplier of m is a shift of 1/m scales;
    under REPLACE_ONE it is a shift of 2/m.
    """
    from dp_accounting import dp_event

    if isinstance(event, dp_event.ComposedDpEvent):
        return dp_event.ComposedDpEvent([_replacement(e) for e in event.events])
    if isinstance(event, dp_event.SelfComposedDpEvent):
        return dp_event.SelfComposedDpEvent(_replacement(event.event), event.count)
    if isinstance(event, dp_event.GaussianDpEvent | dp_event.LaplaceDpEvent):
        return type(event)(event.noise_multiplier / 2)
    if isinstance(event, dp_event.DiscreteLaplaceDpEvent):
        return dp_event.DiscreteLaplaceDpEvent(event.noise_parameter, 2 * event.sensitivity)
    if isinstance(event, dp_event.NoOpDpEvent):
        return event
    raise Refusal(f"a {type(event).__name__} has no accounting under replace-one")
