"""A coefficient table that is to leave: what it says without the training table, and with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dosimeter.adapters.coefficients import Coefficients
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_list, safe_text
from dosimeter.models.coefficient_facts import CoefficientFacts, facts_of
from dosimeter.results.check import RegressionFacts
from dosimeter.results.visibility import present
from dosimeter.tables.coefficient_table import CoefficientTable, CovarianceTable, is_intercept
from dosimeter.tables.column_levels import as_text
from dosimeter.tables.table import Table
from dosimeter.workflows.check_desk import Desk, Findings, report_dose
from dosimeter.workflows.check_noise import leakage_of

ALONE = 1e-9
"""1 - leverage below this: the row alone determines a coefficient, and its target follows from it."""
SHOWN = 5
UNCLEAR = "its covariance may show counts of people that cannot be read from these digits: a person must look"
MISLEADS = "the degrees of freedom are enough, and they say nothing about a single person"


def check_regression(file: Path, table: CoefficientTable, desk: Desk, findings: Findings) -> None:
    """The findings on a coefficient table."""
    policy = desk.policy
    covariance_name, covariance = desk.covariance_of(table)
    facts = facts_of(table, covariance)
    kept = None if facts.residual_df is None else facts.residual_df >= policy.least_residual_df
    regression = _facts(facts, covariance_name, kept)
    if table.others:
        findings.add("review", f"columns that are no part of a coefficient table ({safe_list(table.others, 3)})")
    if kept is None:
        findings.add("pass" if facts.normal_test else "review", _unknown_df(facts))
    elif not kept:
        findings.add("fail", f"{facts.residual_df:g} residual degrees of freedom, below {policy.least_residual_df}")
    small = facts.smallest
    if small is not None and small.count < policy.least_count:
        enough = f"; {MISLEADS}" if kept else ""
        findings.add("fail", f"the covariance reveals a count of {small.count} ({safe_text(small, 120)}){enough}")
    elif facts.unclear:
        findings.add("review", UNCLEAR)
    elif facts.sums:
        findings.add("pass", f"the covariance gives all sums of columns; the smallest count is {small and small.count}")
    if desk.table is None:
        findings.add("review", "leverage and dose were not computed: the policy names no table")
        findings.facts["regression"] = regression
        return
    declared = policy.declared(file.name)
    loss = declared.loss or ("squared" if facts.rows is not None and not facts.normal_test else None)
    if loss is None:
        findings.facts["regression"] = regression
        findings.add("review", "the tests do not say which model it is: state its loss under [[release]]")
        return
    try:
        design = design_of(table, desk.table)
        target = _target(desk.table, declared.target or policy.data["target"], loss)
        leverage = leverages(design) if loss == "squared" else None
        if leverage is not None:
            alone = int((1 - leverage < ALONE).sum())
            regression = regression.model_copy(update={"leverage": float(leverage.max()), "alone": alone})
            if alone:
                enough = f"; {MISLEADS}" if kept else ""
                findings.add("fail", f"the target of {alone} row{'s' if alone > 1 else ''} follows exactly{enough}")
        findings.facts["regression"] = regression
        people = None if desk.person is None else desk.table[desk.person].tolist()
        leak = leakage_of(_model(table, loss), design_columns(design), target, people, declared, findings)
        report_dose(leak.result(limit=policy.max_dose), policy, findings)
    except Refusal as refusal:
        findings.facts["regression"] = regression
        findings.add("review", f"with the table: {refusal}")


def check_covariance(covariance: CovarianceTable, desk: Desk, findings: Findings) -> None:
    """A covariance matrix is judged with its coefficient tables: it is the file that gives counts away."""
    owners = desk.regressions_of(covariance)
    if not owners:
        findings.add("review", "there is no coefficient table of the same terms and standard errors to judge it with")
    for name, table in owners:
        facts = facts_of(table, covariance)
        small = facts.smallest
        if small is not None and small.count < desk.policy.least_count:
            findings.add(
                "fail", f"with {safe_text(name, 80)} it reveals a count of {small.count} ({safe_text(small, 120)})"
            )
        elif facts.unclear:
            findings.add("review", f"with {safe_text(name, 80)}: {UNCLEAR}")
        else:
            findings.add("pass", f"judged together with {safe_text(name, 80)}, which has the same terms")


def _unknown_df(facts: CoefficientFacts) -> str:
    if facts.normal_test:
        return "its tests use the normal distribution, so it has no residual degrees of freedom to check"
    return "residual degrees of freedom are neither stated nor computable from rounded tests"


def _facts(facts: CoefficientFacts, covariance: str, kept: bool | None) -> RegressionFacts:
    small = facts.smallest
    return RegressionFacts(
        parameters=facts.parameters,
        df_from=facts.df_from,
        covariance=covariance,
        indicators=list(facts.indicators),
        counts=[safe_text(cell, 120) for cell in facts.counts if cell.count > 0][:SHOWN],
        **present(
            residual_df=facts.residual_df,
            rows=facts.rows,
            degrees_of_freedom_kept=kept,
            smallest=None if small is None else small.count,
        ),
    )


def design_of(table: CoefficientTable, people: Table) -> dict[str, FloatArray]:
    """Term -> its column (n,), from the columns and levels of the training table. A term without one is refused."""
    return {term: _column_of(term, people) for term in table.terms}


def _column_of(term: str, people: Table) -> FloatArray:
    if is_intercept(term):
        return np.ones(people.n)
    if term in people.names and people.kind(term) != "text":
        return np.asarray(people[term], dtype=np.float64)
    for name in sorted(people.names, key=len, reverse=True):
        for level in dict.fromkeys(as_text(people, name).tolist()):
            if term in spellings(name, str(level)):
                return np.asarray(as_text(people, name) == level, dtype=np.float64)
    raise Refusal(f"the term {safe_text(term)} is no column or level of the table: name columns as the table does")


def spellings(column: str, level: str) -> set[str]:
    """How programs call the indicator of a level: R, statsmodels, Stata, SAS, one-hot encoders.

    >>> sorted(spellings("ward", "2"))[:3]
    ['2.ward', 'C(ward)[2]', 'C(ward)[T.2]']
    """
    forms = {f"{column}{level}", f"{column} {level}", f"{column}_{level}", f"{column}={level}", f"{level}.{column}"}
    forms |= {f"{column}[T.{level}]", f"{column}[{level}]", f"C({column})[T.{level}]", f"C({column})[{level}]"}
    return forms | {f"factor({column}){level}", f"as.factor({column}){level}"}


def leverages(design: Mapping[str, FloatArray]) -> FloatArray:
    """(n,) diagonal of X(XᵀX)⁻¹Xᵀ."""
    X = np.column_stack(list(design.values()))
    size = np.linalg.norm(X, axis=0)
    if len(X) <= X.shape[1] or (size == 0).any():
        raise Refusal("the table has no more rows than terms, or a term has no row: it is another table")
    Q, R = np.linalg.qr(X / size)
    if np.abs(np.diag(R)).min() < 1e-10:
        raise Refusal("terms are linearly dependent on this table: leverages are not defined")
    return np.asarray(np.einsum("np,np->n", Q, Q))


def design_columns(design: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """The columns without the intercept, as a frame."""
    return {term: column for term, column in design.items() if not is_intercept(term)}


def _model(table: CoefficientTable, loss: str) -> Coefficients:
    coef = {t: float(v) for t, v in zip(table.terms, table.estimate, strict=True) if not is_intercept(t)}
    constant = table.intercept
    return Coefficients(loss, 0.0, None if constant is None else float(table.estimate[constant]), coef)


def _target(people: Table, name: str, loss: str) -> FloatArray:
    if people.kind(name) != "text":
        return np.asarray(people[name], dtype=np.float64)
    levels = sorted(set(people[name].tolist()))
    if len(levels) != 2:
        raise Refusal(f"the target {safe_text(name)} holds {len(levels)} labels and the loss {loss} takes two")
    return np.asarray(people[name] == levels[1], dtype=np.float64)
