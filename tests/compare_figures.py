"""Are the figures of two versions of dosimeter the same? Runs the same commands under both and compares the JSON.

    python tests/compare_figures.py run OUT                # with the interpreter of one version
    python tests/compare_figures.py compare BEFORE AFTER   # every number of every command, to the last bit

Random bytes of the operating system are replaced by a fixed stream, so that noise is the same in both runs. Numbers
are compared under the path of their field; a field that only one version has is listed and is no failure, unless it
holds a number that the other version does not have anywhere. `compare` also takes folders with the JSON that
`dosimeter reproduce NAME --json FILE` wrote under both versions, one file of the same name in each.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

LAUNCH = """
import hashlib, itertools, os, sys
counters = {}
def urandom(n):  # a counter for each size: other libraries ask for other sizes, at other times
    counter, out = counters.setdefault(n, itertools.count()), b""
    while len(out) < n:
        out += hashlib.sha512(f"fixed {n} {next(counter)}".encode()).digest()
    return out[:n]
os.urandom = urandom
from dosimeter.cli.main import run
sys.exit(run(sys.argv[1:]))
"""

RENAMED = {
    "--exclude": "--drop",
    "--noise-shape": "--shape",
    "--categorical": "--nominal",
    "--simulation-seed": "--simulate",
    "--doses-out": "--out",
    "--clients-per-round": "--per-round",
}
"""Options of today -> their names before version /3 of the results."""


def commands(folder: Path) -> dict[str, str]:
    """Name -> the command, without --json; the tables are those of the tests of the reports."""
    table, public, bounds = (str(folder / name) for name in ("table.csv", "public.csv", "bounds.toml"))
    linear = "--target score --person who --exclude ill --exclude site"
    logistic = "--target ill --exclude who --exclude site --exclude score"
    pate = f"--target ill --person who --exclude site --exclude score --public {public} --classes no,yes --teachers 12"
    return {
        "measure": f"measure {table} {linear} --scale 1 --max-dose 1000 --group ward",
        "measure-exact": f"measure {table} {linear}",
        "measure-logistic": f"measure {table} {logistic} --scale 1",
        "measure-bounds": f"measure {table} {linear} --scale 1 --bounds {bounds}",
        "fix": f"fix {table} {linear} --max-dose 5 --out {folder}/fix.skops",
        "fix-shaped": f"fix {table} {linear} --scale 50 --max-dose 1000 --noise-shape hessian "
        f"--out {folder}/shaped.skops",
        "fix-logistic": f"fix {table} {logistic} --max-dose 2 --equalise --even-if-useless --out {folder}/log.skops",
        "attack-inversion": f"attack inversion {table} {linear} --exclude who --column ward --scale 1".replace(
            "--person who ", ""
        ),
        "attack-membership": f"attack membership {table} {linear} --exclude who --scale 1".replace("--person who ", ""),
        "pca": f"pca {table} --person who --exclude site --bounds {bounds} --epsilon 2 --attack "
        f"--out {folder}/pca.skops",
        "pca-open": f"pca {table} --person who --exclude site --not-private --epsilon 2 --out {folder}/open.skops",
        "pate": f"pate {table} {pate} --budget 2nats --queries 4 --out {folder}/labels.csv",
        "pate-demo": "pate",
        "federate": f"federate --table {table} --target ill --client site --exclude who --exclude score --epsilon 8 "
        f"--rounds 3 --epochs 1 --out {folder}/model.safetensors",
        "federate-plan": "federate plan --clients 100 --epsilon 8",
        "demo": f"demo --out {folder}/demo",
        "scan": f"scan {folder}/fix.skops --data {table}",
    }


def run(out: Path, old: bool) -> None:
    """The JSON of every command, in the folder `out`."""
    from tests.reports import verbs

    out.mkdir(parents=True, exist_ok=True)
    folder = out / "tables"
    verbs.prepare(folder, 7)
    (folder / "demo").mkdir(exist_ok=True)
    for name, line in commands(folder).items():
        words = [RENAMED.get(word, word) if old else word for word in line.split()]
        target = out / f"{name}.json"
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-c", LAUNCH, *words, "--json", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        artefacts = {p.name: hashlib.sha256(p.read_bytes()).hexdigest()[:12] for p in folder.glob("*.s*")}
        print(name, done.returncode, done.stderr.strip()[-300:], flush=True)
        (out / f"{name}.code").write_text(f"{done.returncode}\n{artefacts}")


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number in a JSON value with the path of its field."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for k, inner in enumerate(value):
            yield from numbers(inner, f"{path}[{k}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def compare(before: Path, after: Path) -> int:
    """The number of commands whose figures differ."""
    worse = 0
    for file in sorted(before.glob("*.json")):
        if not (after / file.name).exists():
            print(f"{file.stem}: missing")
            worse += 1
            continue
        one, two = (dict(numbers(json.loads((d / file.name).read_text()))) for d in (before, after))
        changed = {k: (one[k], two[k]) for k in one.keys() & two.keys() if one[k] != two[k]}
        left, right = Counter(one.values()), Counter(two.values())
        lost = left - right
        print(f"{file.stem}: {len(one)} figures, {len(changed)} differ, {sum(lost.values())} nowhere in the other")
        for k, (a, b) in list(changed.items())[:20]:
            print(f"   {k}: {a!r} -> {b!r}")
        if lost:
            print("   lost:", [k for k, v in one.items() if v in lost][:20])
        worse += bool(changed or lost)
    return worse


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(Path(sys.argv[2]).resolve(), "--old" in sys.argv)
    else:
        sys.exit(compare(Path(sys.argv[2]), Path(sys.argv[3])))
