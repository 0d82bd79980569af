"""Writing to a pipe or connection that the other side has closed raises an error instead of ending the program.

The command line ends quietly if the reader of its output is gone (`| head`): it gives SIGPIPE back its default. Then a
write to a closed connection would end the program too, without a word.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def closed_pipes_are_errors() -> Iterator[None]:
    """Ignore SIGPIPE in this context: a write to what was closed raises BrokenPipeError.

    Nothing is done in another thread than the first, where signals cannot be set.
    """
    before = ignore_closed_pipes()
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGPIPE, before)


def ignore_closed_pipes() -> Any:
    """Ignore SIGPIPE from now on; what was done before, None if nothing was changed."""
    if not hasattr(signal, "SIGPIPE") or threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGPIPE, signal.SIG_IGN)
