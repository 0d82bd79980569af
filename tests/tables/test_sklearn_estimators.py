"""Released weights as scikit-learn's own estimators: their predictions are those of the loss, also through a file."""

from __future__ import annotations

import numpy as np
import pytest
import skops.io as sio
from scipy.special import expit, softmax

from dosimeter import glm
from dosimeter.adapters.read_model import HARMLESS
from dosimeter.core.errors import CannotMeasure
from dosimeter.tables.sklearn_estimators import EXPORTS, linear_model

RNG = np.random.default_rng(2)
X = RNG.normal(size=(30, 4))
W, B = RNG.normal(size=4), 0.3
M = X @ W + B
TWO = np.array(["no", "yes"])
NUMBERS = {
    glm.Squared(): ("LinearRegression", M),
    glm.Poisson(): ("PoissonRegressor", np.exp(M)),
    glm.NegativeBinomial(0.5): ("PoissonRegressor", np.exp(M)),
    glm.Gamma(): ("GammaRegressor", np.exp(M)),
    glm.Gamma("identity"): ("TweedieRegressor", M),
    glm.InverseGaussian(): ("TweedieRegressor", np.exp(M)),
    glm.Tweedie(): ("TweedieRegressor", np.exp(M)),
    glm.Tweedie(2.5): ("TweedieRegressor", np.exp(M)),
    glm.Tweedie(0.0): ("TweedieRegressor", np.exp(M)),
    glm.Huber(1.5, 2.0): ("HuberRegressor", M),
    glm.SquaredEpsilonInsensitive(0.2): ("LinearSVR", M),
}
"""Loss -> the estimator and what it predicts of X."""


def through_a_file(model):
    data = sio.dumps(model)
    untrusted = sio.get_untrusted_types(data=data)
    assert set(untrusted) <= set(HARMLESS)
    return sio.loads(data, trusted=untrusted)


@pytest.mark.parametrize("loss", NUMBERS, ids=lambda loss: loss.description)
def test_a_regressor_predicts_the_mean_of_its_loss(loss):
    name, wanted = NUMBERS[loss]
    model = linear_model(loss, W, B)
    assert type(model).__name__ == name
    for one in (model, through_a_file(model)):
        np.testing.assert_allclose(one.predict(X), wanted, rtol=1e-12, atol=1e-13)
    if name == "TweedieRegressor":
        assert (model.power, model.link) == (loss.power, loss.link_function)


@pytest.mark.parametrize("loss", [glm.Logistic(), glm.SquaredHinge()], ids=lambda loss: loss.name)
def test_a_classifier_of_two_classes_is_on_the_right_side(loss):
    model = linear_model(loss, W, B, TWO)
    for one in (model, through_a_file(model)):
        np.testing.assert_array_equal(one.predict(X), TWO[(M > 0).astype(int)])
        np.testing.assert_allclose(one.decision_function(X), M, rtol=1e-12)
    if loss.name == "logistic":
        np.testing.assert_allclose(model.predict_proba(X)[:, 1], expit(M), rtol=1e-12)


@pytest.mark.parametrize("K", [2, 3, 7])
def test_a_classifier_of_several_classes_has_their_probabilities(K):
    classes = np.array([f"class {k}" for k in range(K)])
    weights, offsets = RNG.normal(size=(K, 4)), RNG.normal(size=K)
    logits = X @ weights.T + offsets
    model = linear_model(glm.Softmax(K, "mean"), weights, offsets, classes)
    assert model.coef_.shape == ((K, 4) if K > 2 else (1, 4))
    for one in (model, through_a_file(model)):
        np.testing.assert_allclose(one.predict_proba(X), softmax(logits, axis=1), rtol=1e-10)
        np.testing.assert_array_equal(one.predict(X), classes[logits.argmax(axis=1)])


@pytest.mark.parametrize("loss", NUMBERS, ids=lambda loss: loss.description)
def test_nothing_in_an_estimator_depends_on_anything_but_its_weights(loss):
    """Two estimators of unlike weights differ in these alone: what was fitted to made-up rows is the same."""
    one, other = (vars(linear_model(loss, w, b)) for w, b in ((W, B), (-W, 7.0)))
    noised = {"coef_", "intercept_"}
    for name in one.keys() - noised:
        assert repr(one[name]) == repr(other[name]) or type(one[name]).__module__.startswith("sklearn._loss")
    assert one.keys() == other.keys()


def test_a_loss_that_no_estimator_predicts_with_is_refused_by_name():
    for loss in (glm.Probit(), glm.ComplementaryLogLog(), glm.Gamma("inverse"), glm.InverseGaussian("inverse-squared")):
        with pytest.raises(CannotMeasure) as refusal:
            linear_model(loss, W, B, TWO)
        assert loss.description in str(refusal.value)
        assert all(kind.name in str(refusal.value) for kind in EXPORTS)
    assert {name for name, kind in glm.LOSSES.items() if kind not in EXPORTS} == {"probit", "cloglog"}
