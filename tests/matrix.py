"""The suite on other machines: BLAS kernels and threads, the lowest versions that pyproject allows, other Pythons.

    python tests/matrix.py kernels      the numerical packages under each other kernel that this processor can run
    python tests/matrix.py all          the whole suite under the lowest versions, under each newer Python that is
                                        installed, then under each kernel with one and two threads
    python tests/matrix.py table        the results so far

A run goes through the suite in pieces, and build/matrix.jsonl keeps the result of each. Started again at the same
commit it goes on with the pieces that have no result or failed. The arguments of MATRIX_ARGS go to pytest.

OpenBLAS picks its kernel by the processor; OPENBLAS_CORETYPE picks another, whose sums round in another order. What
fails under one of them depends on the last bit of a BLAS.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NUMERICAL = ("attacks", "core", "estimators", "federated", "glm", "laws", "noise_addition", "pate", "pca")
KERNELS = {"Haswell": "avx2", "SkylakeX": "avx512f", "Zen": "avx2", "Nehalem": "sse4_2"}
"""Kernel -> the instructions that it needs: without them the process would be killed."""
EVERY_COMMIT = ("Haswell", "SkylakeX", "Zen")
"""The kernels of `make kernels`; the oldest one, which no recent processor picks, is for `make matrix`."""
NEWER = ("3.12", "3.13")
PIECES = (
    ("glm", "laws", "core"),
    ("attacks", "estimators", "noise_addition", "pca"),
    ("federated", "pate"),
    ("adapters", "models", "tables"),
    ("browser", "cli", "reports", "results", "serve", "workflows"),
)
"""Folders of tests that run together, the numerical ones first; what is not listed is the last piece."""
RESULTS = ROOT / "build" / "matrix.jsonl"


def kernels() -> list[str]:
    """The kernels that this processor can run; none where it cannot be told."""
    info = Path("/proc/cpuinfo")
    flags = set(info.read_text().split()) if info.exists() else set()
    return [kernel for kernel, needs in KERNELS.items() if needs in flags]


def own_kernel() -> str:
    """The kernel that OpenBLAS picks by itself on this processor, under which the suite runs anyway."""
    code = "import numpy, threadpoolctl as t; print(*[b.get('architecture') for b in t.threadpool_info()])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def lowest(project: dict[str, object]) -> list[str]:
    """Constraints that hold every dependency of a user, extras included, at the lowest version allowed.

    >>> lowest({"dependencies": ["numpy>=1.26"], "optional-dependencies": {"postgres": ["psycopg[binary]>=3.1.8,<4"]}})
    ['numpy==1.26', 'psycopg==3.1.8']
    """
    dependencies, extras = project["dependencies"], project["optional-dependencies"]
    assert isinstance(dependencies, list)
    assert isinstance(extras, dict)
    wanted = [*dependencies, *(line for extra in ("parquet", "postgres") for line in extras.get(extra, ()))]
    matches = [re.match(r"([\w.-]+)(?:\[[^]]*\])?>=([\d.]+)", line) for line in wanted]
    return [f"{match[1]}=={match[2]}" for match in matches if match]


@dataclass(frozen=True)
class Outcome:
    """What one piece of the suite gave in one run."""

    commit: str
    run: str
    piece: str
    passed: bool
    counts: str
    failures: tuple[str, ...] = ()


def commit() -> str:
    """The commit, with a mark if files were changed since: then no earlier result holds."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def pieces() -> list[tuple[str, ...]]:
    """The whole suite, in pieces."""
    listed = [tuple(f"tests/{name}" for name in names) for names in PIECES]
    known = {path for piece in listed for path in piece}
    folders = sorted(f"tests/{path.parent.name}" for path in ROOT.glob("tests/*/__init__.py"))
    files = sorted(f"tests/{path.name}" for path in ROOT.glob("tests/test_*.py"))
    return [*listed, (*(folder for folder in folders if folder not in known), *files, "src")]


def kept() -> list[Outcome]:
    """The results that were kept, the last of each piece."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    outcomes = [Outcome(**{**(fields := json.loads(line)), "failures": tuple(fields["failures"])}) for line in lines]
    return list({(one.commit, one.run, one.piece): one for one in outcomes}.values())


def suite(python: str, *packages: str, workers: int = 2, **variables: str) -> bool:
    """Whether the tests pass with this interpreter and these variables."""
    threads = variables.pop("threads", "1")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, **variables}
    title = ", ".join([Path(python).parents[1].name, *variables.values(), f"{threads} threads"])
    done = {one.piece for one in kept() if (one.commit, one.run) == (commit(), title) and one.passed}
    passed = True
    for piece in [packages] if packages else pieces():
        name = " ".join(path.removeprefix("tests/") for path in piece)
        if name in done and not commit().endswith("-dirty"):
            continue
        print(f"== {title}: {name}", flush=True)
        command = [python, "-m", "pytest", "-q", "-n", str(workers), "--dist", "worksteal", *piece]
        command += os.environ.get("MATRIX_ARGS", "").split()
        outcome = run_piece(command, environment, title, name)
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
        passed = passed and outcome.passed
    return passed


def run_piece(command: list[str], environment: dict[str, str], run: str, piece: str) -> Outcome:
    """Run pytest and read its last lines; everything is shown as well."""
    counts, failures = "no tests", []
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if line.startswith(("FAILED ", "ERROR ")):
                failures.append(line.split(" - ")[0].split(" ", 1)[1].strip())
            elif match := re.match(r"=*\s*(\d+ (?:passed|failed|error).*) in [\d.]+s", line):
                counts = match[1]
    return Outcome(commit(), run, piece, process.returncode == 0, counts, tuple(failures))


def table() -> str:
    """The results so far, a line for each piece of each run.

    >>> print(as_table([Outcome("1a2b", "lowest, 1 threads", "glm", False, "1 failed, 9 passed", ("tests/a.py::b",))]))
    | commit | run | piece | counts |
    |---|---|---|---|
    | 1a2b | lowest, 1 threads | glm | 1 failed, 9 passed: tests/a.py::b |
    """
    return as_table(kept())


def as_table(outcomes: list[Outcome]) -> str:
    """A table in Markdown."""
    rows = ["| commit | run | piece | counts |", "|---|---|---|---|"]
    for one in outcomes:
        failed = ": " + ", ".join(one.failures) if one.failures else "" if one.passed else " (did not end well)"
        rows.append(f"| {one.commit} | {one.run} | {one.piece} | {one.counts}{failed} |")
    return "\n".join(rows)


def environment(name: str, python: str, *options: str) -> str:
    """The interpreter of a virtual environment with everything that the tests need, made once for each pyproject."""
    folder = ROOT / "build" / name
    inside = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    content = [python, *options, (ROOT / "pyproject.toml").read_text(encoding="utf-8")]
    wanted, stamp = hashlib.sha256("\n".join(content).encode()).hexdigest(), folder / "installed"
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(inside), "-m", "pip", "install", "--quiet", *options, "--editable", ".[test]"]
        subprocess.run(install, cwd=ROOT, check=True)
        stamp.write_text(wanted)
    return str(inside)


def by_kernel(packages: tuple[str, ...], threads: tuple[str, ...]) -> list[bool]:
    """The packages under each kernel but the processor's own, or the whole suite under every kernel."""
    folders = [f"tests/{package}" for package in packages]
    return [
        suite(sys.executable, *folders, workers=2 // int(t), OPENBLAS_CORETYPE=kernel, threads=t)
        for kernel in kernels()
        if not packages or (kernel in EVERY_COMMIT and kernel not in own_kernel())
        for t in threads
    ]


def by_version() -> list[bool]:
    """The whole suite under the lowest versions, and under each newer Python that is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (ROOT / "build").mkdir(exist_ok=True)
    constraints = ROOT / "build" / "lowest.txt"
    constraints.write_text("\n".join(lowest(project)) + "\n", encoding="utf-8")
    # The checks of older scikit-learns come as a generator, which pytest 9 warns of; newer versions of click warn of
    # calls that typer 0.16 makes.
    passed = [suite(environment("lowest", sys.executable, "-c", str(constraints), "pytest<9", "click<8.2"))]
    for version in NEWER:
        python = interpreter(version)
        if python is None:
            print(f"== Python {version} is not installed: not run")
        else:
            passed.append(suite(environment(f"python{version}", python)))
    return passed


def interpreter(version: str) -> str | None:
    """An interpreter of this version that answers: on the path, or among those of pyenv."""
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for python in (shutil.which(f"python{version}"), *map(str, installed)):
        if python and subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0:
            return python
    return None


def main() -> int:
    """0 where everything passed."""
    what = sys.argv[1] if len(sys.argv) == 2 else ""
    RESULTS.parent.mkdir(exist_ok=True)
    if what == "kernels":
        passed = by_kernel(NUMERICAL, ("1",))
    elif what == "all":
        passed = by_version() + by_kernel((), ("1", "2"))
    elif what == "table":
        passed = []
    else:
        print(__doc__)
        return 2
    print(table())
    print(f"{sum(passed)} of {len(passed)} runs passed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
