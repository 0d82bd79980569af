"""`--decimal ,` on the verbs that read a CSV: the figures are those of the same file with points."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dosimeter.cli.main import run

GERMAN = ["--delimiter", ";", "--decimal", ","]


@pytest.fixture
def files(tmp_path):
    """The same 40 people with points and with commas, and a bounds file."""
    rng = np.random.default_rng(3)
    lines = ["id;a;b;y"]
    for k, (a, b) in enumerate(np.round(rng.uniform(-2, 2, size=(40, 2)), 3).tolist()):
        lines.append(f"p{k};{a};{b};{round(a - b + 0.1 * (k % 3), 3)}")
    for name in ("point", "comma"):
        text = "\n".join(lines) + "\n"
        (tmp_path / f"{name}.csv").write_text(text if name == "point" else text.replace(".", ","))
    columns = "".join(f"[{name}]\nlower = -5\nupper = 5\n" for name in "aby")
    (tmp_path / "bounds.toml").write_text(columns)
    return tmp_path


def result(capsys, *arguments):
    """The result of a command as JSON, without how it was made."""
    assert run([str(a) for a in [*arguments, "--json", "-", "-q"]]) == 0
    facts = json.loads(capsys.readouterr().out)
    facts.pop("reproduce", None)
    return json.loads(json.dumps(facts).replace("comma.csv", "point.csv"))


VERBS = {
    "measure": "measure {} --target y --person id --scale 0.1",
    "measure in blocks": "measure {} --target y --person id --scale 0.1 --engine blocks",
    "measure with bounds": "measure {} --target y --person id --scale 0.1 --bounds bounds.toml",
    "attack": "attack inversion {} --target y --exclude id --column a --scale 0.5 --trials 20",
    "membership": "attack membership {} --target y --exclude id --scale 0.5 --trials 20",
}


@pytest.mark.parametrize("command", VERBS.values(), ids=VERBS.keys())
def test_a_file_with_commas_gives_the_figures_of_the_file_with_points(command, files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    expected = result(capsys, *command.format("point.csv").split(), "--delimiter", ";")
    assert result(capsys, *command.format("comma.csv").split(), *GERMAN) == expected


RELEASES = {
    "fix": "fix comma.csv --target y --person id --max-dose 1 --even-if-useless --out m.skops --no-ledger",
    "pca": "pca comma.csv --person id --epsilon 5 --bounds bounds.toml --out m.skops --no-ledger",
}


@pytest.mark.parametrize("command", RELEASES.values(), ids=RELEASES.keys())
def test_a_release_reads_commas(command, files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    assert run([*command.split(), *GERMAN, "-q"]) == 0, capsys.readouterr().err
    assert (files / "m.skops").exists()


def test_a_scan_reads_commas(files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    assert run([*RELEASES["fix"].split(), *GERMAN, "-q"]) == 0
    assert run(["scan", "m.skops", "--data", "comma.csv", "--person", "id", *GERMAN, "-q"]) == 0


@pytest.mark.parametrize("mark", ["", ";", "x", ".,", "comma"])
def test_another_mark_is_refused_by_every_verb(mark, files, refused, monkeypatch):
    monkeypatch.chdir(files)
    for command in [*VERBS.values(), *RELEASES.values()]:
        arguments = [*command.format("comma.csv").split(), "--delimiter", ";", "--decimal", mark]
        assert "use . or ," in refused(arguments)


def test_the_same_mark_twice_is_refused(files, refused, monkeypatch):
    monkeypatch.chdir(files)
    assert "pass --delimiter ';'" in refused(["measure", "comma.csv", "--target", "y", "--decimal", ","])


def test_a_file_with_commas_and_no_option_is_refused_with_the_option(files, refused, monkeypatch):
    monkeypatch.chdir(files)
    assert "--decimal ," in refused(["measure", "comma.csv", "--target", "y", "--delimiter", ";", "--person", "id"])
