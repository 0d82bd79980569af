"""Deadlines that pass when a test says so: the outcome does not depend on how fast a process starts or answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from dosimeter.engines.client_operations import ENDED
from dosimeter.engines.consortium_operations import FINISH
from dosimeter.engines.protocol.message import read_message

DAY = 86_400.0
PATIENCE = 400.0
"""Seconds after which a condition that never holds counts as held: a fault then fails, and hangs nowhere."""
FAREWELLS = {FINISH.name, ENDED.name}
Over = Callable[[Collection[int], bytes], bool]
"""(sites whose answers are missing, one of the questions) -> whether the deadline has passed."""


class _Clock:
    """`time` as a module of a transport sees it; it can be put forward."""

    sleep, time = staticmethod(time.sleep), staticmethod(time.time)

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


@contextmanager
def deadlines_that_pass(exchange: Any, modules: Collection[ModuleType], over: Over) -> Iterator[None]:
    """A question of this exchange waits until it is answered by all, or `over` holds, however long it takes.

    modules: those that read the clock for it. What is said about a deadline is not changed. A farewell is waited for by
    nobody and keeps its own.
    """
    clock, ask = _Clock(), exchange.ask

    def asked(questions: Any, *, deadline: float, most: int, accept: Callable[[int, bytes], bool]) -> Any:
        if {read_message(data).operation for data in questions.values()} <= FAREWELLS:
            return ask(questions, deadline=deadline, most=most, accept=accept)
        missing, end = set(questions), time.monotonic() + PATIENCE
        ended, moving = threading.Event(), threading.Lock()

        def accepted(site: int, data: bytes) -> bool:
            taken = accept(site, data)
            if taken:
                missing.discard(site)
            return taken

        def watch() -> None:
            while not ended.wait(0.02):
                if over(frozenset(missing), next(iter(questions.values()))) or time.monotonic() > end:
                    with moving:  # a clock that moved after the end would end the next question
                        clock.ahead += 0.0 if ended.is_set() else DAY + deadline
                    return

        threading.Thread(target=watch, daemon=True).start()
        try:
            return ask(questions, deadline=DAY + deadline, most=most, accept=accepted)
        finally:
            with moving:
                ended.set()

    exchange.ask = asked
    for module in modules:
        vars(module)["time"] = clock
    try:
        yield
    finally:
        exchange.ask = ask
        for module in modules:
            vars(module)["time"] = time


def wait_until(condition: Callable[[], Any], seconds: float = PATIENCE) -> bool:
    """Whether the condition came to hold; the limit is there for what never comes."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
