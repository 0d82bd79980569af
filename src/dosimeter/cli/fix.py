"""`dosimeter fix TABLE`: a model that keeps every person below a dose, and what that costs in accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli.declared import BoundsFile, ScalerOption
from dosimeter.cli.options import Impute, MissingValues, NotTied
from dosimeter.cli.output import console, write_json
from dosimeter.workflows.booking import DoseFile, Keys, LedgerAt, Name, NoLedger, Note, Override, To

if TYPE_CHECKING:
    from dosimeter.models.linear_release import TableRelease
    from dosimeter.workflows.booking import BookingOutcome, ReleaseSession

WAYS = "A higher --max-dose, more people or fewer columns help; --even-if-useless writes it all the same."
KEPT = "the ledger keeps each person's Fisher matrix of this release: another about the same rows adds exactly"


def fix(
    context: typer.Context,
    table: Annotated[Path, typer.Argument(help="The training table: .csv or .parquet.", show_default=False)],
    target: Annotated[str, typer.Option("--target", help="The column that the model predicts.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", help="Where the released model goes: a .skops file.", show_default=False)
    ],
    model: Annotated[
        Path | None,
        typer.Option("--model", help="A fitted model to repair, .skops or .json: its own preprocessing and penalty."),
    ] = None,
    max_dose: Annotated[
        float | None,
        typer.Option(
            "--max-dose", help="Highest η a person may have, at most 1 to protect; the noise follows from it."
        ),
    ] = None,
    scale: Annotated[
        float | None, typer.Option("--scale", help="A public noise scale; with --max-dose it must keep within it.")
    ] = None,
    equalise: Annotated[
        bool, typer.Option("--equalise", help="Reweight people so that their doses become equal.")
    ] = False,
    rounds: Annotated[int, typer.Option("--rounds", help="Reweightings, with --equalise.")] = 3,
    shape: Annotated[
        str,
        typer.Option("--shape", help="auto: the noise that costs least; hessian: shaped; none: alike on all weights."),
    ] = "auto",
    even_if_useless: Annotated[
        bool, typer.Option("--even-if-useless", help="Write a model that does worse than one answer for everybody.")
    ] = False,
    noise: Annotated[str, typer.Option("--noise", help="gaussian, laplace, gumbel or logistic.")] = "gaussian",
    person: Annotated[str | None, typer.Option("--person", help="The column that says whose row it is.")] = None,
    loss: Annotated[str, typer.Option("--loss", help="auto, squared, logistic or poisson.")] = "auto",
    l2: Annotated[
        float | None, typer.Option("--l2", help="Strength of the squared penalty; without it scikit-learn's default.")
    ] = None,
    nominal: Annotated[list[str] | None, typer.Option("--nominal", help="A column of codes. May be repeated.")] = None,
    drop: Annotated[list[str] | None, typer.Option("--drop", help="A column to leave out. May be repeated.")] = None,
    tied: Annotated[
        list[str] | None,
        typer.Option("--tied", help="A column, or the target, with one value per person. May be repeated."),
    ] = None,
    bounds: BoundsFile = None,
    scaler: ScalerOption = "total",
    not_tied: NotTied = None,
    missing: MissingValues = "refuse",
    impute: Impute = None,
    delimiter: Annotated[str, typer.Option("--delimiter", help="What separates cells in a .csv.")] = ",",
    ledger: LedgerAt = None,
    keys: Keys = None,
    no_ledger: NoLedger = False,
    name: Name = None,
    to: To = None,
    note: Note = None,
    override: Override = None,
    dose: DoseFile = None,
    keep_blocks: Annotated[
        bool,
        typer.Option("--keep-blocks", help="Keep each person's Fisher matrix in the ledger, so that totals are exact."),
    ] = False,
    json: Annotated[str | None, typer.Option("--json", help="Write the facts as JSON here; - for stdout.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No words.")] = False,
    color: Annotated[bool, typer.Option("--color/--no-color", help="Colours in the terminal.")] = True,
) -> int:
    """Fit a linear model, noise it so that no dose exceeds the limit, and write it. Exit 1: nothing was written."""
    from dosimeter.adapters.read_model import read_model
    from dosimeter.cli.checks import not_negative, positive
    from dosimeter.cli.declared import told
    from dosimeter.cli.options import check_loss, check_outputs, fitting_parts, law_of, read, refuse_settings_of_a_fit
    from dosimeter.core.errors import Refusal
    from dosimeter.models.fit_table import LOSSES
    from dosimeter.models.given_model_release import repair_model
    from dosimeter.models.linear_release import repair
    from dosimeter.results.provenance import how_asked
    from dosimeter.results.repaired import repaired
    from dosimeter.workflows.booking import desk

    if out.suffix != ".skops":
        raise Refusal(f"--out {out.name}: a released model is a .skops file")
    at = desk(context)
    at.needs_people(person)
    if keep_blocks:
        _needs_ledger(at)
    if model is not None:
        refuse_settings_of_a_fit(context, ("loss", "l2", "bounds", "nominal", "scaler", "impute"))
    inputs = [table, *([] if bounds is None else [bounds]), *([] if model is None else [model]), *at.files]
    check_outputs([out, dose, None if json in (None, "-") else Path(str(json))], inputs)
    if max_dose is None and scale is None:
        raise Refusal("state a limit: --max-dose, or a public --scale")
    limit = None if max_dose is None else positive("--max-dose", max_dose)
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
    how: dict[str, Any] = {"max_dose": limit if scale is None else None, "person": person, "law": law_of(noise)}
    how |= {"scale": None if scale is None else positive("--scale", scale), "shape": _shape(shape, equalise)}
    how |= {"equalise": _rounds(rounds) if equalise else 0}
    how |= {"tied": tuple(tied or ()), "not_tied": tuple(not_tied or ())}
    if model is not None:
        fitted = read_model(model)
        with fitting_parts(model):
            done = repair_model(fitted, people, target, **how)
    else:
        how |= {"l2": None if l2 is None else not_negative("--l2", l2), "loss": check_loss(loss, LOSSES)}
        done = repair(people, target, **how, nominal=tuple(nominal or ()), **known.how)
    within = limit is None or max(done.plan.highest, done.plan.floor) <= limit
    useless = done.useful.worse and not even_if_useless
    facts = repaired(done, people, limit, within) | {"reproduce": how_asked(context, people), "useless": useless}
    words = console(quiet, color, json)
    receipt = _leave(done, at, out, inputs, keep_blocks) if within and not useless else at.nothing
    facts |= receipt.facts
    if people.dropped:
        facts["remarks"] += (f"left out for a missing value or a class that is not declared: {people.dropped} rows",)
    facts["remarks"] += receipt.remarks
    if keep_blocks and receipt.booked and not receipt.remarks:
        facts["remarks"] += (KEPT,)
    if json is not None:
        write_json(facts, json, inputs=inputs)
    _tell(facts, out, dose, words, receipt)
    return 0 if within and not useless and not receipt.refused else 1


def _shape(shape: str, equalise: bool) -> str | None:
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    if shape not in ("auto", "hessian", "none"):
        raise Refusal(f"--shape {safe_text(shape)}: use auto, hessian or none")
    return None if shape == "none" or (shape == "auto" and equalise) else shape


def _rounds(rounds: int) -> int:
    from dosimeter.core.errors import Refusal

    if not 1 <= rounds <= 1000:
        raise Refusal(f"--rounds {rounds}: give a whole number from 1 to 1000")
    return rounds


def _needs_ledger(at: ReleaseSession) -> None:
    from dosimeter.core.errors import Refusal

    if at.ledger is None:
        raise Refusal(f"--keep-blocks is for a ledger, and this is {at.words}: leave it out")
    if at.dose is not None:
        raise Refusal("--keep-blocks and --dose: a dose file carries no blocks; leave one of the two out")


def _leave(done: TableRelease, at: ReleaseSession, out: Path, inputs: list[Path], keep_blocks: bool) -> BookingOutcome:
    import skops.io as sio

    from dosimeter.workflows.person_doses import of_repair

    return at.leave(sio.dumps(done.model), out, inputs, lambda: of_repair(done, keep_blocks))


def _tell(facts: dict[str, Any], out: Path, dose_file: Path | None, words: Any, receipt: BookingOutcome) -> None:
    from dosimeter.cli.show import gap, number
    from dosimeter.core.text import safe_text

    dose, score = facts["dose"], facts["score"]
    words.print(
        f"{facts['model']['loss']} model of {safe_text(facts['model']['target'])}, noise on {facts['noise_on']}: "
        f"{facts['noise']}"
    )
    words.print(
        f"dose per {facts['unit']} (η, standard deviations): unbounded -> highest {number(dose['highest'])}, "
        f"typical {number(dose['typical'])}"
    )
    words.print(f"highest over typical: {number(dose['spread_before'])} -> {number(dose['spread_after'])}")
    words.print(f"{score['name']} on this table: {score['before']:.3f} -> {score['after']:.3f}")
    _tell_use(facts, words)
    for note in facts["not_covered"]:
        words.print(f"not covered: {safe_text(gap(note), 400)}")
    for note in facts["remarks"]:
        words.print(f"remark: {safe_text(note, 400)}")
    if receipt.refused:
        for line in receipt.lines:
            words.print(line, style="red")
    elif facts["useless"]:
        words.print(
            f"refused: one answer for everybody does better than this model; nothing was written. {WAYS}", style="red"
        )
    elif facts["within"]:
        words.print(f"written: {safe_text(out, 300)} ({receipt.words})")
        if dose_file is not None:
            words.print(f"written: {safe_text(dose_file, 300)} (the dose file, to book it later: internal)")
    else:
        words.print(
            f"refused: the highest dose is above the limit {facts['limit']:g}; nothing was written", style="red"
        )


def _tell_use(facts: dict[str, Any], words: Any) -> None:
    """The kind of noise, and the score on people left out at limits around the asked one, beside the base rate."""
    from dosimeter.cli.show import number
    from dosimeter.core.text import safe_text
    from dosimeter.report.terminal import small

    chosen, found = facts["choice"], facts["held_out"]
    if chosen["prices"]:
        prices = ", ".join(f"{kind} {number(price)}" for kind, price in chosen["prices"].items())
        words.print(f"noise: {chosen['kind']}; expected loss added for each row at this limit: {prices}")
    if found["why"]:
        words.print(f"not scored on people left out: {safe_text(found['why'], 400)}")
        return
    words.print(
        f"{found['name']} on people left out ({found['folds']} folds, expected over the noise): "
        f"{found['without_noise']:.3f} -> {found['score']:.3f}; one answer for everybody {found['base']:.3f}"
    )
    rows = [
        (
            f"{step['limit']:.3g}{' (this one)' if step['limit'] == found['limit'] else ''}",
            "refused" if step["score"] is None else f"{step['score']:.3f}",
            "" if step["score"] is None else ("useless" if step["score"] < found["base"] else ""),
        )
        for step in found["steps"]
    ]
    words.print(small(("limit η", found["name"], ""), rows, left=0))
