"""`dosimeter pca TABLE`: principal components that may leave, within a budget of differential privacy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dosimeter.cli.output import console, write_json
from dosimeter.workflows.booking import DoseFile, Keys, LedgerAt, Name, NoLedger, Note, Override, To

if TYPE_CHECKING:
    from collections.abc import Callable

    from dosimeter.models.component_rows import Rows
    from dosimeter.pca.mechanisms import Mechanism
    from dosimeter.tables.bounds_file import Declared
    from dosimeter.workflows.booking import ReleaseSession
    from dosimeter.workflows.person_doses import BookingRequest

Words = typer.Option
DELTA, FEW = 1e-6, 5
DEMO_EPSILON = 1.0
"""Fixed beforehand. The digits' bounds, 0 to 16, are those of the format."""
NAMES = {
    "analyze-gauss": "AnalyticGauss",
    "laplace": "LaplacePriced",
    "laplace-split": "LaplaceSplit",
    "laplace-joint": "LaplaceJoint",
    "published-analyze-gauss": "AnalyzeGauss",
    "published-laplace-scalar": "LaplaceScalar",
    "published-laplace-vector": "LaplaceVector",
    "published-laplace-advanced": "LaplaceAdvanced",
}
"""analyze-gauss has the analytic scale and the declared relation; the published ones are Table 1 of [Zari22]."""


def pca(
    context: typer.Context,
    table: Annotated[
        Path | None,
        typer.Argument(help="The table: .csv or .parquet. Without it: a demonstration.", show_default=False),
    ] = None,
    epsilon: Annotated[
        float | None, Words("--epsilon", help="ε of the budget: how far one row, or person, may shift any chance.")
    ] = None,
    delta: Annotated[float, Words("--delta", help="δ of the budget; keep it well below 1 over the rows.")] = DELTA,
    bounds: Annotated[
        Path | None, Words("--bounds", help="A .toml file with the public bounds of each column.", show_default=False)
    ] = None,
    not_private: Annotated[
        bool, Words("--not-private", help="Take the bounds from the table; the result says 'not private'.")
    ] = False,
    template: Annotated[bool, Words("--template", help="Print a bounds file to fill in, and stop.")] = False,
    components: Annotated[
        str | None,
        Words("--components", help="How many (5), or a share of the noisy variance (0.9).", show_default=False),
    ] = None,
    mean_share: Annotated[
        float | None,
        Words(
            "--mean-share",
            help="Part of the budget for a noisy mean (0.1); 0: components about the public centre.",
            show_default=False,
        ),
    ] = None,
    mechanism: Annotated[
        str,
        Words("--mechanism", help="analyze-gauss, laplace, laplace-split, laplace-joint (δ = 0), or published-..."),
    ] = "analyze-gauss",
    neighbours: Annotated[
        str | None,
        Words("--neighbours", help="replace-one (the default) or add-or-remove, which needs n in the bounds file."),
    ] = None,
    attack: Annotated[
        bool, Words("--attack", help="Rehearse on halves of the table: who was there, told before and after the noise.")
    ] = False,
    out: Annotated[
        Path | None, Words("--out", help="Where the components go: a .skops file.", show_default=False)
    ] = None,
    person: Annotated[
        str | None, Words("--person", help="The column that says whose row it is; ε is then for a person.")
    ] = None,
    nominal: Annotated[list[str] | None, Words("--nominal", help="A column of codes. May be repeated.")] = None,
    drop: Annotated[list[str] | None, Words("--drop", help="A column to leave out. May be repeated.")] = None,
    missing: Annotated[
        str | None,
        Words(
            "--missing",
            help="drop what a row with a missing value would add (the default with --bounds), or refuse.",
            show_default=False,
        ),
    ] = None,
    delimiter: Annotated[str, Words("--delimiter", help="What separates cells in a .csv.")] = ",",
    ledger: LedgerAt = None,
    keys: Keys = None,
    no_ledger: NoLedger = False,
    name: Name = None,
    to: To = None,
    note: Note = None,
    override: Override = None,
    dose: DoseFile = None,
    json: Annotated[str | None, Words("--json", help="Write the facts as JSON here; - for stdout.")] = None,
    quiet: Annotated[bool, Words("--quiet", "-q", help="No words.")] = False,
    color: Annotated[bool, Words("--color/--no-color", help="Colours in the terminal.")] = True,
) -> int:
    """Release principal components of a table with noise on their second moment, and say what they give away.

    Without a table it shows what it does on digits that ship with scikit-learn.
    """
    from dosimeter.cli.options import check_outputs
    from dosimeter.results.component_facts import tell
    from dosimeter.results.provenance import how_asked

    _check_options(table, out, template, epsilon, bounds, not_private)
    at = _desk(context, table, template, not_private, person)
    inputs = [path for path in (table, bounds, *at.files) if path is not None]
    check_outputs([out, dose, None if json in (None, "-") else Path(str(json))], inputs)
    if table is not None and template:
        return _print_template(table, delimiter, person, drop or [])
    told = None if bounds is None else _read_bounds(bounds, nominal or [])
    gaps = missing or ("refuse" if told is None else "drop")
    rows = _demo() if table is None else _rows(table, told, person, nominal or [], drop or [], (delimiter, gaps))
    budget = (DEMO_EPSILON if epsilon is None else epsilon, delta)
    recipe = _mechanism(mechanism, *budget, _relation(neighbours, rows.declared), mean_share)
    facts, model, given = _made(rows, recipe, mechanism, components, attack or table is None)
    within = facts["private"] is False or facts["guarantee"]["holds"]
    receipt = at.nothing
    if out is not None and within:
        receipt = at.leave(_bytes(model), out, inputs, given)
        facts |= {**receipt.facts, "written": "" if receipt.refused else str(out)}
        facts["remarks"] += receipt.remarks
    facts["reproduce"] = how_asked(context)
    if json is not None:
        write_json(facts, json, inputs=inputs)
    tell(facts, console(quiet, color, json), receipt, demo=table is None, wanted=out is not None)
    return 0 if within and not receipt.refused else 1


def _desk(
    context: typer.Context, table: Path | None, template: bool, open_: bool, person: str | None
) -> ReleaseSession:
    """Where the components are booked: those of a table with public bounds, person by person."""
    from dosimeter.core.errors import Refusal
    from dosimeter.workflows.booking import desk

    at = desk(context, "a demonstration" if table is None else "a template" if template else "")
    at.needs_people(person)
    if at.wanted and open_:
        raise Refusal("--not-private has no guarantee that could be booked: declare --bounds, or pass --no-ledger")
    return at


def _check_options(
    table: Path | None, out: Path | None, template: bool, epsilon: float | None, bounds: Path | None, open_: bool
) -> None:
    from dosimeter.cli.checks import positive
    from dosimeter.core.errors import Refusal
    from dosimeter.pca.calibration import EPSILONS
    from dosimeter.tables.bounds_file import HOW

    if out is not None and out.suffix != ".skops":
        raise Refusal(f"--out {out.name}: the components are a .skops file")
    least, most = EPSILONS
    if epsilon is not None and not least <= positive("--epsilon", epsilon) <= most:
        why = "above it nobody is protected, below it nothing is found"
        raise Refusal(f"--epsilon {epsilon:g}: give a number from {least:g} to {most:g}; {why}")
    if bounds is not None and open_:
        raise Refusal("--bounds and --not-private: with bounds it is private; leave one of the two out")
    if table is None:
        given = [
            name for name, asked in (("--bounds", bounds), ("--not-private", open_), ("--template", template)) if asked
        ]
        if given:
            raise Refusal(f"{given[0]} without a table: name the table first")
        return
    if template:
        return
    if epsilon is None:
        raise Refusal("state a budget: --epsilon 1, say (and --delta, 1e-06 without it)")
    if bounds is None and not open_:
        raise Refusal(f"no --bounds: {HOW}")
    if out is None:
        raise Refusal("--out is missing: name the .skops file where the components go")


def _print_template(table: Path, delimiter: str, person: str | None, drop: list[str]) -> int:
    """To stdout: it is what was asked for. Only names are wanted, so a missing value does not matter."""
    from dosimeter.core.location import Location
    from dosimeter.tables.bounds_file import template
    from dosimeter.tables.read import table_names

    names = table_names(table, delimiter=delimiter)
    Location(table.name).check_known([*drop, *([] if person is None else [person])], names)
    print(template([name for name in names if name != person and name not in drop]), end="")
    return 0


def _read_bounds(path: Path, nominal: list[str]) -> Declared:
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.tables.bounds_file import NumberBounds, read_bounds

    told = read_bounds(path)
    for name in nominal:
        if isinstance(told.columns.get(name), NumberBounds):
            shown = safe_text(name)
            raise Refusal(f"--nominal {shown}: the bounds file declares it a number; give [{shown}] levels = [...]")
    return told


def _rows(
    path: Path, told: Declared | None, person: str | None, nominal: list[str], drop: list[str], how: tuple[str, str]
) -> Rows:
    from dosimeter.cli.options import read
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.models.component_rows import from_table, prepare
    from dosimeter.tables.read import read_column, table_names

    if told is not None and person is not None and person in told.columns:
        raise Refusal(f"--person {safe_text(person)}: the bounds file declares it a column; leave it out there")
    if told is None:
        people = read(path, *how, person, nominal, drop)
        return prepare(people, from_table(people.drop([person] if person else [])), person, drop)
    # Names before values: what is not declared is refused whatever the cells are.
    names = [name for name in table_names(path, delimiter=how[0]) if name not in drop and name != person]
    told.of(names, drop)
    codes = list(dict.fromkeys([*nominal, *(name for name in told.categories if name not in drop)]))
    people = read(path, *how, person, codes, drop, declared=[name for name in names if name not in codes])
    everybody = read_column(path, person, delimiter=how[0]) if person and people.dropped else []
    return prepare(people, told, person, drop, everybody)


def _demo() -> Rows:
    """All 1,797 digits: a pixel runs from 0 to 16 by the format, which is public."""
    from sklearn.datasets import load_digits

    from dosimeter.models.component_rows import prepare
    from dosimeter.tables.bounds_file import Declared, NumberBounds
    from dosimeter.tables.table import Table

    data = load_digits()
    pixels = Table.of({name: data.data[:, j] for j, name in enumerate(data.feature_names)})
    return prepare(pixels, Declared({name: NumberBounds(name, 0.0, 16.0, 8.0) for name in pixels.names}), None)


def _relation(asked: str | None, declared: Declared) -> str:
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.tables.bounds_file import NEIGHBOURS

    if asked is not None and asked not in NEIGHBOURS:
        raise Refusal(f"--neighbours {safe_text(asked)}: use replace-one or add-or-remove")
    relation = NEIGHBOURS[asked] if asked is not None else declared.neighbours or NEIGHBOURS["replace-one"]
    if relation != NEIGHBOURS["replace-one"] and declared.n is None and declared.public:
        why = "hides the number of rows, or of people with --person"
        raise Refusal(f"--neighbours add-or-remove {why}: put a public n = ... into the bounds file")
    return relation


def _mechanism(name: str, epsilon: float, delta: float, relation: str, mean_share: float | None) -> Mechanism:
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.pca import mechanisms
    from dosimeter.pca.calibration import DELTAS
    from dosimeter.pca.sensitivity import REPLACE
    from dosimeter.tables.bounds_file import nearest

    if name not in NAMES:
        raise Refusal(f"--mechanism {safe_text(name)} is not known: {nearest(name, tuple(NAMES))}")
    if delta != 0 and not DELTAS[0] <= delta <= DELTAS[1]:
        raise Refusal(f"--delta {delta:g}: give 0 or a number from {DELTAS[0]:g} to {DELTAS[1]:g}")
    kind = getattr(mechanisms, NAMES[name])
    takes = kind.__dataclass_fields__
    if delta == 0 and name not in ("laplace-joint", "laplace-split") and "delta" in takes:
        raise Refusal(f"--delta 0: {name} needs δ > 0; laplace-joint and laplace-split work with 0")
    given: dict[str, Any] = {"epsilon": epsilon}
    if "delta" in takes:
        given["delta"] = delta
    if "neighbours" in takes:
        given["neighbours"] = relation
    elif relation != REPLACE:
        raise Refusal(f"--mechanism {name} is published for replace-one: leave --neighbours out")
    if "mean_share" in takes:
        given["mean_share"] = mechanisms.MEAN_SHARE if mean_share is None else mean_share
        if not 0 <= given["mean_share"] <= mechanisms.MOST_SHARE:
            raise Refusal(f"--mean-share {mean_share:g}: give a number from 0 to {mechanisms.MOST_SHARE:g}")
    elif mean_share:
        raise Refusal(f"--mechanism {name} is published without a mean: leave --mean-share out")
    made: Mechanism = kind(**given)
    return made


def _count(asked: str | None, d: int) -> int | float:
    """A number of components, or a share of the energy."""
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text

    if asked is None:
        return min(FEW, d)
    try:
        share = float(asked)
    except ValueError:
        share = float("nan")
    if asked.strip().isdigit() and 1 <= int(asked) <= d:
        return int(asked)
    if 0 < share < 1:
        return share
    raise Refusal(f"--components {safe_text(asked)}: give a whole number from 1 to {d}, or a share such as 0.9")


def _made(
    rows: Rows, recipe: Mechanism, name: str, components: str | None, attack: bool
) -> tuple[dict[str, Any], Any, Callable[[], BookingRequest]]:
    """What is to be said of the release, the object that is written, and what it gives each person."""
    from dosimeter.models.component_rows import pipeline
    from dosimeter.pca.release import release
    from dosimeter.pca.utility import rank_for_variance
    from dosimeter.results.component_facts import facts_of, rehearsed
    from dosimeter.workflows.person_doses import of_components

    count = _count(components, rows.X.shape[1])
    public = rows.declared.public
    X, person = rows.given(recipe.relation)
    n = rows.n_public(recipe.relation)
    made = release(X, recipe, bounds=rows.bounds if public else None, person=person, n_samples=n, private=public)
    values = made.components.values
    k = count if isinstance(count, int) else rank_for_variance(values, count) if values.sum() > 0 else 1
    facts = facts_of(rows, made, name, k, None if isinstance(count, int) else count)
    if attack:
        facts["attack"] = rehearsed(rows, recipe, k)
    return facts, pipeline(rows, made, k), lambda: of_components(rows, made, k)


def _bytes(model: Any) -> bytes:
    import skops.io as sio

    data: bytes = sio.dumps(model)
    return data
