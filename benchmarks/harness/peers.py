"""Environments of the peers: each library that we are compared with lives in a virtual environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "opendp": ("opendp==0.16.0",),
    "torch": ("torch==2.13.0", "numpy"),
    "flower": ("torch==2.13.0", "flwr[simulation]==1.41.0"),
    "pfl": ("torch==2.13.0", "pfl[pytorch]==0.6.0"),
}
"""Peer -> what pip installs for it. A new peer is one line here."""


def python_of(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def environments(folder: Path, names: list[str]) -> dict[str, str]:
    """Peer -> interpreter, each environment made if it does not exist yet. One that fails is reported and left out."""
    pythons: dict[str, str] = {}
    for name in names:
        home = folder / name
        ready = home / ".ready"
        wanted = "\n".join(REQUIREMENTS[name])
        if not ready.is_file() or ready.read_text(encoding="utf-8") != wanted:
            print(f"environment of {name}: {', '.join(REQUIREMENTS[name])}", file=sys.stderr, flush=True)
            install = [str(python_of(home)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            try:
                subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
                subprocess.run([*install, *REQUIREMENTS[name]], check=True)
            except subprocess.CalledProcessError as error:
                print(f"environment of {name}: exit {error.returncode}, left out", file=sys.stderr, flush=True)
                continue
            ready.write_text(wanted, encoding="utf-8")
        pythons[name] = str(python_of(home))
    return pythons
