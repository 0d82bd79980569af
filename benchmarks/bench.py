"""One command, one table: what we cost against peers and against limits, and what got worse.

    python benchmarks/bench.py [ROW ...] [--quick] [--peers [PEER ...]] [--data DIR] [--runs 5] [--store]

Each comparison is a ratio, our seconds over the peer's, least of several runs in turns, in one process where the peer
can be called from it. A ratio that is worse than the stored one (`benchmarks/reference.json`) by more than a fifth is
measured again; if it stays worse it is named and the exit code is 1. `--store` keeps today's ratios as the reference.
`--peers` creates a virtual environment for each peer that needs one; without it those comparisons are left out.
Everything is kept in `build/bench`: `run.json` and `page.html`. A new row: `benchmarks/rows/__init__.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from threadpoolctl import threadpool_limits

import rows
from harness.machine import machine, versions
from harness.page import page
from harness.peers import REQUIREMENTS, environments
from harness.reference import Key, as_json, store, stored_ratios, worsenings
from harness.registry import ROWS, Ratio, Row, Settings, Skipped, outcomes

HERE = Path(__file__).resolve().parent
REFERENCE = HERE / "reference.json"
BUILD = HERE.parent / "build" / "bench"
AGAIN = 2
"""How often a row with a worse ratio is measured again: a busy machine is not a regression."""
HEADINGS = f"{'':12} {'comparison':50} {'ours':>11} {'peer':>11} {'ratio':>9} {'stored':>9} {'limit':>7}  peer"


def line(key: Key, ratio: Ratio, stored: float | None) -> str:
    """One line of the table."""
    before = "" if stored is None else f"{stored:.3g}"
    limit = "" if ratio.limit is None else f"{ratio.limit:g}"
    mark = "  ABOVE ITS LIMIT" if ratio.limit is not None and ratio.ratio > ratio.limit else ""
    return (
        f"{key[0]:12} {ratio.name:50} {shown(ratio.ours):>11} {shown(ratio.peer):>11} {ratio.ratio:9.3g} "
        f"{before:>9} {limit:>7}  {ratio.against}{mark}"
    )


def shown(seconds: float) -> str:
    """Seconds in a unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def measure(
    chosen: list[Row], settings: Settings, stored: dict[Key, float]
) -> tuple[dict[Key, Ratio], dict[Key, str], list[str]]:
    """(ratios, skipped, failures), printed as they come; rows with a worse ratio are measured again."""
    ratios: dict[Key, Ratio] = {}
    skipped: dict[Key, str] = {}
    failures: list[str] = []
    for row in chosen:
        try:
            for outcome in outcomes(row, settings):
                key = (row.key, outcome.name)
                if isinstance(outcome, Skipped):
                    skipped[key] = outcome.why
                    print(f"{row.key:12} {outcome.name:50} left out: {outcome.why}", flush=True)
                    continue
                ratios[key] = outcome
                print(line(key, outcome, stored.get(key)), flush=True)
            _measure_again(row, settings, stored, ratios)
        except Exception as error:  # one row that fails must not hide the others; it is named at the end
            failures.append(f"{row.key}: {type(error).__name__}: {error}")
            print(f"{row.key:12} FAILED: {error}", flush=True)
    return ratios, skipped, failures


def _measure_again(row: Row, settings: Settings, stored: dict[Key, float], ratios: dict[Key, Ratio]) -> None:
    for _ in range(AGAIN):
        worse = {found.key for found in worsenings(ratios, stored) if found.key[0] == row.key}
        if not worse:
            return
        for outcome in outcomes(row, settings):
            key = (row.key, outcome.name)
            if key in worse and isinstance(outcome, Ratio):
                ratios[key] = ratios[key].better_of(outcome)
                print(line(key, ratios[key], stored.get(key)) + "  (measured again)", flush=True)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"all without it: {', '.join(ROWS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes alone: a few minutes")
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=tuple(REQUIREMENTS),
        metavar="PEER",
        help=f"create environments of these peers, all without a name, and compare: {', '.join(REQUIREMENTS)}",
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DOSIMETER_DATA", "../shared/data")))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--postgres", default="", help="the URL of a PostgreSQL server; a database is created on it and removed"
    )
    parser.add_argument("--reference", type=Path, default=REFERENCE)
    parser.add_argument("--store", action="store_true", help="keep today's ratios as the reference")
    parser.add_argument("--build", type=Path, default=BUILD)
    options = parser.parse_args(argv)
    for name in options.rows:
        if name not in ROWS:
            parser.error(f"no row is named {name}: {', '.join(ROWS)}")
    return options


def main(argv: list[str] | None = None) -> int:
    """Print the table, write the files; 1 if a ratio got worse or a row failed."""
    rows.load()
    options = arguments(argv)
    chosen = [ROWS[name] for name in options.rows or ROWS]
    peers = [] if options.peers is None else options.peers or list(REQUIREMENTS)
    pythons = environments(options.build / "peers", peers)
    settings = Settings(options.data, options.quick, options.runs, pythons, options.postgres)
    stored, about = stored_ratios(options.reference), machine() | versions()
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    print(f"one thread, least of {options.runs} runs, seconds of the processor\n{HEADINGS}")
    start = time.perf_counter()
    with threadpool_limits(1):
        ratios, skipped, failures = measure(chosen, settings, stored)
    worse = worsenings(ratios, stored)
    run = as_json(ratios, skipped, machine=machine(), versions=versions(), quick=options.quick, runs=options.runs)
    options.build.mkdir(parents=True, exist_ok=True)
    (options.build / "run.json").write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (options.build / "page.html").write_text(page(ratios, stored, worse, skipped, about), encoding="utf-8")
    print(f"{time.perf_counter() - start:.0f} s; {options.build / 'run.json'}, {options.build / 'page.html'}")
    if options.store:
        store(options.reference, run)
        print(f"stored in {options.reference}")
    for change in worse:
        print(f"WORSE {change}")
    for failure in failures:
        print(f"FAILED {failure}")
    return 1 if worse or failures else 0


if __name__ == "__main__":
    sys.exit(main())
