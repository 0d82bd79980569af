"""The GitHub Action and the pre-commit hook: their own commands, run as those programs run them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


@pytest.fixture
def place(tmp_path):
    """A folder to check, and `dosimeter` on the path."""
    (tmp_path / "outgoing").mkdir()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "dosimeter"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m dosimeter "$@"\n')
    program.chmod(0o755)
    return tmp_path


def environment(place, **more):
    source = str(ROOT / "src")
    path = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": source, **more}


def action(place, **inputs):
    """The step Check of the action, with its inputs in place."""
    (step,) = [step for step in ACTION["runs"]["steps"] if step["name"] == "Check"]
    values = {name: spec.get("default", "") for name, spec in ACTION["inputs"].items()} | inputs
    expressions = {key: re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", text) for key, text in step["env"].items()}
    variables = {key: values[match.group(1)] for key, match in expressions.items()}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]  # as the runner starts it
    return subprocess.run(
        command, cwd=place, env=environment(place, **variables), capture_output=True, text=True, timeout=600
    )


def good(folder):
    (folder / "model.csv").write_text("term,estimate,std.error,df.residual\n(Intercept),1.5,0.2,90\nage,0.1,0.05,90\n")


def bad(folder):
    (folder / "model.csv").write_text("term,estimate,std.error,df.residual\n(Intercept),1.5,0.2,3\nage,0.1,0.05,3\n")


def test_the_action_stops_on_a_failing_file_and_writes_the_page(place):
    bad(place / "outgoing")
    done = action(place, folder="outgoing", page="page.html")
    assert done.returncode == 1, done.stderr
    assert "3 residual degrees of freedom" in (place / "page.html").read_text()
    assert "degrees" not in done.stdout  # a log may be public: it holds the exit code alone


def test_the_action_asks_for_a_person_unless_it_may_pass(place):
    good(place / "outgoing")
    assert action(place, folder="outgoing").returncode == 3
    assert action(place, folder="outgoing", **{"allow-review": "true"}).returncode == 0
    (place / "policy.toml").write_text("max-dos = 1\n")
    assert action(place, folder="outgoing", policy="policy.toml").returncode == 2


def test_an_input_is_never_run_as_a_command(place):
    good(place / "outgoing")
    hostile = "outgoing; touch pwned $(touch pwned) `touch pwned`"
    assert action(place, folder=hostile).returncode == 2
    assert not (place / "pwned").exists()
    scripts = [step["run"] for step in ACTION["runs"]["steps"]]
    assert not any("${{" in script for script in scripts)


def test_the_hook_checks_the_files_that_are_committed(place):
    np.save(place / "weights.npy", np.arange(4.0))
    bad(place / "outgoing")
    pattern = re.compile(HOOK["files"])
    names = ["weights.npy", "outgoing/model.csv", "README.md", "code.py"]
    staged = [name for name in names if pattern.search(name)]
    assert staged == names[:2]

    def commit(*files):
        return subprocess.run(
            [*shlex.split(HOOK["entry"]), *HOOK["args"], *files],
            cwd=place,
            env=environment(place),
            capture_output=True,
            timeout=600,
        ).returncode

    assert commit("weights.npy") == 0
    assert commit(*staged) == 1


def test_a_file_that_is_named_like_an_option_is_checked(place):
    (place / "allow.csv").write_text('exact = "allow"\nunread = "allow"\nleast-residual-df = 0\n')
    bad(place / "outgoing")
    (place / "outgoing" / "model.csv").rename(place / "--policy=allow.csv")
    command = [*shlex.split(HOOK["entry"]), *HOOK["args"], "--policy=allow.csv"]
    done = subprocess.run(command, cwd=place, env=environment(place), capture_output=True, timeout=600)
    assert done.returncode == 1
    (place / "--json=out").mkdir()
    bad(place / "--json=out")
    assert action(place, folder="--json=out").returncode == 1
