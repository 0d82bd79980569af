"""The entry point: parses, runs one verb, turns refusals into one line and an exit code.

0 within limits · 1 a limit was exceeded · 2 bad input or usage · 3 this model cannot be measured · 4 the ledger's
integrity check failed. Verbs import what they need when they run, so `--help` answers at once.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

from dosimeter.cli.blas_threads import blas_variables
from dosimeter.cli.config import FILE, TomlTable, settings_file
from dosimeter.cli.environment import PREFIX, Command, CommandGroup, check_variables
from dosimeter.core.errors import Interrupted, Refusal
from dosimeter.core.version import __version__

INTERRUPTED = 130
"""128 and the number of SIGINT, as shells have it."""
CLOSE = 0.7
"""Similarity from which an option is suggested: --hepl is meant for --help, --dimensions not for --epsilon."""
LARGE_BLOCK = 31 << 20
"""Bytes, just below the size from which glibc always gives a freed block back."""

app = typer.Typer(
    name="dosimeter",
    cls=CommandGroup,
    help="How much a released model leaks about each person it was trained on.\n\n"
    "Start with `dosimeter demo`, then `dosimeter measure TABLE --target COLUMN --person COLUMN`.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": PREFIX},
    epilog="Exit codes: 0 within limits, 1 a limit exceeded, 2 bad input or usage, 3 a model that cannot be measured "
    "or a file that a person must look at, 4 a ledger that was altered. "
    'Defaults of options: dosimeter.toml in the working folder ([measure] and below it target = "readmitted"), or '
    "variables such as DOSIMETER_MEASURE_TARGET.",
)
VERBS = (
    "demo", "measure", "fix", "attack", "pca", "pate", "federate", "release", "ledger", "report", "scan", "check",
    "serve", "reproduce",
)  # fmt: skip
"""Each is a module of `cli`: with an `app` of subcommands, or a function of the same name."""
for _verb in VERBS:
    _module = import_module(f"dosimeter.cli.{_verb}")
    if hasattr(_module, "app"):
        app.add_typer(_module.app, name=_verb, cls=CommandGroup)
    else:
        app.command(_verb, cls=Command, epilog=getattr(_module, "EPILOG", None))(getattr(_module, _verb))


def _version(requested: bool) -> None:
    if requested:
        print(f"dosimeter {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """How much a released model leaks about each person it was trained on.

    Start with `dosimeter demo`, then `dosimeter measure TABLE --target COLUMN --person COLUMN`.
    """
    check_variables(context.command, os.environ)
    context.default_map = _lists(context.command, settings_file(_options(context.command)))


@cache
def command_line() -> Any:
    """The verbs and their options. typer reads every signature anew at each call, which is half of a short command."""
    command: Any = typer.main.get_command(app)
    command.commands = {verb: command.commands[verb] for verb in VERBS}  # typer puts those with subcommands last
    return command


def _options(command: Any) -> Any:
    """The names of a verb's options without the dashes; for a group a dict of its verbs', its own under ""."""
    names = [param.name.replace("_", "-") for param in command.params if param.param_type_name == "option"]
    if hasattr(command, "commands"):
        return {"": names, **{verb: _options(under) for verb, under in command.commands.items()}}
    return names


def _lists(command: Any, defaults: TomlTable) -> TomlTable:
    """The defaults with a list of one if an option may be repeated and one value is set: exclude = "age"."""
    under = {name.replace("-", "_"): verb for name, verb in getattr(command, "commands", {}).items()}
    repeated = {param.name for param in command.params if getattr(param, "multiple", False)}
    flags = {param.name for param in command.params if getattr(param, "is_flag", False)}
    values: TomlTable = {}
    for name, value in defaults.items():
        if name in under:
            values[name] = _lists(under[name], value)
        else:
            if isinstance(value, bool) and name not in flags:  # true would be read as 1
                raise Refusal(f"{FILE}: {name.replace('_', '-')} = {str(value).lower()}: give a value")
            values[name] = [value] if name in repeated and not isinstance(value, list) else value
    return values


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit code."""
    # A closed pipe (| head) ends the program quietly instead of with an error on the next print.
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # glibc gives freed blocks back to the system until it has seen a larger one freed; each new one costs page faults.
    bytes(LARGE_BLOCK)
    arguments = sys.argv[1:] if arguments is None else arguments
    os.environ.update(blas_variables(arguments, os.environ))
    sys.exit(run(arguments))


def run(arguments: list[str]) -> int:
    """The exit code of one command."""
    from dosimeter.core.face import speaking

    with speaking("command line"):
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    try:
        result: Any = command_line()(arguments, prog_name="dosimeter", standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except typer.Exit as stop:
        code = stop.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except Interrupted as stop:
        return _stopped(str(stop))
    except Exception as error:
        return _failed(error)
    return _stopped() if code == INTERRUPTED else code


def _stopped(detail: str = "") -> int:
    return _report_error(
        "stopped; nothing half-written was left behind" + (f": {detail}" if detail else ""), INTERRUPTED
    )


def _failed(error: Exception) -> int:
    from dosimeter.core.errors import CannotMeasure, LimitExceeded, Tampered

    usage = getattr(error, "format_message", None)
    if usage is not None:  # a usage error of click, or of the copy of it that newer typers carry
        if type(error).__name__ == "NoArgsIsHelpError":
            print(usage(), file=sys.stderr)
            return 2
        command = getattr(getattr(error, "ctx", None), "command_path", "") or "dosimeter"
        message = _mistyped(error) or _not_a_number(error) or _commands(error, usage())
        return _report_error(f"{message}{'' if message.endswith(('.', '?')) else '.'} See {command} --help.", 2)
    for kind, code in ((CannotMeasure, 3), (LimitExceeded, 1), (Tampered, 4)):
        if isinstance(error, kind):
            return _report_error(str(error), code)
    if isinstance(error, Refusal):
        return _report_error(str(error), 2)
    if isinstance(error, OSError):
        return _report_error(f"{error.filename or 'file'}: {error.strerror or error}", 2)
    if isinstance(error, MemoryError):
        return _report_error("not enough memory for this table", 2)
    if os.environ.get("DOSIMETER_TRACEBACK"):
        raise error
    # A traceback can quote cells of the table, so it is shown only on request.
    return _report_error(
        f"a fault of dosimeter, not of your input ({type(error).__name__}); set DOSIMETER_TRACEBACK=1 to see where", 70
    )


def _mistyped(error: Any) -> str:
    """What to say about an option that is not there; "" for another error."""
    from difflib import get_close_matches

    name = getattr(error, "option_name", None)
    if not name or type(error).__name__ != "NoSuchOption":
        return ""
    options = {option for param in error.ctx.command.params for option in param.opts} if error.ctx else set()
    if name in ("--html", "--page"):
        page = "A page is made of a result: --json RESULT here, then dosimeter report RESULT --out PAGE.html"
        return f"no such option: {name}. {page if '--json' in options and '--card' not in options else 'Use --out'}"
    near = get_close_matches(str(name), getattr(error, "possibilities", None) or (), n=1, cutoff=CLOSE)
    return f"no such option: {name}" + (f". Did you mean {near[0]}?" if near else "")


def _commands(error: Any, message: str) -> str:
    """The message of click; where it names no command that is like the mistyped one, all that there are."""
    group = getattr(getattr(error, "ctx", None), "command", None)
    commands = getattr(group, "commands", None)
    if group is None or not commands or not message.startswith("No such command") or "Did you mean" in message:
        return message
    table = any("--table" in param.opts for param in group.params)
    return f"{message.rstrip('.')}: use {', '.join(commands)}{', or name a table with --table' if table else ''}"


_UNREAD = re.compile(r"'(?P<value>.*)' is not a valid (?P<kind>\w+)|unable to parse string as an? (?P<number>\w+)")
"""How click and later versions of typer say that a text is no number; the latter keep the text in the cause."""


def _not_a_number(error: Any) -> str:
    """What to say about a text where a number belongs; "" for another error."""
    from dosimeter.core.text import safe_text

    unread = _UNREAD.search(str(getattr(error, "message", "")))
    param = getattr(error, "param", None)
    if unread is None or param is None or param.param_type_name != "option":
        return ""
    causes: list[Any] = getattr(error.__cause__, "errors", list)()
    value = unread["value"] or next((str(cause.get("input", "")) for cause in causes), "")
    kind = "a whole number" if "integer" in (unread["kind"], unread["number"]) else "a number such as 0.5"
    return f"{param.opts[0]} {safe_text(value)}: give {kind}"


def _report_error(message: str, code: int) -> int:
    from dosimeter.core.text import safe_text

    print(f"dosimeter: error: {safe_text(message, width=2000)}", file=sys.stderr)
    return code
