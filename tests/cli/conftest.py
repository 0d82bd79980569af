"""A command that must be refused, for every verb."""

from __future__ import annotations

import pytest

from dosimeter.cli.main import run


@pytest.fixture
def refused(tmp_path, capsys):
    """Runs a command that must be refused: the exit code, one printable line on stderr, no output, no new file."""

    def check(arguments, code=2):
        before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
        assert run([str(a) for a in arguments]) == code
        shown = capsys.readouterr()
        assert shown.out == ""
        (line,) = shown.err.splitlines()
        assert line.startswith("dosimeter: error: ")
        assert line.isprintable()
        assert "Traceback" not in line
        assert "fault of dosimeter" not in line
        assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
        return line

    return check


@pytest.fixture
def ledger(tmp_path, monkeypatch, capsys):
    """A configured ledger with room for everything; the name of its file. Nothing of the caller's environment holds."""
    for name in ("DOSIMETER_LEDGER", "DOSIMETER_LEDGER_KEYS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "book.db"
    assert run(["ledger", "init", "--ledger", str(path), "-q"]) == 0
    monkeypatch.setenv("DOSIMETER_LEDGER", str(path))
    capsys.readouterr()
    return path
