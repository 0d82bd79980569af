"""`dm.fix`: the released model, what a ledger gets, and when nothing may be released."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import skops.io as sio
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dosimeter as dm
from dosimeter.models.linear_release import release_table
from dosimeter.tables.table import Table

RNG = np.random.default_rng(5)
N = 200
FRAME = pd.DataFrame(
    {"patient": np.repeat(np.arange(N // 2), 2), "age": RNG.normal(50, 10, N), "bmi": RNG.normal(27, 4, N)}
)
FRAME["cost"] = FRAME["age"] / 10 + FRAME["bmi"] / 4 + RNG.normal(size=N)


def test_the_model_is_a_plain_estimator_that_keeps_the_limit():
    release = dm.fix(FRAME, "cost", person="patient", max_dose=1.0)
    assert type(release.model).__module__.startswith("sklearn.")
    assert release.result.within
    assert release.result.dose.highest <= 1.0
    assert sio.get_untrusted_types(data=release.artefact) == []
    np.testing.assert_array_equal(sio.loads(release.artefact).predict(FRAME), release.model.predict(FRAME))
    (dose,) = release.doses
    assert len(dose.ids) == N // 2
    assert max(dose.figures) == pytest.approx(release.result.dose.highest)
    assert release.noise_fingerprint


def test_the_figures_are_those_of_the_release_of_a_table():
    ours = release_table(Table.of(FRAME, text=["patient"]), "cost", scale=0.5, person="patient")
    release = dm.fix(FRAME, "cost", person="patient", scale=0.5)
    np.testing.assert_array_equal(release.doses[0].figures, ours.dose.figures)
    assert release.recipe.noise == ours.release.recipe.noise


def test_without_persons_there_is_nothing_to_book():
    assert dm.fix(FRAME, "cost", exclude="patient", max_dose=1.0).doses == ()
    with pytest.raises(dm.Refusal, match="store_fisher_blocks= needs persons"):
        dm.fix(FRAME, "cost", exclude="patient", max_dose=1.0, store_fisher_blocks=True)


def test_a_limit_that_is_exceeded_releases_nothing():
    release = dm.fix(FRAME, "cost", person="patient", scale=1e-3, max_dose=0.5)
    assert not release.result.within
    assert (release.artefact, release.doses, release.model) == (b"", (), None)
    with pytest.raises(dm.Refusal, match="nothing was released"):
        release.write("model.skops")


def test_a_useless_model_is_released_only_on_request():
    release = dm.fix(FRAME, "cost", person="patient", scale=100.0)
    assert release.result.useless
    assert not release.artefact
    assert dm.fix(FRAME, "cost", person="patient", scale=100.0, even_if_useless=True).artefact


def test_a_seed_makes_a_simulation_that_says_so():
    once, again = (dm.fix(FRAME, "cost", person="patient", max_dose=1.0, simulation_seed=3) for _ in range(2))
    np.testing.assert_array_equal(once.model.predict(FRAME), again.model.predict(FRAME))
    assert once.recipe.simulation
    assert any("not for release" in note for note in once.result.not_covered)
    other = dm.fix(FRAME, "cost", person="patient", max_dose=1.0)
    assert not other.recipe.simulation
    assert (once.model.predict(FRAME) != other.model.predict(FRAME)).any()


def test_blocks_are_stored_on_request():
    (dose,) = dm.fix(FRAME, "cost", person="patient", scale=0.5, store_fisher_blocks=True).doses
    assert len(dose.fisher_blocks) == N // 2
    assert not dm.fix(FRAME, "cost", person="patient", scale=0.5).doses[0].fisher_blocks


def test_a_given_model_keeps_its_own_preprocessing(tmp_path):
    model = make_pipeline(StandardScaler(), Ridge(alpha=2.0)).fit(FRAME[["age", "bmi"]], FRAME["cost"])
    release = dm.fix(FRAME, "cost", model=model, person="patient", max_dose=1.0)
    assert release.result.noise_on == "each weight of the given model as it stands"
    sio.dump(model, tmp_path / "model.skops")
    of_file = dm.fix(FRAME, "cost", model=tmp_path / "model.skops", person="patient", max_dose=1.0)
    assert of_file.result.dose == release.result.dose
    for options in ({"l2": 0.0}, {"loss": "squared"}, {"scaler": "held"}, {"categorical": "age"}):
        with pytest.raises(dm.Refusal, match="is for a model fitted here"):
            dm.fix(FRAME, "cost", model=model, person="patient", max_dose=1.0, **options)


MEAN = np.exp((FRAME["cost"] - FRAME["cost"].mean()) / 3)
WARDS = np.array(["east", "north", "south"])[np.digitize(FRAME["cost"], FRAME["cost"].quantile([0.3, 0.7]))]
TARGETS = {
    "softmax": (WARDS, "LogisticRegression"),
    "gamma": (MEAN * RNG.gamma(9.0, 1 / 9, N), "GammaRegressor"),
    "inverse-gaussian": (MEAN * RNG.gamma(9.0, 1 / 9, N), "TweedieRegressor"),
    "tweedie": (MEAN * RNG.poisson(2.0, N), "TweedieRegressor"),
    "negative-binomial": (RNG.poisson(2 * MEAN), "PoissonRegressor"),
    "squared-hinge": (np.where(WARDS == "south", "y", "n"), "LinearSVC"),
    "squared-epsilon-insensitive": (FRAME["cost"], "LinearSVR"),
    "huber": (FRAME["cost"], "HuberRegressor"),
}


@pytest.mark.parametrize("loss", TARGETS)
def test_every_loss_with_an_estimator_of_scikit_learn_is_released(loss):
    """The dose is that of `measure` at the same noise, and with little noise the model scores as the fit does."""
    y, estimator = TARGETS[loss]
    frame = FRAME[["patient", "age", "bmi"]].assign(y=y)
    options = {"person": "patient", "loss": loss, "l2": 0.05}
    release = dm.fix(frame, "y", max_dose=2.0, even_if_useless=True, **options)
    assert type(release.model[-1]).__name__ == estimator
    assert release.result.dose.highest <= 2.0
    assert release.result.choice.kind == "isotropic"
    assert release.result.model.loss.startswith(loss)
    leak = dm.measure(frame, target="y", noise=dm.Gaussian(release.result.model.scale), unit="sd", **options)
    assert max(release.doses[0].figures) == pytest.approx(leak.result().dose.highest, rel=1e-9)
    close = dm.fix(frame, "y", scale=1e-6, **options)
    assert close.result.score.after == pytest.approx(close.result.score.before, abs=1e-4)
    assert close.result.held_out.score == pytest.approx(close.result.held_out.without_noise, abs=1e-3)
    predictions = close.model.predict(FRAME)
    if loss in ("softmax", "squared-hinge"):
        assert np.mean(predictions == y) == pytest.approx(close.result.score.before, abs=0.011)
    else:
        assert np.corrcoef(predictions, y)[0, 1] > 0.4
    kinked = any("kink" in note for note in close.result.not_covered)
    assert kinked is (loss in ("squared-hinge", "huber"))


def test_text_with_several_labels_is_a_softmax_model_that_keeps_the_limit():
    frame = FRAME[["patient", "age", "bmi"]].assign(ward=WARDS)
    release = dm.fix(frame, "ward", person="patient", max_dose=1.0)
    model = release.model[-1]
    assert model.coef_.shape == (3, 2)
    assert model.classes_.tolist() == ["east", "north", "south"]
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-9 * np.abs(model.coef_).max())
    result = release.result
    assert result.dose.highest <= 1.0 < result.dose.highest * 1.5
    assert result.held_out.base == np.mean(WARDS == "north")
    assert "contrasts between the classes" in result.noise_on
    assert any("which classes occur" in note for note in result.not_covered)
    assert not any("kind of noise" in note for note in result.not_covered)
    assert sio.get_untrusted_types(data=release.artefact) == []
    np.testing.assert_array_equal(sio.loads(release.artefact).predict_proba(FRAME), release.model.predict_proba(FRAME))
    for options in ({"equalise": True}, {"noise_shape": "hessian"}):
        with pytest.raises(dm.CannotMeasure, match="softmax"):
            dm.fix(frame, "ward", person="patient", max_dose=1.0, **options)


def test_the_blocks_of_several_classes_have_the_norm_of_the_dose():
    frame = FRAME[["patient", "age", "bmi"]].assign(ward=WARDS)
    (dose,) = dm.fix(frame, "ward", person="patient", scale=0.5, store_fisher_blocks=True).doses
    np.testing.assert_allclose([block.norm**0.5 for block in dose.fisher_blocks], dose.figures, rtol=1e-9)
    assert sum("label" in name for name in dose.fisher_blocks[0].unknowns) == 6  # three classes in each of two rows


@pytest.mark.parametrize("loss", ["probit", "cloglog"])
def test_a_loss_without_an_estimator_is_refused_before_anything_is_drawn(loss):
    frame = FRAME[["age", "bmi"]].assign(y=TARGETS["squared-hinge"][0])
    with pytest.raises(dm.CannotMeasure, match=f"a {loss} model is measured but not released here"):
        dm.fix(frame, "y", max_dose=1.0, loss=loss, l2=0.1)


@pytest.mark.parametrize("loss", ["poisson", "inverse-gaussian"])
def test_a_score_that_falls_without_limit_is_a_number(loss):
    """E exp overflows at a scale of a thousand: the model is useless, and the result can still be written."""
    y = TARGETS["negative-binomial"][0] if loss == "poisson" else TARGETS["gamma"][0]
    release = dm.fix(FRAME[["age", "bmi"]].assign(y=y), "y", scale=1000.0, loss=loss, l2=0.05)
    assert release.result.useless
    assert release.result.held_out.score == -1e6
    assert release.result.to_json()


def test_a_released_tweedie_model_is_read_back(tmp_path):
    from dosimeter.adapters.read_model import read_model

    frame = FRAME[["age", "bmi"]].assign(y=TARGETS["tweedie"][0])
    release = dm.fix(frame, "y", scale=0.01, loss="tweedie", l2=0.05)
    (tmp_path / "m.skops").write_bytes(release.artefact)
    np.testing.assert_array_equal(read_model(tmp_path / "m.skops").predict(frame), release.model.predict(frame))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "state a limit: max_dose=, or a public scale="),
        ({"max_dose": 0.0}, "max_dose=0.0"),
        ({"scale": -1.0}, "scale=-1.0"),
        ({"max_dose": 1.0, "noise": "pink"}, 'noise="pink"'),
        ({"max_dose": 1.0, "noise_shape": "round"}, 'noise_shape="round"'),
        ({"max_dose": 1.0, "reweighting_rounds": 2}, "is for equalise="),
        ({"max_dose": 1.0, "equalise": True, "reweighting_rounds": 0}, "reweighting_rounds=0"),
        ({"max_dose": 1.0, "simulation_seed": -1}, "simulation_seed=-1"),
        ({"max_dose": 1.0, "l2": -1.0}, "l2=-1.0"),
        ({"max_dose": 1.0, "scaler": "half"}, 'scaler="half"'),
    ],
)
def test_options_that_do_not_fit_are_refused_in_the_words_of_python(options, message):
    with pytest.raises(dm.Refusal, match=message) as refusal:
        dm.fix(FRAME, "cost", person="patient", **options)
    assert "--" not in str(refusal.value)


def test_a_notebook_and_a_report_show_the_release():
    release = dm.fix(FRAME, "cost", person="patient", scale=20.0, max_dose=5.0)
    assert "do not publish" in release._repr_html_().lower()
    page = dm.report(release).html
    assert "Gaussian(sigma=20.0)" in page
    assert "R²" not in dm.report(release).card


@pytest.mark.parametrize("target", [[3.0], [3.0, 3.0], [11.0, 12.0, 13.0]], ids=["one row", "one value", "clipped"])
def test_a_declared_target_of_one_value_is_refused_in_one_line(target):
    """It had ended in a traceback, because no share of its variance can be explained."""
    people = {"age": np.arange(len(target)) + 40.0, "cost": target}
    bounds = {"age": (0, 120), "cost": (0, 10)}
    for verb in (
        lambda: dm.fix(people, "cost", bounds=bounds, scale=1.0),
        lambda: dm.measure(people, target="cost", bounds=bounds),
    ):
        with pytest.raises(dm.Refusal, match="one value only"):
            verb()


CODES = {
    "whole numbers": [1, 2, 3],
    "fractions": [0.5, 2.25, 7.5],
    "two fractions": [0.5, 7.25],
    "truth values": [False, True],
    "numbers as text": ["1", "2", "3"],
    "fractions as text": ["0.5", "2.25"],
    "truth values as text": ["False", "True"],
    "zeros in front": ["01", "2", "3"],
}


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_released_file_reads_codes_as_the_frame_of_its_training_holds_them(kind, library):
    """By least squares on indicators: with hardly any noise the file predicts what that fit does, for every level."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rng, n = np.random.default_rng(3), 60
    age, place = rng.normal(50, 10, n), rng.integers(len(CODES[kind]), size=n)
    cost = 0.1 * age + 3.0 * place**2 + rng.normal(0, 0.1, n)
    table = pandas.DataFrame({"age": age, "code": [CODES[kind][k] for k in place], "cost": cost})
    frame = table if library == "pandas" else polars.from_pandas(table)
    made = dm.fix(frame, "cost", categorical="code", scale=1e-9, l2=1e-9, noise_shape="none")
    design = np.column_stack([age, *(place == k for k in range(len(CODES[kind])))])
    expected = design @ np.linalg.lstsq(design, cost, rcond=None)[0]
    np.testing.assert_allclose(made.model.predict(frame[["age", "code"]]), expected, rtol=1e-4)


def test_classes_that_are_fractions_are_released():
    """scikit-learn refuses to fit 0.5 and 7.25 as classes; the released file predicts them."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=80)
    dose = np.where(x + 0.3 * rng.normal(size=80) > 0, 7.25, 0.5)
    made = dm.fix({"x": x, "dose": dose}, "dose", scale=1e-6, noise_shape="none")
    assert set(made.model.predict(x[:, None])) == {0.5, 7.25}
    assert np.mean(made.model.predict(x[:, None]) == dose) > 0.8
