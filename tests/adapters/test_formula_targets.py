"""What a model that was fitted by a formula predicts: the left side of the formula."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm

pd = pytest.importorskip("pandas")
smf = pytest.importorskip("statsmodels.formula.api")

RNG = np.random.default_rng(8)
FRAME = pd.DataFrame({"age": RNG.uniform(20, 80, 60), "region": RNG.choice(["north", "south", "west"], 60)})
FRAME["cost"] = np.exp(1.0 + 0.01 * FRAME["age"] + 0.2 * RNG.standard_normal(60))
NOISE = dm.Gaussian(0.1)


def test_the_column_on_the_left_is_the_target():
    results = smf.ols("cost ~ age + region", FRAME).fit()
    named = dm.measure(results, FRAME, target="cost", noise=NOISE)
    np.testing.assert_array_equal(dm.measure(results, FRAME, noise=NOISE).examples, named.examples)


def test_an_expression_on_the_left_is_asked_for():
    results = smf.ols("np.log(cost) ~ age", FRAME).fit()
    with pytest.raises(dm.Refusal, match=r"predicts np\.log\(cost\), which is no column of the table: pass .* y="):
        dm.measure(results, FRAME, noise=NOISE)
    leak = dm.measure(results, FRAME, np.log(FRAME["cost"]), noise=NOISE)
    logged = FRAME.assign(logged=np.log(FRAME["cost"]))
    plain = dm.measure(smf.ols("logged ~ age", logged).fit(), logged, noise=NOISE)
    np.testing.assert_allclose(leak.examples, plain.examples, rtol=1e-10)


def test_a_formula_is_no_fitted_scaler():
    leak = dm.measure(smf.ols("cost ~ age + region", FRAME).fit(), FRAME, noise=NOISE)
    assert not any("scaler" in remark for remark in leak.remarks)


def test_a_model_of_statsmodels_is_refused_by_its_own_name():
    with pytest.raises(dm.CannotMeasure, match="QuantReg"):
        dm.measure(smf.quantreg("cost ~ age", FRAME).fit(), FRAME, noise=NOISE)
