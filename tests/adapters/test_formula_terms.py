"""Models that were fitted by a formula: what they predict, and what each term says of its columns."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

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


def test_columns_as_they_stand_are_exact():
    frame = FRAME.assign(bmi=RNG.normal(26, 4, 60))
    leak = dm.measure(smf.ols("cost ~ age + bmi", frame).fit(), frame, noise=NOISE)
    arrays = dm.measure(LinearRegression().fit(frame[["age", "bmi"]], frame["cost"]), frame, target="cost", noise=NOISE)
    np.testing.assert_allclose(leak.examples, arrays.examples, rtol=1e-10)
    assert (leak.standing.value, leak.not_covered, leak.remarks) == ("exact", (), ())


def test_what_a_term_learned_is_said_of_its_own_columns():
    frame = FRAME.assign(bmi=RNG.normal(26, 4, 60))
    leak = dm.measure(smf.ols("cost ~ age + region + bs(bmi, df=4)", frame).fit(), frame, noise=NOISE)
    assert sorted(note.split(" are ")[0] for note in leak.not_covered) == [
        "the constants in the formula of bmi", "the levels of region",
    ]  # fmt: skip


def test_one_column_in_several_terms_is_one_unknown():
    """A term as it stands, a product and a curve of the same column: refits move the cell in all of them."""
    frame = FRAME.assign(bmi=RNG.normal(26, 4, 60))
    formula = "cost ~ age + age:bmi + np.exp(age / 50) + bmi:region"
    leak = dm.measure(smf.ols(formula, frame).fit(), frame, noise=dm.Gaussian(1.0))
    for column in ("age", "bmi"):
        for row in (0, 7, 31):
            slopes = []
            for h in (2e-3, 1e-3):
                ends = []
                for sign in (1, -1):
                    moved = frame.copy()
                    moved.loc[row, column] += sign * h
                    ends.append(np.asarray(smf.ols(formula, moved).fit().params))
                slopes.append((ends[0] - ends[1]) / (2 * h))
            refit = float(np.linalg.norm((4 * slopes[1] - slopes[0]) / 3))
            assert leak.cells[column][row] == pytest.approx(refit, rel=1e-6)


@pytest.mark.filterwarnings("ignore:The design matrix is rank-deficient")
def test_a_refusal_names_the_terms_of_a_formula_as_they_are_written() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60)})
    frame["y"] = frame.x + rng.normal(size=60)
    model = smf.ols("y ~ cr(x, df=4)", frame).fit()  # these splines add up to the intercept
    with pytest.raises(dm.CannotMeasure, match=r"columns cr\(x, df=4\) 0, cr\(x, df=4\) 1"):
        dm.measure(model, frame, noise=dm.Gaussian(1.0))
