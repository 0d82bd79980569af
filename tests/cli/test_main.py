"""The entry point itself."""

from __future__ import annotations

import signal

import pytest

from dosimeter.cli.main import run


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="this platform has no SIGPIPE")
def test_a_command_run_from_python_leaves_its_signals_alone() -> None:
    """With SIGPIPE at its default, a worker that died would end the whole program without a word."""
    before = signal.getsignal(signal.SIGPIPE)
    run(["--version"])
    assert signal.getsignal(signal.SIGPIPE) is before
