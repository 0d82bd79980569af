"""Persons, groups and tied columns against the dense stacked Jacobian; the sentences against the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dosimeter as dm
from dosimeter.models.table_leakage import TableLeakage

RNG = np.random.default_rng(8)
PERSON = np.array([4, 4, 4, 1, 1, 9, 9, 9, 9, 0, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17] * 2)[:40]
PERSON[24:] += 100
N = len(PERSON)
FIXED = dict(zip(np.unique(PERSON).tolist(), RNG.normal(50, 10, 99).tolist(), strict=False))
SEX = dict(zip(np.unique(PERSON).tolist(), RNG.choice(["f", "m", "x"], 99).tolist(), strict=False))
FRAME = pd.DataFrame(
    {
        "id": PERSON,
        "height": [FIXED[p] for p in PERSON],
        "sex": [SEX[p] for p in PERSON],
        "pulse": RNG.normal(70, 8, N),
        "site": RNG.choice(["north", "south"], N),
    },
    index=RNG.permutation(N),
)
NUMBER = (FRAME["height"] / 10 + FRAME["pulse"] / 8 + RNG.normal(size=N)).to_numpy()
CLASS = np.digitize(NUMBER, np.quantile(NUMBER, [0.3, 0.7]))
STEPS = make_column_transformer((StandardScaler(), ["height", "pulse"]), (OneHotEncoder(), ["sex"]))
NEWTON = {"solver": "newton-cholesky", "tol": 1e-13}
MODELS = {
    "squared": (make_pipeline(STEPS, Ridge(alpha=1.0)).fit(FRAME, NUMBER), NUMBER),
    "logistic": (make_pipeline(STEPS, LogisticRegression(**NEWTON)).fit(FRAME, CLASS > 0), CLASS > 0),
    "softmax": (make_pipeline(STEPS, LogisticRegression(**NEWTON)).fit(FRAME, CLASS), CLASS),
}
TIED = ["height", "sex"]


def measured(name: str, **options: Any) -> TableLeakage:
    """`tied` and no other column, whatever never changes within a person."""
    model, y = MODELS[name]
    free = [
        column for column in TIED if column not in options.get("tied", ()) and options.get("person", "id") is not None
    ]
    return dm.measure(model, FRAME, y, **{"noise": dm.Gaussian(0.3), "person": "id", "not_tied": free, **options})


def stacked(leak: TableLeakage, rows: Any, tied: tuple[str, ...], columns: Any = None, label: bool = True) -> float:
    """||J|| of some rows written out, the tied unknowns of one person added up first."""
    J = leak.leak.jacobian.dense(slice(None))
    m = leak.leak.m
    chosen = list(range(m)) if columns is None else [j for name in columns for j in leak.design.blocks[name]]
    bound = {j for name in tied for j in leak.design.blocks[name]}
    parts = []
    for person in dict.fromkeys(PERSON[rows]):
        mine = [r for r in rows if PERSON[r] == person]
        for j in chosen:
            column = J[mine][:, :, j]
            parts.extend([column.sum(axis=0)] if j in bound else list(column))
        if label:
            parts.extend(part for r in mine for part in J[r, :, m:].T)
    return float(np.linalg.norm(np.array(parts), 2))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("tied", [(), TIED], ids=["free", "tied"])
def test_a_person_is_all_their_rows_together(name: str, tied: Any) -> None:
    leak = measured(name, tied=tied)
    assert list(leak.persons) == list(dict.fromkeys(PERSON.tolist()))
    for person, eta in leak.persons.items():
        rows = np.flatnonzero(person == PERSON)
        assert eta == pytest.approx(stacked(leak, rows, tuple(tied)), rel=1e-8)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("tied", [(), TIED], ids=["free", "tied"])
def test_groups_columns_and_the_whole_table_count_a_tied_value_once(name: str, tied: Any) -> None:
    leak, every = measured(name, tied=tied), np.arange(N)
    assert leak.dataset == pytest.approx(stacked(leak, every, tuple(tied)), rel=1e-8)
    for site, eta in leak.group("site").items():
        rows = np.flatnonzero(FRAME["site"].to_numpy() == site)
        assert eta == pytest.approx(stacked(leak, rows, tuple(tied)), rel=1e-8)
    for column in ("height", "sex", "pulse"):
        dense = stacked(leak, every, tuple(tied), [column], label=False)
        assert leak.attributes[column] == pytest.approx(dense, rel=1e-8)
    assert leak.group(FRAME["site"]) == leak.group("site")


@pytest.mark.parametrize("name", MODELS)
def test_a_cell_of_a_tied_column_is_the_persons_value(name: str) -> None:
    leak = measured(name, tied=TIED)
    for row in (0, 7, 11):
        mine = np.flatnonzero(PERSON[row] == PERSON)
        dense = stacked(leak, mine, tuple(TIED), ["height"], label=False)
        assert leak.cells["height"].iloc[row] == pytest.approx(dense, rel=1e-7)
        V = leak.design.vertices["sex"]
        J = leak.leak.jacobian.dense(mine)[:, :, list(leak.design.blocks["sex"])].sum(axis=0)
        steps = [np.linalg.norm(J @ (V[a] - V[b])) for a in range(len(V)) for b in range(a)]
        assert leak.cells["sex"].iloc[row] == pytest.approx(max(steps), rel=1e-9)
        assert leak.cells["pulse"].iloc[row] == pytest.approx(measured(name).cells["pulse"].iloc[row])


@pytest.mark.parametrize("name", MODELS)
def test_several_columns_of_a_row_count_its_own_cells_and_the_persons_tied_ones(name: str) -> None:
    leak, row = measured(name, tied=["height"]), 6
    J = leak.leak.jacobian.dense(slice(None))
    (height,), (pulse,) = leak.design.blocks["height"], leak.design.blocks["pulse"]
    shared = J[PERSON[row] == PERSON][:, :, height].sum(axis=0)
    dense = np.linalg.norm(np.column_stack([shared, J[row, :, pulse]]), 2)
    assert leak.attribute(["height", "pulse"]).iloc[row] == pytest.approx(dense, rel=1e-8)


def test_tied_columns_can_only_raise_the_figure_of_a_value_that_all_rows_push_alike() -> None:
    free, tied = measured("squared"), measured("squared", tied=TIED)
    assert max(tied.persons[p] / free.persons[p] for p in tied.persons) > 1.05


def test_a_dose_carries_its_unit_its_standing_and_what_it_leaves_out() -> None:
    leak = measured("logistic", unit="sd")
    dose = leak.dose()
    assert dose.unit == "person"
    assert dose.ids == tuple(leak.persons)
    np.testing.assert_allclose(dose.figures, list(leak.persons.values()))
    assert dose.measured_in == "standard deviations"
    assert dose.not_covered == leak.not_covered
    assert len(dose.not_covered) == 2
    assert measured("logistic", person=None).dose().unit == "example"


def test_persons_are_refused_where_none_was_named() -> None:
    with pytest.raises(dm.Refusal, match="person="):
        _ = measured("squared", person=None).persons


def test_names_that_the_model_does_not_have_are_refused_with_the_nearest() -> None:
    with pytest.raises(dm.Refusal, match="did you mean pulse"):
        measured("squared").attribute("puls")


def test_a_sentence_names_the_attackers_knowledge_and_the_columns_own_unit() -> None:
    for unit in ("raw", "sd"):
        leak = measured("squared", unit=unit)
        row = 5
        least = leak.deviations["pulse"].iloc[row]
        assert leak.sentence(row, "pulse") == (
            "No one who knows everything else in the table and guesses without bias can pin `pulse` of row "
            f"{row} (counted from 0) closer than ±{least:.2g} (standard deviation, in the column's own unit)."
        )


def test_no_unbiased_guess_beats_the_sentence() -> None:
    """The maximum-likelihood guess of one cell from many noised releases, everything else known."""
    model, y = MODELS["squared"]
    sigma, row = 1e-4, 5
    leak = dm.measure(model, FRAME, y, noise=dm.Gaussian(sigma))
    J = leak.leak.jacobian.dense(np.array([row]))[0][:, leak.design.blocks["pulse"][0]] * sigma
    noise = RNG.normal(size=(4000, len(J))) * sigma
    guesses = noise @ J / (J @ J)
    assert guesses.std() == pytest.approx(leak.deviations["pulse"].iloc[row], rel=0.05)


@pytest.mark.parametrize("column", ["sex", "height"])
def test_every_sentence_says_what_the_attacker_knows(column: str) -> None:
    for noise in (dm.Gaussian(0.1), dm.no_noise):
        leak = measured("squared", noise=noise, tied=TIED)
        assert "everything else in the table" in leak.sentence(0, column)
        assert "one value on 3 rows of this person" in leak.sentence(0, column)


def test_without_noise_every_figure_is_unbounded_and_the_ranking_stays() -> None:
    exact, noised = measured("logistic", noise=dm.no_noise), measured("logistic", noise=dm.Gaussian(1.0))
    assert np.isinf(exact.examples).all()
    assert np.isinf(list(exact.persons.values())).all()
    assert np.isinf(exact.dataset)
    assert (exact.deviations.to_numpy() == 0).all()
    np.testing.assert_allclose(exact.leak.unscaled_examples, noised.examples.to_numpy())
    assert "no bound holds" in exact.sentence(0, "pulse")


@pytest.mark.parametrize("noise", [dm.no_noise, dm.Gaussian(0.7), dm.Laplace(0.2)], ids=str)
def test_the_scale_for_a_target_reaches_it(noise: Any) -> None:
    scale = measured("squared", noise=noise, tied=TIED).scale_for(0.05)
    kind = type(noise) if noise is not dm.no_noise else dm.Gaussian
    again = measured("squared", noise=kind(scale), tied=TIED)
    assert max(again.persons.values()) == pytest.approx(0.05)


def test_a_release_that_does_not_depend_on_a_column_says_nothing_about_it() -> None:
    leak = measured("squared")
    assert leak.cells.columns.tolist() == ["height", "sex", "pulse", "site"]
    assert "says nothing about `site`" in leak.sentence(3, "site")
    assert "site" not in leak.deviations


def test_polars_gets_groups_from_its_own_columns() -> None:
    model, y = MODELS["squared"]
    leak = dm.measure(
        model, pl.from_dict({k: FRAME[k].tolist() for k in FRAME}), y, noise=dm.Gaussian(0.3), person="id"
    )
    assert leak.group("site") == pytest.approx(measured("squared", tied=TIED).group("site"))
    assert isinstance(leak.cells, pl.DataFrame)


def test_it_prints_what_it_is() -> None:
    assert "rows of 34 persons" in repr(measured("squared")).replace(f"{len(set(PERSON))} persons", "34 persons")
    assert "unaccounted" in repr(measured("squared"))
