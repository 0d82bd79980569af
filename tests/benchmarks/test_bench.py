"""The harness of `make bench`: a tiny row is run, kept and drawn, and a ratio that got worse is named."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    """The script with no rows but those of a test. Its folder comes last: it has modules with common names."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCHMARKS)])
    for name in [name for name in sys.modules if name in ("bench", "rows") or name.startswith("harness")]:
        monkeypatch.delitem(sys.modules, name)
    import bench

    monkeypatch.setattr(bench.rows, "load", lambda: None)
    yield bench
    for name in [name for name in sys.modules if name in ("bench", "rows") or name.startswith(("harness", "rows."))]:
        sys.modules.pop(name)


@pytest.fixture
def run(bench, tmp_path):
    """(exit code) of the script on a folder of its own."""

    def start(*arguments):
        reference, build = tmp_path / "reference.json", tmp_path / "build"
        return bench.main([*arguments, "--reference", str(reference), "--build", str(build), "--data", str(tmp_path)])

    start.build = tmp_path / "build"
    start.reference = tmp_path / "reference.json"
    return start


def tiny_row(seconds, *, key="tiny"):
    """A row whose seconds are given: (ours, peer) of each call in turn, the last one for good."""
    from harness.registry import Ratio, Skipped, row

    calls = iter(seconds)
    last = [seconds[0]]

    @row(key, "A tiny row")
    def compare(settings):
        last[0] = next(calls, last[0])
        yield Ratio("1 x 1", *last[0], "a peer", limit=3.0)
        yield Skipped("needs more", "the machine is too small")


def test_a_row_is_printed_kept_and_drawn(run, capsys):
    tiny_row([(2.0, 1.0)])
    assert run("--store") == 0
    printed = capsys.readouterr().out
    assert "numpy" in printed
    assert "left out: the machine is too small" in printed
    kept = json.loads((run.build / "run.json").read_text(encoding="utf-8"))
    assert [(line["row"], line["name"], line["ratio"]) for line in kept["ratios"]] == [("tiny", "1 x 1", 2.0)]
    assert kept["machine"]["cores"]
    assert kept["versions"]["numpy"]
    page = (run.build / "page.html").read_text(encoding="utf-8")
    assert "A tiny row" in page
    assert "too small" in page
    assert json.loads(run.reference.read_text(encoding="utf-8"))["ratios"][0]["ratio"] == 2.0


def test_a_ratio_that_got_worse_is_named_and_the_exit_code_is_one(run, capsys):
    tiny_row([(2.0, 1.0), (2.6, 1.0)])
    assert run("--store") == 0
    assert run() == 1
    assert "WORSE tiny, 1 x 1: 2.6, stored 2" in capsys.readouterr().out


def test_a_fifth_is_allowed(run):
    tiny_row([(2.0, 1.0), (2.3, 1.0)])
    assert run("--store") == 0
    assert run() == 0


def test_a_slow_moment_is_measured_again(run, capsys):
    tiny_row([(2.0, 1.0), (9.0, 1.0), (2.1, 1.0)])
    assert run("--store") == 0
    assert run() == 0
    assert "measured again" in capsys.readouterr().out


def test_a_ratio_above_its_limit_is_marked(run, capsys):
    tiny_row([(4.0, 1.0)])
    assert run() == 0
    assert "ABOVE ITS LIMIT" in capsys.readouterr().out


def test_a_row_that_fails_does_not_hide_the_others(run, capsys):
    from harness.registry import row

    @row("broken", "A row that fails")
    def broken(settings):
        raise ValueError("no such library")
        yield

    tiny_row([(1.0, 1.0)])
    assert run() == 1
    printed = capsys.readouterr().out
    assert "FAILED broken: ValueError: no such library" in printed
    assert "1 x 1" in printed


def test_a_row_without_its_data_is_left_out(run, capsys):
    from harness.registry import row

    @row("adult", "A row of data", needs=("adult",))
    def with_data(settings):
        raise AssertionError("not called")
        yield

    assert run() == 0
    assert "has no folder adult" in capsys.readouterr().out


def test_storing_one_row_keeps_the_others(run):
    tiny_row([(1.0, 1.0)])
    tiny_row([(5.0, 1.0)], key="other")
    assert run("--store") == 0
    assert run("other", "--store") == 0
    stored = json.loads(run.reference.read_text(encoding="utf-8"))["ratios"]
    assert [line["row"] for line in stored] == ["other", "tiny"]


def test_an_unknown_row_is_refused(run, capsys):
    tiny_row([(1.0, 1.0)])
    with pytest.raises(SystemExit):
        run("tinny")
    assert "no row is named tinny: tiny" in capsys.readouterr().err


def test_a_row_of_its_own_runs_with_real_clocks(run):
    """One of the rows of the table, as `make bench` runs it."""
    import rows

    assert rows.__file__ is not None
    from importlib import import_module

    import_module("rows.pate")
    assert run("pate", "--quick", "--runs", "1") == 0
    kept = json.loads((run.build / "run.json").read_text(encoding="utf-8"))
    assert all(line["ours"] > 0 and line["peer"] > 0 for line in kept["ratios"])
