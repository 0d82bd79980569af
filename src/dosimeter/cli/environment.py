"""How commands read the environment: DOSIMETER_MEASURE_SCALE stands for --scale, and nothing there can end a command.

An option that prints something and stops (--help, --version, completion) would leave with exit code 0, so a stray
variable could turn a gate into a pass: those have no variable. The variables are not listed in --help; they follow
from the options' names, and one that names no option is refused: a misspelt limit would be no limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from typer.core import TyperCommand, TyperGroup

STOPPING = ("help", "version", "install_completion", "show_completion")
PREFIX = "DOSIMETER"
OURS = ("DOSIMETER_TRACEBACK",)
"""Variables that are read and are no option's."""
NEAR = 0.9
"""From this likeness on a variable under our prefix is taken for a slip; others there are somebody else's."""


class Stopped(Exception):
    """Ctrl-C in the middle of a verb; the words say how to go on, "" where there is nothing to go on from."""


def _deaf(params: list[Any]) -> list[Any]:
    for param in params:
        param.show_envvar = False
        if param.name in STOPPING:
            param.allow_from_autoenv = False
    return params


def check_variables(command: Any, names: Iterable[str]) -> None:
    """Refuse a variable that is meant for us and names no option. command: the program; names: of the environment."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    known = {*_variables(command, PREFIX), *OURS}
    verbs = tuple(f"{PREFIX}_{verb.upper().replace('-', '_')}_" for verb in command.commands)
    for name in sorted(names):
        if not name.startswith(f"{PREFIX}_") or name in known:
            continue
        near = get_close_matches(name[:100], known, n=1, cutoff=0.7 if name.startswith(verbs) else NEAR)
        if near or name.startswith(verbs):
            meant = f"did you mean {near[0]}?" if near else "take it out of the environment"
            raise Refusal(f"the variable {safe_text(name)} names no option: {meant}")


def _variables(command: Any, prefix: str) -> Iterator[str]:
    """The variables of a command and of those under it. Those of options that stop are known, and not listened to."""
    for param in command.params:
        if param.param_type_name == "option":
            yield f"{prefix}_{param.name.upper()}"
        own = param.envvar or ()
        yield from [own] if isinstance(own, str) else own
    yield f"{prefix}_HELP"
    for name, under in getattr(command, "commands", {}).items():
        yield from _variables(under, f"{prefix}_{name.upper().replace('-', '_')}")


class Command(TyperCommand):
    """A verb."""

    def invoke(self, ctx: Any) -> Any:
        """Run it; Ctrl-C is told apart from an exit, which some typers make of it."""
        from dosimeter.cli.progress import shown

        try:
            with shown(ctx.params):
                return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Stopped from None

    def get_params(self, ctx: Any) -> list[Any]:
        """The options with --help, which is made only now."""
        return _deaf(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """The program."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options with --help, which is made only now."""
        return _deaf(super().get_params(ctx))
