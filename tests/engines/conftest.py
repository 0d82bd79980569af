"""Clusters of the tests are waited for as long as they take to start."""

from __future__ import annotations

import pytest

from dosimeter.engines import dask_client
from tests.deadlines import PATIENCE


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler or worker that starts on a busy machine is there in time."""
    monkeypatch.setattr(dask_client, "CONNECT", PATIENCE)
    monkeypatch.setattr(dask_client, "PATIENCE", PATIENCE)
