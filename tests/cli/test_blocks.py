"""`fix --store-fisher-blocks`: totals of several releases of one table, against their joint leakage."""

from __future__ import annotations

import pytest

from dosimeter import glm
from dosimeter.cli.main import run
from dosimeter.core.notion import Standing
from dosimeter.ledger import Ledger
from dosimeter.models.linear_release import release_table
from dosimeter.tables.table import Table

from .booked import asked
from .test_bad_input import PEOPLE, csv

HOW = "--target dose --person id --scale 0.5 --even-if-useless -q"


def released(tmp_path, name, *more, code=0, how=HOW):
    table = tmp_path / "people.csv"
    table.write_text(csv(PEOPLE))
    out = tmp_path / f"{name}.skops"
    assert run(["fix", str(table), *how.split(), "--out", str(out), "--name", name, *map(str, more)]) == code
    return out


def joint(*penalties):
    """η of each person from all releases together, by the stacked Jacobians of the same repairs."""
    people = Table.of(PEOPLE)
    made = [release_table(people, "dose", scale=0.5, l2=l2, person="id") for l2 in penalties]
    together = glm.compose([one.plan.leakage for one in made])
    return together.group(made[0].ready.ids), [one.dose for one in made]


def totals(ledger):
    with Ledger.open(ledger) as book:
        return {who: book.person(who).totals[0] for who in dict.fromkeys(PEOPLE["id"])}


def test_two_penalties_total_what_they_tell_together(ledger, tmp_path, capsys):
    released(tmp_path, "weak", "--l2", 0.01, "--store-fisher-blocks")
    released(tmp_path, "strong", "--l2", 20, "--store-fisher-blocks")
    exact, (one, other) = joint(0.01, 20)
    found, sums = totals(ledger), dict(zip((one + other).ids, (one + other).amounts, strict=True))
    for who, total in found.items():
        assert exact[who] ** 2 - 1e-12 <= total.reading**2 <= exact[who] ** 2 + 1e-12 + 1e-9
        # Exact if the releases were: the means and spreads of the columns are not covered, in each of them.
        assert total.standing is Standing.UNACCOUNTED
    assert min(total.reading**2 / sums[who] for who, total in found.items()) < 0.99
    (shown,) = asked(capsys, "person", PEOPLE["id"][0])["totals"]
    assert shown["reading"] == pytest.approx(found[PEOPLE["id"][0]].reading)
    assert run(["ledger", "verify"]) == 0


@pytest.mark.parametrize("extra", ["--equalise --reweighting-rounds 2", "--noise-shape hessian", "--noise laplace"])
def test_blocks_are_kept_whatever_the_noise_and_the_weights(extra, ledger, tmp_path, capsys):
    """The ledger takes a block only if its norm is the dose: here every way to a model makes such blocks."""
    released(tmp_path, "first", "--store-fisher-blocks", *extra.split())
    released(tmp_path, "second", "--store-fisher-blocks", *extra.split())
    for total in totals(ledger).values():
        assert total.reading > 0
    with Ledger.open(ledger) as book:
        one = book.person(PEOPLE["id"][0])
        assert one.totals[0].reading ** 2 == pytest.approx(2 * one.entries[0].reading ** 2, abs=2e-9)


def test_a_value_that_a_person_has_once_is_one_unknown_of_the_block():
    people = Table.of({**PEOPLE, "sex": ["fm"[int(who[1:]) % 2] for who in PEOPLE["id"]]})
    done = release_table(people, "dose", scale=0.5, person="id", tied=["sex"])
    told = {block.unknowns for block in done.dose_with_blocks.fisher_blocks}
    assert len(told) == 1  # everybody has two rows
    (names,) = told
    rows = ("age/0", "bmi/0", "ill/0", "label")
    assert names[:8] == tuple(f"{k}/{name}" for k in (0, 1) for name in rows)
    assert all(name.startswith("*/sex/") for name in names[8:])


def test_a_release_says_that_blocks_were_kept(ledger, tmp_path, capsys):
    released(tmp_path, "may", "--store-fisher-blocks", how=HOW.removesuffix(" -q"))
    assert "Fisher matrix" in capsys.readouterr().out.replace("\n", " ")
    released(tmp_path, "june", how=HOW.removesuffix(" -q"))
    assert "Fisher matrix" not in capsys.readouterr().out.replace("\n", " ")


def test_blocks_without_a_ledger_or_for_a_dose_file_are_refused(ledger, refused, tmp_path, monkeypatch):
    table = tmp_path / "people.csv"
    table.write_text(csv(PEOPLE))
    command = ["fix", table, *HOW.split(), "--out", tmp_path / "m.skops", "--store-fisher-blocks"]
    assert "no blocks" in refused([*command, "--name", "may", "--dose-file", tmp_path / "may.json"])
    assert "not booked" in refused([*command, "--no-ledger"])
    monkeypatch.delenv("DOSIMETER_LEDGER")
    assert "no ledger is configured" in refused(command)


def test_a_person_with_too_many_rows_is_refused_and_nothing_is_booked(ledger, refused, tmp_path, capsys):
    table = tmp_path / "people.csv"
    rows = 70
    one = {"id": ["ann"] * rows + ["bob"], "age": [30.0 + k % 17 for k in range(rows + 1)]}
    one |= {"bmi": [20.0 + (7 * k) % 13 for k in range(rows + 1)], "dose": [float(k % 9) for k in range(rows + 1)]}
    table.write_text(csv(one))
    command = ["fix", table, *HOW.split(), "--out", tmp_path / "m.skops", "--name", "may", "--store-fisher-blocks"]
    assert "a person has 210 unknowns" in refused(command)


@pytest.mark.parametrize("column", ["age", "dose"])
def test_a_changed_cell_or_label_is_another_unknown_of_that_person(column):
    """Exchanged between two people, so that the column keeps its mean and its spread (but for rounding)."""
    values = list(PEOPLE[column])
    values[0], values[7] = values[7], values[0]
    assert values[0] != values[7]
    one, other = (
        release_table(Table.of(table), "dose", scale=0.5, person="id").dose_with_blocks
        for table in (PEOPLE, {**PEOPLE, column: values})
    )
    unlike = {
        who
        for who, a, b in zip(one.ids, one.fisher_blocks, other.fisher_blocks, strict=True)
        if a.identity != b.identity
    }
    assert {PEOPLE["id"][0], PEOPLE["id"][7]} <= unlike
