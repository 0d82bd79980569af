"""Notions of leakage: each has a coordinate in which releases add (the one rule).

A notion is one object. Everything that is chosen by notion is a field of it, and `NOTIONS` is the only list of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal


class Standing(StrEnum):
    """What a number is worth. The order is from the strongest to the weakest."""

    EXACT = "exact"
    UPPER_BOUND = "upper bound"
    LOWER_BOUND = "lower bound"
    ESTIMATE = "estimate"
    UNACCOUNTED = "unaccounted"

    def weaker(self, other: Standing) -> Standing:
        """The weaker of two standings; an upper and a lower bound together are only an estimate.

        >>> Standing.EXACT.weaker(Standing.UPPER_BOUND).value
        'upper bound'
        """
        if {self, other} == {Standing.UPPER_BOUND, Standing.LOWER_BOUND}:
            return Standing.ESTIMATE
        order = list(Standing)
        return max(self, other, key=order.index)


@dataclass(frozen=True)
class Notion:
    """One kind of leakage: its additive coordinate, and the text about it.

    >>> FISHER.read(np.array([9.0, 16.0]))
    array([3., 4.])
    >>> LEAKAGE.budget(2.0), DIFFERENTIAL_PRIVACY.limit(3.0, 1e-6)
    ('leakage=2 nats', '3 at δ = 1e-06')
    """

    key: str
    """Its name in accounts, budgets and dose files; stored in ledgers, so it never changes."""
    name: str
    short_name: str
    symbol: str
    coordinate: str
    law: str
    law_in_brief: str
    """How releases add, in a phrase beside a total."""
    law_in_words: str
    """How releases add, in a sentence without a citation."""
    meaning: str
    """What a figure of it means; {} is the scale of the unknown, for events the neighbouring relation."""
    budget_example: str
    more_noise: str
    """The option that adds noise, with {symbol}, {room} (what is left, in the figure that is read) and {delta}."""
    _read: Callable[[FloatArray], FloatArray]
    _write: Callable[[FloatArray], FloatArray]
    exact_units: frozenset[str] = frozenset()
    """Unit kinds for which the sum of exact doses is exact; for all others it is an upper bound."""
    unit_suffix: str = ""
    """The unit of a figure, if it has one; such a figure is written without its symbol."""
    has_scale: bool = False
    """Whether a figure depends on the unit of the unknown, which is then named beside it."""
    composes_events: bool = False
    """Whether a dose is an event and not a number: events compose, and a figure needs a δ."""
    no_noise_law: str = ""
    """Why a figure is not proportional to one over the scale of the noise; empty if it is."""

    def read(self, values: FloatArray) -> FloatArray:
        """The figure a person reads, from the additive coordinate. Same shape."""
        return self._read(values)

    def write(self, reading: FloatArray) -> FloatArray:
        """The additive coordinate, from the figure a person reads. Same shape."""
        return self._write(reading)

    @property
    def written_as(self) -> str:
        """The symbol or the unit that a figure is written with."""
        return self.unit_suffix or self.symbol

    def figure(self, reading: str, measured_in: str, delta: float | None = None) -> str:
        """A figure, already rounded to text, with its symbol or unit, its δ and its scale."""
        if self.unit_suffix:
            return f"{reading} {self.unit_suffix}"
        at_delta = f" at δ = {delta:g}" if self.composes_events else ""
        return f"{self.symbol} = {reading}{at_delta}" + (f" ({measured_in})" if self.has_scale else "")

    def limit(self, limit: float, delta: float = 0.0) -> str:
        """A limit as a person reads it."""
        if self.composes_events:
            return f"{limit:g} at δ = {delta:g}"
        return f"{limit:g} {self.unit_suffix}".rstrip()

    def budget(self, limit: float, delta: float = 0.0) -> str:
        """A budget as `parse_budget` reads it."""
        return f"{self.key}={limit:g}@{delta:g}" if self.composes_events else f"{self.key}={self.limit(limit)}"

    def __str__(self) -> str:
        return self.name


def _same(x: FloatArray) -> FloatArray:
    return x


def _squared(x: FloatArray) -> FloatArray:
    """x², rounded up to the least normal number: a leakage that is not zero never becomes zero."""
    squares = np.square(x)
    return np.where((x > 0) & (squares < _LEAST), _LEAST, squares)


_LEAST = float(np.finfo(np.float64).tiny)


def _no_amount(_: FloatArray) -> FloatArray:
    raise Refusal("events have no amount; they are composed")


_ALL = frozenset({"example", "person", "attribute", "cell", "label", "group", "client", "dataset"})

FISHER = Notion(
    key="fil",
    name="Fisher information loss",
    short_name="Fisher information loss",
    symbol="η",
    coordinate="η²",
    law="information adds: I₁ + I₂ [Hannun21, 3.1]; by the scalar law √(η₁² + η₂²)",
    law_in_brief="in quadrature at most",
    law_in_words="η² adds over releases (an upper bound if a person has several unknown cells)",
    meaning="1/η is the least error of an unbiased guess, in {}",
    budget_example="fil=0.3",
    more_noise="--epsilon lower, until no {symbol} is above {room:g} (adds noise)",
    _read=np.sqrt,
    _write=_squared,
    # One real unknown has a 1 x 1 information matrix, whose norm is additive; a larger matrix has
    # ||I₁ + I₂|| <= ||I₁|| + ||I₂|| only.
    exact_units=frozenset({"cell"}),
    has_scale=True,
)
"""[Hannun21] eq. 2: η² is the 2-norm of the Fisher information matrix about the unit."""

LEAKAGE = Notion(
    key="leakage",
    name="pointwise conditional maximal leakage",
    short_name="maximal leakage",
    symbol="L",
    coordinate="nats",
    law="nats add for queries fixed in advance [Saeidian21, Lemma 5]",
    law_in_brief="nats add",
    law_in_words="nats add over releases whose queries were fixed in advance",
    meaning="no guess about the person becomes more likely by more than a factor e^nats",
    budget_example="leakage=2",
    more_noise='--budget "{room:g} nats" (adds noise)',
    _read=_same,
    _write=_same,
    unit_suffix="nats",
    no_noise_law="Maximal leakage has no closed law in the scale of the noise: "
    "measure the votes again with another scale.",
)

MEMBERSHIP = Notion(
    key="mu",
    name="membership, strongest adversary, Gaussian noise",
    short_name="membership",
    symbol="μ",
    coordinate="μ²",
    law="Gaussian trade-off curves compose in μ²",
    law_in_brief="in quadrature",
    law_in_words="μ² adds over releases",
    meaning="an attacker who knows all other rows distinguishes presence from absence with AUC Φ(μ/√2) at best",
    budget_example="mu=1",
    more_noise="--epsilon lower, until no {symbol} is above {room:g} (adds noise)",
    _read=np.sqrt,
    _write=_squared,
    exact_units=_ALL,
)

DIFFERENTIAL_PRIVACY = Notion(
    key="eps",
    name="differential privacy",
    short_name="differential privacy",
    symbol="ε",
    coordinate="a DpEvent",
    law="events compose [dp-accounting]",
    law_in_brief="events composed",
    law_in_words="events compose; ε is an upper bound by privacy loss distributions",
    meaning="no probability grows by more than a factor e^ε, plus δ; neighbouring relation: {}",
    budget_example="eps=3@1e-6",
    more_noise="--epsilon {room:g} --delta {delta:g} (about what is left; adds noise)",
    _read=_no_amount,
    _write=_no_amount,
    composes_events=True,
    no_noise_law="ε does not scale with one over the noise: plan the release again with another noise.",
)
"""Its doses are events (`EventDose`), one for all members of a unit kind."""

NOTIONS: dict[str, Notion] = {notion.key: notion for notion in (FISHER, MEMBERSHIP, LEAKAGE, DIFFERENTIAL_PRIVACY)}
"""Every notion that a ledger keeps, by its key. A new one is added here and nowhere else."""


def notion_of(key: str) -> Notion:
    """The notion with this key; an unknown key is refused.

    >>> notion_of("mu").symbol
    'μ'
    """
    if key not in NOTIONS:
        raise Refusal(f"{key[:40]!r} is not a notion of leakage: it is one of {', '.join(NOTIONS)}")
    return NOTIONS[key]


def key_of(notion: Notion) -> str:
    """The key under which a ledger keeps this notion; one that is not registered is refused."""
    if NOTIONS.get(notion.key) != notion:
        raise Refusal(f"the ledger has no account for {notion.name}")
    return notion.key


def parse_budget(text: str) -> tuple[Notion, float, float]:
    """The notion, the limit and the δ (0 if it has none) of `fil=0.3`, `leakage=2 nats`, `eps=3@1e-6`.

    >>> notion, limit, delta = parse_budget("eps = 3 @ 1e-6")
    >>> notion.key, limit, delta
    ('eps', 3.0, 1e-06)
    """
    parts = _BUDGET.fullmatch(text.strip())
    key, limit, unit, delta = parts.groups() if parts else ("", "", "", "")
    by_unit = {notion.unit_suffix: notion for notion in NOTIONS.values() if notion.unit_suffix}
    if key not in NOTIONS or (unit and unit not in by_unit):
        *most, last = (notion.budget_example for notion in NOTIONS.values())
        raise Refusal(f"{text[:60]!r} is not a budget: write {', '.join(most)} or {last}")
    if unit and unit != NOTIONS[key].unit_suffix:
        raise Refusal(f"{text[:60]!r}: only {by_unit[unit].key} is in {unit}")
    return NOTIONS[key], float(limit), float(delta) if delta else 0.0


_NUMBER = r"[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?"
_BUDGET = re.compile(rf"([a-z]+)\s*=\s*({_NUMBER})\s*([a-z]+)?(?:\s*@\s*({_NUMBER}))?")
