"""What a table of coefficients says about its training table without the table: rows, degrees of freedom, counts.

Of ordinary least squares with p parameters, V = s² (XᵀX)⁻¹ is what R's vcov, Stata's e(V) and SAS's COVB print. A t
test and its p-value give the residual degrees of freedom ν, so n = ν + p. With an intercept the first entry of XᵀX is
n:

    XᵀX = n V⁻¹ / (V⁻¹)₀₀,     exactly, whatever s² is.

Its first row holds the sum of each column. An indicator has x² = x, so its sum of squares is its sum: it is then known
to be one, and the entry is a count of people. Two indicators give the count of people with both. For logistic and other
models with weights the same matrix is XᵀWX: indicators are recognised, and shares of weight are known, but not counts.

A matrix that was rounded by E, entry by entry, gives V⁻¹ up to |V⁻¹| E |V⁻¹|. A column is an indicator, or a number a
count, if it is one up to that. Where that leaves open whether there is one, the file is not understood.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import t as student

from dosimeter.core.arrays import FloatArray
from dosimeter.tables.coefficient_table import CoefficientTable, CovarianceTable, is_intercept

WHOLE = 0.02
"""How far from a whole number a count may be: the digits of a printed matrix leave less."""
SAME = 1e-4
"""Relative difference up to which a sum and a sum of squares are the same."""
AGREE = 0.02
"""Relative difference up to which degrees of freedom from several rows agree."""
CLEAR = 0.05
"""Relative error of a sum of squares up to which a column is recognised as an indicator, or as none."""
PRINTED = 0.02
"""Relative difference of a variance and a squared standard error that was printed with three digits."""
MOST_DF = 1e5
MOST_INDICATORS = 60


@dataclass(frozen=True)
class CellCount:
    """People who have all of these indicators."""

    terms: tuple[str, ...]
    count: int

    def __str__(self) -> str:
        return f"{' and '.join(self.terms)}: {self.count}"


@dataclass(frozen=True, eq=False)
class CoefficientFacts:
    """What anyone who has the file can compute."""

    parameters: int
    residual_df: float | None = None
    df_from: str = ""
    """"stated", "t tests and p-values" (also where a larger number is stated), or "" if it is not known."""
    rows: int | None = None
    indicators: tuple[str, ...] = ()
    counts: tuple[CellCount, ...] = ()
    """Of indicators and of pairs of them, the smallest first. Least squares alone."""
    sums: bool = False
    """Whether the covariance gives all sums and sums of products of the columns."""
    normal_test: bool = False
    """Whether the tests are by the normal law, as of maximum likelihood."""
    unclear: bool = False
    """Whether the covariance may give counts away that its digits, or a contradiction, keep from being read here."""

    @property
    def smallest(self) -> CellCount | None:
        """The smallest count above 0."""
        return next((cell for cell in self.counts if cell.count > 0), None)


def facts_of(table: CoefficientTable, covariance: CovarianceTable | None = None) -> CoefficientFacts:
    """From the table alone, and with its covariance if it is released too."""
    p = len(table.terms)
    df, origin = _recovered(table)
    if table.stated_df is not None and (df is None or table.stated_df <= df * (1 + AGREE)):
        df, origin = table.stated_df, "stated"
    normal = table.test == "z" or (df is None and _is_normal(table))
    from_tests = None if df is None or normal else round(df) + p
    rows = from_tests if table.stated_n is None else int(table.stated_n)
    # More rows than the tests show are not believed: counts would be larger than they are.
    contradicts = rows is not None and from_tests is not None and abs(rows - from_tests) > AGREE * from_tests
    rows = from_tests if contradicts else rows
    if covariance is None or set(covariance.terms) != set(table.terms):
        return CoefficientFacts(p, df, origin, rows, normal_test=normal)
    moments = _moments(covariance)
    if moments is None:
        has_intercept = sum(map(is_intercept, covariance.terms)) == 1
        return CoefficientFacts(p, df, origin, rows, normal_test=normal, unclear=has_intercept and not normal)
    M, error, names = moments
    size = np.abs(np.diag(M))
    open_ = error[0] + np.diag(error)
    may_be = np.abs(M[0] - np.diag(M)) <= SAME * size + open_
    clear = open_ <= CLEAR * size
    indicators = tuple(name for j, name in enumerate(names) if j and may_be[j] and clear[j])
    if normal or rows is None:
        return CoefficientFacts(p, df, origin, rows, indicators, normal_test=normal)
    counts, open_pairs = _counts(M * rows, error * rows, names, indicators, rows)
    lost = open_ > 0.5 * size  # the error is then more than its first order
    unclear = contradicts or open_pairs or bool(((may_be & ~clear) | lost)[1:].any())
    return CoefficientFacts(p, df, origin, rows, indicators, counts, True, normal, unclear)


def belongs_to(covariance: CovarianceTable, table: CoefficientTable) -> bool:
    """Whether a covariance is that of a coefficient table: the same terms, and variances that are the squared errors.

    >>> import numpy as np
    >>> table = CoefficientTable(("a", "b"), np.ones(2), np.array([0.5, 2.0]))
    >>> belongs_to(CovarianceTable(("b", "a"), np.diag([4.0, 0.25])), table)
    True
    >>> belongs_to(CovarianceTable(("b", "a"), np.diag([3.0, 0.25])), table)
    False
    """
    if set(covariance.terms) != set(table.terms):
        return False
    if table.error is None:
        return True
    order = [covariance.terms.index(term) for term in table.terms]
    variance = np.diag(covariance.matrix)[order]
    known = np.isfinite(table.error)
    return bool((np.abs(variance[known] - table.error[known] ** 2) <= PRINTED * table.error[known] ** 2).all())


def _recovered(table: CoefficientTable) -> tuple[float | None, str]:
    """ν from t statistics and their two-sided p-values, if the rows that determine it agree."""
    if table.p_value is None:
        return None, ""
    t = table.statistic
    if t is None and table.error is not None:
        t = table.estimate / table.error
    if t is None or table.test == "z":
        return None, ""
    solutions: list[float] = []
    for statistic, p in zip(np.abs(t), table.p_value, strict=True):
        if not (np.isfinite(statistic) and statistic > 1.0 and 1e-200 < p < 0.4):
            continue

        def gap(log_df: float, statistic: float = float(statistic), p: float = float(p)) -> float:
            return float(np.log(2.0) + student.logsf(statistic, np.exp(log_df)) - np.log(p))

        low, high = gap(np.log(0.5)), gap(np.log(MOST_DF))
        if low * high < 0:
            solutions.append(float(np.exp(brentq(gap, np.log(0.5), np.log(MOST_DF), xtol=1e-12))))
    if not solutions:
        return None, ""
    middle = float(np.median(solutions))
    agree = [value for value in solutions if abs(value - middle) <= AGREE * middle]
    if 2 * len(agree) <= len(solutions) or (len(solutions) > 1 and len(agree) < 2):
        return None, ""
    whole = round(float(np.median(agree)))
    return (float(whole), "t tests and p-values") if whole >= 1 else (None, "")


def _is_normal(table: CoefficientTable) -> bool:
    """Whether the p-values are those of the normal law."""
    t = table.statistic if table.statistic is not None or table.error is None else table.estimate / table.error
    if t is None or table.p_value is None:
        return False
    usable = np.isfinite(t) & np.isfinite(table.p_value) & (table.p_value > 1e-200)
    if not usable.any():
        return False
    expected = np.log(2.0) + log_ndtr(-np.abs(t[usable]))
    return bool(np.median(np.abs(expected - np.log(table.p_value[usable]))) < 1e-3)


def _moments(covariance: CovarianceTable) -> tuple[FloatArray, FloatArray, list[str]] | None:
    """XᵀX over n (or XᵀWX over its total weight) and its rounding error, the intercept first.

    None without an intercept, or if V is singular or, by its rounding, no covariance.
    """
    constants = [k for k, term in enumerate(covariance.terms) if is_intercept(term)]
    if len(constants) != 1:
        return None
    first = constants[0]
    order = [first, *(k for k in range(len(covariance.terms)) if k != first)]
    V = covariance.matrix[np.ix_(order, order)]
    size = np.sqrt(np.diag(V))
    if not (np.isfinite(size).all() and (size > 0).all()):
        return None
    scaled = V / np.outer(size, size)
    if np.linalg.cond(scaled) > 1e10:
        return None
    G = np.linalg.inv(scaled) / np.outer(size, size)
    if not (np.diag(G) > 0).all():
        return None
    rounding = np.zeros_like(V) if covariance.rounding is None else covariance.rounding[np.ix_(order, order)]
    error = np.abs(G) @ rounding @ np.abs(G)
    M = G / G[0, 0]
    return M, (error + np.abs(M) * error[0, 0]) / G[0, 0], [covariance.terms[k] for k in order]


def _counts(
    M: FloatArray, error: FloatArray, names: list[str], indicators: tuple[str, ...], rows: int
) -> tuple[tuple[CellCount, ...], bool]:
    """Whole numbers of people, of indicators, of what they leave, and of pairs of them; and whether a pair is open."""
    place = {name: names.index(name) for name in indicators[:MOST_INDICATORS]}
    cells: list[CellCount] = []
    for name, j in place.items():
        if _whole(M[j, j], error[j, j]):
            cells += [CellCount((name,), round(M[j, j])), CellCount((f"not {name}",), rows - round(M[j, j]))]
    pairs = list(combinations(place.items(), 2))
    for (first, i), (second, j) in pairs:
        if _whole(M[i, j], error[i, j]):
            cells.append(CellCount((first, second), round(M[i, j])))
    is_open = any(error[i, j] >= 0.5 and M[i, j] <= 10 * error[i, j] for (_, i), (_, j) in pairs)
    return tuple(sorted(cells, key=lambda cell: cell.count)), is_open


def _whole(value: float, error: float) -> bool:
    return bool(abs(value - round(value)) <= WHOLE * max(1.0, abs(value) * 1e-3) + error)
