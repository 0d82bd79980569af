"""An encoding and an estimator as a scikit-learn pipeline: the model sees the design, in any order of columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import skops.io as sio
from scipy.special import softmax
from sklearn.dummy import DummyRegressor

from dosimeter import glm
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.federated.networks import Network
from dosimeter.tables.client_rows import ClientEncoding, encode_client_rows
from dosimeter.tables.column_encoding import CategoryColumn, NumberColumn, PartColumn, RangeColumn
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.sklearn_estimators import linear_model, network_classifier
from dosimeter.tables.sklearn_export import input_order, pipeline
from dosimeter.tables.table import Table
from dosimeter.tables.weight_folding import fold, model_inputs

rng = np.random.default_rng(4)
N = 60
NUMBERS = (RangeColumn("age", 0.0, 100.0), RangeColumn("bmi", 10.0, 60.0))
WARD = CategoryColumn("ward", ("north", "east", "west"), indicators=True)
CODE = CategoryColumn("code", ("7", "31", "5"), indicators=True)
FRAME = pd.DataFrame(
    {
        "bmi": rng.uniform(5, 70, N),  # beyond the bounds, too
        "age": rng.uniform(-5, 120, N),
        "ward": rng.choice(["north", "east", "west", "elsewhere"], N),
        "code": rng.choice([7, 31, 5, 99], N),
    }
)
TEXT = Table.of(FRAME.astype({"code": str}).to_dict("list"))
ENCODINGS = {
    "numbers as they are": (NumberColumn("age"), WARD),
    "numbers alone": (NumberColumn("bmi"), NumberColumn("age")),
    "bounds": NUMBERS,
    "bounds and labels": (*NUMBERS, WARD),
    "codes": (*NUMBERS, CODE, WARD),
    "labels alone": (CODE, WARD),
}


def seen(encoding: TableEncoding, frame: pd.DataFrame, width: int, **options) -> np.ndarray:
    """(n, width) what the last step gets of a frame, from a model that went through a file."""
    last = DummyRegressor().fit(np.zeros((2, width)), [0.0, 0.0])
    data = sio.dumps(pipeline(encoding, last, **options))
    kinds = sio.get_untrusted_types(data=data)
    assert kinds == (["numpy.dtype"] if "fills" in options else [])  # a SimpleImputer keeps the kind of its column
    return sio.loads(data, trusted=kinds)[:-1].transform(frame).astype(float)


@pytest.mark.parametrize("kinds", list(ENCODINGS))
def test_the_model_sees_the_design_by_name(kinds):
    """The oracle is the design of the same rows, which no scikit-learn step computes."""
    encoding = TableEncoding(ENCODINGS[kinds])
    design = encoding.design(TEXT)[:, input_order(encoding)]
    for frame in (FRAME, FRAME[FRAME.columns[::-1]]):
        np.testing.assert_allclose(seen(encoding, frame, design.shape[1]), design, rtol=1e-12, atol=1e-14)


def test_columns_that_a_release_clips_later_are_clipped_in_the_pipeline():
    encoding = TableEncoding((RangeColumn("age", 0.0, 100.0, clip=False),))
    design = encoding.design(TEXT)
    assert np.abs(design).max() > 1
    np.testing.assert_allclose(seen(encoding, FRAME, 1), np.clip(design, -1, 1), atol=1e-14)


@pytest.mark.parametrize("others", [None, 1])
@pytest.mark.parametrize("bounds", [None, (15.0, 60.0)])
def test_folded_weights_predict_what_the_fit_does(others, bounds):
    """A fit on the simplex and the released model of its folded weights, on rows outside the bounds and the lists."""
    number = NumberColumn("bmi", 37.5, 22.5, bounds)
    labels = (CategoryColumn("ward", WARD.levels, others), CategoryColumn("code", CODE.levels, others))
    encoding = TableEncoding((labels[0], number, labels[1]))
    listed = FRAME[FRAME.ward.isin(WARD.levels) & (FRAME.code != 99)] if others is None else FRAME
    table = Table.of(listed.astype({"code": str}).to_dict("list"))
    w = rng.normal(size=len(encoding.names) + 1)
    released = np.array([float(sum(a * w[j] for j, a in row.items())) for row in fold(encoding)])
    margin = encoding.design(table) @ w[:-1] + w[-1]
    np.testing.assert_allclose(model_inputs(encoding, table) @ released[:-1] + released[-1], margin, atol=1e-12)
    last = linear_model(glm.Squared(), released[:-1][input_order(encoding)], released[-1])
    np.testing.assert_allclose(pipeline(encoding, last).predict(listed), margin, atol=1e-12)


def test_gaps_are_filled_with_declared_constants():
    encoding = TableEncoding((*NUMBERS, WARD))
    frame, filled = FRAME.astype({"ward": object}), FRAME.copy()
    frame.loc[::3, "age"], filled.loc[::3, "age"] = np.nan, 40.0
    frame.loc[::4, "ward"], filled.loc[::4, "ward"] = None, "east"
    frame.loc[::8, "ward"] = np.nan
    inputs = seen(encoding, frame, 5, fills={"age": 40, "ward": "east", "not there": 1})
    np.testing.assert_allclose(inputs, encoding.design(Table.of(filled)), atol=1e-14)


@pytest.mark.parametrize("classes", [("yes", "no"), ("b", "c", "a"), ("2", "0", "10")])
@pytest.mark.parametrize("hidden", [(), (6,), (5, 4)])
def test_a_pipeline_answers_as_its_network_does_and_by_name(classes, hidden):
    """The oracle is the encoding's own rows and the layers multiplied by hand; undeclared levels are not an error."""
    encoding = ClientEncoding("ill", classes, TableEncoding((*NUMBERS, WARD, CODE)))
    network = Network((len(encoding.columns.names), *hidden, len(classes)))
    weights = rng.normal(0, 1.5, network.size)
    ill = rng.choice(classes, N)
    table = Table(("ill", *TEXT.names), (ill.astype(object), *TEXT.columns))
    Z = encode_client_rows(table, encoding, None).X
    for k, (W, b) in enumerate(network.layers(weights.astype(np.float32).astype(float)[None])):
        Z = (np.maximum(Z, 0) if k else Z) @ W[0] + b[0, 0]
    chances = softmax(Z, axis=1)
    last = network_classifier(network, weights, classes, input_order(encoding.columns))
    exported = pipeline(encoding.columns, last)
    loaded = sio.loads(sio.dumps(exported))
    assert sio.get_untrusted_types(data=sio.dumps(exported)) == []
    for model in (exported, loaded):
        names = np.array(list(map(str, model.classes_)))
        assert sorted(names) == sorted(classes)
        probabilities = model.predict_proba(FRAME)
        np.testing.assert_allclose(
            probabilities, chances[:, [classes.index(name) for name in names]], rtol=1e-9, atol=1e-12
        )
        predictions = model.predict(FRAME[["code", "ward", "bmi", "age"]])
        assert list(map(str, predictions)) == [classes[k] for k in chances.argmax(axis=1)]
    assert exported.classes_.dtype.kind == ("i" if classes[0].isdecimal() else "U")


def test_rows_of_numbers_go_in_as_they_are_without_an_encoding():
    network = Network((4, 3))
    weights = rng.normal(size=network.size)
    X = rng.normal(size=(20, 4))
    ((W, b),) = network.layers(weights.astype(np.float32).astype(float)[None])
    model = pipeline(None, network_classifier(network, weights, ("0", "1", "2")))
    np.testing.assert_array_equal(model.predict(X), (X @ W[0] + b[0, 0]).argmax(axis=1))


def test_columns_that_each_client_standardises_have_no_pipeline():
    encoding = TableEncoding((PartColumn("age"), RangeColumn("bmi", 0.0, 1.0)))
    with pytest.raises(Refusal, match=r"age: standardised inside each client.*bounds="):
        pipeline(encoding, network_classifier(Network((2, 2)), np.zeros(6), ("a", "b")))


@pytest.mark.parametrize("column", [PartColumn("age"), RangeColumn("age", 0.0, 1.0)])
def test_columns_that_are_not_of_a_fit_have_no_folded_weights(column):
    with pytest.raises(CannotMeasure, match="not encoded for a fit"):
        fold(TableEncoding((column,)))


def test_declared_levels_that_are_one_number_stay_texts(tmp_path):
    """ "1" and "1.0" are two declared levels: the encoder of the released file had refused them with a traceback."""
    import csv

    import skops.io as sio

    from dosimeter.cli.main import run

    rng = np.random.default_rng(0)
    with (tmp_path / "t.csv").open("w", newline="") as file:
        sheet = csv.writer(file)
        sheet.writerows([("code", "age"), *((("1", "1.0", "2")[k % 3], rng.normal()) for k in range(60))])
    (tmp_path / "b.toml").write_text('[code]\nlevels = ["1", "1.0", "2"]\n[age]\nlower = -5\nupper = 5\n')
    words = f"pca {tmp_path}/t.csv --bounds {tmp_path}/b.toml --epsilon 2 --out {tmp_path}/m.skops -q"
    assert run(words.split()) == 0
    model = sio.load(tmp_path / "m.skops")
    assert ["1", "1.0", "2"] in [list(c) for c in model[0].named_transformers_["labels"].categories_]
