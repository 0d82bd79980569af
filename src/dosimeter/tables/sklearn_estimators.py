"""Fitted scikit-learn estimators that carry released numbers: linear models, classifiers, principal components.

Nothing is fitted on anyone's rows: weights are set, and what must be fitted to predict is fitted on made-up rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dosimeter import glm
from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import CannotMeasure
from dosimeter.tables.column_levels import level_values

if TYPE_CHECKING:
    from dosimeter.federated.networks import Network
    from dosimeter.pca.release import PrivateComponents


def linear_model(loss: Any, weights: FloatArray, offset: Any, classes: Any = None) -> Any:
    """A scikit-learn linear model of a loss with weights (d,) and an intercept, or (K, d) and K intercepts.

    classes: (2,) or (K,), for a loss of classes.
    """
    refuse_unexportable(loss)
    return EXPORTS[type(loss)](loss, weights, offset, classes)


def refuse_unexportable(loss: Any) -> None:
    """Refuse a loss that no scikit-learn model predicts with, before anything is drawn."""
    if type(loss) in EXPORTS and getattr(loss, "link_function", "log") in LINKS:
        return
    known = ", ".join(kind.name for kind in EXPORTS)
    raise CannotMeasure(
        f"a {loss.description} model is measured but not released here, because no estimator of scikit-learn predicts "
        f"as it does: use one of the losses {known}"
    )


LINKS = ("log", "identity")
"""Links of a mean that scikit-learn's regressors have."""


def _logistic_regression(loss: Any, weights: FloatArray, offset: Any, classes: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    example = np.eye(2, len(weights))
    # Fitted to 0 and 1: scikit-learn refuses classes such as 0.5 and 7.3, and predicts them all the same.
    model = LogisticRegression().fit(example + np.arange(2)[:, None], [0, 1])
    model.classes_ = np.unique(np.asarray(classes))
    model.coef_, model.intercept_ = weights[None, :], np.array([offset])
    return model


def _multinomial_regression(loss: Any, weights: FloatArray, offset: Any, classes: Any) -> Any:
    if len(weights) == 2:  # scikit-learn has one row for two classes: the log-odds of the second
        return _logistic_regression(loss, weights[1] - weights[0], float(offset[1] - offset[0]), classes)
    return _softmax(weights.T, np.asarray(offset), np.asarray(classes))


def _linear_regression(loss: Any, weights: FloatArray, offset: Any, classes: Any) -> Any:
    from sklearn.linear_model import LinearRegression

    model = LinearRegression().fit(np.eye(2, len(weights)), np.zeros(2))
    model.coef_, model.intercept_ = weights, offset
    for trace in ("rank_", "singular_"):
        if hasattr(model, trace):
            delattr(model, trace)
    return model


def _poisson_regressor(loss: Any, weights: FloatArray, offset: Any, classes: Any) -> Any:
    """Counts with the log link: the mean eᵐ, whatever the spread about it."""
    from sklearn.linear_model import PoissonRegressor

    return _with_weights(PoissonRegressor(), weights, offset)


def _power_regressor(loss: Any, weights: FloatArray, offset: Any, classes: Any) -> Any:
    """Positive numbers with variance μᵖ."""
    from sklearn.linear_model import GammaRegressor, TweedieRegressor

    if isinstance(loss, glm.Gamma) and loss.link_function == "log":
        return _with_weights(GammaRegressor(), weights, offset)
    return _with_weights(TweedieRegressor(power=float(loss.power), link=loss.link_function), weights, offset)


def _with_weights(regressor: Any, weights: FloatArray, offset: Any) -> Any:
    """A regressor that predicts only after a fit: fitted to made-up rows, then given the weights."""
    regressor.fit(np.eye(2, len(weights)), np.ones(2))
    regressor.coef_, regressor.intercept_ = weights, offset
    return regressor


def _huber_regressor(loss: Any, weights: FloatArray, offset: Any, classes: Any) -> Any:
    from sklearn.linear_model import HuberRegressor

    model = HuberRegressor(epsilon=loss.epsilon)
    model.coef_, model.intercept_, model.scale_ = weights, offset, float(loss.scale)
    model.n_features_in_, model.n_iter_ = len(weights), 0
    return model


def _linear_svc(loss: Any, weights: FloatArray, offset: Any, classes: Any) -> Any:
    from sklearn.svm import LinearSVC

    model = LinearSVC()
    model.coef_, model.intercept_, model.classes_ = weights[None, :], np.array([offset]), np.asarray(classes)
    model.n_features_in_, model.n_iter_ = len(weights), 0
    return model


def _linear_svr(loss: Any, weights: FloatArray, offset: Any, classes: Any) -> Any:
    from sklearn.svm import LinearSVR

    model = LinearSVR(epsilon=loss.epsilon, loss="squared_epsilon_insensitive")
    model.coef_, model.intercept_ = weights, np.array([offset])
    model.n_features_in_, model.n_iter_ = len(weights), 0
    return model


EXPORTS: dict[Any, Callable[[Any, FloatArray, Any, Any], Any]] = {
    glm.Squared: _linear_regression,
    glm.Logistic: _logistic_regression,
    glm.Softmax: _multinomial_regression,
    glm.Poisson: _poisson_regressor,
    glm.NegativeBinomial: _poisson_regressor,
    glm.Gamma: _power_regressor,
    glm.InverseGaussian: _power_regressor,
    glm.Tweedie: _power_regressor,
    glm.Huber: _huber_regressor,
    glm.SquaredHinge: _linear_svc,
    glm.SquaredEpsilonInsensitive: _linear_svr,
}
"""The scikit-learn model that a loss is released as, from the loss, its weights, the intercept and the classes. Probit
and cloglog have none: scikit-learn has no estimator whose probabilities are theirs."""


def network_classifier(network: Network, model: FloatArray, classes: Sequence[str], inputs: Index | None = None) -> Any:
    """The network with parameters model (d,): a LogisticRegression, or an MLPClassifier if it has hidden layers.

    Its weights are exactly those of the safetensors file. inputs: the network's input at each input of the classifier
    (`sklearn_export.input_order`). Classes that are whole numbers, such as 0 and 1, are numbers.

    >>> from dosimeter.federated.networks import Network
    >>> model = network_classifier(Network((1, 2)), np.array([0.0, 9.0, 0.0, 0.0]), ["no", "yes"])
    >>> model.predict([[0.8], [-0.2]]).tolist()
    ['yes', 'no']
    """
    layers = _layers(network, model, inputs)
    names = level_values(classes)
    order = np.argsort(names, kind="stable")  # scikit-learn sorts classes
    (W, b), hidden = layers[-1], layers[:-1]
    W, b = W[:, order], b[order]
    if len(names) == 2:  # one output: the log-odds of the second
        W, b = W[:, 1:] - W[:, :1], b[1:] - b[:1]
    return _perceptron([*hidden, (W, b)], names[order]) if hidden else _softmax(W, b, names[order])


def network_regressor(network: Network, model: FloatArray, inputs: Index | None = None) -> Any:
    """The network of a number with parameters model (d,): a LinearRegression, or an MLPRegressor with hidden layers.

    >>> from dosimeter.federated.networks import Network
    >>> network_regressor(Network((1, 1), end="identity"), np.array([2.0, 0.5])).predict([[1.0], [0.0]]).tolist()
    [2.5, 0.5]
    """
    layers = _layers(network, model, inputs)
    if len(layers) == 1:
        (W, b) = layers[0]
        return _linear_regression(None, W[:, 0], float(b[0]), None)
    return _regression_perceptron(layers)


def _layers(network: Network, model: FloatArray, inputs: Index | None) -> list[tuple[FloatArray, FloatArray]]:
    """Weights and biases of each layer, as the safetensors file has them."""
    flat = np.asarray(model, dtype=np.float32).astype(np.float64)
    layers = [(W[0], b[0].sum(axis=0)) for W, b in network.layers(flat[None])]
    if inputs is not None:
        layers[0] = layers[0][0][inputs], layers[0][1]
    return layers


def _regression_perceptron(layers: Sequence[tuple[FloatArray, FloatArray]]) -> Any:
    from sklearn.neural_network import MLPRegressor

    regressor = MLPRegressor(hidden_layer_sizes=tuple(W.shape[1] for W, _ in layers[:-1]), activation="relu")
    regressor.coefs_ = [np.ascontiguousarray(W) for W, _ in layers]
    regressor.intercepts_ = [b for _, b in layers]
    regressor.n_features_in_, regressor.n_outputs_ = len(layers[0][0]), 1
    regressor.n_layers_, regressor.n_iter_, regressor.t_ = len(layers) + 1, 0, 0
    regressor.out_activation_ = "identity"
    return regressor


def _softmax(W: FloatArray, b: FloatArray, classes: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression()
    classifier.coef_, classifier.intercept_, classifier.classes_ = np.ascontiguousarray(W.T), b, classes
    classifier.n_features_in_, classifier.n_iter_ = len(W), np.zeros(1, dtype=np.int32)
    return classifier


def _perceptron(layers: Sequence[tuple[FloatArray, FloatArray]], classes: Any) -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import LabelBinarizer

    classifier = MLPClassifier(hidden_layer_sizes=tuple(W.shape[1] for W, _ in layers[:-1]), activation="relu")
    classifier.coefs_ = [np.ascontiguousarray(W) for W, _ in layers]
    classifier.intercepts_ = [b for _, b in layers]
    classifier.n_features_in_, classifier.n_outputs_ = len(layers[0][0]), layers[-1][0].shape[1]
    classifier.n_layers_, classifier.n_iter_, classifier.t_ = len(layers) + 1, 0, 0
    classifier.out_activation_ = "softmax" if len(classes) > 2 else "logistic"
    classifier.classes_, classifier._label_binarizer = classes, LabelBinarizer().fit(classes)
    return classifier


def principal_components(private: PrivateComponents, k: int) -> Any:
    """scikit-learn's PCA with k released components; its variances are those of the noisy second moment."""
    from sklearn.decomposition import PCA

    components, d = private.components, private.box.d
    model = PCA(n_components=k)
    model.components_ = np.ascontiguousarray(components.vectors[:, :k].T)
    model.mean_ = components.mean.copy()
    model.explained_variance_ = components.values[:k].copy()
    total = float(components.values.sum())
    model.explained_variance_ratio_ = model.explained_variance_ / total if total > 0 else np.zeros(k)
    model.singular_values_ = np.sqrt(model.explained_variance_ * private.n_samples)
    model.noise_variance_ = float(components.values[k:].mean()) if k < d else 0.0
    model.n_components_, model.n_samples_, model.n_features_in_ = k, private.n_samples, d
    return model
