"""What several verbs are given: a table to read, a noise by name, files to write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dosimeter.core.noise import Density
    from dosimeter.frames.table import Table

NotTied = Annotated[
    list[str] | None,
    typer.Option(
        "--not-tied",
        help="A column, or the target, that never changes within a person and is yet no one value. May be repeated.",
    ),
]


def check_outputs(outputs: Sequence[Path | None], inputs: Sequence[Path]) -> None:
    """Outputs that cannot be written are refused before any work is done."""
    from dosimeter.core.refusal import Refusal
    from dosimeter.io.atomic import check_output
    from dosimeter.io.text import harmless

    wanted = [path for path in outputs if path is not None]
    for path in wanted:
        check_output(path, inputs=inputs)
    places = [path.absolute() for path in wanted]
    taken = {Path(path).absolute() for path in inputs}
    for path, place in zip(wanted, places, strict=True):
        if place in taken:  # by name: the logs of a ledger come and go
            raise Refusal(f"{harmless(path, 120)}: the output is the input or the ledger: write to another file")
    if len(set(places)) < len(places):
        raise Refusal(f"two outputs name the same file: {wanted[-1]}")


def law_of(name: str) -> type[Density]:
    """The class of a noise, by name."""
    from dosimeter.core.noise import NOISES
    from dosimeter.core.refusal import Refusal
    from dosimeter.io.text import harmless

    if name not in NOISES:
        # The one-sided exponential is known, and refused later for a reason of its own: it is not suggested.
        usable = [known for known in NOISES if known != "exponential"]
        raise Refusal(f"--noise {harmless(name)}: use {', '.join(usable)}")
    return NOISES[name]


def check_loss(loss: str, losses: Sequence[str]) -> str:
    """A loss that is known."""
    from dosimeter.core.refusal import Refusal
    from dosimeter.io.text import harmless

    if loss not in losses:
        raise Refusal(f"--loss {harmless(loss)}: use {', '.join(losses)}")
    return loss


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
) -> Table:
    """The table, persons and codes kept as exact text; options that contradict each other are refused first."""
    from dosimeter.core.refusal import Refusal
    from dosimeter.io import harmless, read_table

    if missing not in ("refuse", "drop"):
        raise Refusal(f"--missing {harmless(missing)}: use refuse or drop")
    aside = [] if person is None else [person]
    named = {"--target": [] if target is None else [target], "--person": aside, "--nominal": nominal}
    named |= {"--tied": list(tied), "--not-tied": list(not_tied)}
    for option, names in named.items():
        for name in names:
            if name in drop:
                shown = harmless(name)
                raise Refusal(f"{option} {shown}: the column was dropped by --drop {shown}; leave one of the two out")
    if target is not None and person == target:
        raise Refusal(f"--target {harmless(target)} is also the --person: name two columns")
    for option in ("--tied", "--not-tied"):
        if named[option] and person is None:
            raise Refusal(f"{option}: a tied column is one value per person: pass --person as well")
    text = tuple(dict.fromkeys([*aside, *nominal]))
    policy: Any = missing
    needed = (*named["--target"], *tied, *not_tied)
    return read_table(path, delimiter=delimiter, text=text, drop=tuple(drop), needed=needed, missing=policy)
