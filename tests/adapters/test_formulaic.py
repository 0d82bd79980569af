"""Formulas of statsmodels read by formulaic instead of patsy: the same figures, where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dosimeter as dm

pytest.importorskip("formulaic")
pd = pytest.importorskip("pandas")
formula = pytest.importorskip("statsmodels.formula")
smf = pytest.importorskip("statsmodels.formula.api")

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(50.0, 10.0, 60),
        "bmi": RNG.normal(27.0, 4.0, 60),
        "ward": RNG.permutation(np.resize(["a", "b", "c"], 60)),
    }
)
TABLE["cost"] = 0.02 * TABLE["age"] + (TABLE["ward"] == "b") + RNG.normal(size=60)


@pytest.fixture
def options() -> Iterator[Any]:
    if not hasattr(formula, "options"):
        pytest.skip("this statsmodels knows patsy alone")
    before = formula.options.formula_engine
    yield formula.options
    formula.options.formula_engine = before


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("cost ~ age + C(ward)", "the levels of"),
        ("cost ~ np.log(age) + bmi:age + ward", "the levels of"),
        ("cost ~ bs(age, df=4) + bmi", "the constants in the formula of"),
    ],
)
def test_a_formula_has_the_same_figures_whichever_library_reads_it(options: Any, text: str, held: str) -> None:
    leaks = []
    for engine in ("formulaic", "patsy"):
        options.formula_engine = engine
        leaks.append(dm.measure(smf.ols(text, TABLE).fit(), TABLE, "cost", noise=dm.Gaussian(1.0)))
    ours, other = leaks
    np.testing.assert_allclose(ours.examples, other.examples, rtol=1e-9)
    np.testing.assert_allclose(ours.cells, other.cells, rtol=1e-9)
    kinds = [[note.split(" of ")[0] for note in leak.not_covered] for leak in leaks]
    assert kinds[0] == kinds[1]
    assert held in ours.not_covered[0]
