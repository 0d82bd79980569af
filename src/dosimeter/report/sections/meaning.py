"""What η and (ε, δ) mean, in a sentence for somebody who has to say yes or no."""

from __future__ import annotations

import math

from dosimeter.report.layout import Words, number

UNIT = {"standard deviations": "standard deviations of its column", "own units": "in its column's own unit"}
MEASURED = "This is a measurement: it released nothing, and does not check that a release was made with this noise."


def of_eta(measured_in: str, unit: str, limit: float | None) -> Words:
    """What a dose is, and what the limit comes to where one is claimed.

    >>> print(of_eta("standard deviations", "person", 5.0).text)
    η says how closely a person can be known: whoever knows everything else and guesses without bias misses any one
    value by at least 1/η (standard deviation). At the limit η = 5 that is ±0.2 standard deviations of its column.
    """
    who = "a person" if unit == "person" else "a row"
    text = (
        f"η says how closely {who} can be known: whoever knows everything else and guesses without bias misses any one "
        "value by at least 1/η (standard deviation)."
    )
    if limit is None:
        return Words(text)
    of = UNIT.get(measured_in, measured_in)
    return Words(f"{text} At the limit η = {limit:g} that is ±{number(1 / limit)} {of}.")


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
