"""The facts of every verb, once for all tests of the report."""

from __future__ import annotations

import pytest

from tests.report.verbs import commands, facts_of, prepare


@pytest.fixture(scope="session")
def printed(tmp_path_factory):
    """Verb -> what its --json printed, for two tables that have nothing in common but their form."""
    made = []
    for seed in (1, 2):
        folder = prepare(tmp_path_factory.mktemp("verbs") / "here", seed)
        made.append({name: facts_of(folder, name, ["-q"]) for name in commands(folder)})
    return tuple(made)
