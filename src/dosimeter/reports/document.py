"""From a result to the document that every medium renders: its title, its verdict, its sections.

A result type registers what it has to say with the functions below (`sections.register` and its kin), in one module of
`report.sections`. A type that registered nothing is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, singledispatch
from importlib import import_module

from dosimeter.core.errors import Refusal
from dosimeter.reports.layout import Document, Section, VerdictBanner
from dosimeter.results.editions import Edition, external, says, withheld
from dosimeter.results.result import Result
from dosimeter.results.to_json import JsonObject, to_json

SECTIONS = (
    "answers", "attack", "check", "components", "consortium", "federated", "labels", "ledger", "linear",
    "measurement",
    "reproduction", "scan",
)  # fmt: skip
"""Modules of `report.sections`; each registers its result types."""
NOTHING = "Nothing was released."
"""The external edition does not say why: that a dose or a total was too high is a fact about the data."""
REFUSED = "Nothing was released: a budget of the ledger would have been exceeded."


@dataclass(frozen=True)
class View:
    """What the sections know besides the fields of the result that this edition shows."""

    edition: Edition
    sentence: str
    """The verdict."""
    released: bool
    """False if a limit or a check kept the release back."""
    withheld: tuple[str, ...] = ()
    """Fields that this run made depend on the data, with the reason."""
    statistics: JsonObject = field(default_factory=dict)
    """Statistics of doses that the user asked to publish."""

    @property
    def internal(self) -> bool:
        """Whether this is the internal edition."""
        return self.edition == "internal"


@singledispatch
def sections(result: Result, view: View) -> list[Section]:
    """The sections of a report, top to bottom. Fields that the edition does not show are absent: ask `shows`."""
    raise Refusal(f"no report is known for {type(result).__name__}")


@singledispatch
def banner(result: Result, view: View) -> VerdictBanner:
    """The verdict with its tone and its gauge."""
    return VerdictBanner(view.sentence)


@singledispatch
def public_verdict(result: Result) -> str:
    """The verdict for the external edition: the noise, the guarantee, the limit; no measured figure."""
    raise Refusal(f"no report is known for {type(result).__name__}")


@singledispatch
def internal_verdict(result: Result) -> str:
    """The verdict with measured figures."""
    return public_verdict(result)


@singledispatch
def dose_statistics(result: Result) -> JsonObject:
    """Rounded statistics of doses over groups of ten or more, for users who choose to publish them."""
    raise Refusal("this result has no statistics of doses to publish")


def was_released(result: Result) -> bool:
    """False if a limit, the ledger or the check of usefulness kept the release back."""
    refused, useless, within = (getattr(result, name, None) for name in ("refused", "useless", "within"))
    return not refused and not useless and within is not False


def document(result: Result, edition: Edition = "external", *, statistics: bool = False) -> Document:
    """The report of a result before a medium renders it. Tests look at this."""
    load_sections()
    released = was_released(result)
    if edition == "internal":
        shown, sentence = result, REFUSED if getattr(result, "refused", None) else internal_verdict(result)
        view = View(edition, sentence, released)
    else:
        shown, sentence = external(result), public_verdict(result) if released else NOTHING
        requested = dose_statistics(result) if statistics else {}
        view = View(edition, sentence, released, tuple(withheld(result)), requested)
    return Document(
        type(result).title,
        edition,
        banner(shown, view),
        tuple(section for section in sections(shown, view) if section.parts),
        says(result, edition),
        _figures(shown, view),
    )


def _figures(shown: Result, view: View) -> JsonObject:
    """What the page embeds as JSON, and what `report --json` writes."""
    fields: JsonObject = {"edition": view.edition, "says": says(shown, view.edition), "sentence": view.sentence}
    fields |= shown.to_dict()
    if not view.internal:
        fields["withheld"] = list(view.withheld)
    if view.statistics:
        fields["statistics"] = to_json(dict(view.statistics))
    return fields


@cache
def load_sections() -> None:
    """Import every module of `report.sections`, so that it registers what its result types have to say."""
    for name in SECTIONS:
        import_module(f"dosimeter.reports.sections.{name}")
