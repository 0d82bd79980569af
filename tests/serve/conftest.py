"""A ledger with every kind of account, and a client that may or may not have the token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dosimeter.ledger import Ledger, LedgerLimit
from dosimeter.serve.app import application
from tests.ledger.samples import booking, dose, of_all_kinds
from tests.serve.asking import PORT, TOKEN, Client


def filled(path: Path) -> Ledger:
    """Three releases, one over a limit, and a limit that was changed."""
    ledger = Ledger.create(
        path, (LedgerLimit.parse("fil=0.3"), LedgerLimit.parse("eps=3@1e-6"), LedgerLimit.parse("leakage=2"))
    )
    ledger.book(of_all_kinds("may"))
    ledger.book(of_all_kinds("june"))
    ledger.book(
        booking("july", dose({f"person {k}": 0.35 if k == 3 else 0.1 for k in range(250)}), override="a reason")
    )
    ledger.set_budget(LedgerLimit.parse("fil=0.32"), "agreed")
    return ledger


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a ledger that only the pages read."""
    where = tmp_path_factory.mktemp("book") / "ledger.sqlite"
    filled(where).close()
    return where


@pytest.fixture(scope="module")
def ledger(path: Path) -> Iterator[Ledger]:
    """The same, open."""
    with Ledger.open(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def app(ledger: Ledger) -> Any:
    """The application."""
    return application(ledger, PORT, TOKEN)


@pytest.fixture
def stranger(app: Any) -> Client:
    """A client without the token."""
    return Client(app)


@pytest.fixture
def client(app: Any) -> Client:
    """A client that opened the printed address."""
    client = Client(app)
    assert client.get(f"/?token={TOKEN}").status_code == 303
    return client
