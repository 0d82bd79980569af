"""What the pages say is what the ledger says; other noise is held to a ledger that was really booked with it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.core.accounts import Account
from dosimeter.ledger import AccountTotals, Ledger, LedgerLimit
from dosimeter.serve import pages
from dosimeter.serve.ledger_cache import LedgerCache
from dosimeter.serve.what_if import FACTORS, FLOOR, named, what_if
from tests.ledger.samples import booking, dose
from tests.serve.asking import Client


@pytest.fixture(scope="module")
def book(ledger: Ledger) -> LedgerCache:
    return LedgerCache(ledger)


def grid(leaf: pages.ServedPage, heading: str):
    (section,) = [section for section in leaf.sections if section.heading == heading]
    (table,) = [part for part in section.parts if part.kind == "grid"]
    return table


def test_the_overview_has_every_account_with_its_highest_total(book: LedgerCache, ledger: Ledger) -> None:
    leaf = pages.overview(book)
    rows = {row[0]: row for row in grid(leaf, "Accounts").rows}
    totals = ledger.totals()
    assert len(rows) == len(totals) == 6
    for account in totals:
        row = rows[pages.account_title(account)]
        assert row[1:4] == (len(account.readings), float(np.median(account.readings)), float(account.readings[0]))
        assert row[5] == account.passing
    assert leaf.verdict.tone == "bad"  # july went out over the limit
    assert "1 in η" in leaf.verdict.text


def test_people_are_in_order_page_by_page_and_none_is_lost(book: LedgerCache, ledger: Ledger) -> None:
    every = ledger.totals()
    index = next(k for k, totals in enumerate(every) if len(totals.readings) > 200)
    listed = []
    for page in (1, 2, 3):
        leaf = pages.people(book, index, page)
        assert leaf is not None
        listed += [(row[0], row[2]) for row in grid(leaf, "By total").rows]
    assert listed == list(zip(every[index].pseudonyms, every[index].readings.tolist(), strict=True))
    assert pages.people(book, index, 4) is None
    assert pages.people(book, len(every), 1) is None


def test_a_release_says_what_it_was_and_cost(book: LedgerCache, ledger: Ledger) -> None:
    entry = ledger.entry("june")
    leaf = pages.release(book, entry.seq)
    assert leaf is not None
    assert len(grid(leaf, "What it cost").rows) == len(entry.accounts)
    text = str([part for section in leaf.sections for part in section.parts])
    for wanted in ("Hospital B", "monthly", "Gaussian(sigma=0.5)", "a tuned scale"):
        assert wanted in text
    assert pages.release(book, 10**6) is None
    assert pages.release(book, 1) is None  # the entry that opened the ledger is no release


def test_accounts_without_a_law_say_so(book: LedgerCache, ledger: Ledger) -> None:
    leaf = pages.release(book, ledger.entry("may").seq)
    assert leaf is not None
    assert leaf.slider is not None
    texts = [part.text for section in leaf.sections for part in section.parts if part.kind == "paragraph"]
    assert sum("has no closed law" in text for text in texts) == 1
    assert sum("does not scale with one over the noise" in text for text in texts) == 2
    lawful = [account for account in ledger.entry("may").accounts if account.key in ("fil", "mu")]
    assert {name for name, _ in leaf.slider.rows} == {named(account) for account in lawful}


def test_budgets_show_the_limit_in_force_and_its_history(book: LedgerCache) -> None:
    leaf = pages.budgets(book)
    assert {row[0] for row in grid(leaf, "Limits").rows} == {"fil=0.32", "eps=3@1e-06", "leakage=2 nats"}
    assert [(row[0], row[3]) for row in grid(leaf, "History").rows][-1] == ("fil=0.32", "agreed")


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 8.0])
def test_other_noise_gives_what_a_ledger_booked_with_it_says(factor: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    ids = [f"p{k}" for k in range(40)]
    first, second = rng.uniform(0.01, 0.2, 40), rng.uniform(0.01, 0.2, 30)

    def filled(name: str, scale: float):
        with Ledger.create(tmp_path / name, (LedgerLimit.parse("fil=0.25"),)) as ledger:
            ledger.book(booking("first", dose(dict(zip(ids, first, strict=True))), override="x"))
            ledger.book(booking("second", dose(dict(zip(ids[:30], second / scale, strict=True))), override="x"))
            (totals,) = ledger.totals()
            share = ledger.compare("second", "second")[0]
            return totals, dict(zip(share.pseudonyms, share.first.tolist(), strict=True))

    now, doses = filled("a", 1.0)
    then, _ = filled("b", factor)
    scenario = what_if(now, doses)
    k = int(np.argmin(np.abs(factor - FACTORS)))
    assert factor == FACTORS[k]
    inside = np.sqrt(first[:30] ** 2 + (second / factor) ** 2)
    # Amounts are kept in billionths of η², rounded up: a total of 0.01 moves in the fifth digit at most.
    assert scenario.highest[k] == pytest.approx(inside.max(), rel=1e-4)
    assert scenario.typical[k] == pytest.approx(np.median(inside), rel=1e-4)
    assert scenario.above[k] == (inside > 0.25).sum()
    booked = np.sort(then.readings)[::-1]
    assert any(abs(scenario.highest[k] - reading) < 1e-4 for reading in booked)


def test_two_people_of_one_short_pseudonym_are_not_guessed_at() -> None:
    fil = Account("fil", "person", "own units")
    assert what_if(AccountTotals(fil, ("ann", "ann"), np.array([0.5, 0.3]), None), {"ann": 0.3}) is None


def test_the_totals_are_read_again_when_the_ledger_grows(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "b") as ledger:
        book = LedgerCache(ledger)
        assert book.totals() == ()
        assert pages.overview(book).verdict.text == "Nothing was released yet."
        assert pages.people(book, 0, 1) is not None
        ledger.book(booking("may"))
        assert len(book.totals()[0].readings) == 3
        assert book.totals() is book.totals()


def test_the_laid_out_page_has_the_figures_and_no_ids(client: Client, ledger: Ledger) -> None:
    top = max(totals.readings[0] for totals in ledger.totals() if totals.account.key == "fil")
    shown = client.get("/").text
    assert f"{top:.3g}" in shown
    for page in ("/", "/people", "/releases", "/release?seq=2", "/budgets"):
        assert not re.search(r"person \d", client.get(page).text)


def test_the_name_of_a_release_leads_to_it(client: Client, ledger: Ledger) -> None:
    for page in ("/", "/releases"):
        links = re.findall(r'<th scope="row"><a href="([^"]*)">([^<]*)</a></th>', client.get(page).text)
        assert [name for _, name in links] == [entry.name for entry in ledger.releases()][::-1]
        for address, name in links:
            assert f"<h1>Release {name}</h1>" in client.get(address.replace("&amp;", "&")).text


HOSTILE = "<script>window.pwned=1</script>\u202e' onload=x {{7*7}} =cmd|x"


def test_a_hostile_note_is_shown_and_nothing_else(tmp_path: Path) -> None:
    from dosimeter.serve.response import lay_out

    with Ledger.create(tmp_path / "b", (LedgerLimit.parse("fil=0.05"),)) as ledger:
        receipt = ledger.book(booking("may", note=HOSTILE, to=HOSTILE, override=HOSTILE))
        ledger.set_budget(LedgerLimit.parse("fil=0.06"), HOSTILE)
        book = LedgerCache(ledger)
        for leaf in (pages.overview(book), pages.releases(book), pages.release(book, receipt.seq), pages.budgets(book)):
            assert leaf is not None
            text = str(lay_out(leaf))
            assert "&lt;script&gt;window.pwned" in text
            assert "<script>window" not in text
            assert "\u202e" not in text
            assert "{{7*7}}" in text


def test_a_ledger_that_went_away_is_said_in_one_line(tmp_path: Path) -> None:
    from dosimeter.serve.app import application

    ledger = Ledger.create(tmp_path / "b")
    client = Client(application(ledger, 80, "t" * 40), "127.0.0.1:80")
    client.get("/?token=" + "t" * 40)
    ledger.close()  # connections are opened again when a page is requested
    with (tmp_path / "b").open("r+b") as file:
        file.write(b"\0" * 4096)
    answer = client.get("/")
    assert 400 <= answer.status_code < 500
    assert len(answer.text.splitlines()) == 1


def test_weights_that_the_table_scaled_do_not_fall_to_zero_and_the_page_says_so(tmp_path: Path) -> None:
    """The totals of a ledger that was booked at 16 times the noise are above those that the law gives."""
    rng = np.random.default_rng(0)
    table = {"who": [f"p{k}" for k in range(20)], "age": rng.normal(50, 10, 20), "cost": rng.normal(0, 1, 20)}
    options = {"person": "who", "noise_shape": "none", "even_if_useless": True}
    once, louder = (dm.fix(table, "cost", scale=scale, **options) for scale in (1.0, 16.0))
    highest = [made.result.dose.highest for made in (once, louder)]
    assert highest[1] > 2 * highest[0] / 16
    with Ledger.create(tmp_path / "book.db") as ledger:
        ledger.book(once, name="june")
        leaf = pages.release(LedgerCache(ledger), ledger.entry("june").seq)
    assert FLOOR in str(leaf)
