"""PHReg by a formula: refits of statsmodels on the design that its own formula makes of a moved table."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.duration.hazard_regression import PHReg

import dosimeter as dm

RNG = np.random.default_rng(17)
N = 60
PEOPLE = pd.DataFrame(
    {
        "age": RNG.normal(50.0, 10.0, N),
        "crp": RNG.lognormal(1.0, 0.4, N),
        "ward": RNG.permutation(np.resize(["b", "a", "c"], N)),
        "time": np.ceil(6 * RNG.exponential(1.0, N)) / 6,
        "event": (RNG.random(N) < 0.7).astype(int),
    }
)
FORMULAS = {
    "categories": ("time ~ C(ward)", ("ward",)),
    "a column and a category": ("time ~ crp + ward", ("crp", "ward")),
    "curves": ("time ~ np.log(crp) + I(age ** 2 / 100) + age", ("crp", "age")),
    "an interaction": ("time ~ scale(age) * C(ward)", ("age", "ward")),
}


def design(results, people):
    spec = results.model.data.model_spec if hasattr(results.model.data, "model_spec") else None
    spec = results.model.data.design_info if spec is None else spec
    if hasattr(spec, "get_model_matrix"):
        matrix = spec.get_model_matrix(people)
    else:
        from patsy import dmatrix

        matrix = dmatrix(spec, people, return_type="dataframe")
    return np.asarray(matrix[[name for name in matrix.columns if name != "Intercept"]], dtype=float)


def slope(Z, move, ties):
    """|dw| for a small move of the design, by refits on both sides."""

    def weights(Z):
        return np.asarray(PHReg(PEOPLE["time"], Z, status=PEOPLE["event"], ties=ties).fit(disp=0).params)

    size = np.abs(move).max()
    h = 1e-4 / size
    return np.linalg.norm(weights(Z + h * move) - weights(Z - h * move)) / (2 * h)


@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("name", FORMULAS)
def test_cells_of_source_columns_are_those_of_refits(name, ties):
    formula, sources = FORMULAS[name]
    results = smf.phreg(formula, PEOPLE, status="event", ties=ties).fit(disp=0)
    leak = dm.measure(results, PEOPLE, noise=dm.Gaussian(1.0))
    Z = design(results, PEOPLE)
    for row in (0, 31):
        for column in sources:
            moved = []
            values = sorted(set(PEOPLE["ward"])) if column == "ward" else (1, -1)
            h = 1e-5 * PEOPLE[column].std() if column != "ward" else 0.0
            for value in values:
                people = PEOPLE.copy()
                people.loc[row, column] = value if column == "ward" else PEOPLE.loc[row, column] + value * h
                moved.append(design(results, people))
            if column == "ward":
                expected = max(slope(Z, b - a, ties) for a, b in combinations(moved, 2))
            else:
                expected = slope(Z, (moved[0] - moved[1]) / (2 * h), ties)
            assert np.asarray(leak.cells[column])[row] == pytest.approx(expected, rel=1e-5)
    assert leak.result(limit=1.0).to_json()


def test_a_person_shares_a_category_of_all_their_rows():
    """The ward's unknowns add up over the rows of a person, the other cells stand side by side."""
    people = PEOPLE.assign(ward=np.repeat(["b", "a", "c", "a", "b", "c"], 10), who=np.repeat(range(12), 5))
    results = smf.phreg("time ~ np.log(crp) + C(ward)", people, status="event").fit(disp=0)
    leak = dm.measure(results, people, person="who", noise=dm.Gaussian(1.0))
    assert leak.tied == ("ward",)
    J = leak.leak.jacobian.dense(slice(None))
    own = [leak.design.blocks["crp"][0], J.shape[2] - 1]
    shared = list(leak.design.blocks["ward"])
    for person, eta in list(leak.persons.items())[:3]:
        rows = np.flatnonzero(people["who"] == person)
        parts = [J[rows][:, :, shared].sum(axis=0), *(J[row][:, own] for row in rows)]
        assert eta == pytest.approx(np.linalg.svd(np.hstack(parts), compute_uv=False)[0], rel=1e-9)


def test_another_table_is_refused():
    results = smf.phreg("time ~ np.log(crp) + C(ward)", PEOPLE, status="event").fit(disp=0)
    with pytest.raises(dm.Refusal, match="not the table that the Cox model was fitted on"):
        dm.measure(results, PEOPLE.assign(crp=PEOPLE["crp"] + 0.01), noise=dm.Gaussian(1.0))
    with pytest.raises(dm.Refusal, match="crp"):
        dm.measure(results, PEOPLE.drop(columns="crp"), noise=dm.Gaussian(1.0))


OFFSET = 0.4 * RNG.normal(size=N)
X = PEOPLE[["age", "crp"]].to_numpy() / [10.0, 1.0]


@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("strata", [None, "ward"])
def test_an_offset_is_a_constant_of_each_row(ties, strata):
    options = {"status": PEOPLE["event"], "ties": ties, "strata": None if strata is None else PEOPLE[strata]}
    results = PHReg(PEOPLE["time"], X, offset=OFFSET, **options).fit(disp=0)
    leak = dm.measure(results, X, noise=dm.Gaussian(1.0))
    np.testing.assert_allclose(leak.fit.w, results.params, rtol=1e-6)
    for row in (3, 40):
        for column in range(2):
            step = np.zeros_like(X)
            step[row, column] = 1e-4
            up, down = (
                PHReg(PEOPLE["time"], X + sign * step, offset=OFFSET, **options).fit(disp=0).params for sign in (1, -1)
            )
            assert leak.cells[row, column] == pytest.approx(np.linalg.norm(up - down) / 2e-4, rel=1e-5)


def test_an_offset_along_the_columns_moves_the_weights_and_no_figure_of_an_outcome():
    options = {"status": PEOPLE["event"], "ties": "efron"}
    plain = PHReg(PEOPLE["time"], X, **options).fit(disp=0)
    along = PHReg(PEOPLE["time"], X, offset=X @ [0.3, -0.2], **options).fit(disp=0)
    ours, theirs = (dm.measure(results, X, noise=dm.Gaussian(1.0)) for results in (along, plain))
    np.testing.assert_allclose(ours.fit.w, theirs.fit.w - [0.3, -0.2], rtol=1e-9)
    np.testing.assert_allclose(ours.labels, theirs.labels, rtol=1e-9)
