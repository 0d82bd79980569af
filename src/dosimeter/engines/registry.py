"""The engines by name. A new one is a registered function that returns an `Engine` for the options of a verb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dosimeter.core.engine import Engine
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text


@dataclass(frozen=True)
class EngineOptions:
    """What a verb knows about where its sums are to run."""

    memory: int
    """Bytes that may be used at once."""
    checkpoint: Path | None = None
    """Folder of finished work; None to keep none."""
    task: str = ""
    """Identifies table and options: a checkpoint of another task is refused."""
    scheduler: str | None = None
    """Address of a cluster's scheduler; None for the client that is open, if any."""
    folder: Path | None = None
    """Where readings are written."""


ENGINES: dict[str, Callable[[EngineOptions], Engine]] = {}
"""Engines that read a table in parts. `memory` is not one of them: it reads the table whole."""
MEMORY = "memory"


def engine(name: str) -> Callable[[Callable[[EngineOptions], Any]], Callable[[EngineOptions], Any]]:
    """Register an engine that reads parts."""

    def register(create: Callable[[EngineOptions], Any]) -> Callable[[EngineOptions], Any]:
        ENGINES[name] = create
        return create

    return register


def engine_names() -> tuple[str, ...]:
    """The values of the option `engine`."""
    from dosimeter.engines import dask, local_blocks  # noqa: F401 - register themselves

    return (MEMORY, *ENGINES)


def create_engine(name: str, options: EngineOptions) -> Engine:
    """The engine of this name, which reads parts."""
    return ENGINES[check_engine(name)](options)


def check_engine(name: str) -> str:
    """One of `engine_names`."""
    if name not in engine_names():
        raise Refusal(f"{option('engine', safe_text(name))}: use {' or '.join(engine_names())}")
    return name
