"""The clients that `federate` trains on: public images dealt to made-up clients, or a table split by a column."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.tables.bounds_file import read_bounds
from dosimeter.tables.client_rows import ClientEncoding, derive_client_encoding, encode_client_rows
from dosimeter.tables.declared_bounds import Range
from dosimeter.tables.person_ids import with_person_ids
from dosimeter.tables.read import read_table
from dosimeter.tables.table import Table

Data = Any
"""A path to .csv or .parquet, or a dataframe."""
DATASETS = ("digits", "mnist")
DEMO_CLIENTS, DIGIT_POINTS, MNIST_POINTS = 500, 20, 600
PUBLIC = "the names of columns, and which of them hold numbers, are taken as public"
_DEALS = 5
"""Part of the seed that shards are drawn with."""
MADE_UP = "the clients are made up: rows of a public set of images, dealt in shards of one or two digits"
INSIDE = "internal: "
"""Prefix of a remark that was counted without noise: it does not go into the model's file."""
ONE_FILE = "the table holds all clients' rows, so anyone who runs this sees them: one party plays clients and curator"


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
    """Description of the rows that the accuracy is measured on; "" if there are no public ones."""
    form: Mapping[str, Any]
    """How a row becomes numbers, for the file's metadata."""
    assumptions: tuple[str, ...]
    """What is taken as public."""
    remarks: tuple[str, ...] = ()
    read_off_rows: tuple[str, ...] = ()
    """What was read off the clients' rows without noise and shows in the model or its file, and what to do about it."""
    layout: ClientEncoding | None = None
    """The same as `form`, for a pipeline; None if rows are already numbers."""
    names: tuple[str, ...] = ()
    """(K,) what each client is called in the table; () if they are made up. Internal."""
    sites: tuple[Any, ...] = ()
    """Numbers of the clients (patients) of each site; () if there is one site."""


def image_clients(name: str, clients: int, seed: int, data: Path | None, pool: int) -> ClientPopulation:
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
    from dosimeter.datasets.digits import mnist, pool_pixels

    if data is None:
        mnist_set = option("dataset", "mnist")
        raise Refusal(f"{mnist_set} is not part of the package: pass {option('data')} or set DOSIMETER_DATA")
    X, y, X_test, y_test = mnist(data)
    form = {
        "columns": f"{28 // pool} x {28 // pool} pixels, row by row",
        "scaling": f"means of {pool} x {pool} of [0, 1]",
    }
    return pool_pixels(X, pool), y, pool_pixels(X_test, pool), y_test, "the 10,000 images of the public test set", form


def table_clients(
    table: Data,
    target: str,
    client: str,
    *,
    test: Data | None = None,
    bounds: Path | None = None,
    classes: str | Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    missing: str = "refuse",
    delimiter: str = ",",
    decimal: str = ".",
    categorical: Sequence[str] = (),
    clients: int | None = None,
    site: str | None = None,
) -> ClientPopulation:
    """A client for each value of the column `client`; `clients` is their declared number, if one was."""
    declared = None if bounds is None else read_bounds(bounds).columns
    texts = [*categorical, *(name for name, column in (declared or {}).items() if isinstance(column, tuple))]
    numbers = None if declared is None else [name for name in declared if name not in texts]
    read = {"missing": missing, "delimiter": delimiter, "decimal": decimal}
    amount = declared is not None and isinstance(declared.get(target), Range)
    outcome = [] if amount else [target]
    rows = _read(table, [*outcome, client, *texts, *([] if site is None else [site])], exclude, read, numbers)
    rows = with_person_ids(rows, client)
    sites: tuple[Any, ...] = ()
    elsewhere = 0
    if site is not None:
        rows, sites, elsewhere = _at_one_site(rows, client, site)
    listed = _class_list(classes)
    unlisted = 0
    if declared is not None and listed is not None and not amount:
        rows, unlisted = _keep_listed_rows(rows, target, listed)
    encoding, from_rows = derive_client_encoding(
        rows, target, client, declared=declared, classes=listed, codes=categorical
    )
    encoded = encode_client_rows(rows, encoding, client)
    if clients is not None and len(encoded.clients) > clients:
        raise Refusal(
            f"{safe_text(client)} names {len(encoded.clients)} clients, more than "
            f"{option('clients', clients)}: declare all"
        )
    if len(encoded.clients) < 2 and clients is None:
        shown = option("client", safe_text(client))
        raise Refusal(f"{shown}: the column names one client only, and one client cannot be hidden")
    X_test, y_test, tested = np.zeros((1, encoded.X.shape[1])), np.zeros(1, dtype=encoded.y.dtype), ""
    if test is not None:
        X_test, y_test = _encode_test_rows(test, encoding, client, [*outcome, *texts], exclude, read)
        tested = f"the {len(y_test)} rows of {_name(test)}, taken as public"
    declare = option("clients")
    counted = (
        ()
        if clients is not None
        else (f"the number of clients ({len(encoded.clients)}) was counted in the rows: declare it with {declare}",)
    )
    gone = {
        "because their patient has rows at another site, and one site sums a patient": elsewhere,
        "for a missing value": rows.dropped,
        "because their class is not declared": unlisted,
    }
    left_out = tuple(f"{INSIDE}left out {why}: {count} of the rows" for why, count in gone.items() if count)
    return ClientPopulation(
        _name(table), encoded.X, encoded.y, encoded.clients, X_test, y_test, encoding.classes, tested,
        encoding.to_dict(), (ONE_FILE, PUBLIC), (*left_out, *_similar_names(encoded.names)), (*counted, *from_rows),
        encoding, encoded.names, _clients_of_sites(encoded.names, sites),
    )  # fmt: skip


def _at_one_site(rows: Table, person: str, site: str) -> tuple[Table, tuple[Any, ...], int]:
    """The table without the site column, (person, site) pairs, and the rows left out.

    A patient with rows at several sites keeps those of the first site by name: otherwise each site would clip a part,
    and the patient would move the sum by more than one clip.
    """
    if site not in rows.names:
        raise Refusal(f"there is no column {safe_text(site)}, which {option('site')} names")
    people, places = rows[person].astype(str), rows[site].astype(str)
    home: dict[str, str] = {}
    for who, where in zip(people.tolist(), places.tolist(), strict=True):
        home[who] = min(home.get(who, where), where)
    kept = np.array([home[who] == where for who, where in zip(people.tolist(), places.tolist(), strict=True)])
    return rows.take(kept).drop([site]), tuple(sorted(home.items())), int((~kept).sum())


def _clients_of_sites(names: Sequence[str], homes: Sequence[tuple[str, str]]) -> tuple[Any, ...]:
    """Numbers of the patients of each site, sites by name."""
    home = dict(homes)
    if not home:
        return ()
    places = np.array([home[name] for name in names])
    return tuple(np.flatnonzero(places == place) for place in sorted(set(places.tolist())))


def _similar_names(names: Sequence[str]) -> tuple[str, ...]:
    """A remark if two names may be one client, written in two ways."""
    first: dict[str, str] = {}
    twice = []
    for name in names:
        known = first.setdefault(" ".join(unicodedata.normalize("NFKC", name).casefold().split()), name)
        twice += [(known, name)] if known != name else []
    if not twice:
        return ()
    pair = f"{safe_text(repr(twice[0][0]))} and {safe_text(repr(twice[0][1]))}"
    return (
        f"{INSIDE}{len(twice)} names of clients differ from another in blanks or capitals only ({pair}): if both "
        "are one client, each name is protected separately, not the client; write the names alike",
    )


def _keep_listed_rows(rows: Any, target: str, classes: Sequence[str]) -> tuple[Any, int]:
    """The rows of a declared class, and the number of other rows: one client's label must not stop the run."""
    known = np.isin(rows[target].astype(str), classes)
    if not known.any():
        raise Refusal(f"no row of {safe_text(target)} has a class of the list: correct {option('classes')}")
    return (rows, 0) if known.all() else (rows.take(known), int((~known).sum()))


def _class_list(classes: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if classes is None:
        return None
    return tuple(name.strip() for name in (classes.split(",") if isinstance(classes, str) else classes))


def _name(table: Data) -> str:
    """The name of a table in a report."""
    return safe_text(Path(table).name) if isinstance(table, str | os.PathLike) else "the table"


def _read(
    table: Data,
    text: Sequence[str],
    exclude: Sequence[str],
    read: Mapping[str, Any],
    declared: Sequence[str] | None = None,
) -> Table:
    for name in text:
        if name in exclude:
            raise Refusal(
                f"column {safe_text(name)} is needed, and {option('exclude')} leaves it out: remove one of the two"
            )
    columns = tuple(dict.fromkeys(text))
    if not isinstance(table, str | os.PathLike):
        return Table.of(table, text=columns, drop=tuple(exclude), missing=read["missing"], declared=declared)
    return read_table(table, text=columns, drop=tuple(exclude), declared=declared, **read)


def _encode_test_rows(
    table: Data,
    encoding: ClientEncoding,
    client: str,
    text: Sequence[str],
    exclude: Sequence[str],
    read: Mapping[str, Any],
) -> tuple[Any, Any]:
    """Public rows in the clients' encoding; if they name their clients, each is standardised by itself."""
    names = _read(table, (), (), {**read, "missing": "drop"}).names
    column = client if client in names else None
    needed = [*text, *([] if column is None else [column])]
    rows = _read(table, needed, [name for name in exclude if name in names], read)
    for name in (*(source.name for source in encoding.columns.sources), encoding.target):
        if name not in rows.names:
            raise Refusal(f"{_name(table)}: there is no column {safe_text(name)}, which the clients have")
    encoded = encode_client_rows(rows, encoding, column)
    return encoded.X, encoded.y
