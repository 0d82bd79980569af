"""`dosimeter ledger`: made, listed, asked about a person, limited, compared, checked, copied out, forgotten."""

from __future__ import annotations

import csv as csv_module
import json
import os
import sqlite3

import pytest

from dosimeter.cli.main import run
from tests.fixed_noise import fixed_noise

from .booked import asked, command, contents, everything, released

_TWO_MONTHS = {}


@pytest.fixture
def two_months(ledger, tmp_path, capsys):
    """The same model, released in two months; the second time with more noise. Released once, then copied."""
    if not _TWO_MONTHS:
        with fixed_noise("two months"):
            facts = [released("fix", tmp_path, capsys, "may", "--to", "Hospital B", "--note", "=cmd()")[0]]
            facts.append(released("fix", tmp_path, capsys, "june", "--max-dose", "1")[0])
        files = {path.name: (path.read_bytes(), path.stat().st_mode) for path in tmp_path.iterdir()}
        _TWO_MONTHS.update(facts=json.dumps(facts), files=files)
    for path in tmp_path.iterdir():
        path.unlink()
    for name, (content, mode) in _TWO_MONTHS["files"].items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(mode)
    return json.loads(_TWO_MONTHS["facts"])


def said(capsys, *arguments, code=0):
    assert run(["ledger", *map(str, arguments)]) == code
    return " ".join(capsys.readouterr().out.split())


def test_a_ledger_is_made_once_with_its_budgets_and_a_key_file_for_the_owner(tmp_path, capsys, refused, monkeypatch):
    monkeypatch.delenv("DOSIMETER_LEDGER", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    words = ["init", "--ledger", tmp_path / "b.db", "--budget", "fil=0.3", "--budget", "leakage=2 nats"]
    shown = said(capsys, *words, "--budget", "eps=3@1e-6")
    assert "eps=3@1e-06, fil=0.3, leakage=2 nats" in shown
    assert "tamper-evident, not tamper-proof" in shown
    for name in ("b.db", "b.db.keys"):
        assert os.stat(tmp_path / name).st_mode & 0o077 == 0
    before = everything(tmp_path / "b.db")
    assert "already" in refused(["ledger", *words])
    assert everything(tmp_path / "b.db") == before


@pytest.mark.parametrize("budget", ["fil", "fil=0", "fil=-1", "fil=nan", "eps=3", "eps=3@2", "bmi=3", "fil=1 nats", ""])
def test_a_bad_budget_makes_no_ledger(budget, tmp_path, refused):
    refused(["ledger", "init", "--ledger", tmp_path / "b.db", "--budget", budget])


@pytest.mark.parametrize("name", ["b.db", "b.db.keys", "none/facts.json"])
def test_facts_that_would_lie_over_the_new_ledger_make_none(name, tmp_path, refused):
    refused(["ledger", "init", "--ledger", tmp_path / "b.db", "--json", tmp_path / name])


def test_without_a_ledger_every_verb_says_how_to_name_one(tmp_path, refused, monkeypatch):
    monkeypatch.delenv("DOSIMETER_LEDGER", raising=False)
    monkeypatch.chdir(tmp_path)
    for words in ("init", "list", "person ann", "budget", "compare a b", "verify", "export", "erase ann --yes"):
        assert "DOSIMETER_LEDGER" in refused(["ledger", *words.split()])
    for words in ("artefact a --out x", "keys backup x", "keys rotate"):
        assert "DOSIMETER_LEDGER" in refused(["ledger", *words.split()])


def test_releases_are_listed_with_their_receivers(two_months, capsys):
    shown = said(capsys, "list")
    assert "may weights Hospital B 20" in shown
    facts = asked(capsys, "list")
    assert [one["name"] for one in facts["releases"]] == ["may", "june"]
    assert facts["head"] == two_months[1]["booked"]["head"]


def test_a_person_is_told_each_release_the_total_and_what_is_left(two_months, capsys):
    assert run(["ledger", "budget", "fil=4", "--note", "agreed", "-q"]) == 0
    facts = asked(capsys, "person", "p3")
    may, june = (one["reading"] for one in facts["releases"])
    (total,) = facts["totals"]
    # Fisher information adds: η in quadrature.
    assert total["reading"] == pytest.approx((may**2 + june**2) ** 0.5, rel=1e-6)
    assert total["left"] == pytest.approx((16 - total["reading"] ** 2) ** 0.5, rel=1e-6)
    assert total["standing"] == "unaccounted"
    shown = said(capsys, "person", "p3")
    for words in ("in 2 releases", "Hospital B", "in quadrature", "of the budget of 4 is left", "Not covered"):
        assert words in shown
    assert "held fixed: not covered" in shown


def test_nobody_is_said_plainly_to_be_nobody(two_months, capsys):
    shown = said(capsys, "person", "p99")
    assert "No person is known here as p99" in shown
    facts = asked(capsys, "person", "p99")
    assert (facts["known"], facts["releases"], facts["totals"]) == (False, [], [])
    assert "\x1b" not in said(capsys, "person", "\x1b[31mp3")


def test_a_budget_below_what_is_spent_is_allowed_and_reported(two_months, capsys, refused, ledger):
    shown = said(capsys, "budget", "fil=0.5", "--note", "from now on")
    assert "fil=0.5" in shown
    (account,) = asked(capsys, "budget")["accounts"]
    assert account["above"] > 0
    assert "above the budget of 0.5" in said(capsys, "person", "p3")
    before = everything(ledger)
    for words in ("budget fil=x", "budget fil=1 fil=2", "budget --note why", "budget eps=1"):
        refused(["ledger", *words.split()])
    assert everything(ledger) == before


def test_two_months_stand_side_by_side(two_months, capsys, refused):
    facts = asked(capsys, "compare", "may", "june")
    (account,) = facts["accounts"]
    assert (account["both"], account["only_first"], account["only_second"]) == (20, 0, 0)
    highest = {q: (a, b) for q, a, b in account["quantiles"]}[1.0]
    assert highest == pytest.approx([one["dose"]["highest"] for one in two_months], rel=1e-6)
    shown = said(capsys, "compare", "may", "june")
    assert "20 in both, 0 only in the first" in shown
    assert "changed most" in shown
    assert "No person's dose changed" in said(capsys, "compare", "may", "may")
    assert "no release july" in refused(["ledger", "compare", "may", "july"])


def test_an_altered_book_is_found_with_exit_4(two_months, ledger, capsys):
    shown = said(capsys, "verify")
    assert "Hash chain ok, 3 entries, head 3:" in shown
    connection = sqlite3.connect(ledger)
    with connection:
        connection.execute("update dosimeter_dose set amount = amount - 1 where part = 1 and amount > 1")
    connection.close()
    assert run(["ledger", "verify"]) == 4
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "entry 2" in shown.err
    assert len(shown.err.splitlines()) == 1


def test_an_older_copy_put_back_is_found_with_exit_4(ledger, tmp_path, capsys):
    kept = contents(ledger)
    copy = sqlite3.connect(tmp_path / "old.db")
    source = sqlite3.connect(ledger)
    source.backup(copy)
    copy.close()
    source.close()
    released("fix", tmp_path, capsys, "may")
    for name in (ledger, f"{ledger}-wal", f"{ledger}-shm"):
        if os.path.exists(name):
            os.unlink(name)
    os.rename(tmp_path / "old.db", ledger)
    assert contents(ledger) == kept
    out = tmp_path / "m.skops"
    for words in (["ledger", "verify"], [*command("fix", tmp_path, out), "--name", "june"]):
        assert run(words) == 4
        assert "older copy" in capsys.readouterr().err
    assert not out.exists()


def test_a_signed_book_names_its_key_and_no_other_will_do(ledger, tmp_path, capsys):
    assert run(["ledger", "init", "--ledger", "signed.db", "--sign", "-q"]) == 0
    key = asked(capsys, "verify", "--ledger", "signed.db")["signed"]
    assert len(key) == 64
    assert run(["ledger", "verify", "--ledger", "signed.db", "--public-key", key, "-q"]) == 0
    assert run(["ledger", "verify", "--ledger", "signed.db", "--public-key", "0" * 64, "-q"]) == 4
    assert run(["ledger", "verify", "--public-key", key, "-q"]) == 4


def test_the_export_holds_pseudonyms_and_no_formulas(two_months, tmp_path, capsys, refused, ledger):
    assert run(["ledger", "export"]) == 0
    book = json.loads(capsys.readouterr().out)
    assert len(book["doses"]) == 40
    assert run(["ledger", "export", "--format", "csv", "--out", str(tmp_path / "book.csv")]) == 0
    with (tmp_path / "book.csv").open(newline="") as handle:
        rows = list(csv_module.DictReader(handle))
    assert len(rows) == 40
    assert {row["note"] for row in rows} == {"'=cmd()", ""}
    assert {row["pseudonym"] for row in rows} == {one["pseudonym"] for one in book["doses"]}
    assert os.stat(tmp_path / "book.csv").st_mode & 0o077 == 0
    before = everything(ledger)
    for words in ("--format xml", f"--out {ledger}", f"--out {ledger}.keys", "--out none/book.json"):
        refused(["ledger", "export", *words.split()])
    assert everything(ledger) == before


def test_an_artefact_is_written_once_more_as_it_was_booked(two_months, tmp_path, refused, ledger):
    assert run(["ledger", "artefact", "may", "--out", "again.skops", "-q"]) == 0
    assert (tmp_path / "again.skops").read_bytes() == (tmp_path / "may.skops").read_bytes()
    assert "no release july" in refused(["ledger", "artefact", "july", "--out", "x"])
    refused(["ledger", "artefact", "may", "--out", ledger])


def test_somebody_erased_is_nobody_and_the_chain_is_whole(two_months, capsys, refused):
    assert "cannot be undone" in refused(["ledger", "erase", "p3"])
    assert "p3" not in said(capsys, "erase", "p3", "--yes")
    assert not asked(capsys, "person", "p3")["known"]
    assert asked(capsys, "person", "p4")["known"]
    assert "Hash chain ok" in said(capsys, "verify")
    assert "nothing was changed" in said(capsys, "erase", "p3", "--yes")
    assert len(asked(capsys, "list")["releases"]) == 2


def test_keys_are_backed_up_turned_over_and_missed(two_months, tmp_path, capsys, refused, ledger):
    assert run(["ledger", "keys", "rotate", "-q"]) == 0
    assert asked(capsys, "person", "p3")["known"]
    assert run(["ledger", "keys", "backup", "copy.keys", "-q"]) == 0
    assert os.stat(tmp_path / "copy.keys").st_mode & 0o077 == 0
    os.unlink(f"{ledger}.keys")
    assert "key" in refused(["ledger", "person", "p3"])
    # The book itself can still be read and checked.
    assert "june" in said(capsys, "list")
    assert "Key file not found" in said(capsys, "verify")
    assert run(["ledger", "budget", "-q"]) == 0
    assert asked(capsys, "person", "p3", "--keys", "copy.keys")["known"]


def test_slips_are_one_line_and_change_nothing(two_months, refused, ledger, tmp_path):
    before = everything(ledger)
    for words in (
        "lst", "list --jsno -", "person", "compare may", "verify --public-key", "list extra", "person p3 p4",
        "person p3 --json none/x.json", f"person p3 --json {ledger}", "list --ledger people.txt", "keys bakcup x",
        "list --ledger .", "export --format", "person p3 --ledger nowhere.db", "verify --public-key xyz",
    ):  # fmt: skip
        refused(["ledger", *words.split()], code=2)
    refused(["ledger", "person", ""])
    assert everything(ledger) == before
