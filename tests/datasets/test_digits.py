"""The digits of the demonstration: disjoint rows, equal columns."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dosimeter.core.errors import Refusal
from dosimeter.datasets.digits import TARGET, digits, mnist


def test_the_private_and_the_public_digits_are_all_of_them_and_share_none():
    private, public = digits()
    assert private.names == public.names
    data = load_digits()
    for name, j in (("pixel_3_4", 28), ("pixel_0_3", 3)):
        np.testing.assert_array_equal(np.concatenate([private[name], public[name]]), data.data[:, j])
    assert (private.rows[0], public.rows[0], public.rows[-1]) == (0, 0, 496)
    np.testing.assert_array_equal(public["pixel_3_4"], data.data[1300:, 28])
    assert public[TARGET].tolist() == [str(k) for k in data.target[1300:]]


def test_mnist_without_its_folder_is_refused(tmp_path):
    with pytest.raises(Refusal, match="DOSIMETER_DATA"):
        mnist(tmp_path)
