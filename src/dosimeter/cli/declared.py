"""`--bounds` of `measure` and `fix`: the bounds file of `dosimeter pca`, read for a model of one's own table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

BoundsFile = Annotated[
    Path | None,
    typer.Option(
        "--bounds",
        help="A .toml file with public bounds and levels of every column: nothing is scaled by the table itself.",
        show_default=False,
    ),
]


ScalerOption = Annotated[
    str,
    typer.Option(
        "--scaler",
        help="total: figures go through mean and deviation that columns are standardised by; held: these are public.",
    ),
]


def scaler_of(name: str) -> str:
    """A known way of treating the scaler."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.models.fitted_scaler import SCALERS

    if name not in SCALERS:
        raise Refusal(f"--scaler {safe_text(name)}: use {' or '.join(SCALERS)}")
    return name


@dataclass(frozen=True)
class Told:
    """What a bounds file says to a fit."""

    bounds: dict[str, Any] | None = None
    own_units: bool = False
    text: tuple[str, ...] = ()
    """Categories: columns that are read as text."""

    @property
    def numbers(self) -> list[str] | None:
        """Columns in which a cell that cannot be read is missing; None where no file was given."""
        return (
            None if self.bounds is None else [n for n, column in self.bounds.items() if not isinstance(column, tuple)]
        )

    def classes(self, target: str) -> tuple[str, ...] | None:
        """Those of the target, if it has declared levels."""
        levels = (self.bounds or {}).get(target)
        return levels if isinstance(levels, tuple) else None

    @property
    def how(self) -> dict[str, Any]:
        """Arguments of `fit_table` and `repair`."""
        return {} if self.bounds is None else {"bounds": self.bounds, "own_units": self.own_units}


def told(path: Path | None, target: str, person: str | None, nominal: Sequence[str], drop: Sequence[str]) -> Told:
    """The file, checked against the other options; nothing where there is none."""
    if path is None:
        return Told()
    from dosimeter.core.text import safe_text
    from dosimeter.tables.bounds_file import NumberBounds, read_bounds
    from dosimeter.tables.declared_bounds import Range

    declared = read_bounds(path)
    if declared.row_norm is not None:
        raise declared.source.refusal("row-norm is for dosimeter pca: no row is shortened here", "leave it out")
    if person is not None and person in declared.columns:
        raise declared.source.refusal(f"[{safe_text(person)}] is the --person", "leave it out there")
    for name in nominal:
        if isinstance(declared.columns.get(name), NumberBounds):
            raise declared.source.refusal(f"[{safe_text(name)}] is a number, and --nominal", "give it levels = [...]")
    kept = {name: column for name, column in declared.columns.items() if name not in drop}
    bounds = {
        name: Range(column.lower, column.upper, column.centre) if isinstance(column, NumberBounds) else column.levels
        for name, column in kept.items()
    }
    text = tuple(name for name, column in bounds.items() if isinstance(column, tuple) and name != target)
    return Told(bounds, declared.own_units, text)
