"""[Hannun21] 6.4: the attacks' known answers to rtol 1e-8, and the figures of the notes on Adult."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.datasets.papers import adult, iwpc
from dosimeter.glm.attacks.attribute_inversion import moves, white_box
from dosimeter.glm.attacks.membership import membership, removal
from dosimeter.glm.attacks.prediction_inversion import black_box

pytestmark = pytest.mark.paper
CLOSE = dict(rtol=1e-8, atol=1e-12)
VKORC1 = [11, 12]


@pytest.fixture(scope="module")
def summary(golden):
    return json.loads((golden / "fil" / "summary.json").read_text())


@pytest.fixture(scope="module")
def warfarin(papers_data, golden):
    _, X, dose = iwpc(papers_data)
    known = np.load(golden / "fil" / "iwpc.npz")
    return X[known["train_rows"]], dose[known["train_rows"]], known


@pytest.fixture(scope="module")
def census(papers_data):
    return adult(papers_data)[1]


def unit_draws(p):
    return np.random.default_rng(12345).standard_normal((100, p))


@pytest.mark.parametrize("lam", ["1e-05", "0.001", "0.01", "0.1", "1"])
def test_both_attacks_on_the_warfarin_patients(lam, warfarin, summary):
    X, y, _ = warfarin
    facts = summary[f"iwpc/linear/lam{lam}"]
    fit = glm.fit(X, y, glm.Squared(), float(lam))
    b = unit_draws(14)
    for attack, key in ((white_box, "whitebox_acc_mean_std"), (black_box, "blackbox_acc_mean_std")):
        assert len(facts[key]) == 6
        for sigma, (mean, std) in facts[key].items():
            result = attack(fit, X, y, VKORC1, float(sigma) * b)
            np.testing.assert_allclose(result.figure, mean, **CLOSE)
            np.testing.assert_allclose(result.by_release.std(), std, **CLOSE)
            np.testing.assert_allclose(result.control_figure, facts["prior"], **CLOSE)
    noiseless = black_box(fit, X, y, VKORC1, np.zeros((1, 14)))
    np.testing.assert_allclose(noiseless.figure, facts["blackbox_noiseless"], **CLOSE)


def test_the_deciles_before_and_after_reweighting(warfarin, summary):
    X, y, known = warfarin
    facts = summary["iwpc/linear/irfil10"]
    plain = glm.fit(X, y, glm.Squared(), 0.01)
    eta = glm.measure(plain, X, y, dm.Gaussian(1.0)).attribute(VKORC1)
    after = glm.fit(X, y, glm.Squared(), 0.01, sample_weight=known["lam0.01_irfil10_vkorc1_omega"])
    for fit, key in ((plain, "decile_wb_before"), (after, "decile_wb_after")):
        result = white_box(fit, X, y, VKORC1, 1e-3 * unit_draws(14))
        np.testing.assert_allclose(result.by_part(eta).mean(axis=1), facts[key], **CLOSE)


def test_the_map_attack_does_not_fall_below_the_prior_at_large_noise(warfarin):
    """Figures of the notes, three digits; the nearest model ends at 0.304 and the prior is 0.3673."""
    X, y, _ = warfarin
    fit = glm.fit(X, y, glm.Squared(), 0.01)
    for sigma, figure in ((1e-4, 0.984), (1e-3, 0.552), (1e-2, 0.360), (1e-1, 0.3667), (1.0, 0.3673)):
        noise = dm.Gaussian(sigma)
        result = white_box(fit, X, y, VKORC1, sigma * unit_draws(14), noise=noise)
        assert result.figure == pytest.approx(figure, abs=6e-4)


def test_the_census_is_attacked_as_the_notes_say(census):
    X, y = census.X, 2 * census.y - 1
    fit = glm.fit(X, y, glm.Squared(), 1e-3)
    b = unit_draws(86)
    for sigma, figure in ((1e-4, 0.974), (1e-3, 0.648), (1e-2, 0.523)):
        assert white_box(fit, X, y, [24], sigma * b).figure == pytest.approx(figure, abs=6e-4)
    result = white_box(fit, X, y, [24], 1e-3 * b)
    eta = glm.measure(fit, X, y, dm.Gaussian(1.0)).attribute([24])
    parts = result.by_part(eta).mean(axis=1)
    assert parts[[0, 8, 9]] == pytest.approx([0.569, 0.753, 0.959], abs=6e-4)
    blind = black_box(fit, X, y, [24], np.zeros((1, 86)))
    assert blind.figure == pytest.approx(0.6911, abs=6e-5)
    assert blind.control_figure == pytest.approx(0.5207, abs=6e-5)


def test_the_census_classifier_is_attacked_by_one_newton_step_with_its_error(census):
    X, y = census.X, census.y
    fit = glm.fit(X, y, glm.Logistic(), 1e-3)
    assert white_box(fit, X, y, [24], 1e-3 * unit_draws(86)).figure == pytest.approx(0.784, abs=6e-4)
    assert black_box(fit, X, y, [24], np.zeros((1, 86))).figure == pytest.approx(0.607, abs=6e-4)
    eta = glm.measure(fit, X, y, dm.Gaussian(1.0)).attribute([24])
    rows = np.append(np.argsort(-eta)[:8], [0, 1, 2, 3])
    quick, true = (moves(fit, X, y, [24], rows, exact=exact) for exact in (False, True))
    off = np.linalg.norm(quick - true, axis=2).max(axis=1) / np.linalg.norm(true, axis=2).max(axis=1)
    assert off.max() < 2e-3
    # The exact move against a refit from scratch.
    other = X.copy()
    other[rows[0], 24] = 1 - other[rows[0], 24]
    truth = glm.fit(other, y, glm.Logistic(), 1e-3, start=fit.w).w - fit.w
    ours = true[0, 0] if true[0, 0].any() else true[0, 1]
    assert np.linalg.norm(ours - truth) < 1e-6 * np.linalg.norm(truth)


def test_a_patient_is_removed_as_a_refit_would(warfarin):
    X, y, _ = warfarin
    fit = glm.fit(X, y, glm.Squared(), 0.01)
    moved = removal(fit, X, y)
    for row in (0, 1234, int(np.argmax(np.linalg.norm(moved, axis=1)))):
        weight = np.ones(len(y))
        weight[row] = 0.0
        truth = glm.fit(X, y, glm.Squared(), 0.01, sample_weight=weight).w - fit.w
        assert np.linalg.norm(moved[row] - truth) < 1e-8 * np.linalg.norm(truth)
    assert membership(fit, X, y, dm.Gaussian(1e-3)).auc.max() > 0.99
