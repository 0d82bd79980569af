"""A trained network as a plain scikit-learn Pipeline over the clients' columns, which works without this package.

Numbers are scaled by the declared bounds (a MinMaxScaler to [-1, 1] that clips), texts become indicators of the
declared levels, and an unlisted level has none. Softmax regression becomes a LogisticRegression, a network with hidden
layers an MLPClassifier, with exactly the weights of the safetensors file. Nothing is fitted on anyone's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_list
from dosimeter.federated.networks import Network
from dosimeter.tables.client_rows import RowEncoding
from dosimeter.tables.public_encoding import level_values


def refuse_client_scales(encoding: RowEncoding) -> None:
    """Refuse columns that each client standardises: a pipeline does not know the mean of a row's client."""
    per_client = [name for name, ends in encoding.amounts.items() if ends is None]
    if per_client:
        raise Refusal(
            f"{safe_list(per_client, 4)}: standardised inside each client, which a pipeline cannot do for one row: "
            f"declare bounds with {option('bounds')}, or write {option('out', 'model.safetensors')}"
        )


def pipeline(encoding: RowEncoding | None, network: Network, model: Any, classes: Sequence[str]) -> Any:
    """A fitted Pipeline of the network with parameters model (d,); without an encoding it takes rows of numbers.

    Classes and levels that are whole numbers, such as 0 and 1, are numbers in the pipeline, as in a table.

    >>> encoding = RowEncoding("ill", ("no", "yes"), {"age": (0.0, 100.0)}, {"ward": ("a", "b")})
    >>> model = pipeline(encoding, Network((3, 2)), np.array([0.0, 9, 0, 0, 0, 0, 0, 0]), encoding.classes)
    >>> import pandas as pd
    >>> model.predict(pd.DataFrame({"ward": ["a", "nowhere"], "age": [80, 20]})).tolist()
    ['yes', 'no']
    """
    from sklearn.pipeline import Pipeline

    flat = np.asarray(model, dtype=np.float32).astype(np.float64)
    layers = [(W[0], b[0].sum(axis=0)) for W, b in network.layers(flat[None])]
    if encoding is None:
        return Pipeline([("model", _classifier(layers, level_values(classes)))])
    before, order = _columns(encoding)
    layers[0] = layers[0][0][order], layers[0][1]
    return Pipeline([("columns", before), ("model", _classifier(layers, level_values(classes)))])


def _columns(encoding: RowEncoding) -> tuple[Any, list[int]]:
    """A ColumnTransformer fitted on made-up rows, and the position in the encoding of each column that it returns."""
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

    refuse_client_scales(encoding)
    k, parts = len(encoding.amounts), []
    levels = [level_values(names) for names in encoding.categories.values()]
    order = list(range(k))
    for j, known in enumerate(levels):  # numbers are looked up by bisection
        place = np.argsort(known, kind="stable") if known.dtype.kind == "i" else np.arange(len(known))
        order += (len(order) + place).tolist()
        levels[j] = known[place]
    example = np.zeros((2, k + len(levels)), dtype=object)
    for j, ends in enumerate(encoding.amounts.values()):
        example[:, j] = ends
    for j, known in enumerate(levels, start=k):
        example[:, j] = [known.tolist()[0], known.tolist()[-1]]
    if k:
        parts.append(("amounts", MinMaxScaler(feature_range=(-1, 1), clip=True), list(range(k))))
    if levels:
        categories = [known.tolist() for known in levels]
        encoder = OneHotEncoder(categories=categories, handle_unknown="ignore", sparse_output=False)
        parts.append(("levels", encoder, list(range(k, k + len(levels)))))
    before = ColumnTransformer(parts).fit(example)
    if levels:  # of the kind that a frame's column has; the made-up rows are of all kinds
        kinds = [known if known.dtype.kind == "i" else known.astype(object) for known in levels]
        before.named_transformers_["levels"].categories_ = kinds
    # Fitted on an array, so that no dataframe library is needed; with the names, frames are read by name.
    names = np.array([*encoding.amounts, *encoding.categories], dtype=object)
    before.feature_names_in_ = names
    for part, part_names in (("amounts", names[:k]), ("levels", names[k:])):
        if len(part_names):
            before.named_transformers_[part].feature_names_in_ = part_names
    return before, order


def _classifier(layers: Sequence[tuple[FloatArray, FloatArray]], classes: Any) -> Any:
    """LogisticRegression or MLPClassifier with these layers, (in, out) and (out,) each; scikit-learn sorts classes."""
    order = np.argsort(classes, kind="stable")
    (W, b), hidden = layers[-1], list(layers[:-1])
    W, b = W[:, order], b[order]
    if len(classes) == 2:  # one output: the log-odds of the second
        W, b = W[:, 1:] - W[:, :1], b[1:] - b[:1]
    return _network([*hidden, (W, b)], classes[order]) if hidden else _softmax(W, b, classes[order])


def _softmax(W: FloatArray, b: FloatArray, classes: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression()
    classifier.coef_, classifier.intercept_, classifier.classes_ = np.ascontiguousarray(W.T), b, classes
    classifier.n_features_in_, classifier.n_iter_ = len(W), np.zeros(1, dtype=np.int32)
    return classifier


def _network(layers: Sequence[tuple[FloatArray, FloatArray]], classes: Any) -> Any:
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
