"""The browser is closed when the last test of the process is done."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .opened import the_browser


@pytest.fixture(scope="session", autouse=True)
def _one_browser() -> Iterator[None]:
    yield
    if the_browser.cache_info().currsize:
        the_browser().close()
