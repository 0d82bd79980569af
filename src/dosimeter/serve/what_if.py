"""What a release would have cost with other noise: the law, its chart, and the steps of the slider."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dosimeter.core.accounts import Account
from dosimeter.core.arrays import FloatArray
from dosimeter.ledger import AccountTotals
from dosimeter.reports.charts import Axis, Series, drawing
from dosimeter.reports.layout import Paragraph, Part

FACTORS: FloatArray = 2.0 ** (np.arange(-16, 17) / 4)
"""(33,) noise from 1/16 to 16 times the actual, four steps per doubling; the middle one is 1."""
FLOOR = (
    "If the columns were standardised by the table itself, mean and deviation leave a part at any noise: the totals at "
    "stronger noise are then too low. With declared bounds there is no such part."
)


@dataclass(frozen=True, eq=False)
class WhatIf:
    """Totals in one account if the noise of one release had been f times the actual."""

    account: str
    symbol: str
    people: int
    """The people in the release."""
    limit: float
    highest: FloatArray
    """(33,) the highest total of those people."""
    typical: FloatArray
    """(33,) the median of their totals."""
    above: FloatArray
    """(33,) how many of them are above the limit."""


def what_if(totals: AccountTotals, doses: dict[str, float], factors: FloatArray = FACTORS) -> WhatIf | None:
    """The totals √(T² - a² + a²/f²) of all people in the release, a their dose in it; None if pseudonyms collide.

    Both η and μ of one release are proportional to one over the scale of its noise, and squares add over releases.

    >>> from dosimeter.core.accounts import Account
    >>> fil = Account("fil", "person", "own units")
    >>> two = AccountTotals(fil, ("ann", "bob"), np.array([0.5, 0.3]), None)
    >>> what_if(two, {"ann": 0.3}, np.array([1.0, 2.0])).highest.round(4).tolist()
    [0.5, 0.4272]
    """
    if len(set(totals.pseudonyms)) != len(totals.pseudonyms):
        return None  # two people have the same short pseudonym: their doses cannot be distinguished
    place = {name: k for k, name in enumerate(totals.pseudonyms)}
    names = [name for name in doses if name in place]
    total = totals.readings[[place[name] for name in names]]
    dose = np.array([doses[name] for name in names])
    others = np.maximum(total**2 - dose**2, 0.0)
    new_totals = np.sqrt(others[None, :] + dose[None, :] ** 2 / factors[:, None] ** 2)
    above = (new_totals > totals.limit * (1 + 1e-8)).sum(axis=1).astype(np.float64)
    return WhatIf(
        totals.account.text,
        totals.account.symbol,
        len(names),
        totals.limit,
        new_totals.max(axis=1),
        np.median(new_totals, axis=1),
        above,
    )


def named(account: Account) -> str:
    """The name of an account, as pages show it."""
    return f"{account.symbol} ({account.notion.short_name}) per {account.unit}, {account.measured_in}"


@dataclass(frozen=True)
class Slider:
    """A slider for the noise of a release: `steps` are its positions, `rows` the text of each account there."""

    kind: ClassVar[str] = "slider"
    steps: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    start: int

    @property
    def island(self) -> dict[str, Any]:
        """For the script."""
        return {"steps": list(self.steps), "rows": [list(cells) for _, cells in self.rows]}


def other_noise(
    every: Iterable[AccountTotals], shares: Mapping[str, dict[str, float]], kind: str
) -> tuple[tuple[Part, ...], Slider | None]:
    """A chart for each account that follows the law, a sentence for each that does not, and the slider.

    shares: account (its text) -> pseudonym -> reading, of the release. kind: what was released.
    """
    totals = {account_totals.account.text: account_totals for account_totals in every}
    scenarios, parts = [], list[Part]()
    for text, doses in shares.items():
        account = Account.of_text(text)
        if account.notion.no_noise_law:
            parts.append(Paragraph(f"{named(account)}: {account.notion.no_noise_law}", quiet=True))
        elif (scenario := what_if(totals[text], doses)) is not None and scenario.people:
            scenarios.append(scenario)
    if not scenarios:
        return (
            *parts,
            Paragraph("No account of this release follows a law in the scale of its noise.", quiet=True),
        ), None
    law = "A dose of η or μ is proportional to one over the scale of the noise; all other releases stay as they are."
    law = f"{law} {FLOOR}" if kind == "weights" else law
    drawings = [_drawn(scenario) for scenario in scenarios]
    return (Paragraph(law), *drawings, *parts), _slider(scenarios)


def _drawn(scenario: WhatIf) -> Part:
    account = named(Account.of_text(scenario.account))
    series = [
        Series("highest total", FACTORS, scenario.highest, "line"),
        Series("typical total", FACTORS, scenario.typical, "line"),
    ]
    if math.isfinite(scenario.limit):
        series.append(Series(f"limit {scenario.limit:g}", FACTORS[[0, -1]], np.full(2, scenario.limit), "line"))
    says = f"Totals of the {scenario.people} people in the release, by the scale of its noise; 1 is the actual noise."
    return drawing(
        account,
        Axis("noise, times the actual noise", log=True),
        Axis(scenario.symbol, log=bool((scenario.typical > 0).all())),
        series,
        says=says,
    )


def _slider(scenarios: list[WhatIf]) -> Slider:
    rows = tuple(
        (named(Account.of_text(scenario.account)), tuple(_figures_at(scenario, k) for k in range(len(FACTORS))))
        for scenario in scenarios
    )
    return Slider(tuple(f"{f:.3g} times" for f in FACTORS), rows, len(FACTORS) // 2)


def _figures_at(scenario: WhatIf, k: int) -> str:
    text = f"highest {scenario.highest[k]:.3g}, typical {scenario.typical[k]:.3g}"
    return text if math.isinf(scenario.limit) else f"{text}, above the limit {int(scenario.above[k])}"
