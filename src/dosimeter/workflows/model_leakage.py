"""What `dm.measure` returns for a table in memory: figures in the table's own names, and the result of reports."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from dosimeter.core.checks import positive
from dosimeter.models.fit_table import TableFit
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.models.worst_words import worst_words
from dosimeter.results.measurement import Measurement
from dosimeter.results.people import number_of
from dosimeter.tables.row_arguments import column_of
from dosimeter.tables.table import Table, new_frame_like
from dosimeter.workflows.people_table import Names, as_names

"""One column, or several."""
TARGET, PERSON = "y", "person"
"""Names of the columns that hold values passed beside the table."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ModelLeakage(TableLeakage):
    """What `measure` returns: η by cell, row, person, column and group, and the result that reports are made of.

    Figures by row come back as the kind of frame that was passed, in its order. As private as the table.

    >>> import dosimeter as dm
    >>> people = {"who": ["a", "b", "b", "c"], "age": [30, 41, 52, 68], "cost": [1.0, 2.0, 2.5, 4.5]}
    >>> leak = dm.measure(people, target="cost", person="who", noise=dm.Gaussian(1.0))
    >>> leak
    <ModelLeakage of 4 rows of 3 persons x 1 columns, Gaussian(sigma=1.0), in standard deviations, exact>
    >>> list(leak.persons_frame()["who"])
    ['a', 'b', 'c']
    >>> leak.result(limit=5.0).verdict.within
    True
    """

    table: Table
    """The measured rows. Internal."""
    table_fit: TableFit | None = None
    """The model, if it was fitted here."""
    person_name: str = PERSON
    """The column that says whose row it is."""

    @classmethod
    def of(
        cls, leak: TableLeakage, table: Table, *, fit: TableFit | None = None, person: Any = None, frame: Any = None
    ) -> Self:
        """frame: the caller's; figures come back as its kind. Without it, as those of the table."""
        values = {field.name: getattr(leak, field.name) for field in fields(TableLeakage)}
        if frame is not None:
            values["frame"] = frame
        return cls(**values, table=table, table_fit=fit, person_name=person if isinstance(person, str) else PERSON)

    def result(self, limit: float | None = None, groups: Names = (), show_ids: bool = False) -> Measurement:
        """Everything that was measured, as one typed result: `.to_html()`, `.to_json()`, `.to_text()`.

        Parameters
        ----------
        limit
            Highest η allowed for a person; the verdict says whether it is kept.
        groups
            Columns whose groups are compared, besides those of the model.
        show_ids
            List the most exposed people by their ids instead of their rows.
        """
        asked_for = as_names(groups)
        if limit is not None:
            positive("limit", limit)
        table = self._with(asked_for)
        return Measurement.of(self, table, limit=limit, groups=asked_for, fit=self.table_fit, show_ids=show_ids)

    def _with(self, names: Sequence[str]) -> Table:
        """The table with more columns of the caller's frame."""
        more = [name for name in names if name not in self.table.names]
        if not more or self.frame is self.table:
            for name in more:
                self.table[name]  # an unknown name is refused
            return self.table
        extra = Table.of({name: column_of(self.frame, name) for name in more})
        names = (*self.table.names, *extra.names)
        columns = (*self.table.columns, *extra.columns)
        return Table(tuple(names), columns, self.table.rows, self.table.dropped, self.table.gaps)

    def persons_frame(self) -> Any:
        """One row per person: who it is, and η of all their rows together."""
        return new_frame_like(self.frame, {self.person_name: list(self.persons), "eta": list(self.persons.values())})

    def columns_frame(self) -> Any:
        """One row per source column: its name, and η of the column over all rows together."""
        return new_frame_like(self.frame, {"column": list(self.attributes), "eta": list(self.attributes.values())})

    def words_frame(self, rows: Any = None, k: int = 10, *, absent: bool = False) -> Any:
        """One row per word: the words of each text about whose counts the release says most, highest first.

        Parameters
        ----------
        rows
            Positions of rows from 0; without them the ten whose texts leak most.
        k
            Most words per row.
        absent
            Words that do not occur in the text instead of those that do: that a word is missing is a value too.

        Returns
        -------
        frame
            row, column, word, count and eta, as the kind of frame that was passed.
        """
        words = worst_words(self, rows, k, absent=absent)
        names = ("row", "column", "word", "count", "eta")
        return new_frame_like(self.frame, {name: [getattr(word, name) for word in words] for name in names})

    def group_frame(self, by: str | Sequence[Hashable]) -> Any:
        """One row per group: its name, and η of all its rows together. by: a column, or one group a row."""
        figures = self.group(by)
        name = by if isinstance(by, str) else "group"
        return new_frame_like(self.frame, {name: list(figures), "eta": list(figures.values())})

    def plot(self) -> Any:
        """The histogram of doses: a notebook draws it, and `.write("chart.html")` makes a page of it. Internal."""
        return self.result().plot()

    def dose_columns(self) -> dict[str, list[Any]]:
        """One dose per person, or per row under its number in the file: the columns of `--doses-out`. Internal."""
        dose = self.dose()
        unit = f"eta_in_{self.measured_in.replace(' ', '_')}"
        if self.ids is None:
            return {"row": [number_of(self.table, k) for k in range(self.table.n)], unit: dose.figures.tolist()}
        return {"person": [str(i) for i in dose.ids], unit: dose.figures.tolist()}

    def _repr_html_(self) -> str:
        return self.result()._repr_html_()
