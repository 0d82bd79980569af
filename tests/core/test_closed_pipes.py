"""Writing to what the other side has closed: an error that can be handled, also where the command line ends quietly."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from dosimeter.core.closed_pipes import closed_pipes_are_errors

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="this platform has no SIGPIPE")


@pytest.fixture
def as_on_the_command_line() -> Iterator[None]:
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGPIPE, before)


def test_a_closed_pipe_raises_and_the_signal_is_as_before_afterwards(as_on_the_command_line: None) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with closed_pipes_are_errors(), pytest.raises(BrokenPipeError):
        os.write(writer, b"x")
    os.close(writer)
    assert signal.getsignal(signal.SIGPIPE) is signal.SIG_DFL
