"""A network as a scikit-learn pipeline: the same answers as the network itself, by plain arithmetic, in any order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import skops.io as sio
from scipy.special import softmax

from dosimeter.core.errors import Refusal
from dosimeter.federated.networks import Network
from dosimeter.tables.client_rows import RowEncoding, encode_client_rows
from dosimeter.tables.network_export import pipeline
from dosimeter.tables.public_encoding import level_values
from dosimeter.tables.table import Table

rng = np.random.default_rng(4)
N = 60
FORM = {"age": (0.0, 100.0), "bmi": (10.0, 60.0)}
WARDS, CODES = ("north", "east", "west"), ("7", "31", "5")


def frame(classes):
    return pd.DataFrame(
        {
            "bmi": rng.uniform(5, 70, N),  # beyond the bounds, too
            "age": rng.uniform(-5, 120, N),
            "ward": rng.choice([*WARDS, "elsewhere"], N),
            "code": rng.choice([7, 31, 5, 99], N),
            "ill": rng.choice(classes, N),
        }
    )


@pytest.mark.parametrize("classes", [("yes", "no"), ("b", "c", "a"), ("2", "0", "10")])
@pytest.mark.parametrize("hidden", [(), (6,), (5, 4)])
def test_a_pipeline_answers_as_its_network_does_and_by_name(classes, hidden):
    """The oracle is the encoding's own rows and the layers multiplied by hand; undeclared levels are not an error."""
    encoding = RowEncoding("ill", classes, FORM, {"ward": WARDS, "code": CODES})
    network = Network((encoding.width, *hidden, len(classes)))
    weights = rng.normal(0, 1.5, network.size)
    table = frame(classes)
    text = table.astype({"code": str, "ill": str})
    Z = encode_client_rows(Table.of(text.to_dict("list")), encoding, None).X
    for k, (W, b) in enumerate(network.layers(weights.astype(np.float32).astype(float)[None])):
        Z = (np.maximum(Z, 0) if k else Z) @ W[0] + b[0, 0]
    chances = softmax(Z, axis=1)
    exported = pipeline(encoding, network, weights, classes)
    loaded = sio.loads(sio.dumps(exported))
    assert sio.get_untrusted_types(data=sio.dumps(exported)) == []
    for model in (exported, loaded):
        names = np.array(list(map(str, model.classes_)))
        assert sorted(names) == sorted(classes)
        probabilities = model.predict_proba(table.drop(columns="ill"))
        np.testing.assert_allclose(
            probabilities, chances[:, [classes.index(name) for name in names]], rtol=1e-9, atol=1e-12
        )
        predictions = model.predict(table[["code", "ward", "bmi", "age"]])
        assert list(map(str, predictions)) == [classes[k] for k in chances.argmax(axis=1)]
    assert exported.classes_.dtype.kind == ("i" if classes[0].isdecimal() else "U")


def test_rows_of_numbers_go_in_as_they_are_without_an_encoding():
    network = Network((4, 3))
    weights = rng.normal(size=network.size)
    X = rng.normal(size=(20, 4))
    ((W, b),) = network.layers(weights.astype(np.float32).astype(float)[None])
    np.testing.assert_array_equal(
        pipeline(None, network, weights, ("0", "1", "2")).predict(X), (X @ W[0] + b[0, 0]).argmax(axis=1)
    )


def test_columns_that_each_client_standardises_have_no_pipeline():
    encoding = RowEncoding("ill", ("a", "b"), {"age": None, "bmi": (0.0, 1.0)}, {})
    with pytest.raises(Refusal, match=r"age: standardised inside each client.*bounds="):
        pipeline(encoding, Network((2, 2)), np.zeros(6), encoding.classes)


def test_names_are_numbers_only_where_all_are_and_none_is_lost():
    assert level_values(["0", "-1"]).tolist() == [0, -1]
    assert level_values(["1", "1.0"]).tolist() == ["1", "1.0"]
    assert level_values(["+1", "2"]).tolist() == ["+1", "2"]
    assert level_values(["--1", "2"]).tolist() == ["--1", "2"]
    assert level_values(["9" * 30, "2"]).tolist() == ["9" * 30, "2"]
