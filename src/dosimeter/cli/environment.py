"""How commands read the environment: DOSIMETER_MEASURE_SCALE sets --scale, and nothing there can end a command.

An option that prints something and stops (--help, --version, completion) would leave with exit code 0, so a stray
variable could turn a gate into a pass: those have no variable. The variables are not listed in --help; they follow
from the options' names, and one that names no option is refused: a misspelt limit would be no limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from typer.core import TyperCommand, TyperGroup

STOPPING = ("help", "version", "install_completion", "show_completion")
PREFIX = "DOSIMETER"
GROUPS = ("Start here", "Table", "Model", "Noise and limit", "Rounds and noise", "Ledger", "Output")
OTHER = "Other"
LIST = re.compile(r"<list\[(\w+)\]>")
"""How some versions of typer write the type of an option that may be repeated."""
SENTENCE = re.compile(r"(?<=\.)\s|\n\n")
OURS = ("DOSIMETER_TRACEBACK",)
"""Variables that are read and belong to no option."""
NEAR = 0.9
"""A variable under our prefix that is this similar to ours counts as misspelt; others belong to other programs."""


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
    """The variables of a command and of those under it. Those of options that stop are known, but ignored."""
    for param in command.params:
        if param.param_type_name == "option":
            yield f"{prefix}_{param.name.upper()}"
        variables = param.envvar or ()
        yield from [variables] if isinstance(variables, str) else variables
    yield f"{prefix}_HELP"
    for name, under in getattr(command, "commands", {}).items():
        yield from _variables(under, f"{prefix}_{name.upper().replace('-', '_')}")


def position(heading: str) -> int:
    """The place of a group of options; groups that are not in GROUPS stand last."""
    return GROUPS.index(heading) if heading in GROUPS else len(GROUPS)


def plain_types(names: str) -> str:
    """The names of an option with the type of one value.

    >>> plain_types("--exclude <list[str]>")
    '--exclude <str>'
    >>> plain_types("folder... <Path>")
    'folder... <path>'
    """
    return LIST.sub(r"<\1>", names).replace("<Path>", "<path>")


class Grouped:
    """Help with the options in groups, those that a newcomer needs first."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Arguments in capitals: TABLE, [TABLE], FOLDER...; some versions of typer write {table} and {folder}..."""
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [piece.replace("{", "").replace("}", "").upper() for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """One heading per group, in the order of GROUPS; arguments stand in the first."""
        groups: dict[str, list[tuple[str, str]]] = {}
        params = self.get_params(ctx)  # type: ignore[attr-defined]
        for param in sorted(params, key=lambda param: param.param_type_name != "argument"):
            record = param.get_help_record(ctx)
            if record is not None:
                first = GROUPS[0] if param.param_type_name == "argument" else OTHER
                names = plain_types(record[0])
                groups.setdefault(getattr(param, "rich_help_panel", None) or first, []).append((names, record[1]))
        for heading in sorted(groups, key=position):
            with formatter.section(heading):
                formatter.write_dl(groups[heading])


class Command(Grouped, TyperCommand):
    """A verb."""

    def invoke(self, ctx: Any) -> Any:
        """Run it. Some versions of typer turn Ctrl-C into an exit; here it stays an interruption."""
        from dosimeter.cli.progress import shown
        from dosimeter.core.errors import Interrupted

        try:
            with shown(ctx.params):
                return super().invoke(ctx)
        except KeyboardInterrupt:
            kept = ctx.params.get("checkpoint") is not None
            raise Interrupted("the same command resumes from its checkpoint" if kept else "") from None

    def get_params(self, ctx: Any) -> list[Any]:
        """The options with --help, which typer adds only here."""
        return _deaf(super().get_params(ctx))


class CommandGroup(Grouped, TyperGroup):
    """The program, or a verb with subcommands."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The commands, then the options in groups."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each command with the first sentence of its help, never cut off."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, SENTENCE.split(command.help or "")[0]) for name, command in commands if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl([(name, " ".join(sentence.split())) for name, sentence in rows])

    def get_params(self, ctx: Any) -> list[Any]:
        """The options with --help, which typer adds only here."""
        return _deaf(super().get_params(ctx))
