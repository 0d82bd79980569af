"""The lattice attack on what a consortium releases, and the same files for neighbouring tables but for their noise.

The attacker knows every row of every site but one cell. At the coordinator noise is drawn once, at the sites once each;
both end in one file of weights or components.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io as sio

from dosimeter.results.consortium import ConsortiumRelease
from dosimeter.results.editions import external
from tests.lattice import NOISED, Guess, attack, contents, no_better_than_chance, repeated, skeleton, statistics
from tests.models.consortium import Consortium, cut
from tests.models.study_parts import run, schema_with

AGES = [*range(20, 95)]
ROWS = (0, 9, 61, 120, 178)
"""Of people with one row, at all three sites."""
EPSILON = {"name": "r1", "epsilon": 2.0, "delta": 1e-6}
KINDS: dict[str, tuple[str, dict[str, Any], str]] = {
    "a fit": ("class", {"loss": "logistic", "l2": 0.01, "release": {"name": "r1", "scale": 0.5}}, "fil=100"),
    "a fit for a limit": (
        "number",
        {"loss": "squared", "l2": 0.01, "release": {"name": "r1", "max-dose": 1.0}},
        "fil=2",
    ),
    "components": ("", {"release": EPSILON, "components": {"components": 2}}, "eps=5@1e-6"),
    "components of noisy sites": (
        "",
        {"release": {**EPSILON, "noise-at": "sites"}, "components": {"components": 2}},
        "eps=5@1e-6",
    ),
    "a regression of noisy sites": (
        "number",
        {"loss": "squared", "l2": 0.01, "release": {**EPSILON, "noise-at": "sites"}},
        "eps=5@1e-6",
    ),
}
SLOW = {"a fit for a limit", "components of noisy sites"}
CHOSEN = {"a fit for a limit"}
"""The scale follows from the data, and the release says that no figure covers the choice."""


def patients(target: str, n: int = 180) -> dict[str, Any]:
    """Whole years; every third person has two rows; sex never changes within a person."""
    rng = np.random.default_rng(5)
    people = np.arange(n) - (np.arange(n) % 3 == 2)
    age, bmi = rng.integers(20, 95, n).astype(float), np.round(rng.uniform(15, 50, n), 1)
    sex = rng.choice(["f", "m", "x"], n)[people]
    m = (age - 59) / 41 + 0.5 * (sex == "m")
    y = {"class": np.where(rng.random(n) < 1 / (1 + np.exp(-m)), "yes", "no"), "number": np.round(3 * m, 1)}
    return {"id": [f"p{k}" for k in people], "age": age, "bmi": bmi, "sex": sex} | ({"y": y[target]} if target else {})


def released(kind: str, rows: dict[str, Any], folder: Path) -> tuple[bytes, Any]:
    target, settings, budget = KINDS[kind]
    folder.mkdir()
    schema = schema_with(target, **settings)
    outcome = run(Consortium(schema, cut(rows), folder, budget), folder)
    assert outcome.artefact
    return outcome.artefact, ConsortiumRelease.of(schema, outcome)


def with_age(rows: dict[str, Any], row: int, age: float) -> dict[str, Any]:
    return rows | {"age": np.where(np.arange(len(rows["age"])) == row, age, rows["age"])}


def guesses(rows: dict[str, Any], row: int) -> list[Guess]:
    """Statistics of the column at all sites, and at the row's own."""
    columns = [with_age(rows, row, age)["age"] for age in AGES]
    site = slice(60 * (row // 60), 60 * (row // 60) + 60)
    return [Guess(np.concatenate([statistics(column), statistics(column[site])])) for column in columns]


def noised(data: bytes) -> bytes:
    """The noised numbers alone: public constants times whole sums are regular for many candidates."""
    held = [np.ravel(v) for place, v in contents(data) if not NOISED.isdisjoint(place.split("/")) and np.size(v) > 0]
    return " ".join(repr(float(v)) for v in np.concatenate([h for h in held if h.dtype.kind == "f"])).encode()


def attacked(data: bytes, rows: dict[str, Any]) -> list[Any]:
    return [attack(noised(data), guesses(rows, row), AGES.index(int(rows["age"][row]))) for row in ROWS]


@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.slow] * (k in SLOW)) for k in KINDS])
def test_the_attack_finds_nothing_in_what_a_consortium_releases(kind, tmp_path):
    rows = patients(KINDS[kind][0])
    draws = [attacked(released(kind, rows, tmp_path / f"{k}")[0], rows) for k in range(3)]
    assert no_better_than_chance([repeated(one) for one in zip(*draws, strict=True)])


def test_the_attack_names_the_cell_where_weights_are_divided_by_a_statistic(tmp_path):
    """The control: the same file, its weights on a grid and then in units of the joint column's deviation."""
    rows = patients("class")
    model = sio.loads(released("a fit", rows, tmp_path / "fit")[0])
    model["model"].coef_ = np.rint(model["model"].coef_ * 2.0**14) / 2.0**14 / rows["age"].std()
    found = attacked(sio.dumps(model), rows)
    assert sum(one.found for one in found) >= len(found) - 1


def changed(rows: dict[str, Any]) -> dict[str, Any]:
    """Another cell, another level, another id, and a declared level that nobody has any more."""
    cell = with_age(rows, 4, 20.0 if rows["age"][4] != 20.0 else 21.0)
    return cell | {"id": ["stranger", *rows["id"][1:]], "sex": np.where(rows["sex"] == "x", "m", rows["sex"])}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in CHOSEN])
def test_neighbouring_tables_give_the_same_file_and_page_but_for_the_noise(kind, tmp_path):
    rows = patients(KINDS[kind][0])
    data, result = released(kind, rows, tmp_path / "base")
    other, theirs = released(kind, changed(rows), tmp_path / "changed")
    assert skeleton(other) == skeleton(data)
    assert external(theirs).to_json() == external(result).to_json()
