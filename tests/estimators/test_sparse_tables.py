"""Private models take scipy.sparse tables: the release is that of the same numbers as an array."""

import numpy as np
import pytest
from scipy import sparse

import dosimeter as dm
from dosimeter.estimators.least_squares import PrivateRidge
from dosimeter.estimators.logistic_regression import PrivateLogisticRegression
from dosimeter.estimators.mean_regression import PrivatePoissonRegressor

RNG = np.random.default_rng(8)
COUNTS = RNG.poisson(0.3, size=(60, 5)).astype(float)
CLASSES = (COUNTS @ [1.0, -1.0, 0.5, 0.0, 0.2] + RNG.normal(size=60) > 0.2).astype(int)
MODELS = [
    (PrivateLogisticRegression(random_state=3), CLASSES),
    (PrivateLogisticRegression(random_state=3), CLASSES + (COUNTS[:, 0] > 1)),
    (PrivateRidge(random_state=3), COUNTS[:, 1] + RNG.normal(size=60)),
    (PrivatePoissonRegressor(random_state=3), RNG.poisson(1.0, 60).astype(float)),
]


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
@pytest.mark.parametrize(("model", "y"), MODELS)
def test_a_sparse_table_gives_the_release_of_the_same_numbers_as_an_array(model, y, form):
    dense = model.fit(COUNTS, y)
    coef, intercept, dose = np.array(dense.coef_), np.array(dense.intercept_), dense.highest_dose_
    table = form(COUNTS)
    fitted = model.fit(table, y)
    assert np.array_equal(fitted.coef_, coef)
    assert np.array_equal(fitted.intercept_, intercept)
    assert fitted.highest_dose_ == dose
    assert fitted.predict(table) == pytest.approx(fitted.predict(COUNTS))


def test_a_sparse_table_that_is_too_wide_for_a_release_is_refused_before_it_is_written_out():
    wide = sparse.random_array((40, 200_000), density=1e-4, rng=np.random.default_rng(0), format="csr")
    with pytest.raises(dm.Refusal, match="at most 3000 columns"):
        PrivateLogisticRegression().fit(wide, np.resize([0, 1], 40))
