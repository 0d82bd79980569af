"""[Hannun21]: the known answers to rtol 1e-8, and the printed rows of Table 1 without reweighting."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.datasets.papers import adult, cifar_planes_and_cars, iwpc, mnist_zeros_and_ones
from dosimeter.reproductions import hannun21

pytestmark = pytest.mark.paper
CLOSE = dict(rtol=1e-8, atol=1e-12)
ONE = dm.Gaussian(1.0)


@pytest.fixture(scope="module")
def summary(golden):
    return json.loads((golden / "fil" / "summary.json").read_text())


@pytest.fixture(scope="module")
def images(papers_data):
    loaders = {"mnist01": mnist_zeros_and_ones, "cifar_plane_car": cifar_planes_and_cars}
    return {name: hannun21.in_principal_components(load(papers_data)) for name, load in loaders.items()}


@pytest.mark.parametrize("name", ["mnist01", "cifar_plane_car"])
@pytest.mark.parametrize("model", ["linear", "logistic"])
def test_every_eta_of_the_image_sets(name, model, images, golden, summary):
    split, known = images[name], np.load(golden / "fil" / f"{name}.npz")
    facts = summary[f"{name}/{model}"]
    y = hannun21.targets(split.y, model == "linear")
    loss = glm.Squared() if model == "linear" else glm.Logistic()
    fit = glm.fit(split.X, y, loss, facts["lam"])
    leak = glm.measure(fit, split.X, y, ONE)
    np.testing.assert_allclose(leak.examples, known[f"{model}_eta"], **CLOSE)
    np.testing.assert_allclose(leak.without_target().examples, known[f"{model}_eta_x_only"], **CLOSE)
    squares = np.sum(leak.cells**2, axis=1)
    np.testing.assert_allclose(squares, known[f"{model}_fro2_x"], **CLOSE)
    np.testing.assert_allclose(squares + leak.labels**2, known[f"{model}_fro2_xy"], **CLOSE)
    np.testing.assert_allclose(leak.without_target().dfil.mean(), facts["dfil_x"]["mean"], **CLOSE)
    np.testing.assert_allclose(leak.dataset, facts["full_dataset_fil"], **CLOSE)
    # The weights that IRFIL ends with are given: one weighted fit must give its η back.
    omega = known[f"{model}_irfil15_omega"]
    weighted = glm.measure(glm.fit(split.X, y, loss, facts["lam"], sample_weight=omega), split.X, y, ONE)
    np.testing.assert_allclose(weighted.examples, known[f"{model}_irfil15_eta"], **CLOSE)


@pytest.mark.parametrize("name", ["mnist01", "cifar_plane_car"])
def test_the_top_hundred_of_the_two_models_overlap_as_printed(name, images, summary):
    split = images[name]
    top = []
    for model, loss in (("linear", glm.Squared()), ("logistic", glm.Logistic())):
        y = hannun21.targets(split.y, model == "linear")
        eta = glm.measure(glm.fit(split.X, y, loss, summary[f"{name}/{model}"]["lam"]), split.X, y, ONE).examples
        top.append(set(np.argsort(-eta)[:100].tolist()))
    assert len(top[0] & top[1]) == {"mnist01": 24, "cifar_plane_car": 34}[name]


@pytest.mark.parametrize("lam", ["1e-05", "0.001", "0.01", "0.1", "1"])
def test_every_eta_of_the_warfarin_patients(lam, papers_data, golden):
    names, X, dose = iwpc(papers_data)
    assert names[11:13] == ("vkorc1=CT", "vkorc1=TT")
    known = np.load(golden / "fil" / "iwpc.npz")
    X, y = X[known["train_rows"]], dose[known["train_rows"]]
    leak = glm.measure(glm.fit(X, y, glm.Squared(), float(lam)), X, y, ONE)
    np.testing.assert_allclose(leak.examples, known[f"lam{lam}_eta"], **CLOSE)
    np.testing.assert_allclose(leak.attribute([11, 12]), known[f"lam{lam}_eta_vkorc1"], **CLOSE)


def test_the_reweighted_warfarin_model_gives_its_eta_back(papers_data, golden):
    _, X, dose = iwpc(papers_data)
    known = np.load(golden / "fil" / "iwpc.npz")
    X, y = X[known["train_rows"]], dose[known["train_rows"]]
    fit = glm.fit(X, y, glm.Squared(), 0.01, sample_weight=known["lam0.01_irfil10_vkorc1_omega"])
    leak = glm.measure(fit, X, y, ONE)
    np.testing.assert_allclose(leak.attribute([11, 12]), known["lam0.01_irfil10_vkorc1_eta"], **CLOSE)


def test_adult_has_the_shape_and_the_figures_of_the_notes(papers_data):
    names, split = adult(papers_data)
    assert split.X.shape == (30162, 86)
    assert names[24] == "unmarried"
    assert int(split.y.sum()) == 7508
    y = 2 * split.y - 1
    leak = glm.measure(glm.fit(split.X, y, glm.Squared(), 1e-3), split.X, y, ONE)
    marital = leak.attribute([24])
    # Printed with four digits by an independent implementation.
    assert marital.mean() == pytest.approx(0.001006, abs=5e-7)
    assert marital.max() == pytest.approx(0.01844, abs=5e-6)
    assert leak.examples.mean() == pytest.approx(0.01846, abs=5e-6)
    assert leak.dataset == pytest.approx(3.980, abs=5e-4)


def test_the_rows_of_table_1_are_held_or_answered(papers_data):
    report = hannun21.rows(papers_data)
    assert len(report.rows) == 12
    assert not report.unexplained
    (differs,) = [row for row in report.rows if not row.ok]
    assert differs.figure == "Table 1 linear cifar mean"
    assert differs.ours == pytest.approx(0.2474, abs=5e-5)
    assert "0.2474" in differs.why
