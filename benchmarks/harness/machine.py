"""On what a benchmark ran: processor, threads, versions."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = (
    "dosimeter", "numpy", "scipy", "scikit-learn", "pandas", "narwhals", "pyarrow", "polars", "opendp", "dp-accounting",
    "sqlalchemy", "psycopg", "typer",
)  # fmt: skip


def machine() -> dict[str, str]:
    """Name -> value."""
    return {"processor": _processor(), "cores": str(os.cpu_count()), "system": platform.platform(aliased=True)}


def versions() -> dict[str, str]:
    """Library -> version; those that are not installed are left out."""
    installed = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            installed[library] = version(library)
        except PackageNotFoundError:
            continue
    return installed


def _processor() -> str:
    lines = Path("/proc/cpuinfo")
    if lines.is_file():
        for line in lines.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
