"""A release holds finite public values and plain constants."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter import Refusal, Release
from dosimeter.core.release import Recipe


def test_released_values_cannot_be_changed_afterwards():
    array = np.array([1.0])
    release = Release({"coef": array}, Recipe("weights", "Gaussian(sigma=1.0)"))
    array[0] = 2.0
    assert release.values["coef"][0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        release.values["coef"][0] = 3.0
    with pytest.raises(TypeError):
        release.values["other"] = array


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(Refusal, match="finite"):
        Release({"coef": np.array([np.nan])}, Recipe("weights", "Gaussian(sigma=1.0)"))


def test_a_recipe_refuses_arrays_which_could_be_data():
    with pytest.raises(Refusal, match="plain public constants"):
        Recipe("weights", "Gaussian(sigma=1.0)", settings={"rows": np.zeros(3)})


def test_a_simulation_says_so():
    release = Release({"coef": np.array([1.0])}, Recipe("weights", "Gaussian(sigma=1.0)", simulation=True))
    assert "not for release" in repr(release)
