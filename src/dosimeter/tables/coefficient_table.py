"""Coefficient tables and covariance matrices as R, Stata and SAS write them to .csv.

| from                                        | names, estimates, standard errors, tests                        |
| R: broom::tidy                              | term, estimate, std.error, statistic, p.value                   |
| R: write.csv(coef(summary(m)))              | (unnamed), Estimate, Std. Error, t value, Pr(>|t|)              |
| Stata: parmest, or estout with plain cells  | parm, estimate, stderr, dof, t, p; or (unnamed), b, se, t, p    |
| SAS: ODS ParameterEstimates                 | Variable, DF, Estimate, StdErr, tValue, Probt                   |
| R: write.csv(vcov(m)), Stata e(V), SAS COVB | a square matrix, the same names in its header and column one    |

The forms of R are tested on files that R writes, but for broom's. Those of Stata and SAS follow the documented columns
of these exports: `parmest, saving(...)` with `export delimited`; `estout using m.csv, cells("b se t p")` with
`delimiter(";")`; `ods output ParameterEstimates=` of PROC REG, GENMOD or LOGISTIC with PROC EXPORT.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray

INTERCEPTS = ("(intercept)", "intercept", "_cons", "const", "constant", "cons")
MOST_BYTES = 2**24
MOST_TERMS = 2000
_NAMES = {"term", "variable", "parameter", "effect", "parm", "names", "rowname", "predictor", "varname", ""}
_ESTIMATES = {"estimate", "coef", "coefficient", "b", "beta", "coefficients"}
_ERRORS = {"stderror", "stderr", "se", "standarderror", "robustse", "stderrs"}
_T = {"t", "tvalue", "tstat", "tstatistic"}
_Z = {"z", "zvalue", "zstat", "zstatistic", "chisq", "waldchisq"}
_ANY_TEST = {"statistic", "stat"}
_P = {"pvalue", "p", "prt", "prz", "probt", "pt", "pz", "probchisq", "prchisq", "probz"}
_DF = {"dof", "dfresidual", "dfresid", "ddf", "residualdf", "df"}
_N = {"n", "nobs", "observations"}
_INTERVALS = re.compile(
    r"(conf|ci|cl|lower|upper|low|high|min|max|lcl|ucl|ll|ul|x|p|[\W\d_])*(limit|mean)?", re.IGNORECASE
)
"""Headers of confidence limits: conf.low, 2.5 %, X97.5.., LowerCL, min95, [0.025."""
_STARS = re.compile(r"[*†+]+$")


@dataclass(frozen=True, eq=False)
class CoefficientTable:
    """Estimates with their standard errors and tests, as far as the file has them. nan where a cell is empty."""

    terms: tuple[str, ...]
    estimate: FloatArray
    error: FloatArray | None = None
    statistic: FloatArray | None = None
    p_value: FloatArray | None = None
    test: str = ""
    """"t" or "z" if the header says which; "" if it does not."""
    stated_df: float | None = None
    stated_n: float | None = None
    others: tuple[str, ...] = ()
    """Columns that are no part of a coefficient table: they may hold anything."""

    @property
    def intercept(self) -> int | None:
        """Position of the intercept."""
        places = [k for k, term in enumerate(self.terms) if is_intercept(term)]
        return places[0] if len(places) == 1 else None


@dataclass(frozen=True, eq=False)
class CovarianceTable:
    """A symmetric matrix over terms."""

    terms: tuple[str, ...]
    matrix: FloatArray
    rounding: FloatArray | None = None
    """Half a unit of the last digit that was written, by entry; None if nothing was rounded."""


def is_intercept(term: str) -> bool:
    """Whether a term is the constant.

    >>> is_intercept("_cons"), is_intercept("age")
    (True, False)
    """
    return term.strip().lower() in INTERCEPTS


def read_coefficients(text: str) -> CoefficientTable | CovarianceTable | None:
    """The table in a text file, or None if it is none.

    >>> table = read_coefficients("term,estimate,std.error\\n(Intercept),1.5,0.2\\nage,0.1,0.05\\n")
    >>> table.terms, table.estimate.tolist(), table.intercept
    (('(Intercept)', 'age'), [1.5, 0.1], 0)
    """
    rows = _cells(text)
    if len(rows) < 2 or len(rows) > MOST_TERMS + 1:
        return None
    width = len(rows[0])
    if any(len(row) != width for row in rows) or width < 2:
        return None
    return _covariance(rows) or _coefficients(rows)


def _cells(text: str) -> list[list[str]]:
    """Rows of cells, with the delimiter that the header uses; Stata's ="text" is taken as text."""
    lines = [line for line in text.removeprefix("\ufeff").splitlines() if line.strip()]
    if not lines:
        return []
    delimiter = max(",;\t", key=lines[0].count)
    try:
        rows = list(csv.reader(lines[: MOST_TERMS + 2], delimiter=delimiter))
    except csv.Error:
        return []
    return [[_plain(cell) for cell in row] for row in rows]


def _plain(cell: str) -> str:
    text = cell.strip()
    if text.startswith("="):
        text = text[1:].strip().strip('"')
    return text.strip()


def number_of_cell(cell: str) -> float:
    """A number, with a decimal comma or stars of significance; nan for an empty cell or a dot, inf never.

    >>> number_of_cell("0,25***"), number_of_cell("(1.5)"), number_of_cell("<.0001")
    (0.25, 1.5, nan)
    """
    text = _STARS.sub("", cell.strip()).strip("()[] ").replace("−", "-")
    if text.count(",") == 1 and "." not in text:
        text = text.replace(",", ".")
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def rounding_of_cell(cell: str) -> float:
    """Half a unit of the last digit of a number as it was written; at least that of float64.

    >>> rounding_of_cell("0.25"), rounding_of_cell("1.5e-03")
    (0.005, 5e-05)
    """
    mantissa, _, exponent = cell.lower().partition("e")
    decimals = re.search(r"[.,](\d*)", mantissa)
    places = len(decimals.group(1)) if decimals else 0
    power = int(exponent) if re.fullmatch(r"[-+]?\d{1,3}", exponent) else 0
    return max(float(f"5e{power - places - 1}"), 2.0**-53 * abs(number_of_cell(cell)))


def _key(header: str) -> str:
    return re.sub(r"[^a-z]", "", header.lower())


def _column(rows: Sequence[Sequence[str]], place: int | None) -> FloatArray | None:
    if place is None:
        return None
    values = np.array([number_of_cell(row[place]) for row in rows])
    return None if np.isnan(values).all() else values


def _coefficients(rows: list[list[str]]) -> CoefficientTable | None:
    keys = [_key(cell) for cell in rows[0]]

    def place(known: set[str]) -> int | None:
        return next((k for k, key in enumerate(keys) if key in known and (key or k == 0)), None)

    name, estimate = place(_NAMES), place(_ESTIMATES)
    error, p = place(_ERRORS), place(_P)
    if name is None or estimate is None or (error is None and p is None) or name == estimate:
        return None
    body = rows[1:]
    terms = tuple(row[name] for row in body)
    values = _column(body, estimate)
    if values is None or np.isnan(values).any() or len(set(terms)) != len(terms) or not all(terms):
        return None
    t, z = place(_T), place(_Z)
    either = place(_ANY_TEST)
    test = "t" if t is not None else "z" if z is not None else ""
    if p is not None and keys[p] in ("prz", "pz", "probz", "probchisq", "prchisq"):
        test = "z"
    statistic = next((k for k in (t, z, either) if k is not None), None)
    df, n = _column(body, place(_DF)), _column(body, place(_N))
    known = {name, estimate, error, p, t, z, either, place(_DF), place(_N)}
    errors = _column(body, error)
    others = tuple(
        header
        for k, header in enumerate(rows[0])
        if k not in known and not (_INTERVALS.fullmatch(header) and _is_limit(_column(body, k), values, errors))
    )
    # SAS has a column DF of ones: degrees of freedom of each parameter, not of the residual.
    residual = None if df is None or np.nanmax(df) <= 1 else float(np.nanmax(df))
    return CoefficientTable(
        terms,
        values,
        errors,
        _column(body, statistic),
        _column(body, p),
        test,
        residual,
        None if n is None else float(np.nanmax(n)),
        others,
    )


def _is_limit(limit: FloatArray | None, estimate: FloatArray, error: FloatArray | None) -> bool:
    """Whether a column is a confidence limit: all on one side of the estimates, by similar multiples of their errors.

    A profile likelihood has somewhat different multiples. Limits of exp(estimate) are recognised as well.

    >>> import numpy as np
    >>> estimate, error = np.array([1.0, 5.0]), np.array([0.1, 1.0])
    >>> _is_limit(estimate - 2 * error, estimate, error), _is_limit(np.exp(estimate + 2 * error), estimate, error)
    (True, True)
    >>> _is_limit(np.array([61.2, 24.8]), estimate, error)
    False
    """
    if limit is None or error is None or np.isnan(limit).any() or not (error > 0).all():
        return False
    with np.errstate(divide="ignore", invalid="ignore"):
        candidates = [(limit - estimate) / error, (np.log(limit) - estimate) / error]
    return any(
        _alike(np.abs(multiple)) and (np.sign(multiple) == np.sign(multiple[0])).all() for multiple in candidates
    )


def _alike(multiple: FloatArray) -> bool:
    """Between a tenth and ten errors, and none twice another."""
    return bool(np.isfinite(multiple).all() and 0.1 < multiple.min() <= multiple.max() < min(10.0, 2 * multiple.min()))


def _covariance(rows: list[list[str]]) -> CovarianceTable | None:
    names = rows[0][1:]
    body = rows[1:]
    if len(body) != len(names) or [row[0] for row in body] != names or len(set(names)) != len(names):
        return None
    matrix = np.array([[number_of_cell(cell) for cell in row[1:]] for row in body])
    if np.isnan(matrix).any():
        return None
    scale = np.sqrt(np.outer(np.abs(np.diag(matrix)), np.abs(np.diag(matrix)))) + 1e-300
    if np.abs(matrix - matrix.T).max(initial=0.0) > 1e-6 * scale.max():
        return None
    rounding = np.array([[rounding_of_cell(cell) for cell in row[1:]] for row in body])
    return CovarianceTable(tuple(names), (matrix + matrix.T) / 2, np.maximum(rounding, rounding.T))
