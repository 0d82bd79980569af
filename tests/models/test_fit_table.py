"""Our own fit on a named table against scikit-learn on the same standardised columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import helmert
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import d2_tweedie_score
from sklearn.preprocessing import StandardScaler

import dosimeter as dm
from dosimeter import glm
from dosimeter.models.fit_table import fit_table
from dosimeter.tables.table import Table

RNG = np.random.default_rng(2)
N = 80
AGE, BMI = RNG.normal(50, 12, N), RNG.normal(27, 4, N)
RACE = RNG.choice(["black", "other", "white"], N)
SCORE = (AGE - 50) / 12 + (BMI - 27) / 8 + (RACE == "white") + RNG.normal(size=N)
PEOPLE = {"age": AGE, "race": RACE, "bmi": BMI, "id": [f"p{i // 2}" for i in range(N)], "same": np.ones(N)}
CORNERS = -helmert(3).T / np.sqrt(2)
"""Three levels one apart: each coordinate sets a level against the mean of those before it."""
L2 = 0.02
NOISE = dm.Gaussian(0.1)
NEWTON = {"solver": "newton-cholesky", "tol": 1e-13}

TARGETS: dict[str, tuple[Any, str, Any, str]] = {
    "squared": (SCORE, "squared", Ridge(alpha=N * L2), "R²"),
    "two numbers": (
        np.where(SCORE > 0, 7.0, 3.0),
        "logistic",
        LogisticRegression(C=1 / (N * L2), **NEWTON),
        "accuracy",
    ),
    "two texts": (
        np.where(SCORE > 0, "ill", "fit"),
        "logistic",
        LogisticRegression(C=1 / (N * L2), **NEWTON),
        "accuracy",
    ),
    "truth": (SCORE > 0, "logistic", LogisticRegression(C=1 / (N * L2), **NEWTON), "accuracy"),
    "three texts": (
        np.array(["low", "mid", "top"])[np.digitize(SCORE, [-0.5, 0.8])],
        "softmax",
        LogisticRegression(C=1 / (N * L2), **NEWTON),
        "accuracy",
    ),
    "counts": (np.round(np.exp(SCORE / 2)), "poisson", PoissonRegressor(alpha=L2, **NEWTON), "D²"),
}


DEFAULTS = {
    "squared": Ridge(),
    "two texts": LogisticRegression(**NEWTON),
    "three texts": LogisticRegression(**NEWTON),
    "counts": PoissonRegressor(**NEWTON),
}
"""scikit-learn's models with their default penalties; the solver runs to the end."""


@pytest.mark.parametrize("name", DEFAULTS)
def test_without_a_penalty_the_fit_is_scikit_learns_default(name: str) -> None:
    model, y = DEFAULTS[name], TARGETS[name][0]
    ours = fitted_table(name, l2=None)
    model.fit(encode(), y)
    np.testing.assert_allclose(np.array(list(ours.coef.values())).T.ravel(), np.ravel(model.coef_), rtol=1e-6)
    np.testing.assert_allclose(ours.intercept, np.ravel(model.intercept_), rtol=1e-6, atol=1e-9)
    (remark,) = [note for note in ours.leakage.remarks if "penalty of scikit-learn's default" in note]
    assert type(model).__name__ in remark
    assert "number of rows n is assumed public" in remark


def test_a_stated_penalty_comes_before_the_default() -> None:
    assert fitted_table("squared", l2=0.3).leakage.fit.l2 == 0.3
    assert fitted_table("squared", l2=0.0).leakage.fit.l2 == 0.0
    assert fitted_table("squared", l2=0.0).penalty.source == "stated"


def encode() -> Any:
    """(n, 4) numbers standardised, race on the corners of a triangle."""
    numbers = StandardScaler().fit_transform(np.column_stack([AGE, BMI]))
    return np.column_stack([numbers[:, 0], CORNERS[np.searchsorted(["black", "other", "white"], RACE)], numbers[:, 1]])


def fitted_table(name: str, **options: Any) -> Any:
    table = Table.of({**PEOPLE, "target": TARGETS[name][0]})
    loss = {"loss": "poisson"} if name == "counts" else {}
    settings = {"l2": L2, "noise": NOISE, "person": "id", **loss, **options}
    return fit_table(table, "target", **settings)


@pytest.mark.parametrize("name", TARGETS)
def test_the_fit_and_its_figures_are_those_of_scikit_learn_on_the_same_columns(name: str) -> None:
    y, loss, model, score_name = TARGETS[name]
    Z = encode()
    model.fit(Z, y)
    ours = fitted_table(name, include_target=False)
    assert ours.leakage.fit.loss.name == loss
    np.testing.assert_allclose(
        np.array(list(ours.coef.values())).T.ravel(), np.ravel(model.coef_), rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(ours.intercept, np.ravel(model.intercept_), rtol=1e-5, atol=1e-7)
    fit = glm.fit(Z, ours.leakage.fit.y, ours.leakage.fit.loss, L2, intercept=True)
    theirs = glm.measure(fit, Z, fit.y, NOISE, include_target=False, scaled=np.array([True, False, False, True]))
    np.testing.assert_allclose(
        list(ours.leakage.persons.values()), list(theirs.group(PEOPLE["id"]).values()), rtol=1e-9
    )
    V, J = CORNERS, theirs.jacobian.dense(slice(None))[:, :, 1:3]
    steps = [np.linalg.norm(J @ (V[b] - V[a]), axis=1) for a, b in ((0, 1), (0, 2), (1, 2))]
    np.testing.assert_allclose(ours.leakage.cells["race"], np.max(steps, axis=0), rtol=1e-9)
    assert ours.score_name == score_name
    if name == "counts":
        assert ours.score == pytest.approx(d2_tweedie_score(y, model.predict(Z), power=1), rel=1e-5)
    else:
        assert ours.score == pytest.approx(model.score(Z, y), rel=1e-6)


def test_names_and_outputs_are_those_of_the_table() -> None:
    fitted = fitted_table("three texts")
    assert fitted.names == ("age", "race=other", "race=white", "bmi")
    assert fitted.outputs == ("low", "mid", "top")
    assert [len(row) for row in fitted.coef.values()] == [3] * 4
    assert fitted.leakage.columns == ("age", "race", "bmi", "same")
    assert fitted_table("squared").outputs == ("target",)


def test_standard_deviations_are_the_default_and_the_label_too() -> None:
    sd, plain = fitted_table("squared").leakage, fitted_table("squared", unit="raw").leakage
    np.testing.assert_allclose(sd.cells["age"], plain.cells["age"] * AGE.std(), rtol=1e-9)
    np.testing.assert_allclose(sd.cells["race"], plain.cells["race"], rtol=1e-9)
    np.testing.assert_allclose(sd.labels, plain.labels * SCORE.std(), rtol=1e-9)
    assert sd.measured_in == "standard deviations"


def test_every_choice_is_stated() -> None:
    notes = " | ".join(fitted_table("two texts", scaler="held").leakage.notes)
    for note in (
        "mean and scale of age, bmi",
        "which is NOT in the figures",
        "levels of race",
        "it predicts target = ill",
        "l2 = 0.02",
        "same has one value",
    ):
        assert note in notes


def test_dropped_columns_and_nominal_numbers_are_taken_at_their_word() -> None:
    table = Table.of({**PEOPLE, "ward": RNG.choice([1, 2, 3], N), "target": SCORE})
    fitted = fit_table(table, "target", l2=L2, noise=NOISE, exclude=["bmi", "id"], categorical=["ward"])
    assert fitted.names == ("age", "race=other", "race=white", "ward=2", "ward=3")
    assert fitted.leakage.ids is None


def test_tied_columns_go_with_the_person() -> None:
    people = {**PEOPLE, "age": np.repeat(AGE[::2], 2), "target": SCORE}
    tied = fit_table(Table.of(people), "target", l2=L2, noise=NOISE, person="id", tied=["age"]).leakage
    assert fit_table(Table.of(people), "target", l2=L2, noise=NOISE, person="id").leakage.persons == tied.persons
    free = fit_table(Table.of(people), "target", l2=L2, noise=NOISE, person="id", not_tied=["age"]).leakage
    assert max(tied.persons[k] / free.persons[k] for k in tied.persons) > 1.0
    with pytest.raises(dm.Refusal, match="row 2 counted from 1"):
        fit_table(Table.of({**PEOPLE, "target": SCORE}), "target", l2=L2, noise=NOISE, person="id", tied=["bmi"])


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("target", {"loss": "hinge"}, "hinge"),
        ("nowhere", {}, "nowhere"),
        ("same", {}, "one value"),
        ("race", {"loss": "squared"}, "text"),
        ("race", {"loss": "logistic"}, "3 values"),
        ("target", {"loss": "softmax"}, "80 classes"),
        ("target", {"loss": "poisson"}, "Poisson needs"),
        ("target", {"person": "nobody"}, "nobody"),
        ("target", {"exclude": ["nothing"]}, "nothing"),
        ("target", {"tied": ["age"]}, "person"),
    ],
)
def test_what_cannot_be_fitted_is_refused(target: str, options: dict[str, Any], message: str) -> None:
    table = Table.of({**{k: v for k, v in PEOPLE.items() if k != "id"}, "target": SCORE})
    with pytest.raises(dm.Refusal, match=message):
        fit_table(table, target, **{"l2": L2, "noise": NOISE, **options})
