"""What is switched off in Flower before it is imported, and which versions are known.

Telemetry, the check for updates and the installation of packages at run time are off. Flower's own files, if it writes
any, go nowhere near the home folder. Import this module before anything of `flwr`.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from dosimeter.core.errors import Refusal

OFF = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
VERSIONS = ("1.41", "1.42")
"""Of Flower: its messages and its fleet API are those that this package speaks."""


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings that Flower's imports give about other packages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def prepare() -> None:
    """Switch off what Flower does by itself; refused if it is not installed, unknown, or runs with telemetry."""
    os.environ.update(OFF)
    try:
        installed = version("flwr")
    except PackageNotFoundError:
        raise Refusal("the transport flower is not installed (flwr): pip install dosimeter[flower]") from None
    if not installed.startswith(tuple(f"{known}." for known in VERSIONS)):
        raise Refusal(f"flwr {installed} is installed, and this speaks {' and '.join(VERSIONS)}: install one of them")
    with quiet():
        from flwr.supercore import telemetry
    if telemetry.FLWR_TELEMETRY_ENABLED != "0":
        raise Refusal("flwr was imported earlier with its telemetry on: import dosimeter.engines.flower first")
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
