"""Models as people have them that an outside test found refused, or refused with a wrong reason."""

import numpy as np
import pandas as pd
import pytest

import dosimeter as dm

RNG = np.random.default_rng(4)
X = RNG.normal(size=(80, 3))
MARGIN = X @ [0.8, -0.5, 0.4]
Y = (MARGIN + RNG.logistic(size=80) > 0).astype(int)


def refused(model, y=Y, X=X):
    with pytest.raises(dm.CannotMeasure) as refusal:
        dm.measure(model, X, y, noise=dm.Gaussian(1.0))
    return str(refusal.value)


@pytest.mark.parametrize("frame", [False, True])
def test_results_of_an_array_with_its_ones_are_measured_on_that_array_and_on_a_frame_of_it(frame):
    sm = pytest.importorskip("statsmodels.api")
    with_ones = sm.add_constant(X)
    results = sm.Logit(Y, with_ones).fit(disp=0)
    table = pd.DataFrame(with_ones, columns=["const", "a", "b", "c"]) if frame else with_ones
    leak = dm.measure(results, table, Y, noise=dm.Gaussian(1.0))
    same = dm.measure(results, X, Y, noise=dm.Gaussian(1.0))
    assert np.asarray(leak.examples) == pytest.approx(np.asarray(same.examples), rel=1e-9)


def test_results_of_an_array_without_its_first_column_are_still_refused():
    sm = pytest.importorskip("statsmodels.api")
    results = sm.Logit(Y, sm.add_constant(X)).fit(disp=0)
    with pytest.raises(dm.Refusal, match="3 columns and the frame has 2"):
        dm.measure(results, X[:, 1:], Y, noise=dm.Gaussian(1.0))


def test_an_elimination_of_columns_is_measured_as_the_model_behind_its_selection():
    from sklearn.feature_selection import RFE
    from sklearn.linear_model import LogisticRegression

    frame = pd.DataFrame(X, columns=list("abc"))
    model = RFE(LogisticRegression(), n_features_to_select=2).fit(frame, Y)
    kept = list(frame.columns[model.support_])
    leak = dm.measure(model, frame, Y, noise=dm.Gaussian(1.0))
    alone = dm.measure(LogisticRegression().fit(frame[kept], Y), frame[kept], Y, noise=dm.Gaussian(1.0))
    assert np.asarray(leak.examples) == pytest.approx(np.asarray(alone.examples), rel=1e-6)
    assert leak.standing.value == "unaccounted"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("bagging", "drawn at random"), ("pairs", "fit OneVsRestClassifier"), ("tasks", "of all targets together")],
)
def test_a_refusal_gives_the_reason_of_that_model(name, reason):
    from sklearn.ensemble import BaggingClassifier
    from sklearn.linear_model import LogisticRegression, MultiTaskLassoCV
    from sklearn.multiclass import OneVsOneClassifier

    models = {
        "bagging": BaggingClassifier(LogisticRegression(), 3, random_state=0),
        "pairs": OneVsOneClassifier(LogisticRegression()),
        "tasks": MultiTaskLassoCV(alphas=[0.1], cv=3),
    }
    y = np.column_stack([MARGIN, MARGIN**2]) if name == "tasks" else Y
    assert reason in refused(models[name].fit(X, y), y)


@pytest.mark.filterwarnings("ignore:.TargetEncoder:FutureWarning")
def test_an_estimate_behind_a_target_encoder_names_cross_fitted_encodings_as_the_cause():
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import TargetEncoder

    frame = pd.DataFrame({"a": X[:, 0], "ward": np.resize(list("pqrs"), 80)})
    encode = make_column_transformer((TargetEncoder(random_state=0), ["ward"]), remainder="passthrough")
    model = make_pipeline(encode, LogisticRegression()).fit(frame, Y)
    try:
        notes = " ".join(dm.measure(model, frame, Y, noise=dm.Gaussian(1.0)).notes)
    except dm.CannotMeasure as refusal:
        notes = str(refusal)
    assert "cross-fits" in notes
