"""The sections about noised principal components (`pca`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.reports.charts import Axis, Series, drawing
from dosimeter.reports.document import View, banner, dose_statistics, public_verdict, sections
from dosimeter.reports.frame import table_of
from dosimeter.reports.layout import (
    EVERYWHERE,
    PAGE,
    Cell,
    Drawing,
    Gauge,
    Grid,
    Paragraph,
    Part,
    Section,
    Tone,
    VerdictBanner,
    number,
)
from dosimeter.reports.plot import drawing_of
from dosimeter.reports.sections.closing import closing, optional, settings
from dosimeter.reports.sections.doses import WIDE, amount, cell, histogram, most_exposed
from dosimeter.reports.sections.interpretation import budget_without_symbols, of_epsilon
from dosimeter.reports.statistics import histogram as open_histogram
from dosimeter.reports.statistics import rounded, size, warned
from dosimeter.reports.verdicts import budget_in_words, change, figure
from dosimeter.results.component_parts import (
    ComponentDoses,
    InternalComponentFigures,
    MembershipSummary,
    MomentNoise,
    SplitHalfAttack,
)
from dosimeter.results.components import ComponentsRelease
from dosimeter.results.parts import SMALLEST
from dosimeter.results.to_json import JsonObject

K = "components seen (k)"
UNITS = {"row": "a row", "person": "a person, all their rows together"}
REPLACE = "replace-one"


@public_verdict.register
def _(result: ComponentsRelease) -> str:
    guarantee = result.guarantee
    budget = budget_in_words(guarantee.epsilon, guarantee.delta)
    if not result.private:
        return f"Not private: bounds were read off the table, so {budget} are not claimed."
    if not guarantee.holds:
        costs = figure(guarantee.costs)
        return f"Not proved, nothing was released: {budget} were stated, and this noise costs epsilon {costs}."
    neighbours = f"{change(guarantee.unit, guarantee.neighbours)} ({guarantee.standing})"
    return f"The components are differentially private with {budget}; neighbours: {neighbours}."


@banner.register
def _(result: ComponentsRelease, view: View) -> VerdictBanner:
    guarantee = result.guarantee
    tone: Tone = "good" if _is_claimed(result) and view.released else "bad"
    gauge = None
    if result.private and guarantee.shows("costs"):
        costs = amount(guarantee.costs)
        gauge = Gauge.of("ε that this noise costs", costs, guarantee.epsilon, (("costs", costs),))
    meaning = ""
    if _is_claimed(result):
        neighbour = change(guarantee.unit, guarantee.neighbours)
        meaning = budget_without_symbols(guarantee.epsilon, guarantee.delta, neighbour)
    return VerdictBanner(view.sentence, tone, gauge, meaning)


@dose_statistics.register
def _(result: ComponentsRelease) -> JsonObject:
    inside, attack = result.internal, result.attack
    people = size(inside.distribution)
    if inside.distribution is None or people < 2 * SMALLEST:
        return warned({})
    return warned(
        {
            "people": rounded(people),
            "typical": _typical(inside.dose),
            "typical_membership": _typical(inside.membership),
            "captured_variance": rounded(inside.captured.q),
            "auc_before_noise": None if attack is None else rounded(attack.before.figure),
            "auc_after_noise": None if attack is None else rounded(attack.after.figure),
            "histogram": open_histogram(inside.distribution),
        }
    )


def _typical(doses: ComponentDoses | None) -> Any:
    return None if doses is None or doses.typical is None else rounded(doses.typical)


@sections.register
def _(result: ComponentsRelease, view: View) -> list[Section]:
    inside: InternalComponentFigures | None = optional(result, "internal")
    attack: SplitHalfAttack | None = optional(result, "attack")
    return [
        Section("What was promised", tuple(_promised(result)), EVERYWHERE),
        Section("Dose", () if inside is None else tuple(_doses(inside, result.units))),
        Section("Most exposed", () if inside is None else tuple(_most_exposed(inside)), PAGE),
        Section("Checked by attack", () if attack is None else tuple(_attack(attack))),
        Section("What the components are worth", () if inside is None else tuple(_worth(result, inside))),
        *closing(result, view),
    ]


def _is_claimed(result: ComponentsRelease) -> bool:
    return bool(result.private and optional(result.guarantee, "holds"))


def _promised(result: ComponentsRelease) -> list[Part]:
    """What the pair means if it is claimed, then the settings."""
    guarantee = result.guarantee
    if not _is_claimed(result):
        return [_settings(result)]
    neighbour = change(guarantee.unit, guarantee.neighbours)
    return [of_epsilon(guarantee.epsilon, guarantee.delta, neighbour), _settings(result)]


def _settings(result: ComponentsRelease) -> Part:
    guarantee, noise, count = result.guarantee, result.noise, result.components
    share = count.share_of_noisy_variance if count.shows("share_of_noisy_variance") else None
    variance = "" if share is None else f" ({share:g} of the noisy variance)"
    claim = "" if _is_claimed(result) else ": not claimed" if not result.private else ": not proved"
    return settings(
        [
            ("components", f"{count.released} of {count.columns}{variance}, by {result.mechanism}"),
            ("(ε, δ)", f"({guarantee.epsilon:g}, {guarantee.delta:g}){claim}"),
            ("unit", UNITS[guarantee.unit]),
            ("neighbours", guarantee.neighbours),
            ("standing", guarantee.standing),
            ("this noise costs ε", cell(optional(guarantee, "costs"))),
            ("noise", f"{noise.law} on {noise.on}"),
            ("scale", _scale(noise)),
            ("entries of the second moment reach", optional(noise, "second_moment_reach")),
            ("part of the budget for the mean", noise.mean_share),
            ("scale on the mean", optional(noise, "mean_scale") or None),
            ("bounds", result.bounds),
            ("rows (public)", optional(result, "rows_public")),
            ("people (public)", optional(result, "people_public")),
        ]
    )


def _scale(noise: MomentNoise) -> str | None:
    if not noise.shows("scale_low"):
        return None
    low, high = noise.scale_low, noise.scale_high
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def _doses(inside: InternalComponentFigures, units: str) -> list[Part]:
    parts: list[Part] = []
    doses = [dose for dose in (inside.dose, inside.membership) if dose is not None]
    measured = [dose for dose in doses if not dose.not_measured]
    if measured:
        rows = tuple(
            (f"{dose.symbol} per {dose.unit}", cell(dose.typical), cell(dose.highest), dose.standing)
            for dose in measured
        )
        parts.append(Grid("Doses, computed without protection", ("", "typical", "highest", "standing"), rows))
        parts += [Paragraph(_meaning(dose, units), quiet=True) for dose in measured]
    parts += [Paragraph(dose.not_measured, quiet=True) for dose in doses if dose.not_measured]
    if (inside.most_rows_of_a_person or 1) > 1:
        text = f"One person has {inside.most_rows_of_a_person} rows. All rows of a person weigh as much as one row."
        parts.append(Paragraph(text))
    return parts if inside.distribution is None else parts + histogram(inside.distribution)


def _most_exposed(inside: InternalComponentFigures) -> list[Part]:
    return most_exposed(inside.ranked, "row" if inside.dose is None else inside.dose.unit)


def _meaning(dose: ComponentDoses, units: str) -> str:
    """What a figure compares."""
    if dose.symbol == "μ":
        return (
            f"μ: {dose.compares}. No test distinguishes the two better than AUC Φ(μ/√2). It does not compare one "
            f"{dose.unit} with another."
        )
    return f"{dose.symbol}: {dose.compares}. 1/{dose.symbol} is the least error of an unbiased guess, in {units}."


def _attack(attack: SplitHalfAttack) -> list[Part]:
    halves = (("before", attack.before), ("after", attack.after))
    series: list[Series] = []
    for name, half in halves:
        curve = half.by_components
        if curve is not None:
            k = np.array(curve.k, dtype=float)
            if name == "before":
                low, high = (np.array(values, dtype=float) for values in (curve.null_low, curve.null_high))
                series.append(Series("by chance (95 % of random splits)", k, low, kind="band", top=high))
            series.append(Series(f"{name} the noise", k, np.array(curve.auc, dtype=float)))
    parts: list[Part] = []
    if series:
        says = (
            "AUC of the membership attack of [Zari22] when the first k components are seen, beside the band that holds "
            "95 % of random splits of the same people. Within the band the attack learnt nothing."
        )
        parts.append(drawing("AUC by components seen", Axis(K, whole=True), Axis("AUC"), series, says=says, size=WIDE))
    parts.append(_attack_grid(attack.before, attack.after))
    some = (
        "" if attack.attacked is None else f" {attack.attacked} of these rows were attacked, chosen by a public rule."
    )
    narrow = " Too narrow if a person has several rows." if attack.dealt_by == "person" else ""
    parts.append(
        Paragraph(
            f"A simulation on halves of the table, not on the release: {attack.members} rows as members, "
            f"{attack.strangers} as strangers, split by {attack.dealt_by}, with noise for one half.{some} "
            f"Interval over {attack.interval_over}.{narrow} A lower bound: an attack that fails proves nothing.",
            quiet=True,
        )
    )
    return parts


def _attack_grid(*halves: MembershipSummary) -> Grid:
    rows: tuple[tuple[Cell, ...], ...] = (
        ("components seen", *(half.k for half in halves)),
        ("AUC", *(half.figure for half in halves)),
        ("interval", *(f"{half.low:.3f} to {half.high:.3f} at {half.level:.0%}" for half in halves)),
        ("by chance", *(" to ".join(f"{end:.3f}" for end in half.null_at_k) for half in halves)),
        ("best AUC of all k", *(f"{half.maximum:.3f} at k = {half.best_k}" for half in halves)),
        ("by chance below", *(f"{half.null_95:.3f}" for half in halves)),
    )
    return Grid("The attack at the released k", ("", "before the noise", "after the noise"), rows)


def _worth(result: ComponentsRelease, inside: InternalComponentFigures) -> list[Part]:
    captured, chart = inside.captured, _variance(inside)
    parts: list[Part] = [] if chart is None else [chart]
    parts.append(
        Paragraph(
            f"The {captured.k} released directions explain {captured.q:.3f} of the variance that the best {captured.k} "
            f"explain; random directions explain {captured.at_random:.3f}."
        )
    )
    parts.append(
        Paragraph(f"{inside.clipped_share:.1%} of the rows lay outside the bounds and were clipped.", quiet=True)
    )
    if inside.labels_outside_the_list:
        text = f"{inside.labels_outside_the_list} labels are not in the public list and count as none."
        parts.append(Paragraph(text, quiet=True))
    if inside.rows_left_out:
        parts.append(Paragraph(_left_out(result, inside.rows_left_out), quiet=True))
    return parts


def _variance(inside: InternalComponentFigures) -> Drawing | None:
    """Explained variance by the number of directions; None for a table without variance."""
    variance = inside.variance
    if variance is None or not variance.k:
        return None
    k = np.array(variance.k, dtype=float)
    lines = (
        ("best directions", variance.exact),
        ("released directions", variance.released),
        ("random directions", variance.at_random),
    )
    series = [Series(name, k, np.array(shares, dtype=float)) for name, shares in lines]
    says = "Share of the table's variance about its mean that the first k directions explain."
    axes = Axis("directions (k)", whole=True), Axis("share of the variance")
    return drawing("Explained variance", *axes, series, says=says, size=WIDE)


@drawing_of.register
def _(result: ComponentsRelease) -> Drawing | None:
    return _variance(result.internal)


@table_of.register
def _(result: ComponentsRelease) -> dict[str, list[Any]]:
    variance = result.internal.variance
    if variance is None:
        raise Refusal("the table has no variance to explain")
    shares = {"best": variance.exact, "released": variance.released, "at_random": variance.at_random}
    return {"k": [*variance.k], **{name: [*values] for name, values in shares.items()}}


def _left_out(result: ComponentsRelease, rows: int) -> str:
    """What became of rows with a missing or unreadable value."""
    counted = result.private and result.guarantee.neighbours == REPLACE
    effect = "add nothing"
    if counted and result.rows_public is not None:
        effect = f"count among the {result.rows_public} as the public centre"
    elif counted:
        effect = "add nothing; a person without a complete row counts as the public centre"
    return f"{rows} rows with a missing or unreadable value {effect}."
