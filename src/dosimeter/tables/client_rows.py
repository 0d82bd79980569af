"""A table split among clients (hospitals) by one of its columns, each row encoded as numbers client by client.

Numbers are standardised inside each client, by its own mean and standard deviation, or scaled by declared bounds: the
encoding of one client's rows never depends on another client's rows. Names and kinds of columns are taken as public.
Classes and levels are declared, or read off the rows; then the list reveals a client that alone has one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import advice
from dosimeter.core.text import safe_list, safe_text
from dosimeter.federated.partition import Clients, by_column
from dosimeter.tables.column_encoding import CategoryColumn, NumericColumn, PartColumn, RangeColumn
from dosimeter.tables.column_levels import level_names
from dosimeter.tables.declared_bounds import Bounds, Declaration, Range, declarations, text_refusal
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.learned_encoding import names_rows
from dosimeter.tables.table import Table

MOST_CLASSES, MOST_LEVELS = 1000, 1000


@dataclass(frozen=True)
class ClientEncoding:
    """How a row becomes numbers and a class or a number: public, in the model's file, the same for every client."""

    target: str
    classes: tuple[str, ...]
    """() if the target is a number."""
    columns: TableEncoding
    """Numbers first, scaled by declared bounds or inside each client, then an indicator for each level."""
    target_range: Range | None = None
    """Declared bounds of a numeric target, which is scaled to [-1, 1]."""

    def to_dict(self) -> dict[str, Any]:
        """For the file's metadata."""
        scaling = "own mean and deviation of the client"
        numbers = {s.name: scaling if s.bounds is None else list(s.bounds) for s in self.columns.numbers}
        levels = {label.name: list(label.levels) for label in self.columns.labels}
        outcome: dict[str, Any] = {"classes": list(self.classes)}
        if self.target_range is not None:
            outcome = {"target_bounds": [self.target_range.lower, self.target_range.upper]}
        return {"target": self.target, **outcome, "columns": numbers | levels}

    @property
    def target_scale(self) -> tuple[float, float]:
        """(centre, half width) of a numeric target in its own unit."""
        if self.target_range is None:
            return 0.0, 1.0
        low, high = self.target_range.lower, self.target_range.upper
        return (low + high) / 2, (high - low) / 2


@dataclass(frozen=True, eq=False)
class ClientRows:
    """Rows as numbers, and the client of each row."""

    X: FloatArray
    """(n, width)."""
    y: Any
    """(n,) classes, or numbers in [-1, 1]."""
    clients: Clients
    names: tuple[str, ...]


def derive_client_encoding(
    table: Table,
    target: str,
    client: str,
    *,
    declared: Bounds | None = None,
    classes: Sequence[str] | None = None,
    codes: Collection[str] = (),
) -> tuple[ClientEncoding, tuple[str, ...]]:
    """How to encode the rows of a table, and one sentence for each part of it that was read off the rows.

    declared: column -> a Range, (lower, upper), or a list of levels, for every column or for none. With bounds of the
    target itself the target is a number, and the model a regression. codes: columns that are categories: then any
    number of levels up to the limit is no identifier.

    >>> table = Table.of({"age": [31, 54], "ward": ["a", "b"], "ill": ["no", "yes"], "site": ["x", "y"]})
    >>> derive_client_encoding(table, "ill", "site")[0].columns.names
    ('age', 'ward=a', 'ward=b')
    """
    for name in (target, client):
        if name not in table.names:
            raise Refusal(f"there is no column {safe_text(name)}: {advice(name, table.names)}")
    if target == client:
        raise Refusal(f"{safe_text(target)} is both the target and the client: name two columns")
    rest = [name for name in table.names if name not in (target, client)]
    if not rest:
        raise Refusal("the table has no column besides target and client: there is nothing to learn from")
    known = declarations(declared or {})
    amount = _target_range(table, target, known, classes)
    _refuse_undeclared(known, rest, whole=declared is not None)
    numbers: list[NumericColumn] = []
    labels: list[CategoryColumn] = []
    for name in rest:
        if table.kind(name) == "text":
            labels.append(_label(table, name, known.get(name), name in codes))
        else:
            numbers.append(_number(name, known.get(name)))
    class_names, is_declared = ((), True) if amount is not None else _classes(table, target, classes)
    from_rows = []
    if not is_declared:
        count, declare = len(class_names), option("classes")
        from_rows.append(f"the list of {count} classes was read from the clients' rows: declare it with {declare}")
    levels_read = [label.name for label in labels if label.name not in known]
    if levels_read:
        columns, declare = safe_list(levels_read, 4), option("bounds")
        from_rows.append(f"the levels of {columns} were read from the clients' rows: declare them with {declare}")
    return ClientEncoding(target, class_names, TableEncoding((*numbers, *labels)), amount), tuple(from_rows)


def declared_encoding(columns: Mapping[str, Declaration], target: str) -> ClientEncoding:
    """How to encode rows whose columns were all declared, the target among them; nothing is read off any row.

    >>> columns = {"age": Range(18, 100), "ward": ("a", "b"), "ill": ("no", "yes")}
    >>> declared_encoding(columns, "ill").columns.names
    ('age', 'ward=a', 'ward=b')
    """
    if target not in columns:
        raise Refusal(f"the target {safe_text(target)} is not declared: {advice(target, list(columns))}")
    rest = {name: column for name, column in columns.items() if name != target}
    if not rest:
        raise Refusal("no column is declared besides the target: there is nothing to learn from")
    numbers = [RangeColumn(name, c.lower, c.upper) for name, c in rest.items() if isinstance(c, Range)]
    labels = [CategoryColumn(name, c, indicators=True) for name, c in rest.items() if isinstance(c, tuple)]
    outcome = columns[target]
    amount, classes = (outcome, ()) if isinstance(outcome, Range) else (None, outcome)
    if amount is None and len(set(classes)) < 2:
        raise Refusal(f"the target {safe_text(target)} has fewer than two levels: declare its classes")
    return ClientEncoding(target, classes, TableEncoding((*numbers, *labels)), amount)


def encode_client_rows(table: Table, encoding: ClientEncoding, client: str | None) -> ClientRows:
    """The rows in this encoding. Without a client column all rows belong to one client."""
    n = table.n
    clients, names = ((np.arange(n),), ("all",)) if client is None else by_column(table[client].astype(str))
    X = encoding.columns.design(table, clients)
    return ClientRows(X, _codes(table, encoding), clients, tuple(map(str, names)))


def _number(name: str, declaration: Declaration | None) -> NumericColumn:
    if declaration is None:
        return PartColumn(name)
    if isinstance(declaration, tuple):
        raise Refusal(f"column {safe_text(name)} holds numbers: declare lower and upper, or pass {option('exclude')}")
    return RangeColumn(name, declaration.lower, declaration.upper)


def _label(table: Table, name: str, declaration: Declaration | None, code: bool) -> CategoryColumn:
    if declaration is None:
        return CategoryColumn(name, _levels(table, name, code), indicators=True, as_text=name in table.texts)
    if isinstance(declaration, tuple):
        return CategoryColumn(name, declaration, indicators=True, as_text=name in table.texts)
    raise text_refusal(name)


def _target_range(
    table: Table, target: str, known: dict[str, Declaration], classes: Sequence[str] | None
) -> Range | None:
    """The declared bounds of a numeric target, taken out of the declarations; None if the target is a class."""
    declaration = known.get(target)
    if not isinstance(declaration, Range):
        return None
    if classes is not None:
        raise Refusal(f"{safe_text(target)} has bounds and {option('classes')}: a number, or a class? Leave one out")
    if table.kind(target) == "text":
        raise Refusal(f"the target {safe_text(target)} has declared bounds, but holds text: declare numbers only")
    return known.pop(target)  # type: ignore[return-value]


def _codes(table: Table, encoding: ClientEncoding) -> Any:
    if encoding.target_range is not None:
        centre, half = encoding.target_scale
        return np.clip((np.asarray(table[encoding.target], dtype=np.float64) - centre) / half, -1.0, 1.0)
    place = {name: k for k, name in enumerate(encoding.classes)}
    labels = table[encoding.target].astype(str).tolist()
    if not set(labels) <= set(place):  # the value is one person's and is not quoted
        raise Refusal(
            f"the target {safe_text(encoding.target)} has a value that is not in the list of classes: add it there"
        )
    return np.array([place[name] for name in labels], dtype=np.intp)


def _classes(table: Table, target: str, declared: Sequence[str] | None) -> tuple[tuple[str, ...], bool]:
    names = tuple(declared) if declared is not None else tuple(sorted(set(table[target].astype(str).tolist())))
    if len(set(names)) < max(2, len(names)):
        raise Refusal(f"classes {safe_list(names, 4)}: give at least two different ones")
    if len(names) > MOST_CLASSES or (declared is None and len(names) > 20 and len(names) > table.n / 4):
        raise Refusal(
            f"column {safe_text(target)} has {len(names)} different values among {table.n} rows: a class "
            f"has few; for a number declare its lower and upper in {option('bounds')}"
        )
    return names, declared is not None


def _levels(table: Table, name: str, code: bool) -> tuple[str, ...]:
    """The levels of a column, which stand in the released file: names of people must not."""
    levels, shown = level_names(table, name), safe_text(name)
    if len(levels) > MOST_LEVELS:
        raise Refusal(f"column {shown} has more than {MOST_LEVELS} levels: pass {option('exclude', shown)}")
    if not code and names_rows(name, len(levels), table.n):
        raise Refusal(
            f"column {shown} has {len(levels)} levels in {table.n} rows: it looks like an identifier; pass "
            f"{option('exclude', shown)}, or {option('categorical', shown)} if it is a category"
        )
    return levels


def _refuse_undeclared(declared: Collection[str], names: Sequence[str], *, whole: bool) -> None:
    for name in declared:
        if name not in names:
            raise Refusal(
                f"[{safe_text(name)}] in the bounds file is not a column to learn from: {advice(name, names)}"
            )
    left = [name for name in names if name not in declared]
    if whole and left:
        raise Refusal(
            f"the bounds file says nothing about {safe_list(left, 4)}: declare each column, or pass {option('exclude')}"
        )
