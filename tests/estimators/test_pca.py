"""PrivatePCA: scikit-learn's own checks, what it keeps, and the plain PCA it releases."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import dosimeter as dm
from dosimeter.estimators import PrivatePCA

DIGITS = load_digits().data / 16
BOUNDS = dict(lower=0.0, upper=1.0)


# No check is excused. Bounds are given because a fit without them is refused.
@parametrize_with_checks([PrivatePCA(row_norm=10.0), PrivatePCA(lower=-5.0, upper=5.0, mechanism="laplace-joint")])
def test_scikit_learns_own_checks_hold(estimator, check):
    check(estimator)


def test_a_fit_without_bounds_is_refused_and_nothing_is_kept():
    model = PrivatePCA(2)
    with pytest.raises(dm.Refusal, match="bounds"):
        model.fit(DIGITS)
    assert not hasattr(model, "components_")


def test_bounds_from_the_table_mark_the_release_as_not_private():
    model = PrivatePCA(2, private=False).fit(DIGITS)
    assert "not private" in model.release_.recipe.kind
    assert any("read from the table" in reason for reason in model.release_.recipe.not_covered)
    assert model.dose_.standing.value == "unaccounted"


def test_hardly_any_noise_gives_scikit_learns_components_about_the_mean():
    X = DIGITS[:, 20:30]
    theirs = PCA(svd_solver="covariance_eigh").fit(X)
    # The public centre is the mean here: only then do the two agree, and only for such a large ε.
    ours = PrivatePCA(4, epsilon=1e6, row_norm=4.0, centre=X.mean(axis=0)).fit(X)
    for mine, their in zip(ours.components_, theirs.components_[:4], strict=True):
        assert abs(mine @ their) == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(
        ours.explained_variance_, theirs.explained_variance_[:4] * (len(X) - 1) / len(X), rtol=1e-3
    )


def test_the_released_model_is_plain_and_transforms_alike():
    model = PrivatePCA(5, epsilon=10.0, **BOUNDS).fit(DIGITS)
    plain = model.released_
    assert type(plain) is PCA
    np.testing.assert_allclose(plain.transform(DIGITS), model.transform(DIGITS), rtol=1e-12, atol=1e-12)
    scores = model.transform(DIGITS)
    np.testing.assert_allclose(plain.inverse_transform(scores), model.inverse_transform(scores), rtol=1e-12, atol=1e-12)
    assert not [name for name in vars(plain) if "dose" in name or "release" in name]


def test_the_share_of_variance_is_that_of_the_noisy_eigenvalues():
    for share in (0.0, 0.1):
        model = PrivatePCA(0.9, epsilon=1.0, mean_share=share, random_state=0, **BOUNDS).fit(DIGITS)
        m = model.mean_ - 0.5
        noisy = np.linalg.eigvalsh(model.release_.values["second_moment"] - np.outer(m, m))[::-1].clip(0)
        share_explained = np.cumsum(noisy) / noisy.sum()
        assert share_explained[model.n_components_ - 1] >= 0.9 > share_explained[model.n_components_ - 2]


def test_the_mean_is_noisy_within_the_budget_and_persons_are_the_units_if_given():
    person = np.arange(len(DIGITS)) // 3
    model = PrivatePCA(2, epsilon=1.0, **BOUNDS).fit(DIGITS, person=person)
    assert (model.dose_.unit, model.release_.recipe.settings["n_samples"]) == ("person", 599)
    assert model.epsilon_ <= 1.0 * (1 + 1e-9)
    assert np.abs(model.mean_ - DIGITS.mean(axis=0)).max() > 1e-6
    assert PrivatePCA(2, **BOUNDS).fit(DIGITS).dose_.unit == "example"
    np.testing.assert_array_equal(PrivatePCA(2, mean_share=0.0, **BOUNDS).fit(DIGITS).mean_, np.full(64, 0.5))


def test_names_and_dataframes_come_out():
    frame = pd.DataFrame(DIGITS[:, 10:14], columns=list("abcd"))
    model = PrivatePCA(2, **BOUNDS).set_output(transform="pandas").fit(frame)
    assert list(model.transform(frame).columns) == ["privatepca0", "privatepca1"]
    assert model.get_feature_names_out().tolist() == ["privatepca0", "privatepca1"]
    assert model.released_.feature_names_in_.tolist() == list("abcd")


def test_it_works_in_a_pipeline_and_is_cloned():
    y = load_digits().target
    model = make_pipeline(PrivatePCA(20, epsilon=1e4, random_state=0, **BOUNDS), LogisticRegression(max_iter=500))
    model.fit(DIGITS, y)
    assert model.score(DIGITS, y) > 0.9
    assert clone(model[0]).get_params() == model[0].get_params()


def test_two_fits_differ_and_a_seed_is_a_simulation():
    first, second = (PrivatePCA(2, **BOUNDS).fit(DIGITS).release_.values["second_moment"] for _ in range(2))
    assert (first == second).sum() < 20  # of 4096 on a grid: one pair in 3e5 is equal by chance
    seeded = [PrivatePCA(2, random_state=3, **BOUNDS).fit(DIGITS) for _ in range(2)]
    np.testing.assert_array_equal(seeded[0].components_, seeded[1].components_)
    assert seeded[0].release_.recipe.simulation


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "laplace-split", "laplace-joint"])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-or-remove-one"])
def test_the_promised_budget_is_kept(mechanism, neighbours):
    model = PrivatePCA(2, epsilon=0.7, delta=1e-5, mechanism=mechanism, neighbours=neighbours, n_samples=1797, **BOUNDS)
    model.fit(DIGITS[:, :20])
    assert model.epsilon_ <= 0.7 * (1 + 1e-9)
    assert model.dose_.adjacency == neighbours


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_components": 0},
        {"n_components": 65},
        {"n_components": 1.5},
        {"n_components": "mle"},
        {"epsilon": 0.0},
        {"epsilon": float("nan")},
        {"delta": 1.0},
        {"delta": 0.0},
        {"mechanism": "wishart"},
        {"neighbours": "cousins"},
        {"neighbours": "add-or-remove-one"},
        {"lower": 2.0},
        {"lower": [0.0, 0.0]},
        {"row_norm": -1.0},
        {"n_samples": 10},
    ],
    ids=str,
)
def test_invalid_settings_are_refused(parameters):
    with pytest.raises(dm.Refusal):
        PrivatePCA(**{"n_components": 2, **BOUNDS, **parameters}).fit(DIGITS)


def test_the_estimator_keeps_nothing_exact():
    model = PrivatePCA(epsilon=1.0, **BOUNDS).fit(DIGITS)
    Z = DIGITS - 0.5
    A = Z.T @ Z / len(Z)
    kept = [v for v in vars(model).values() if isinstance(v, np.ndarray)] + list(model.release_.values.values())
    for array in kept:
        assert array.shape[0] < len(DIGITS)
        if array.shape == A.shape:
            assert np.abs(array - A).max() > 1e-3
