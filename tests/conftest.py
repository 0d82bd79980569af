"""Where the papers' data and the known answers lie; tests that need them skip, saying so, when the folder is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[1]


def _folder(path: Path, what: str) -> Path:
    if not path.is_dir():
        pytest.skip(f"{what} not found at {path}; set DOSIMETER_DATA to the papers' data folder")
    return path


@pytest.fixture(scope="session")
def papers_data() -> Path:
    """The folder with the papers' real data (DOSIMETER_DATA, default ../shared/data)."""
    return _folder(Path(os.environ.get("DOSIMETER_DATA", _ROOT.parent / "shared" / "data")), "the papers' data")


@pytest.fixture(scope="session")
def golden(papers_data: Path) -> Path:
    """The folder with the known answers, beside the data."""
    return _folder(papers_data.parent / "golden", "the known answers")
