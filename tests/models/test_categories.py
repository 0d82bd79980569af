"""Categories, and columns of two values: one reading however they are written, inside every limit, against refits."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dosimeter as dm
from dosimeter import glm
from dosimeter.estimators import PrivateRidge
from dosimeter.models.fit_table import fit_table
from dosimeter.models.linear_release import release_table
from dosimeter.results.measurement import Measurement
from dosimeter.tables.table import Table

RNG = np.random.default_rng(21)
N = 120
WHO = np.repeat(np.arange(60), 2)
AGE = RNG.normal(50, 12, N).round(1)
HIV = np.zeros(N, dtype=int)
HIV[[3, 40, 77, 78]] = 1
TOWN = RNG.choice(["graz", "linz", "ulm", "wien"], N, p=[0.05, 0.3, 0.3, 0.35])
SCORE = (AGE - 50) / 12 + 1.5 * HIV + (TOWN == "ulm") + RNG.normal(size=N)
ILL = (SCORE > 0.5).astype(int)
SIGMA, L2 = 0.4, 0.02
WAYS: dict[str, dict[int, Any]] = {
    "0 and 1": {0: 0, 1: 1},
    "1 and 2": {0: 1, 1: 2},
    "2 and 1": {0: 2, 1: 1},
    "nein and ja": {0: "nein", 1: "ja"},
    "no and yes": {0: "no", 1: "yes"},
    "truth": {0: False, 1: True},
    "amounts": {0: 0.5, 1: 7.3},
}


def column(way: str, values: Any = HIV) -> Any:
    return np.array([WAYS[way][int(v)] for v in values], dtype=None if way != "nein and ja" else object)


def figures(leak: Any) -> dict[str, Any]:
    return {
        "rows": np.asarray(leak.leak.examples),
        "persons": np.array(list(leak.persons.values())),
        **{name: leak.cell(name) for name in leak.columns},
        "target": leak.target_deviation,
        "over all rows": np.array([leak.attributes[name] for name in leak.columns]),
        "dataset": np.array(leak.dataset),
    }


def measured(loss: str, **columns: Any) -> Any:
    y = {"squared": SCORE, "logistic": ILL, "poisson": np.round(np.exp(SCORE / 2))}[loss]
    table = Table.of({"who": WHO, "age": AGE, "hiv": HIV, "town": TOWN, "y": y} | columns)
    return fit_table(table, "y", l2=L2, noise=dm.Gaussian(SIGMA), loss=loss, person="who").leakage


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("way", WAYS)
def test_a_column_of_two_values_reads_the_same_however_it_is_written(way: str, loss: str) -> None:
    there = figures(measured(loss, hiv=column(way)))
    for name, figure in figures(measured(loss)).items():
        np.testing.assert_allclose(there[name], figure, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("way", WAYS)
def test_two_classes_read_the_same_however_they_are_written(way: str) -> None:
    there = figures(measured("logistic", y=column(way, ILL)))
    for name, figure in figures(measured("logistic")).items():
        np.testing.assert_allclose(there[name], figure, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_other_names_of_levels_and_so_another_order_change_nothing(loss: str) -> None:
    names = {"graz": "z", "linz": "b", "ulm": "a", "wien": "k"}
    there = figures(measured(loss, town=np.array([names[t] for t in TOWN])))
    for name, figure in figures(measured(loss)).items():
        np.testing.assert_allclose(there[name], figure, rtol=1e-9, err_msg=name)


# --- against refits -------------------------------------------------------------------------------------------------

BOUNDS = {"age": (10, 90), "hiv": (0, 1), "town": ["graz", "linz", "ulm", "wien"], "y": (-8, 8)}


def ridge(Z: Any, y: Any, l2: float = L2) -> Any:
    """Weights and unpenalised intercept, by lstsq on augmented rows."""
    d = Z.shape[1]
    A = np.vstack([np.column_stack([Z, np.ones(len(Z))]), np.sqrt(len(Z) * l2) * np.eye(d, d + 1)])
    return np.linalg.lstsq(A, np.append(y, np.zeros(d)), rcond=None)[0]


def corners(k: int) -> Any:
    """k points one apart, centred: the eigenvectors of the centring matrix."""
    values, vectors = np.linalg.eigh(np.eye(k) - 1 / k)
    return vectors[:, values > 0.5] / np.sqrt(2)


def encode(hiv: Any = HIV, town: Any = TOWN) -> Any:
    """By the declared bounds; any turn of the towns' corners will do, for no norm sees it."""
    V = corners(4)[np.searchsorted(["graz", "linz", "ulm", "wien"], town)]
    return np.column_stack([(AGE - 50) / 40, (hiv - 0.5) / 0.5, V])


def slope(move: Any, rows: Any, y: Any = SCORE, label: float = 0.0, l2: float = L2) -> Any:
    """d weights / dt as `rows` move by t·move in the encoded columns, and their label by t·label: refits."""
    h = 1e-3
    Z, both = encode(), []
    for t in (h, -h):
        A, b = Z.copy(), y.copy()
        A[rows] += t * np.asarray(move)
        b[rows] += t * label
        both.append(ridge(A, b, l2))
    return (both[0] - both[1]) / (2 * h)


def unit(j: int) -> Any:
    return np.eye(5)[j]


def brute(rows: Any, sigma: float, l2: float = L2) -> dict[str, float]:
    """Every figure of one person with these rows: numbers by deviation, categories by step, towns free on each row."""
    V, held = corners(4), [np.array([i]) for i in rows]
    J = []
    for i in held:
        J += [slope(unit(0) * AGE.std() / 40, i, l2=l2), slope(unit(1) / 0.5, i, l2=l2)]
        J += [slope(np.append([0, 0], np.eye(3)[j]), i, l2=l2) for j in range(3)]
        J.append(slope(np.zeros(5), i, label=SCORE.std(), l2=l2))
    towns = [slope(np.append([0, 0], V[b] - V[a]), i, l2=l2) for i in held for a, b in combinations(range(4), 2)]
    return {
        "person": float(np.linalg.norm(np.column_stack(J), 2)) / sigma,
        "age": max(float(np.linalg.norm(J[6 * k])) for k in range(len(held))) / sigma,
        "hiv": max(float(np.linalg.norm(J[6 * k + 1])) for k in range(len(held))) / sigma,
        "town": max(float(np.linalg.norm(step)) for step in towns) / sigma,
        "target": max(float(np.linalg.norm(J[6 * k + 5])) for k in range(len(held))) / sigma,
    }


def table(**columns: Any) -> Table:
    return Table.of({"who": WHO, "age": AGE, "hiv": HIV, "town": TOWN, "y": SCORE} | columns)


FREE = {"not_tied": ("hiv",)} if (HIV[::2] == HIV[1::2]).all() else {}


def test_every_figure_is_that_of_refits() -> None:
    leak = fit_table(table(), "y", l2=L2, noise=dm.Gaussian(SIGMA), person="who", bounds=BOUNDS, **FREE).leakage
    for person in (1, 20, 38):
        rows, known = np.flatnonzero(person == WHO), brute(np.flatnonzero(person == WHO), SIGMA)
        assert leak.persons[person] == pytest.approx(known["person"], rel=1e-6)
        for name in ("age", "hiv", "town"):
            assert leak.cell(name)[rows].max() == pytest.approx(known[name], rel=1e-6)
        assert SCORE.std() / leak.target_deviation[rows].min() == pytest.approx(known["target"], rel=1e-6)


@pytest.mark.parametrize("options", [{}, {"person": None}])
def test_what_fix_releases_keeps_every_figure_of_every_person_within_the_limit(options: dict[str, Any]) -> None:
    limit, person = 0.7, options.get("person", "who")
    people = table() if person else table().drop({"who"})
    release = release_table(
        people, "y", max_dose=limit, l2=L2, person=person, bounds=BOUNDS, **(FREE if person else {})
    )
    sigma = float(release.plan.settings["scale"] or 0.0)
    for unit_id in range(60) if person else range(N):
        known = brute(np.flatnonzero(unit_id == WHO) if person else np.array([unit_id]), sigma)
        assert max(known.values()) <= limit * (1 + 1e-6), known
        assert release.doses[unit_id] == pytest.approx(known["person"], rel=1e-5)
    assert release.doses.max() <= limit
    assert release.doses.max() > 0.4 * limit


def test_no_figure_of_a_column_or_the_target_is_above_its_persons_dose() -> None:
    """Under every noise that fix offers, and with a rare level, a rare value and a tied one."""
    rare = np.repeat(RNG.random(60) < 0.05, 2).astype(int)
    for options in ({}, {"noise_shape": "hessian"}, {"reweighting_rounds": 2}, {"law": dm.Laplace}):
        release = release_table(table(rare=rare), "y", max_dose=0.5, l2=L2, person="who", **options)
        after = _leakage_after(release)
        for name in after.columns:
            for person, eta in enumerate(release.doses):
                assert after.cell(name)[person == WHO].max() <= eta * (1 + 1e-9)
        assert (SCORE.std() / after.target_deviation <= release.doses[WHO] * (1 + 1e-9)).all()


def _leakage_after(release: Any) -> Any:
    from dataclasses import replace

    return replace(release.before, leak=release.plan.leakage, fit=release.plan.fit)


@pytest.mark.parametrize("limit", [0.3, 0.6, 0.9, 1.2, 2.0])
@pytest.mark.parametrize("rare", [1, 4])
def test_within_the_limit_means_every_printed_figure(limit: float, rare: int) -> None:
    hiv = np.zeros(N, dtype=int)
    hiv[:rare] = 1
    people = table(hiv=hiv)
    leak = fit_table(people, "y", l2=L2, noise=dm.Gaussian(0.5), person="who").leakage
    result = Measurement.of(leak, people, limit=limit)
    printed: list[Any] = [result.dose.highest]
    for column in [*result.columns, result.target]:
        of_category: Any = column.highest
        printed.append(of_category if column.kind == "category" else column.spread / column.least_deviation)
    assert result.verdict is not None
    assert result.verdict.within == (max(printed) <= limit)
    assert result.dose.highest == pytest.approx(max(printed))


def test_kept_blocks_of_two_releases_are_never_below_the_joint_step_of_a_category() -> None:
    both = [release_table(table(), "y", scale=SIGMA, l2=l2, person="who", bounds=BOUNDS, **FREE) for l2 in (0.02, 0.5)]
    kept = [release.dose_with_blocks for release in both]
    V, person = corners(4), 20
    matrix = sum(dose.fisher_blocks[person].matrix for dose in kept)
    assert kept[0].fisher_blocks[person].identity == kept[1].fisher_blocks[person].identity
    joint = float(np.sqrt(np.linalg.eigvalsh(matrix)[-1]))
    for row in np.flatnonzero(person == WHO):
        moves = [unit(1) / 0.5, *(np.append([0, 0], V[b] - V[a]) for a, b in combinations(range(4), 2))]
        for move in moves:
            steps = [np.linalg.norm(slope(move, [row], l2=l2)) / SIGMA for l2 in (0.02, 0.5)]
            assert np.hypot(*steps) <= joint * (1 + 1e-6)


@pytest.mark.parametrize("way", ["0 and 1", "nein and ja", "amounts", "truth"])
def test_the_released_pipeline_answers_as_the_weights_on_the_simplex_do(way: str) -> None:
    """From corners back to levels and own units: its answers are those of some weights, six deviations off at most."""
    people, sigma = table(hiv=column(way)), 0.01
    release = release_table(people, "y", scale=sigma, l2=L2, person="who", rng=np.random.Generator(np.random.PCG64(1)))
    answers = release.model.predict(pd.DataFrame({name: people[name] for name in ("age", "hiv", "town")}))
    design = np.column_stack([release.ready.design.X, np.ones(len(answers))])
    weights = np.linalg.lstsq(design, answers, rcond=None)[0]
    np.testing.assert_allclose(design @ weights, answers, atol=1e-9 * np.abs(answers).max())
    noise = weights - release.plan.fit.w
    assert np.abs(noise).min() > 1e-9
    assert np.abs(noise).max() < 6 * sigma


# --- other people's models ------------------------------------------------------------------------------------------

FRAME = pd.DataFrame({"age": AGE, "hiv": HIV, "town": TOWN})


def refit_steps(model: Any, X: Any, y: Any, row: int, pairs: Any) -> float:
    """The largest move of the weights of an sklearn model as one row of the encoded matrix goes from level to level."""
    norms = []
    for away in pairs:
        both = []
        for t in (1e-3, -1e-3):
            moved = X.copy()
            moved[row] += t * away
            again = model.fit(moved, y)
            both.append(np.append(np.ravel(again.coef_), again.intercept_))
        norms.append(np.linalg.norm(both[0] - both[1]) / 2e-3)
    return max(norms)


@pytest.mark.parametrize("drop", [None, "first", ["wien"]])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_category_behind_an_encoder_is_its_largest_real_step_whatever_is_dropped(drop: Any, loss: str) -> None:
    model: Any = Ridge(alpha=2.0) if loss == "squared" else LogisticRegression(solver="newton-cholesky", tol=1e-13)
    y = SCORE if loss == "squared" else ILL
    steps = make_column_transformer(
        (StandardScaler(), ["age"]), (OneHotEncoder(drop=drop, sparse_output=False), ["town"]), remainder="drop"
    )
    pipeline = make_pipeline(steps, model).fit(FRAME, y)
    leak = dm.measure(pipeline, FRAME, y, noise=dm.Gaussian(SIGMA))
    X = pipeline[:-1].transform(FRAME)
    levels = [X[np.flatnonzero(t == TOWN)[0], 1:] for t in ("graz", "linz", "ulm", "wien")]
    pairs = [np.append(0.0, b - a) for a, b in combinations(levels, 2)]
    for row in (0, 17):
        known = refit_steps(model, X, y, row, pairs) / SIGMA
        assert leak.cell("town")[row] == pytest.approx(known, rel=1e-4)
        assert known <= leak.leak.examples[row] * (1 + 1e-6)


@pytest.mark.parametrize("unit_of", ["sd", "raw"])
@pytest.mark.parametrize("way", ["0 and 1", "amounts", "truth"])
def test_a_number_of_two_values_in_a_users_model_is_read_by_its_step(way: str, unit_of: str) -> None:
    X = np.column_stack([AGE, column(way).astype(float)])
    model = Ridge(alpha=2.0).fit(X, SCORE)
    leak = dm.measure(model, X, SCORE, noise=dm.Gaussian(SIGMA), unit=unit_of)
    step = float(np.ptp(X[:, 1]))
    for row in (3, 9):
        known = refit_steps(Ridge(alpha=2.0), X, SCORE, row, [np.array([0.0, step])]) / SIGMA
        assert leak.cell("x1")[row] == pytest.approx(known, rel=1e-5)
        assert known <= leak.leak.examples[row] * (1 + 1e-6)
    assert leak.numbers == ("x0",)
    assert "category" in leak.sentence(3, "x1")


@pytest.mark.parametrize("unit_of", ["sd", "raw"])
def test_a_target_of_two_amounts_is_read_by_its_step(unit_of: str) -> None:
    y = np.where(ILL == 1, 7.0, 2.0)
    leak = fit_table(table(y=y), "y", l2=L2, noise=dm.Gaussian(SIGMA), loss="squared", unit=unit_of).leakage
    other = fit_table(table(y=ILL), "y", l2=L2, noise=dm.Gaussian(SIGMA), loss="squared", unit="raw").leakage
    np.testing.assert_allclose(leak.labels, 5 * other.labels, rtol=1e-9)  # five times the amount in one step
    np.testing.assert_allclose(leak.target_deviation, 5 / leak.labels, rtol=1e-12)
    assert (leak.labels <= leak.leak.examples * (1 + 1e-12)).all()


def test_a_class_among_several_is_read_by_the_step_from_one_to_another() -> None:
    y = np.digitize(SCORE, [-0.5, 0.8])
    model = LogisticRegression(solver="newton-cholesky", tol=1e-13).fit(FRAME[["age", "hiv"]], y)
    leak = dm.measure(model, FRAME[["age", "hiv"]], y, noise=dm.Gaussian(SIGMA), person=WHO)
    plain = glm.measure(leak.fit, leak.design.X, leak.fit.y, dm.Gaussian(SIGMA))
    J = plain.jacobian.dense(slice(None))[:, :, plain.m :]
    steps = [np.linalg.norm(J[:, :, a] - J[:, :, b], axis=1) for a, b in combinations(range(3), 2)]
    np.testing.assert_allclose(leak.labels, np.max(steps, axis=0), rtol=1e-9)
    assert (leak.labels <= leak.leak.examples * (1 + 1e-9)).all()
    shared = np.repeat(np.arange(3), 40)
    again = LogisticRegression(solver="newton-cholesky", tol=1e-13).fit(FRAME[["age", "hiv"]], shared)
    tied = dm.measure(again, FRAME[["age", "hiv"]], shared, noise=dm.Gaussian(SIGMA), person=WHO)
    plain = glm.measure(tied.fit, tied.design.X, tied.fit.y, dm.Gaussian(SIGMA))
    J = plain.jacobian.dense(np.array([6, 7]))[:, :, plain.m :].sum(axis=0)
    steps = [np.linalg.norm(J[:, a] - J[:, b]) for a, b in combinations(range(3), 2)]
    assert tied.tied_target
    np.testing.assert_allclose(tied.labels[6:8], max(steps), rtol=1e-9)


def test_an_estimator_keeps_the_step_of_a_column_of_two_values_within_its_limit() -> None:
    X = np.column_stack([AGE / 10, 40.0 * HIV])
    model = PrivateRidge(alpha=2.0, max_dose=0.5, random_state=0).fit(X, SCORE)
    sigma = float(model.release_.recipe.settings["scale"])
    for row in (3, 9):
        known = refit_steps(Ridge(alpha=2.0), X, SCORE, row, [np.array([0.0, 40.0])]) / sigma
        assert known <= 0.5


# --- on arrays -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [glm.Squared(), glm.Logistic()], ids=lambda loss: loss.name)
def test_the_closed_form_of_the_largest_step_is_that_of_dense_jacobians(loss: Any) -> None:
    y = SCORE if loss.name == "squared" else ILL.astype(float)
    fit = glm.fit(encode(), y, loss, L2, intercept=True)
    leak = glm.measure(fit, encode(), y, dm.Gaussian(SIGMA))
    J, V = leak.jacobian.dense(slice(None)), RNG.normal(size=(5, 3))
    V -= V.mean(axis=0)
    block = [2, 3, 4]
    moved = [np.linalg.norm(J[:, :, block] @ (V[a] - V[b]), axis=1) for a, b in combinations(range(5), 2)]
    np.testing.assert_allclose(leak.category(block, V), np.max(moved, axis=0), rtol=1e-10)
    groups = [np.array([0, 5, 9]), np.array([3]), np.arange(20, 60)]
    known = [
        max(np.linalg.norm(J[rows][:, :, block].sum(axis=0) @ (V[a] - V[b])) for a, b in combinations(range(5), 2))
        for rows in groups
    ]
    np.testing.assert_allclose(leak.category(block, V, groups), known, rtol=1e-10)


def test_a_step_that_all_but_cancels_keeps_its_digits() -> None:
    """x parallel to the weights' move: a γ u + r β is a difference of nearly equal vectors."""
    fit = glm.fit(encode(), SCORE, glm.Squared(), L2, intercept=True)
    leak = glm.measure(fit, encode(), SCORE, dm.Gaussian(1.0))
    from dataclasses import replace

    jacobian: Any = leak.jacobian
    u = jacobian.factor.rows(jacobian.X, jacobian.F.T)[7]
    # An unknown whose b is nearly -a g u / r for row 7, whatever else it does.
    wanted = -jacobian.a[7] * 1.0 * u / jacobian.r[7] * (1 + 1e-9)
    P = np.linalg.solve(jacobian.F @ jacobian.factor.columns(np.eye(6)), np.column_stack([wanted, 2 * wanted]))
    odd = replace(leak, jacobian=replace(jacobian, P=P, g=np.array([1.0, 2.0])))
    V = np.array([[-1.0, 0.0], [0.0, 0.5], [1.0, -0.5]])
    J = odd.jacobian.dense(np.array([7]))[0][:, :2]
    known = max(np.linalg.norm(J @ (V[a] - V[b])) for a, b in combinations(range(3), 2))
    assert known < 1e-6 * float(np.linalg.norm(jacobian.a[7] * u))
    assert odd.category([0, 1], V)[7] == pytest.approx(known, rel=1e-6)
