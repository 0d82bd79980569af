"""Two faces of one package: every verb of the command line is a Python function with the same options.

A verb that is new on the command line fails here until it is listed in FUNCTIONS, or in COMMAND_LINE_ONLY with the
reason.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

import dosimeter as dm
from dosimeter.cli.main import VERBS, app
from dosimeter.workflows.model_leakage import ModelLeakage

FUNCTIONS = {
    "measure": "measure",
    "fix": "fix",
    "attack inversion": "attack",
    "attack membership": "attack",
    "pca": "components",
    "pate": "label",
    "federate": "federate",
    "federate plan": "plan_federation",
    "federate init": "create_consortium",
    "federate coordinator": "run_coordinator",
    "federate site": "run_site",
    "release": "release",
    "report": "report",
    "scan": "scan",
    "check": "check",
    "reproduce": "reproduce",
}
"""Verb -> its function in `dosimeter`."""
COMMAND_LINE_ONLY = {
    "demo": "shows `measure` on patients that ship with scikit-learn",
    "serve": "opens a ledger in a browser: a program, not a computation",
    "ledger": "its verbs are methods of `dosimeter.Ledger`",
}
PRESENTATION = set(
    "help json quiet color show_ids out doses_out dose_file card html history ledger keys no_ledger name to note "
    "override allow_review".split()
)
"""Options of showing, writing and booking: in Python methods of what a verb returns."""
ELSEWHERE = {
    "measure": {"max_dose": (ModelLeakage.result, "limit"), "group": (ModelLeakage.result, "groups")},
}
"""Verb -> option -> (method that takes it, its name there)."""
PRINTERS = {"report": {"schema"}, "pca": {"template"}}
"""Verb -> options that print something and stop: a JSON schema, a bounds file to fill in."""
DEFAULTS = {("measure", "noise"), ("measure", "unit"), ("attack inversion", "trials"), ("attack membership", "trials")}
"""Python's default is None, and the docstring says what follows from it."""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """(verb, command) of everything that can be run."""
    under = getattr(command, "commands", {})
    if path and (not under or getattr(command, "invoke_without_command", False)):
        yield " ".join(path), command
    for name, inner in under.items():
        if " ".join((*path, name)) not in COMMAND_LINE_ONLY:
            yield from commands(inner, (*path, name))


FOUND = dict(commands(typer.main.get_command(app)))


def function(verb: str) -> Any:
    return inspect.unwrap(getattr(dm, FUNCTIONS[verb]))


def options(verb: str) -> dict[str, Any]:
    """The options that are not of presentation, with their defaults."""
    own = {param.name: param for param in FOUND[verb].params if param.param_type_name == "option"}
    aside = PRESENTATION | set(ELSEWHERE.get(verb, {})) | PRINTERS.get(verb, set())
    return {name: param.default for name, param in own.items() if name not in aside}


def test_every_verb_is_listed() -> None:
    assert set(FOUND) - set(FUNCTIONS) == set()
    assert {verb.split()[0] for verb in FUNCTIONS} | set(COMMAND_LINE_ONLY) == set(VERBS)


def test_a_verb_is_a_function_whatever_was_imported_before() -> None:
    """Importing a package whose name is like a verb's must not hide the verb."""
    names = sorted(set(FUNCTIONS.values()))
    for name in names:
        assert callable(getattr(dm, name))
        assert callable(getattr(dm, name))
    code = (
        "import dosimeter as dm, dosimeter.cli.output, dosimeter.reports.layout\n"
        f"assert [name for name in {names} if not callable(getattr(dm, name))] == []\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("verb", FUNCTIONS)
def test_every_option_is_a_parameter_of_the_same_name(verb: str) -> None:
    known = inspect.signature(function(verb)).parameters
    assert [name for name in options(verb) if name not in known] == []


@pytest.mark.parametrize("verb", FUNCTIONS)
def test_defaults_agree_where_both_have_one(verb: str) -> None:
    known = inspect.signature(function(verb)).parameters
    unlike = {}
    for name, default in options(verb).items():
        mine = known[name].default
        if mine in (None, (), inspect.Parameter.empty) and default in (None, (), []):
            continue
        if default is None or (mine is None and (verb, name) in DEFAULTS):
            continue
        if mine != default:
            unlike[name] = (default, mine)
    assert unlike == {}


@pytest.mark.parametrize("verb", ELSEWHERE)
def test_options_of_the_result_are_parameters_of_its_method(verb: str) -> None:
    for method, name in ELSEWHERE[verb].values():
        assert name in inspect.signature(method).parameters


@pytest.mark.parametrize("verb", FUNCTIONS)
def test_a_verb_says_what_it_takes_returns_and_refuses(verb: str) -> None:
    text = inspect.getdoc(function(verb)) or ""
    for heading in ("Parameters\n---", "Returns\n---", "Raises\n---"):
        assert heading in text
    names = [name for name, p in inspect.signature(function(verb)).parameters.items() if p.kind is not p.VAR_KEYWORD]
    described = text.split("Returns\n---")[0]
    assert [name for name in names if name not in described] == []


@pytest.mark.parametrize("name", ["exclude", "categorical", "tied", "not_tied"])
def test_one_column_may_stand_alone_as_text(name: str) -> None:
    """A text is one name, never its letters: every verb that takes names says so in its type."""
    for function in sorted({*FUNCTIONS.values(), "bounds_template"} - {"check"}):
        parameter = inspect.signature(getattr(dm, function)).parameters.get(name)
        assert parameter is None or "Names" in str(parameter.annotation), function
    with pytest.raises(dm.Refusal, match="there is no column ill"):
        dm.bounds_template({"age": [1.0, 2.0]}, exclude="ill")
    with pytest.raises(dm.Refusal, match="ill"):
        dm.components({"age": [1.0, 2.0]}, epsilon=1, bounds={"age": {"lower": 0, "upper": 9}}, exclude="ill")
