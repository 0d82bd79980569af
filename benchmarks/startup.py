"""What a command costs before it works: seconds of the processor of every verb's --help, and what they import.

    python benchmarks/startup.py [--runs 5] [--imports VERB]

Each is a process of its own, the least of several; bytecode is cached, as it is after an installation. The limit is for
every verb. --imports lists the modules that cost a verb's --help most, by `python -X importtime`. Exit code 1 if a verb
is above the limit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from harness.timing import processor_seconds

LIMIT = 0.35
HEAVY = (
    "numpy",
    "scipy",
    "pandas",
    "sklearn",
    "pyarrow",
    "narwhals",
    "jinja2",
    "dp_accounting",
    "sqlalchemy",
    "altair",
)
"""Libraries that no --help may load."""
SHOWN = 15


def commands() -> dict[str, list[str]]:
    """Name -> arguments: the program alone, its version, its help, and every verb's."""
    from dosimeter.cli.main import VERBS

    alone = {"dosimeter": [], "dosimeter --version": ["--version"], "dosimeter --help": ["--help"]}
    return alone | {f"dosimeter {verb} --help": [verb, "--help"] for verb in VERBS}


def seconds(arguments: list[str]) -> float:
    """Of the processor; a command without a verb prints its help and leaves with 2."""
    return processor_seconds([sys.executable, "-m", "dosimeter", *arguments], codes=(0, 2) if not arguments else (0,))


def imports(arguments: list[str]) -> dict[str, int]:
    """Module -> microseconds of its own import, by the interpreter."""
    command = [sys.executable, "-X", "importtime", "-m", "dosimeter", *arguments]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    costs = {}
    for line in text.splitlines():
        if line.startswith("import time:") and "self [us]" not in line:
            own, _, name = line.removeprefix("import time:").split("|")
            costs[name.strip()] = int(own)
    return costs


def heavy_imports(arguments: list[str]) -> list[str]:
    """Which of the heavy libraries a command loads."""
    loaded = {name.partition(".")[0] for name in imports(arguments)}
    return [name for name in HEAVY if name in loaded]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--imports", metavar="VERB")
    options = parser.parse_args()
    if options.imports:
        costs = imports([options.imports, "--help"])
        for name, own in sorted(costs.items(), key=lambda pair: -pair[1])[:SHOWN]:
            print(f"{own / 1e3:9.2f} ms  {name}")
        print(f"{sum(costs.values()) / 1e3:9.2f} ms  {len(costs)} modules")
        return 0
    above = []
    for name, arguments in commands().items():
        fewest = min(seconds(arguments) for _ in range(options.runs + 1))
        loaded = heavy_imports(arguments)
        print(f"{name:28} {fewest:6.3f} s  limit {LIMIT:g} s  {', '.join(loaded)}", flush=True)
        if fewest > LIMIT or loaded:
            above.append(name)
    for name in above:
        print(f"ABOVE THE LIMIT {name}")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
