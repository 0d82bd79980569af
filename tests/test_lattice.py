"""No artefact holds a number computed from the table in exact arithmetic: the lattice attack on all of them.

The attacker knows every row but one cell (or one row) and has the file. Against weights that were rounded on a grid and
folded afterwards the attack names the value; that is the control. Against what is released now it names it no
more often than chance. What is not a noised number is the same in the files of neighbouring tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import skops.io as sio

import dosimeter as dm
from dosimeter.cli.main import run
from dosimeter.core.category import simplex
from dosimeter.estimators import (
    PrivateGammaRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePCA,
    PrivateRidge,
)
from dosimeter.glm.releases.release_planning import plan
from dosimeter.models.fit_table import prepare
from dosimeter.models.given_model_release import release_model
from dosimeter.models.linear_release import release_table
from dosimeter.noise_addition import add_noise
from dosimeter.noise_addition.linear_map import SIGNIFICANT, significant_bits
from dosimeter.tables.learned_encoding import standardised
from dosimeter.tables.sklearn_estimators import linear_model
from dosimeter.tables.sklearn_export import input_order, pipeline
from dosimeter.tables.table import Table
from dosimeter.tables.weight_folding import fold, model_inputs
from tests.lattice import (
    NOISED,
    Guess,
    Outcome,
    attack,
    contents,
    no_better_than_chance,
    numbers_in,
    repeated,
    skeleton,
    statistics,
)

AGES = range(18, 91)
ROWS = (0, 7, 13, 21, 34, 55)


def people(n: int = 60, seed: int = 1) -> dict[str, list]:
    """Whole years, one decimal, three wards, a score and a yes or no."""
    rng = np.random.default_rng(seed)
    age, bmi = rng.integers(18, 91, n), np.round(rng.normal(27, 4, n), 1)
    ward = rng.permutation([("east", "north", "south")[k % 3] for k in range(n)])
    score = np.round(0.4 * age + 1.5 * bmi + 3 * (ward == "east") + rng.normal(0, 6, n), 1)
    ill = np.where(score + rng.normal(0, 8, n) > np.median(score), "yes", "no")
    return {
        "age": age.tolist(), "bmi": bmi.tolist(), "ward": ward.tolist(), "score": score.tolist(), "ill": ill.tolist()
    }  # fmt: skip


def with_cell(table: dict[str, list], row: int, name: str, value) -> dict[str, list]:
    return table | {name: [*table[name][:row], value, *table[name][row + 1 :]]}


def with_row(table: dict[str, list], row: int, values: dict) -> dict[str, list]:
    return {name: [*cells[:row], values[name], *cells[row + 1 :]] for name, cells in table.items()}


def weights_in(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """(weights (K, d), intercepts (K,)) of a file that `fix` wrote, numbers first; K = 1 but for several classes."""
    model = sio.loads(data).steps[-1][1]
    return np.atleast_2d(model.coef_), np.ravel(model.intercept_)


@lru_cache(maxsize=4096)
def column_facts(column: bytes) -> tuple[np.ndarray, float, float]:
    """(statistics, scale, centre) of a column of float64: most attacks try the same candidates."""
    values = np.frombuffer(column)
    source = standardised("", values)
    return statistics(values), source.scale, source.centre


def guess(table: Mapping[str, Any], columns: Sequence[str], file: tuple[Any, Any], numbers=("age", "bmi")):
    """The candidate table's statistics, and the file's weights were they folded by its scaler."""
    coef, intercept = file
    facts = {name: column_facts(np.asarray(table[name], dtype=float).tobytes()) for name in {*columns, *numbers}}
    found = np.concatenate([facts[name][0] for name in columns])
    v = coef[:, : len(numbers)]
    scale, centre = (np.array([facts[name][part] for name in numbers]) for part in (1, 2))
    terms = np.abs(np.column_stack([v * centre, intercept])).max(axis=1)
    unfolded = (v * scale).ravel()
    return Guess(found, np.append(unfolded, intercept + v @ centre), np.append(np.abs(unfolded), terms))


def attacked_cells(data: bytes, table: dict[str, list], rows=ROWS, name="age"):
    """One file, the cell of each of some rows in turn unknown."""
    file, found = weights_in(data), []
    for row in rows:
        values = [*AGES] if name == "age" else sorted({*np.round(np.arange(15, 40, 0.4), 1), table[name][row]})
        guesses = [guess(with_cell(table, row, name, value), [name], file) for value in values]
        found.append(attack(data, guesses, values.index(table[name][row])))
    return found


def attacked_row(data: bytes, table: dict[str, list], row: int = 5):
    """One file, a whole row unknown among sixty."""
    file, others = weights_in(data), people(60, 99)
    candidates = [{name: others[name][k] for name in others} for k in range(60)]
    candidates[11] = {name: table[name][row] for name in table}
    guesses = [guess(with_row(table, row, one), ["age", "bmi"], file) for one in candidates]
    return attack(data, guesses, 11)


# What `fix` writes ---------------------------------------------------------------------------------------------------

KINDS = {
    "gaussian": {"law": dm.Gaussian},
    "laplace": {"law": dm.Laplace},
    "equalised": {"reweighting_rounds": 2},
    "shaped": {"noise_shape": "hessian"},
}
KINDS_AND_TARGETS = [(kind, "score") for kind in KINDS] + [(kind, "ill") for kind in KINDS if kind != "shaped"]
"""Shaped noise is for squared loss."""
TARGETS = {"score": ("ill",), "ill": ("score",), "income": (), "ward": ("ill", "score")}


def exported(columns, loss, coef: np.ndarray, intercept: Any, classes) -> Any:
    """The pipeline that `fix` makes of weights in the order of `fold`."""
    return pipeline(columns, linear_model(loss, coef[..., input_order(columns)], intercept, classes))


def fixed(scale: float, table: dict[str, list], target: str = "score", **how) -> list[bytes]:
    """Three files that `fix` would write of one table: its own, and two more draws of the same plan."""
    done = release_table(Table.of(table).drop(TARGETS[target]), target, scale=scale, l2=0.01, **how)
    ready, files = done.ready, [sio.dumps(done.model)]
    for _ in range(2):
        drawn = done.plan.draw(rows=fold(ready.columns)).values
        several = drawn["coef"].ndim > 1
        offset = drawn["intercept"] if several else float(drawn["intercept"][0])
        files.append(sio.dumps(exported(ready.columns, ready.loss, drawn["coef"], offset, ready.classes)))
    return files


def naively_fixed(scale: float, target: str = "score", grid: float | None = None, **how):
    """The control: weights drawn on a grid, then divided by the scaler's constants in float64."""

    def made(table: dict[str, list]) -> bytes:
        given = Table.of(table).drop(TARGETS[target])
        ready = prepare(given, target)
        planned = plan(ready.design.X, ready.y, ready.loss, 0.01, scale=scale, intercept=True, **how)
        if grid is None:
            drawn = planned.draw().values
            w = np.concatenate([drawn["coef"], drawn["intercept"]])
        else:
            w = grid * np.rint((planned.fit.w + np.random.default_rng(1).normal(0, scale, len(planned.fit.w))) / grid)
        columns, d = ready.columns, len(ready.columns.names)
        coef = w[:d] / columns.scale
        offset = float(w[d] - coef @ columns.centre)
        order = [j for name in ("age", "bmi") for j in columns.block(name)]
        levels = simplex(3) @ w[list(columns.block("ward"))]
        classes = np.array(["no", "yes"]) if target == "ill" else None
        return sio.dumps(exported(columns, ready.loss, np.concatenate([coef[order], levels]), offset, classes))

    return made


@pytest.mark.parametrize(("kind", "target"), KINDS_AND_TARGETS)
@pytest.mark.parametrize("scale", [0.01, 0.5, 20.0])
def test_the_attack_names_the_cell_where_a_grid_was_folded(kind, target, scale):
    data = naively_fixed(scale, target, **KINDS[kind])(people())
    found = attacked_cells(data, people())
    assert sum(one.found for one in found) >= len(found) - 1
    assert attacked_row(data, people()).found


@pytest.mark.parametrize("grid", [np.pi * 1e-5, 1e-4 / np.sqrt(7), 2.0**-14])
def test_the_attack_needs_no_word_of_the_grid(grid):
    """Neither its width nor that it is a power of two."""
    found = attacked_cells(naively_fixed(0.5, grid=grid)(people()), people())
    assert sum(one.found for one in found) >= len(found) - 1


@pytest.mark.parametrize(("kind", "target"), KINDS_AND_TARGETS)
@pytest.mark.parametrize("scale", [0.01, 0.5, 20.0])
def test_the_attack_finds_nothing_in_what_fix_writes(kind, target, scale):
    draws = []
    for data in fixed(scale, people(), target, **KINDS[kind]):
        found = attacked_cells(data, people())
        found += attacked_cells(data, people(), rows=(3, 30), name="bmi")
        draws.append([*found, *(attacked_row(data, people(), row) for row in (5, 40))])
    assert no_better_than_chance([repeated(one) for one in zip(*draws, strict=True)])


@pytest.mark.parametrize("target", ["score", "ill"])
def test_the_attack_finds_nothing_in_what_fix_writes_of_a_table_in_blocks(target, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(people()), tmp_path / "people.parquet", row_group_size=16)
    options = {"exclude": TARGETS[target], "scale": 0.5, "l2": 0.01, "even_if_useless": True, "engine": "blocks"}
    draws = []
    for _ in range(3):
        data = dm.fix(tmp_path / "people.parquet", target, **options).artefact
        found = attacked_cells(data, people())
        draws.append([*found, *(attacked_row(data, people(), row) for row in (5, 40))])
    assert no_better_than_chance([repeated(one) for one in zip(*draws, strict=True)])


OTHER_LOSSES = {"several classes": ("ward", {}), "gamma": ("score", {"loss": "gamma"})}
"""Name -> the target and the options of a release of another loss."""


@pytest.mark.parametrize("law", [dm.Gaussian, dm.Laplace], ids=lambda law: law.__name__)
@pytest.mark.parametrize("name", OTHER_LOSSES)
def test_the_attack_finds_nothing_in_other_losses(name, law):
    target, how = OTHER_LOSSES[name]
    draws = []
    for data in fixed(0.5, people(), target, law=law, **how):
        found = attacked_cells(data, people())
        found += attacked_cells(data, people(), rows=(3, 30), name="bmi")
        draws.append([*found, *(attacked_row(data, people(), row) for row in (5, 40))])
    assert no_better_than_chance([repeated(one) for one in zip(*draws, strict=True)])


def test_the_attack_names_the_cell_where_the_rows_of_several_classes_were_folded_on_a_grid():
    """The control: the weights of each class on a grid, then divided by the scaler's constants in float64."""
    ready = prepare(Table.of(people()).drop(TARGETS["ward"]), "ward")
    fit, columns = ready.fit(0.01), ready.columns
    W = (fit.w @ fit.loss.contrast.T).T
    W = 2.0**-14 * np.rint((W + np.random.default_rng(1).normal(0, 0.5, W.shape)) * 2.0**14)
    order = [j for name in ("age", "bmi") for j in columns.block(name)]
    coef = W[:, :-1] / columns.scale
    offset = W[:, -1] - coef @ columns.centre
    data = sio.dumps(exported(columns, ready.loss, coef[:, order], offset, ready.classes))
    found = attacked_cells(data, people())
    assert sum(one.found for one in found) >= len(found) - 1
    assert attacked_row(data, people()).found


@pytest.mark.parametrize("name", OTHER_LOSSES)
def test_every_noised_number_of_other_losses_has_forty_bits(name):
    target, how = OTHER_LOSSES[name]
    held = contents(fixed(0.5, people(), target, **how)[0])
    numbers = np.concatenate([np.ravel(v) for place, v in held if place.split("/")[-1] in NOISED]).astype(float)
    assert len(numbers) == (1 + 3 * 3 if target == "ward" else 1 + 6)  # with the number of iterations
    assert significant_bits(numbers).max() <= SIGNIFICANT


@pytest.mark.parametrize("scale", [0.01, 0.5, 20.0])
def test_the_attack_finds_nothing_in_a_given_model_that_was_repaired(scale):
    """A pipeline of the user's own, its scaler folded into the noised weights: `fix --model`."""
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    table = people()
    frame = pd.DataFrame(table)[["age", "bmi", "ward"]]
    steps = make_column_transformer((StandardScaler(), ["age", "bmi"]), (OneHotEncoder(drop="first"), ["ward"]))
    model = make_pipeline(steps, Ridge()).fit(frame, table["score"])
    draws = []
    for _ in range(3):
        done = release_model(model, Table.of(table).drop(TARGETS["score"]), "score", scale=scale)
        data = sio.dumps(done.model)
        found = attacked_cells(data, table)
        found += attacked_cells(data, table, rows=(3, 30), name="bmi")
        draws.append([*found, *(attacked_row(data, table, row) for row in (5, 40))])
    assert no_better_than_chance([repeated(one) for one in zip(*draws, strict=True)])


def test_no_better_than_chance_is_refused_to_an_attack_that_succeeds():
    found = attacked_cells(naively_fixed(0.5)(people()), people())
    assert not no_better_than_chance(found)


@pytest.mark.parametrize("kind", KINDS)
def test_every_noised_number_that_fix_writes_has_forty_bits(kind):
    held = [
        np.ravel(v) for place, v in contents(fixed(0.5, people(), **KINDS[kind])[0]) if place.split("/")[-1] in NOISED
    ]
    numbers = np.concatenate(held).astype(float)
    assert len(numbers) == 6
    assert significant_bits(numbers).max() <= SIGNIFICANT
    old = [np.ravel(v) for place, v in contents(naively_fixed(0.5)(people())) if place.split("/")[-1] in NOISED]
    assert significant_bits(np.concatenate(old).astype(float)).max() > SIGNIFICANT


def test_census_incomes(papers_data):
    """Adult: 4,000 people, three columns; before, the true value was the only survivor for nearly everybody."""
    from dosimeter.datasets import papers

    names, X = papers.adult_codes(papers_data)
    rng = np.random.default_rng(0)
    X = X[rng.choice(len(X), 4000, replace=False)]
    numbers = ("age", "education-num", "hours-per-week")
    place = [[name.replace("_", "-") for name in names].index(name) for name in numbers]
    table = {name: X[:, j].tolist() for name, j in zip(numbers, place, strict=True)}
    table["income"] = np.round(table["age"] + rng.normal(0, 10, 4000), 1).tolist()
    release = release_table(Table.of(table), "income", scale=0.5, l2=0.01)
    columns = release.ready.columns
    grid = add_noise(release.plan.fit.w, release.plan.noise)
    coef = grid[:3] / columns.scale
    old = sio.dumps(exported(columns, release.ready.loss, coef, float(grid[3] - coef @ columns.centre), None))
    before, after = [], []
    held = {data: weights_in(data) for data in (old, *fixed(0.5, table, "income"))}
    known = {name: np.array(table[name]) for name in numbers}
    for row in range(0, 4000, 400):
        for name in numbers:
            values = sorted(set(table[name]))
            candidates = [known | {name: np.where(np.arange(4000) == row, v, known[name])} for v in values]
            true = values.index(table[name][row])
            outcomes = [
                attack(data, [guess(one, [name], held[data], numbers) for one in candidates], true) for data in held
            ]
            before.append(outcomes[0])
            after.append(repeated(outcomes[1:]))
    assert np.mean([one.found for one in before]) > 0.9
    assert no_better_than_chance(after)


# The map itself ------------------------------------------------------------------------------------------------------


BOUNDS = {"age": (20, 80), "bmi": (15, 45), "ward": ["east", "north"], "score": (0, 200)}


@pytest.mark.parametrize("bounds", [None, BOUNDS, {**BOUNDS, "ward": ["attic", "east", "north", "south"]}])
def test_the_fold_is_the_margin_in_the_columns_own_units(bounds):
    """Exact weights through the rows give the margin of the design, by `raw` and by the Pipeline itself."""
    import pandas as pd

    table = people()
    ready = prepare(Table.of(table).drop(("ill",)), "score", bounds=bounds)
    w = ready.fit(0.01).w
    exact = np.array([float(sum(a * Fraction(float(w[j])) for j, a in row.items())) for row in fold(ready.columns)])
    margin = ready.design.X @ w[:-1] + w[-1]
    np.testing.assert_allclose(model_inputs(ready.columns, Table.of(table)) @ exact[:-1] + exact[-1], margin, rtol=1e-9)
    model = exported(ready.columns, ready.loss, exact[:-1], exact[-1], None)
    np.testing.assert_allclose(model.predict(pd.DataFrame(table)), margin, rtol=1e-9)


def test_a_level_never_seen_counts_as_the_mean_of_those_that_were():
    import warnings

    import pandas as pd

    table = people()
    done = release_table(Table.of(table).drop(("ill",)), "score", scale=0.01, l2=0.01)
    frame = pd.DataFrame(table).drop(columns=["ill", "score"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = [done.model.predict(frame.assign(ward=ward)) for ward in ("east", "north", "south")]
        unseen = done.model.predict(frame.assign(ward="moon"))
    np.testing.assert_allclose(unseen, np.mean(known, axis=0), rtol=1e-9)
    assert np.ptp(known, axis=0).min() > 0.1
    np.testing.assert_array_equal(done.model.predict(frame[frame.columns[::-1]]), done.model.predict(frame))


def test_a_column_far_from_zero_is_refused_rather_than_predicted_wrongly():
    table = people() | {"stamp": [1e12 + k for k in range(60)]}
    with pytest.raises(dm.Refusal, match=r"stamp varies by .* subtract a fixed number"):
        release_table(Table.of(table).drop(("ill",)), "score", scale=0.5, l2=0.01)


# Every other artefact ------------------------------------------------------------------------------------------------


def matrix(table: dict[str, list], target: str = "score") -> tuple[np.ndarray, np.ndarray]:
    X = np.column_stack([np.array(table[name], dtype=float) for name in ("age", "bmi")])
    return X, np.array(table[target], dtype=float if target == "score" else None)


def estimator(model, target: str = "score", released: bool = False):
    def made(table: dict[str, list]) -> bytes:
        fitted = model.fit(*matrix(table, target))
        if released:
            return sio.dumps(fitted.released_)
        kept = fitted.__getstate__()
        release = kept.pop("release_")
        kept.pop("dose_", None)
        return sio.dumps([kept, dict(release.values), dict(release.recipe.settings), release.recipe.noise])

    return made


def written(words: str, name: str):
    """The bytes of a file that a verb writes."""

    def made(table: dict[str, list], folder) -> bytes:
        n = len(table["age"])
        given = table | {"id": [f"p{k}" for k in range(n)], "site": [f"s{k % 12}" for k in range(n)]}
        lines = [",".join(given), *(",".join(map(str, row)) for row in zip(*given.values(), strict=True))]
        (folder / "table.csv").write_text("\n".join(lines) + "\n")
        (folder / "public.csv").write_text("age,bmi,ward\n" + "".join(
            f"{20 + 3 * k},{20 + k % 17},{('east', 'north', 'south')[k % 3]}\n" for k in range(20)))  # fmt: skip
        (folder / "bounds.toml").write_text(
            "[age]\nlower = 0\nupper = 100\n[bmi]\nlower = 10\nupper = 50\n"
            '[ward]\nlevels = ["east", "north", "south"]\n'
        )
        out = folder / name
        out.unlink(missing_ok=True)
        assert run([*words.format(folder=folder, out=out).split(), "-q"]) == 0
        return out.read_bytes()

    return made


ESTIMATORS = {
    "linear regression": estimator(PrivateLinearRegression(scale=0.5, max_dose=None)),
    "ridge, chosen noise": estimator(PrivateRidge(max_dose=1.0)),
    "ridge, shaped": estimator(PrivateRidge(scale=0.5, max_dose=None, noise_shape="hessian")),
    "ridge, released": estimator(PrivateRidge(scale=0.5, max_dose=None, noise="laplace"), released=True),
    "logistic": estimator(PrivateLogisticRegression(scale=0.5, max_dose=None), "ill"),
    "several classes": estimator(PrivateLogisticRegression(scale=0.5, max_dose=None), "ward"),
    "several classes, released": estimator(PrivateLogisticRegression(scale=0.5, max_dose=None), "ward", released=True),
    "gamma, released": estimator(PrivateGammaRegressor(scale=0.5, max_dose=None), released=True),
    "components": estimator(PrivatePCA(2, epsilon=2.0, lower=[0, 10], upper=[100, 50])),
    "components, released": estimator(PrivatePCA(2, epsilon=2.0, lower=[0, 10], upper=[100, 50]), released=True),
}
ALWAYS = "{folder}/table.csv --exclude site"
FILES = {
    "fix": written(f"fix {ALWAYS} --exclude ill --target score --person id --scale 2 --out {{out}}", "m.skops"),
    "fix logistic": written(
        f"fix {ALWAYS} --exclude score --target ill --person id --max-dose 5 --out {{out}}", "m.skops"
    ),
    "fix softmax": written(
        f"fix {ALWAYS} --exclude score --exclude ill --target ward --person id --scale 2 --even-if-useless "
        "--out {out}",
        "m.skops",
    ),
    "fix gamma": written(
        f"fix {ALWAYS} --exclude ill --target score --loss gamma --person id --scale 0.1 --even-if-useless "
        "--out {out}",
        "m.skops",
    ),
    "pca": written(
        f"pca {ALWAYS} --exclude ill --exclude score --person id --bounds {{folder}}/bounds.toml --epsilon 2 "
        "--out {out}",
        "m.skops",
    ),
    "labels": written(
        f"pate {ALWAYS} --exclude score --target ill --person id --public {{folder}}/public.csv --classes no,yes "
        "--teachers 5 --scale 3 --out {out}",
        "labels.csv",
    ),
    "student": written(
        f"pate {ALWAYS} --exclude score --target ill --person id --public {{folder}}/public.csv --classes no,yes "
        "--teachers 5 --scale 0.5 --out {folder}/l.csv --student {out}",
        "m.skops",
    ),
    "federate": written(
        "federate --table {folder}/table.csv --exclude id --exclude score --target ill --client site --clients 12 "
        "--classes no,yes --bounds {folder}/bounds.toml --epsilon 8 --rounds 2 --epochs 1 --out {out}",
        "m.safetensors",
    ),
    "federate patients": written(
        "federate --table {folder}/table.csv --exclude score --target ill --unit patient --person id --site site "
        "--clients 60 --classes no,yes --bounds {folder}/bounds.toml --epsilon 8 --delta 1e-4 --rounds 2 --out {out}",
        "m.skops",
    ),
}  # fmt: skip


def facts_of(table: dict[str, list], row: int) -> list[Guess]:
    columns = ("age",)
    return [
        Guess(np.concatenate([statistics(np.array(with_cell(table, row, "age", v)[c], dtype=float)) for c in columns]))
        for v in AGES
    ]


def attacked(files: list[bytes], table: dict[str, list]) -> list[Outcome]:
    """The cells of ten rows, each unknown in turn, in files of one table with noise of their own."""
    guesses = {row: facts_of(table, row) for row in range(0, 60, 6)}
    draws = [[attack(data, guesses[row], AGES.index(table["age"][row])) for data in files] for row in guesses]
    return [repeated(one) for one in draws]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_attack_finds_nothing_in_estimators(name):
    files = [ESTIMATORS[name](people()) for _ in range(3)]
    assert all(len(numbers_in(data)) for data in files)
    assert no_better_than_chance(attacked(files, people()))


@pytest.mark.parametrize("name", FILES)
def test_the_attack_finds_nothing_in_files(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = [FILES[name](people(), tmp_path) for _ in range(3)]
    assert all(len(numbers_in(data)) for data in files) or name == "labels"
    assert no_better_than_chance(attacked(files, people()))


@pytest.mark.parametrize("statistic", ["mean", "std", "var"])
def test_the_attack_finds_a_statistic_that_stands_in_a_file(statistic):
    """The control for files without weights of ours: one exact number beside the noised ones is enough."""
    table = people()
    model = PrivatePCA(2, epsilon=2.0, lower=[0, 10], upper=[100, 50]).fit(matrix(table)[0]).released_
    model.noise_variance_ = float(getattr(np.array(table["age"], dtype=float), statistic)())
    found = attacked([sio.dumps(model)] * 3, table)
    assert sum(one.found for one in found) >= 9
    assert not no_better_than_chance(found)


NEIGHBOURS = {
    "another cell": lambda table: with_cell(table, 4, "age", 19 if table["age"][4] != 19 else 20),
    "another person": lambda table: with_row(
        table, 9, {"age": 77, "bmi": 31.5, "ward": "south", "score": 60.5, "ill": "yes"}
    ),
    "a row less": lambda table: {name: cells[:-1] for name, cells in table.items()},
}
COUNTED = {"pca", "components", "components, released"}
"""There the number of rows is public by the relation: neighbours replace a row."""


CHOSEN = {"ridge, chosen noise"}
"""The scale follows from the data, and the release says that no figure covers the choice."""


@pytest.mark.parametrize("name", [name for name in (*ESTIMATORS, *FILES) if name not in CHOSEN])
def test_neighbouring_tables_give_the_same_file_but_for_its_noise(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = ESTIMATORS[name] if name in ESTIMATORS else lambda table: FILES[name](table, tmp_path)
    base = people()
    first = skeleton(made(base))
    for kind, change in NEIGHBOURS.items():
        if kind == "a row less" and name in COUNTED:
            continue
        other = skeleton(made(change(base)))
        if name == "labels":
            continue
        assert [pair for pair in zip(first, other, strict=True) if pair[0] != pair[1]] == []


def test_what_the_form_of_a_file_tells_is_named():
    """A level that one person alone has, and a column that is constant but for one person, change the file's form."""
    table = people() | {"flag": [0.5] * 59 + [1.25]}
    odd = with_cell(table, 3, "ward", "attic")
    done = release_table(Table.of(odd).drop(("ill",)), "score", scale=0.5, l2=0.01)
    told = " ".join(done.not_covered)
    assert "levels of ward" in told
    assert "which columns vary" in told
    bounds = {"age": (0, 100), "bmi": (10, 60), "flag": (0, 2), "ward": ["attic", "east"], "score": (0, 200)}
    assert release_table(Table.of(odd).drop(("ill",)), "score", scale=0.5, l2=0.01, bounds=bounds).not_covered == ()


# Exact relations between released numbers -----------------------------------------------------------------------------


def relations(draws: list[np.ndarray]) -> np.ndarray:
    """(q, q) the projection on the linear relations that all draws satisfy: what no noise hides, whatever its scale."""
    D = np.array(draws) / np.abs(draws).max(axis=0)
    _, values, vectors = np.linalg.svd(D / np.linalg.norm(D, axis=1, keepdims=True))
    exact = vectors[np.append(values, np.zeros(len(vectors)))[: len(vectors)] < 1e-7 * values[0]]
    exact = exact / np.abs(draws).max(axis=0)
    q, _ = np.linalg.qr(exact.T)
    return q @ q.T


def given_models() -> dict[str, Any]:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    def steps(drop):
        return make_column_transformer((StandardScaler(), ["age", "bmi"]), (OneHotEncoder(drop=drop), ["ward"]))

    return {
        "ridge": (lambda: make_pipeline(steps("first"), Ridge()), "score"),
        "ridge of scaled levels": (lambda: make_pipeline(steps(None), StandardScaler(), Ridge()), "score"),
        "penalised intercept": (lambda: make_pipeline(steps("first"), LogisticRegression(solver="liblinear")), "ill"),
    }


@pytest.mark.parametrize("name", ["gaussian", "equalised", "shaped", *given_models()])
def test_an_exact_relation_between_released_numbers_is_the_same_for_a_neighbouring_table(name):
    """The weights of a category sum to zero, by design. A relation that one row moves would reveal that row."""
    import pandas as pd

    def released(table: dict[str, list]) -> np.ndarray:
        draws = []
        if name in KINDS:
            done = release_table(Table.of(table).drop(TARGETS["score"]), "score", scale=5.0, l2=0.01, **KINDS[name])
            for _ in range(8):
                values = done.plan.draw(rows=fold(done.ready.columns)).values
                draws.append(np.append(values["coef"], values["intercept"]))
        else:
            make, target = given_models()[name]
            frame = pd.DataFrame(table)[["age", "bmi", "ward"]]
            model = make().fit(frame, table[target])
            for _ in range(8):
                done = release_model(model, Table.of(table).drop(TARGETS[target]), target, scale=5.0)
                draws.append(np.append(*(np.ravel(part) for part in weights_in(sio.dumps(done.model)))))
        return relations(draws)

    base = released(people())
    assert np.trace(base) == pytest.approx(1.0)
    oldest = int(np.argmax(people()["age"]))
    np.testing.assert_allclose(released(with_cell(people(), oldest, "age", 120)), base, atol=1e-6)


def test_the_comparison_of_relations_sees_a_model_folded_without_an_intercept():
    """The control: R₀ = Σ c_f R_f with the columns' centres c, which the oldest moves."""
    rng, found = np.random.default_rng(0), []
    for table in (people(), with_cell(people(), 3, "age", 120)):
        X = np.array([table["age"], table["bmi"]], dtype=float)
        noised = rng.normal(0, 5, (12, 2)) / X.std(axis=1)
        found.append(relations([np.append(w, -w @ X.mean(axis=1)) for w in noised]))
    assert np.trace(found[0]) == pytest.approx(1.0)
    assert np.abs(found[0] - found[1]).max() > 1e-6
