"""Shared fixtures: the papers' data and the known answers (skipped if absent), and the results of every verb."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import forked
from tests.fixed_noise import FROM_THE_SYSTEM, fixed_noise, install

_ROOT = Path(__file__).resolve().parents[1]

# The same examples in every run and no limit of time: a test fails because of a change, never because of the draw or of
# a busy machine. `pytest --hypothesis-profile=random` draws others.
settings.register_profile("fixed", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("random", settings.get_profile("fixed"), derandomize=False)
settings.load_profile("fixed")
install()

# Files are written through to the disk so that they survive a loss of power. Tests kill processes and never cut the
# power; waiting for the disk was a third of a short command.
os.fsync = lambda _: None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and tests live to the end: the collector of cycles need not go through them again and again.

    During the tests it runs once for many new objects; with Python's own thresholds it took a twentieth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(100_000, 20, 20)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """The noise of a test is its own, and the same in every run."""
    with nullcontext() if item.nodeid.startswith(FROM_THE_SYSTEM) else fixed_noise(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[None]:
    """A fixture of several tests has noise of its own, whichever of them needs it first."""
    name = f"{fixturedef.baseid} {fixturedef.argname} {request.param_index}"
    with nullcontext() if fixturedef.scope == "function" else fixed_noise(name):
        return (yield)


def pytest_sessionfinish() -> None:
    """No process is left behind."""
    forked.close()


def _folder(path: Path, what: str) -> Path:
    if not path.is_dir():
        pytest.skip(f"{what} not found at {path}; set DOSIMETER_DATA to the papers' data folder")
    return path


@pytest.fixture
def users_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder of the user who runs the test. Root may read and write everything, so root becomes another user.

    `tmp_path` comes first: it belongs to root.
    """
    with tempfile.TemporaryDirectory() as name:
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        if is_root:
            os.chown(name, 65534, 65534)
            os.seteuid(65534)
        try:
            if not os.access(name, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
                pytest.skip("no other user can enter the folder for temporary files")
            yield Path(name)
        finally:
            if is_root:
                os.seteuid(0)


@pytest.fixture(scope="session")
def papers_data() -> Path:
    """The folder with the papers' real data (DOSIMETER_DATA, default ../shared/data)."""
    return _folder(Path(os.environ.get("DOSIMETER_DATA", _ROOT.parent / "shared" / "data")), "the papers' data")


@pytest.fixture(scope="session")
def golden(papers_data: Path) -> Path:
    """The folder with the known answers, beside the data."""
    return _folder(papers_data.parent / "golden", "the known answers")


@pytest.fixture(scope="session")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Verb -> what its --json wrote, for two tables that have nothing in common but their form."""
    from tests.reports import verbs

    folders = [verbs.prepare(tmp_path_factory.mktemp("verbs") / "here", seed) for seed in (1, 2)]
    return tuple(verbs.run_all(folder) for folder in folders)


@pytest.fixture(scope="session")
def results(printed: Any) -> Any:
    """Verb -> the typed result, for the same two tables."""
    from tests.reports import verbs

    return tuple(map(verbs.typed, printed))
