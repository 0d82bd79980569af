"""Remarks on columns: values constant within a person, codes, identifiers, decimal commas, dependence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge

import dosimeter as dm
from dosimeter.core.errors import Refusal
from dosimeter.models.fit_table import fit_table, prepare
from dosimeter.tables.table import Table

RNG = np.random.default_rng(4)
N = 60
WHO = np.repeat(np.arange(20), 3)
BORN = RNG.integers(1930, 2000, 20)[WHO].astype(float)
VISITS = pd.DataFrame({"who": WHO, "born": BORN, "weight": RNG.normal(70, 9, N)})
VISITS["score"] = (VISITS["born"] - 1960) / 20 + VISITS["weight"] / 9 + RNG.normal(size=N)
TIED = 'tied: born, one unknown for all rows of a person; not_tied="NAME" counts it once per row'
UNDER = "not tied, as requested: born, though constant within a person; if it is one unknown, its figure is too low"


def remarks_of(columns, target, **options):
    return prepare(Table.of(columns), target, **options).remarks


def test_a_column_that_never_changes_within_a_person_is_tied_and_reported():
    fitted = fit_table(Table.of(VISITS), "score", l2=0.1, noise=dm.Gaussian(1.0), person="who").leakage
    assert TIED in fitted.remarks
    assert not [r for r in fitted.remarks if r.startswith("weight")]
    model = Ridge().fit(VISITS[["born", "weight"]], VISITS["score"])
    measured = dm.measure(model, VISITS, "score", person="who", noise=dm.Gaussian(1.0))
    assert measured.remarks == (TIED,)
    tied = dm.measure(model, VISITS, "score", person="who", tied=["born"], noise=dm.Gaussian(1.0))
    assert tied.remarks == (TIED,)
    free = dm.measure(model, VISITS, "score", person="who", not_tied="born", noise=dm.Gaussian(1.0))
    assert free.remarks == (UNDER,)


def test_ties_are_not_mentioned_if_every_person_has_one_row():
    fitted = fit_table(Table.of(VISITS.assign(who=np.arange(N))), "score", l2=0.1, noise=dm.Gaussian(1.0), person="who")
    assert not [r for r in fitted.leakage.remarks if "tied" in r]


def test_the_tied_figure_can_exceed_root_rows_times_a_cells_but_not_the_stacked_norm():
    """Jacobians of unequal rows add: √k holds against the norm of the same rows stacked."""
    leak = fit_table(
        Table.of(VISITS), "score", l2=0.1, noise=dm.Gaussian(1.0), person="who", tied=["born"], unit="raw"
    ).leakage
    plain = fit_table(
        Table.of(VISITS), "score", l2=0.1, noise=dm.Gaussian(1.0), person="who", not_tied=["born"], unit="raw"
    ).leakage
    tied, single = leak.cell("born"), plain.cell("born")
    stacked = np.sqrt(np.bincount(WHO, weights=single**2))[WHO]
    assert (tied > np.sqrt(3) * single * 1.01).any()
    assert (tied <= np.sqrt(3) * stacked * (1 + 1e-9)).all()


def test_whole_numbers_as_target_may_be_codes_of_classes():
    codes = {"x": RNG.normal(size=N), "y": RNG.normal(size=N), "kind": np.arange(N) % 4}
    assert any('loss="softmax"' in r for r in remarks_of(codes, "kind"))
    assert not any('loss="softmax"' in r for r in remarks_of(codes, "kind", loss="squared"))
    assert not any('loss="softmax"' in r for r in remarks_of({**codes, "kind": np.arange(N)}, "kind"))


def test_whole_numbers_that_look_like_identifiers_are_pointed_out():
    columns = {"patient_id": np.arange(N) // 2 + 1000, "x": RNG.normal(size=N), "y": RNG.normal(size=N)}
    remark = 'patient_id looks like an identifier: pass person="patient_id" or exclude="patient_id"'
    assert remark in remarks_of(columns, "y")
    assert remark not in remarks_of({**columns, "patient_id": np.arange(N) % 5}, "y")
    assert not any("looks like" in r for r in remarks_of(columns, "y", person="patient_id"))


def test_a_decimal_comma_is_called_by_its_name():
    texts = [f"{v:.2f}".replace(".", ",") for v in RNG.normal(size=N)]
    with pytest.raises(Refusal, match=r"column bmi holds numbers with a decimal comma"):
        prepare(Table.of({"bmi": texts, "y": RNG.normal(size=N)}), "y")
    with pytest.raises(Refusal, match=r"target y holds numbers with a decimal comma"):
        prepare(Table.of({"bmi": RNG.normal(size=N), "y": texts}), "y")


def test_dependent_columns_are_named():
    kg = RNG.normal(70, 9, N)
    table = Table.of({"kg": kg, "age": RNG.normal(size=N), "lb": kg * 2.2, "y": RNG.normal(size=N)})
    with pytest.raises(Refusal, match=r"columns kg, lb\)"):
        fit_table(table, "y", l2=0.0, noise=dm.Gaussian(1.0))
    frame = pd.DataFrame({name: table[name] for name in ("kg", "age", "lb")})
    with pytest.raises(dm.CannotMeasure, match=r"columns kg, lb\)"):
        dm.measure(LinearRegression().fit(frame, table["y"]), frame, table["y"], noise=dm.Gaussian(1.0))


def test_two_columns_of_one_name_are_refused_and_not_raised_by_a_library():
    frame = pd.DataFrame(RNG.normal(size=(9, 3)), columns=["a", "a", "b"])
    model = LinearRegression().fit(frame.to_numpy(), np.arange(9.0))
    with pytest.raises(Refusal, match="two columns have the same name"):
        dm.measure(model, frame, np.arange(9.0), noise=dm.Gaussian(1.0))


def test_a_target_that_is_the_person_and_a_misspelt_tie_are_refused_plainly():
    model = Ridge().fit(VISITS[["born", "weight"]], VISITS["score"])
    with pytest.raises(Refusal, match="both the target and the person"):
        dm.measure(model, VISITS, "who", person="who", noise=dm.Gaussian(1.0))
    with pytest.raises(Refusal, match="both the target and the person"):
        prepare(Table.of(VISITS), "score", person="score")
    with pytest.raises(Refusal, match=r"did you mean born\?"):
        prepare(Table.of(VISITS), "score", person="who", tied=["borne"])


def test_levels_of_a_category_that_differ_in_blanks_or_capitals_only_are_named() -> None:
    rng = np.random.default_rng(3)
    ward = np.resize(np.array(["east", "east ", "West", "south"], dtype=object), 60)
    frame = {"ward": ward, "age": rng.normal(50, 10, 60), "cost": rng.normal(size=60)}
    remarks = dm.measure(frame, target="cost", noise=dm.Gaussian(1.0)).result().remarks
    (named,) = [remark for remark in remarks if "levels of ward" in remark]
    assert "east, 'east '" in named
    clean = {**frame, "ward": np.array([name.strip() for name in ward], dtype=object)}
    remarks = dm.measure(clean, target="cost", noise=dm.Gaussian(1.0)).result().remarks
    assert not [remark for remark in remarks if "levels of" in remark]
