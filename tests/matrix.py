"""The suite on other machines: BLAS kernels and threads, the lowest versions that pyproject allows, other Pythons.

    python tests/matrix.py kernels      the numerical packages under each other kernel that this processor can run
    python tests/matrix.py all          the whole suite under each kernel with one and two threads, then under the
                                        lowest versions, then under each newer Python that is installed

OpenBLAS picks its kernel by the processor; OPENBLAS_CORETYPE picks another, whose sums round in another order. What
fails under one of them depends on the last bit of a BLAS.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NUMERICAL = ("attacks", "core", "estimators", "federated", "glm", "laws", "noise_addition", "pate", "pca")
KERNELS = {"Haswell": "avx2", "SkylakeX": "avx512f", "Zen": "avx2", "Nehalem": "sse4_2"}
"""Kernel -> the instructions that it needs: without them the process would be killed."""
EVERY_COMMIT = ("Haswell", "SkylakeX", "Zen")
"""The kernels of `make kernels`; the oldest one, which no recent processor picks, is for `make matrix`."""
NEWER = ("3.12", "3.13")


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
    wanted = [*dependencies, *(one for extra in ("parquet", "postgres") for one in extras.get(extra, ()))]
    found = [re.match(r"([\w.-]+)(?:\[[^]]*\])?>=([\d.]+)", one) for one in wanted]
    return [f"{match[1]}=={match[2]}" for match in found if match]


def suite(python: str, *packages: str, workers: int = 2, **variables: str) -> bool:
    """Whether the tests pass with this interpreter and these variables."""
    threads = variables.pop("threads", "1")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, **variables}
    title = ", ".join([Path(python).parents[1].name, *variables.values(), f"{threads} threads", *packages])
    print(f"== {title}", flush=True)
    command = [python, "-m", "pytest", "-q", "-n", str(workers), "--dist", "worksteal", *packages]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def environment(name: str, python: str, *options: str) -> str:
    """The interpreter of a fresh virtual environment with everything that the tests need."""
    folder = ROOT / "build" / name
    subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
    inside = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install = [str(inside), "-m", "pip", "install", "--quiet", *options, "--editable", ".[test]"]
    subprocess.run(install, cwd=ROOT, check=True)
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
    if what == "kernels":
        passed = by_kernel(NUMERICAL, ("1",))
    elif what == "all":
        passed = by_kernel((), ("1", "2")) + by_version()
    else:
        print(__doc__)
        return 2
    print(f"{sum(passed)} of {len(passed)} runs passed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
