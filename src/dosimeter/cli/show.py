"""The facts of a measurement as a person reads them in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dosimeter.io.text import harmless

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

PLURAL = {"row": "rows", "person": "people", "patient": "patients"}
STANDING = {
    "exact": "exact",
    "unaccounted": "exact for the weights as fitted; the choices named under 'not covered' are unaccounted",
}


def number(value: float) -> str:
    """Three digits, or the word for what has no bound."""
    return "unbounded" if value == float("inf") else f"{value:.3g}"


def measurement(facts: dict[str, Any], console: Console, noun: str, who: str) -> None:
    """Doses, meaning, groups, columns, verdict and what is not covered.

    noun: what one unit is called ("patient"); who: the most exposed of them ("patient 57").
    """
    grid = _grid()
    if facts["bounded"]:
        _doses(grid, facts, noun, who)
        _meaning(grid, facts, noun, who)
    else:
        _unbounded(grid, facts, noun, who)
    _groups(grid, facts, noun)
    _columns(grid, facts)
    _verdict(grid, facts, noun)
    _small_print(grid, facts)
    console.print(grid)


def _grid() -> Table:
    from rich.table import Table

    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    return grid


def _small(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]], left: int = 1) -> Table:
    """A small table inside the second column: the first `left` columns to the left, figures to the right."""
    from rich.table import Table
    from rich.text import Text

    shown = any(headings)
    small = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=shown)
    for k, heading in enumerate(headings):
        small.add_column(heading, justify="left" if k < left else "right", overflow="fold")
    for row in rows:
        small.add_row(*(Text(cell) for cell in row))
    return small


def _text(words: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(words, style=style)


def _doses(grid: Table, facts: dict[str, Any], noun: str, who: str) -> None:
    dose = facts["dose"]
    row = (*(number(dose[k]) for k in ("typical", "worst_1_percent", "highest")), f"← {who}")
    headings = ("typical", "worst 1 %", "highest", "")
    grid.add_row(f"dose per {noun} (η)", _small(headings, [row], left=0))
    per = {
        "own units": "in the columns' own units",
        "standard deviations": "per standard deviation of each column",
    }
    grid.add_row(
        "",
        _text(f"η {per[facts['notion']['measured_in']]}: 1/η is the least error of an unbiased guess", "dim"),
    )


def _unbounded(grid: Table, facts: dict[str, Any], noun: str, who: str) -> None:
    dose = facts["dose"]
    grid.add_row(
        "dose (η)",
        _text("unbounded: the exact weights are released, and nothing limits what they give away", "red"),
    )
    ratio = number(dose["highest_over_typical"])
    grid.add_row("ranking", _text(f"{who} is the most exposed, {ratio} times the typical {noun}"))
    rows = [(f"{need['scale']:.3g}", f"{need['highest']:g}") for need in facts["noise_needed"]]
    grid.add_row("noise needed", _small(("--scale", "gives a highest η of"), rows, left=0))
    grid.add_row("", _text("a scale read off the data is itself not covered: round it up to a public one", "dim"))


def _meaning(grid: Table, facts: dict[str, Any], noun: str, who: str) -> None:
    meaning = facts["meaning"]
    if not meaning:
        return
    own, typical = number(meaning["deviation"]), number(meaning["typical_deviation"])
    words = (
        "Nobody who knows everything else in the table and guesses without bias can pin "
        f"`{harmless(meaning['column'])}` of {who} closer than ±{own}; of a typical {noun} ±{typical}. "
        f"(Standard deviations, in the column's own unit; the column itself spreads ±{number(meaning['spread'])}.)"
    )
    grid.add_row("what it means", _text(words))


def _groups(grid: Table, facts: dict[str, Any], noun: str) -> None:
    more = [g for g in facts["groups"] if g["over_median"] >= 1.1][:4]
    rows = [
        (
            f"{harmless(g['column'])} {harmless(g['group'])}",
            f"{g['over_median']:.2g} x the median",
            f"{g['people']} {PLURAL[noun]}",
        )
        for g in more
    ]
    if more:
        grid.add_row("groups that carry more", _small(("", "", ""), rows))
    elif facts["groups"]:
        grid.add_row("groups", _text("none of ten or more carries over 1.1 x the median"))


def _columns(grid: Table, facts: dict[str, Any]) -> None:
    numbers = [c for c in facts["columns"] if c["kind"] == "number"][:4]
    labels = [c for c in facts["columns"] if c["kind"] == "nominal"][:2]
    if numbers:
        rows = [
            (
                harmless(c["column"], 30),
                *(f"±{number(c[k])}" for k in ("typical_deviation", "least_deviation", "spread")),
            )
            for c in numbers
        ]
        grid.add_row(
            "columns that leak most",
            _small(("a cell can be pinned to", "typical", "closest", "spread"), rows),
        )
    if labels:
        rows = [(harmless(c["column"], 30), number(c["typical"]), number(c["highest"])) for c in labels]
        grid.add_row("" if numbers else "columns that leak most", _small(("η of a label", "typical", "highest"), rows))


def _verdict(grid: Table, facts: dict[str, Any], noun: str) -> None:
    verdict = facts.get("verdict")
    if not verdict:
        return
    limit = f"η = {verdict['limit']:g}"
    if verdict["within"]:
        grid.add_row("verdict", _text(f"within the limit: no {noun} is above {limit}", "green"))
    else:
        words = f"{verdict['above']} of {facts['people']} {PLURAL[noun]} are above the limit {limit}"
        grid.add_row("verdict", _text(words, "red"))


def _small_print(grid: Table, facts: dict[str, Any]) -> None:
    for k, note in enumerate(facts["not_covered"]):
        grid.add_row("not covered" if k == 0 else "", _text(harmless(note, 600), "dim"))
    for k, note in enumerate(facts["remarks"]):
        grid.add_row("remarks" if k == 0 else "", _text(harmless(note, 600), "dim"))
    words = (
        f"{STANDING.get(facts['standing'], facts['standing'])}. Computed from the data without protection: internal."
    )
    grid.add_row("standing", _text(words, "dim"))
