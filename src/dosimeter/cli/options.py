"""Options that several verbs share. Each is written once, with its help and its group in `--help`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dosimeter.workflows.booking import BookingOptions, ReleaseSession

START, TABLE, NOISE, MODEL = "Start here", "Table", "Noise and limit", "Model"
LEDGER, OUTPUT = "Ledger", "Output"
"""Groups of options in --help, in this order."""


def opt(*names: str, help: str, group: str, **settings: Any) -> Any:
    """An option in a group of --help."""
    return typer.Option(*names, help=help, rich_help_panel=group, **({"show_default": False} | settings))


# --- start here ---
TableFile = Annotated[
    Path, typer.Argument(help="The table: .csv or .parquet.", show_default=False, rich_help_panel=START)
]
Target = Annotated[str, opt("--target", help="The column that the model predicts.", group=START)]
Person = Annotated[
    str | None,
    opt("--person", help="The column that says whose row it is. One person may have several rows.", group=START),
]
MaxDose = Annotated[
    float | None,
    opt("--max-dose", help="Highest η allowed for a person. At most 1 protects; see the table below.", group=START),
]
Scale = Annotated[
    float | None,
    opt("--scale", help="Scale of the noise on each weight. Without it the exact weights are released.", group=START),
]
Out = Annotated[Path | None, opt("--out", help="Where the release is written.", group=START)]

# --- table ---
Categorical = Annotated[
    list[str] | None, opt("--categorical", help="A column of codes, not amounts. May be repeated.", group=TABLE)
]
Exclude = Annotated[list[str] | None, opt("--exclude", help="A column to leave out. May be repeated.", group=TABLE)]
Tied = Annotated[
    list[str] | None,
    opt(
        "--tied",
        help="A column, or the target, with one value for all rows of a person; refused if it has several. Columns "
        "that never change within a person are tied without it. May be repeated.",
        group=TABLE,
    ),
]
NotTied = Annotated[
    list[str] | None,
    opt(
        "--not-tied",
        help="A column, or the target, that never changes within a person but is a separate value on each row. May be "
        "repeated.",
        group=TABLE,
    ),
]
MissingValues = Annotated[
    str,
    opt(
        "--missing",
        help="refuse, drop (leave out rows with a missing value), or impute (--impute for numbers, a level of its own "
        "for labels).",
        group=TABLE,
        show_default=True,
    ),
]
MissingRows = Annotated[
    str, opt("--missing", help="refuse, or drop (leave out rows with a missing value).", group=TABLE, show_default=True)
]
Impute = Annotated[
    list[str] | None,
    opt("--impute", help="COLUMN=VALUE: a public constant for missing values. May be repeated.", group=TABLE),
]
BoundsFile = Annotated[
    Path | None,
    opt(
        "--bounds",
        help="A .toml file with public bounds and levels: nothing is scaled by the table itself.",
        group=TABLE,
    ),
]
Delimiter = Annotated[str, opt("--delimiter", help="What separates cells in a .csv.", group=TABLE, show_default=True)]
Decimal = Annotated[
    str, opt("--decimal", help="The decimal mark of numbers in a .csv: . or ,", group=TABLE, show_default=True)
]

# --- where it runs ---
EngineName = Annotated[
    str | None,
    opt(
        "--engine",
        help="memory reads the table whole, blocks a few blocks at a time, dask on a cluster. By default by size.",
        group=TABLE,
    ),
]
Memory = Annotated[
    str | None, opt("--memory", help="How much memory may be used, such as 2GB (the default).", group=TABLE)
]
CheckpointFolder = Annotated[
    Path | None,
    opt(
        "--checkpoint",
        help="A folder for finished work of --engine blocks or dask: the same command resumes after a stop.",
        group=TABLE,
    ),
]
SchedulerAddress = Annotated[
    str | None,
    opt("--scheduler", help="A Dask scheduler, tls://HOST:PORT, whose workers can read the Parquet.", group=TABLE),
]

# --- model ---
Loss = Annotated[
    str,
    opt(
        "--loss",
        help="auto, squared, logistic, poisson or softmax; gamma, inverse-gaussian, tweedie (power 1.5), "
        "negative-binomial (alpha 1), squared-hinge, squared-epsilon-insensitive or huber; probit and cloglog, which "
        "fix does not release.",
        group=MODEL,
        show_default=True,
    ),
]
Penalty = Annotated[
    float | None,
    opt("--l2", help="Strength of the squared penalty. Without it scikit-learn's default for the loss.", group=MODEL),
]
ModelFile = Annotated[
    Path | None,
    opt(
        "--model",
        help="A fitted model: .skops, or .json with bare coefficients. Without it one is fitted.",
        group=MODEL,
    ),
]
KnownTarget = Annotated[
    bool, opt("--known-target", help="Take the target as known: do not count it as unknown.", group=MODEL)
]

# --- noise ---
NoiseLaw = Annotated[
    str,
    opt(
        "--noise",
        help="gaussian, laplace, gumbel or logistic: the noise on each number.",
        group=NOISE,
        show_default=True,
    ),
]

# --- ledger ---
LedgerPlace = Annotated[
    str | None,
    opt(
        "--ledger",
        envvar="DOSIMETER_LEDGER",
        help="The ledger: a path, or the URL of a database (or DOSIMETER_LEDGER, or [ledger] url in dosimeter.toml).",
        group=LEDGER,
    ),
]
Keys = Annotated[
    Path | None, opt("--keys", envvar="DOSIMETER_LEDGER_KEYS", help="The ledger's key file.", group=LEDGER)
]
NoLedger = Annotated[bool, opt("--no-ledger", help="Do not book, although a ledger is configured.", group=LEDGER)]
Name = Annotated[str | None, opt("--name", help="The name of the release in the ledger.", group=LEDGER)]
To = Annotated[str | None, opt("--to", help="Who receives it, for the ledger.", group=LEDGER)]
Note = Annotated[str | None, opt("--note", help="Anything else for the ledger.", group=LEDGER)]
Override = Annotated[str | None, opt("--override", help="Why it may exceed a budget; recorded.", group=LEDGER)]
DoseFileOut = Annotated[
    Path | None, opt("--dose-file", help="Write the dose file here, to book it later (internal).", group=LEDGER)
]

# --- output ---
DosesOut = Annotated[
    Path | None, opt("--doses-out", help="Write the dose of each person as CSV (internal).", group=OUTPUT)
]
Json = Annotated[str | None, opt("--json", help="Write the result as JSON here; - for stdout.", group=OUTPUT)]
ShowIds = Annotated[bool, opt("--show-ids", help="Name the most exposed people instead of their rows.", group=OUTPUT)]
Quiet = Annotated[bool, opt("--quiet", "-q", help="Print nothing; use the exit code.", group=OUTPUT)]
Color = Annotated[bool, opt("--color/--no-color", help="Colours in the terminal.", group=OUTPUT, show_default=True)]

_BOOKING = ("name", "to", "note", "override")
_TYPED = ("override", "no_ledger")
"""Never taken from a variable or a file: an option that overrides a limit must be typed each time."""
GOOD_DOSES = (0.3, 1.0, 2.0, 5.0)
LEDGER_PLACES = "--ledger PATH, DOSIMETER_LEDGER, or [ledger] url in dosimeter.toml"


def was_typed(context: typer.Context, name: str) -> bool:
    """Whether an option was given on the command line, not by a variable, a file or a default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def booking_options(context: typer.Context, never: str = "") -> BookingOptions:
    """The ledger's options of a verb; contradictions are refused. never: why nothing is booked here."""
    from dosimeter.core.errors import Refusal
    from dosimeter.workflows.booking import BookingOptions

    values = context.params
    typed = {name for name in values if was_typed(context, name)}
    for name in _TYPED:
        if values.get(name) and name not in typed:
            flag = name.replace("_", "-")
            raise Refusal(
                f"--{flag} must be given on the command line; remove it from the environment and dosimeter.toml"
            )
    requested = [name for name in _BOOKING if values.get(name) is not None and name in typed]
    dose_file = values.get("dose_file") if "no_ledger" in values else None  # `release` reads one instead
    if never:
        for name in (*requested, *(["dose-file"] if dose_file is not None else [])):
            raise Refusal(f"--{name} is for a release, and {never} is never booked: leave it out")
    elif values.get("no_ledger"):
        if requested or "ledger" in typed:
            raise Refusal(f"--no-ledger and --{requested[0] if requested else 'ledger'}: leave one of the two out")
    elif values["ledger"] is None and requested:
        raise Refusal(f"--{requested[0]} is for a ledger and none is configured: {LEDGER_PLACES}")
    fields = {name: values.get(name) for name in ("ledger", "keys", *_BOOKING)}
    return BookingOptions(**fields, no_ledger=bool(values.get("no_ledger")), dose_file=dose_file)


def booking_session(context: typer.Context, never: str = "") -> ReleaseSession:
    """Where the release of this command is booked. The ledger is closed when the command ends."""
    from dosimeter.workflows.booking import open_session

    session = open_session(booking_options(context, never), never)
    context.call_on_close(session.close)
    return session


def check_outputs(outputs: Sequence[Path | None], inputs: Sequence[Path]) -> None:
    """Outputs that cannot be written are refused before any work is done."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.files.atomic import check_output

    paths = [path for path in outputs if path is not None]
    for path in paths:
        check_output(path, inputs=inputs)
    places = [path.absolute() for path in paths]
    taken = {Path(path).absolute() for path in inputs}
    for path, place in zip(paths, places, strict=True):
        if place in taken:  # by name: the logs of a ledger come and go
            raise Refusal(f"{safe_text(path, 120)}: the output is the input or the ledger: write to another file")
    if len(set(places)) < len(places):
        raise Refusal(f"two outputs name the same file: {paths[-1]}")


def json_path(json: str | None) -> Path | None:
    """The file of --json, None if there is none or it is stdout."""
    return None if json in (None, "-") else Path(str(json))


def check_choice(flag: str, value: str, choices: Sequence[str]) -> str:
    """A value that is one of the choices."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    if value not in choices:
        raise Refusal(f"{flag} {safe_text(value)}: use {', '.join(choices)}")
    return value


def refuse_fit_options(context: typer.Context, names: Sequence[str]) -> None:
    """A given model has its own loss and penalty: passed here, they would be ignored in silence."""
    from dosimeter.core.errors import Refusal

    for name in names:
        if was_typed(context, name):
            flag = name.replace("_", "-")
            raise Refusal(f"--{flag} is for a model fitted here and --model has its own: leave one of the two out")


def dose_table() -> str:
    """What is a good dose, for the end of --help: how often an attacker tells two equally likely values apart, Φ(η/2).

    Computed without numpy, because --help loads nothing heavy.
    """
    rows = [f"  η = {eta:<5g}{50 * (1 + math.erf(eta / math.sqrt(8))):.0f} times in 100" for eta in GOOD_DOSES]
    question = "What is a good dose (η)? At most 1 protects. An attacker who knows everything"
    return "\n".join(["\b", question, "else picks the true one of two equally likely values:", *rows])
