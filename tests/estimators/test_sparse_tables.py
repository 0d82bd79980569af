"""Private models take scipy.sparse tables: the release is that of the same numbers as an array."""

import numpy as np
import pytest
from scipy import sparse

import dosimeter as dm
from dosimeter.estimators import private_weights
from dosimeter.estimators.least_squares import PrivateRidge
from dosimeter.estimators.logistic_regression import PrivateLogisticRegression
from dosimeter.estimators.mean_regression import PrivatePoissonRegressor
from dosimeter.glm.jacobians.category_steps import units_of_columns

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


WIDE = sparse.random_array((40, 3_050), density=5e-3, rng=np.random.default_rng(0), format="csr")
WIDE.data[:] = 1.0
WIDE_MODELS = [
    (PrivateLogisticRegression, {"C": 2.0}, np.resize([0, 1], 40)),
    (PrivateLogisticRegression, {}, np.resize([0, 1, 2], 40)),
    (PrivateRidge, {"alpha": 0.5}, np.random.default_rng(1).normal(size=40)),
    (PrivatePoissonRegressor, {"alpha": 0.1}, np.resize([0.0, 1.0, 3.0], 40)),
]


@pytest.mark.parametrize(("model", "settings", "y"), WIDE_MODELS)
def test_a_wide_sparse_table_has_the_weights_and_the_dose_of_the_array(model, settings, y, monkeypatch):
    few = WIDE[:, :300]
    options = {"max_dose": None, "scale": 1e-3, "random_state": 3, **settings}
    array = model(**options).fit(few.toarray(), y)
    monkeypatch.setattr(private_weights, "PRIMAL", 0)
    table = model(**options).fit(few, y)
    np.testing.assert_allclose(table.coef_, array.coef_, rtol=0, atol=1e-8)
    assert table.highest_dose_ == pytest.approx(array.highest_dose_, rel=1e-7)


@pytest.mark.parametrize(("model", "settings", "y"), WIDE_MODELS)
def test_the_dose_of_a_wide_release_is_within_its_limit_by_another_reading(model, settings, y):
    fitted = model(max_dose=0.5, random_state=3, **settings).fit(WIDE, y)
    released = fitted.released_
    plain = type(released)(**{**released.get_params(), "tol": 1e-8, "max_iter": 5_000}).fit(WIDE, y)
    noise = dm.Gaussian(float(fitted.release_.recipe.settings["scale"]))
    leak = dm.measure(plain, WIDE, y, noise=noise)
    assert np.asarray(leak.examples).max() <= 0.5 * (1 + 1e-6)
    assert fitted.predict(WIDE).shape == y.shape


def test_shaped_noise_on_a_wide_sparse_table_is_refused_before_it_is_written_out():
    wide = sparse.random_array((40, 200_000), density=1e-4, rng=np.random.default_rng(0), format="csr")
    for settings in ({"equalise": True}, {"noise_shape": "hessian"}):
        with pytest.raises(dm.Refusal, match="at most 3000 columns"):
            PrivateRidge(**settings).fit(wide, np.arange(40.0))


def test_units_of_sparse_columns_are_those_of_the_array():
    rng = np.random.default_rng(5)
    table = rng.integers(0, 3, (8, 60)) * rng.integers(0, 2, (8, 60)) * rng.choice([1.0, -2.0, 0.5], 60)
    table[:, 6], table[:, 7], table[:, 8] = np.resize([0.0, 5.0], 8), np.resize([1.0, 4.0], 8), 3.0
    table[:, 59] = np.resize([0.0, 0.0, -7.0], 8)
    assert np.array_equal(private_weights.units_of_sparse_columns(sparse.csr_array(table)), units_of_columns(table))
