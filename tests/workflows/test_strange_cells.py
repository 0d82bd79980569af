"""One cell of a dataframe, of whatever kind, ends no run and moves no message if its column was declared."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pytest

import dosimeter as dm

RNG = np.random.default_rng(2)
N = 60
PEOPLE = {
    "id": [f"p{k // 2}" for k in range(N)],
    "age": RNG.uniform(20, 90, N).round(1).tolist(),
    "ward": RNG.choice(["east", "west"], N).tolist(),
    "ill": RNG.choice(["no", "yes"], N).tolist(),
}
BOUNDS = '[age]\nlower = 0\nupper = 120\n[ward]\nlevels = ["east", "west"]\n'
CELLS = {
    "a word": ("age", "abc"),
    "infinity": ("age", float("inf")),
    "a date": ("age", datetime.date(2020, 1, 1)),
    "a list": ("age", [1, 2]),
    "a decimal": ("age", decimal.Decimal("12.5")),
    "an integer beyond float64": ("age", 10**400),
    "bytes": ("ward", b"east"),
    "a list of labels": ("ward", ["east"]),
    "a label of bytes": ("ill", b"yes"),
}
VERBS = {
    "federate": lambda people, bounds: dm.federate(
        people,
        target="ill",
        unit="patient",
        person="id",
        bounds=bounds,
        classes="no,yes",
        epsilon=8,
        rounds=1,
        clients=40,
    ),
    "fix": lambda people, bounds: dm.fix(
        people, "age", person="id", exclude="ill", bounds=bounds, missing="drop", scale=50.0, even_if_useless=True
    ),
    "components": lambda people, bounds: dm.components(people, person="id", exclude=["ill"], bounds=bounds, epsilon=2),
}


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_strange_cell_of_a_declared_column_is_a_gap(verb, name, tmp_path):
    column, cell = CELLS[name]
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    strange = {**PEOPLE, column: [*PEOPLE[column][:5], cell, *PEOPLE[column][6:]]}
    if column == "ill" and verb != "federate":
        pytest.skip("not read by this verb")
    released, usual = (VERBS[verb](people, tmp_path / "bounds.toml") for people in (strange, PEOPLE))
    assert released.artefact
    assert released.recipe == usual.recipe


@pytest.mark.parametrize("cell", [1e160, 1.7e308])
@pytest.mark.parametrize("engine", ["memory", "blocks"])
def test_a_cell_whose_square_has_no_float64_is_clipped_like_any_other(engine, cell, tmp_path):
    """The report divided by the spread before clipping: it ended in a traceback in blocks, and in a warning here."""
    rng = np.random.default_rng(0)
    ages, costs = rng.normal(50, 10, 30), rng.normal(0, 1, 30)
    bounds = {"age": (0, 120), "cost": (-5, 5)}
    doses = []
    for first in (cell, 120.0):
        path = tmp_path / "people.csv"
        lines = [f"{age!r},{cost!r}" for age, cost in zip([first, *ages[1:].tolist()], costs.tolist(), strict=True)]
        path.write_text("\n".join(["age,cost", *lines]) + "\n")
        leak = dm.measure(path, target="cost", bounds=bounds, noise=dm.Gaussian(1.0), engine=engine, unit="raw")
        result = leak.result(limit=10.0)
        assert result.verdict.within
        assert np.isfinite([column.spread for column in result.columns]).all()
        doses.append(result.dose.highest)
    assert doses[0] == pytest.approx(doses[1], rel=1e-12)


@pytest.mark.parametrize("engine", ["memory", "blocks"])
@pytest.mark.parametrize("verb", ["measure", "fix"])
def test_targets_without_a_fit_are_refused_alike_in_memory_and_in_blocks(verb, engine, tmp_path):
    """Beyond its bounds on every row, so one value; and beyond what has a square. In blocks `fix` had a traceback."""
    rng = np.random.default_rng(0)
    path = tmp_path / "people.csv"
    ages, far = rng.normal(50, 10, 30), rng.normal(0, 1, 30)
    for scale, options, says in (
        (1.0, {"bounds": {"age": (0, 120), "cost": (-5, 5)}}, "one value only, within its bounds"),
        (1e160, {}, "sizes up to 1e\\+60"),
    ):
        rows = zip(ages.tolist(), ((1000 + far) * scale if options else far * scale).tolist(), strict=True)
        path.write_text("\n".join(["age,cost", *(f"{age!r},{cost!r}" for age, cost in rows)]) + "\n")
        call = (
            (lambda o: dm.measure(path, target="cost", engine=engine, noise=dm.Gaussian(1.0), **o))
            if verb == "measure"
            else (lambda o: dm.fix(path, "cost", engine=engine, max_dose=1.0, **o))
        )
        with pytest.raises(dm.Refusal, match=says):
            call(options)
