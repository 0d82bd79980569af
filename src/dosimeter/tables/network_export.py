"""A trained network as a plain scikit-learn Pipeline over the clients' columns, which works without this package.

Amounts are scaled by the declared bounds (a MinMaxScaler to [-1, 1] that clips), texts become indicators of the
declared levels, and a level that is not listed has none. Softmax regression becomes a LogisticRegression, a network
with hidden layers an MLPClassifier, with the very numbers that the safetensors file holds. Nothing is fitted on
anybody's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_list
from dosimeter.federated.networks import Network
from dosimeter.tables.client_rows import RowEncoding
from dosimeter.tables.public_encoding import as_read


def refuse_own_scales(form: RowEncoding) -> None:
    """Refuse what a pipeline cannot do: standardise a row by the mean of a client that it does not know."""
    own = [name for name, ends in form.amounts.items() if ends is None]
    if own:
        raise Refusal(
            f"{safe_list(own, 4)}: standardised inside each client, which a pipeline cannot do for a row of nobody's: "
            "declare bounds with --bounds, or write --out model.safetensors"
        )


def pipeline(form: RowEncoding | None, network: Network, model: Any, classes: Sequence[str]) -> Any:
    """A fitted Pipeline of the network with parameters model (d,); without a form it takes rows of numbers as they are.

    Classes and levels that are whole numbers, such as 0 and 1, are so in the pipeline, as a table's reader gives them.

    >>> form = RowEncoding("ill", ("no", "yes"), {"age": (0.0, 100.0)}, {"ward": ("a", "b")})
    >>> made = pipeline(form, Network((3, 2)), np.array([0.0, 9, 0, 0, 0, 0, 0, 0]), form.classes)
    >>> import pandas as pd
    >>> made.predict(pd.DataFrame({"ward": ["a", "nowhere"], "age": [80, 20]})).tolist()
    ['yes', 'no']
    """
    from sklearn.pipeline import Pipeline

    flat = np.asarray(model, dtype=np.float32).astype(np.float64)
    layers = [(W[0], b[0].sum(axis=0)) for W, b in network.layers(flat[None])]
    if form is None:
        return Pipeline([("model", _classifier(layers, as_read(classes)))])
    before, order = _columns(form)
    layers[0] = layers[0][0][order], layers[0][1]
    return Pipeline([("columns", before), ("model", _classifier(layers, as_read(classes)))])


def _columns(form: RowEncoding) -> tuple[Any, list[int]]:
    """A ColumnTransformer fitted on made-up rows, and the place in the form's rows of each number that it gives."""
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

    refuse_own_scales(form)
    k, parts = len(form.amounts), []
    levels = [as_read(given) for given in form.categories.values()]
    order = list(range(k))
    for j, known in enumerate(levels):  # numbers are looked up by bisection
        place = np.argsort(known, kind="stable") if known.dtype.kind == "i" else np.arange(len(known))
        order += (len(order) + place).tolist()
        levels[j] = known[place]
    made = np.zeros((2, k + len(levels)), dtype=object)
    for j, ends in enumerate(form.amounts.values()):
        made[:, j] = ends
    for j, known in enumerate(levels, start=k):
        made[:, j] = [known.tolist()[0], known.tolist()[-1]]
    if k:
        parts.append(("amounts", MinMaxScaler(feature_range=(-1, 1), clip=True), list(range(k))))
    if levels:
        given = [known.tolist() for known in levels]
        encoder = OneHotEncoder(categories=given, handle_unknown="ignore", sparse_output=False)
        parts.append(("levels", encoder, list(range(k, k + len(levels)))))
    before = ColumnTransformer(parts).fit(made)
    if levels:  # of the kind that a frame's column has; the made-up rows are of all kinds
        kinds = [known if known.dtype.kind == "i" else known.astype(object) for known in levels]
        before.named_transformers_["levels"].categories_ = kinds
    # Fitted on an array, so that no dataframe library is needed; with the names, frames are read by name.
    names = np.array([*form.amounts, *form.categories], dtype=object)
    before.feature_names_in_ = names
    for part, own in (("amounts", names[:k]), ("levels", names[k:])):
        if len(own):
            before.named_transformers_[part].feature_names_in_ = own
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

    made = LogisticRegression()
    made.coef_, made.intercept_, made.classes_ = np.ascontiguousarray(W.T), b, classes
    made.n_features_in_, made.n_iter_ = len(W), np.zeros(1, dtype=np.int32)
    return made


def _network(layers: Sequence[tuple[FloatArray, FloatArray]], classes: Any) -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import LabelBinarizer

    made = MLPClassifier(hidden_layer_sizes=tuple(W.shape[1] for W, _ in layers[:-1]), activation="relu")
    made.coefs_ = [np.ascontiguousarray(W) for W, _ in layers]
    made.intercepts_ = [b for _, b in layers]
    made.n_features_in_, made.n_outputs_ = len(layers[0][0]), layers[-1][0].shape[1]
    made.n_layers_, made.n_iter_, made.t_ = len(layers) + 1, 0, 0
    made.out_activation_ = "softmax" if len(classes) > 2 else "logistic"
    made.classes_, made._label_binarizer = classes, LabelBinarizer().fit(classes)
    return made
