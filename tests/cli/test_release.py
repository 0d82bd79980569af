"""`dosimeter release`: a file and its dose file go into the book together, or neither does."""

from __future__ import annotations

import json
import os
import re

import pytest

from dosimeter.cli.main import run
from tests.fixed_noise import fixed_noise

from .booked import ACCOUNTS, ENDING, VERBS, WHO, asked, command, everything
from .test_booking import found, planted

_RELEASED = {}


def made(verb, folder, capsys, stem="model", more=()):
    """An artefact that was made without a ledger, and its dose file; the same for every test that asks for it."""
    out, dose = folder / f"{stem}.{ENDING[verb]}", folder / f"{stem}.json"
    arguments = [*command(verb, folder, out), "--no-ledger", "--dose-file", str(dose), "-q", *more]
    key = (verb, stem, *more)
    if key not in _RELEASED:
        with fixed_noise(repr(key)):
            assert run(arguments) == 0
        capsys.readouterr()
        _RELEASED[key] = [(path.read_bytes(), path.stat().st_mode) for path in (out, dose)]
    for path, (content, mode) in zip((out, dose), _RELEASED[key], strict=True):
        path.write_bytes(content)
        path.chmod(mode)
    return out, dose


def released(capsys, out, dose, *more, code=0):
    assert run(["release", str(out), "--dose-file", str(dose), "--json", "-", "-q", *map(str, more)]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("verb", VERBS)
def test_what_was_made_without_a_ledger_is_booked_later(verb, ledger, tmp_path, capsys):
    out, dose = made(verb, tmp_path, capsys)
    assert os.stat(dose).st_mode & 0o077 == 0
    facts = released(capsys, out, dose, "--name", "first", "--to", "Hospital B", "--out", "sent.bin")
    (entry,) = asked(capsys, "list")["releases"]
    assert facts["booked"]["seq"] == entry["seq"]
    assert (entry["to"], entry["people"], set(entry["accounts"])) == ("Hospital B", len(WHO[verb]), ACCOUNTS[verb])
    assert (tmp_path / "sent.bin").read_bytes() == out.read_bytes()
    # Once more: the same receipt, nothing spent.
    before = everything(ledger)
    assert released(capsys, out, dose, "--name", "first")["booked"] == facts["booked"]
    assert everything(ledger) == before


def test_a_verb_that_books_and_a_later_release_of_its_dose_file_come_to_the_same(ledger, tmp_path, capsys):
    out, dose = tmp_path / "m.skops", tmp_path / "m.json"
    assert run([*command("fix", tmp_path, out), "--name", "first", "--dose-file", str(dose), "-q"]) == 0
    capsys.readouterr()
    before = everything(ledger)
    assert released(capsys, out, dose, "--name", "first")["booked"]["seq"] == 2
    assert everything(ledger) == before


def test_one_draw_is_not_booked_under_two_names(ledger, tmp_path, capsys, refused):
    out, dose = made("fix", tmp_path, capsys)
    released(capsys, out, dose, "--name", "first")
    before = everything(ledger)
    line = refused(["release", out, "--dose-file", dose, "--name", "second"])
    assert "first" in line
    assert everything(ledger) == before


def test_another_draw_of_the_same_recipe_needs_a_name_of_its_own(ledger, tmp_path, capsys, refused):
    out, dose = made("fix", tmp_path, capsys)
    released(capsys, out, dose, "--name", "first")
    other, its_dose = made("fix", tmp_path, capsys, "other")
    before = everything(ledger)
    line = refused(["release", other, "--dose-file", its_dose, "--name", "first", "--out", tmp_path / "sent.skops"])
    assert "another draw" in line
    assert everything(ledger) == before


def test_a_refusal_counts_the_people_and_the_way_out_fits(ledger, tmp_path, capsys):
    assert run(["ledger", "budget", "fil=2.1", "-q"]) == 0
    out, dose = made("fix", tmp_path, capsys)
    released(capsys, out, dose, "--name", "first")
    out, dose = made("fix", tmp_path, capsys, "second")
    before, files = everything(ledger), set(tmp_path.iterdir())
    words = ["release", str(out), "--dose-file", str(dose), "--name", "second", "--out", "sent.skops"]
    assert run(words) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert everything(ledger) == before
    assert set(tmp_path.iterdir()) == files
    # The oracle: equal doses twice are √2 times one; whoever has more than 2.1/√2 would pass.
    everybody = [asked(capsys, "person", who)["totals"][0]["reading"] for who in sorted(WHO["fix"])]
    passing = sorted((2**0.5 * one for one in everybody if one > 2.1 / 2**0.5), reverse=True)
    who = "1 person" if len(passing) == 1 else f"{len(passing)} people"
    totals = ", ".join(f"{one:.3g}" for one in passing[:5]) + (", …" if len(passing) > 5 else "")
    assert f"Refused {who} would pass fil 2.1 ({totals}; standard deviations). Nothing was written." in shown
    offered = float(re.search(r"ways out: fix --max-dose ([0-9.]+) \(adds noise\)", shown)[1])
    most = max(everybody) * min((2.1**2 - one**2) ** 0.5 / one for one in everybody)
    assert 0.98 * most < offered <= most
    fitting = [*command("fix", tmp_path, tmp_path / "less.skops"), "--name", "second", "-q"]
    assert run([*fitting, "--max-dose", str(offered)]) == 0


def test_where_nothing_is_left_no_noise_is_offered(ledger, tmp_path, capsys):
    out, dose = made("pate", tmp_path, capsys)
    released(capsys, out, dose, "--name", "first")
    assert run(["ledger", "budget", "leakage=0.001", "-q"]) == 0
    other, its_dose = made("pate", tmp_path, capsys, "second", ("--queries", "7"))
    assert run(["release", str(other), "--dose-file", str(its_dose), "--name", "second"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "more noise is not enough: someone has no leakage left" in shown


def test_an_override_is_recorded_with_its_reason(ledger, tmp_path, capsys):
    assert run(["ledger", "budget", "fil=0.1", "-q"]) == 0
    out, dose = made("fix", tmp_path, capsys)
    assert released(capsys, out, dose, "--name", "first", code=1)["booked"] is False
    assert (
        run(["release", str(out), "--dose-file", str(dose), "--name", "first", "--override", "asked by the board"]) == 0
    )
    assert "over a budget by override" in " ".join(capsys.readouterr().out.split())
    assert asked(capsys, "list")["releases"][0]["override"] == "asked by the board"
    assert run(["ledger", "verify", "-q"]) == 0


def test_other_bytes_than_those_that_were_measured_are_refused(ledger, tmp_path, capsys, refused):
    out, dose = made("fix", tmp_path, capsys)
    before = everything(ledger)
    out.write_bytes(out.read_bytes() + b"\0")
    assert "another file" in refused(["release", out, "--dose-file", dose, "--name", "first"])
    assert everything(ledger) == before


def _edited(change):
    def edit(text):
        told = json.loads(text)
        change(told)
        return json.dumps(told)

    return edit


BAD = {
    "empty": lambda text: "",
    "not json": lambda text: text[:-5],
    "a list": lambda text: "[]",
    "nan": lambda text: re.sub(r'"values": \[[0-9.e-]+', '"values": [NaN', text),
    "infinite": lambda text: re.sub(r'"values": \[[0-9.e-]+', '"values": [1e999', text),
    "negative": lambda text: re.sub(r'"values": \[', '"values": [-', text),
    "subnormal": lambda text: re.sub(r'"values": \[[0-9.e-]+', '"values": [5e-324', text),
    "simulation": _edited(lambda told: told["recipe"].update(simulation=True)),
    "other schema": _edited(lambda told: told.update(schema="dosimeter.dose/2")),
    "unknown key": _edited(lambda told: told.update(more=1)),
    "one id short": _edited(lambda told: told["doses"][0]["ids"].pop()),
    "one id twice": _edited(lambda told: told["doses"][0]["ids"].__setitem__(0, told["doses"][0]["ids"][1])),
    "no doses": _edited(lambda told: told.update(doses=[])),
    "rows, not people": _edited(lambda told: told["doses"][0].update(unit="example")),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_dose_file_is_one_line_and_changes_nothing(case, ledger, tmp_path, capsys, refused):
    out, dose = made("fix", tmp_path, capsys)
    text = dose.read_text()
    dose.write_text(BAD[case](text))
    assert dose.read_text() != text
    before = everything(ledger)
    line = refused(["release", out, "--dose-file", dose, "--name", "first"])
    assert "p1," not in line  # nobody is named
    assert everything(ledger) == before


def test_slips_of_release_are_one_line_and_change_nothing(ledger, tmp_path, capsys, refused, monkeypatch):
    out, dose = made("fix", tmp_path, capsys)
    good = ["release", out, "--dose-file", dose]
    before = everything(ledger)
    for more in (
        "", "--name first --nots x", "--name first --out none/x", f"--name first --out {out}",
        f"--name first --out {dose}", f"--name first --out {ledger}", f"--name first --json {ledger}.keys",
        "--name first --ledger none.db", "--name first --no-ledger",
    ):  # fmt: skip
        refused([*good, *more.split()])
    refused(["release", tmp_path / "none.skops", "--dose-file", dose, "--name", "first"])
    refused(["release", out, "--dose-file", tmp_path / "none.json", "--name", "first"])
    refused(["release", tmp_path, "--dose-file", dose, "--name", "first"])
    refused(["release", out, "--name", "first"])
    assert everything(ledger) == before
    monkeypatch.delenv("DOSIMETER_LEDGER")
    assert "no ledger is configured" in refused([*good, "--name", "first"])


def test_release_says_nothing_of_anybody(ledger, tmp_path, capsys):
    words, out, dose = planted("fix", tmp_path), tmp_path / "model.skops", tmp_path / "dose.json"
    assert run([*words, "--no-ledger", "--dose-file", str(dose), "-q"]) == 0
    assert found(dose.read_bytes()) == {"id"}
    book = ["release", str(out), "--dose-file", str(dose), "--name", "first"]
    assert run([*book, "--out", "sent.skops"]) == 0
    assert run([*book, "--json", "-"]) == 0
    assert run(["ledger", "budget", "fil=0.01"]) == 0
    assert run([*words, "--no-ledger", "--dose-file", str(dose), "-q"]) == 0
    book[-1] = "second"
    assert run(book) == 1
    assert run([*book, "--json", "-"]) == 1
    dose.write_text(dose.read_text().replace('"person"', '"example"', 1))
    assert run(book) == 2
    shown = capsys.readouterr()
    assert "Refused" in shown.out
    assert found(shown.out.encode() + shown.err.encode()) == set()
    for name in ("sent.skops", "book.db", "book.db.keys"):
        assert found((tmp_path / name).read_bytes()) == set()


@pytest.mark.parametrize("log", ["", "-wal", "-shm", "-journal", ".keys", ".keys-wal", ".keys-shm", ".keys-journal"])
def test_no_output_lies_over_the_ledger_or_a_log_of_it(log, ledger, tmp_path, capsys, refused):
    """SQLite would take a file in the place of its log for the log, and throw it away or the book."""
    out, dose = made("fix", tmp_path, capsys)
    over = tmp_path / f"{ledger.name}{log}"
    before = everything(ledger)
    for option in ("--out", "--json"):
        assert "write to another" in refused(
            ["release", out, "--dose-file", dose, "--name", "first", option, over, "-q"]
        )
    for url in (ledger, f"sqlite:///{ledger}", f"sqlite+pysqlite:///{ledger}"):
        assert "write to another" in refused(["ledger", "export", "--ledger", url, "--out", over])
    words = [*command("fix", tmp_path, tmp_path / "m.skops"), "--name", "second", "-q"]
    assert "write to another" in refused([*words, "--dose-file", over])
    assert everything(ledger) == before
