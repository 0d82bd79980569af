"""The facts of a measurement as a person reads them in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dosimeter.core.text import safe_text
from dosimeter.report.terminal import Page, small

if TYPE_CHECKING:
    from rich.console import Console

PLURAL = {"row": "rows", "person": "people", "patient": "patients"}
STANDING = {
    "exact": "exact",
    "unaccounted": "exact for the weights as fitted; the choices named under 'not covered' are unaccounted",
}
PER = {
    "own units": "in the columns' own units",
    "standard deviations": "per standard deviation of a number, per step of a category",
}


RARE = 0.2
"""Levels that fewer have are called rare beside other figures; the attack itself tells of every rarest one."""


def number(value: float) -> str:
    """Three digits, or the word for what has no bound."""
    return "unbounded" if value == float("inf") else f"{value:.3g}"


def gap(note: str) -> str:
    """A note under the heading "not covered", which need not say so again.

    >>> gap("the levels of sex are statistics of the data, held fixed: not covered")
    'the levels of sex are statistics of the data, held fixed'
    """
    return note.removesuffix(": not covered")


def measurement(facts: dict[str, Any], console: Console, noun: str, who: str) -> None:
    """Doses, meaning, groups, columns, verdict and what is not covered.

    noun: what one unit is called ("patient"); who: the most exposed of them ("patient 57").
    """
    page = Page()
    if facts["bounded"]:
        _doses(page, facts, noun, who)
        _meaning(page, facts["meaning"], noun, who)
    else:
        _unbounded(page, facts, noun, who)
    _groups(page, facts, noun)
    _columns(page, facts)
    _attack(page, facts, noun)
    _verdict(page, facts, noun)
    _small_print(page, facts)
    page.show(console)


def _doses(page: Page, facts: dict[str, Any], noun: str, who: str) -> None:
    dose = facts["dose"]
    row = (*(number(dose[k]) for k in ("typical", "worst_1_percent", "highest")), f"← {who}")
    page.add(f"dose per {noun} (η)", small(("typical", "worst 1 %", "highest", ""), [row], left=0))
    per = PER[facts["notion"]["measured_in"]]
    page.add("", f"η {per}: 1/η is the least error of an unbiased guess; {facts['unknowns']}", "dim")


def _attack(page: Page, facts: dict[str, Any], noun: str) -> None:
    """What an attack on the spot found, where one was played."""
    attack = facts.get("attack")
    if not attack:
        return
    top, rest, blind = (f"{100 * attack[k]:.0f} %" for k in ("top_1_percent", "others", "control"))
    guessed = f"guessed `{safe_text(attack['column'])}` among {attack['candidates']} values"
    found = (
        f"right for {top} of the 1 % most exposed and {rest} of the other {PLURAL[noun]}; from everything else without "
        f"the weights {blind}"
    )
    page.add("checked by attack", f"somebody who knows everything else {guessed}: {found}")
    if attack.get("rare") and attack["rare"]["share"] < RARE:
        page.add("", "; ".join(rare(attack["rare"], attack["column"])))


def rare(found: dict[str, Any], column: str) -> tuple[str, str]:
    """Recall and precision of the rarest level of a category, each beside those of somebody without the release."""
    level = f"{safe_text(column)} = {safe_text(found['group'])}"
    recall = f"of those with {level} ({100 * found['share']:.1f} % of the rows) found: {_share(found, 'recall')}"
    if found["precision"] is None:
        return recall, "nobody was named as one of them"
    return recall, f"of those named as such, right: {_share(found, 'precision')}"


def _share(found: dict[str, Any], name: str) -> str:
    low, high, blind = (found[f"{name}_{part}"] for part in ("low", "high", "control"))
    alone = "names nobody" if blind is None else f"{100 * blind:.1f} %"
    return f"{100 * found[name]:.1f} % [{100 * low:.1f}, {100 * high:.1f}]; without the weights {alone}"


def _unbounded(page: Page, facts: dict[str, Any], noun: str, who: str) -> None:
    dose = facts["dose"]
    page.add("dose (η)", "unbounded: the exact weights are released, and nothing limits what they give away", "red")
    ratio = number(dose["highest_over_typical"])
    page.add("ranking", f"{who} is the most exposed, {ratio} times the typical {noun}; {facts['unknowns']}")
    rows = [(f"{need['scale']:.3g}", f"{need['highest']:g}") for need in facts["noise_needed"]]
    if not rows:
        floor = number(facts["scaler"]["floor"])
        page.add("noise needed", f"no noise brings the highest η below {floor}: the fitted scaler leaves it (--bounds)")
        return
    page.add("noise needed", small(("--scale", "gives a highest η of"), rows, left=0))
    page.add("", "a scale read off the data is itself not covered: round it up to a public one", "dim")


def _meaning(page: Page, meaning: dict[str, Any] | None, noun: str, who: str) -> None:
    if not meaning:
        return
    name = f"`{safe_text(meaning['column'])}`"
    where = "" if meaning["cell_row"] == meaning["row"] else f" (in row {meaning['cell_row']})"
    if meaning["kind"] == "category":
        words = (
            f"What the release says most about {who} is the category {name}{where}: η = {number(meaning['eta'])} for "
            f"the step from one value to another; of a typical {noun} {number(meaning['typical_eta'])}. "
            f"{_two(meaning['eta'])}{_follows(meaning)}"
        )
    else:
        words = _guess(meaning, name + where, noun, who)
    page.add("what it means", words)


def _guess(meaning: dict[str, Any], name: str, noun: str, who: str) -> str:
    """The sentence for an amount, or for a target guessed as a number."""
    what = f"the target {name}" if meaning["kind"] == "target" else name
    own, typical = meaning["deviation"], meaning["typical_deviation"]
    known = "Nobody who knows everything else in the table and guesses without bias can"
    if "spread" not in meaning:
        unit = "the class guessed as a number, 1 from one class to the next"
        return (
            f"{known} pin {what} of {who} closer than ±{number(own)}; of a typical {noun} ±{number(typical)}. "
            f"(Standard deviations, {unit}.)"
        )
    spread = f"±{number(meaning['spread'])}"
    unit = f"(Standard deviations, in the column's own unit; the column itself spreads {spread}.)"
    without = meaning.get("without_release")
    if without is None:
        return f"{known} pin {what} of {who} closer than ±{number(own)}; of a typical {noun} ±{number(typical)}. {unit}"
    from dosimeter.core.cramer_rao import error_with_prior

    # own is infinite where the release says nothing, 0 where everything.
    together = error_with_prior(1 / own if own > 0 else float("inf"), without)
    change = f"±{number(without)} without the release (R² {meaning['r2']:.2f}), ±{number(together)} with it at best"
    if own >= without:
        return (
            f"The release adds little to what everything else in the table says of {what} of {who}: {change}. An "
            f"unbiased guess from the release errs by ±{number(own)} or more. {unit}"
        )
    return (
        f"{known} pin {what} of {who} closer than ±{number(own)}; of a typical {noun} ±{number(typical)}. Everything "
        f"else in the table gives it to {change}. {unit}"
    )


def _two(eta: float) -> str:
    """What the step of a category comes to for somebody who takes two values for equally likely."""
    from dosimeter.report.sections.interpretation import times_right

    return f"Somebody who takes two values for equally likely is right {times_right(eta)} at best."


def _follows(meaning: dict[str, Any]) -> str:
    """How far the rest of the table gives it away."""
    return (
        ""
        if meaning.get("r2") is None
        else f" (R² of it on everything else, without the release: {meaning['r2']:.2f}.)"
    )


def _groups(page: Page, facts: dict[str, Any], noun: str) -> None:
    asked = [g for g in facts["groups"] if g["asked"]]
    more = [g for g in facts["groups"] if not g["asked"] and g["over_median"] >= 1.1][:4]
    for heading, found in (("groups asked for", asked), ("groups that carry more", more)):
        rows = [
            (
                f"{safe_text(g['column'])} {safe_text(g['group'])}",
                f"{g['over_median']:.2g} x the median",
                f"{g['people']} {PLURAL[noun]}",
            )
            for g in found
        ]
        if rows:
            page.add(heading, small(("", "", ""), rows))
    if facts["groups"] and not asked and not more:
        page.add("groups", "none of ten or more carries over 1.1 x the median")
    if any(g["by_first_row"] for g in more):
        page.add("", f"a {noun} is counted by their first row where the column varies", "dim")


def _columns(page: Page, facts: dict[str, Any]) -> None:
    numbers = [c for c in facts["columns"] if c["kind"] == "number"][:4]
    categories = [c for c in facts["columns"] if c["kind"] == "category" and c["highest"] > 0][:2]
    heading = "columns that leak most"
    rows = [_row(c, safe_text(c["column"], 30)) for c in numbers]
    target = facts["target"]
    if "least_deviation" in target:
        rows.append(_row(target, f"{safe_text(target['column'], 30)} (target)"))
    if rows:
        page.add(heading, small(("guessed no closer than", "typical", "closest", "without it", "R²"), rows))
        heading = ""
    if categories:
        rows = [(safe_text(c["column"], 30), number(c["typical"]), number(c["highest"]), _r2(c)) for c in categories]
        page.add(heading, small(("η of a category", "typical", "highest", "R²"), rows))
    if rows:
        page.add(
            "", "without it, R²: what everything else in the table gives without the release (least squares)", "dim"
        )


def _row(column: dict[str, Any], name: str) -> tuple[str, ...]:
    typical, closest = column["typical_deviation"], column["least_deviation"]
    if "spread" not in column:
        return name, f"±{number(typical)}", f"±{number(closest)}", "classes 1 apart", _r2(column)
    without = column.get("without_release", column["spread"])
    return name, f"±{number(typical)}", f"±{number(closest)}", f"±{number(without)}", _r2(column)


def _r2(column: dict[str, Any]) -> str:
    """R² on everything else; empty where there were too few rows."""
    return "" if column.get("r2") is None else f"{column['r2']:.2f}"


def _verdict(page: Page, facts: dict[str, Any], noun: str) -> None:
    verdict = facts.get("verdict")
    if not verdict:
        return
    limit = f"η = {verdict['limit']:g}"
    from dosimeter.report.sections.interpretation import remaining

    page.add("the limit", remaining(verdict["limit"], facts["notion"]["measured_in"]))
    if verdict["within"]:
        page.add("verdict", f"within the limit: no {noun} is above {limit}", "green")
    else:
        page.add(
            "verdict", f"{verdict['above']} of {facts['people']} {PLURAL[noun]} are above the limit {limit}", "red"
        )


def _small_print(page: Page, facts: dict[str, Any]) -> None:
    for heading, notes in (("not covered", map(gap, facts["not_covered"])), ("remarks", facts["remarks"])):
        for k, note in enumerate(notes):
            page.add(heading if k == 0 else "", safe_text(note, 600), "dim")
    standing = STANDING.get(facts["standing"], facts["standing"])
    page.add("standing", f"{standing}. Computed from the data without protection: internal.", "dim")
