"""The demo's patients are those that scikit-learn ships."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_diabetes

from dosimeter.datasets.demo import TARGET, diabetes


def test_the_patients_are_all_there_in_their_own_units():
    data, table = load_diabetes(scaled=False), diabetes()
    assert table.n == len(data.target) == 442
    np.testing.assert_array_equal(table[TARGET], data.target)
    np.testing.assert_array_equal(table["bmi"], data.data[:, data.feature_names.index("bmi")])
    np.testing.assert_array_equal(table["glucose"], data.data[:, data.feature_names.index("s6")])
    assert table.kind("sex") == "text"
