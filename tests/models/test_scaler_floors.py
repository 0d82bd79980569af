"""What a scaler of the table leaves at any noise, against refits of the scaler: weights, float32, sparse tables, texts.

Weights with noise N(0, I) are folded into raw units by the scaler. At any scale of the noise the information of the
fold is ½ tr(Σ⁻¹Σ')², Σ the covariance of the folded weights.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

import dosimeter as dm
from dosimeter.adapters.steps import feature
from dosimeter.models import counts

RNG = np.random.default_rng(3)
N = 40
NUMBERS = np.column_stack([RNG.normal(50.0, 10.0, N), RNG.gamma(2.0, 3.0, N)])
SCORE = NUMBERS @ [0.1, 0.2] + RNG.normal(size=N)
WEIGHTS = RNG.integers(1, 6, N).astype(float)
NOISE = dm.Gaussian(1e4)


def information(fitted, numbers, rows, columns, unit):
    """(k, k) of the fold about the cells (rows[i], columns[i]); fitted: table -> its scaler."""
    d, h = numbers.shape[1], 1e-5

    def covariance(values):
        zero, *units = fitted(values).transform(np.vstack([np.zeros(d), np.eye(d)]))
        fold = np.block([[np.diag(np.diagonal(np.array(units) - zero)), np.zeros((d, 1))], [zero, 1.0]])
        return fold @ fold.T

    moves = []
    for row, column in zip(rows, columns, strict=True):
        step = np.zeros_like(numbers)
        step[row, column] = h * unit[column]
        change = (covariance(numbers + step) - covariance(numbers - step)) / (2 * h)
        moves.append(np.linalg.solve(covariance(numbers), change))
    return np.array([[0.5 * np.trace(a @ b) for b in moves] for a in moves])


@pytest.mark.parametrize("options", [{}, {"with_mean": False}, {"with_std": False}])
def test_a_scaler_that_was_fitted_with_the_weights_of_the_rows_is_one_of_the_table(options):
    """Its mean and deviation are not those of the plain columns, so its values alone do not give it away."""

    def fitted(values):
        return StandardScaler(**options).fit(values, sample_weight=WEIGHTS)

    scaler = fitted(NUMBERS)
    model = make_pipeline(scaler, Ridge())
    model[-1].fit(scaler.transform(NUMBERS), SCORE, sample_weight=WEIGHTS)
    leak = dm.measure(model, NUMBERS, SCORE, noise=NOISE, unit="sd", sample_weight=WEIGHTS)
    unit = NUMBERS.std(axis=0)
    for row in (0, 5, int(np.argmax(NUMBERS[:, 1]))):
        found = np.linalg.eigvalsh(information(fitted, NUMBERS, [row, row], [0, 1], unit))[-1]
        assert leak.left[row] == pytest.approx(np.sqrt(found), rel=1e-5)
    assert not leak.result(limit=0.9 * leak.left.max()).verdict.within


@pytest.mark.parametrize("options", [{}, {"with_mean": False}, {"with_std": False}])
def test_a_scaler_of_levels_and_of_two_values_leaves_what_refits_of_it_show(options):
    """Steps between levels have length one; the two values are 0.5 and 7.3."""
    places, two = RNG.choice(["a", "b", "c"], N, p=[0.8, 0.15, 0.05]), np.where(np.arange(N) % 7 == 0, 0.5, 7.3)
    places[:3] = list("abc")
    frame = pd.DataFrame({"place": places, "two": two, "age": NUMBERS[:, 0]})
    before = make_column_transformer((OneHotEncoder(sparse_output=False), ["place"]), remainder="passthrough")
    model = make_pipeline(before, StandardScaler(**options), Ridge()).fit(frame, SCORE)
    leak = dm.measure(model, frame, SCORE, noise=NOISE, unit="sd")
    X = model[0].transform(frame)

    def fitted(values):
        return StandardScaler(**options).fit(values)

    simplex = np.sqrt(2.0) * (np.eye(3) - 1 / 3)
    unknowns = np.block([[simplex, np.zeros((3, 2))], [np.zeros((2, 3)), np.diag([6.8, frame["age"].std(ddof=0)])]])
    for row in (0, 1, 2, 7):
        found = information(fitted, X, [row] * 5, range(5), np.ones(5))
        assert leak.left[row] == pytest.approx(np.sqrt(np.linalg.eigvalsh(unknowns @ found @ unknowns)[-1]), rel=1e-5)
    assert not any("is not computed for these steps" in remark for remark in leak.remarks)
    assert not leak.result(limit=0.9 * leak.left.max()).verdict.within


def test_a_scaler_of_public_rows_leaves_nothing_beside_weights():
    public = StandardScaler().fit([[0.0, 1.0], [100.0, 30.0]])
    model = make_pipeline(public, Ridge())
    model[-1].fit(public.transform(NUMBERS), SCORE, sample_weight=WEIGHTS)
    leak = dm.measure(model, NUMBERS, SCORE, noise=NOISE, sample_weight=WEIGHTS)
    assert leak.left.max() == 0.0


@pytest.mark.parametrize("scaler", [MinMaxScaler, RobustScaler])
def test_a_scaler_of_a_table_in_float32_far_from_zero_is_recognised(scaler):
    """Its constants have seven digits, and behind it the values are off by that many deviations."""
    far = (NUMBERS * [1.0, 0.2] + [1e5, 0.0]).astype(np.float32)
    model = make_pipeline(scaler(), Ridge()).fit(far, SCORE)
    same = make_pipeline(scaler(), Ridge()).fit(far.astype(float), SCORE)
    leak, oracle = (
        dm.measure(made, table, SCORE, noise=NOISE, unit="sd")
        for made, table in ((model, far), (same, far.astype(float)))
    )
    np.testing.assert_allclose(leak.left, oracle.left, rtol=1e-5, atol=1e-12)


COUNTS = np.where(RNG.random((N, 5)) < 0.5, RNG.gamma(2.0, 3.0, (N, 5)), 0.0)
COUNTS[:, 4] = np.repeat(np.where(RNG.random(N // 2) < 0.6, RNG.gamma(2.0, 3.0, N // 2), 0.0), 2)
PEOPLE = [f"p{i // 2}" for i in range(N)]


@pytest.mark.parametrize("scaler", [StandardScaler(with_mean=False), MaxAbsScaler()])
@pytest.mark.parametrize("unit", ["raw", "sd"])
def test_scales_of_a_sparse_table_leave_what_refits_of_the_scaler_show(scaler, unit, monkeypatch):
    """By person: each column's scale is a separate number, and a tied column moves with all rows of a person."""
    monkeypatch.setattr(counts, "NARROW", 2)
    table = sparse.csr_array(COUNTS)
    target = (np.median(SCORE) < SCORE).astype(int)
    model = make_pipeline(scaler, LogisticRegression(tol=1e-10, max_iter=5000)).fit(table, target)
    leak = dm.measure(model, table, target, person=PEOPLE, noise=NOISE, unit=unit)
    assert sparse.issparse(leak.design.X)
    size = COUNTS.std(axis=0) if unit == "sd" else np.ones(5)

    def slopes(rows, column):
        ends = []
        for sign in (1.0, -1.0):
            moved = COUNTS.copy()
            moved[rows, column] += sign * 1e-6
            ends.append(np.log(clone(scaler).fit(moved).scale_[column]))
        return (ends[0] - ends[1]) / 2e-6 * size[column]

    found = []
    for person in range(N // 2):
        rows = [2 * person, 2 * person + 1]
        own = [sum(slopes([row], j) ** 2 for row in rows) for j in range(4)] + [slopes(rows, 4) ** 2]
        found.append(np.sqrt(2.0 * max(own)))
    np.testing.assert_allclose(leak.left, found, rtol=1e-5, atol=1e-9)
    assert leak.left.max() > 100 * leak.unit_scale_eta.max()
    assert not leak.result(limit=0.9 * leak.left.max()).verdict.within
    assert any("which is NOT in the figures" in remark for remark in leak.remarks)


def test_a_sparse_table_behind_scales_of_public_rows_has_no_floor(monkeypatch):
    monkeypatch.setattr(counts, "NARROW", 2)
    public = MaxAbsScaler().fit(np.full((1, 5), 50.0))
    model = make_pipeline(public, Ridge(solver="sparse_cg", tol=1e-12))
    table = sparse.csr_array(COUNTS)
    model[-1].fit(public.transform(table), SCORE)
    leak = dm.measure(model, table, SCORE, noise=NOISE)
    assert leak.left.max() == 0.0


@pytest.mark.parametrize("words", [CountVectorizer, TfidfVectorizer])
@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler])
def test_numbers_beside_a_text_have_the_floor_that_they_have_alone(words, scaler):
    frame = pd.DataFrame(NUMBERS, columns=["age", "bmi"])
    frame["note"] = [" ".join(RNG.choice(["ab", "cd", "ef", "gh"], 6)) for _ in range(N)]
    numbers = ["age", "bmi"]
    beside = make_pipeline(make_column_transformer((scaler(), numbers), (words(), "note")), Ridge()).fit(frame, SCORE)
    alone = make_pipeline(scaler(), Ridge()).fit(frame[numbers], SCORE)
    leak = dm.measure(beside, frame, SCORE, noise=NOISE, unit="sd")
    oracle = dm.measure(alone, frame[numbers], SCORE, noise=NOISE, unit="sd")
    np.testing.assert_allclose(leak.left, oracle.left, rtol=1e-9, atol=1e-15)
    assert leak.left.max() > 0.01
    assert not leak.result(limit=0.9 * leak.left.max()).verdict.within


def test_where_no_floor_is_computed_a_remark_says_so():
    bent = make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge()).fit(NUMBERS, SCORE)
    plain = make_pipeline(StandardScaler(), Ridge()).fit(NUMBERS, SCORE)
    said = [
        any(
            "is not computed for these steps" in remark for remark in dm.measure(m, NUMBERS, SCORE, noise=NOISE).remarks
        )
        for m in (bent, plain)
    ]
    assert said == [True, False]


def test_a_step_that_bends_beside_indicators_that_are_not_written_out_is_measured_without_a_floor(monkeypatch):
    monkeypatch.setattr(feature, "LARGE", 10)
    levels = [f"L{i % 300}" for i in range(900)]
    frame = pd.DataFrame({"age": RNG.normal(50.0, 10.0, 900), "place": levels})
    target = frame["age"] / 10 + RNG.normal(size=900)
    numbers = make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler())
    model = make_pipeline(
        make_column_transformer((numbers, ["age"]), (OneHotEncoder(), ["place"])),
        Ridge(solver="sparse_cg", tol=1e-12, max_iter=10_000),
    ).fit(frame, target)
    leak = dm.measure(model, frame, target, noise=NOISE)
    assert sparse.issparse(leak.design.X)
    assert any("is not computed for these steps" in remark for remark in leak.remarks)


@pytest.mark.parametrize("scaler", [StandardScaler, RobustScaler])
def test_a_limit_counts_the_dose_and_what_the_scaler_leaves_together(scaler):
    """Where both are equal: by refits of the pipeline, the weights in raw units say more than either."""
    model = make_pipeline(scaler(), Ridge()).fit(NUMBERS, SCORE)
    at_one = dm.measure(model, NUMBERS, SCORE, noise=dm.Gaussian(1.0), unit="sd")
    sigma = float(at_one.unit_scale_eta.max() / at_one.left.max())
    leak = dm.measure(model, NUMBERS, SCORE, noise=dm.Gaussian(sigma), unit="sd")
    either = max(leak.unit_scale_eta.max(), leak.left.max())

    def released(values, target):
        made = make_pipeline(scaler(), Ridge()).fit(values, target)
        zero, *units = made[0].transform(np.vstack([np.zeros(2), np.eye(2)]))
        fold = np.block([[np.diag(np.diagonal(np.array(units) - zero)), np.zeros((2, 1))], [zero, 1.0]])
        return fold @ np.append(made[1].coef_, made[1].intercept_), sigma**2 * fold @ fold.T

    inverse, h, found = np.linalg.inv(released(NUMBERS, SCORE)[1]), 1e-6, []
    for row in np.argsort(-leak.unit_scale_eta - leak.left)[:4]:
        means, covariances = [], []
        for j in range(3):
            ends = []
            for sign in (1.0, -1.0):
                values, target = NUMBERS.copy(), SCORE.copy()
                if j < 2:
                    values[row, j] += sign * h * NUMBERS[:, j].std()
                else:
                    target[row] += sign * h * SCORE.std()
                ends.append(released(values, target))
            means.append((ends[0][0] - ends[1][0]) / (2 * h))
            covariances.append(inverse @ (ends[0][1] - ends[1][1]) / (2 * h))
        shared = [[0.5 * np.trace(a @ b) for b in covariances] for a in covariances]
        found.append(np.linalg.eigvalsh(np.array(means) @ inverse @ np.array(means).T + shared)[-1])
    true = float(np.sqrt(max(found)))
    assert true > 1.05 * either
    assert not leak.result(limit=true * 0.999).verdict.within
    assert leak.result(limit=2.001 * either).verdict.within
