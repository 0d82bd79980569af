"""A table split among clients (hospitals) by one of its columns, each row encoded as numbers client by client.

Numbers are standardised inside each client, by its own mean and standard deviation, or scaled by declared bounds: the
encoding of one client's rows never depends on another client's rows. Names and kinds of columns are taken as public.
Classes and levels are declared, or read off the rows; then the list reveals a client that alone has one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import advice
from dosimeter.core.text import safe_list, safe_text
from dosimeter.federated.partition import Clients, by_column
from dosimeter.tables.table import Table

Bounds = tuple[float, float]
Levels = tuple[str, ...]
MOST_CLASSES, MOST_LEVELS = 1000, 1000


@dataclass(frozen=True)
class RowEncoding:
    """How a row becomes numbers: public, written beside the model, the same for every client."""

    target: str
    classes: Levels
    amounts: Mapping[str, Bounds | None]
    """By column: declared bounds, or None if each client standardises by itself."""
    categories: Mapping[str, Levels]
    """By column: an indicator for each level; a level that is not listed has none."""

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return len(self.amounts) + sum(map(len, self.categories.values()))

    def to_dict(self) -> dict[str, Any]:
        """For the file's metadata."""
        scaling = "own mean and deviation of the client"
        return {
            "target": self.target,
            "classes": list(self.classes),
            "columns": {
                **{name: scaling if ends is None else list(ends) for name, ends in self.amounts.items()},
                **{name: list(levels) for name, levels in self.categories.items()},
            },
        }


@dataclass(frozen=True, eq=False)
class ClientRows:
    """Rows as numbers, and the client of each row."""

    X: FloatArray
    """(n, width)."""
    y: Index
    clients: Clients
    names: tuple[str, ...]


def derive_row_encoding(
    table: Table,
    target: str,
    client: str,
    *,
    declared: Mapping[str, Bounds | Levels] | None = None,
    classes: Sequence[str] | None = None,
) -> tuple[RowEncoding, tuple[str, ...]]:
    """How to encode the rows of a table, and one sentence for each part of it that was read off the rows.

    >>> table = Table.of({"age": [31, 54], "ward": ["a", "b"], "ill": ["no", "yes"], "site": ["x", "y"]})
    >>> derive_row_encoding(table, "ill", "site")[0].width
    3
    """
    for name in (target, client):
        if name not in table.names:
            raise Refusal(f"there is no column {safe_text(name)}: {advice(name, table.names)}")
    if target == client:
        raise Refusal(f"{safe_text(target)} is both the target and the client: name two columns")
    rest = [name for name in table.names if name not in (target, client)]
    if not rest:
        raise Refusal("the table has no column besides target and client: there is nothing to learn from")
    declarations = dict(declared or {})
    _refuse_undeclared(declarations, rest, whole=declared is not None)
    amounts: dict[str, Bounds | None] = {}
    categories: dict[str, Levels] = {}
    levels_read: list[str] = []
    for name in rest:
        declaration = declarations.get(name)
        if table.kind(name) == "text":
            if isinstance(declaration, tuple) and declaration and not isinstance(declaration[0], str):
                raise Refusal(f"column {safe_text(name)} holds text: declare levels, or pass {option('exclude')}")
            categories[name] = _levels(table, name) if declaration is None else tuple(map(str, declaration))
            levels_read += [] if declaration is not None else [name]
        elif declaration is not None and isinstance(declaration[0], str):
            raise Refusal(
                f"column {safe_text(name)} holds numbers: declare lower and upper, or pass {option('exclude')}"
            )
        else:
            amounts[name] = None if declaration is None else (float(declaration[0]), float(declaration[1]))
    class_names, is_declared = _classes(table, target, classes)
    from_rows = []
    if not is_declared:
        count, declare = len(class_names), option("classes")
        from_rows.append(f"the list of {count} classes was read from the clients' rows: declare it with {declare}")
    if levels_read:
        columns, declare = safe_list(levels_read, 4), option("bounds")
        from_rows.append(f"the levels of {columns} were read from the clients' rows: declare them with {declare}")
    return RowEncoding(target, class_names, amounts, categories), tuple(from_rows)


def encode_client_rows(table: Table, encoding: RowEncoding, client: str | None) -> ClientRows:
    """The rows in this encoding. Without a client column all rows belong to one client."""
    n = table.n
    clients, names = ((np.arange(n),), ("all",)) if client is None else by_column(table[client].astype(str))
    X = np.zeros((n, encoding.width))
    column = 0
    for name, ends in encoding.amounts.items():
        X[:, column] = _scaled(_numbers(table, name), ends, clients)
        column += 1
    for name, levels in encoding.categories.items():
        X[:, column : column + len(levels)] = table[name].astype(str)[:, None] == np.array(levels)[None, :]
        column += len(levels)
    return ClientRows(X, _codes(table, encoding), clients, tuple(map(str, names)))


def _scaled(values: FloatArray, ends: Bounds | None, clients: Clients) -> FloatArray:
    if ends is not None:
        low, high = ends
        return np.asarray(np.clip((values - low / 2 - high / 2) / (high / 2 - low / 2), -1.0, 1.0))
    scaled = np.zeros(len(values))
    for rows in clients:
        client_values = values[rows]
        # By the largest first: the square of 1e200 has no float64.
        client_values = client_values / max(float(np.abs(client_values).max()), 1e-300)
        spread = float(client_values.std())
        scaled[rows] = (client_values - client_values.mean()) / spread if spread > 1e-12 else 0.0
    return scaled


def _numbers(table: Table, name: str) -> FloatArray:
    if table.kind(name) == "text":
        raise Refusal(f"column {safe_text(name)} holds text here and numbers in the clients' table")
    return np.asarray(table[name], dtype=np.float64)


def _codes(table: Table, encoding: RowEncoding) -> Index:
    place = {name: k for k, name in enumerate(encoding.classes)}
    labels = table[encoding.target].astype(str).tolist()
    if not set(labels) <= set(place):  # the value is one person's and is not quoted
        raise Refusal(
            f"the target {safe_text(encoding.target)} has a value that is not in the list of classes: add it there"
        )
    return np.array([place[name] for name in labels], dtype=np.intp)


def _classes(table: Table, target: str, declared: Sequence[str] | None) -> tuple[Levels, bool]:
    names = tuple(declared) if declared is not None else tuple(sorted(set(table[target].astype(str).tolist())))
    if len(set(names)) < max(2, len(names)):
        raise Refusal(f"classes {safe_list(names, 4)}: give at least two different ones")
    if len(names) > MOST_CLASSES or (declared is None and len(names) > 20 and len(names) > table.n / 4):
        raise Refusal(
            f"column {safe_text(target)} has {len(names)} different values among {table.n} rows: a target is a class"
        )
    return names, declared is not None


def _levels(table: Table, name: str) -> Levels:
    levels = tuple(sorted(set(table[name].astype(str).tolist())))
    if len(levels) > MOST_LEVELS or len(levels) > max(20, table.n // 2):
        shown = safe_text(name)
        raise Refusal(
            f"column {shown} has {len(levels)} different texts: if it names a person, {option('exclude', shown)}"
        )
    return levels


def _refuse_undeclared(declared: Mapping[str, Any], names: Sequence[str], *, whole: bool) -> None:
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
