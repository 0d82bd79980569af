"""Our own fit of a category of many levels: sparse indicators, with the figures of coordinates that are written out."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import dosimeter as dm
from dosimeter.core.category import simplex
from dosimeter.glm.fitting import route
from dosimeter.models import fit_table, many_levels

RNG = np.random.default_rng(8)
N, LEVELS = 150, 24
PLACE = np.sort(np.resize(np.arange(LEVELS), N))
PEOPLE = pd.DataFrame(
    {
        "place": [f"z{k:02d}" for k in PLACE],
        "age": RNG.normal(50.0, 9.0, N),
        "town": np.array(list("abcdefghijkl"))[RNG.integers(0, 12, N)],
        "sex": np.array(["f", "m"])[RNG.integers(0, 2, N)],
        "smokes": RNG.integers(0, 2, N) * 3,
        "ill": (RNG.random(N) < 0.4).astype(int),
        "visits": RNG.poisson(2.0, N),
        "cost": RNG.normal(0.0, 2.0, N),
        # Three rows a person, two at the ends of a place: the place is one value of a person.
        "who": [f"{k}-{row // 3}" for row, k in enumerate(PLACE)],
    }
)
PEOPLE["cost"] = PEOPLE.groupby("who")["cost"].transform("mean")
BOUNDS = {"age": (0, 100), "smokes": (0, 3), "sex": ["f", "m"], "town": list("abcdefghijkl"), "ill": ["0", "1"]}
BOUNDS["place"] = [f"z{k:02d}" for k in range(LEVELS)]
CASES = {
    "logistic": {"target": "ill", "exclude": ("who", "visits", "cost")},
    "poisson": {"target": "visits", "exclude": ("who", "ill", "cost"), "loss": "poisson"},
    "squared": {"target": "cost", "exclude": ("who", "ill", "visits"), "l2": 0.3, "unit": "raw"},
    "huber": {"target": "cost", "exclude": ("who", "ill", "visits"), "loss": "huber", "l2": 0.1},
    "persons, a shared place": {"target": "ill", "exclude": ("visits", "cost"), "person": "who"},
    "persons, places apart": {"target": "ill", "exclude": ("visits", "cost"), "person": "who", "not_tied": "place"},
    "a shared label": {"target": "cost", "exclude": ("visits", "ill"), "person": "who", "tied": "cost"},
    "known labels": {"target": "ill", "exclude": ("who", "visits", "cost"), "known_target": True},
    "declared": {"target": "ill", "exclude": ("who", "visits", "cost"), "bounds": BOUNDS},
}


@pytest.fixture
def few_are_many(monkeypatch):
    monkeypatch.setattr(many_levels, "MAX_LEVELS", 20)


@pytest.mark.parametrize("name", CASES)
def test_indicators_have_the_figures_of_coordinates_that_are_written_out(name, monkeypatch):
    options = {"noise": dm.Gaussian(0.3), **CASES[name]}
    oracle = dm.measure(PEOPLE, scaler="held", **options)
    monkeypatch.setattr(many_levels, "MAX_LEVELS", 20)
    leak = dm.measure(PEOPLE, **options)
    assert sparse.issparse(leak.design.X)
    assert isinstance(oracle.design.X, np.ndarray)
    for reading in ("examples", "labels", "cells", "left"):
        np.testing.assert_allclose(getattr(leak, reading), getattr(oracle, reading), rtol=1e-9, atol=1e-14)
    assert leak.attributes == pytest.approx(oracle.attributes, rel=1e-9)
    assert leak.dataset == pytest.approx(oracle.dataset, rel=1e-9)
    if "person" in options:
        assert leak.persons == pytest.approx(oracle.persons, rel=1e-9)
    assert leak.not_covered == oracle.not_covered
    assert leak.standing is oracle.standing
    ours, theirs = leak.table_fit, oracle.table_fit
    assert list(ours.coef) == list(theirs.coef)
    np.testing.assert_allclose(list(ours.coef.values()), list(theirs.coef.values()), rtol=1e-6, atol=1e-9)
    assert ours.score == pytest.approx(theirs.score, abs=1e-12)
    assert leak.result(limit=1.0).to_json()


def test_cells_are_the_moves_of_refits(few_are_many):
    """Level to level, by a library's own solver on coordinates that are written out."""
    leak = dm.measure(PEOPLE, target="ill", exclude=("who", "visits", "cost", "town", "smokes"), noise=dm.Gaussian(1.0))
    V, age = simplex(LEVELS), PEOPLE["age"].to_numpy()
    X = np.column_stack([V[PLACE], (age - age.mean()) / age.std(), np.where(PEOPLE["sex"] == "m", 0.5, -0.5)])
    y = PEOPLE["ill"].to_numpy()

    def weights(row, move):
        moved = X.copy()
        moved[row] += move
        model = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-13, max_iter=100).fit(moved, y)
        return np.append(model.coef_, model.intercept_)

    h = 1e-4
    for row in (0, 77):
        steps = [np.append(V[b] - V[a], [0.0, 0.0]) for a, b in combinations(range(0, LEVELS, 3), 2)]
        longest = max(np.linalg.norm(weights(row, h * s) - weights(row, -h * s)) / (2 * h) for s in steps)
        figures = np.asarray(leak.cell("place"))
        assert figures[row] >= longest * (1 - 1e-6)  # the largest step of all pairs is at least that of some
        worst = max(
            np.linalg.norm(weights(row, h * s) - weights(row, -h * s)) / (2 * h)
            for s in (np.append(V[b] - V[a], [0.0, 0.0]) for a, b in combinations(range(LEVELS), 2))
        )
        assert figures[row] == pytest.approx(worst, rel=1e-6)
        unit = np.zeros(X.shape[1])
        unit[-2] = 1.0
        change = np.linalg.norm(weights(row, h * unit) - weights(row, -h * unit)) / (2 * h)
        assert leak.cell("age")[row] == pytest.approx(change, rel=1e-6)


@pytest.mark.parametrize(("most", "rows"), [(20, N), (4096, 24)])
def test_levels_beyond_the_sizes_of_the_rule_by_shape_have_the_same_figures(most, rows, monkeypatch):
    """Beyond 4,096 levels, or more of them than rows, other sparse tables have bounds or an (n, n) matrix."""
    people = PEOPLE.iloc[:: N // rows][:rows]
    options = {"target": "ill", "exclude": ("who", "visits", "cost"), "noise": dm.Gaussian(0.3), "categorical": "place"}
    oracle = dm.measure(people, scaler="held", **options)
    monkeypatch.setattr(many_levels, "MAX_LEVELS", 20)
    monkeypatch.setattr(route, "DIRECT", most)
    leak = dm.measure(people, **options)
    assert sparse.issparse(leak.design.X)
    for reading in ("examples", "labels", "cells", "left"):
        np.testing.assert_allclose(getattr(leak, reading), getattr(oracle, reading), rtol=1e-9, atol=1e-14)
    assert leak.attributes == pytest.approx(oracle.attributes, rel=1e-9)
    assert leak.standing is oracle.standing


def test_one_line_says_what_was_done_and_what_the_scaler_leaves(few_are_many):
    leak = dm.measure(PEOPLE, target="ill", exclude=("who", "visits", "cost"), noise=dm.Gaussian(0.3))
    (line,) = [note for note in leak.notes if "indicators of 24 levels" in note]
    assert line.startswith("place: ")
    assert any("which is NOT in the figures; use bounds=" in note for note in leak.notes)
    assert leak.left.max() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "town"}, "place has 24 levels and at most 20 are taken here"),
        ({"target": "ill", "l2": 0.0}, "place has 24 levels and at most 20 are taken here"),
        ({"target": "ill", "release": "predictions", "queries": PEOPLE.head(3)}, "place has 24 levels and at most 20"),
        ({"target": "ill", "missing": "impute", "impute": {"age": 50.0}}, "cells are not filled in beside"),
    ],
)
def test_what_has_no_sparse_form_is_refused_in_one_line(options, message, few_are_many, monkeypatch):
    monkeypatch.setattr(fit_table, "MAX_LEVELS", 20)
    people = PEOPLE.copy()
    if "impute" in options:
        people.loc[3, "age"] = np.nan
    with pytest.raises(dm.Refusal, match=message) as refused:
        dm.measure(people, exclude=("who", "visits", "cost"), noise=dm.Gaussian(0.3), **options)
    assert "\n" not in str(refused.value)
    assert "impute" in options or "declare its levels in bounds=, or pass exclude=" in str(refused.value)


def test_levels_that_are_declared_are_taken_where_learned_ones_are_too_many(few_are_many, monkeypatch):
    """By `fix` too: what the refusal suggests works."""
    monkeypatch.setattr(fit_table, "MAX_LEVELS", 20)
    options = {"target": "ill", "exclude": ("who", "visits", "cost", "town", "smokes", "age", "sex")}
    with pytest.raises(dm.Refusal, match="declare its levels in bounds="):
        dm.fix(PEOPLE, max_dose=1.0, **options)
    bounds = {"place": BOUNDS["place"], "ill": BOUNDS["ill"]}
    made = dm.fix(PEOPLE, max_dose=1.0, bounds=bounds, even_if_useless=True, **options)
    assert len(made.model.predict(PEOPLE)) == N


def test_more_weights_than_can_be_decomposed_are_refused(few_are_many, monkeypatch):
    monkeypatch.setattr(many_levels, "MOST", 30)
    with pytest.raises(
        dm.Refusal, match=r"the columns have 37 weights and at most 29 are taken: pool rare levels of pl"
    ):
        dm.measure(PEOPLE, target="ill", exclude=("who", "visits", "cost"), noise=dm.Gaussian(0.3))
