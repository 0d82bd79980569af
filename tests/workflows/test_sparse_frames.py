"""Sparse tables at the door of `measure` and `fix`: a frame with names is read, a table without is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import dosimeter as dm

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(6)
COUNTS = sparse.random(240, 4, density=0.4, random_state=RNG, format="csr")
FRAME = pd.DataFrame.sparse.from_spmatrix(COUNTS, columns=list("abcd")).assign(age=RNG.normal(50.0, 9.0, 240))
FRAME["ill"] = (RNG.random(240) < 0.5).astype(int)
DENSE = pd.DataFrame(COUNTS.toarray(), columns=list("abcd")).assign(age=FRAME["age"], ill=FRAME["ill"])


def test_a_frame_with_some_sparse_columns_is_measured_as_the_same_numbers():
    assert isinstance(FRAME["a"].dtype, pd.SparseDtype)
    ours, oracle = (dm.measure(frame, target="ill", noise=dm.Gaussian(0.5)) for frame in (FRAME, DENSE))
    np.testing.assert_array_equal(ours.examples, oracle.examples)
    np.testing.assert_array_equal(ours.cells, oracle.cells)


def test_fix_of_a_frame_with_sparse_columns_releases_what_it_does_of_the_same_numbers():
    options = {"max_dose": 1.0, "even_if_useless": True, "simulation_seed": 3}
    ours, oracle = (dm.fix(frame, "ill", **options) for frame in (FRAME, DENSE))
    np.testing.assert_array_equal(ours.model[-1].coef_, oracle.model[-1].coef_)
    np.testing.assert_array_equal(ours.model[-1].intercept_, oracle.model[-1].intercept_)
    assert ours.artefact
    assert ours.result.dose.highest == oracle.result.dose.highest <= 1.0


def test_a_sparse_column_with_a_gap_is_named():
    gap = FRAME.assign(a=pd.arrays.SparseArray(np.where(np.arange(240) == 5, np.nan, COUNTS.toarray()[:, 0])))
    with pytest.raises(dm.Refusal, match="column a") as refused:
        dm.measure(gap, target="ill", noise=dm.Gaussian(0.5))
    assert "\n" not in str(refused.value)


def test_fix_refuses_a_table_without_names_and_says_what_takes_it():
    line = "file that predicts from named columns, and a sparse table has none: use dosimeter.estimators.Private"
    with pytest.raises(dm.CannotMeasure, match=line):
        dm.fix(COUNTS, "ill", max_dose=1.0)
    from dosimeter import estimators

    for name in ("PrivateLogisticRegression", "PrivateRidge", "PrivatePoissonRegressor"):
        assert hasattr(estimators, name)
    estimators.PrivateLogisticRegression(max_dose=1.0).fit(COUNTS, FRAME["ill"].to_numpy())
