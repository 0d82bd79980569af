"""What several verbs are given: a table to read, a noise by name, files to write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dosimeter.core.noise import Density
    from dosimeter.tables.table import Table

NotTied = Annotated[
    list[str] | None,
    typer.Option(
        "--not-tied",
        help="A column, or the target, that never changes within a person and is yet no one value. May be repeated.",
    ),
]


MissingValues = Annotated[
    str,
    typer.Option(
        "--missing",
        help="refuse, drop rows with a missing value, or impute: --impute for numbers, a level of its own for labels.",
    ),
]
Impute = Annotated[
    list[str] | None,
    typer.Option("--impute", help="COLUMN=VALUE: a public constant for missing values. May be repeated."),
]


def check_outputs(outputs: Sequence[Path | None], inputs: Sequence[Path]) -> None:
    """Outputs that cannot be written are refused before any work is done."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.files.atomic import check_output

    wanted = [path for path in outputs if path is not None]
    for path in wanted:
        check_output(path, inputs=inputs)
    places = [path.absolute() for path in wanted]
    taken = {Path(path).absolute() for path in inputs}
    for path, place in zip(wanted, places, strict=True):
        if place in taken:  # by name: the logs of a ledger come and go
            raise Refusal(f"{safe_text(path, 120)}: the output is the input or the ledger: write to another file")
    if len(set(places)) < len(places):
        raise Refusal(f"two outputs name the same file: {wanted[-1]}")


def law_of(name: str) -> type[Density]:
    """The class of a noise, by name."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.noise import NOISES
    from dosimeter.core.text import safe_text

    if name not in NOISES:
        # The one-sided exponential is known, and refused later for a reason of its own: it is not suggested.
        usable = [known for known in NOISES if known != "exponential"]
        raise Refusal(f"--noise {safe_text(name)}: use {', '.join(usable)}")
    return NOISES[name]


def check_loss(loss: str, losses: Sequence[str]) -> str:
    """A loss that is known."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    if loss not in losses:
        raise Refusal(f"--loss {safe_text(loss)}: use {', '.join(losses)}")
    return loss


def refuse_settings_of_a_fit(context: typer.Context, names: Sequence[str]) -> None:
    """A given model has its own loss and penalty: asked for here, they would be passed over in silence."""
    from dosimeter.core.errors import Refusal

    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise Refusal(f"--{name} is for a model fitted here and --model has its own: leave one of the two out")


def read(
    path: Path,
    delimiter: str,
    missing: str,
    person: str | None,
    nominal: list[str],
    drop: list[str],
    *,
    target: str | None = None,
    tied: Sequence[str] = (),
    not_tied: Sequence[str] = (),
    impute: Sequence[str] | None = None,
    own_imputer: bool = False,
    declared: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    class_names: bool = False,
) -> Table:
    """The table, persons and codes kept as exact text; options that contradict each other are refused first.

    impute: COLUMN=VALUE, the constants of --missing impute; None for a verb that fills nothing in.
    own_imputer: a given model fills its gaps itself. declared: numbers of a bounds file: what cannot be read in them is
    missing. classes: those of the target, listed beforehand: a row of another is one with a missing value. class_names:
    keep them as text.
    """
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.tables.read import read_table

    policies = ("refuse", "drop", *(() if impute is None else ("impute",)))
    if missing not in policies:
        raise Refusal(f"--missing {safe_text(missing)}: use {' or '.join(policies)}")
    constants = _constants(impute or (), missing, drop)
    if own_imputer and constants:
        raise Refusal("--impute is for a model fitted here and --model has its own imputer: leave one of the two out")
    aside = [] if person is None else [person]
    named = {"--target": [] if target is None else [target], "--person": aside, "--nominal": nominal}
    named |= {"--tied": list(tied), "--not-tied": list(not_tied)}
    for option, names in named.items():
        for name in names:
            if name in drop:
                shown = safe_text(name)
                raise Refusal(f"{option} {shown}: the column was dropped by --drop {shown}; leave one of the two out")
    if target is not None and person == target:
        raise Refusal(f"--target {safe_text(target)} is also the --person: name two columns")
    for option in ("--tied", "--not-tied"):
        if named[option] and person is None:
            raise Refusal(f"{option}: a tied column is one value per person: pass --person as well")
    text = tuple(dict.fromkeys([*aside, *nominal, *([] if classes is None else named["--target"])]))
    policy: Any = "keep" if missing == "impute" and own_imputer else missing
    needed = (*named["--target"], *tied, *not_tied, *constants)
    whole = (*named["--target"], *aside)
    how: dict[str, Any] = {"text": text, "drop": tuple(drop), "needed": needed, "declared": declared}
    table = read_table(path, delimiter=delimiter, missing=policy, impute=constants, whole=whole, **how)
    if classes is None or target is None:
        return table
    from dosimeter.core.location import Location
    from dosimeter.tables.classes import of_classes

    source = Location(str(path), first=1)
    as_text = class_names or target in nominal
    return of_classes(table, target, classes, leave_out=missing == "drop", source=source, names=as_text)


@contextmanager
def fitting_parts(model: Path) -> Iterator[None]:
    """A file can hold an estimator of any attributes: coefficients of text, a scaler of another width."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    try:
        yield
    except Refusal:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        what = f"the model's parts do not fit each other ({type(error).__name__})"
        raise Refusal(f"{safe_text(model, 120)}: {what}: dump the fitted model again") from error


def _constants(impute: Sequence[str], missing: str, drop: Sequence[str]) -> dict[str, str]:
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    found: dict[str, str] = {}
    for word in impute:
        name, sign, value = word.rpartition("=")
        if not (sign and name and value):
            raise Refusal(f"--impute {safe_text(word)}: write COLUMN=VALUE, a constant that is public")
        if name in found or name in drop:
            raise Refusal(f"--impute {safe_text(word)}: the column is named twice or dropped; leave one of the two out")
        found[name] = value
    if found and missing != "impute":
        raise Refusal("--impute fills gaps with --missing impute: pass both")
    return found
