"""Figures of the result of `pca`, computed again one k at a time."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter import pca
from dosimeter.core.dose import Dose
from dosimeter.core.notion import FISHER, Standing
from dosimeter.models.component_release import mechanism_of, release_components
from dosimeter.models.component_rows import component_rows
from dosimeter.results.component_parts import (
    MOST,
    AttackByComponents,
    InternalComponentFigures,
    VarianceByComponents,
    most_exposed,
)
from dosimeter.results.components import ComponentsRelease
from dosimeter.results.result import read
from dosimeter.tables.bounds_file import bounds_of
from dosimeter.tables.table import Table


def test_variance_by_k_is_the_trace_in_the_first_k_directions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) * [5, 3, 2, 1, 1, 0.5]
    A = X.T @ X / 40
    V = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    variance = VarianceByComponents.of(A, V)
    best = np.linalg.svd(X, compute_uv=False) ** 2
    for i, k in enumerate(variance.k):
        P = V[:, :k] @ V[:, :k].T
        assert variance.released[i] == pytest.approx(np.linalg.norm(X @ P) ** 2 / np.linalg.norm(X) ** 2)
        assert variance.exact[i] == pytest.approx(best[:k].sum() / best.sum())
        assert variance.at_random[i] == k / 6


def test_many_components_are_thinned_out_with_the_first_and_the_last_kept():
    variance = VarianceByComponents.of(np.eye(200), np.eye(200))
    assert len(variance.k) <= MOST
    assert (variance.k[0], variance.k[-1]) == (1, 200)


def test_the_attack_by_k_is_the_attack_at_each_k_beside_its_own_chance():
    rng = np.random.default_rng(1)
    members, strangers = rng.normal(size=(30, 5)), rng.normal(size=(25, 5))
    exact = pca.components(pca.second_moment(members))
    result = pca.attack(exact, members, strangers, np.random.default_rng(2), k=2)
    curve = AttackByComponents.of(result)
    assert curve.k == list(range(1, exact.rank + 1))
    assert curve.auc == pytest.approx(pca.auc_by_components(exact, members, strangers))
    for i, k in enumerate(curve.k[:-1]):
        deals = np.sort(result.null.auc[:, k])
        inside = np.mean((deals >= curve.null_low[i]) & (deals <= curve.null_high[i]))
        assert 0.93 <= inside <= 0.97
    # With all five directions nothing is left over of any row: all are tied, whoever is a member.
    assert (curve.null_low[-1], curve.null_high[-1]) == (0.5, 0.5)


def test_people_are_ranked_by_the_dose_under_their_own_id():
    ids = ("b", "a", "b", "c")
    dose = Dose.of_figures(FISHER, "person", ("a", "b", "c"), [3.0, 1.0, 2.0], standing=Standing.EXACT)
    ranked = most_exposed(dose, ids, np.arange(4))
    assert [(entry.row, entry.dose) for entry in ranked] == [(2, 3.0), (4, 2.0), (1, 1.0)]


def released(mechanism="analyze-gauss", missing="refuse", **columns):
    """The release of a small table of two numbers between 0 and 1."""
    rng = np.random.default_rng(3)
    table = Table.of({"a": rng.uniform(0, 1, 30), "b": rng.uniform(0, 1, 30), **columns}, missing=missing)
    bounds = bounds_of({name: {"lower": 0, "upper": 1} for name in table.names})
    recipe = mechanism_of(mechanism, 1.0, 1e-6, "replace-one", None)
    return release_components(component_rows(table, bounds, None), recipe, mechanism, 2)


def test_nobody_is_ranked_by_a_row_number_that_is_not_known():
    assert len(InternalComponentFigures.of(released()).ranked) == 30
    gap = np.linspace(0, 1, 30)
    gap[4] = np.nan
    figures = InternalComponentFigures.of(released(missing="drop", c=gap))
    assert figures.rows_left_out == 1
    assert not figures.shows("ranked")
    assert figures.shows("distribution")


def test_what_laplace_noise_cannot_measure_is_named_and_the_rest_is_there():
    figures = InternalComponentFigures.of(released("laplace"))
    assert figures.dose.highest > 0
    assert figures.membership.not_measured
    assert not figures.membership.shows("highest")


def test_a_result_is_read_back_from_its_own_json():
    import json

    release = released()
    result = ComponentsRelease.of(release, InternalComponentFigures.of(release))
    again = read(json.loads(result.to_json()))
    assert again == result
    assert again.to_json() == result.to_json()
    assert result.rows_public == 30
    assert not result.shows("people_public")
    assert "attack" not in result.to_dict()
