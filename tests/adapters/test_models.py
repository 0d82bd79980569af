"""Every translator against the library's own refit: one cell is moved and the model is fitted again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    RidgeCV,
    SGDClassifier,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC, LinearSVR

import dosimeter as dm
from dosimeter import glm
from dosimeter.adapters.coefficients import Coefficients

Array = NDArray[Any]
RNG = np.random.default_rng(5)
N = 40
X = RNG.normal(size=(N, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, -1.0]
MARGIN = X @ [0.8, -0.4, 0.6] + 0.3
NUMBER = MARGIN + RNG.normal(size=N)
BINARY = (NUMBER > 0).astype(int)
TEXTS = np.array(["no", "yes"])[BINARY]
THREE = np.digitize(NUMBER, [-0.5, 0.7])
COUNT = RNG.poisson(np.exp(0.5 * MARGIN)).astype(float)
WEIGHT = RNG.uniform(0.3, 3.0, size=N)

NEWTON = {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 1000}
Refit = Callable[[Array, Array], Any]


def logistic(**settings: Any) -> Refit:
    return lambda X, y, **fit_options: LogisticRegression(**{**NEWTON, **settings}).fit(X, y, **fit_options)


MODELS: dict[str, tuple[Refit, Array]] = {
    "LinearRegression": (lambda X, y, **fit_options: LinearRegression().fit(X, y, **fit_options), NUMBER),
    "LinearRegression, no intercept": (
        lambda X, y, **fit_options: LinearRegression(fit_intercept=False).fit(X, y, **fit_options),
        NUMBER,
    ),
    "Ridge": (lambda X, y, **fit_options: Ridge(alpha=3.0).fit(X, y, **fit_options), NUMBER),
    "Ridge, column target": (lambda X, y, **fit_options: Ridge(alpha=3.0).fit(X, y[:, None], **fit_options), NUMBER),
    "RidgeCV": (lambda X, y, **fit_options: RidgeCV(alphas=[2.0]).fit(X, y, **fit_options), NUMBER),
    "logistic": (logistic(C=0.3), BINARY),
    "logistic of text": (logistic(C=0.3), TEXTS),
    "logistic without penalty": (logistic(C=np.inf), BINARY),
    "logistic, no intercept": (logistic(C=0.3, fit_intercept=False), BINARY),
    "logistic, weights by class": (logistic(class_weight={0: 1.0, 1: 2.5}), BINARY),
    "logistic, balanced": (logistic(class_weight="balanced"), TEXTS),
    "liblinear": (logistic(C=0.3, solver="liblinear", tol=1e-14, max_iter=100_000), BINARY),
    "LinearSVC, scaled intercept": (
        lambda X, y, **fit_options: LinearSVC(
            C=0.4, intercept_scaling=5.0, dual=False, tol=1e-13, max_iter=100_000
        ).fit(X, y, **fit_options),
        BINARY,
    ),
    "LinearSVR, scaled intercept": (
        lambda X, y, **fit_options: LinearSVR(
            C=0.4, intercept_scaling=0.2, loss="squared_epsilon_insensitive", dual=False, tol=1e-13, max_iter=100_000
        ).fit(X, y, **fit_options),
        NUMBER,
    ),
    "softmax": (logistic(C=0.3), THREE),
    "softmax without penalty": (logistic(C=np.inf), THREE),
    "softmax, no intercept, balanced": (logistic(fit_intercept=False, class_weight="balanced"), THREE),
    "PoissonRegressor": (
        lambda X, y, **fit_options: PoissonRegressor(alpha=0.2, **NEWTON).fit(X, y, **fit_options),
        COUNT,
    ),
    "PoissonRegressor without penalty": (
        lambda X, y, **fit_options: PoissonRegressor(alpha=0.0, fit_intercept=False, **NEWTON).fit(X, y, **fit_options),
        COUNT,
    ),
}


UNWEIGHTED = {"RidgeCV"}
"""Models that are fitted without weights in both runs: their `fit` takes none, or (RidgeCV) also chooses by them."""


def parameters(model: Any) -> Array:
    """(q,) as `glm` orders them: the intercept last, class after class in the contrasts of the mean."""
    coef = np.atleast_2d(model.coef_)
    W = np.column_stack([coef, np.ravel(model.intercept_)]) if model.fit_intercept else coef
    return W[0] if len(W) == 1 else (glm.Softmax(len(W), "mean").contrast.T @ W).ravel()


def moved(refit: Callable[[Array], Any], X: Array, i: int, j: int, h: float = 1e-4) -> Array:
    """d parameters / d X[i, j] by refitting on both sides."""
    step = np.zeros_like(X)
    step[i, j] = h
    return (parameters(refit(X + step)) - parameters(refit(X - step))) / (2 * h)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", MODELS)
def test_the_jacobian_is_what_a_refit_by_scikit_learn_shows(name: str, weighted: bool) -> None:
    fit, y = MODELS[name]
    fit_options = {"sample_weight": WEIGHT} if weighted and name not in UNWEIGHTED else {}
    model = fit(X, y, **fit_options)
    leak = dm.measure(model, X, y, noise=dm.Gaussian(1.0), **fit_options)
    J = leak.leak.jacobian.dense(slice(None))
    np.testing.assert_allclose(leak.fit.w.T.ravel(), parameters(model), rtol=1e-5, atol=1e-7)
    for i, j in [(0, 0), (7, 1), (23, 2)]:
        slope = moved(lambda X: fit(X, y, **fit_options), X, i, j)
        np.testing.assert_allclose(J[i, :, j], slope, rtol=1e-4, atol=1e-4 * np.abs(J[i, :, j]).max())


@pytest.mark.parametrize("name", ["Ridge", "LinearRegression", "PoissonRegressor"])
def test_a_label_moves_the_weights_as_a_refit_shows(name: str) -> None:
    fit, y = MODELS[name]
    J = dm.measure(fit(X, y), X, y, noise=dm.Gaussian(1.0)).leak.jacobian.dense(slice(None))
    i, h = int(np.argmax(y)), 1e-4
    step = np.zeros(N)
    step[i] = h
    slope = (parameters(fit(X, y + step)) - parameters(fit(X, y - step))) / (2 * h)
    np.testing.assert_allclose(J[i, :, -1], slope, rtol=1e-4, atol=1e-6)


FAMILIES = {
    "gaussian": (sm.families.Gaussian(), NUMBER),
    "binomial": (sm.families.Binomial(), BINARY.astype(float)),
    "poisson": (sm.families.Poisson(), COUNT),
}


def glm_results(X: Array, y: Array, family: Any, **fit_options: Any) -> Any:
    return sm.GLM(y, sm.add_constant(X), family=family, **fit_options).fit(tol=1e-14, maxiter=200)


@pytest.mark.parametrize("weights", ["freq_weights", "var_weights", None])
@pytest.mark.parametrize("name", FAMILIES)
def test_statsmodels_results_are_what_their_refit_shows(name: str, weights: str | None) -> None:
    family, y = FAMILIES[name]
    fit_options = {weights: WEIGHT} if weights else {}
    leak = dm.measure(glm_results(X, y, family, **fit_options), X, y, noise=dm.Gaussian(1.0))
    J, h = leak.leak.jacobian.dense(slice(None)), 1e-4
    step = np.zeros_like(X)
    step[5, 1] = h
    both = [np.roll(glm_results(X + s * step, y, family, **fit_options).params, -1) for s in (1, -1)]
    slope = (both[0] - both[1]) / (2 * h)
    np.testing.assert_allclose(J[5, :, 1], slope, rtol=1e-4, atol=1e-4 * np.abs(slope).max())


def test_ordinary_least_squares_of_statsmodels_equals_scikit_learn() -> None:
    ours = dm.measure(sm.OLS(NUMBER, sm.add_constant(X)).fit(), X, NUMBER, noise=dm.Gaussian(0.1))
    theirs = dm.measure(LinearRegression().fit(X, NUMBER), X, NUMBER, noise=dm.Gaussian(0.1))
    np.testing.assert_allclose(ours.examples, theirs.examples, rtol=1e-9)


@pytest.mark.parametrize("name", ["link", "trials", "correlation", "L1"])
def test_statsmodels_results_outside_eq_13_are_refused(name: str) -> None:
    y, both = COUNT, np.column_stack([COUNT, 9 - np.minimum(COUNT, 9)])
    groups, constant = np.arange(N) // 4, sm.add_constant(X)
    results = {
        "link": lambda: glm_results(X, y, sm.families.Gaussian(sm.families.links.InversePower())),
        "trials": lambda: glm_results(X, both, sm.families.Binomial()),
        "correlation": lambda: sm.GEE(y, constant, groups=groups, cov_struct=sm.cov_struct.Exchangeable()).fit(),
        "L1": lambda: sm.GLM(y, constant, family=sm.families.Poisson()).fit_regularized(alpha=0.1, L1_wt=0.5),
    }[name]()
    with pytest.raises(dm.CannotMeasure):
        dm.measure(results, X, y, noise=dm.Gaussian(1.0))


def test_bare_coefficients_equal_the_model_they_came_from() -> None:
    model = LogisticRegression(C=0.5, **NEWTON).fit(X, BINARY)
    coef = dict(zip(["x0", "x1", "x2"], model.coef_[0].tolist(), strict=True))
    bare = Coefficients("logistic", l2=1 / (0.5 * N), intercept=float(model.intercept_[0]), coef=coef)
    ours = dm.measure(bare, X, BINARY, noise=dm.Gaussian(0.1))
    np.testing.assert_allclose(ours.examples, dm.measure(model, X, BINARY, noise=dm.Gaussian(0.1)).examples, rtol=1e-9)


def test_coefficients_are_found_by_name_in_any_order() -> None:
    model = Ridge(alpha=1.0).fit(X, NUMBER)
    coef = {"c": float(model.coef_[2]), "a": float(model.coef_[0]), "b": float(model.coef_[1])}
    bare = Coefficients("squared", l2=1 / N, intercept=float(model.intercept_), coef=coef)
    frame = {"a": X[:, 0], "extra": TEXTS, "b": X[:, 1], "c": X[:, 2]}
    leak = dm.measure(bare, frame, NUMBER, noise=dm.Gaussian(0.1))
    plain = dm.measure(model, X, NUMBER, noise=dm.Gaussian(0.1))
    np.testing.assert_allclose(leak.examples, plain.examples, rtol=1e-9)
    np.testing.assert_allclose(leak.cells["a"], plain.cells[:, 0], rtol=1e-9)


def test_a_choice_by_cross_validation_is_named_as_not_covered() -> None:
    model = RidgeCV(alphas=[0.1, 1.0, 10.0]).fit(X, NUMBER)
    leak = dm.measure(model, X, NUMBER, noise=dm.Gaussian(0.1))
    plain = dm.measure(Ridge(alpha=model.alpha_).fit(X, NUMBER), X, NUMBER, noise=dm.Gaussian(0.1))
    np.testing.assert_allclose(leak.examples, plain.examples, rtol=1e-9)
    assert leak.notes == ("l2 was chosen from the data by cross-validation: the choice is not covered",)
    assert leak.standing.value == "unaccounted"
    assert plain.standing.value == "exact"


def elastic(ratio: float) -> dict[str, Any]:
    """A share of L1 in the penalty: before scikit-learn 1.8 it counted only beside penalty="elasticnet"."""
    penalty = LogisticRegression().get_params()["penalty"]
    if penalty != "l2":
        return {"l1_ratio": ratio}
    return {"penalty": "l1"} if ratio == 1.0 else {"penalty": "elasticnet", "l1_ratio": ratio}


@pytest.mark.parametrize("y", [BINARY, THREE], ids=["binary", "three"])
@pytest.mark.parametrize("legacy", [True, False])
def test_logistic_regression_cv_is_its_chosen_c(y: Array, legacy: bool) -> None:
    settings: dict[str, Any] = dict(Cs=[0.1, 1.0], cv=3, scoring="neg_log_loss", **NEWTON)
    if "use_legacy_attributes" in LogisticRegressionCV().get_params():  # scikit-learn from 1.8 on
        settings |= {"l1_ratios": (0.0,), "use_legacy_attributes": legacy}
    else:  # its search splits classes one against the rest under newton-cholesky
        settings |= {"solver": "newton-cg", "tol": 1e-10}
    model = LogisticRegressionCV(**settings).fit(X, y)
    leak = dm.measure(model, X, y, noise=dm.Gaussian(0.1))
    plain = LogisticRegression(C=float(np.ravel(model.C_)[0]), **NEWTON).fit(X, y)
    np.testing.assert_allclose(leak.examples, dm.measure(plain, X, y, noise=dm.Gaussian(0.1)).examples, rtol=1e-6)
    assert len(leak.notes) == 1


def test_balanced_weights_are_named_as_not_covered() -> None:
    model = LogisticRegression(class_weight="balanced", **NEWTON).fit(X, BINARY)
    (note,) = dm.measure(model, X, BINARY, noise=dm.Gaussian(0.1)).notes
    assert "label counts" in note


@pytest.mark.parametrize("scaling", [0.3, 4.0])
def test_a_scaled_intercept_of_liblinear_is_the_weight_of_a_column_of_that_number(scaling: float) -> None:
    def weights(X: Array) -> Array:
        rows = np.column_stack([X, np.full(N, scaling)])
        w = LogisticRegression(C=0.3, fit_intercept=False, **NEWTON).fit(rows, BINARY).coef_[0]
        return np.append(w[:-1], scaling * w[-1])

    model = LogisticRegression(C=0.3, solver="liblinear", intercept_scaling=scaling).fit(X, BINARY)
    np.testing.assert_allclose(parameters(model), weights(X), rtol=1e-3, atol=1e-4)
    J = dm.measure(model, X, BINARY, noise=dm.Gaussian(1.0)).leak.jacobian.dense(slice(None))
    for i, j in [(0, 0), (7, 1), (23, 2)]:
        step = np.zeros_like(X)
        step[i, j] = 1e-4
        slope = (weights(X + step) - weights(X - step)) / 2e-4
        np.testing.assert_allclose(J[i, :, j], slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("C", "zeros"), [(0.6, 0), (0.06, 1)])
def test_an_intercept_under_the_l1_penalty_of_liblinear_is_a_weight_of_a_column_of_ones(C: float, zeros: int) -> None:
    def fit(X: Array) -> Any:
        model = LogisticRegression(solver="liblinear", C=C, tol=1e-13, max_iter=1_000_000, random_state=0)
        return model.set_params(**elastic(1.0)).fit(X, BINARY)

    model = fit(X)
    assert np.sum(model.coef_ == 0) >= zeros
    leak = dm.measure(model, X, BINARY, noise=dm.Gaussian(1.0))
    np.testing.assert_allclose(leak.fit.w, parameters(model), rtol=1e-6, atol=1e-9)
    for i in (0, 23):
        for j in range(3):
            slope = np.linalg.norm(moved(fit, X, i, j))
            assert np.asarray(leak.cells)[i, j] == pytest.approx(slope, rel=1e-4, abs=1e-7)


REFUSED = {
    "forest": (lambda: RandomForestClassifier(3, random_state=0).fit(X, BINARY), BINARY),
    "L1 logistic of three classes": (
        lambda: LogisticRegression(solver="saga", max_iter=20_000, **elastic(1.0)).fit(X, THREE),
        THREE,
    ),
    "L1 logistic with a scaled intercept": (
        lambda: LogisticRegression(solver="liblinear", intercept_scaling=10, **elastic(1.0)).fit(X, BINARY),
        BINARY,
    ),
    "L1 logistic of another penalty": (
        lambda: LogisticRegression(solver="saga", max_iter=20_000, **elastic(0.4)).fit(X, BINARY).set_params(C=0.2),
        BINARY,
    ),
    "lasso of another penalty": (lambda: Lasso(alpha=0.1).fit(X, NUMBER).set_params(alpha=0.05), NUMBER),
    "calibrated": (lambda: CalibratedClassifierCV(LogisticRegression(), cv=2).fit(X, BINARY), BINARY),
    "support vectors": (lambda: SVC().fit(X, BINARY), BINARY),
    "stochastic gradient": (lambda: SGDClassifier(random_state=0).fit(X, BINARY), BINARY),
    "neighbours": (lambda: KNeighborsClassifier(3).fit(X, BINARY), BINARY),
    "positive ridge": (lambda: Ridge(positive=True).fit(X, NUMBER), NUMBER),
    "positive regression": (lambda: LinearRegression(positive=True).fit(X, NUMBER), NUMBER),
    "unfitted": (lambda: LogisticRegression(), BINARY),
    "a class": (lambda: LogisticRegression, BINARY),
    "no model": (lambda: 3.0, BINARY),
    "scaled intercepts": (lambda: LinearSVC(intercept_scaling=10.0).fit(X, THREE), THREE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_measured_is_refused_in_one_sentence(name: str) -> None:
    model, y = REFUSED[name][0](), REFUSED[name][1]
    with pytest.raises(dm.CannotMeasure) as refusal:
        dm.measure(model, X, y, noise=dm.Gaussian(0.1))
    text = str(refusal.value)
    assert "\n" not in text
    assert ". " not in text.replace("eq. 13", "")
    assert len(text) < 250


@pytest.mark.parametrize("sigma", [dm.Gaussian(0.2), dm.Laplace(0.2)], ids=str)
def test_noise_on_all_rows_of_a_softmax_model_is_noise_on_its_contrasts(sigma: Any) -> None:
    """J in the K rows of weights, written out, against the K-1 contrasts that are measured."""
    leak = dm.measure(LogisticRegression(C=0.5, **NEWTON).fit(X, THREE), X, THREE, noise=sigma)
    J = dm.measure(LogisticRegression(C=0.5, **NEWTON).fit(X, THREE), X, THREE, noise=dm.Gaussian(1.0)).leak.jacobian
    contrast = np.kron(glm.Softmax(3, "mean").contrast, np.eye(4))
    for i in (0, 9):
        whole = sigma.whiten(contrast @ J.dense(np.array([i]))[0])
        assert np.linalg.norm(whole, 2) == pytest.approx(leak.examples[i], rel=1e-9)
