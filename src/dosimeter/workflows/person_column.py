"""The persons of all rows of a table in blocks, incomplete rows included: who is in the table, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.progress import stage
from dosimeter.engines.memory import rows_of_block
from dosimeter.tables.block_reading import BlockReading, TablePart, table_parts
from dosimeter.tables.csv_source import CsvFile
from dosimeter.tables.people_together import RunLengths
from dosimeter.tables.table import Table
from dosimeter.workflows.block_table import BlockTable, Place, TableSource


@dataclass(frozen=True, eq=False)
class PersonColumn:
    """One column of a table, read by itself when it is wanted."""

    source: TableSource
    table: BlockTable
    place: Place
    person: str

    def rows_of_people(self) -> NDArray[np.int64]:
        """(people,) rows of each person; rows without a person count for nobody."""
        stage("counting the rows of each person")
        (runs,) = self.table.engine.sum_over(self._parts(), partial(_run_lengths, person=self.person))
        return np.asarray(runs.rows_of_people)

    def names(self) -> list[str]:
        """Every person once."""
        seen: dict[str, None] = {}
        for part in self._parts():
            for block in part.blocks():
                seen.update(dict.fromkeys(block[self.person].tolist()))
        return list(seen)

    def _parts(self) -> list[TablePart]:
        reading = BlockReading((self.person,), "drop", (), person=self.person)
        rows = rows_of_block(1, self.place.bytes)
        source: Any = self.source
        if isinstance(source, CsvFile):  # what was parsed for the passes has complete rows only
            folder = self.table.folder / "persons"
            folder.mkdir(exist_ok=True)
            others = [name for name in source.names if name != self.person]
            source = source.convert(reading, others, folder, rows, keep=self.place.checkpoint is not None)
        return table_parts(source.parts([self.person], rows), reading)


def _run_lengths(table: Table, person: str) -> tuple[RunLengths]:
    return (RunLengths.of(table, person),)
