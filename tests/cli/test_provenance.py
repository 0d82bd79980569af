"""How to do it again: settings as given, and nothing that could be data, a place, or a secret."""

from __future__ import annotations

import json

import pytest

from dosimeter.cli.main import run
from tests.reports.verbs import commands, facts_of, prepare


@pytest.fixture
def house(tmp_path):
    """A folder with tables."""
    return prepare(tmp_path / "house", 5)


def test_settings_stand_as_given_and_files_as_their_kind(house):
    command = facts_of(house, "fix", ["-q", "--l2", "0.5", "--equalise", "--reweighting-rounds", "2"])["reproduce"][
        "command"
    ]
    assert command.startswith("dosimeter fix TABLE --target score")
    for words in ("--max-dose 5", "--l2 0.5", "--equalise", "--reweighting-rounds 2", "--out OUT", "--person PERSON"):
        assert words in command
    assert str(house) not in command


@pytest.mark.parametrize("verb", ["measure", "fix", "pca", "pate", "federate", "federate plan"])
def test_no_path_stands_in_a_command(printed, tmp_path_factory, verb):
    written = json.dumps(printed[0][verb]["reproduce"])
    assert "dosimeter" in written
    assert str(tmp_path_factory.getbasetemp()) not in written
    assert "table.csv" not in written


def test_secrets_notes_and_lists_of_levels_stay_out(house):
    url = house / "secret-place.sqlite"
    assert run(["ledger", "init", "--ledger", str(url), "-q"]) == 0
    booked = ["--ledger", str(url), "--name", "secret-name", "--to", "secret-to", "--note", "secret-note", "-q"]
    facts = facts_of(house, "pate", booked)
    assert "secret" not in facts["reproduce"]["command"]
    assert "--classes CLASSES" in facts["reproduce"]["command"]


def test_what_comes_from_a_variable_is_told_and_a_default_is_not(house, monkeypatch):
    monkeypatch.setenv("DOSIMETER_MEASURE_L2", "0.25")
    command = facts_of(house, "measure exact", ["-q"])["reproduce"]["command"]
    assert "--l2 0.25" in command
    assert "--missing" not in command


def test_a_limit_that_only_says_yes_or_no_is_left_out(house):
    """Named where the edition claims no limit, it would tell that it was not kept."""
    assert "--max-dose" in " ".join(commands(house)["measure"])
    assert "max-dose" not in facts_of(house, "measure", ["-q"])["reproduce"]["command"]


def test_the_command_runs_again_once_its_places_are_filled(house, monkeypatch, capsys):
    monkeypatch.chdir(house)
    first = facts_of(house, "measure logistic", ["-q"])
    words = first["reproduce"]["command"].split()[1:]
    drops = iter(["who", "site", "score"])
    filled = [{"TABLE": "table.csv"}.get(word) or (next(drops) if word == "EXCLUDE" else word) for word in words]
    assert run([*filled, "-q", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == first


def test_the_fingerprint_is_of_the_cells_and_not_of_the_file(house):
    once = facts_of(house, "measure", ["-q"])["reproduce"]["table"]
    text = (house / "table.csv").read_text()
    (house / "table.csv").write_text(text.replace("\r\n", "\n").rstrip("\n"))
    assert facts_of(house, "measure", ["-q"])["reproduce"]["table"] == once
    (house / "table.csv").write_text(text.replace("north", "south", 1))
    assert facts_of(house, "measure", ["-q"])["reproduce"]["table"] != once
