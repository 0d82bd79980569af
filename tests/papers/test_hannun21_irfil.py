"""[Hannun21] section 5: IRFIL's known answers to rtol 1e-8, and the meaning of its equal figures on IWPC."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.datasets.papers import cifar_planes_and_cars, iwpc, mnist_zeros_and_ones
from dosimeter.glm.reweighting.irfil import irfil, unevenness
from dosimeter.glm.reweighting.reweighted_leakage import total_leakage
from dosimeter.reproductions import hannun21

from ..glm.reweighting import derivative

pytestmark = pytest.mark.paper
CLOSE = dict(rtol=1e-8, atol=1e-12)
ONE = dm.Gaussian(1.0)
VKORC1 = [11, 12]


@pytest.fixture(scope="module")
def warfarin(papers_data, golden):
    _, X, dose = iwpc(papers_data)
    known = np.load(golden / "fil" / "iwpc.npz")
    return X[known["train_rows"]], dose[known["train_rows"]], known


@pytest.fixture(scope="module")
def some(warfarin):
    """A thousand of the patients."""
    X, y, _ = warfarin
    rows = np.random.default_rng(0).choice(len(X), 1000, replace=False)
    return X[rows], y[rows]


@pytest.mark.parametrize("name", ["mnist01", pytest.param("cifar_plane_car", marks=pytest.mark.slow)])
def test_fifteen_reweightings_of_the_image_sets(name, papers_data, golden):
    load = mnist_zeros_and_ones if name == "mnist01" else cifar_planes_and_cars
    split, known = hannun21.in_principal_components(load(papers_data)), np.load(golden / "fil" / f"{name}.npz")
    facts = json.loads((golden / "fil" / "summary.json").read_text())
    for model, loss in (("linear", glm.Squared()), ("logistic", glm.Logistic())):
        y = hannun21.targets(split.y, model == "linear")
        reweighting = irfil(split.X, y, loss, facts[f"{name}/{model}"]["lam"], rounds=15, tolerance=0.0)
        np.testing.assert_allclose(reweighting.weights, known[f"{model}_irfil15_omega"], **CLOSE)
        np.testing.assert_allclose(reweighting.eta, known[f"{model}_irfil15_eta"], **CLOSE)
        np.testing.assert_allclose(reweighting.history[:, :3], known[f"{model}_irfil15_history_mean_std_max"], **CLOSE)


def test_ten_reweightings_of_the_warfarin_patients(warfarin):
    X, y, known = warfarin
    reweighting = irfil(X, y, glm.Squared(), 0.01, rounds=10, columns=VKORC1, tolerance=0.0)
    np.testing.assert_allclose(reweighting.weights, known["lam0.01_irfil10_vkorc1_omega"], **CLOSE)
    np.testing.assert_allclose(reweighting.eta, known["lam0.01_irfil10_vkorc1_eta"], **CLOSE)
    assert reweighting.eta.mean() == pytest.approx(0.001680, abs=5e-7)


def test_the_equal_figures_of_the_patients_are_not_equal(some):
    """Reported equal to 1 %; through the reweighting the figures differ by a factor of four."""
    X, y = some
    leak = total_leakage(irfil(X, y, glm.Squared(), 0.01, rounds=10, columns=VKORC1, tolerance=0.0), X, y, ONE)
    reported, true = leak.reported.attribute(VKORC1), leak.attribute(VKORC1)
    assert reported.std() < 0.01 * reported.mean()
    assert true.std() > 0.25 * true.mean()
    assert unevenness(true) > 2
    assert leak.ratio.min() < 1 < 3 < leak.ratio.max()


def test_the_total_figure_of_some_patients_is_that_of_the_whole_pipeline(some):
    X, y = some
    reweighting = irfil(X, y, glm.Squared(), 0.01, rounds=10, columns=VKORC1, tolerance=0.0)
    J = total_leakage(reweighting, X, y, ONE).true.jacobian
    highest = int(np.argmax(J.row_norms(np.array(VKORC1), include_target=False)))
    rows = np.array([highest, 3])
    known = derivative(X, y, "squared", 0.01, 10, rows, columns=VKORC1)
    ours = J.dense(rows)
    assert np.max(np.abs(ours - known) / np.abs(known).max(axis=(1, 2), keepdims=True)) < 1e-6
