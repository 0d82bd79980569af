"""How commands read the environment: DOSIMETER_MEASURE_SCALE stands for --scale, and nothing there can end a command.

An option that prints something and stops (--help, --version, completion) would leave with exit code 0, so a stray
variable could turn a gate into a pass: those have no variable. The variables are not listed in --help; they follow
from the options' names.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

STOPPING = ("help", "version", "install_completion", "show_completion")


def _deaf(params: list[Any]) -> list[Any]:
    for param in params:
        param.show_envvar = False
        if param.name in STOPPING:
            param.allow_from_autoenv = False
    return params


class Command(TyperCommand):
    """A verb."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options with --help, which is made only now."""
        return _deaf(super().get_params(ctx))


class Group(TyperGroup):
    """The program."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options with --help, which is made only now."""
        return _deaf(super().get_params(ctx))
