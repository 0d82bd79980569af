"""Noise that is the same in every run: the keys of a test follow from its name instead of the operating system.

A release draws from the operating system, so a test of what is released would depend on the draw: however wide its
tolerance, some run fails. In the process of the tests the keys of `noise_addition.bits` are therefore those of the
test, and every test has its own. Tests of the drawing itself ask the system, and each says how often it errs.
DOSIMETER_TEST_NOISE=system lets all of them ask it, to see how far from its limits a test is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import count

from dosimeter.noise_addition import bits

FROM_THE_SYSTEM = ("tests/noise_addition/",)
"""Tests of the drawing itself."""

_system_key = bits._key
_streams: list[Iterator[bytes]] = []


def _key() -> bytes:
    return next(_streams[-1]) if _streams else _system_key()


@contextmanager
def fixed_noise(name: str) -> Iterator[None]:
    """Until the end of the block, keys that follow from this name."""
    _streams.append(sha256(f"{name} {k}".encode()).digest() for k in count())
    try:
        yield
    finally:
        _streams.pop()


def install() -> None:
    """Let draws ask for keys here."""
    if os.environ.get("DOSIMETER_TEST_NOISE") != "system":
        bits._key = _key
