"""What a release would have cost with other noise: the law, its chart, and the slider's places."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dosimeter.core.accounts import Account
from dosimeter.core.arrays import FloatArray
from dosimeter.ledger import AccountTotals
from dosimeter.report.charts import Axis, Series, drawing
from dosimeter.report.layout import Part, Words

NOTION = {
    "fil": "Fisher information loss",
    "mu": "membership",
    "leakage": "maximal leakage",
    "eps": "differential privacy",
}
NO_LAW = {
    "leakage": "Maximal leakage has no closed law in the scale of the noise: measure the votes again with another one.",
    "eps": "ε does not scale with one over the noise: plan the release again with another noise.",
}
FACTORS: FloatArray = 2.0 ** (np.arange(-16, 17) / 4)
"""(33,) noise from 1/16 to 16 times what was drawn, four steps a doubling; the middle one is 1."""


@dataclass(frozen=True, eq=False)
class WhatIf:
    """Totals in one account if the noise of one release had been f times what it was."""

    account: str
    symbol: str
    people: int
    """Those who stand in the release."""
    limit: float
    highest: FloatArray
    """(33,) the highest total of those people."""
    typical: FloatArray
    """(33,) the median of their totals."""
    above: FloatArray
    """(33,) how many of them stand above the limit."""


def what_if(totals: AccountTotals, doses: dict[str, float], factors: FloatArray = FACTORS) -> WhatIf | None:
    """The totals √(T² - a² + a²/f²) of everybody in the release, a their dose in it; None where names collide.

    Both η and μ of one release go as one over the scale of its noise, and squares add over releases.

    >>> from dosimeter.core.accounts import Account
    >>> fil = Account("fil", "person", "own units")
    >>> two = AccountTotals(fil, ("ann", "bob"), np.array([0.5, 0.3]), None)
    >>> what_if(two, {"ann": 0.3}, np.array([1.0, 2.0])).highest.round(4).tolist()
    [0.5, 0.4272]
    """
    if len(set(totals.pseudonyms)) != len(totals.pseudonyms):
        return None  # short pseudonyms of two people are equal: nobody could say whose dose is whose
    place = {name: k for k, name in enumerate(totals.pseudonyms)}
    who = [name for name in doses if name in place]
    total = totals.readings[[place[name] for name in who]]
    own = np.array([doses[name] for name in who])
    others = np.maximum(total**2 - own**2, 0.0)
    made = np.sqrt(others[None, :] + own[None, :] ** 2 / factors[:, None] ** 2)
    above = (made > totals.limit * (1 + 1e-8)).sum(axis=1).astype(np.float64)
    return WhatIf(
        totals.account.text,
        totals.account.symbol,
        len(who),
        totals.limit,
        made.max(axis=1),
        np.median(made, axis=1),
        above,
    )


def named(account: Account) -> str:
    """An account in words."""
    return f"{account.symbol} ({NOTION[account.key]}) per {account.unit}, {account.measured_in}"


@dataclass(frozen=True)
class Slider:
    """The noise of a release, to be moved by hand; `steps` are its places, `rows` what each account reads there."""

    kind: ClassVar[str] = "slider"
    steps: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    start: int

    @property
    def island(self) -> dict[str, Any]:
        """For the script."""
        return {"steps": list(self.steps), "rows": [list(cells) for _, cells in self.rows]}


def other_noise(
    every: Iterable[AccountTotals], shares: Mapping[str, dict[str, float]]
) -> tuple[tuple[Part, ...], Slider | None]:
    """A chart for each account that follows the law, a sentence for each that does not, and the slider.

    shares: account (its text) -> pseudonym -> reading, of the release.
    """
    totals = {one.account.text: one for one in every}
    made, parts = [], list[Part]()
    for text, found in shares.items():
        account = Account.of_text(text)
        if account.key in NO_LAW:
            parts.append(Words(f"{named(account)}: {NO_LAW[account.key]}", quiet=True))
        elif (one := what_if(totals[text], found)) is not None and one.people:
            made.append(one)
    if not made:
        return (*parts, Words("No account of this release follows a law in the scale of its noise.", quiet=True)), None
    law = "A dose of η or μ goes as one over the scale of the noise; the totals keep all other releases as they are."
    drawings = [_drawn(one) for one in made]
    return (Words(law), *drawings, *parts), _slider(made)


def _drawn(one: WhatIf) -> Part:
    account = named(Account.of_text(one.account))
    series = [
        Series("highest total", FACTORS, one.highest, "line"),
        Series("typical total", FACTORS, one.typical, "line"),
    ]
    if math.isfinite(one.limit):
        series.append(Series(f"limit {one.limit:g}", FACTORS[[0, -1]], np.full(2, one.limit), "line"))
    says = f"Totals of the {one.people} people in the release if its noise had been so many times what it was."
    return drawing(
        account,
        Axis("noise, times what it was", log=True),
        Axis(one.symbol, log=bool((one.typical > 0).all())),
        series,
        says=says,
    )


def _slider(made: list[WhatIf]) -> Slider:
    rows = tuple((named(Account.of_text(one.account)), tuple(_at(one, k) for k in range(len(FACTORS)))) for one in made)
    return Slider(tuple(f"{f:.3g} times" for f in FACTORS), rows, len(FACTORS) // 2)


def _at(one: WhatIf, k: int) -> str:
    words = f"highest {one.highest[k]:.3g}, typical {one.typical[k]:.3g}"
    return words if math.isinf(one.limit) else f"{words}, above the limit {int(one.above[k])}"
