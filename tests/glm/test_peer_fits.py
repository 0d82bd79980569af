"""The weights of scikit-learn and statsmodels on the same problem: losses, links, offsets and penalised intercepts."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor, HuberRegressor, TweedieRegressor
from sklearn.svm import LinearSVC, LinearSVR

from dosimeter import glm

from .problems import table

sm = pytest.importorskip("statsmodels.api")
links = sm.families.links


def weighted(n):
    return np.random.default_rng(6).uniform(0.5, 2.0, n)


SKLEARN = {
    "gamma": (glm.Gamma(), lambda **o: GammaRegressor(**o)),
    "tweedie 0, auto": (glm.Squared(), lambda **o: TweedieRegressor(power=0, **o)),
    "tweedie 0, log": (glm.Tweedie(0.0), lambda **o: TweedieRegressor(power=0, link="log", **o)),
    "tweedie 1": (glm.Tweedie(1.0), lambda **o: TweedieRegressor(power=1, **o)),
    "tweedie 1.5": (glm.Tweedie(), lambda **o: TweedieRegressor(power=1.5, **o)),
    "tweedie 1.9": (glm.Tweedie(1.9), lambda **o: TweedieRegressor(power=1.9, **o)),
    "tweedie 2": (glm.Tweedie(2.0), lambda **o: TweedieRegressor(power=2, **o)),
    "tweedie 3": (glm.InverseGaussian(), lambda **o: TweedieRegressor(power=3, **o)),
}


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", SKLEARN)
def test_scikit_learn_finds_the_same_weights(name, intercept):
    loss, make = SKLEARN[name]
    X, y = table(loss, 200)
    weight, alpha = weighted(200), 0.02
    # Its Newton solver gives up where curvatures are negative.
    solver = "newton-cholesky" if loss.convex else "lbfgs"
    model = make(alpha=alpha, fit_intercept=intercept, tol=1e-12, max_iter=10_000, solver=solver)
    model.fit(X, y, sample_weight=weight)
    # It penalises the mean over the weights: nλ = α Σω.
    ours = glm.fit(X, y, loss, alpha * weight.sum() / 200, sample_weight=weight, intercept=intercept)
    theirs = np.append(model.coef_, [model.intercept_] * intercept)
    np.testing.assert_allclose(ours.w, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_liblinear_classifies_with_the_same_weights(C, intercept):
    X, y = table(glm.SquaredHinge(), 200)
    weight = weighted(200)
    model = LinearSVC(C=C, dual=False, tol=1e-12, max_iter=100_000, fit_intercept=intercept)
    model.fit(X, y, sample_weight=weight)
    ours = glm.fit(
        X,
        y,
        glm.SquaredHinge(),
        1 / (200 * C),
        sample_weight=weight,
        intercept=intercept,
        penalised_intercept=intercept,
    )
    theirs = np.append(model.coef_[0], [np.ravel(model.intercept_)[0]] * intercept)
    np.testing.assert_allclose(ours.w, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.4])
def test_liblinear_regresses_with_the_same_weights(epsilon, intercept):
    loss = glm.SquaredEpsilonInsensitive(epsilon)
    X, y = table(loss, 200)
    model = LinearSVR(
        epsilon=epsilon, C=0.3, loss="squared_epsilon_insensitive", dual=False, tol=1e-12, max_iter=100_000,
        fit_intercept=intercept,
    ).fit(X, y)  # fmt: skip
    ours = glm.fit(X, y, loss, 1 / (200 * 0.3), intercept=intercept, penalised_intercept=intercept)
    theirs = np.append(model.coef_, [np.ravel(model.intercept_)[0]] * intercept)
    np.testing.assert_allclose(ours.w, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_huber_regressor_is_ours_at_its_own_scale(intercept):
    X, y = table(glm.Huber(), 200)
    model = HuberRegressor(epsilon=1.5, alpha=0.1, tol=1e-12, fit_intercept=intercept, warm_start=True)
    # It also stops when its objective falls by less than 2e-9, whatever tol says; its warm start has an intercept.
    model.fit(X, y)
    for _ in range(9 if intercept else 0):
        try:
            model.fit(X, y)
        except ValueError:  # its line search finds no lower value any more: the last fit stands
            break
    loss = glm.Huber(1.5, float(model.scale_))
    ours = glm.fit(X, y, loss, model.scale_ * 0.1 / 200, intercept=intercept)
    theirs = np.append(model.coef_, [model.intercept_] * intercept)
    np.testing.assert_allclose(ours.w, theirs, rtol=1e-6, atol=1e-6)


families = sm.families
STATSMODELS = {
    "gamma inverse": (glm.Gamma("inverse"), families.Gamma(links.InversePower())),
    "gamma log": (glm.Gamma(), families.Gamma(links.Log())),
    "gamma identity": (glm.Gamma("identity"), families.Gamma(links.Identity())),
    "inverse Gaussian inverse-squared": (
        glm.InverseGaussian("inverse-squared"),
        families.InverseGaussian(links.InverseSquared()),
    ),
    "inverse Gaussian log": (glm.InverseGaussian(), families.InverseGaussian(links.Log())),
    "inverse Gaussian inverse": (glm.InverseGaussian("inverse"), families.InverseGaussian(links.InversePower())),
    "negative binomial 1": (glm.NegativeBinomial(), families.NegativeBinomial(alpha=1.0)),
    "negative binomial 0.25": (glm.NegativeBinomial(0.25), families.NegativeBinomial(alpha=0.25)),
    "probit": (glm.Probit(), families.Binomial(links.Probit())),
    "cloglog": (glm.ComplementaryLogLog(), families.Binomial(links.CLogLog())),
    "Gaussian log": (glm.Tweedie(0.0), families.Gaussian(links.Log())),
    "tweedie 1.5": (glm.Tweedie(), families.Tweedie(var_power=1.5, link=links.Log())),
    "poisson sqrt": (glm.Tweedie(1.0, "sqrt"), families.Poisson(links.Sqrt())),
    "poisson log": (glm.Poisson(), families.Poisson()),
    "squared": (glm.Squared(), families.Gaussian()),
    "logistic": (glm.Logistic(), families.Binomial()),
}


@pytest.mark.filterwarnings("ignore:The .* link function does not respect the domain")
@pytest.mark.parametrize("offset", [False, True], ids=["no offset", "offset"])
@pytest.mark.parametrize("name", STATSMODELS)
def test_statsmodels_finds_the_same_weights(name, offset):
    loss, family = STATSMODELS[name]
    X, y = table(loss, 200)
    weight, rng = weighted(200), np.random.default_rng(8)
    added = (rng.uniform(0.0, 0.3, 200) if loss.lowest_margin == 0 else 0.5 * rng.normal(size=200)) if offset else None
    exog = np.column_stack([X, np.ones(200)])
    model = sm.GLM(y, exog, family=family, freq_weights=weight, offset=added)
    ours = glm.fit(X, y, loss, sample_weight=weight, intercept=True, offset=added)
    # Its iterations are Fisher scoring, and converge slowly where the link is not canonical.
    theirs = model.fit(tol=1e-13, maxiter=2000, tol_criterion="params", start_params=ours.w + 0.01)
    np.testing.assert_allclose(ours.w, theirs.params, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ours.margin, theirs.predict(exog, offset=added, which="linear"), rtol=1e-6, atol=1e-8)


def test_an_exposure_is_an_offset_of_its_logarithm():
    X, y = table(glm.Poisson(), 200)
    exposure = np.random.default_rng(9).uniform(0.2, 5.0, 200)
    theirs = sm.GLM(y, np.column_stack([X, np.ones(200)]), family=families.Poisson(), exposure=exposure).fit(tol=1e-13)
    ours = glm.fit(X, y, glm.Poisson(), intercept=True, offset=np.log(exposure))
    np.testing.assert_allclose(ours.w, theirs.params, rtol=1e-6)


def test_statsmodels_penalises_each_column_by_its_own_weight():
    """fit_regularized(alpha=vector, L1_wt=0) penalises the mean: α |w|²/2 beside (1/n) Σ l."""
    X, y = table(glm.Poisson(), 200)
    alpha = np.array([0.3, 0.0, 0.05])
    theirs = sm.OLS(y, X).fit_regularized(method="elastic_net", alpha=alpha, L1_wt=0.0, maxiter=5000, cnvrg_tol=1e-14)
    np.testing.assert_allclose(glm.fit(X, y, glm.Squared(), alpha).w, theirs.params, rtol=1e-6)
