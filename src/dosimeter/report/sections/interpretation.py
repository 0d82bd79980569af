"""What η and (ε, δ) mean, in a sentence for somebody who has to say yes or no."""

from __future__ import annotations

import math

from dosimeter.core.cramer_rao import accuracy_of_two, error_with_prior
from dosimeter.report.layout import Words, number

UNIT = {"standard deviations": "standard deviations of its column", "own units": "in its column's own unit"}
MEASURED = "This is a measurement: it released nothing, and does not check that a release was made with this noise."


def of_eta(measured_in: str, unit: str, limit: float | None) -> Words:
    """What a dose is, and what the limit comes to where one is claimed.

    >>> print(of_eta("standard deviations", "person", 1.0).text)
    η says how closely a person can be known: whoever knows everything else and guesses without bias misses any one
    value by at least 1/η (standard deviation). At the limit η = 1 that is ±1 standard deviations of its column. η = 1
    leaves 71 % of the spread of what an attacker held possible before (normal), and lets two equally likely values be
    told apart 69 times in 100
    """
    who = "a person" if unit == "person" else "a row"
    text = (
        f"η says how closely {who} can be known: whoever knows everything else and guesses without bias misses any one "
        "value by at least 1/η (standard deviation)."
    )
    if limit is None:
        return Words(text)
    of = UNIT.get(measured_in, measured_in)
    return Words(
        f"{text} At the limit η = {limit:g} that is ±{number(1 / limit)} {of}. {remaining(limit, measured_in)}"
    )


def remaining(limit: float, measured_in: str) -> str:
    """What a limit leaves an attacker with a prior, in one line (docs/limits.md).

    >>> print(remaining(1.0, "standard deviations"))
    η = 1 leaves 71 % of the spread of what an attacker held possible before (normal), and lets two equally likely
    values be told apart 69 times in 100
    """
    two = f"lets two equally likely values be told apart {times_right(limit)}"
    if measured_in != "standard deviations":
        return f"η = {limit:g}, a step of 1 in the column's own unit, {two}"
    left = f"{100 * error_with_prior(limit):.0f} %"
    return f"η = {limit:g} leaves {left} of the spread of what an attacker held possible before (normal), and {two}"


def times_right(eta: float) -> str:
    """How often the better of two equally likely values is found, η apart.

    >>> times_right(1.0), times_right(6.0), times_right(17.0)
    ('69 times in 100', '99.9 times in 100', 'always')
    """
    share = 100 * accuracy_of_two(eta)
    return "always" if share > 99.95 else f"{share:.0f} times in 100" if share < 99.5 else f"{share:.1f} times in 100"


def of_epsilon(epsilon: float, delta: float, change: str) -> Words:
    """What (ε, δ) allows. change: what tells two neighbouring tables apart.

    >>> print(of_epsilon(2.0, 1e-6, "one row replaced").text)
    Whatever comes out is at most e^ε = 7.39 times as likely with one row replaced as without that change, but for a
    chance of δ = 1e-06.
    """
    times = number(math.exp(min(epsilon, 700.0)))
    return Words(
        f"Whatever comes out is at most e^ε = {times} times as likely with {change} as without that change, but for a "
        f"chance of δ = {delta:g}."
    )
