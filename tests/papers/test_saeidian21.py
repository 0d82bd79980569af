"""[Saeidian21]: Examples 14 and 17 as printed, and the known answers for leakage and bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dosimeter import pate
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise

pytestmark = pytest.mark.paper
LAWS = {"gumbel": Gumbel, "logistic": LogisticNoise, "exponential": Exponential}


@pytest.fixture(scope="module")
def known(golden: Path) -> dict[str, Any]:
    return json.loads((golden / "pate" / "leakage.json").read_text())


def close(gamma: str) -> dict[str, float]:
    """The tolerances that come with the known answers."""
    return {"rel": 1e-12 if float(gamma) >= 1e-3 else 1e-9, "abs": 1e-300}


def test_example_14_as_printed() -> None:
    leak = pate.leakage([[4, 3, 2, 1], [5, 2, 2, 1], [5, 3, 1, 1], [5, 3, 2, 0]], Laplace(10.0))
    assert [f"{x:.4f}" for x in leak] == ["0.0850", "0.0840", "0.0837", "0.0835"]
    assert f"{pate.data_independent_bound(4, 0.1):.4f}" == "0.0861"
    assert pate.uniform_bound(0.1) == 0.1
    # v = (3, 3, 3, 2) is printed as 8.58e-2, which is cut off: the value is 8.5854e-2.
    assert f"{pate.leakage([[3, 3, 2, 2], [3, 3, 3, 1]], Laplace(10.0)).max():.6f}" == "0.085854"


def test_example_17_as_printed() -> None:
    bounds = pate.data_dependent_bound([[4, 3, 2, 1], [90, 5, 5, 0]], 0.1)
    assert [f"{x:.2e}" for x in bounds] == ["6.81e-01", "1.05e-03"]


@pytest.mark.parametrize("part", ["paper_examples", "laplace"])
def test_laplace_noise_and_its_bounds(part: str, known: dict[str, Any]) -> None:
    for row in known[part]:
        others, gamma, shift = [row["v_minus"]], float(row["gamma"]), row.get("shift", 1)
        tolerance = close(row["gamma"])
        assert pate.leakage(others, Laplace(1 / gamma), shift)[0] == pytest.approx(float(row["leakage"]), **tolerance)
        if "log_B1" in row:
            bound = pate.data_independent_bound(len(others[0]), gamma, shift)
            assert bound == pytest.approx(float(row["log_B1"]), **tolerance)
            assert pate.data_dependent_bound(others, gamma)[0] == pytest.approx(float(row["log_B2"]), **tolerance)
            assert pate.overtaking_bound(others, gamma)[0] == pytest.approx(float(row["log_B3"]), **tolerance)


def test_the_data_independent_bound(known: dict[str, Any]) -> None:
    assert len(known["B1"]) == 43
    for row in known["B1"]:
        bound = pate.data_independent_bound(row["m"], float(row["gamma"]))
        assert bound == pytest.approx(float(row["log_B1"]), **close(row["gamma"]))


def test_the_other_noises(known: dict[str, Any]) -> None:
    for row in known["other_noise"]:
        if row["noise"] == "gaussian":
            noise = Gaussian(float(row["sigma"]))
        else:
            noise = LAWS[row["noise"]](1 / float(row["gamma"]))
        assert pate.leakage([row["v_minus"]], noise)[0] == pytest.approx(float(row["leakage"]), rel=1e-12), row


def test_the_leakage_of_every_teacher_over_six_queries(golden: Path) -> None:
    known = json.loads((golden / "pate" / "votes_matrix.json").read_text())
    votes, m, gamma = np.array(known["votes"]), known["num_classes"], float(known["gamma"])
    counts = (votes[:, :, None] == np.arange(m)).sum(axis=0)
    assert counts.tolist() == known["histograms"]
    leak = np.array([pate.leakage(counts - np.eye(m, dtype=int)[vote], Laplace(1 / gamma)) for vote in votes])
    np.testing.assert_allclose(leak.sum(axis=1), np.float64(known["per_teacher_total_leakage"]), rtol=1e-12)
    assert leak.max(axis=0).sum() == pytest.approx(float(known["sum_of_per_query_worst"]), rel=1e-12)
    queries = votes.shape[1]
    assert queries * pate.data_independent_bound(m, gamma) == pytest.approx(
        float(known["data_independent_log_B1_times_Q"]), rel=1e-12
    )
    assert pate.uniform_bound(gamma, queries) == pytest.approx(float(known["k_gamma"]))
