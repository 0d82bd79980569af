"""What a dose (η) and (ε, δ) mean, in sentences for the person who decides."""

from __future__ import annotations

import math

from dosimeter.core.cramer_rao import accuracy_of_two, error_with_prior
from dosimeter.reports.layout import Grid, Paragraph, Part, Tile, number

UNIT = {"standard deviations": "standard deviations of its column", "own units": "its column's own unit"}
MEASURED = "This is a measurement: it released nothing, and does not check that a release was made with this noise."
DOSES = (0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Those of the table in docs/explanation/limits.md."""
SUGGESTED = 1.0
"""The largest dose that docs/explanation/limits.md calls a limit."""


def of_eta(measured_in: str, unit: str, limit: float | None) -> Paragraph:
    """What a dose is, and what the limit comes to if there is one.

    >>> print(of_eta("standard deviations", "person", 2.0).text)
    The dose (η) says how closely a person's values can be known from the release. An attacker who knows everything else
    and guesses without bias misses each of them by 1/η or more, in standard deviations of its column. At the limit of 2
    that is ±0.5.
    """
    of = UNIT.get(measured_in, measured_in)
    text = (
        f"The dose (η) says how closely a {unit}'s values can be known from the release. An attacker who knows "
        f"everything else and guesses without bias misses each of them by 1/η or more, in {of}."
    )
    return Paragraph(text if limit is None else f"{text} At the limit of {limit:g} that is ±{number(1 / limit)}.")


def remaining(limit: float, measured_in: str) -> str:
    """What a limit leaves to an attacker with a prior, in one line (docs/explanation/limits.md).

    >>> print(remaining(1.0, "standard deviations"))
    At a dose of 1 an attacker keeps at least 71 % of the uncertainty they had before (its standard deviation, for a
    normal prior), and picks the true one of two equally likely values about 69 times in 100.
    """
    right = times_right(limit)
    two = f"picks the true one of two equally likely values {right if right == 'always' else f'about {right}'}"
    if measured_in != "standard deviations":
        return f"At a dose of {limit:g} an attacker {two}, if the values are 1 apart in the column's own unit."
    left = f"{100 * error_with_prior(limit):.0f} %"
    return (
        f"At a dose of {limit:g} an attacker keeps at least {left} of the uncertainty they had before (its standard "
        f"deviation, for a normal prior), and {two}."
    )


def times_right(eta: float) -> str:
    """How often the better of two equally likely values is found, η apart.

    >>> times_right(1.0), times_right(6.0), times_right(17.0)
    ('69 times in 100', '99.9 times in 100', 'always')
    """
    share = 100 * accuracy_of_two(eta)
    return "always" if share > 99.95 else f"{share:.0f} times in 100" if share < 99.5 else f"{share:.1f} times in 100"


def guess_tile(eta: float) -> Tile:
    """What the highest dose means for a yes or no.

    >>> guess_tile(1.0).value
    '69 in 100'
    """
    note = "an attacker picks the true one of two values of the most exposed; 50 is chance"
    return Tile("right guesses, about", times_right(eta).replace(" times", ""), note)


def without_symbols(eta: float, who: str, measured_in: str, *, bound: bool = False) -> str:
    """What a dose comes to, for a reader who knows no notation. who: whose value is guessed; bound: η is a limit.

    >>> print(without_symbols(1.0, "any person", "standard deviations", bound=True))
    An attacker who knows everything else has to choose between two values of any person: a yes or a no, or amounts one
    standard deviation apart. The choice is right about 69 times in 100, or less often. A coin toss is right 50 times.
    """
    if not eta > 0 or math.isinf(eta):
        return ""
    amounts = ", or amounts one standard deviation apart" if measured_in == "standard deviations" else ""
    right = times_right(eta)
    often = "always right" if right == "always" else f"right about {right}{', or less often' if bound else ''}"
    return (
        f"An attacker who knows everything else has to choose between two values of {who}: a yes or a no{amounts}. The "
        f"choice is {often}. A coin toss is right 50 times."
    )


def budget_without_symbols(epsilon: float, delta: float, change: str) -> str:
    """What (ε, δ) comes to, for a reader who knows no notation. change: what distinguishes two neighbouring tables.

    >>> print(budget_without_symbols(1.0, 1e-6, "one row replaced"))
    Take two tables: this one, and the same one with one row replaced. An attacker who has both and sees the release
    picks the right one at most 73 times in 100. A coin toss is right 50 times.
    """
    if math.isinf(epsilon):
        return ""
    return (
        f"Take two tables: this one, and the same one with {change}. An attacker who has both and sees the release "
        f"picks the right one at most {guesses_of_100(epsilon, delta)} times in 100. A coin toss is right 50 times."
    )


def guesses_of_100(epsilon: float, delta: float) -> str:
    """`best_guess` as a number of a hundred guesses.

    >>> guesses_of_100(1.0, 0.0), guesses_of_100(9.0, 0.0)
    ('73', '99.99')
    """
    guess = 100 * best_guess(epsilon, delta)
    return f"{guess:.0f}" if guess < 99 else f"{guess:.4g}"


def best_guess(epsilon: float, delta: float) -> float:
    """The share of right guesses which of two neighbouring tables was used, equally likely before, that (ε, δ) allows.

    From the trade-off of (ε, δ): accuracy is at most (e^ε + δ)/(1 + e^ε). Randomised response attains it at δ = 0.

    >>> round(best_guess(1.0, 0.0), 3), best_guess(0.0, 0.0), best_guess(800.0, 0.0)
    (0.731, 0.5, 1.0)
    """
    odds = math.exp(-min(epsilon, 700.0))
    return min(1.0, (1.0 + delta * odds) / (1.0 + odds))


def good_dose() -> list[Part]:
    """What doses leave to an attacker: 1/η, √(1/(1 + η²)) and Φ(η/2), and the limit that docs/explanation/limits.md
    suggests.

    >>> good_dose()[1].rows[3]
    ('1', '±1', '70.7 %', '69.1 %')
    """
    rows = tuple(
        (
            f"{eta:g}",
            f"±{number(1 / eta)}",
            f"{100 * error_with_prior(eta):.1f} %",
            f"{100 * accuracy_of_two(eta):.1f} %",
        )
        for eta in DOSES
    )
    headings = (
        "dose (η)",
        "least error of an unbiased guess",
        "uncertainty left of a normal prior",
        "right guesses between two equally likely values",
    )
    suggestion = (
        f"Suggested limit: {SUGGESTED:g}, per standard deviation of an amount and per step of a yes/no column, over "
        "all releases together. Take 0.3 or less if one yes or no can do harm. Doses of 5 or 10 protect no one."
    )
    caption = "What a dose leaves to an attacker (errors in standard deviations of the column)"
    return [Paragraph(suggestion), Grid(caption, headings, rows)]


def of_epsilon(epsilon: float, delta: float, change: str) -> Paragraph:
    """What (ε, δ) allows. change: what distinguishes two neighbouring tables.

    >>> print(of_epsilon(2.0, 1e-6, "one row replaced").text)
    Whatever comes out is at most e^ε = 7.39 times as likely with one row replaced as without that change, but for a
    chance of δ = 1e-06.
    """
    times = number(math.exp(min(epsilon, 700.0)))
    return Paragraph(
        f"Whatever comes out is at most e^ε = {times} times as likely with {change} as without that change, but for a "
        f"chance of δ = {delta:g}."
    )
