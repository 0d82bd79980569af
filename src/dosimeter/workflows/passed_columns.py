"""Target and person passed as values become columns of the table; ids and frames go back as the caller has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.tables.row_arguments import column_of, names_of, values_of
from dosimeter.tables.table import Table
from dosimeter.workflows.model_leakage import PERSON, TARGET
from dosimeter.workflows.people_table import is_path


def with_columns(data: Any, target: Any, person: Any) -> tuple[Any, str, str | None]:
    """The table with target and person as columns, and their names. Values that were passed become columns."""
    values = {
        name: column
        for name, column in ((TARGET, target), (PERSON, person))
        if column is not None and not isinstance(column, str)
    }
    label = target if isinstance(target, str) else TARGET
    person_column = None if person is None else person if isinstance(person, str) else PERSON
    if not values:
        return data, label, person_column
    if is_path(data):
        raise Refusal(f"{' and '.join(values)}: the table is a file: name a column of it instead of values")
    names = names_of(data)
    for name in values:
        if name in names:
            raise Refusal(f"the table has a column {name} beside the values that were passed: name a column instead")
    columns = {name: column_of(data, name) for name in names}
    n = len(next(iter(columns.values()))) if columns else 0
    columns |= {name: values_of(data, column, n, name) for name, column in values.items()}
    return {name: c.to_native() if isinstance(c, nw.Series) else c for name, c in columns.items()}, label, person_column


def with_ids_of(leak: TableLeakage, source: Any, person: str | None, table: Table) -> TableLeakage:
    """The ids as the caller's column holds them; a table keeps them as text."""
    if person is None or leak.ids is None or is_path(source) or isinstance(source, Table):
        return leak
    column = column_of(source, person)
    cells = column.to_list() if isinstance(column, nw.Series) else column.tolist()
    ids = tuple(cells[row] for row in table.rows.tolist())
    one_to_one = len(set(ids)) == len(set(leak.ids)) == len(set(zip(ids, leak.ids, strict=True)))
    return replace(leak, ids=ids) if one_to_one else leak


def rows_of(data: Any, table: Table) -> Any:
    """The caller's frame, or those of its rows that the table has; None for a file."""
    if is_path(data) or isinstance(data, Table):
        return None
    if not table.dropped:
        return data
    if isinstance(data, np.ndarray):
        return data[table.rows]
    if isinstance(data, Mapping):
        return {name: np.asarray(column)[table.rows] for name, column in data.items()}
    return nw.from_native(data, eager_only=True)[table.rows.tolist(), :].to_native()
