"""Facts of a repair: what is released reads as the same model does when it is measured with that noise."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.models.fit_table import fit_table
from dosimeter.models.linear_release import repair
from dosimeter.results.repaired import repaired
from dosimeter.results.summarise import summarise
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
    done = repair(table, "y", max_dose=2.0, law=law, person=person)
    facts = repaired(done, table, 2.0, True)
    own = fit_table(table, "y", noise=law(facts["model"]["scale"]), person=person)
    measured = summarise(own.leakage, table, limit=2.0)
    assert facts["scale_from"] == "the data"
    for key in ("distribution", "frontier"):
        assert facts[key].keys() == measured[key].keys()
    assert facts["distribution"]["counts"] == measured["distribution"]["counts"]
    assert facts["strip"]["columns"] == measured["strip"]["columns"]
    assert facts["strip"]["rows"] == measured["strip"]["rows"]
    assert np.allclose(facts["strip"]["eta"], measured["strip"]["eta"])
    assert [g["group"] for g in facts["groups"]] == [g["group"] for g in measured["groups"]]
    assert [g["median"] for g in facts["groups"]] == pytest.approx([g["median"] for g in measured["groups"]])
    mine, theirs = (
        [(s["scale"], s["score"], s["highest"]) for s in f["frontier"]["isotropic"]] for f in (facts, measured)
    )
    assert np.allclose(mine, theirs)


@pytest.mark.parametrize("how", [{"shape": "hessian"}, {"equalise": 3}])
def test_shaped_and_reweighted_releases_have_their_strip_too(visits, how):
    table = visits.drop(["who"])
    done = repair(table, "y", scale=0.5, **how)
    facts = repaired(done, table, None, True)
    assert facts["scale_from"] == "stated"
    assert facts["frontier"]["here_on"] == ("shaped" if "shape" in how else "")
    top = facts["strip"]["rows"][0] - 1
    assert facts["ranked"][0]["dose"] == pytest.approx(done.doses[top])
    # No cell of a row tells more than the whole row does.
    for k, row in enumerate(facts["strip"]["rows"]):
        assert max(facts["strip"]["eta"][k]) <= done.doses[row - 1] * (1 + 1e-9)
