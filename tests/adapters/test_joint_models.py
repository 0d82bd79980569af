"""Models of several outputs in a wrapper: by refits of the library, and by the same models without the wrapper."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Lasso, LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.svm import LinearSVC

import dosimeter as dm

RNG = np.random.default_rng(31)
N = 45
X = RNG.normal(size=(N, 3)) * [1.0, 2.0, 0.5]
MARGIN = X @ [0.8, -0.4, 0.6]
THREE = np.digitize(MARGIN + RNG.normal(size=N), [-0.5, 0.7])
SEVERAL = np.column_stack([MARGIN + RNG.normal(size=N) > 0, RNG.random(N) < 0.4, THREE == 2]).astype(int)
NEWTON = {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 500}
CASES = {
    "ridge classifiers against the rest": (OneVsRestClassifier(RidgeClassifier(alpha=2.0)), THREE),
    "weighed ridge classifiers": (OneVsRestClassifier(RidgeClassifier(class_weight={0: 1.0, 1: 3.0})), THREE),
    "several labels": (OneVsRestClassifier(LogisticRegression(**NEWTON)), SEVERAL),
    "several labels by ridge": (OneVsRestClassifier(RidgeClassifier(alpha=0.5)), SEVERAL),
    "a ridge classifier for each label": (MultiOutputClassifier(RidgeClassifier(alpha=2.0)), SEVERAL),
}


def weights(model):
    return np.concatenate([np.append(np.ravel(part.coef_), part.intercept_) for part in model.estimators_])


def measured(model, y, **options):
    return dm.measure(clone(model).fit(X, y), X, y, noise=dm.Gaussian(1.0), **options)


@pytest.mark.parametrize("name", CASES)
def test_cells_are_those_of_refits(name):
    model, y = CASES[name]
    leak = measured(model, y)
    for i in (0, 11):
        for j in range(3):
            step = np.zeros_like(X)
            step[i, j] = 1e-4
            up, down = (weights(clone(model).fit(X + sign * step, y)) for sign in (1, -1))
            assert leak.cells[i, j] == pytest.approx(np.linalg.norm(up - down) / 2e-4, rel=1e-6)


def test_ridge_classifiers_against_the_rest_are_the_ridge_classifier_of_these_classes():
    """The same weights, so the same figures of rows, labels and people."""
    people = [f"p{k // 3}" for k in range(N)]
    for y in (THREE, SEVERAL[:, 0]):
        wrapped = measured(OneVsRestClassifier(RidgeClassifier(alpha=2.0)), y, person=people)
        alone = measured(RidgeClassifier(alpha=2.0), y, person=people)
        for reading in ("cells", "labels", "examples"):
            np.testing.assert_allclose(getattr(wrapped, reading), getattr(alone, reading), rtol=1e-9)
        assert wrapped.persons == pytest.approx(alone.persons, rel=1e-9)


@pytest.mark.parametrize("part", [LogisticRegression(**NEWTON), RidgeClassifier(class_weight={0: 1.0, 1: 2.0})])
def test_several_labels_are_a_model_for_each(part):
    """One-versus-rest of several labels fits what MultiOutputClassifier fits, and each label moves its own model alone.

    The labels were read as if they were classes of which a row has one: as steps from one label to another.
    """
    several, each = (measured(kind(part), SEVERAL) for kind in (OneVsRestClassifier, MultiOutputClassifier))
    alone = np.column_stack([measured(part, label).labels for label in SEVERAL.T])
    for reading in ("cells", "labels", "examples"):
        np.testing.assert_allclose(getattr(several, reading), getattr(each, reading), rtol=1e-9)
    np.testing.assert_allclose(several.labels, alone.max(axis=1), rtol=1e-9)
    people = [f"p{k // 3}" for k in range(N)]
    same = np.repeat(SEVERAL[::3], 3, axis=0)
    shared = dm.measure(OneVsRestClassifier(part).fit(X, same), X, same, person=people, noise=dm.Gaussian(1.0))
    alone = [dm.measure(clone(part).fit(X, y), X, y, person=people, noise=dm.Gaussian(1.0)).labels for y in same.T]
    assert shared.tied_target
    np.testing.assert_allclose(shared.labels, np.max(alone, axis=0), rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "y", "why"),
    [
        (MultiOutputRegressor(Lasso(alpha=0.05)), SEVERAL, "MultiOutputRegressor of Lasso is not measured"),
        (MultiOutputClassifier(LogisticRegression()), np.column_stack([THREE, THREE]), "no third class"),
        (OneVsRestClassifier(LinearSVC(intercept_scaling=3.0)), THREE, "intercept_scaling other than 1"),
    ],
)
def test_what_is_no_joint_release_is_refused_by_its_own_reason(model, y, why):
    with pytest.raises(dm.CannotMeasure, match=why) as refused:
        measured(model, y)
    assert "fit and measure one model for each" in str(refused.value)
