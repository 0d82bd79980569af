"""A release by `fix`: it has the same figures as the same model measured with that noise."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.models.fit_table import fit_table
from dosimeter.models.linear_release import release_table
from dosimeter.results.linear import LinearRelease
from dosimeter.results.measurement import Measurement
from dosimeter.tables.table import Table


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(4)
    age, weight = rng.normal(50, 9, 90), rng.normal(70, 12, 90)
    ward = rng.permutation(np.repeat(["a", "b", "c"], 30))
    who = [f"p{k // 2}" for k in range(90)]
    return Table.of({"who": who, "age": age, "weight": weight, "ward": list(ward), "y": age / 9 + rng.normal(size=90)})


@pytest.mark.parametrize("law", [dm.Gaussian, dm.Laplace])
@pytest.mark.parametrize("person", [None, "who"])
def test_a_repair_reads_as_a_measurement_with_the_same_noise(visits, law, person):
    table = visits if person else visits.drop(["who"])
    release = release_table(table, "y", max_dose=2.0, law=law, person=person)
    result = LinearRelease.of(release, table, limit=2.0, within=True)
    fit = fit_table(table, "y", noise=law(result.model.scale), person=person)
    measured = Measurement.of(fit.leakage, table, limit=2.0, fit=fit)
    assert result.scale_from == "the data"
    assert result.distribution.model_fields_set == measured.distribution.model_fields_set
    assert result.frontier.model_fields_set == measured.frontier.model_fields_set
    assert result.distribution.counts == measured.distribution.counts
    assert result.strip.columns == measured.strip.columns
    assert result.strip.rows == measured.strip.rows
    assert np.allclose(result.strip.eta, measured.strip.eta)
    assert [g.group for g in result.groups] == [g.group for g in measured.groups]
    assert [g.median for g in result.groups] == pytest.approx([g.median for g in measured.groups])
    mine, theirs = ([(s.scale, s.score, s.highest) for s in r.frontier.isotropic] for r in (result, measured))
    assert np.allclose(mine, theirs)


@pytest.mark.parametrize("options", [{"noise_shape": "hessian"}, {"reweighting_rounds": 3}])
def test_shaped_and_reweighted_releases_have_their_exposure_matrix_too(visits, options):
    table = visits.drop(["who"])
    release = release_table(table, "y", scale=0.5, **options)
    result = LinearRelease.of(release, table, limit=None, within=True)
    assert result.scale_from == "stated"
    assert result.frontier.here_on == ("shaped" if "noise_shape" in options else "")
    top = result.strip.rows[0] - 1
    assert result.ranked[0].dose == pytest.approx(release.doses[top])
    # No cell of a row says more than the whole row does.
    for k, row in enumerate(result.strip.rows):
        assert max(result.strip.eta[k]) <= release.doses[row - 1] * (1 + 1e-9)


def test_the_highest_dose_is_the_limit_of_a_stated_scale(visits):
    table = visits.drop(["who"])
    release = release_table(table, "y", scale=0.5)
    stated = LinearRelease.of(release, table, limit=1000.0, within=True)
    assert stated.held_out.limit == release.plan.highest
    chosen = LinearRelease.of(release_table(table, "y", max_dose=2.0), table, limit=2.0, within=True)
    assert chosen.held_out.limit == 2.0


def test_rows_that_were_left_out_are_remarked(visits):
    table = visits.drop(["who"])
    release = release_table(table, "y", scale=0.5)
    assert not [
        note for note in LinearRelease.of(release, table, limit=None, within=True).remarks if "left out" in note
    ]
    fewer = Table(table.names, table.columns, table.rows, 7, table.gaps)
    assert "rows left out for a missing value or an undeclared class: 7" in (
        LinearRelease.of(release, fewer, limit=None, within=True).remarks
    )
