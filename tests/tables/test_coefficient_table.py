"""Coefficient tables in the forms of R, Stata and SAS."""

from __future__ import annotations

import math

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
