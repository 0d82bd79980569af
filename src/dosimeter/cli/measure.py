"""`dosimeter measure TABLE`: what a linear model of one's own table gives away."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli.declared import BoundsFile
from dosimeter.cli.options import (
    Impute,
    MissingValues,
    NotTied,
    check_loss,
    check_outputs,
    fitting_parts,
    law_of,
    read,
    refuse_settings_of_a_fit,
)
from dosimeter.cli.output import console, write_json

if TYPE_CHECKING:
    from dosimeter.models.table_leakage import TableLeakage
    from dosimeter.tables.table import Table

NOISED = {True: "of the standardised columns", False: "of the model as it stands"}
"""What the noise is put on: our own fit (True), or a given model."""


def measure(
    context: typer.Context,
    table: Annotated[Path, typer.Argument(help="The training table: .csv or .parquet.", show_default=False)],
    target: Annotated[str, typer.Option("--target", help="The column that the model predicts.", show_default=False)],
    person: Annotated[
        str | None,
        typer.Option("--person", help="The column that says whose row it is (one person may have several)."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            help="A fitted model: .skops, or .json with bare coefficients. Without it one is fitted.",
        ),
    ] = None,
    loss: Annotated[
        str,
        typer.Option("--loss", help="auto, squared, logistic, poisson or softmax; for a model fitted here."),
    ] = "auto",
    l2: Annotated[
        float | None,
        typer.Option(
            "--l2",
            help="Strength of the squared penalty; for a model fitted here. Without it scikit-learn's default.",
        ),
    ] = None,
    noise: Annotated[
        str,
        typer.Option("--noise", help="gaussian, laplace, gumbel or logistic: the noise on each released weight."),
    ] = "gaussian",
    scale: Annotated[
        float | None,
        typer.Option("--scale", help="Scale of that noise. Without it the exact weights are released."),
    ] = None,
    max_dose: Annotated[
        float | None,
        typer.Option(
            "--max-dose", help="Highest η allowed for a person, at most 1 to protect; exit 1 where somebody is above."
        ),
    ] = None,
    unit: Annotated[
        str,
        typer.Option(
            "--unit", help="sd: η per standard deviation of a number; own: in its own unit. A category: per step."
        ),
    ] = "sd",
    no_label: Annotated[
        bool, typer.Option("--no-label", help="Take the target as known: do not count it among a row's unknowns.")
    ] = False,
    nominal: Annotated[
        list[str] | None, typer.Option("--nominal", help="A column of codes, not amounts. May be repeated.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option("--drop", help="A column to leave out. May be repeated.")] = None,
    tied: Annotated[
        list[str] | None,
        typer.Option(
            "--tied",
            help="A column, or the target, that is one value on all rows of a person; refused where it is not. Those "
            "that never change within a person are tied without it. May be repeated.",
        ),
    ] = None,
    not_tied: NotTied = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="A column whose groups to compare. May be repeated.")
    ] = None,
    bounds: BoundsFile = None,
    scaler: Annotated[
        str | None,
        typer.Option(
            "--scaler",
            help="total (a model fitted here): figures go through mean and deviation that columns are standardised by; "
            "held (a given model): these count as public.",
            show_default=False,
        ),
    ] = None,
    missing: MissingValues = "refuse",
    impute: Impute = None,
    delimiter: Annotated[str, typer.Option("--delimiter", help="What separates cells in a .csv.")] = ",",
    out: Annotated[Path | None, typer.Option("--out", help="Write the dose of each person as CSV (internal).")] = None,
    json: Annotated[str | None, typer.Option("--json", help="Write the facts as JSON here; - for stdout.")] = None,
    show_ids: Annotated[
        bool, typer.Option("--show-ids", help="Name the most exposed person instead of their row.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No words, only files and the exit code.")] = False,
    color: Annotated[bool, typer.Option("--color/--no-color", help="Colours in the terminal.")] = True,
) -> int:
    """Measure what the weights of a linear model give away about every person in its training table."""
    from dosimeter.cli import show
    from dosimeter.cli.checks import not_negative, positive
    from dosimeter.cli.declared import scaler_of, told
    from dosimeter.results.provenance import how_asked
    from dosimeter.results.summarise import summarise

    if model is not None:
        refuse_settings_of_a_fit(context, ("loss", "l2", "bounds"))
    inputs = [path for path in (table, model, bounds) if path is not None]
    check_outputs([out, None if json in (None, "-") else Path(str(json))], inputs)
    limit = None if max_dose is None else positive("--max-dose", max_dose)
    law = _noise(noise, scale)
    if l2 is not None:
        not_negative("--l2", l2)
    known = told(bounds, target, person, nominal or (), drop or ())
    codes = list(dict.fromkeys([*(nominal or []), *known.text]))
    gaps: dict[str, Any] = {"impute": impute or (), "own_imputer": model is not None}
    gaps |= {
        "tied": tied or (),
        "not_tied": not_tied or (),
        "declared": known.numbers,
        "classes": known.classes(target),
    }
    people = read(table, delimiter, missing, person, codes, drop or [], target=target, **gaps)
    for name in group or []:
        people[name]  # an unknown name is refused before the work starts
    how: dict[str, Any] = {"noise": law, "person": person, "unit": _unit(unit)}
    how |= {"tied": tuple(tied or ()), "not_tied": tuple(not_tied or ())}
    how["label"] = not no_label
    how["scaler"] = scaler_of(scaler if scaler is not None else "total" if model is None else "held")
    if model is None:
        leak, extra = _own(people, target, how | {"loss": loss, "l2": l2, "nominal": tuple(nominal or ())} | known.how)
    else:
        leak, extra = _given(people, target, model, how), {}
    facts = summarise(leak, people, limit=limit, groups=tuple(group or ()), own=model is None, show_ids=show_ids)
    facts["model"] |= extra
    facts["noise_on"] = f"each released weight {NOISED[model is None]}"
    facts["dropped_rows"] = people.dropped
    facts["reproduce"] = how_asked(context, people)
    if out is not None:
        _write_doses(leak, people, out, table)
    if json is not None:
        write_json(facts, json, inputs=inputs)
    words = console(quiet, color, json)
    _heading(words, people, facts, extra)
    show.measurement(facts, words, facts["unit"], _who(leak, people, facts, show_ids))
    return 0 if facts.get("verdict", {"within": True})["within"] else 1


def _noise(name: str, scale: float | None) -> Any:
    from dosimeter.core.errors import Refusal
    from dosimeter.core.noise import no_noise

    law: Any = law_of(name)
    if scale is None:
        return no_noise
    if not 0 < scale < math.inf:  # nan is no scale either
        raise Refusal(f"--scale {scale:g}: give a finite number above 0, or leave --scale out for an exact release")
    return law(scale)


def _unit(unit: str) -> str:
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    if unit not in ("sd", "own"):
        raise Refusal(f"--unit {safe_text(unit)}: use sd or own")
    return unit


def _own(people: Table, target: str, how: dict[str, Any]) -> tuple[TableLeakage, dict[str, Any]]:
    from dosimeter.models.fit_table import LOSSES, fit_table

    check_loss(how["loss"], LOSSES)
    own = fit_table(people, target, **how)
    return own.leakage, {"score_name": own.score_name, "score": own.score, "l2_from": own.penalty.source}


def _given(people: Table, target: str, model: Path, how: dict[str, Any]) -> TableLeakage:
    from dosimeter.adapters.read_model import read_model
    from dosimeter.models.given_model import measure as measure_model

    fitted = read_model(model)
    with fitting_parts(model):
        return measure_model(fitted, people, target, **how)


def _write_doses(leak: TableLeakage, people: Table, out: Path, table: Path) -> None:
    """One line per person, or per row under its number in the file, as on the screen."""
    from dosimeter.files.csv_export import write_sheet
    from dosimeter.results.people import number_of

    dose = leak.dose()
    who: dict[str, Any]
    if leak.ids is None:
        who = {"row": [number_of(people, k) for k in range(people.n)]}
    else:
        who = {"person": [str(i) for i in dose.ids]}
    unit = leak.measured_in.replace(" ", "_")
    write_sheet(out, {**who, f"eta_in_{unit}": dose.reading.tolist()}, inputs=[table])


def _who(leak: TableLeakage, people: Table, facts: dict[str, Any], show_ids: bool) -> str:
    """The most exposed: by row number, and by id only on request."""
    from dosimeter.core.text import safe_text

    row = facts["dose"]["highest_row"]
    if leak.ids is None:
        return f"row {row}"
    if not show_ids:
        return f"the person of row {row}"
    return f"person {safe_text(leak.ids[people.rows.tolist().index(row - 1)])}"


def _heading(words: Any, people: Table, facts: dict[str, Any], extra: dict[str, Any]) -> None:
    from dosimeter.core.text import safe_text
    from dosimeter.core.version import __version__

    model = facts["model"]
    score = f", {extra['score_name']} {extra['score']:.2f} on this table" if extra else ""
    dropped = f" ({people.dropped} left out for missing values)" if people.dropped else ""
    noise = facts["noise"] if facts["bounded"] else "none"
    persons = "" if facts["unit"] == "row" else f" of {facts['people']} people"
    words.print(f"dosimeter {__version__} · {facts['rows']} rows{persons}{dropped}")
    words.print(
        f"{model['loss']} model of {safe_text(model['target'])}{score}; noise on {facts['noise_on']}: {noise}\n"
    )
