"""Whose rows `federate` trains on: a public set of images dealt to made-up clients, or a table cut by a column."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text

if TYPE_CHECKING:
    from dosimeter.tables.client_rows import RowEncoding

DATASETS = ("digits", "mnist")
DEMO_CLIENTS, DIGIT_POINTS, MNIST_POINTS = 500, 20, 600
PUBLIC = "the names of columns, and which of them hold numbers, are taken as public"
COUNTED = "the number of clients ({}) was counted in the rows: declare it with --clients"
_DEALS = 5
"""What the draw of the shards is for, as part of its seed."""
MADE_UP = "the clients are made up: rows of a public set of images, dealt in shards of one or two digits"
INSIDE = "internal: "
"""How a remark begins that was counted without noise: it does not go into the model's file."""
ONE_FILE = "the table holds all clients' rows, so whoever runs this sees them: it stands for clients and curator in one"


@dataclass(frozen=True, eq=False)
class ClientPopulation:
    """Clients, their rows as numbers, and public rows to score with. Private but for the last."""

    source: str
    X: Any
    """(n, p)."""
    y: Any
    clients: tuple[Any, ...]
    X_test: Any
    y_test: Any
    classes: tuple[str, ...]
    tested: str
    """In words, what the accuracy is measured on; "" where there is nothing public to measure on."""
    form: Mapping[str, Any]
    """How a row becomes numbers, for the file's metadata."""
    assumed: tuple[str, ...]
    """What is taken as public or given."""
    remarks: tuple[str, ...] = ()
    unpaid: tuple[str, ...] = ()
    """What was read off the clients' rows without noise and is seen in the model or its file, and what to do."""
    layout: RowEncoding | None = None
    """The same as `form`, for a pipeline; None where rows are numbers already."""
    names: tuple[str, ...] = ()
    """(K,) what each client is called in the table; () where they are made up. Internal."""


def of_images(name: str, clients: int, seed: int, data: Path | None, pool: int) -> ClientPopulation:
    """The digits that ship with scikit-learn, or MNIST from a folder, in shards as in [Geyer19]."""
    from dosimeter.federated.partition import two_shards

    X, y, X_test, y_test, tested, form = _mnist(data, pool) if name == "mnist" else _digits()
    points = MNIST_POINTS if name == "mnist" else DIGIT_POINTS
    dealt = two_shards(y, clients, np.random.default_rng([seed, _DEALS]), points=points)
    classes = tuple(str(k) for k in range(10))
    repeated = clients * points > len(y)
    remarks = (f"{clients} clients of {points} rows share {len(y)}: rows are repeated, as in the paper",)
    source = {"digits": "digits that ship with scikit-learn", "mnist": "MNIST"}[name]
    return ClientPopulation(
        source, X, y, dealt, X_test, y_test, classes, tested, form, (MADE_UP,), remarks if repeated else ()
    )


def _digits() -> tuple[Any, ...]:
    from sklearn.datasets import load_digits

    from dosimeter.datasets.digits import PRIVATE

    data = load_digits()
    X, y = data.data / 16.0, data.target.astype(np.intp)
    tested = f"the {len(y) - PRIVATE} digits that no client holds, which are public"
    form = {"columns": "64 pixels, row by row", "scaling": "divided by 16"}
    return X[:PRIVATE], y[:PRIVATE], X[PRIVATE:], y[PRIVATE:], tested, form


def _mnist(data: Path | None, pool: int) -> tuple[Any, ...]:
    from dosimeter.datasets.digits import mnist, pooled

    if data is None:
        raise Refusal("--dataset mnist is not part of the package: pass --data or set DOSIMETER_DATA")
    X, y, X_test, y_test = mnist(data)
    form = {
        "columns": f"{28 // pool} x {28 // pool} pixels, row by row",
        "scaling": f"means of {pool} x {pool} of [0, 1]",
    }
    return pooled(X, pool), y, pooled(X_test, pool), y_test, "the 10,000 images of the public test set", form


def of_table(
    table: Path,
    target: str,
    client: str,
    *,
    test: Path | None,
    bounds: Path | None,
    classes: str | None,
    drop: Sequence[str],
    read: Mapping[str, str],
    nominal: Sequence[str] = (),
    clients: int | None = None,
) -> ClientPopulation:
    """A client for each value of the column `client`; `clients` is their declared number, if one was."""
    from dosimeter.tables.client_rows import form_of, parted

    declared = None if bounds is None else _declared(bounds)
    texts = [*nominal, *(name for name, told in (declared or {}).items() if isinstance(told[0], str))]
    numbers = None if declared is None else [name for name in declared if name not in texts]
    rows = _read(table, [target, client, *texts], drop, read, numbers)
    safe_list = None if classes is None else tuple(name.strip() for name in classes.split(","))
    strangers = 0
    if declared is not None and safe_list is not None:
        rows, strangers = _of_classes(rows, target, safe_list)
    form, from_rows = form_of(rows, target, client, declared=declared, classes=safe_list)
    own = parted(rows, form, client)
    if clients is not None and len(own.clients) > clients:
        raise Refusal(
            f"{safe_text(client)} names {len(own.clients)} clients, more than --clients {clients}: declare all"
        )
    if len(own.clients) < 2 and clients is None:
        raise Refusal(f"--client {safe_text(client)}: the column names one client only, and one cannot be hidden")
    X_test, y_test, tested = np.zeros((1, form.width)), np.zeros(1, dtype=np.intp), ""
    if test is not None:
        X_test, y_test = _tested(test, form, client, [target, *texts], drop, read)
        tested = f"the {len(y_test)} rows of {safe_text(test.name)}, taken as public"
    counted = () if clients is not None else (COUNTED.format(len(own.clients)),)
    gone = {"for a missing value": rows.dropped, "because their class is not declared": strangers}
    left = tuple(f"{INSIDE}left out {why}: {count} of the rows" for why, count in gone.items() if count)
    return ClientPopulation(
        table.name, own.X, own.y, own.clients, X_test, y_test, form.classes, tested, form.plain(),
        (ONE_FILE, PUBLIC), (*left, *_alike(own.names)), (*counted, *from_rows), form, own.names,
    )  # fmt: skip


def _alike(names: Sequence[str]) -> tuple[str, ...]:
    """A remark where two clients may be one whose name was typed twice."""
    first: dict[str, str] = {}
    twice = []
    for name in names:
        known = first.setdefault(" ".join(unicodedata.normalize("NFKC", name).casefold().split()), name)
        twice += [(known, name)] if known != name else []
    if not twice:
        return ()
    pair = f"{safe_text(repr(twice[0][0]))} and {safe_text(repr(twice[0][1]))}"
    return (
        f"{INSIDE}{len(twice)} names of clients differ from another in blanks or capitals only ({pair}): a client "
        "under two names is hidden under each of them, not as a whole; if they are one, make the names one",
    )


def _of_classes(rows: Any, target: str, classes: Sequence[str]) -> tuple[Any, int]:
    """The rows of a declared class, and how many others there are: one client's label must not end the run."""
    known = np.isin(rows[target].astype(str), classes)
    if not known.any():
        raise Refusal(f"no row of {safe_text(target)} has a class of the list: correct --classes")
    return (rows, 0) if known.all() else (rows.take(known), int((~known).sum()))


def _read(
    path: Path, text: Sequence[str], drop: Sequence[str], how: Mapping[str, str], declared: Sequence[str] | None = None
) -> Any:
    from dosimeter.tables.read import read_table

    for name in text:
        if name in drop:
            raise Refusal(f"column {safe_text(name)} is needed and was dropped by --drop: leave one of the two out")
    missing: Any = how["missing"]
    return read_table(
        path,
        delimiter=how["delimiter"],
        text=tuple(dict.fromkeys(text)),
        drop=tuple(drop),
        missing=missing,
        declared=declared,
    )


def _tested(
    path: Path, form: Any, client: str, text: Sequence[str], drop: Sequence[str], how: Mapping[str, str]
) -> tuple[Any, Any]:
    """Public rows in the clients' form; where they name their clients, each is standardised by itself."""
    from dosimeter.tables.client_rows import parted
    from dosimeter.tables.read import read_table

    names = read_table(path, delimiter=how["delimiter"], missing="drop").names
    there = client if client in names else None
    rows = _read(path, [*text, *([] if there is None else [there])], [name for name in drop if name in names], how)
    for name in (*form.amounts, *form.categories, form.target):
        if name not in rows.names:
            raise Refusal(f"{safe_text(path.name)}: there is no column {safe_text(name)}, which the clients have")
    found = parted(rows, form, there)
    return found.X, found.y


def _declared(path: Path) -> dict[str, Any]:
    """Bounds and levels from a file such as `pca` takes."""
    from dosimeter.tables.bounds_file import NumberBounds, read_bounds

    return {
        name: (column.lower, column.upper) if isinstance(column, NumberBounds) else column.levels
        for name, column in read_bounds(path).columns.items()
    }
