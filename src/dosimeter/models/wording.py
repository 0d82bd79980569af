"""The Cramér–Rao bound on one cell as a sentence, which always states what the attacker knows."""

from __future__ import annotations

from math import isinf

from dosimeter.core.text import safe_text

KNOWN = "everything else in the table"


def cell_sentence(column: str, row: int, eta: float, deviation: float | None, rows: int = 1) -> str:
    """One cell of figure η; `deviation` is 1/η in the column's own unit, None for a category, which has no unit.

    >>> print(cell_sentence("bmi", 417, 0.4, 2.5))
    No one who knows everything else in the table and guesses without bias can pin `bmi` of row 417 (counted from 0)
    closer than ±2.5 (standard deviation, in the column's own unit).
    >>> print(cell_sentence("bmi", 417, 0.0, float("inf")))
    The release says nothing about `bmi` of row 417 (counted from 0): even an attacker who knows everything else in
    the table has no unbiased guess of it.
    """
    cell = f"`{safe_text(column)}` of row {row} (counted from 0)"
    once = f" (one value on {rows} rows of this person)" if rows > 1 else ""
    if eta == 0.0:
        guess = f"even an attacker who knows {KNOWN} has no unbiased guess of it"
        return f"The release says nothing about {cell}{once}: {guess}."
    if isinf(eta):
        return (
            f"The release is exact: an attacker who knows {KNOWN} can pin {cell}{once} as closely as they like, "
            "and no bound holds."
        )
    if deviation is None:
        return (
            f"{cell}{once} is a category. An attacker who knows {KNOWN} and guesses its step from one value to "
            f"another, 0 or 1, as a number without bias errs by at least ±{1 / eta:.2g} (standard deviation)."
        )
    return (
        f"No one who knows {KNOWN} and guesses without bias can pin {cell}{once} closer than "
        f"±{deviation:.2g} (standard deviation, in the column's own unit)."
    )
