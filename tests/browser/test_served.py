"""The served page in a real browser: it is drawn, the slider moves, nothing is fetched, no untrusted text runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dosimeter.core.notion import LEAKAGE
from dosimeter.ledger import Ledger, LedgerLimit
from dosimeter.serve.server import Serving
from tests.ledger.samples import booking, dose, of_all_kinds

from .opened import opened, widths
from .payloads import PAYLOADS


def _served(ledger: Ledger) -> Iterator[Serving]:
    made = Serving.on()
    server: Any = made.server(ledger)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [made.socket]}, daemon=True)
    thread.start()
    yield made
    server.should_exit = True
    thread.join(10)
    made.socket.close()


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    path = Path(tmp_path_factory.mktemp("served")) / "ledger.sqlite"
    with Ledger.create(path, [LedgerLimit.parse(one) for one in ("fil=0.3", "eps=3@1e-6", "leakage=0.05")]) as made:
        made.book(of_all_kinds("may"))
        made.book(booking("july", dose({f"person {k}": 0.002 * (k + 1) for k in range(140)})))
        for k in range(0, len(PAYLOADS), 3):
            note, to, why = (PAYLOADS[i % len(PAYLOADS)] for i in (k, k + 1, k + 2))
            made.book(booking(f"hostile {k}", dose({"ann": 0.1}, LEAKAGE), note=note, to=to, override=why))
        made.set_budget(LedgerLimit.parse("fil=0.28"), PAYLOADS[0])
        yield made


@pytest.fixture(scope="module")
def address(book: Ledger) -> Iterator[str]:
    """Where the page is, after the first visit: the browser has its cookie."""
    for serving in _served(book):
        opened(serving.address)
        yield serving.address.split("?")[0].rstrip("/")


PAGES = {"/": 0, "/people": 1, "/people?account=1&page=1": 1, "/releases": 0, "/release?seq=2": 3, "/budgets": 0}


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_drawn_and_asks_for_nothing(page: str, address: str) -> None:
    seen = opened(address + page, screenshot=f"served{page.replace('/', '-').replace('?', '-')}")
    assert seen.quiet, seen
    assert (seen.charts, seen.drawn) == (PAGES[page], PAGES[page])
    assert seen.elements["h1"] == 1


@pytest.mark.parametrize("wide", [400, 1200])
@pytest.mark.parametrize("page", PAGES)
def test_words_in_tables_stay_whole_on_a_narrow_screen(page: str, wide: int, address: str) -> None:
    found = dict[str, Any]()
    opened(address + page, act=lambda tab: found.update(widths(tab, wide)))
    assert found["broken"] == []
    assert found["across"] <= wide


def test_dark_pages_are_drawn_too(address: str, book: Ledger) -> None:
    for serving in _served(book):
        opened(serving.address, dark=True)
        seen = opened(serving.address.split("?")[0] + "people", dark=True, screenshot="served-people-dark")
        assert seen.quiet
        assert seen.drawn == 1


def test_the_slider_says_what_other_noise_would_have_given(address: str, book: Ledger) -> None:
    seq = book.entry("july").seq

    def move(tab: Any) -> None:
        tab.focus("#noise")
        for _ in range(4):  # four steps are one doubling
            tab.keyboard.press("ArrowRight")

    still = opened(f"{address}/release?seq={seq}")
    moved = opened(f"{address}/release?seq={seq}", act=move, screenshot="served-slider")
    assert moved.quiet, moved
    (before,), (after,) = ([t for t in seen.texts if t.startswith("highest 0")] for seen in (still, moved))
    # The last person is in no other release: 0.28, and half of it.
    assert before.startswith("highest 0.28")
    assert after.startswith("highest 0.14")
    assert "2 times" in moved.markup


def test_strangers_text_is_shown_as_it_is_and_never_runs(address: str, book: Ledger) -> None:
    from dosimeter.reports.markup import shown

    seqs = [entry.seq for entry in book.releases() if entry.name.startswith("hostile")]
    texts = set[str]()
    for page in (*PAGES, *(f"/release?seq={seq}" for seq in seqs)):
        seen = opened(address + page)
        assert seen.quiet, (page, seen)
        assert not {"iframe", "img", "object", "embed", "form", "base", "link"} & set(seen.elements)
        texts |= {" ".join(one.split()) for one in seen.texts}
    assert {" ".join(shown(text).split()) for text in PAYLOADS} <= texts


def test_without_the_cookie_the_browser_gets_a_sentence(book: Ledger) -> None:
    for serving in _served(book):
        seen = opened(f"http://127.0.0.1:{serving.port}/")
        assert "no token: open the address that dosimeter serve printed" in seen.markup
        assert not seen.pwned
