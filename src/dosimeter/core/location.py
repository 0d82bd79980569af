"""Where a value is: file or frame, row and column, on one line that is safe to print."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from dosimeter.core.errors import Refusal
from dosimeter.core.face import shows_names
from dosimeter.core.text import safe_list, safe_text


@dataclass(frozen=True)
class Location:
    """The source of a table. Rows are positions from 0; the rows of a file are shown counted from 1.

    >>> str(Location("people.csv", first=1).refusal("missing value", "fill it", row=4, column="age"))
    'people.csv: missing value (row 5, column age): fill it'
    >>> str(Location("frame").refusal("missing value", "fill it", row=4, column="age"))
    'frame: missing value (row 4 counted from 0, column age): fill it'
    """

    label: str
    first: int = 0
    partial: bool = False
    """Whether these are some rows of a larger table, whose other rows are not known here."""

    def refusal(self, problem: str, remedy: str, *, row: int = -1, column: str = "") -> Refusal:
        """`<label>: <problem> (row r, column c): <remedy>`; a negative row and an empty column are left out."""
        place = []
        if row >= 0:
            place.append(f"row {row + self.first}" + ("" if self.first else " counted from 0"))
        if column:
            place.append(f"column {safe_text(column)}")
        where = f" ({', '.join(place)})" if place else ""
        return Refusal(f"{safe_text(self.label, 120)}: {problem}{where}: {remedy}")

    def check_names(self, names: Iterable[str]) -> None:
        """Refuse column names that are empty, over 1000 characters or duplicate: figures are reported under them."""
        earlier: dict[str, int] = {}
        listed = list(names)
        for position, name in enumerate(listed, start=1):
            if not name.strip():
                remedy = "name it"
                if position == 1:
                    remedy += ", or write the file without its index (pandas: to_csv(index=False))"
                elif position == len(listed) and self.first:  # of a text file, whose rows count from 1
                    remedy += ", or remove the delimiter at the end of every line"
                raise self.refusal(f"the name of column {position} is empty", remedy)
            if len(name) > 1000:
                problem = f"the name of column {position} is {len(name)} characters long"
                remedy = "give it a name of at most 1000 characters"
                raise self.refusal(problem, remedy, column=name if shows_names() else "")
            if name in earlier and not shows_names():
                raise self.refusal(f"columns {earlier[name]} and {position} have the same name", "rename one of them")
            if name in earlier:
                raise self.refusal("two columns have the same name", "rename one of them", column=name)
            earlier[name] = position

    def check_known(self, wanted: Iterable[str], names: Collection[str]) -> None:
        """Refuse a wanted column that does not exist."""
        for name in wanted:
            if name not in names:
                remedy = advice(name, names) if shows_names() else "add or rename it"
                raise self.refusal(f"there is no column {quoted_if_spaced(name)}", remedy)


def quoted_if_spaced(name: str) -> str:
    """A name that is safe to print, in quotes if it begins or ends with a space, which is invisible without them.

    >>> quoted_if_spaced("age"), quoted_if_spaced("age ")
    ('age', "'age '")
    """
    return safe_text(name) if name == name.strip() else f"'{safe_text(name)}'"


def advice(name: str, names: Collection[str]) -> str:
    """A suggestion: the closest existing name, or the list of all names.

    >>> advice("agee", ("age", "bmi"))
    'did you mean age?'
    >>> advice("age", ("age ", "bmi"))
    "did you mean 'age '?"
    >>> advice("age", ("age;bmi",))
    "there is one column, age;bmi: read the file with the separator ';'"
    >>> advice("age,bmi", ("age", "bmi", "sex"))
    'these are 2 columns: name each of them separately'
    """
    if not names:
        return "the table has no columns"
    only = next(iter(names)) if len(names) == 1 else ""
    separator = next((mark for mark in ";\t|" if mark in only and name in only.split(mark)), "")
    if separator:
        return f"there is one column, {safe_text(only)}: read the file with the separator {separator!r}"
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and all(part in names for part in parts):
        return f"these are {len(parts)} columns: name each of them separately"
    near = get_close_matches(name[:100], [known for known in names if len(known) <= 100], n=1)
    return f"did you mean {quoted_if_spaced(near[0])}?" if near else f"the columns are {safe_list(names)}"
