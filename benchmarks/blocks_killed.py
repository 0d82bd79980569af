"""A long job that is killed again and again goes on where it was, and its result is that of a job left alone.

    python benchmarks/blocks_killed.py --folder DIR [--rows 1e7] [--kills 20] [--seed 0] [--json FILE]

The job is `dosimeter measure` with `--checkpoint` on the table of `benchmarks/blocks.py`, which is kept in DIR. It runs
once alone. Then the same command is started, killed with SIGKILL after a random time, and started again, until it was
killed so often; the last start is left alone. If it ends before that, it begins anew with an empty checkpoint, and the
kills count on. Every finished job is compared with the first: the whole JSON result but for its command line, and
every byte of the file of doses. The exit code is 1 if anything differs. About 15 minutes of processor for 1e7 rows.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blocks import generate

LEAST_WAIT = 0.5
"""Seconds before a kill; starting takes longer, so some kills come before the first pass."""


@dataclass
class Job:
    """One command in a folder of its own."""

    folder: Path
    table: Path
    memory: str
    waits: list[float] = field(default_factory=list)

    @property
    def checkpoint(self) -> Path:
        """Its finished work."""
        return self.folder / "checkpoint"

    def command(self) -> list[str]:
        """What is run; exit codes 0 and 1 both say that it ended."""
        options = {"--target": "y", "--scale": "0.05", "--max-dose": "1", "--engine": "blocks", "--memory": self.memory}
        places = {"--checkpoint": self.checkpoint, "--doses-out": self.folder / "doses.parquet"}
        named = {**options, **places, "--json": self.folder / "result.json"}
        flat = [str(item) for pair in named.items() for item in pair]
        return [sys.executable, "-m", "dosimeter", "measure", str(self.table), *flat, "--quiet"]

    def run(self, wait: float | None) -> bool:
        """Whether it ended by itself within `wait` seconds; otherwise it was killed."""
        one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"), "1")
        process = subprocess.Popen(self.command(), env=os.environ | one_thread)
        try:
            code = process.wait(wait)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.waits.append(round(wait or 0.0, 2))
            return False
        if code not in (0, 1):
            raise SystemExit(f"the job failed with exit code {code}")
        return True

    def outcome(self) -> tuple[Any, str]:
        """The result without its command line, and the digest of the doses."""
        result = json.loads((self.folder / "result.json").read_text())
        result.pop("reproduce", None)
        return result, hashlib.sha256((self.folder / "doses.parquet").read_bytes()).hexdigest()


def processor_seconds() -> float:
    """Of all finished child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def differences(expected: tuple[Any, str], outcome: tuple[Any, str]) -> list[str]:
    """Fields of the result that differ, and the doses."""
    fields = [name for name in expected[0].keys() | outcome[0].keys() if expected[0].get(name) != outcome[0].get(name)]
    return [*sorted(fields), *([] if expected[1] == outcome[1] else ["the file of doses"])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the table is kept; not in the repository")
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    table = options.folder / f"rows-{int(options.rows)}.parquet"
    generate(table, int(options.rows))
    alone, killed = (Job(options.folder / name, table, options.memory) for name in ("alone", "killed"))
    for job in (alone, killed):
        shutil.rmtree(job.folder, ignore_errors=True)
        job.folder.mkdir()
    began = time.monotonic()
    alone.run(None)
    length, seconds = time.monotonic() - began, processor_seconds()
    print(f"alone: {length:.0f} s, {seconds:.0f} s of processor", flush=True)
    moments, missed, ended = random.Random(options.seed), list[str](), 0
    longest = max(2 * LEAST_WAIT, 2 * length / options.kills)
    while True:
        left = len(killed.waits) < options.kills
        finished = killed.run(moments.uniform(LEAST_WAIT, longest) if left else None)
        if finished:
            ended += 1
            missed += differences(alone.outcome(), killed.outcome())
            print(f"ended after {len(killed.waits)} kills: {missed or 'equal'}", flush=True)
            if not left:
                break
            shutil.rmtree(killed.folder)
            killed.folder.mkdir()
    report = {
        "rows": int(options.rows),
        "kills": len(killed.waits),
        "killed_after": killed.waits,
        "finished_jobs": ended,
        "alone_cpu": seconds,
        "killed_cpu": processor_seconds() - seconds,
        "differences": missed,
    }
    print(
        f"killed {report['kills']} times after {killed.waits} s, {ended} finished: {missed or 'all equal'}; "
        f"{report['killed_cpu']:.0f} s of processor against {seconds:.0f} s a job left alone"
    )
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    for job in (alone, killed):
        shutil.rmtree(job.folder)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
