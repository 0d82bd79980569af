"""What carries a consortium's messages, by the name in a config file: the module of each transport.

A module has two functions. `open_exchange(place, roster)` is the coordinator's end, a context manager that gives an
`Exchange`. `serve_site(place, answer, most=, stop=, patience=, say=)` is a site's end.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text

HTTPS, FLOWER = "https", "flower"
TRANSPORTS = {HTTPS: "dosimeter.engines.https_transport", FLOWER: "dosimeter.engines.flower"}


@dataclass(frozen=True)
class ServerPlace:
    """Where the coordinator listens, and what proves who it is."""

    listen: str
    port: int
    authority: Path
    certificate: Path
    key: Path
    folder: Path
    """Private, for the transport's own files."""


@dataclass(frozen=True)
class SitePlace:
    """Where a site reaches the coordinator, and what proves who both are."""

    host: str
    port: int
    coordinator: str
    """SHA-256 of the coordinator's certificate, hex."""
    authority: Path
    certificate: Path
    key: Path
    folder: Path


def transport_named(name: str) -> Any:
    """The module of a transport; refused if it is unknown or not installed."""
    if name not in TRANSPORTS:
        raise Refusal(f"transport = {safe_text(name)!r}: use {' or '.join(TRANSPORTS)}")
    try:
        return import_module(TRANSPORTS[name])
    except ModuleNotFoundError as error:
        raise Refusal(
            f"the transport {name} is not installed ({safe_text(error.name)}): pip install dosimeter[{name}]"
        ) from None
