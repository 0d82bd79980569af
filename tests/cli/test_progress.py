"""The line of progress, on a pseudo-terminal and off it."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from dosimeter.cli import progress
from dosimeter.core.progress import advance, listening, stage, track
from tests import forked

pty = pytest.importorskip("pty")


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3)).round(3).tolist()
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n" + "\n".join(",".join(map(str, row)) for row in rows))
    return path


def on_terminal(tmp_path, arguments, after):
    """(stdout, what the terminal on stderr received) of the command line, the line shown after so many seconds."""
    program = (
        "import sys, time\n"
        "from dosimeter.cli import progress\n"
        f"progress.AFTER, progress.EVERY = {after}, 0.01\n"
        "import dosimeter.models.fit_table as own\n"
        "real = own.prepare\n"
        "def slow(*given, **how):\n"  # a stage that lasts until the line is there, however busy the machine is
        "    made, end, line = real(*given, **how), time.monotonic() + 400, progress._LINE\n"
        "    line is not None and line.wipe()\n"
        "    while line is not None and progress.AFTER < 1 and not line._shown and time.monotonic() < end:\n"
        "        time.sleep(0.01)\n"
        "    return made\n"
        "own.prepare = slow\n"
        "from dosimeter.cli.main import run\n"
        f"sys.exit(run({arguments!r}))\n"
    )
    master, slave = pty.openpty()
    done = forked.start(["-c", program], stdout=subprocess.PIPE, stderr=slave, cwd=tmp_path)
    os.close(slave)
    seen = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        seen += chunk
    os.close(master)
    out, _ = done.communicate()
    assert done.returncode == 0
    return out.decode(), seen.decode()


def test_a_long_verb_says_its_stage_and_wipes_the_line(table, tmp_path):
    out, seen = on_terminal(tmp_path, ["measure", str(table), "--target", "y", "--scale", "1"], 0.02)
    assert re.search(r"preparing the columns \(\d+ s\)", seen)
    assert seen.endswith("\r\x1b[2K")
    assert "preparing" not in out
    assert "Dose per row" in out


@pytest.mark.parametrize("more", [["--quiet"], ["--json", "-"]])
def test_nothing_is_shown_where_nothing_was_asked_for(more, table, tmp_path):
    _, seen = on_terminal(tmp_path, ["measure", str(table), "--target", "y", "--scale", "1", *more], 0.02)
    assert "preparing" not in seen


def test_a_short_verb_shows_nothing(table, tmp_path):
    _, seen = on_terminal(tmp_path, ["measure", str(table), "--target", "y", "--scale", "1"], 3600)
    assert seen == ""


def test_off_a_terminal_nothing_is_shown(table, tmp_path):
    program = (
        "import sys\nfrom dosimeter.cli import progress\nprogress.AFTER, progress.EVERY = 0.0, 0.01\n"
        "from dosimeter.cli.main import run\n"
        f"sys.exit(run(['measure', {str(table)!r}, '--target', 'y', '--scale', '1']))\n"
    )
    code, _, errors = forked.run(["-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    assert code == 0
    assert errors == b""


def test_the_line_names_the_share_and_the_time_left(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    line = progress.Line(io.StringIO())
    with listening(line):
        stage("scoring")
        clock[0] = 110.0
        advance(0.25)
        assert line._text() == "scoring: 25 %, 30 s left (10 s)"
        stage("summing up")
        clock[0] = 200.0
        assert line._text() == "summing up (1 min 40 s)"


def test_counted_items_are_those_given_and_cost_nothing_without_a_listener():
    assert list(track(range(3))) == [0, 1, 2]
    heard = []
    with listening(lambda name, done: heard.append(done)):
        assert list(track(iter("ab"), total=2)) == ["a", "b"]
        assert list(track(iter("ab"))) == ["a", "b"]
        assert list(track([])) == []
    assert heard == [0.0, 0.5, 1.0, None, None, None, None]
    stage("nobody listens")


def test_words_on_a_terminal_take_the_line_away_first(monkeypatch):
    written = io.StringIO()
    line = progress.Line(written)
    line._shown = True
    monkeypatch.setattr(progress, "_LINE", line)

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    from dosimeter.cli.output import console

    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    console().print("the dose")
    assert written.getvalue() == "\r\x1b[2K"
    assert "the dose" in stream.getvalue()
