"""Public bounds instead of a fitted scaler: the preprocessing does not depend on the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dosimeter as dm
from dosimeter.core.notion import Standing
from dosimeter.models.fit_table import fit_table, prepare
from dosimeter.models.linear_release import release_table
from dosimeter.tables.bounds_file import bounds_of
from dosimeter.tables.table import Table
from tests.glm.whole_pipeline import information, norm, released

RNG = np.random.default_rng(5)
N = 40
AGE, BMI = RNG.normal(50, 12, N), RNG.normal(27, 4, N)
SCORE = (AGE - 50) / 12 + (BMI - 27) / 8 + RNG.normal(size=N)
BOUNDS = {"age": (18, 72), "bmi": (15, 45), "ill": ["no", "yes"]}
SIGMA, L2 = 0.3, 0.05


def people(**other):
    ill = np.where(SCORE > 0, "yes", "no")
    return Table.of({"age": AGE, "bmi": BMI, "ill": ill, **other})


def fitted(table=None, **options):
    settings = {"l2": L2, "noise": dm.Gaussian(SIGMA), "bounds": BOUNDS, "unit": "raw", **options}
    return fit_table(people() if table is None else table, "ill", **settings)


def test_figures_are_those_of_the_whole_pipeline_refitted_at_neighbouring_tables():
    assert (AGE <= 72).all()
    assert (AGE >= 18).all()
    U, y = np.column_stack([AGE, BMI]), (SCORE > 0).astype(float)
    leak = fitted().leakage
    for row in (0, 7, 21):
        directions = np.zeros((2, *U.shape))
        directions[0, row, 0] = directions[1, row, 1] = 1.0

        def law(moved, U=U, y=y):
            return released(U + moved, y, "logistic", L2, SIGMA, bounds=[(18, 72), (15, 45)])

        I = information(law, directions, step=0.01)
        np.testing.assert_allclose(leak.leak.attribute([0, 1])[row], norm(I), rtol=1e-6)
        np.testing.assert_allclose(leak.cells["age"][row], np.sqrt(I[0, 0]), rtol=1e-6)
    assert leak.standing is Standing.EXACT
    assert not leak.not_covered


def test_another_person_changes_nothing_of_the_preprocessing():
    other = Table.of({"age": np.append(AGE[:-1], 1e6), "bmi": BMI, "ill": np.where(SCORE > 0, "yes", "no")})
    here, there = (prepare(table, "ill", bounds=BOUNDS) for table in (people(), other))
    assert here.columns == there.columns
    assert here.classes.tolist() == there.classes.tolist()
    assert (here.loss, here.outputs, here.design.names) == (there.loss, there.outputs, there.design.names)


def test_a_clipped_cell_is_measured_at_its_bound_and_counted():
    wild = AGE.copy()
    wild[3] = 200.0
    held = np.where(np.arange(N) == 3, 72.0, AGE)
    ill = np.where(SCORE > 0, "yes", "no")
    far, near = (fitted(Table.of({"age": a, "bmi": BMI, "ill": ill})).leakage for a in (wild, held))
    np.testing.assert_array_equal(far.cells["age"], near.cells["age"])
    assert any(remark.startswith("1 cells lay outside") for remark in far.remarks)
    assert not any("outside" in remark for remark in near.remarks)


def test_levels_are_the_declared_ones_whatever_the_table_holds():
    town = np.array(["Ulm", "Graz", "Ulm", "Bonn"] * 10)
    bounds = {**BOUNDS, "town": ["Graz", "Linz", "Ulm"]}
    leak = fitted(people(town=town), bounds=bounds, l2=0.1).leakage
    assert leak.design.names == ("age", "bmi", "town=Linz", "town=Ulm")
    ulm, graz = leak.design.X[0, 2:], leak.design.X[1, 2:]
    assert leak.design.X[2:4, 2:].tolist() == [ulm.tolist(), graz.tolist()]  # Bonn counts as the first
    assert np.linalg.norm(ulm - graz) == pytest.approx(1.0)
    assert any(remark.startswith("10 labels are in no public list") for remark in leak.remarks)
    assert leak.standing is Standing.EXACT


def test_a_column_with_one_value_stays_in_the_model():
    leak = fitted(people(same=np.ones(N)), bounds={**BOUNDS, "same": (0, 4)}).leakage
    assert leak.design.names == ("age", "bmi", "same")
    assert np.isfinite(leak.leak.cells).all()


def test_the_unit_of_the_reading_is_the_standard_deviation():
    plain, sd = fitted().leakage, fitted(unit="sd").leakage
    np.testing.assert_allclose(sd.cells["age"], plain.cells["age"] * AGE.std(), rtol=1e-12)


@pytest.mark.parametrize("loss", ["auto", "squared", "poisson"])
def test_a_numeric_target_is_held_to_its_bounds(loss):
    table = Table.of({"age": AGE, "bmi": BMI, "count": np.round(np.exp(SCORE / 2))})
    leak = fit_table(table, "count", l2=L2, noise=dm.Gaussian(1.0), loss=loss,
                     bounds={"age": (0, 120), "bmi": (10, 60), "count": (0, 2)}).leakage  # fmt: skip
    assert leak.fit.loss.name == {"auto": "squared"}.get(loss, loss)
    assert leak.fit.y.max() == 2


def test_classes_keep_the_kind_in_which_the_table_writes_them():
    table = Table.of({"age": AGE, "bmi": BMI, "ill": (SCORE > 0).astype(int) + 1})
    release = release_table(
        table, "ill", scale=1.0, l2=L2, bounds={**BOUNDS, "ill": ["2", "1"]}, rng=np.random.default_rng(0)
    )
    assert release.model[-1].classes_.tolist() == [1, 2]
    assert set(release.model.predict(pd.DataFrame({"age": AGE, "bmi": BMI})).tolist()) <= {1, 2}
    assert release.dose.standing is Standing.EXACT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": {"age": (18, 72), "ill": ["no", "yes"]}}, "nothing is declared about bmi"),
        ({"bounds": {**BOUNDS, "bim": (0, 1)}}, "no column bim"),
        ({"bounds": {**BOUNDS, "age": (72, 18)}}, "the lower one first"),
        ({"bounds": {**BOUNDS, "age": (18, float("inf"))}}, "finite"),
        ({"bounds": {**BOUNDS, "age": ["old"]}}, "two levels"),
        ({"bounds": {**BOUNDS, "ill": ["no", "sick"]}}, "not among its declared levels"),
        ({"bounds": {"age": (18, 72), "bmi": (15, 45)}}, "nothing is declared about the target"),
        ({"bounds": {**BOUNDS, "ill": (0, 1)}}, "holds text"),
        ({"bounds": {**BOUNDS, "ill": ["a", "b", "no", "yes"]}, "loss": "logistic"}, "4 levels"),
    ],
)
def test_what_is_not_declared_is_refused(options, message):
    with pytest.raises(dm.Refusal, match=message):
        fitted(**options)


@pytest.mark.parametrize("n", [0, -1, 1.5, True, 10**12 + 1, 10**40])
def test_a_number_of_rows_that_no_table_has_is_refused(n):
    with pytest.raises(dm.Refusal, match=r"give a whole number of rows, 1 to 1000000000000"):
        bounds_of({"n": n, "age": {"lower": 0, "upper": 1}})
