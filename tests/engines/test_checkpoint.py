"""A computation that is stopped at any moment goes on where it was, and ends with the same figures."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dosimeter.core.engine import TERMS, Each, Joined, Largest, split
from dosimeter.core.errors import Refusal
from dosimeter.core.selection import Counts, Top
from dosimeter.engines import local_blocks
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


def command(table: Path, folder: Path, out: Path, doses: Path) -> list[str]:
    options = ["--target", "ill", "--person", "scattered", "--scale", "0.05", "--engine", "blocks", "--quiet"]
    files = ["--checkpoint", str(folder), "--json", str(out), "--doses-out", str(doses)]
    # Blocks of 64 rows and a state after each part: many moments at which it can be killed.
    setup = (
        "import sys; from dosimeter.engines import memory, local_blocks; "
        "memory.MOST_ROWS = 64; local_blocks.EVERY = 0; from dosimeter.cli.main import main; main(sys.argv[1:])"
    )
    return ["-c", setup, "measure", str(table), *options, *files]


def run_killed(tmp_path: Path, kills: int, seed: int, how: int) -> None:
    moments = random.Random(seed)
    columns = {name: column for name, column in people(500).items() if name in COLUMNS}
    table = written(tmp_path / "people.parquet", columns, rows=50)
    expected, doses = tmp_path / "whole.json", tmp_path / "whole.parquet"
    began = time.monotonic()
    assert forked.run(command(table, tmp_path / "whole", expected, doses))[0] == 0
    whole = time.monotonic() - began
    folder, out, again = tmp_path / "work", tmp_path / "out.json", tmp_path / "out.parquet"
    killed = 0
    for _ in range(kills):
        process = forked.start(command(table, folder, out, again), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            process.wait(timeout=moments.uniform(0.2, 1.0) * whole)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, how)
            killed += 1
        process.wait()
        assert not list(tmp_path.glob(".dosimeter-*")) or how == signal.SIGKILL
    assert forked.run(command(table, folder, out, again))[0] == 0
    assert killed
    a, b = (json.loads(path.read_text()) for path in (expected, out))
    a.pop("reproduce"), b.pop("reproduce")
    assert a == b
    assert doses.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_killed_and_started_again_the_result_is_equal(tmp_path: Path, how: int) -> None:
    run_killed(tmp_path, kills=2, seed=1, how=how)


@pytest.mark.slow
def test_killed_twenty_times_the_result_is_equal(tmp_path: Path) -> None:
    run_killed(tmp_path, kills=20, seed=2, how=signal.SIGKILL)


def test_a_run_that_was_killed_while_it_claimed_the_folder_can_begin_again(tmp_path: Path) -> None:
    (tmp_path / f".{TASK}.4711").write_bytes(b'{"ta')
    Checkpoint(tmp_path, "a task").save("pass", PassState(1, True, 2.0))
    assert Checkpoint(tmp_path, "a task").load("pass").value == 2.0
