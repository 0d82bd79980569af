"""What a printed regression gives away, against the table that it was fitted on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm

from dosimeter.models.coefficient_facts import facts_of
from dosimeter.tables.coefficient_table import CoefficientTable, CovarianceTable, read_coefficients

NAMES = ("(Intercept)", "age", "wards", "wardw", "hiv")


def people(n=300, seed=0):
    rng = np.random.default_rng(seed)
    ward = rng.choice(["n", "s", "w"], n, p=[0.6, 0.38, 0.02])
    hiv = rng.random(n) < 0.02
    X = np.column_stack([np.ones(n), rng.normal(50, 10, n), ward == "s", ward == "w", hiv]).astype(float)
    return X, X @ [1.0, 0.1, 0.5, -0.5, 2.0] + rng.normal(size=n)


def printed(fit, digits=15, names=NAMES):
    """The table and its covariance, rounded as a program prints them."""

    def rounded(values):
        return np.array([float(f"{value:.{digits}g}") for value in np.ravel(values)]).reshape(np.shape(values))

    columns = (fit.params, fit.bse, fit.tvalues, fit.pvalues)
    table = CoefficientTable(names, *(rounded(column) for column in columns))
    return table, CovarianceTable(names, rounded(fit.cov_params()))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("digits", [15, 7])
def test_a_covariance_of_least_squares_gives_every_count_exactly(seed, digits):
    X, y = people(seed=seed)
    facts = facts_of(*printed(sm.OLS(y, X).fit(), digits))
    assert (facts.residual_df, facts.rows) == (295, 300)
    assert facts.indicators == ("wards", "wardw", "hiv")
    places = {"wards": 2, "wardw": 3, "hiv": 4}
    for cell in facts.counts:
        columns = [1 - X[:, places[t[4:]]] if t.startswith("not ") else X[:, places[t]] for t in cell.terms]
        assert cell.count == int(np.prod(columns, axis=0).sum())
    assert facts.smallest.count == min(cell.count for cell in facts.counts if cell.count)
    assert Counter(len(cell.terms) for cell in facts.counts) == {1: 6, 2: 3}


@pytest.mark.parametrize("df", [3, 12, 58, 295, 4000])
def test_degrees_of_freedom_follow_from_a_t_and_its_p(df):
    n = df + 2
    rng = np.random.default_rng(df)
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    table, _ = printed(sm.OLS(X @ [2.5 / n**0.5, 2.5 / n**0.5] + rng.normal(size=n), X).fit(), names=("_cons", "age"))
    facts = facts_of(table)
    assert (facts.residual_df, facts.df_from, facts.rows) == (df, "t tests and p-values", n)


def test_rounded_tests_give_no_degrees_of_freedom_rather_than_wrong_ones():
    X, y = people()
    facts = facts_of(printed(sm.OLS(y, X).fit(), 2)[0])
    assert facts.residual_df is None or abs(facts.residual_df - 295) < 0.05 * 295


def test_a_logistic_covariance_shows_indicators_and_no_counts():
    X, y = people(600)
    facts = facts_of(*printed(sm.Logit((y > np.median(y)).astype(float), X).fit(disp=0, maxiter=200)))
    assert facts.normal_test
    assert facts.residual_df is None
    assert facts.indicators == ("wards", "wardw", "hiv")
    assert facts.counts == ()


def test_without_an_intercept_or_with_other_terms_nothing_is_claimed():
    X, y = people()
    table, covariance = printed(sm.OLS(y, X).fit())
    other = CovarianceTable(("a", "b", "c", "d", "e"), covariance.matrix)
    assert facts_of(table, other).counts == ()
    without = sm.OLS(y, X[:, 1:]).fit()
    assert facts_of(*printed(without, names=NAMES[1:])).counts == ()
    singular = CovarianceTable(NAMES, np.ones((5, 5)))
    assert facts_of(table, singular).indicators == ()


def as_written(fit, digits):
    """The table, and its covariance read from a file in which it was rounded."""
    rows = [
        ",".join([name, *(f"{v:.{digits}g}" for v in row)]) for name, row in zip(NAMES, fit.cov_params(), strict=True)
    ]
    return printed(fit)[0], read_coefficients("\n".join([",".join(["", *NAMES]), *rows]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("digits", [2, 3, 4, 5, 6, 8, 15])
def test_a_rounded_covariance_gives_the_smallest_count_or_is_not_understood(digits, seed):
    """A few people are never missed: with three digits the counts can still be read to one or two people."""
    X, y = people(seed=seed)
    counts = [int((X[:, i] * X[:, j]).sum()) for i in (2, 3, 4) for j in (2, 3, 4) if i <= j]
    facts = facts_of(*as_written(sm.OLS(y, X).fit(), digits))
    if facts.unclear:
        assert digits < 8
    else:
        assert facts.smallest.count == min(count for count in counts if count)


def test_more_rows_than_the_tests_show_are_not_believed():
    X, y = people()
    table, covariance = printed(sm.OLS(y, X).fit())
    facts = facts_of(replace(table, stated_n=30_000.0), covariance)
    assert (facts.rows, facts.unclear) == (300, True)
    assert facts.smallest == facts_of(table, covariance).smallest
    assert not facts_of(replace(table, stated_n=300.0), covariance).unclear


def test_a_covariance_that_is_nearly_singular_is_not_understood():
    X, y = people()
    X[:, 1] = 2e6 + X[:, 1] / 1e3  # a date in days: nearly the constant
    assert facts_of(*printed(sm.OLS(y, X).fit())).unclear
