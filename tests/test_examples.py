"""The examples run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="three hospitals on one computer need a POSIX system")
@pytest.mark.parametrize("study", ["fit", "site-noise", "components", "training", "clients"])
def test_three_hospitals_release_and_book(study: str) -> None:
    command = [sys.executable, str(ROOT / "examples" / "three-hospitals" / "run.py"), "--plain", "--study", study]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "released" in done.stdout + done.stderr
