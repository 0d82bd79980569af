"""Coefficient tables in the forms of R, Stata and SAS.

R writes its own files (below, and in tests/workflows/test_check.py). Stata and SAS are not at hand: their rows follow
the documented columns of `parmest`, of `estout, cells("b se t p")`, and of `ods output ParameterEstimates=`.
"""

from __future__ import annotations

import math
import shutil
import subprocess

import numpy as np
import pytest

from dosimeter.tables.coefficient_table import (
    CoefficientTable,
    CovarianceTable,
    number_of_cell,
    read_coefficients,
)

FORMS = {
    "broom::tidy": 'term,estimate,std.error,statistic,p.value\n"(Intercept)",1.5,0.2,7.5,1e-9\nage,0.1,0.05,2,0.047\n',
    "coef(summary(lm))": (
        '"","Estimate","Std. Error","t value","Pr(>|t|)"\n"(Intercept)",1.5,0.2,7.5,1e-9\n"age",0.1,0.05,2,0.047\n'
    ),
    "parmest": "parm,estimate,stderr,dof,t,p\n_cons,1.5,0.2,297,7.5,1e-9\nage,0.1,0.05,297,2,0.047\n",
    "estout": (
        '="";="b";="se";="t";="p"\n="_cons";="1,5***";="(0,2)";="7,5";="0,000000001"\n'
        '="age";="0,1";="(0,05)";="2";="0,047"\n'
    ),
    "SAS": "Variable,DF,Estimate,StdErr,tValue,Probt\nIntercept,1,1.5,0.2,7.5,<.0001\nage,1,0.1,0.05,2,0.047\n",
    "tab": "Parameter\tEstimate\tStandard Error\tt\tp\nIntercept\t1.5\t0.2\t7.5\t1e-9\nage\t0.1\t0.05\t2\t0.047\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_each_program_gives_the_same_table(form):
    table = read_coefficients("\ufeff" + FORMS[form])
    assert isinstance(table, CoefficientTable)
    assert table.estimate.tolist() == [1.5, 0.1]
    assert table.error.tolist() == [0.2, 0.05]
    assert table.intercept == 0
    assert table.p_value[1] == 0.047
    assert table.stated_df == (297 if form == "parmest" else None)
    assert table.test == ("" if form == "broom::tidy" else "t")


def test_a_z_test_is_known_by_its_header():
    table = read_coefficients('"","Estimate","Std. Error","z value","Pr(>|z|)"\n"a",1.0,0.5,2.0,0.0455\n')
    assert table.test == "z"


@pytest.mark.parametrize(
    "columns",
    [
        "Variable,DF,Estimate,StdErr,WaldChiSq,ProbChiSq",
        "Parameter,DF,Estimate,StdErr,LowerWaldCL,UpperWaldCL,ChiSq,ProbChiSq",
    ],
    ids=["PROC LOGISTIC", "PROC GENMOD"],
)
def test_a_wald_test_of_sas_is_one_of_the_normal_law(columns):
    limits = "0.02,1.98," if "CL" in columns else ""
    table = read_coefficients(f"{columns}\nIntercept,1,3.0,0.5,{limits}36.0,<.0001\nage,1,1.0,0.5,{limits}4.0,0.0455\n")
    assert (table.test, table.stated_df, table.error.tolist()) == ("z", None, [0.5, 0.5])


def test_a_square_symmetric_matrix_is_a_covariance():
    table = read_coefficients('"",(Intercept),age\n(Intercept),4.0,-0.5\nage,-0.5,0.25\n')
    assert isinstance(table, CovarianceTable)
    np.testing.assert_array_equal(table.matrix, [[4.0, -0.5], [-0.5, 0.25]])
    assert read_coefficients('"",(Intercept),age\n(Intercept),4.0,-0.5\nage,0.7,0.25\n') is None


@pytest.mark.parametrize(
    "text",
    ["", "a,b\n", "age,bmi\n1,2\n3,4\n", "term,estimate,std.error\na,x,1\n", "term,estimate,std.error\na,1,1\na,2,1\n",
     "term,estimate\na,1\n", "term,estimate,std.error\na,1\n", "\x00\x01\x02", "term,estimate,std.error\n,1,1\n"],
)  # fmt: skip
def test_what_is_no_coefficient_table_is_none(text):
    assert read_coefficients(text) is None


def test_cells_of_other_writers_are_numbers_or_nothing():
    assert number_of_cell("−1.5e-3") == -1.5e-3
    assert all(math.isnan(number_of_cell(cell)) for cell in ("", ".", "<.0001", "inf", "NA", "1,234.5"))


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
@pytest.mark.parametrize("writer", ["write.csv", "write.csv2", "write.table"])
@pytest.mark.parametrize(
    ("fit", "test"),
    [("lm(mpg ~ wt + factor(cyl), mtcars)", "t"), ("glm(am ~ wt, binomial, mtcars)", "z"),
     ("glm(carb ~ wt + hp, poisson, mtcars)", "z"), ("nls(mpg ~ a + b * wt, mtcars, list(a = 40, b = -5))", "t")],
    ids=["lm", "binomial", "poisson", "nls"],
)  # fmt: skip
def test_what_r_writes_is_read(fit, test, writer, tmp_path):
    """Comma, semicolon with decimal commas, and tabs."""
    more = ", sep='\\t', col.names=NA" if writer == "write.table" else ""
    code = (
        f"m <- {fit}; {writer}(coef(summary(m)), 'coef.csv'{more}); {writer}(vcov(m), 'vcov.csv'{more});"
        "write(format(c(coef(summary(m))[, 1:2], vcov(m)), digits = 17), 'exact.txt', ncolumns = 1)"
    )
    subprocess.run(["Rscript", "-e", code], cwd=tmp_path, check=True, capture_output=True)
    exact = np.loadtxt(tmp_path / "exact.txt")
    table = read_coefficients((tmp_path / "coef.csv").read_text())
    covariance = read_coefficients((tmp_path / "vcov.csv").read_text())
    assert isinstance(table, CoefficientTable)
    assert isinstance(covariance, CovarianceTable)
    p = len(table.terms)
    assert table.test == test
    assert covariance.terms == table.terms
    np.testing.assert_allclose(table.estimate, exact[:p], rtol=1e-12)
    np.testing.assert_allclose(table.error, exact[p : 2 * p], rtol=1e-12)
    np.testing.assert_allclose(covariance.matrix.ravel(), exact[2 * p :], rtol=1e-12)
