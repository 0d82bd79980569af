"""The estimators: scikit-learn's own checks, the dose they promise, and the plain model they release."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.errors import CannotMeasure
from dosimeter.estimators import (
    PrivateGammaRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateRidge,
    PrivateTweedieRegressor,
    highest_dose_scorer,
)

ALL = [
    PrivateLinearRegression,
    PrivateRidge,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateGammaRegressor,
    PrivateTweedieRegressor,
]
LOSSES = {
    PrivateLogisticRegression: glm.Logistic(),
    PrivatePoissonRegressor: glm.Poisson(),
    PrivateGammaRegressor: glm.Gamma(),
    PrivateTweedieRegressor: glm.Tweedie(1.5),
}
MEANS = (PrivatePoissonRegressor, PrivateGammaRegressor, PrivateTweedieRegressor)


def expected_failures(estimator):
    """Checks that cannot hold, each with its reason."""
    repeated = "a repeated row is two persons, a row of weight two is one: doses, and so the noise, differ"
    return {f"check_sample_weight_equivalence_on_{kind}_data": repeated for kind in ("dense", "sparse")}


@parametrize_with_checks([make() for make in ALL], expected_failed_checks=expected_failures)
def test_scikit_learns_own_checks_hold(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return StandardScaler().fit_transform(X), (y - y.mean()) / y.std()


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:, :8], y


def tasks(diabetes, cancer):
    counts, positive = np.round(np.exp(0.3 * diabetes[1])).clip(0), np.exp(0.3 * diabetes[1])
    return {
        PrivateLinearRegression: diabetes,
        PrivateRidge: diabetes,
        PrivateLogisticRegression: cancer,
        PrivatePoissonRegressor: (diabetes[0], counts),
        PrivateGammaRegressor: (diabetes[0], positive),
        PrivateTweedieRegressor: (diabetes[0], np.where(positive < 0.8, 0.0, positive)),
    }


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("max_dose", [0.3, 3.0])
def test_the_promised_dose_is_kept(make, max_dose, diabetes, cancer):
    X, y = tasks(diabetes, cancer)[make]
    model = make(max_dose=max_dose).fit(X, y)
    assert model.highest_dose_ <= max_dose
    # The rungs of the ladder are √2 apart, so no more noise than that is wasted.
    assert model.highest_dose_ > max_dose / 1.5
    # The oracle: measure a plain release with the same penalty at the recorded scale. Sex has two values, so its unit
    # is the step from one to the other.
    loss = LOSSES.get(make, glm.Squared())
    l2 = {PrivateLinearRegression: 0.0, **dict.fromkeys(MEANS, 1.0)}.get(make, 1.0 / len(X))  # alpha = 1, C = 1
    fit = glm.fit(X, y, loss, l2, intercept=True)
    scale = model.release_.recipe.settings["scale"]
    values = [np.unique(column) for column in X.T]
    steps = np.diag([v[1] - v[0] if len(v) == 2 else 1.0 for v in values])
    eta = glm.measure(fit, X, y, dm.Gaussian(scale), input_map=steps).examples.max()
    assert model.highest_dose_ == pytest.approx(eta, rel=1e-9)


@pytest.mark.parametrize("make", ALL)
def test_what_is_saved_reveals_neither_the_number_of_rows_nor_a_dose(make, diabetes, cancer):
    """Two tables, one a row shorter: everything saved is the same except the noisy numbers."""
    X, y = tasks(diabetes, cancer)[make]

    def saved(rows):
        state = dict(make(scale=0.5, max_dose=None).fit(X[:rows], y[:rows]).__getstate__())
        for noised in ("coef_", "intercept_"):
            assert np.isfinite(state.pop(noised)).all()
        release = state.pop("release_")
        return repr(state), repr(release), dict(release.recipe.settings), release.recipe.not_covered

    assert saved(len(X)) == saved(len(X) - 1)
    assert "highest_dose_" not in saved(len(X))[0]
    assert {"n", "l2"}.isdisjoint(saved(len(X))[2])


@pytest.mark.parametrize("make", ALL)
def test_the_released_model_is_plain_and_predicts_alike(make, diabetes, cancer):
    X, y = tasks(diabetes, cancer)[make]
    model = make(scale=0.01, max_dose=None).fit(X, y)
    plain = model.released_
    assert type(plain).__name__ == make.__name__.removeprefix("Private")
    assert type(plain).__module__.startswith("sklearn.")
    np.testing.assert_allclose(plain.predict(X), model.predict(X), rtol=1e-9, atol=1e-12)
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(plain.predict_proba(X), model.predict_proba(X), rtol=1e-9, atol=1e-12)
    assert not [name for name in vars(plain) if "dose" in name or "release" in name]


@pytest.mark.parametrize("make", ALL)
def test_little_noise_gives_the_weights_of_scikit_learn(make, diabetes, cancer):
    X, y = tasks(diabetes, cancer)[make]
    model = make(scale=1e-7, max_dose=None).fit(X, y)
    theirs = {
        PrivateLinearRegression: LinearRegression(),
        PrivateRidge: Ridge(alpha=1.0),
        PrivateLogisticRegression: LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000),
        PrivatePoissonRegressor: PoissonRegressor(alpha=1.0, tol=1e-10, max_iter=10_000),
        PrivateGammaRegressor: GammaRegressor(alpha=1.0, tol=1e-10, max_iter=10_000),
        PrivateTweedieRegressor: TweedieRegressor(power=1.5, alpha=1.0, tol=1e-10, max_iter=10_000),
    }[make].fit(X, y)
    np.testing.assert_allclose(np.ravel(model.coef_), np.ravel(theirs.coef_), rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X)[:, :5], np.array(["barolo", "grignolino", "barbera"])[y]


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_several_classes_have_a_row_of_weights_each_and_keep_the_dose(wine, fit_intercept):
    X, y = wine
    model = PrivateLogisticRegression(C=0.5, max_dose=1.0, fit_intercept=fit_intercept).fit(X, y)
    assert model.coef_.shape == (3, 5)
    assert model.intercept_.shape == (3,)
    assert model.classes_.tolist() == ["barbera", "barolo", "grignolino"]
    positions = np.searchsorted(model.classes_, y).astype(float)
    fit = glm.fit(X, positions, glm.Softmax(3, "mean"), 2.0 / len(X), intercept=fit_intercept)
    noise = dm.Gaussian(model.release_.recipe.settings["scale"])
    eta = glm.measure(fit, X, positions, noise, target_unit=np.sqrt(2.0)).examples.max()
    assert model.highest_dose_ == pytest.approx(eta, rel=1e-9)
    assert 1 / 1.5 < model.highest_dose_ <= 1.0
    plain = model.released_
    np.testing.assert_allclose(plain.predict_proba(X), model.predict_proba(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))
    np.testing.assert_allclose(plain.decision_function(X), model.decision_function(X), rtol=1e-9, atol=1e-12)


def test_several_classes_with_little_noise_are_those_of_scikit_learn(wine):
    X, y = wine
    model = PrivateLogisticRegression(scale=1e-7, max_dose=None).fit(X, y)
    theirs = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


def test_several_classes_have_no_other_kind_of_noise(wine):
    with pytest.raises(CannotMeasure, match="one margin, not softmax"):
        PrivateLogisticRegression(equalise=True).fit(*wine)
    with pytest.raises(CannotMeasure, match="softmax"):
        PrivateLogisticRegression(noise_shape="hessian").fit(*wine)


def test_the_power_of_a_variance_is_checked_and_kept(diabetes):
    X, y = diabetes[0], np.exp(0.3 * diabetes[1])
    assert PrivateTweedieRegressor(power=3, scale=0.1, max_dose=None).fit(X, y).released_.power == 3
    with pytest.raises(dm.Refusal, match="power must be 0, or a finite number >= 1"):
        PrivateTweedieRegressor(power=0.5).fit(X, y)


def test_two_fits_differ_and_a_seed_is_a_simulation(diabetes):
    X, y = diabetes
    first, second = (PrivateRidge().fit(X, y).coef_ for _ in range(2))
    assert (first != second).all()
    seeded = [PrivateRidge(random_state=3).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(seeded[0].coef_, seeded[1].coef_)
    assert seeded[0].release_.recipe.simulation
    assert "not for release" in repr(seeded[0].release_)
    assert not PrivateRidge().fit(X, y).release_.recipe.simulation


def test_a_scale_chosen_from_the_data_is_reported_and_a_stated_one_is_not(diabetes):
    X, y = diabetes
    assert any(
        "chosen from the data" in note for note in PrivateRidge(max_dose=1.0).fit(X, y).release_.recipe.not_covered
    )
    assert PrivateRidge(scale=0.1, max_dose=None).fit(X, y).release_.recipe.not_covered == ()


def test_equalising_meets_the_limit_with_the_reweighting_included(diabetes):
    X, y = diabetes
    model = PrivateRidge(max_dose=1.0, equalise=True, reweighting_rounds=5).fit(X[:150], y[:150])
    assert model.highest_dose_ <= 1.0
    assert model.release_.recipe.settings["reweightings"] == 5


def test_shaped_noise_costs_less_error_for_the_same_dose(diabetes):
    X, y = diabetes

    def loss(noise_shape):
        models = [PrivateRidge(0.5, max_dose=1.0, noise_shape=noise_shape, random_state=k).fit(X, y) for k in range(10)]
        return np.mean([np.mean((model.predict(X) - y) ** 2) for model in models])

    assert loss("hessian") < loss(None)


def test_the_estimators_work_in_a_pipeline_and_a_search(cancer):
    X, y = cancer
    search = GridSearchCV(
        make_pipeline(StandardScaler(), PrivateLogisticRegression(scale=0.1, max_dose=None, random_state=0)),
        {"privatelogisticregression__C": [0.01, 1.0]},
        scoring=highest_dose_scorer,
        cv=3,
    ).fit(X, y)
    # The stronger penalty leaks less, and the scorer prefers it.
    assert search.best_params_ == {"privatelogisticregression__C": 0.01}
    assert clone(search.best_estimator_) is not None


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_dose": None},
        {"scale": 1.0},
        {"max_dose": -1.0},
        {"max_dose": None, "scale": 0.0},
        {"noise": "pink"},
        {"noise_shape": "round"},
        {"noise_shape": "hessian", "equalise": True},
        {"equalise": 3},
        {"equalise": True, "reweighting_rounds": 0},
        {"noise": "exponential"},
    ],
    ids=str,
)
def test_invalid_settings_are_refused(parameters, diabetes):
    X, y = diabetes
    with pytest.raises(dm.Refusal):
        PrivateRidge(**parameters).fit(X, y)


def test_the_estimator_keeps_neither_the_exact_weights_nor_a_value_per_row(diabetes):
    X, y = diabetes
    model = PrivateRidge(max_dose=1.0).fit(X, y)
    exact = Ridge(alpha=1.0).fit(X, y).coef_
    for name, value in vars(model).items():
        array = np.asarray(value, dtype=object)
        assert array.size < len(X), name
        if name.endswith("_") and getattr(value, "shape", None) == exact.shape:
            assert not np.allclose(value, exact, rtol=1e-6), name
