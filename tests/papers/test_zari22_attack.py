"""[Zari22], section 4: the known answers of the attack for every k, and what of figure 1 stands out of chance."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dosimeter import pca

pytestmark = pytest.mark.paper


def standardised(X):
    """Unit variance over the whole set, constant columns left 0."""
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation == 0, 1.0, deviation)


def mnist(data):
    parts = [gzip.decompress((data / "mnist" / f"{p}-images-idx3-ubyte.gz").read_bytes()) for p in ("train", "t10k")]
    pixels = np.concatenate([np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 784) for raw in parts])
    deviation = pixels.std(axis=0)
    return (pixels[:2000] - pixels.mean(axis=0)) / np.where(deviation == 0, 1.0, deviation)


def census(data):
    return standardised(np.loadtxt(data / "casc_census" / "casc_census.csv", delimiter=",", skiprows=1))


def halves(name, data):
    if name.startswith("digits"):
        X = load_digits().data / 16
        return X[:200], X[200:400]
    X = mnist(data) if name.startswith("mnist") else census(data)
    return X[::2], X[1::2]


@pytest.fixture(scope="module")
def known(golden):
    return {case["name"]: case for case in json.loads((golden / "pca" / "pca.json").read_text())["attack"]}


@pytest.mark.parametrize("name", ["digits_unit_200", "digits_unit_200_uncentred", "census_std_540", "mnist_std_1000"])
def test_auc_for_every_k_up_to_the_rank(name, papers_data, known):
    case = known[name]
    members, strangers = halves(name, papers_data)
    found = pca.components_of(members, centred=case["centred_on_member_mean"])
    assert found.rank == case["rank"]
    np.testing.assert_allclose(found.values[: found.rank], case["eigenvalues"], rtol=1e-9, atol=1e-13)
    result = pca.attack(found, members, strangers, np.random.default_rng(0), trials=1, k=1)
    tolerance = 1e-3 if name.startswith("mnist") else 1e-6
    np.testing.assert_allclose(result.auc, case["auc_for_k_0_to_rank"], rtol=0, atol=tolerance)
    np.testing.assert_array_equal(pca.auc_by_components(found, members, strangers), result.auc[1:])
