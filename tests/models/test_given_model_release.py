"""A given model repaired: its figure against `measure`, its predictions against the model, no exact constant left."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
import skops.io as sio
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC, LinearSVR

import dosimeter as dm
from dosimeter.cli.main import run
from dosimeter.core.errors import CannotMeasure
from dosimeter.models.given_model_release import release_model
from dosimeter.models.linear_release import release_table
from dosimeter.tables.table import Table

RNG = np.random.default_rng(4)
N = 160
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(50, 10, N),
        "bmi": RNG.normal(27, 4, N),
        "city": RNG.choice(["u", "g", "k"], N),
        "code": RNG.choice([1, 2], N),
        "ward": RNG.choice([2, 10, 3], N),
        "smoker": RNG.choice([True, False], N),
    }
)
SCORE = FRAME["age"] / 10 + FRAME["bmi"] / 4 + 2 * (FRAME["city"] == "u") + RNG.normal(size=N)
NEWTON = {"solver": "newton-cholesky", "tol": 1e-12}


def columns(drop, scaler=StandardScaler, encoded=("city",)):
    return make_column_transformer(
        (scaler(), ["bmi", "age"]), (OneHotEncoder(drop=drop), list(encoded)), ("passthrough", ["code"])
    )


MODELS = {
    "ridge": (lambda: make_pipeline(columns("first"), Ridge(alpha=2.0)), SCORE),
    "ridge on every level": (lambda: make_pipeline(columns(None), Ridge(alpha=2.0)), SCORE),
    "codes and truths": (
        lambda: make_pipeline(columns("first", encoded=("city", "ward", "smoker")), Ridge()),
        SCORE + FRAME["ward"] / 5,
    ),
    "scaled twice": (lambda: make_pipeline(columns(None, MinMaxScaler), StandardScaler(), Ridge()), SCORE),
    "no intercept": (lambda: make_pipeline(columns("first", FunctionTransformer), Ridge(fit_intercept=False)), SCORE),
    "logistic": (
        lambda: make_pipeline(columns("first"), LogisticRegression(C=0.5, **NEWTON)),
        np.where(SCORE > 12, "y", "n"),
    ),
    "liblinear": (
        lambda: make_pipeline(columns("first"), LogisticRegression(solver="liblinear", tol=1e-10)),
        SCORE > 12,
    ),
    "poisson": (
        lambda: make_pipeline(columns("first"), PoissonRegressor(alpha=0.1, **NEWTON)),
        np.round(np.exp(SCORE / 8)),
    ),
    "softmax": (
        lambda: make_pipeline(columns("first"), LogisticRegression(C=0.5, **NEWTON)),
        np.array(["a", "b", "c"])[np.digitize(SCORE, [11.5, 13.0])],
    ),
    "softmax, no intercept": (
        lambda: make_pipeline(columns("first", FunctionTransformer), LogisticRegression(fit_intercept=False, **NEWTON)),
        np.digitize(SCORE, [11.5, 12.5, 13.5]),
    ),
    "gamma": (lambda: make_pipeline(columns("first"), GammaRegressor(alpha=0.1, **NEWTON)), np.exp(SCORE / 8)),
    "tweedie": (
        lambda: make_pipeline(columns(None), TweedieRegressor(power=1.5, alpha=0.1, **NEWTON)),
        np.maximum(SCORE - 11, 0.0),
    ),
    "inverse gaussian": (
        lambda: make_pipeline(columns("first"), TweedieRegressor(power=3, alpha=0.1, tol=1e-10, max_iter=10_000)),
        np.exp(SCORE / 8),
    ),
    "support vectors": (
        lambda: make_pipeline(columns("first"), LinearSVC(tol=1e-12, max_iter=100_000)),
        np.where(SCORE > 12, "y", "n"),
    ),
    "support vector regression": (
        lambda: make_pipeline(
            columns("first"),
            LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.2, dual=False, tol=1e-12, max_iter=100_000),
        ),
        SCORE,
    ),
}
PENALISED_INTERCEPT = ("liblinear", "support vectors", "support vector regression")
MEANS = (PoissonRegressor, GammaRegressor, TweedieRegressor)


def margin(model, frame):
    if hasattr(model, "decision_function"):
        m = model.decision_function(frame)
        return m if m.ndim == 1 else m - m.mean(axis=1, keepdims=True)  # a common shift changes no probability
    predicted = model.predict(frame)
    return np.log(predicted) if isinstance(model[-1], MEANS) else predicted


@pytest.mark.parametrize("name", MODELS)
def test_the_released_pipeline_is_the_model_with_noise(name):
    make, y = MODELS[name]
    model = make().fit(FRAME, y)
    table = Table.of(FRAME.assign(y=y))
    release = release_model(model, table, "y", scale=1e-7, rng=np.random.default_rng(0))
    np.testing.assert_allclose(margin(release.model, FRAME), margin(model, FRAME), atol=2e-4)
    strange = FRAME.assign(city="nowhere")
    assert np.isfinite(margin(release.model, strange)).all()
    shuffled = FRAME[FRAME.columns[::-1]]
    np.testing.assert_array_equal(margin(release.model, shuffled), margin(release.model, FRAME))


@pytest.mark.parametrize("name", MODELS)
def test_the_dose_is_that_of_measure_at_the_same_noise(name):
    make, y = MODELS[name]
    model = make().fit(FRAME, y)
    table = Table.of(FRAME.assign(y=y))
    release = release_model(model, table, "y", max_dose=2.0, noise_shape=None)
    assert release.plan.highest <= 2.0
    scaler = "held" if "no intercept" in name else "total"
    measured = dm.measure(
        model, table, "y", noise=dm.Gaussian(release.plan.settings["scale"]), unit="sd", scaler=scaler
    )
    np.testing.assert_allclose(release.doses, measured.leak.examples, rtol=1e-6)
    assert release.penalty.l2 == pytest.approx(measured.fit.l2)


@pytest.mark.parametrize("name", MODELS)
def test_the_released_estimator_is_of_the_same_kind(name):
    make, y = MODELS[name]
    release = release_model(make().fit(FRAME, y), Table.of(FRAME.assign(y=y)), "y", scale=1.0)
    ours, theirs = type(release.model[-1]).__name__, type(make()[-1]).__name__
    assert ours == {"Ridge": "LinearRegression"}.get(theirs, theirs)
    assert (release.choice is None) or release.kind == "isotropic"


def test_several_classes_of_ours_are_released_like_a_given_model():
    frame, y = FRAME[["age", "bmi"]], MODELS["softmax"][1]
    table = Table.of(frame.assign(y=y))
    model = make_pipeline(StandardScaler(), LogisticRegression(**NEWTON)).fit(frame, y)
    from_model, ours = release_model(model, table, "y", max_dose=1.0), release_table(table, "y", max_dose=1.0)
    np.testing.assert_allclose(from_model.doses, ours.doses, rtol=1e-6)
    assert from_model.plan.settings["scale"] == ours.plan.settings["scale"]
    assert from_model.useful.score == pytest.approx(ours.useful.score, rel=1e-6)
    assert ours.model[-1].coef_.shape == (3, 2)
    assert ours.noise_draw.shape == from_model.noise_draw.shape == (9,)
    # The drawn noise is that on the released numbers, in the columns' own units.
    own = ours.noise_draw.reshape(3, 3)[:, :2] * frame.std(ddof=0).to_numpy()
    assert np.abs(own).max() < 6 * ours.plan.settings["scale"]


def statsmodels_fits():
    import statsmodels.api as sm

    design = FRAME[["age", "bmi"]].assign(const=1.0)
    log = {"link": sm.families.links.Log()}
    return design, {
        "logit": (lambda y: sm.Logit(y, design).fit(disp=0, tol=1e-12), (SCORE > 12) * 1.0),
        "mnlogit": (lambda y: sm.MNLogit(y, design).fit(disp=0, tol=1e-12), np.digitize(SCORE, [11.5, 13.0])),
        "gamma": (lambda y: sm.GLM(y, design, sm.families.Gamma(**log)).fit(tol=1e-12), np.exp(SCORE / 8)),
        "negative binomial": (
            lambda y: sm.GLM(y, design, sm.families.NegativeBinomial(alpha=0.5)).fit(tol=1e-12),
            np.round(np.exp(SCORE / 8)),
        ),
    }


@pytest.mark.parametrize("name", ["logit", "mnlogit", "gamma", "negative binomial"])
def test_a_model_of_statsmodels_is_released_as_one_of_scikit_learn(name):
    design, fits = statsmodels_fits()
    make, y = fits[name]
    model = make(y)
    release = release_model(model, Table.of(design.assign(y=y)), "y", scale=1e-8)
    probabilities = release.model.predict_proba(design) if name in ("logit", "mnlogit") else None
    ours = release.model.predict(design) if probabilities is None else probabilities
    theirs = np.asarray(model.predict(design))
    np.testing.assert_allclose(ours[:, 1] if name == "logit" else ours, theirs, rtol=1e-4)
    if probabilities is not None:
        assert set(release.model.predict(design)) <= set(np.unique(y).tolist())


def test_an_offset_a_link_and_a_joint_release_are_refused_with_the_reason():
    import statsmodels.api as sm

    design, fits = statsmodels_fits()
    counts = fits["negative binomial"][1]
    with_offset = sm.GLM(counts, design, sm.families.Poisson(), offset=np.full(N, 0.5)).fit()
    with pytest.raises(CannotMeasure, match="offset or an exposure"):
        release_model(with_offset, Table.of(design.assign(y=counts)), "y", scale=1.0)
    probit = sm.Probit((SCORE > 12) * 1.0, design).fit(disp=0)
    with pytest.raises(CannotMeasure, match="a probit model is measured but not released"):
        release_model(probit, Table.of(design.assign(y=(SCORE > 12) * 1.0)), "y", scale=1.0)
    frame, three = FRAME[["age", "bmi"]] / 10, MODELS["softmax"][1]
    for joint, y in ((LinearSVC(tol=1e-12, max_iter=100_000), three), (HuberRegressor(tol=1e-9), SCORE)):
        with pytest.raises(CannotMeasure, match="measured but not released by fix: fix a model that minimises one"):
            release_model(joint.fit(frame, y), Table.of(frame.assign(y=y)), "y", scale=1.0)


def test_a_model_like_ours_is_released_like_ours():
    frame = FRAME[["age", "bmi"]]
    table = Table.of(frame.assign(y=SCORE))
    model = make_pipeline(StandardScaler(), Ridge()).fit(frame, SCORE)
    from_model, ours = release_model(model, table, "y", max_dose=1.0), release_table(table, "y", max_dose=1.0)
    np.testing.assert_allclose(from_model.doses, ours.doses, rtol=1e-9)
    assert from_model.plan.settings["scale"] == ours.plan.settings["scale"]
    assert from_model.useful.score == pytest.approx(ours.useful.score, rel=1e-9)


def test_no_constant_of_the_preprocessing_is_in_the_file():
    make, y = MODELS["ridge"]
    model = make().fit(FRAME, y)
    release = release_model(model, Table.of(FRAME.assign(y=y)), "y", max_dose=2.0)
    exact = [
        *model[0].named_transformers_["standardscaler"].mean_,
        *model[0].named_transformers_["standardscaler"].scale_,
    ]
    kept = [*np.ravel(release.model[-1].coef_), release.model[-1].intercept_]
    for number in exact:
        assert not any(number in (abs(k), 1 / k if k else 0) for k in kept)
    assert "StandardScaler" not in json.dumps([type(step).__name__ for _, step in release.model.steps])


def test_a_declared_constant_is_released_and_a_learned_one_is_refused():
    gapped = FRAME[["age", "city"]].copy()
    gapped.loc[RNG.random(N) < 0.2, "age"] = np.nan
    gapped.loc[RNG.random(N) < 0.2, "city"] = np.nan

    def model(strategy):
        fill = {"fill_value": 40.0} if strategy == "constant" else {}
        label_imputer = SimpleImputer(strategy="constant", fill_value="none")
        return make_pipeline(
            make_column_transformer(
                (make_pipeline(SimpleImputer(strategy=strategy, **fill), StandardScaler()), ["age"]),
                (make_pipeline(label_imputer, OneHotEncoder(drop="first")), ["city"]),
            ),
            Ridge(),
        ).fit(gapped, SCORE)

    table = Table.of(gapped.assign(y=SCORE), missing="keep")
    release = release_model(model("constant"), table, "y", scale=1e-7)
    np.testing.assert_allclose(release.model.predict(gapped), model("constant").predict(gapped), atol=1e-3)
    assert sio.get_untrusted_types(data=sio.dumps(release.model)) == ["numpy.dtype"]
    with pytest.raises(CannotMeasure, match="constant"):
        release_model(model("mean"), table, "y", scale=1.0)


def test_codes_in_our_own_release_are_numbers_in_a_frame():
    """Named as labels they are read as text here, "10" before "2"; a user of the model has numbers."""
    y = SCORE + 3 * (FRAME["ward"] == 10)
    people = Table.of({name: FRAME.assign(y=y)[name].to_numpy() for name in ("age", "ward", "y")}, text=["ward"])
    release = release_table(people, "y", scale=1e-9, l2=1e-9, categorical=("ward",))
    answers = release.model.predict(FRAME[["age", "ward"]])
    design = np.column_stack([FRAME["age"], pd.get_dummies(FRAME["ward"]).to_numpy(float)])
    np.testing.assert_allclose(answers, design @ np.linalg.lstsq(design, y, rcond=None)[0], rtol=1e-5)
    elsewhere = release.model.predict(FRAME[["age", "ward"]].assign(ward=7))
    assert np.isfinite(elsewhere).all()


def test_our_own_release_carries_its_constants():
    gapped = FRAME[["age", "city"]].copy()
    gapped.loc[RNG.random(N) < 0.2, "age"] = np.nan
    gapped.loc[RNG.random(N) < 0.2, "city"] = np.nan
    table = Table.of(gapped.assign(y=SCORE), missing="impute", impute={"age": 40.0})
    release = release_table(table, "y", scale=1e-7)
    filled = gapped.fillna({"age": 40.0, "city": "missing"})
    np.testing.assert_allclose(release.model.predict(gapped), release.model.predict(filled), rtol=1e-12)
    fresh = release.ready.design.X @ release.plan.fit.coef + release.plan.fit.w[-1]
    np.testing.assert_allclose(release.model.predict(gapped), fresh, atol=1e-3)


def test_the_command_line_releases_a_given_model(tmp_path, capsys):
    make, y = MODELS["logistic"]
    model, sheet, out = make().fit(FRAME, y), tmp_path / "t.csv", tmp_path / "m.skops"
    FRAME.assign(y=y).to_csv(sheet, index=False)
    (tmp_path / "own.skops").write_bytes(sio.dumps(model))
    arguments = ["fix", str(sheet), "--target", "y", "--model", str(tmp_path / "own.skops"), "--out", str(out)]
    assert run([*arguments, "--max-dose", "1", "--json", "-", "-q"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["dose"]["highest"] <= 1
    assert "given model" in facts["noise_on"]
    assert facts["model"]["l2_from"] == "the given model's own"
    assert np.mean(sio.load(out).predict(FRAME) == y) > 0.6
    assert zipfile.is_zipfile(out)
    assert run([*arguments, "--max-dose", "1", "--l2", "0.1"]) == 2


def test_a_model_that_cannot_be_measured_is_not_repaired(tmp_path):
    from sklearn.linear_model import Lasso

    table = Table.of(FRAME[["age", "bmi"]].assign(y=SCORE))
    with pytest.raises(CannotMeasure):
        release_model(Lasso().fit(FRAME[["age", "bmi"]], SCORE), table, "y", scale=1.0)
    plain = LinearRegression().fit(FRAME[["age", "bmi"]], SCORE)
    assert release_model(plain, table, "y", scale=1.0).kind == "isotropic"


CENTRING = [StandardScaler, MinMaxScaler, RobustScaler]
OWN_SCALERS = [
    MinMaxScaler,
    MaxAbsScaler,
    RobustScaler,
    lambda: RobustScaler(unit_variance=True),
    lambda: StandardScaler(with_mean=False),
    lambda: StandardScaler(with_std=False),
]


@pytest.mark.parametrize("scaler", CENTRING)
def test_a_model_without_an_intercept_behind_a_centring_scaler_is_refused(scaler):
    """The control: folded by hand, weights and intercept give the other column's centre exactly at any noise."""
    numbers = FRAME[["age", "bmi"]]
    model = make_pipeline(scaler(), Ridge(fit_intercept=False)).fit(numbers, SCORE)
    noised = model[-1].coef_ + RNG.normal(0, 1000, 2)
    at = pd.DataFrame([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], columns=numbers.columns)
    zero, *units = model[0].transform(at)
    slope = np.array(units) - zero
    released, offset = noised @ slope, noised @ zero
    centre = -zero / np.diagonal(slope)
    assert (-offset - released[1] * centre[1]) / released[0] == pytest.approx(centre[0], rel=1e-9)
    with pytest.raises(CannotMeasure, match=r"no intercept.*released file exactly"):
        release_model(model, Table.of(numbers.assign(y=SCORE)), "y", scale=1000.0)


@pytest.mark.parametrize("scaler", [StandardScaler, lambda: StandardScaler(with_std=False)])
@pytest.mark.parametrize("drop", [None, "first"])
def test_a_model_without_an_intercept_behind_centred_levels_is_refused(scaler, drop):
    """The control: the predictions for the levels, weighted by how many rows have each, sum to zero at any noise."""
    levels, cities = FRAME[["city"]], ["u", "g", "k"]
    encoder = OneHotEncoder(drop=drop, sparse_output=False)
    model = make_pipeline(encoder, scaler(), Ridge(fit_intercept=False)).fit(levels, SCORE)
    noised = model[-1].coef_ + RNG.normal(0, 1000, len(model[-1].coef_))
    released = model[:-1].transform(pd.DataFrame({"city": cities})) @ noised
    others = FRAME["city"].to_numpy()[1:].tolist()
    sums = [abs(sum(released[cities.index(city)] for city in [*others, guess])) for guess in cities]
    assert cities[int(np.argmin(sums))] == FRAME["city"][0]
    assert sorted(sums)[0] < 1e-9 * sorted(sums)[1]
    with pytest.raises(CannotMeasure, match=r"no intercept.*released file exactly"):
        release_model(model, Table.of(levels.assign(y=SCORE)), "y", scale=1000.0)


@pytest.mark.parametrize("scaler", [lambda: StandardScaler(with_mean=False), lambda: StandardScaler(with_std=False)])
@pytest.mark.parametrize("column", ["city", "code"])
def test_half_a_standard_scaler_of_levels_or_of_two_values_is_refused(scaler, column):
    encoder = OneHotEncoder(sparse_output=False) if column == "city" else "passthrough"
    before = make_column_transformer((encoder, [column]))
    own = make_pipeline(before, scaler(), Ridge()).fit(FRAME[[column]], SCORE)
    table = Table.of(FRAME[[column]].assign(y=SCORE))
    with pytest.raises(CannotMeasure, match="of this very table"):
        release_model(own, table, "y", scale=1.0)
    whole = make_pipeline(before, StandardScaler(), Ridge()).fit(FRAME[[column]], SCORE)
    assert release_model(whole, table, "y", scale=1.0).plan.floor > 0
    ends = make_pipeline(before, MinMaxScaler(), Ridge()).fit(FRAME[[column]], SCORE)
    assert release_model(ends, table, "y", scale=1.0).plan.floor == 0.0


@pytest.mark.parametrize("scaler", OWN_SCALERS)
@pytest.mark.parametrize("last", [Ridge, lambda: LinearSVR(loss="squared_epsilon_insensitive", dual=False, tol=1e-12)])
def test_a_scaler_of_this_table_without_a_figure_is_refused_and_one_of_public_rows_is_not(scaler, last):
    numbers = FRAME[["age", "bmi"]]
    table = Table.of(numbers.assign(y=SCORE))
    with pytest.raises(CannotMeasure, match="of this very table"):
        release_model(make_pipeline(scaler(), last()).fit(numbers, SCORE), table, "y", scale=1.0)
    public = scaler().fit([[0.0, 10.0], [50.0, 30.0], [100.0, 70.0], [130.0, 80.0]])
    model = make_pipeline(public, last())
    model[-1].fit(public.transform(numbers.to_numpy()), SCORE)
    assert release_model(model, table, "y", scale=1.0).plan.highest > 0


def test_a_standard_scaler_of_public_rows_is_folded_and_does_not_hide_a_scaler_of_this_table_before_it():
    numbers = FRAME[["age", "bmi"]].to_numpy()
    table = Table.of({"age": numbers[:, 0], "bmi": numbers[:, 1], "y": SCORE.to_numpy()})
    public = StandardScaler().fit([[0.0, 10.0], [100.0, 70.0]])
    model = make_pipeline(public, Ridge())
    model[-1].fit(public.transform(numbers), SCORE)
    assert release_model(model, table, "y", scale=1.0).plan.floor == 0.0
    own = MinMaxScaler().fit(numbers)
    later = StandardScaler().fit([[0.0, 0.0], [1.0, 3.0]])
    chained = make_pipeline(own, later, Ridge())
    chained[-1].fit(later.transform(own.transform(numbers)), SCORE)
    with pytest.raises(CannotMeasure, match="of this very table"):
        release_model(chained, table, "y", scale=1.0)


def information_of_the_fold(scaler, numbers, row, column):
    """By refits of the scaler: ½ tr(Σ⁻¹Σ')² of noise N(0, I) folded into raw units, for one deviation of a cell."""
    h, d = 1e-6, numbers.shape[1]

    def covariance(values):
        zero, *units = clone(scaler).fit(values).transform(np.vstack([np.zeros(d), np.eye(d)]))
        fold = np.block([[np.diag(np.diagonal(np.array(units) - zero)), np.zeros((d, 1))], [zero, 1.0]])
        return fold @ fold.T

    step = np.zeros_like(numbers)
    step[row, column] = h * numbers[:, column].std()
    move = np.linalg.solve(covariance(numbers), covariance(numbers + step) - covariance(numbers - step)) / (2 * h)
    return 0.5 * np.trace(move @ move)


@pytest.mark.parametrize("scaler", OWN_SCALERS)
def test_measure_states_what_any_scaler_of_the_table_leaves_at_any_noise(scaler):
    numbers = FRAME[["age", "bmi"]].to_numpy()
    model = make_pipeline(scaler(), Ridge()).fit(numbers, SCORE)
    leak = dm.measure(model, numbers, SCORE, noise=dm.Gaussian(1e4), unit="sd")
    order = np.argsort(numbers[:, 0])
    rows = [*order[[0, 1, -1]], *order[[39, 40, 79, 80, 119, 120]], 3]
    found = [max(information_of_the_fold(scaler(), numbers, row, j) for j in (0, 1)) for row in rows]
    np.testing.assert_allclose(leak.left[rows], np.sqrt(found), rtol=1e-4, atol=1e-6)
    assert leak.left.max() > 100 * leak.leak.examples.max()
    assert not leak.result(limit=0.5 * leak.left.max()).verdict.within
    assert any("which is NOT in the figures" in remark for remark in leak.remarks)


def test_mean_and_deviation_leave_the_same_beside_another_scaler():
    """Columns of both kinds in one floor; and nothing is left by a scaler of two values, whose ends are its values."""
    frame = FRAME[["age", "bmi", "smoker"]].astype(float)
    parts = make_column_transformer(
        (StandardScaler(), ["age"]), (MinMaxScaler(), ["bmi"]), (MinMaxScaler(), ["smoker"])
    )
    leak = dm.measure(make_pipeline(parts, Ridge()).fit(frame, SCORE), frame, SCORE, noise=dm.Gaussian(1.0), unit="sd")
    alone = make_pipeline(StandardScaler(), Ridge()).fit(frame[["age"]], SCORE)
    standard = dm.measure(alone, frame[["age"]], SCORE, noise=dm.Gaussian(1.0), unit="sd")
    bmi = frame["bmi"].to_numpy()
    inside = (bmi > bmi.min()) & (bmi < bmi.max())
    np.testing.assert_allclose(leak.left[inside], standard.left[inside], rtol=1e-9)
    assert (leak.left[~inside] > standard.left[~inside]).all()
