"""Where a value stands: the file or frame, the row and the column, said in one harmless line."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_list, safe_text


@dataclass(frozen=True)
class Location:
    """What a table came from. Rows are positions from 0 inside; a file's rows are shown counted from 1.

    >>> str(Location("people.csv", first=1).refusal("missing value", "fill it", row=4, column="age"))
    'people.csv: missing value (row 5, column age): fill it'
    >>> str(Location("frame").refusal("missing value", "fill it", row=4, column="age"))
    'frame: missing value (row 4 counted from 0, column age): fill it'
    """

    label: str
    first: int = 0

    def refusal(self, what: str, todo: str, *, row: int = -1, column: str = "") -> Refusal:
        """`<label>: <what> (row r, column c): <todo>`; a row below 0 or an empty column goes unsaid."""
        place = []
        if row >= 0:
            place.append(f"row {row + self.first}" + ("" if self.first else " counted from 0"))
        if column:
            place.append(f"column {safe_text(column)}")
        where = f" ({', '.join(place)})" if place else ""
        return Refusal(f"{safe_text(self.label, 120)}: {what}{where}: {todo}")

    def check_names(self, names: Iterable[str]) -> None:
        """Names are what every figure is reported under: none may be empty, endless or given twice."""
        seen: set[str] = set()
        for position, name in enumerate(names, start=1):
            if not name.strip():
                todo = "name it, or write the file without its index (pandas: to_csv(index=False))"
                raise self.refusal(f"the name of column {position} is empty", todo)
            if len(name) > 1000:
                what = f"the name of column {position} is {len(name)} characters long"
                raise self.refusal(what, "give it a name of at most 1000 characters", column=name)
            if name in seen:
                raise self.refusal("two columns have the same name", "rename one of them", column=name)
            seen.add(name)

    def check_known(self, wanted: Iterable[str], names: Collection[str]) -> None:
        """Columns that the caller names must exist."""
        for name in wanted:
            if name not in names:
                raise self.refusal(f"there is no column {safe_text(name)}", advice(name, names))


def advice(name: str, names: Collection[str]) -> str:
    """The nearest name, or all of them.

    >>> advice("agee", ("age", "bmi"))
    'did you mean age?'
    """
    near = get_close_matches(name[:100], [known for known in names if len(known) <= 100], n=1)
    return f"did you mean {safe_text(near[0])}?" if near else f"the columns are {safe_list(names)}"
