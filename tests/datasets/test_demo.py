"""The demo's patients are those of scikit-learn."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_diabetes

from dosimeter.datasets.demo import TARGET, diabetes


def test_all_patients_are_there_in_their_original_units():
    data, table = load_diabetes(scaled=False), diabetes()
    assert table.n == len(data.target) == 442
    np.testing.assert_array_equal(table[TARGET], data.target)
    np.testing.assert_array_equal(table["bmi"], data.data[:, data.feature_names.index("bmi")])
    np.testing.assert_array_equal(table["glucose"], data.data[:, data.feature_names.index("s6")])
    assert table.kind("sex") == "text"
