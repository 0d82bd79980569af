"""A table cut among clients (hospitals) by one of its columns, each row made into numbers without looking across them.

Amounts are standardised inside each client, by its own mean and deviation, or scaled by bounds that were declared: what
one client's numbers become never depends on another's rows. Names of columns and their kinds are taken as public;
classes and levels are declared, or read off the rows, and then a client that alone has one is given away by the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.core.location import advice
from dosimeter.core.text import safe_list, safe_text
from dosimeter.federated.partition import Clients, by_column
from dosimeter.tables.table import Table

Bounds = tuple[float, float]
Levels = tuple[str, ...]
MOST_CLASSES, MOST_LEVELS = 1000, 1000
_CLASSES, _BOUNDS = "declare it with --classes", "declare them with --bounds"


@dataclass(frozen=True)
class RowEncoding:
    """How a row becomes numbers: public, written beside the model, the same for everybody."""

    target: str
    classes: Levels
    amounts: Mapping[str, Bounds | None]
    """By column: declared bounds, or None where each client standardises by itself."""
    categories: Mapping[str, Levels]
    """By column: an indicator for each level; a level that is not listed has none."""

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return len(self.amounts) + sum(map(len, self.categories.values()))

    def plain(self) -> dict[str, Any]:
        """For the file's metadata."""
        own = "own mean and deviation of the client"
        return {
            "target": self.target,
            "classes": list(self.classes),
            "columns": {
                **{name: own if ends is None else list(ends) for name, ends in self.amounts.items()},
                **{name: list(levels) for name, levels in self.categories.items()},
            },
        }


@dataclass(frozen=True, eq=False)
class ClientRows:
    """Rows as numbers, and whose they are."""

    X: FloatArray
    """(n, width)."""
    y: Index
    clients: Clients
    names: tuple[str, ...]


def form_of(
    table: Table,
    target: str,
    client: str,
    *,
    declared: Mapping[str, Bounds | Levels] | None = None,
    classes: Sequence[str] | None = None,
) -> tuple[RowEncoding, tuple[str, ...]]:
    """The form of a table's rows, and in words what of it was read off the rows.

    >>> table = Table.of({"age": [31, 54], "ward": ["a", "b"], "ill": ["no", "yes"], "site": ["x", "y"]})
    >>> form_of(table, "ill", "site")[0].width
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
    told = dict(declared or {})
    _refuse_strangers(told, rest, whole=declared is not None)
    amounts: dict[str, Bounds | None] = {}
    categories: dict[str, Levels] = {}
    read: list[str] = []
    for name in rest:
        given = told.get(name)
        if table.kind(name) == "text":
            if isinstance(given, tuple) and given and not isinstance(given[0], str):
                raise Refusal(f"column {safe_text(name)} holds text: declare levels, or --drop it")
            categories[name] = _levels(table, name) if given is None else tuple(map(str, given))
            read += [] if given is not None else [name]
        elif given is not None and isinstance(given[0], str):
            raise Refusal(f"column {safe_text(name)} holds numbers: declare lower and upper, or --drop it")
        else:
            amounts[name] = None if given is None else (float(given[0]), float(given[1]))
    found, told_classes = _classes(table, target, classes)
    words = [] if told_classes else [f"the list of {len(found)} classes was read from the clients' rows: {_CLASSES}"]
    words += [f"the levels of {safe_list(read, 4)} were read from the clients' rows: {_BOUNDS}"] if read else []
    return RowEncoding(target, found, amounts, categories), tuple(words)


def parted(table: Table, form: RowEncoding, client: str | None) -> ClientRows:
    """The rows by this form; without a column of clients they are one client's."""
    n = table.n
    clients, names = ((np.arange(n),), ("all",)) if client is None else by_column(table[client].astype(str))
    X = np.zeros((n, form.width))
    at = 0
    for name, ends in form.amounts.items():
        X[:, at] = _scaled(_numbers(table, name), ends, clients)
        at += 1
    for name, levels in form.categories.items():
        X[:, at : at + len(levels)] = table[name].astype(str)[:, None] == np.array(levels)[None, :]
        at += len(levels)
    return ClientRows(X, _codes(table, form), clients, tuple(map(str, names)))


def _scaled(values: FloatArray, ends: Bounds | None, clients: Clients) -> FloatArray:
    if ends is not None:
        low, high = ends
        return np.asarray(np.clip((values - low / 2 - high / 2) / (high / 2 - low / 2), -1.0, 1.0))
    made = np.zeros(len(values))
    for rows in clients:
        own = values[rows]
        # By the largest first: the square of 1e200 has no float64.
        own = own / max(float(np.abs(own).max()), 1e-300)
        spread = float(own.std())
        made[rows] = (own - own.mean()) / spread if spread > 1e-12 else 0.0
    return made


def _numbers(table: Table, name: str) -> FloatArray:
    if table.kind(name) == "text":
        raise Refusal(f"column {safe_text(name)} holds text here and numbers in the clients' table")
    return np.asarray(table[name], dtype=np.float64)


def _codes(table: Table, form: RowEncoding) -> Index:
    place = {name: k for k, name in enumerate(form.classes)}
    labels = table[form.target].astype(str).tolist()
    if not set(labels) <= set(place):  # the value is somebody's own and is not quoted
        raise Refusal(
            f"the target {safe_text(form.target)} has a value that is not in the list of classes: add it there"
        )
    return np.array([place[name] for name in labels], dtype=np.intp)


def _classes(table: Table, target: str, given: Sequence[str] | None) -> tuple[Levels, bool]:
    found = tuple(given) if given is not None else tuple(sorted(set(table[target].astype(str).tolist())))
    if len(set(found)) < max(2, len(found)):
        raise Refusal(f"classes {safe_list(found, 4)}: give at least two different ones")
    if len(found) > MOST_CLASSES or (given is None and len(found) > 20 and len(found) > table.n / 4):
        raise Refusal(
            f"column {safe_text(target)} has {len(found)} different values among {table.n} rows: a target is a class"
        )
    return found, given is not None


def _levels(table: Table, name: str) -> Levels:
    levels = tuple(sorted(set(table[name].astype(str).tolist())))
    if len(levels) > MOST_LEVELS or len(levels) > max(20, table.n // 2):
        raise Refusal(f"column {safe_text(name)} has {len(levels)} different texts: --drop it if it names a person")
    return levels


def _refuse_strangers(told: Mapping[str, Any], names: Sequence[str], *, whole: bool) -> None:
    for name in told:
        if name not in names:
            raise Refusal(f"[{safe_text(name)}] in the bounds file is no column to learn from: {advice(name, names)}")
    left = [name for name in names if name not in told]
    if whole and left:
        raise Refusal(f"the bounds file says nothing about {safe_list(left, 4)}: declare each column, or --drop it")
