"""The sections about a release of several sites (`federate coordinator`), a site, and a new consortium."""

from __future__ import annotations

from typing import Any

from dosimeter.reports.document import View, banner, internal_verdict, public_verdict, sections
from dosimeter.reports.layout import EVERYWHERE, PAGE, DefinitionList, Notes, Paragraph, Section, VerdictBanner, number
from dosimeter.reports.sections.closing import closing, optional, settings
from dosimeter.reports.sections.doses import amount
from dosimeter.reports.verdicts import budget_in_words
from dosimeter.results.consortium import ConsortiumCreated, ConsortiumRelease, SiteRecord
from dosimeter.tables.consortium_schema import CLIENTS

INTERNAL_NO = "Which site said no is a fact about its patients: internal."


# --- the release ---


@public_verdict.register
def _(result: ConsortiumRelease) -> str:
    return f"{result.sites} sites released {result.name}: {_promise(result)}."


def _promise(result: ConsortiumRelease) -> str:
    if result.epsilon is not None and result.delta is not None:
        budget = budget_in_words(result.epsilon, result.delta)
        return f"each patient, with all rows at one site, is protected with {budget}"
    if result.limit is not None:
        return f"no patient's dose at any site is above {result.limit:g}"
    return "every site found its patients within its limits"


@internal_verdict.register
def _(result: ConsortiumRelease) -> str:
    if result.said_no:
        return f"Nothing was released: {_sites(result.said_no)} answered no. Nothing was drawn."
    if result.unbooked:
        return f"Nothing was released: {_sites(result.unbooked)} did not book it. Other ledgers may hold it."
    return public_verdict(result)


def _sites(numbers: list[int]) -> str:
    return f"{'site' if len(numbers) == 1 else 'sites'} {', '.join(map(str, numbers))}"


@banner.register
def _(result: ConsortiumRelease, view: View) -> VerdictBanner:
    return VerdictBanner(view.sentence, "good" if view.released else "bad")


@sections.register
def _(result: ConsortiumRelease, view: View) -> list[Section]:
    return [
        Section("What was released", (settings(_release(result)),), EVERYWHERE),
        Section("Who is trusted", (Paragraph(result.trusted),), PAGE),
        Section("Inside the study", tuple(_inside(result)), PAGE),
        *closing(result, view),
    ]


def _release(result: ConsortiumRelease) -> list[tuple[str, Any]]:
    costs = optional(result, "costs")
    ratio = optional(result, "noise_ratio")
    return [
        ("study", f"{result.study}: {result.kind}"),
        ("name in the ledgers", result.name),
        ("sites", result.sites),
        ("limit", None if result.limit is None else f"η = {result.limit:g}"),
        ("budget", None if result.epsilon is None else f"ε = {result.epsilon:g} at δ = {result.delta:g}"),
        ("the noise proves", None if costs is None else f"ε = {number(amount(costs))}"),
        ("noise", optional(result, "noise")),
        ("noise at the sites", None if ratio is None else f"{ratio:.3g} times that of one draw for all sites"),
        ("loss", result.loss),
        ("l2", result.l2),
        ("parameters", result.parameters),
        ("components", result.components),
        ("rounds", result.rounds),
        ("patients", optional(result, "people")),
    ]


def _inside(result: ConsortiumRelease) -> list[Any]:
    pairs = [(name, optional(result, name)) for name in ("rows", "passes", "absent")]
    score = optional(result, "score")
    if score is not None:
        after = "" if score.after is None else f", {score.after:.4g} with noise"
        pairs.append(
            (score.name, f"{score.before:.4g} without noise{after}; the same answer for all: {score.base:.4g}")
        )
    shown = [(name, value) for name, value in pairs if value is not None]
    notes = [Paragraph(INTERNAL_NO)] if optional(result, "said_no") else []
    return [*notes, *([settings(shown)] if shown else [])]


# --- a site ---


@public_verdict.register
def _(result: SiteRecord) -> str:
    return "A site took part in a consortium. What it did is internal."


@internal_verdict.register
def _(result: SiteRecord) -> str:
    if result.booked:
        return f"{result.name} is booked for {result.people} patients of this site."
    if result.released and result.kind == CLIENTS:
        return f"{result.name} was released. The coordinator books each client."
    if result.released:
        claim = f"The coordinator says that {result.name} was released, and nothing was booked here"
        return f"{claim}: this ledger holds no dose of it. Ask the coordinator what was released."
    return "The study has ended and nothing was booked here."


@sections.register
def _(result: SiteRecord, view: View) -> list[Section]:
    if not view.internal:
        return closing(result, view)
    pairs = [
        ("study", f"{result.study}: {result.kind}"), ("site", result.site), ("questions answered", result.questions),
        ("released, says the coordinator", "yes" if result.released else "no"),
    ]  # fmt: skip
    return [Section("The study", (settings(pairs),), EVERYWHERE), *closing(result, view)]


# --- a new consortium ---


@public_verdict.register
def _(result: ConsortiumCreated) -> str:
    return f"A consortium of {len(result.sites)} sites for the study {result.study}. CHECKLIST.md says what to do next."


@sections.register
def _(result: ConsortiumCreated, view: View) -> list[Section]:
    pairs = [
        ("study", f"{result.study}: {result.kind}"),
        ("coordinator", f"{result.host} port {result.port}"),
        ("certificates valid for", f"{result.days} days"),
        ("training", result.training),
        ("schema", result.schema_sha256),
    ]
    roles = DefinitionList(tuple(result.certificates.items()))
    return [
        Section("What was agreed", (settings(pairs),), EVERYWHERE),
        Section("Certificates", (Paragraph("SHA-256 of each certificate:"), roles), PAGE),
        Section("Files", (Notes(tuple(result.files)),), EVERYWHERE),
        *closing(result, view),
    ]
