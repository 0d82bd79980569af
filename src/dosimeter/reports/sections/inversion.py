"""Parts about an attack that guesses a column from released weights."""

from __future__ import annotations

from dosimeter.reports.charts import Axis, Span, dots
from dosimeter.reports.layout import Drawing, Grid, Paragraph, Part, number
from dosimeter.reports.sections.doses import plural
from dosimeter.results.measurement import InversionSummary, RareLevel

RARE = 0.2
"""The rarest level is called rare in the summary below this share; the page always has it."""


def attack_in_short(attack: InversionSummary | None, unit: str) -> tuple[Part, ...]:
    """What the attack got right, in one or two sentences."""
    if attack is None:
        return ()
    top, others, without = (f"{100 * share:.0f} %" for share in (attack.top_1_percent, attack.others, attack.control))
    text = (
        f"An attacker who knows everything else in the table guessed “{attack.column}” among {attack.candidates} "
        f"values: right for {top} of the 1 % most exposed and {others} of the other {plural(unit)}; without the "
        f"release, from everything else, {without}."
    )
    rare = attack.rare
    level = [] if rare is None or rare.share >= RARE else [Paragraph(" ".join(rare_level(rare, attack.column)))]
    return (Paragraph(text), *level)


def rare_level(rare: RareLevel, column: str) -> tuple[str, str]:
    """Recall and precision of the rarest level of a category, each beside that of a guess without the release."""
    level = f"{column} = {rare.group}"
    named = _share(rare.recall, rare.recall_low, rare.recall_high, rare.recall_control)
    recall = f"Of those with {level} ({100 * rare.share:.1f} % of the rows) {named} were found."
    if rare.precision is None:
        return recall, "No one was named as one of them."
    right = _share(rare.precision, rare.precision_low, rare.precision_high, rare.precision_control)
    return recall, f"Of those named as such {right} were right."


def _share(share: float, low: float | None, high: float | None, without: float | None) -> str:
    alone = "names no one" if without is None else f"{100 * without:.1f} %"
    between = "" if low is None or high is None else f" [{100 * low:.1f}, {100 * high:.1f}]"
    return f"{100 * share:.1f} %{between} (without the release: {alone})"


def attack_chart(attack: InversionSummary | None) -> tuple[Part, ...]:
    """Shares of right guesses with the interval and the control, and the rarest level."""
    if attack is None:
        return ()
    title, share = "What the attack achieved", "share of right guesses"
    spans = [
        Span("everyone", attack.figure, attack.low, attack.high),
        Span("the 1 % most exposed", attack.top_1_percent),
        Span("the others", attack.others),
        Span("control: without the release", attack.control),
    ]
    says = (
        f"An attacker who knows everything else guessed “{attack.column}” among {attack.candidates} values"
        f"{' (simulated releases)' if attack.simulation else ''}. Interval at {attack.level:.0%}; an attack that "
        f"fails proves nothing: {attack.standing}."
    )
    rows = tuple((span.name, span.value, span.low, span.high) for span in spans)
    grid = Grid(title, ("who was guessed", share, "low", "high"), rows, folded=True)
    chart = Drawing(title, dots(title, Axis(share, share=True), spans), grid, says)
    return (chart,) if attack.rare is None else (chart, _rare_table(attack.rare, attack.column))


def _rare_table(rare: RareLevel, column: str) -> Grid:
    """Accuracy is high for a rare level whatever the guess: what counts is to name its people, and few others."""
    recall = ("recall: of its people, found", rare.recall, rare.recall_low, rare.recall_high, rare.recall_control)
    precision = (
        "precision: of those named, its people",
        rare.precision,
        rare.precision_low,
        rare.precision_high,
        rare.precision_control,
    )
    title = f"The rarest value: {column} = {rare.group}, {number(rare.share)} of the rows"
    return Grid(title, ("", "share", "low", "high", "without the release"), (recall, precision))
