"""Parts about columns: the most exposed value, and how closely the values of each column can be guessed."""

from __future__ import annotations

from collections.abc import Sequence

from dosimeter.core.cramer_rao import error_with_prior
from dosimeter.reports.layout import Grid, Paragraph, Part, number
from dosimeter.reports.sections.closing import optional
from dosimeter.reports.sections.doses import amount, cell
from dosimeter.reports.sections.interpretation import times_right
from dosimeter.reports.sections.linear_figures import DOSE, exposure, person_name
from dosimeter.results.linear_parts import ColumnFigures, WorstCell
from dosimeter.results.measurement import Measurement

EVERYTHING_ELSE = "An attacker who knows everything else in the table"
ADDS_LITTLE = "If the error is no smaller than that of a guess without the release, the release adds little."
WITHOUT = "Without, and R²: what everything else in the table gives without the release, by least squares."


def most_exposed_value(result: Measurement) -> tuple[Part, ...]:
    """The value about which the release says most beyond everything else, and how closely it can be guessed."""
    worst = optional(result, "meaning")
    if worst is None:
        return ()
    person = person_name(result, worst.row)
    where = " (the highest dose)" if worst.cell_row == worst.row else f" (the highest dose; in row {worst.cell_row})"
    if worst.kind == "text":
        return (Paragraph(_of_text(worst, person + where, result.unit)),)
    if worst.eta is not None:
        return (Paragraph(_of_category(worst, person + where, result.unit)),)
    return (Paragraph(_of_number(worst, person + where, result.unit)),)


def _of_category(worst: WorstCell, person: str, unit: str) -> str:
    eta = amount(worst.eta)
    right = times_right(eta)
    often = "always right" if right == "always" else f"right about {right}"
    follows = "" if worst.r2 is None else f" (R² of it on everything else, without the release: {worst.r2:.2f}.)"
    return (
        f"The release says most about “{worst.column}” of {person}: a {DOSE} of {number(eta)} for the step from one "
        f"value to another; for a typical {unit} {number(cell(worst.typical_eta))}. An attacker who considers two "
        f"values equally likely is {often}.{follows}"
    )


COUNTS = (
    "The unknown of a text is its vector of word counts: the figure covers every change of counts, also of words that "
    "do not occur; not what no count shows: words outside the vocabulary, and the order of words beyond n-grams."
)


def _of_text(worst: WorstCell, person: str, unit: str) -> str:
    eta = amount(worst.eta)
    error = 1 / eta if eta > 0 else float("inf")
    return (
        f"The release says most about “{worst.column}” of {person}: a {DOSE} of {number(eta)} for its word counts; for "
        f"a typical {unit} {number(cell(worst.typical_eta))}. {EVERYTHING_ELSE} and guesses without bias misses every "
        f"weighted sum of its counts (weights of length one) by at least ±{number(error)} (standard deviation)."
    )


def _words(result: Measurement) -> tuple[Part, ...]:
    """The words of the most exposed, and what a text's figure is about."""
    words = optional(result, "words") or []
    if not words:
        return ()
    rows = tuple((str(w.row), w.column, w.word, f"{w.count:g}", cell(w.eta)) for w in words)
    caption = "Words of the most exposed: η of the count of one word"
    return Grid(caption, ("row", "column", "word", "count", "η"), rows), Paragraph(COUNTS, quiet=True)


def _of_number(worst: WorstCell, person: str, unit: str) -> str:
    """The sentence for an amount, or for a target that is guessed as a number."""
    value = f"the target “{worst.column}”" if worst.kind == "target" else f"“{worst.column}”"
    deviation, typical = amount(worst.deviation), number(cell(worst.typical_deviation))
    bound = (
        f"{EVERYTHING_ELSE} and guesses without bias misses {value} of {person} by at least ±{number(deviation)}; of a "
        f"typical {unit} by ±{typical}."
    )
    if worst.spread is None:
        return f"{bound} (Standard deviations; the class is guessed as a number, 1 from one class to the next.)"
    scale = f"(Standard deviations, in the column's own unit; the column's spread is ±{number(worst.spread)}.)"
    without = worst.without_release
    if without is None:
        return f"{bound} {scale}"
    # The deviation is infinite if the release says nothing, 0 if it says everything.
    with_release = error_with_prior(1 / deviation if deviation > 0 else float("inf"), without)
    r2 = "" if worst.r2 is None else f" (R² {worst.r2:.2f})"
    change = f"±{number(without)} without the release{r2}, ±{number(with_release)} at best with it"
    if deviation >= without:
        return (
            f"The release adds little to what everything else in the table says about {value} of {person}: {change}. "
            f"An unbiased guess from the release errs by at least ±{number(deviation)}. {scale}"
        )
    return f"{bound} From everything else in the table it is known to {change}. {scale}"


def columns_in_short(result: Measurement) -> tuple[Part, ...]:
    """The columns that leak most, and the target."""
    sources: Sequence[ColumnFigures] = optional(result, "columns") or []
    numbers = [column for column in sources if column.kind == "number"][:4]
    categories = [column for column in sources if column.kind == "category" and amount(column.highest) > 0][:2]
    rows = [_guess(column, column.column) for column in numbers]
    target = optional(result, "target")
    if target is not None and target.least_deviation is not None:
        rows.append(_guess(target, f"{target.column} (target)"))
    parts: list[Part] = []
    if rows:
        of_number = ("least error of a guess", "typical", "closest", "without it", "R²")
        parts.append(Grid("Least error of an unbiased guess", of_number, tuple(rows)))
    if categories:
        steps = tuple((c.column, cell(c.typical), cell(c.highest), _r2(c, short=True)) for c in categories)
        parts.append(Grid("Categories", ("category: η of a step", "typical", "highest", "R²"), steps))
    if parts:
        without = "without it, R²: how well everything else in the table predicts it without the release"
        parts.append(Paragraph(without, quiet=True))
    return tuple(parts)


def _guess(column: ColumnFigures, name: str) -> tuple[str, ...]:
    typical, closest = (f"±{number(cell(value))}" for value in (column.typical_deviation, column.least_deviation))
    if column.spread is None:
        return name, typical, closest, "classes 1 apart", _r2(column, short=True)
    without = column.spread if column.without_release is None else column.without_release
    return name, typical, closest, f"±{number(without)}", _r2(column, short=True)


def columns(result: Measurement) -> tuple[Part, ...]:
    """Every column, numbers by the least error and categories by their step; then the most exposed, one by one."""
    sources: list[tuple[str, ColumnFigures]] = [(c.column, c) for c in optional(result, "columns") or []]
    target = optional(result, "target")
    if target is not None and (target.shows("typical_deviation") or target.shows("typical")):
        sources.append((f"{target.column} (target)", target))
    numbers = [(name, column) for name, column in sources if column.least_deviation is not None]
    texts = [(name, column) for name, column in sources if column.kind == "text"]
    categories = [
        (name, column) for name, column in sources if column.least_deviation is None and column.kind != "text"
    ]
    parts: list[Part] = []
    if numbers:
        rows = tuple(
            (
                name,
                cell(column.typical_deviation),
                cell(column.least_deviation),
                cell(column.without_release),
                cell(column.spread),
                _r2(column),
            )
            for name, column in numbers
        )
        caption = "Least error (standard deviation) of an unbiased guess, in the column's own unit"
        headings = ("column", "typical ±", "closest ±", "without ±", "spread ±", "R²")
        added = f" {ADDS_LITTLE}" if any(_adds_little(column) for _, column in numbers) else ""
        parts += [Grid(caption, headings, rows), Paragraph(WITHOUT + added, quiet=True)]
    if categories:
        steps = tuple((name, cell(column.typical), cell(column.highest), _r2(column)) for name, column in categories)
        caption = "Categories: η of the step from one value to another"
        parts.append(Grid(caption, ("column", "typical", "highest", "R²"), steps))
    if texts:
        figures = tuple((name, cell(column.typical), cell(column.highest)) for name, column in texts)
        parts.append(Grid("Texts: η of all word counts together", ("column", "typical", "highest"), figures))
    return (*parts, *_words(result), *exposure(optional(result, "strip")))


def _adds_little(column: ColumnFigures) -> bool:
    """Whether one of the least errors is no smaller than that of a guess without the release."""
    without = column.spread if column.without_release is None else column.without_release
    errors = [amount(error) for error in (column.typical_deviation, column.least_deviation) if error is not None]
    return without is not None and any(error >= without for error in errors)


def _r2(column: ColumnFigures, short: bool = False) -> str:
    """R² on everything else, marked if the column follows from it; empty if there were too few rows."""
    if column.r2 is None:
        return ""
    return f"{column.r2:.2f}, nearly given" if column.nearly_given and not short else f"{column.r2:.2f}"
