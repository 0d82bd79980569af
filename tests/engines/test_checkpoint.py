"""A computation that is stopped at any moment goes on where it was, and ends with the same figures."""

from __future__ import annotations

import errno
import json
import random
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dosimeter.core.engine import TERMS, Each, Joined, Largest, split
from dosimeter.core.errors import Refusal
from dosimeter.core.selection import Counts, Top
from dosimeter.engines import checkpoint, local_blocks
from dosimeter.engines.checkpoint import TASK, Checkpoint, PassState, decode, encode
from dosimeter.engines.fingerprint import fingerprint
from dosimeter.engines.local_blocks import BlocksEngine
from tests import forked
from tests.engines.tables import people, written

COLUMNS = ("score", "age", "dose", "city", "ill", "scattered")


def square(block: Any, factor: float = 1.0) -> tuple[float]:
    return (float(factor * (block[0] ** 2).sum()),)


class Stop(Exception):
    pass


def test_a_pass_goes_on_after_its_last_finished_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_blocks, "EVERY", 0.0)
    blocks = list(split((np.arange(100.0),), rows=10))
    seen: list[float] = []

    def stops(block: Any, after: int) -> tuple[float]:
        if len(seen) == after:
            raise Stop
        seen.append(float(block[0][0]))
        return square(block)

    monkeypatch.setattr("dosimeter.engines.local_blocks.fingerprint", lambda f: "the same pass")
    with pytest.raises(Stop):
        BlocksEngine(Checkpoint(tmp_path / "c", "task")).sum_over(blocks, partial(stops, after=6))
    total = BlocksEngine(Checkpoint(tmp_path / "c", "task")).sum_over(blocks, partial(stops, after=100))
    assert seen == [10.0 * k for k in range(10)]
    assert total == (float((np.arange(100.0) ** 2).sum()),)
    assert BlocksEngine(Checkpoint(tmp_path / "c", "task")).sum_over([], partial(stops, after=0)) == total


def test_another_function_is_another_pass(tmp_path: Path) -> None:
    blocks = list(split((np.arange(10.0),), rows=3))
    engine = BlocksEngine(Checkpoint(tmp_path / "c", "task"))
    first, second = (engine.sum_over(blocks, partial(square, factor=k))[0] for k in (1.0, 2.0))
    assert second == 2 * first
    assert engine.map_over(blocks, square) == [square(block) for block in blocks]


def test_a_folder_of_another_task_is_refused(tmp_path: Path) -> None:
    Checkpoint(tmp_path / "c", "one")
    with pytest.raises(Refusal, match="another table or other options"):
        Checkpoint(tmp_path / "c", "two")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "letter.txt").write_text("mine")
    with pytest.raises(Refusal, match="holds other files"):
        Checkpoint(tmp_path / "d", "one")


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "c", "one")
    checkpoint.save("k", PassState(3, True, (1.0, np.arange(3))))
    path = next((tmp_path / "c").glob("pass-*.npz"))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(Refusal, match="damaged"):
        checkpoint.load("k")


def test_every_kind_of_term_survives_the_folder() -> None:
    values = (
        1,
        2.5,
        float("-inf"),
        None,
        True,
        "text",
        np.arange(3),
        np.array(["a", None], dtype=object),
        (1, [2.0, "b"]),
        {"k": np.ones(2)},
        Largest(np.array([1.0, np.inf])),
        Each((1, Counts.of(np.array([1.0, 2.0])))),
        Joined((np.arange(2), np.array(["x", "y"], dtype=object))),
        Top.of(np.array([1.0, 2.0]), np.array([0, 1]), 2),
    )
    arrays: dict[str, Any] = {}
    tree = json.loads(json.dumps(encode(values, arrays)))
    assert fingerprint(decode(tree, arrays)) == fingerprint(values)
    assert {"Largest", "Each", "Joined", "Counts", "Collected", "Top"} <= TERMS.keys()
    with pytest.raises(TypeError, match="cannot be kept"):
        encode(object(), {})


# --- the command line, killed ---


# Blocks of 64 rows and a state after each part: many moments at which it can be stopped. The moment is counted in files
# that were written, not in seconds: at the last one half of the file is there, or it is whole, by turns.
STOPPED = """
import os, signal, sys
from dosimeter.engines import checkpoint, local_blocks, memory
memory.MOST_ROWS, local_blocks.EVERY = 64, 0
how, last, begun, write = int(sys.argv[1]), int(sys.argv[2]), [], checkpoint.write_whole
def write_and_stop(path, content, **options):
    begun.append(path)
    if len(begun) == last and last % 2:
        if how == signal.SIGKILL:
            path.with_name(f".{path.name}.{os.getpid()}").write_bytes(content[: len(content) // 2])
        os.kill(os.getpid(), how)
    write(path, content, **options)
    if len(begun) == last:
        os.kill(os.getpid(), how)
checkpoint.write_whole = write_and_stop
from dosimeter.cli.main import main
main(sys.argv[3:])
"""


def command(table: Path, folder: Path, out: Path, doses: Path, how: int = 0, last: int = 0) -> list[str]:
    options = ["--target", "ill", "--person", "scattered", "--scale", "0.05", "--engine", "blocks", "--quiet"]
    files = ["--checkpoint", str(folder), "--json", str(out), "--doses-out", str(doses)]
    return ["-c", STOPPED, str(how), str(last), "measure", str(table), *options, *files]


def run_stopped(tmp_path: Path, moments: list[int], how: int) -> None:
    columns = {name: column for name, column in people(500).items() if name in COLUMNS}
    table = written(tmp_path / "people.parquet", columns, rows=50)
    expected, doses = tmp_path / "whole.json", tmp_path / "whole.parquet"
    assert forked.run(command(table, tmp_path / "whole", expected, doses))[0] == 0
    folder, out, again = tmp_path / "work", tmp_path / "out.json", tmp_path / "out.parquet"
    for last in moments:
        quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        process = forked.start(command(table, folder, out, again, how, last), **quiet)
        assert process.wait() == (-how if how == signal.SIGKILL else 130)
        assert not out.exists()
        assert not list(tmp_path.glob(".dosimeter-*")) or how == signal.SIGKILL
    assert forked.run(command(table, folder, out, again))[0] == 0
    a, b = (json.loads(path.read_text()) for path in (expected, out))
    a.pop("reproduce"), b.pop("reproduce")
    assert a == b
    assert doses.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_stopped_and_started_again_the_result_is_equal(tmp_path: Path, how: int) -> None:
    run_stopped(tmp_path, [1, 8, 5], how)


@pytest.mark.slow
def test_killed_twenty_times_the_result_is_equal(tmp_path: Path) -> None:
    moments = random.Random(2)
    run_stopped(tmp_path, [moments.randint(1, 2) for _ in range(20)], signal.SIGKILL)


def test_a_run_that_was_killed_while_it_claimed_the_folder_can_begin_again(tmp_path: Path) -> None:
    (tmp_path / f".{TASK}.4711").write_bytes(b'{"ta')
    Checkpoint(tmp_path, "a task").save("pass", PassState(1, True, 2.0))
    assert Checkpoint(tmp_path, "a task").load("pass").value == 2.0


def test_of_several_that_write_a_file_first_one_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "draw"
    assert checkpoint.write_first_sealed(path, b"first")
    assert not checkpoint.write_first_sealed(path, b"second")
    assert checkpoint.read_sealed(path, Refusal()) == b"first"

    def no_links(beside: Path, path: Path) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(checkpoint.os, "link", no_links)
    assert checkpoint.write_first_sealed(tmp_path / "other", b"third")
    assert not checkpoint.write_first_sealed(tmp_path / "other", b"fourth")
    assert checkpoint.read_sealed(tmp_path / "other", Refusal()) == b"third"
    assert (tmp_path / "other").stat().st_mode & 0o777 == 0o600
    assert {each.name for each in tmp_path.iterdir()} == {"draw", "other"}


def test_a_full_disk_is_one_line_that_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "fsync", full)
    with pytest.raises(Refusal, match=rf"{tmp_path}: the disk is full: free some space"):
        Checkpoint(tmp_path, "a task")
    assert not list(tmp_path.iterdir())
