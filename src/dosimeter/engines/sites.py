"""The engine of a consortium: hospitals send sums of their rows and keep the rows.

`sum_over` asks every site for a named sum and adds the answers in the order of the roster. `map_over` has sites compute
with their rows and keep the result; what comes back is the little that the operation says. No code travels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from dosimeter.core.engine import Terms, add_terms
from dosimeter.core.errors import Refusal
from dosimeter.core.progress import note
from dosimeter.engines.plausible import PublicBounds
from dosimeter.engines.protocol.assembly import Assembly, Values
from dosimeter.engines.site_sums import sum_for

T = TypeVar("T")


@dataclass(frozen=True)
class SiteRows:
    """The rows of one site, which stay there: a part without blocks."""

    site: int
    rows: int


@dataclass(frozen=True)
class AtSite:
    """A computation that runs at a site, by its name in the list; here it only names it."""

    operation: str
    values: Values = field(default_factory=dict)
    check: Callable[[int, Values], None] | None = None

    def __call__(self, block: Any) -> Any:
        raise Refusal("rows stay at the sites: this runs there")


class SitesEngine:
    """Sums and maps over the sites of an assembly."""

    rows_stay: ClassVar[bool] = True
    """Rows are moved nowhere."""

    def __init__(self, assembly: Assembly, bounds: PublicBounds, rows: Mapping[int, int]) -> None:
        self._assembly = assembly
        self._bounds = bounds
        self._rows = rows
        self.passes = 0
        """Passes so far."""

    @property
    def parts(self) -> list[SiteRows]:
        """What is summed over: all sites, always."""
        return [SiteRows(site, self._rows[site]) for site in self._assembly.sites]

    def sum_over(self, blocks: Iterable[Any], f: Callable[[Any], Terms]) -> Terms:
        """The sum of f over the rows of all sites; f is one of `site_sums.SUMS`, bound to its arrays."""
        self._every_site(blocks)
        chosen, values = sum_for(f, self._bounds.loss)
        self.passes += 1
        note(f"pass {self.passes}: {chosen.operation.name}")
        answers = self._assembly.ask(
            chosen.operation.name,
            values,
            check=lambda site, answer: chosen.check(self._bounds, self._rows[site], values, answer),
        )
        total: Terms | None = None
        for answer in answers.values():
            total = add_terms(total, chosen.terms(self._bounds, values, answer))
        if total is None:
            raise Refusal("nothing to sum: there are no sites")
        return total

    def map_over(self, blocks: Iterable[Any], f: Callable[[Any], T]) -> list[T]:
        """What each site says after it computed f with its rows, in the order of the roster."""
        self._every_site(blocks)
        if not isinstance(f, AtSite):
            raise Refusal("rows stay at the sites: a map runs there under a name of the list")
        answers: Any = self._assembly.ask(f.operation, f.values, check=f.check)
        return list(answers.values())

    def _every_site(self, blocks: Iterable[Any]) -> None:
        if [part.site for part in blocks] != list(self._assembly.sites):
            raise Refusal("a consortium sums over all of its sites")
