"""What a page draws of components, computed again one k at a time."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter import pca
from dosimeter.core.dose import Dose
from dosimeter.core.notion import FISHER, Standing
from dosimeter.results.component_figures import MOST, by_components, doses, variance


def test_variance_by_k_is_the_trace_in_the_first_k_directions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) * [5, 3, 2, 1, 1, 0.5]
    A = X.T @ X / 40
    V = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    told = variance(A, V)
    best = np.linalg.svd(X, compute_uv=False) ** 2
    for i, k in enumerate(told["k"]):
        P = V[:, :k] @ V[:, :k].T
        assert told["released"][i] == pytest.approx(np.linalg.norm(X @ P) ** 2 / np.linalg.norm(X) ** 2)
        assert told["exact"][i] == pytest.approx(best[:k].sum() / best.sum())
        assert told["at_random"][i] == k / 6


def test_many_components_are_thinned_out_with_the_first_and_the_last_kept():
    told = variance(np.eye(200), np.eye(200))
    assert len(told["k"]) <= MOST
    assert (told["k"][0], told["k"][-1]) == (1, 200)


def test_the_attack_by_k_is_the_attack_at_each_k_beside_its_own_chance():
    rng = np.random.default_rng(1)
    members, strangers = rng.normal(size=(30, 5)), rng.normal(size=(25, 5))
    found = pca.components(pca.second_moment(members))
    result = pca.attack(found, members, strangers, np.random.default_rng(2), k=2)
    told = by_components(result)
    assert told["k"] == list(range(1, found.rank + 1))
    assert told["auc"] == pytest.approx(pca.auc_by_components(found, members, strangers))
    for i, k in enumerate(told["k"][:-1]):
        deals = np.sort(result.null.auc[:, k])
        inside = np.mean((deals >= told["null_low"][i]) & (deals <= told["null_high"][i]))
        assert 0.93 <= inside <= 0.97
    # With all five directions nothing is left over of any row: all are tied, whoever is a member.
    assert (told["null_low"][-1], told["null_high"][-1]) == (0.5, 0.5)


def test_people_are_ranked_by_the_dose_under_their_own_id():
    ids = ("b", "a", "b", "c")
    made = Dose.of_reading(FISHER, "person", ("a", "b", "c"), [3.0, 1.0, 2.0], standing=Standing.EXACT)
    told = doses(made, ids, np.arange(4))
    assert [(entry["row"], entry["dose"]) for entry in told["ranked"]] == [(2, 3.0), (4, 2.0), (1, 1.0)]
    assert "ranked" not in doses(made, ids, None)
