"""Every step against refits: numbers by derivative, categories by the real step between two of their levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.special import logit
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA, FactorAnalysis, FastICA, IncrementalPCA, TruncatedSVD
from sklearn.feature_selection import (
    RFE,
    SelectFromModel,
    SelectKBest,
    SelectPercentile,
    SequentialFeatureSelector,
    VarianceThreshold,
    f_regression,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, MissingIndicator
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    Nystroem,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.linear_model import Ridge
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

import dosimeter as dm
from dosimeter.adapters.steps import STEPS, Route
from dosimeter.adapters.steps.registry import kind_of
from tests.adapters.steps.own_steps import Ratio, Region, Steps, TownSize, TownTimes, Waves, Winsor
from tests.adapters.steps.refits import FRAME, MODELS, QUANTILES, dense, fit_pipeline, largest_step, refit_slope, target

TOWNS = ["graz", "linz", "ulm", "wien"]
ROWS = (3, 21, 48)


@dataclass(frozen=True)
class Case:
    steps: Any
    numbers: tuple[str, ...] = ()
    """Columns that have a derivative."""
    levels: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    """Columns that step between these cells."""
    standing: str = "unaccounted"


def on(step: Any, *columns: str, rest: tuple[str, ...] = ("bmi",)) -> ColumnTransformer:
    """A step on some columns, beside others as they are."""
    return make_column_transformer((step, list(columns)), (StandardScaler(), list(rest)))


TOWN = (("town", tuple(TOWNS)),)
VISITS = (("visits", tuple(map(float, range(7)))),)
SMOKES = (("smokes", (0.0, 1.0)),)
SQUARE_AND_CUBE = FunctionTransformer(lambda X: np.column_stack([np.asarray(X) ** 2, np.asarray(X) ** 3 / 50]))


CASES: dict[str, Case] = {
    # affine
    "StandardScaler": Case(on(StandardScaler(), "age"), ("age", "bmi")),
    "MinMaxScaler": Case(on(MinMaxScaler((-1, 2)), "age", "dose"), ("age", "dose")),
    "MaxAbsScaler": Case(on(MaxAbsScaler(), "age"), ("age",)),
    "RobustScaler": Case(on(RobustScaler(), "age", "dose"), ("age", "dose")),
    "PCA": Case(make_pipeline(on(StandardScaler(), "age", "dose"), PCA(2)), ("age", "bmi", "dose")),
    "PCA, whitened": Case(on(PCA(2, whiten=True), "age", "dose", "share"), ("age", "share")),
    "IncrementalPCA": Case(on(IncrementalPCA(2), "age", "dose", "share"), ("age", "share")),
    "TruncatedSVD": Case(on(TruncatedSVD(2, random_state=0), "age", "dose", "share"), ("age", "share")),
    "FactorAnalysis": Case(on(FactorAnalysis(1), "age", "dose", "share"), ("age", "share")),
    "FastICA": Case(on(FastICA(2, random_state=0, whiten="unit-variance"), "age", "dose"), ("age", "dose")),
    "GaussianRandomProjection": Case(
        on(GaussianRandomProjection(2, random_state=0), "age", "dose", "share", rest=()),
        ("age", "share"),
        standing="exact",
    ),
    "SparseRandomProjection": Case(
        on(SparseRandomProjection(3, density=0.6, random_state=1), "age", "dose", "share", "bmi"), ("age", "dose")
    ),
    "SelectKBest": Case(make_pipeline(on(RobustScaler(), "age", "dose"), SelectKBest(f_regression, k=2)), ("age",)),
    "SelectPercentile": Case(
        make_pipeline(on(RobustScaler(), "age", "dose"), SelectPercentile(f_regression, percentile=70)), ("age",)
    ),
    "SelectFromModel": Case(
        make_pipeline(on(RobustScaler(), "age", "dose"), SelectFromModel(Ridge())), ("age", "dose")
    ),
    "RFE": Case(make_pipeline(on(RobustScaler(), "age", "dose"), RFE(Ridge(), n_features_to_select=2)), ("age",)),
    "VarianceThreshold": Case(make_pipeline(on("passthrough", "age", "share"), VarianceThreshold(0.5)), ("age",)),
    "SequentialFeatureSelector": Case(
        make_pipeline(on(RobustScaler(), "age", "dose"), SequentialFeatureSelector(Ridge(), n_features_to_select=2)),
        ("age",),
    ),
    "FeatureUnion": Case(
        make_pipeline(
            on("passthrough", "age", "dose"),
            FeatureUnion(
                [("scaled", MinMaxScaler()), ("same", "passthrough"), ("gone", "drop"), ("pca", PCA(1))],
                transformer_weights={"scaled": 3.0},
            ),
        ),
        ("age", "dose"),
    ),
    "ColumnTransformer": Case(
        make_pipeline(
            on(StandardScaler(), "age", "dose").set_output(transform="pandas"),
            make_column_transformer(
                (PolynomialFeatures(2, include_bias=False), ["standardscaler-1__age"]), remainder="passthrough"
            ),
        ),
        ("age", "dose"),
    ),
    "Pipeline": Case(
        on(make_pipeline(StandardScaler(), make_pipeline(PolynomialFeatures(2), StandardScaler())), "age"), ("age",)
    ),
    "FrozenEstimator": Case(on(FrozenEstimator(PowerTransformer().fit(FRAME[["age"]])), "age"), ("age",)),
    # smooth
    "clipped to its range": Case(on(MinMaxScaler(clip=True), "age", "dose"), ("age", "dose")),
    "PolynomialFeatures": Case(
        on(make_pipeline(StandardScaler(), PolynomialFeatures(3)), "age", "dose"), ("age", "dose")
    ),
    "polynomials, interactions only": Case(
        on(
            make_pipeline(StandardScaler(), PolynomialFeatures(3, interaction_only=True, include_bias=False)),
            "age",
            "dose",
            "share",
        ),
        ("age", "dose", "share"),
    ),
    "polynomials, degrees 2 to 4, sparse order": Case(
        on(make_pipeline(StandardScaler(), PolynomialFeatures((2, 4), order="F")), "age", "dose"), ("age", "dose")
    ),
    "polynomials of a number of two values": Case(
        on(make_pipeline(StandardScaler(), PolynomialFeatures((2, 3))), "age", "smokes"), ("age",), SMOKES
    ),
    "SplineTransformer": Case(on(SplineTransformer(4, degree=3), "age", "dose"), ("age", "dose")),
    "splines, quantile knots, linear": Case(
        on(SplineTransformer(5, degree=2, knots="quantile", extrapolation="linear", include_bias=False), "age", "dose"),
        ("age", "dose"),
    ),
    "splines, periodic": Case(on(SplineTransformer(5, degree=3, extrapolation="periodic"), "age"), ("age",)),
    "splines, continued, sparse": Case(
        on(SplineTransformer(3, extrapolation="continue", sparse_output=True), "age"), ("age",)
    ),
    "splines of degree 1": Case(on(SplineTransformer(4, degree=1, knots="quantile"), "age"), ("age",)),
    "PowerTransformer": Case(on(PowerTransformer(), "age", "dose"), ("age", "dose")),
    "box-cox": Case(on(PowerTransformer("box-cox"), "dose", "share"), ("dose", "share")),
    "powers, not standardised": Case(on(PowerTransformer(standardize=False), "age", "dose"), ("age", "dose")),
    "QuantileTransformer": Case(on(QuantileTransformer(n_quantiles=12), "age", "dose"), ("age", "dose")),
    "quantiles to normal": Case(
        on(QuantileTransformer(n_quantiles=12, output_distribution="normal"), "age", "dose"), ("age", "dose")
    ),
    "quantiles of whole numbers": Case(on(QuantileTransformer(n_quantiles=30), "visits"), (), VISITS),
    "FunctionTransformer": Case(on(FunctionTransformer(np.log), "dose", "age"), ("dose", "age")),
    "log1p": Case(on(FunctionTransformer(np.log1p), "dose"), ("dose",)),
    "logit": Case(on(FunctionTransformer(logit), "share"), ("share",)),
    "square root": Case(on(FunctionTransformer(np.sqrt), "dose", "share"), ("dose", "share")),
    "the identity": Case(on(FunctionTransformer(), "age"), ("age",)),
    "Normalizer": Case(on(Normalizer(), "age", "bmi", "dose", rest=("share",)), ("age", "dose")),
    "l1": Case(on(Normalizer("l1"), "age", "bmi", "dose", rest=("share",)), ("age", "dose")),
    "largest": Case(on(Normalizer("max"), "age", "bmi", "dose", rest=("share",)), ("age", "dose")),
    "RBFSampler": Case(
        on(RBFSampler(gamma=0.002, n_components=5, random_state=0), "age", "bmi", rest=("dose",)), ("age", "bmi")
    ),
    "SkewedChi2Sampler": Case(
        on(SkewedChi2Sampler(n_components=5, random_state=0), "dose", "share"), ("dose", "share")
    ),
    "AdditiveChi2Sampler": Case(on(AdditiveChi2Sampler(sample_steps=3), "dose", "share"), ("dose", "share")),
    "Nystroem": Case(
        on(Nystroem(gamma=0.01, n_components=4, random_state=0), "age", "bmi", rest=("dose",)), ("age", "bmi")
    ),
    "poly kernel": Case(
        on(
            make_pipeline(StandardScaler(), Nystroem("poly", n_components=4, random_state=0)),
            "age",
            "bmi",
            rest=("dose",),
        ),
        ("age", "bmi"),
    ),
    "sigmoid kernel": Case(
        on(
            make_pipeline(StandardScaler(), Nystroem("sigmoid", gamma=0.3, n_components=4, random_state=0)),
            "age",
            "bmi",
            rest=("dose",),
        ),
        ("age", "bmi"),
    ),
    "linear kernel": Case(
        on(
            make_pipeline(StandardScaler(), Nystroem("linear", n_components=2, random_state=0)),
            "age",
            "bmi",
            rest=("dose",),
        ),
        ("age", "bmi"),
    ),
    "cosine kernel, by differences": Case(
        on(Nystroem("cosine", n_components=3, random_state=0), "age", "bmi", "dose", rest=("share",)), ("age", "dose")
    ),
    # by differences
    "own function": Case(on(SQUARE_AND_CUBE, "dose", rest=()), ("dose",), standing="estimate"),
    "own class": Case(
        make_column_transformer((Waves(), ["age", "bmi"]), ("passthrough", ["dose"])),
        ("age", "bmi", "dose"),
        standing="estimate",
    ),
    "own class that learns": Case(on(Winsor(), "age", "dose"), ("age", "dose")),
    "own class by names": Case(
        make_column_transformer((Ratio(), ["age", "bmi"]), ("passthrough", ["dose"])),
        ("age", "bmi"),
        standing="estimate",
    ),
    "PolynomialCountSketch, by differences": Case(
        on(
            make_pipeline(StandardScaler(), PolynomialCountSketch(n_components=4, random_state=0)),
            "age",
            "bmi",
            rest=("dose",),
        ),
        ("age", "bmi"),
    ),
    # levels
    "OneHotEncoder": Case(on(OneHotEncoder(), "town"), (), TOWN),
    "infrequent levels and a dropped one": Case(on(OneHotEncoder(max_categories=3, drop="first"), "town"), (), TOWN),
    "all levels infrequent, and the first dropped": Case(
        on(OneHotEncoder(max_categories=1, drop="first"), "town", "sex"), ("bmi",)
    ),
    "unknown levels ignored": Case(
        on(OneHotEncoder(categories=[["graz", "ulm"]], handle_unknown="ignore"), "town"), (), TOWN
    ),
    "OrdinalEncoder": Case(on(OrdinalEncoder(), "town", "visits"), (), TOWN + VISITS),
    "unknown levels with a number": Case(
        on(OrdinalEncoder(categories=[["graz", "ulm"]], handle_unknown="use_encoded_value", unknown_value=-2), "town"),
        (),
        TOWN,
    ),
    "TargetEncoder": Case(on(TargetEncoder(), "town"), (), TOWN),
    "KBinsDiscretizer": Case(
        on(KBinsDiscretizer(4, encode="onehot-dense", **QUANTILES), "age"),
        (),
        (("age", tuple(np.quantile(FRAME["age"], [0.1, 0.4, 0.6, 0.9]))),),
    ),
    "bins as numbers behind a scaler": Case(
        on(make_pipeline(StandardScaler(), KBinsDiscretizer(6, encode="ordinal", strategy="uniform")), "dose"),
        (),
        (("dose", tuple(np.linspace(FRAME["dose"].min(), FRAME["dose"].max(), 13)[1::2])),),
    ),
    "Binarizer": Case(on(Binarizer(threshold=50.0), "age"), (), (("age", (40.0, 60.0)),)),
    "levels times numbers": Case(
        make_pipeline(
            make_column_transformer((OneHotEncoder(drop="first"), ["town"]), (StandardScaler(), ["age", "dose"])),
            PolynomialFeatures(2, include_bias=False),
        ),
        ("age", "dose"),
        TOWN,
    ),
    "bins times numbers": Case(
        make_pipeline(
            make_column_transformer(
                (KBinsDiscretizer(3, encode="onehot-dense", **QUANTILES), ["age"]),
                (StandardScaler(), ["dose"]),
            ),
            PolynomialFeatures(2, interaction_only=True, include_bias=False),
        ),
        ("dose",),
        (("age", tuple(np.quantile(FRAME["age"], [0.1, 0.5, 0.9]))),),
    ),
    "levels behind components": Case(
        make_pipeline(
            make_column_transformer((OneHotEncoder(sparse_output=False), ["town"]), (StandardScaler(), ["age"])), PCA(3)
        ),
        ("age",),
        TOWN,
    ),
    "levels behind a kernel map": Case(
        make_pipeline(
            make_column_transformer((OneHotEncoder(sparse_output=False), ["town"]), (StandardScaler(), ["age"])),
            RBFSampler(gamma=0.2, n_components=6, random_state=3),
        ),
        ("age",),
        TOWN,
    ),
    "a column as a number and as labels": Case(
        make_column_transformer((OneHotEncoder(), ["visits"]), (StandardScaler(), ["visits", "age"])), ("age",), VISITS
    ),
    "a column as labels and squared": Case(
        make_column_transformer(
            (OneHotEncoder(), ["visits"]), (PolynomialFeatures(2, include_bias=False), ["visits", "bmi"])
        ),
        ("bmi",),
        VISITS,
    ),
    "two values in one bin, and the number behind a curve": Case(
        make_column_transformer(
            (Binarizer(threshold=2.0), ["smokes"]), (MinMaxScaler(clip=True), ["smokes"]), (StandardScaler(), ["age"])
        ),
        ("age",),
        SMOKES,
    ),
    "two values as a number and by bins": Case(
        make_column_transformer(
            (KBinsDiscretizer(3, encode="ordinal", strategy="uniform"), ["smokes"]), ("passthrough", ["smokes", "age"])
        ),
        ("age",),
        SMOKES,
    ),
    "a column as a number and as pooled labels": Case(
        make_column_transformer((OneHotEncoder(max_categories=3), ["visits"]), (StandardScaler(), ["visits", "age"])),
        ("age",),
        VISITS,
    ),
    "a column as pooled labels and squared": Case(
        make_column_transformer(
            (OneHotEncoder(min_frequency=10), ["visits"]), (PolynomialFeatures(2, include_bias=False), ["visits"])
        ),
        (),
        VISITS,
    ),
    "a column as a number, some of whose values are labels": Case(
        make_column_transformer(
            (OneHotEncoder(categories=[[1.0, 2.0]], handle_unknown="ignore"), ["visits"]),
            (StandardScaler(), ["visits", "age"]),
        ),
        ("age",),
        VISITS,
    ),
    "two encoders that list unlike levels": Case(
        make_column_transformer(
            (OneHotEncoder(categories=[["graz", "linz"]], handle_unknown="ignore"), ["town"]),
            (OneHotEncoder(categories=[["graz", "ulm"]], handle_unknown="ignore"), ["town"]),
        ),
        (),
        TOWN,
        standing="exact",
    ),
    "two encoders of one column": Case(
        make_column_transformer(
            (OneHotEncoder(drop=["wien"]), ["town"]), (OrdinalEncoder(), ["town"]), (StandardScaler(), ["age"])
        ),
        ("age",),
        TOWN,
    ),
    "own class of text": Case(on(TownSize(), "town", rest=("age",)), ("age",), TOWN),
    "own class of text and a number": Case(
        make_column_transformer((TownTimes(), ["town", "age"]), ("passthrough", ["bmi"])),
        ("age", "bmi"),
        TOWN,
        standing="estimate",
    ),
    "text to text to labels": Case(on(make_pipeline(Region(), OneHotEncoder()), "town"), (), TOWN),
    "own class that jumps": Case(on(Steps(), "visits"), (), VISITS),
    "MissingIndicator": Case(
        make_column_transformer((MissingIndicator(features="all"), ["age"]), ("passthrough", ["bmi", "dose"])),
        ("bmi",),
        standing="exact",
    ),
    "KNNImputer without gaps": Case(on(KNNImputer(), "age"), ("age",)),
}


@pytest.mark.parametrize(
    ("final", "rows"),
    [("ridge", ROWS[:2]), ("logistic", ROWS[2:]), *(pytest.param(f, ROWS, marks=pytest.mark.slow) for f in MODELS)],
)
@pytest.mark.parametrize("name", CASES)
def test_a_step_is_what_refits_behind_it_show(name: str, final: str, rows: tuple[int, ...]) -> None:
    """By default each row behind one of the two models; all rows behind both are slow."""
    case = CASES[name]
    model = fit_pipeline(case.steps, final, FRAME)
    y = target(final)
    leak = dm.measure(model, FRAME, y, noise=dm.Gaussian(1.0))
    np.testing.assert_allclose(leak.design.X, dense(model[:-1].transform(FRAME)), atol=1e-9, rtol=1e-9)
    assert leak.standing.value == case.standing
    J = leak.leak.jacobian.dense(np.array(rows))
    for column in case.numbers:
        (j,) = leak.design.blocks[column]
        for k, row in enumerate(rows):
            slope = refit_slope(model, FRAME, y, row, column, 1e-3 * float(FRAME[column].std()))
            size = max(float(np.linalg.norm(slope)), 1e-6 * float(leak.cell(column).max()))
            assert np.linalg.norm(J[k, :, j] - slope) <= 1e-6 * size, (column, row)
            assert leak.cell(column)[row] == pytest.approx(float(np.linalg.norm(slope)), rel=1e-6, abs=1e-6 * size)
    for column, cells in case.levels:
        assert column in leak.design.nominal
        for row in rows:
            known = largest_step(model, FRAME, y, row, column, list(cells))
            assert leak.cell(column)[row] == pytest.approx(known, rel=1e-6), (column, row)
            assert known <= leak.leak.examples[row] * (1 + 1e-6)


def every_step(step: Any) -> list[Any]:
    """A step and all steps inside it, fitted or not."""
    inner: list[Any] = []
    if hasattr(step, "transformers"):
        inner = [part for _, part, _ in step.transformers]
    elif hasattr(step, "transformer_list"):
        inner = [part for _, part in step.transformer_list]
    elif hasattr(step, "steps"):
        inner = [part for _, part in step.steps]
    elif isinstance(step, FrozenEstimator):
        inner = [step.estimator]
    return [step, *(deep for part in inner for deep in every_step(part))]


def test_every_registered_kind_is_compared_with_refits() -> None:
    steps = [step for case in CASES.values() for step in every_step(case.steps)]
    seen = {kind.name for step in steps if (kind := kind_of(step)) is not None}
    wanted = {kind.name for kind in STEPS.values() if kind.route is not Route.REFUSED}
    # The cells of an imputer are constants: test_pipelines.py. Steps of texts are in ../words.
    # Formulas: test_coverage.py and test_formula_terms.py.
    texts = {"CountVectorizer", "TfidfVectorizer", "HashingVectorizer", "TfidfTransformer"}
    assert wanted - seen == {"SimpleImputer", "Formula", *texts}
