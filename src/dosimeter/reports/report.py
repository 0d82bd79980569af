"""`dm.report`: a result as a page, a model card or text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.face import command_or_call, option
from dosimeter.core.text import safe_text
from dosimeter.reports.document import document
from dosimeter.reports.layout import Document
from dosimeter.reports.questionnaire import Questionnaire, template_of
from dosimeter.results.editions import Edition
from dosimeter.results.read import read_result
from dosimeter.results.result import Result

EDITIONS = ("external", "internal")
PAGES = (".html", ".htm")
CONTRADICTION = "its figures contradict each other, so no page can be made"


@dataclass(frozen=True, eq=False)
class Report:
    """A report of one edition. `write` writes the page; `card` and `html` give texts."""

    result: Result
    edition: Edition
    statistics: bool = False
    template: Questionnaire | None = None
    """Points that are answered instead of the result's own report."""
    also: tuple[Result, ...] = ()
    """Other results that the template draws on."""

    @cached_property
    def document(self) -> Document:
        """Title, verdict and sections. Figures that contradict each other are refused."""
        with_statistics = self.statistics
        try:
            if self.template is not None:
                return self.template.document((self.result, *self.also), self.edition)
            return document(self.result, self.edition, statistics=with_statistics)
        except Refusal:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise Refusal(f"{CONTRADICTION}: run the verb again") from None

    @cached_property
    def html(self) -> str:
        """One self-contained HTML page."""
        from dosimeter.reports.html import lay_out

        return self._checked(lambda: lay_out(self.document))

    @cached_property
    def card(self) -> str:
        """A section for a model card, in Markdown. External content whatever the edition."""
        from dosimeter.reports.model_card import to_card

        return self._checked(lambda: to_card(self.result))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page to an .html file that only its owner can read; another name is refused."""
        from dosimeter.files.atomic import write_text

        check_page(path)
        write_text(path, self.html)

    def _checked(self, render: Any) -> str:
        try:
            return str(render())
        except Refusal:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise Refusal(f"{CONTRADICTION}: run the verb again") from None

    def __repr__(self) -> str:
        return f"<Report of a {type(self.result).__name__}, {self.edition} edition: .write(path), .html, .card>"

    def _repr_html_(self) -> str:
        """The short sections of this edition; an external report shows no internal figure in a notebook either."""
        from dosimeter.reports.notebook import as_fragment

        return self._checked(lambda: as_fragment(self.document))


def report(
    result: Any,
    *,
    edition: str = "external",
    statistics: bool = False,
    template: str | None = None,
    also: Sequence[Any] = (),
) -> Report:
    """A report of a result: what may be said about a release, or everything that is known about it.

    Parameters
    ----------
    result
        A result, what a verb returned, or the path of a JSON file that a verb's `--json` wrote.
    edition
        "external" holds only what does not depend on the data. "internal" holds every figure: do not publish it.
    statistics
        Add rounded statistics of doses over groups of ten or more to the external edition. They are not protected.
    template
        Answer a questionnaire instead: "edpb" for opinion 28/2024 of the European Data Protection Board, "aisvs" for
        OWASP AISVS C12.3. Only what was computed is claimed; a point without an answer says so.
    also
        Other results, or their JSON files, that the template draws on: a scan, an attack, answers to queries.

    Returns
    -------
    Report
        `.write("page.html")` writes the page, `.card` is a section for a model card.

    Raises
    ------
    Refusal
        The file is not a result, or the edition is not known.

    Examples
    --------
    >>> import dosimeter as dm
    >>> plan = dm.plan_federation(1000, epsilon=8, delta=1e-5, rounds=50)
    >>> dm.report(plan).card.startswith("50 rounds with noise multiplier")
    True
    """
    if edition not in EDITIONS:
        raise Refusal(f"{option('edition', safe_text(edition))}: use external or internal")
    if edition == "internal" and statistics:
        name = option("statistics")
        raise Refusal(f"{name} is for the external edition: the internal one has every figure already")
    if also and template is None:
        raise Refusal(f"{option('also')} is for a page that several results answer: pass {option('template')} as well")
    if template is not None and statistics:
        raise Refusal(f"{option('statistics')} is for the report of one result: leave it, or {option('template')}, out")
    questions = None if template is None else template_of(template)
    shown: Edition = "internal" if edition == "internal" else "external"
    return Report(_result(result), shown, statistics, questions, tuple(_result(other) for other in also))


def check_page(path: str | os.PathLike[str], name: str = "") -> None:
    """Refuse a file that is not called a page. name: of the option that names it."""
    if Path(path).suffix.lower() not in PAGES:
        shown = safe_text(Path(path).name)
        card = command_or_call("--card writes the text of a model card", "`.card` is the text of a model card")
        shown = option(name, shown) if name else shown
        raise Refusal(f"{shown}: a page is an .html file (a browser prints it as PDF); {card}")


def _result(result: Any) -> Result:
    """The result of a file, of what a verb returned, or itself."""
    known = read_result(result) if isinstance(result, str | os.PathLike) else getattr(result, "result", result)
    known = known() if callable(known) else known  # what `measure` returns makes its result when asked
    if not isinstance(known, Result):
        raise Refusal(f"{safe_text(type(result).__name__)} is not a result of dosimeter: pass what a verb returned")
    return known
