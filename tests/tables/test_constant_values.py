"""Values that are constant within a person, against refits that change the value on all rows of the person at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge

import dosimeter as dm
from dosimeter.core.errors import Refusal
from dosimeter.models.fit_table import fit_table
from dosimeter.models.linear_release import release_table
from dosimeter.tables.constant_values import tie
from dosimeter.tables.table import Table

RNG = np.random.default_rng(12)
WHO = np.repeat(np.arange(40), RNG.integers(1, 13, 40))
N, L2, SIGMA = len(WHO), 0.01, 0.5
AGE = RNG.normal(60, 12, 40)[WHO]
STAY = RNG.gamma(2.0, 3.0, N)
ILL = (RNG.random(40) < expit((AGE[np.unique(WHO, return_index=True)[1]] - 60) / 8))[WHO].astype(float)
COST = (RNG.normal(9, 2, 40)[WHO] + 0.02 * AGE).round(3)
STAYS = {"patient": WHO, "age": AGE, "stay": STAY}
TARGETS = {"logistic": ("readmitted", ILL), "squared": ("cost", COST)}


def newton(X: Any, y: Any, loss: str) -> Any:
    """Weights and intercept of eq. 13, from nothing but its gradient and its Hessian."""
    A, w = np.column_stack([X, np.ones(len(X))]), np.zeros(X.shape[1] + 1)
    ridge = len(X) * L2 * np.diag([1.0] * X.shape[1] + [0.0])
    for _ in range(60):
        m = A @ w
        r, a = (expit(m) - y, expit(m) * expit(-m)) if loss == "logistic" else (m - y, np.ones(len(y)))
        w = w - np.linalg.solve((A.T * a) @ A + ridge, A.T @ r + ridge @ w)
    return w


def slope(moved: Any) -> Any:
    """d/dt of weights(t) at 0, by differences of fourth order."""
    h = 1e-3
    return (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h)


def by_refits(loss: str, rows: Any) -> tuple[float, float]:
    """(η of a person, η of their target): age and target one unknown each, a stay one a row; units are deviations.

    Mean and deviation are held fixed here; tests/glm/test_fitted_scaler.py refits through them.
    """
    X, y = np.column_stack([AGE, STAY]), TARGETS[loss][1]
    Z, unit = (X - X.mean(axis=0)) / X.std(axis=0), 1.0 if loss == "logistic" else y.std()

    def of_column(which: Any, j: int) -> Any:
        def moved(t: float) -> Any:
            A = Z.copy()
            A[which, j] += t
            return newton(A, y, loss)

        return slope(moved)

    def of_target(t: float) -> Any:
        b = y.copy()
        b[rows] += t * unit
        return newton(Z, b, loss)

    label = slope(of_target)
    J = np.column_stack([of_column(rows, 0), *(of_column([i], 1) for i in rows), label]) / SIGMA
    return float(np.linalg.norm(J, 2)), float(np.linalg.norm(label) / SIGMA)


@pytest.mark.parametrize("loss", TARGETS)
def test_a_target_that_never_changes_within_a_person_is_one_unknown(loss: str) -> None:
    target, y = TARGETS[loss]
    table = Table.of({**STAYS, target: y})
    leak = fit_table(table, target, l2=L2, noise=dm.Gaussian(SIGMA), person="patient", scaler="held").leakage
    free = fit_table(
        table, target, l2=L2, noise=dm.Gaussian(SIGMA), person="patient", not_tied=["age", target], scaler="held"
    ).leakage
    worst = max(leak.persons, key=lambda patient: leak.persons[patient])
    for patient in (worst, 0, 7):
        rows = np.flatnonzero(patient == WHO)
        person, label = by_refits(loss, rows)
        assert leak.persons[patient] == pytest.approx(person, rel=1e-6)
        np.testing.assert_allclose(leak.labels[rows], label, rtol=1e-6)
        unit = 1.0 if loss == "logistic" else y.std()
        np.testing.assert_allclose(leak.target_deviation[rows], unit / label, rtol=1e-6)
    rows = np.flatnonzero(worst == WHO)
    assert leak.persons[worst] > 1.4 * free.persons[worst]  # what the separate labels had hidden
    assert leak.labels[rows[0]] > 2.5 * free.labels[rows].max()
    assert f"one value on {len(rows)} rows of this person" in leak.sentence(int(rows[0]), target)
    assert leak.group("patient") == pytest.approx(leak.persons)


def test_fix_calibrates_on_the_persons_one_target() -> None:
    release = release_table(
        Table.of({**STAYS, "cost": COST}), "cost", max_dose=2.0, l2=L2, person="patient", scaler="held"
    )
    scale = float(release.plan.settings["scale"] or 0.0)
    figures = {
        patient: by_refits("squared", np.flatnonzero(patient == WHO))[0] * SIGMA / scale for patient in (0, 3, 20)
    }
    for patient, eta in figures.items():
        assert release.doses[patient] == pytest.approx(eta, rel=1e-6)
    assert release.doses.max() == pytest.approx(release.plan.highest)
    assert release.doses.max() <= 2.0
    blocks = release.dose_with_blocks.fisher_blocks
    assert blocks[0].unknowns[-2:] == ("*/age/0", "*/label")
    for noise in ({"noise_shape": "hessian"}, {"reweighting_rounds": 2}):
        kept = release_table(Table.of({**STAYS, "cost": COST}), "cost", max_dose=2.0, l2=L2, person="patient", **noise)
        free = release_table(
            Table.of({**STAYS, "cost": COST}), "cost", max_dose=2.0, l2=L2, person="patient",
            not_tied=["age", "cost"], **noise,
        )  # fmt: skip
        assert kept.plan.settings["scale"] > free.plan.settings["scale"]


def test_a_users_own_model_is_read_with_the_target_tied() -> None:
    X = np.column_stack([AGE, STAY])
    model = Ridge(alpha=1.0).fit(X, COST)
    leak = dm.measure(model, X, COST, person=WHO, noise=dm.Gaussian(SIGMA))
    free = dm.measure(model, X, COST, person=WHO, noise=dm.Gaussian(SIGMA), not_tied=["y", "x0"])
    assert leak.tied_target
    assert leak.tied == ("x0",)
    assert not free.tied_target
    assert not free.tied
    patient, rows = 3, np.flatnonzero(WHO == 3)
    move = (
        Ridge(alpha=1.0).fit(X, COST + 0.1 * (patient == WHO)),
        Ridge(alpha=1.0).fit(X, COST - 0.1 * (patient == WHO)),
    )
    up, down = (np.append(m.coef_, m.intercept_) for m in move)
    np.testing.assert_allclose(leak.labels[rows], np.linalg.norm(up - down) / 0.2 / SIGMA, rtol=1e-9)
    known = dm.measure(model, X, COST, person=WHO, noise=dm.Gaussian(SIGMA), known_target=True)
    assert not known.tied_target
    assert not any("target" in remark for remark in known.remarks)


def test_a_column_with_the_targets_name_does_not_untie_the_target() -> None:
    model = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(np.column_stack([AGE, STAY]), ILL)
    frame = {"y": AGE, "stay": STAY}
    import pandas as pd

    leak = dm.measure(model, pd.DataFrame(frame).to_numpy(), ILL, person=WHO, noise=dm.Gaussian(SIGMA))
    named = dm.measure(
        LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(pd.DataFrame(frame), ILL),
        pd.DataFrame(frame), ILL, person=WHO, noise=dm.Gaussian(SIGMA),
    )  # fmt: skip
    assert named.tied_target
    assert named.tied == ("y",)
    assert named.persons == pytest.approx(leak.persons, rel=1e-6)


def test_ties_that_contradict_the_table_or_each_other_are_refused() -> None:
    columns, ids = {"age": AGE, "stay": STAY}, WHO.tolist()
    assert tie(columns, ILL, ids, "ill", ["ill"]).target
    for arguments, message in (
        ((["stay"], []), "column stay is tied but not constant"),
        ((["age"], ["age"]), "both tied and not tied"),
        (([], ["agee"]), "did you mean age"),
    ):
        with pytest.raises(Refusal, match=message):
            tie(columns, ILL, ids, "ill", *arguments)
    with pytest.raises(Refusal, match="the target ill is tied but not constant"):
        tie(columns, STAY, ids, "ill", ["ill"])
    with pytest.raises(Refusal, match="taken as known"):
        tie(columns, None, ids, "ill", [], ["ill"])
    with pytest.raises(Refusal, match="person"):
        tie(columns, ILL, None, "ill", [], ["age"])


def test_a_typing_error_that_unties_a_column_is_reported() -> None:
    ids, born = np.repeat(np.arange(40), 2), np.repeat(RNG.normal(size=40), 2)
    born[7] += 1
    tied = tie({"born": born, "stay": RNG.normal(size=80)}, RNG.normal(size=80), ids.tolist(), "y")
    assert tied.columns == ()
    (remark,) = tied.remarks
    assert remark.startswith("not tied: born, which changes within few people only")


def test_nothing_is_tied_if_every_person_has_one_row_or_a_column_has_one_value() -> None:
    assert tie({"age": AGE}, ILL, list(range(N)), "ill").columns == ()
    fitted = fit_table(
        Table.of({**STAYS, "one": np.ones(N), "cost": COST}), "cost", l2=L2, noise=dm.Gaussian(1.0), person="patient"
    )
    assert fitted.leakage.tied == ("age",)
    X = np.column_stack([AGE, STAY, np.ones(N)])
    model = Ridge(fit_intercept=False).fit(X, COST)
    assert dm.measure(model, X, COST, person=WHO, noise=dm.Gaussian(1.0)).tied == ("x0",)
