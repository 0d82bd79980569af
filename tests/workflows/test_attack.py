"""`dm.attack`: what an attack achieves, beside its control and the figure that bounds it; the report of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dosimeter as dm
from dosimeter.models.linear_attack import invert, presence
from dosimeter.reports.document import document
from dosimeter.results.editions import external
from dosimeter.results.result import read
from dosimeter.tables.table import Table

RNG = np.random.default_rng(9)
N = 80
FRAME = pd.DataFrame({"age": RNG.normal(50, 10, N), "ill": RNG.choice(["no", "yes"], N, p=[0.9, 0.1])})
FRAME["cost"] = FRAME["age"] / 10 + (FRAME["ill"] == "yes") + RNG.normal(size=N)


def test_an_inversion_is_that_of_the_model():
    played = invert(
        Table.of(FRAME), "cost", "ill", noise=dm.Gaussian(0.5), trials=20, rng=np.random.Generator(np.random.PCG64(4))
    )
    report = dm.attack(FRAME, "cost", column="ill", scale=0.5, trials=20, seed=4)
    assert report.kind == "inversion"
    assert report.inversion.figure == played.guesses.figure
    assert report.inversion.rare.group == "yes"
    assert report.highest_eta == played.eta.max()
    assert isinstance(report.attack_result, dm.AttackResult)
    assert report.attack_result.figure == report.inversion.figure
    assert report.membership is None


def test_membership_is_that_of_the_model():
    played = presence(
        Table.of(FRAME), "cost", noise=dm.Gaussian(0.5), trials=50, rng=np.random.Generator(np.random.PCG64(0))
    )
    report = dm.attack(FRAME, "cost", kind="membership", scale=0.5, trials=50)
    assert report.membership.auc.highest_row == played.row + 1
    assert report.membership.played.figure == played.played.figure == report.attack_result.figure
    assert report.inversion is None


COST = FRAME["age"] / 10 + (FRAME["ill"] == "yes")
MEAN = np.exp((COST - COST.mean()) / 2)
TARGETS = {
    "softmax": np.array(["east", "north", "south"])[np.digitize(FRAME["cost"], FRAME["cost"].quantile([0.3, 0.7]))],
    "gamma": MEAN * RNG.gamma(4.0, 0.25, N),
    "inverse-gaussian": MEAN * RNG.gamma(4.0, 0.25, N),
    "tweedie": MEAN * RNG.poisson(2.0, N),
    "negative-binomial": RNG.poisson(2 * MEAN),
    "probit": np.where(FRAME["cost"] > FRAME["cost"].median(), "y", "n"),
    "cloglog": np.where(FRAME["cost"] > FRAME["cost"].median(), "y", "n"),
    "squared-hinge": np.where(FRAME["cost"] > FRAME["cost"].median(), "y", "n"),
    "squared-epsilon-insensitive": FRAME["cost"],
    "huber": FRAME["cost"],
}


@pytest.mark.parametrize("loss", TARGETS)
def test_every_loss_is_attacked(loss):
    """Little noise names nearly everybody, much noise nobody; the simulated membership attack is the exact figure's."""
    table = FRAME[["age", "ill"]].assign(y=TARGETS[loss])
    options = {"loss": loss, "l2": 0.05}
    close = dm.attack(table, "y", column="ill", scale=1e-5, trials=10, **options)
    assert close.inversion.figure > 0.95
    assert close.loss.startswith(loss)
    far = dm.attack(table, "y", column="ill", scale=1e3, trials=10, **options)
    assert far.inversion.figure == pytest.approx(far.inversion.control, abs=0.02)
    mu = presence(
        Table.of(table), "y", noise=dm.Gaussian(1.0), trials=2, rng=np.random.default_rng(0), **options
    ).mu.max()
    report = dm.attack(table, "y", kind="membership", scale=mu / 1.2, trials=2000, **options)
    figures = report.membership
    assert figures.auc.highest == pytest.approx(0.8019, abs=2e-4)  # Φ(1.2/√2)
    assert figures.played.low <= figures.auc.highest <= figures.played.high
    assert ("contrasts" in report.noise_on) is (loss == "softmax")


def test_a_softmax_attack_is_chosen_for_several_labels():
    table = FRAME[["age", "ill"]].assign(ward=TARGETS["softmax"])
    assert dm.attack(table, "ward", column="ill", scale=1.0, trials=2).loss == "softmax"


@pytest.mark.parametrize("options", [{"column": "ill", "trials": 20}, {"kind": "membership", "trials": 50}])
def test_a_report_goes_through_its_file_but_for_the_scores(options):
    report = dm.attack(FRAME, "cost", scale=0.5, **options)
    again = read(report.to_dict())
    assert again.to_json() == report.to_json()
    with pytest.raises(dm.Refusal, match="run the attack again"):
        again.attack_result  # noqa: B018
    assert report.with_fields(remarks=[]).attack_result is report.attack_result


@pytest.mark.parametrize("options", [{"column": "ill", "trials": 20}, {"kind": "membership", "trials": 50}])
def test_the_external_edition_holds_no_figure_of_the_attack(options):
    report = dm.attack(FRAME, "cost", scale=0.5, **options)
    shown = external(report)
    assert not shown.shows("inversion")
    assert not shown.shows("membership")
    assert not shown.shows("highest_eta")
    published = document(report).figures
    assert published["noise"] == "Gaussian(sigma=0.5)"
    assert "proves nothing" in published["sentence"]
    found = report.attack_result.figure
    assert f"{found:.3f}" not in report.to_html()
    assert f"{100 * found:.1f} %" not in report.to_html()
    assert f"{found:.3f}" in report.to_html("internal") or f"{100 * found:.1f} %" in report.to_html("internal")


def test_a_terminal_and_a_dataframe_show_the_attack():
    report = dm.attack(FRAME, "cost", column="ill", scale=0.001, trials=100)
    text = " ".join(report.to_text().split())
    assert "from everything else, without the release" in text
    assert "Of those with ill = yes" in text
    assert report.to_frame()["figure"].tolist() == [report.inversion.figure]
    assert report.plot().spec
    assert report.inversion.beats_control
    assert document(report, "internal").verdict.tone == "bad"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": 1.0}, "column= is missing"),
        ({"scale": 1.0, "kind": "membership", "column": "ill"}, "membership does not"),
        ({"scale": 1.0, "kind": "shadow"}, 'kind="shadow": use inversion or membership'),
        ({"scale": 1.0, "column": "il"}, "did you mean ill"),
        ({"scale": 0.0, "column": "ill"}, "scale=0.0"),
        ({"scale": 1.0, "column": "ill", "trials": 1}, "trials=1"),
        ({"scale": 1.0, "column": "ill", "seed": -1}, "seed=-1"),
        ({"scale": 1.0, "column": "ill", "noise": "pink"}, 'noise="pink"'),
        ({"scale": 1.0, "column": "ill", "l2": -1.0}, "l2=-1.0"),
        ({"scale": 1.0, "column": "ill", "loss": "hinge"}, 'loss="hinge": use auto, squared'),
        ({"scale": 1.0, "column": "ill", "loss": "huber"}, "no default penalty: pass l2="),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(dm.Refusal, match=message):
        dm.attack(FRAME, "cost", **options)


def test_a_number_is_guessed_through_the_fitted_scaler_and_membership_says_what_it_holds_fixed():
    inversion = dm.attack(FRAME, "cost", column="age", scale=0.5, trials=20)
    assert "through the fitted scaler" in inversion.attack_result.method
    level = dm.attack(FRAME, "cost", column="ill", scale=0.5, trials=20)
    assert "through the fitted scaler" not in level.attack_result.method
    presence = dm.attack(FRAME, "cost", kind="membership", scale=0.5, trials=50)
    assert presence.membership.standing == "unaccounted"
    assert any("hold mean and deviation of the columns fixed" in note for note in presence.remarks)
    classes = dm.attack(
        FRAME[["ill", "cost"]].assign(sex=["f", "m"] * (N // 2)), "cost", kind="membership", scale=0.5, trials=50
    )
    assert classes.membership.standing == "exact"


def test_attacks_on_softmax_say_that_they_hold_the_scaler():
    frame = FRAME.assign(cost=np.resize(["low", "middle", "high"], N))
    number = dm.attack(frame, "cost", column="age", scale=0.5, trials=20)
    assert "with the fitted scaler held" in number.attack_result.method
    assert any("softmax model holds mean and deviation" in note for note in number.remarks)
    level = dm.attack(frame, "cost", column="ill", scale=0.5, trials=20)
    assert "scaler" not in level.attack_result.method
    assert not any("mean and deviation" in note for note in level.remarks)
    presence = dm.attack(frame, "cost", kind="membership", scale=0.5, trials=50)
    assert presence.membership.standing == "unaccounted"
    assert any("softmax model holds mean and deviation" in note for note in presence.remarks)


@pytest.mark.parametrize("alone", [1, 12])
def test_membership_of_a_row_that_is_alone_in_its_class_is_refused_in_its_own_words(alone):
    """Without the row its class, and so the model, is another: also where that holds for every row."""
    table = FRAME[["age"]].head(12)
    classes = [f"class {max(row, 12 - alone)}" if row >= 12 - alone else ("a", "b")[row % 2] for row in range(12)]
    with pytest.raises(dm.Refusal, match="certain to be in it"):
        dm.attack(table.assign(kind=classes), "kind", kind="membership", loss="softmax", scale=0.5, trials=20)
