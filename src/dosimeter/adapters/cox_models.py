"""Fitted Cox models as problems of `glm.fit_cox`. Neither library is imported.

| model                                   | ties             | penalty nλ                          | other            |
| statsmodels PHReg(...).fit()            | Breslow or Efron | none                                | strata, offset   |
| lifelines CoxPHFitter(penalizer=λ)      | Efron            | n λⱼ times the column's variance    | strata, weights  |

lifelines divides every column by its standard deviation (n - 1) and maximises the log partial likelihood minus
(n/2) Σ λⱼ βⱼ² over the coefficients β of those columns; `params_` is β divided by the deviation. The deviation is a
function of the table, and the figures go through it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.adapters.cox_problem import BASELINE, CoxProblem
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_list, safe_text

STRATUM = "a row's stratum is treated as known: a step from one stratum to another is not covered"
_PHREG, _FITTER = "PHRegResults", "CoxPHFitter"


@dataclass(frozen=True)
class CoxColumns:
    """Names of the training frame's columns by their part in the model; empty where the model holds the values."""

    covariates: tuple[str, ...]
    time: str = ""
    event: str = ""
    weight: str = ""
    strata: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    """Columns of the frame that the coefficients do not depend on."""


def is_cox(model: Any) -> bool:
    """Whether this module reads the model: results of statsmodels PHReg, or a lifelines CoxPHFitter."""
    package, kind = type(model).__module__.split(".")[0], type(model).__name__
    if package == "statsmodels":
        return kind == _PHREG or type(getattr(model, "model", None)).__name__ == "PHReg"
    return package == "lifelines" and kind == _FITTER


def cox_columns(model: Any) -> CoxColumns:
    """The columns that the model reads, by name; refuses a model that has no formula."""
    if type(model).__module__.split(".")[0] == "statsmodels":
        return CoxColumns(tuple(map(str, _phreg(model).exog_names)))
    _check_fitter(model)
    return CoxColumns(
        tuple(map(str, model.params_.index)),
        str(model.duration_col),
        "" if model.event_col is None else str(model.event_col),
        "" if model.weights_col is None else str(model.weights_col),
        _listed(model.strata),
        _listed(model.cluster_col),
    )


def cox_problem(model: Any, columns: Mapping[str, Any] | None = None) -> CoxProblem:
    """The problem that a fitted Cox model claims to solve.

    model: results of statsmodels `PHReg`, or a lifelines `CoxPHFitter`. columns: the training frame's columns (n,) by
    name. A fitter needs them; results of PHReg hold their own table, and columns that are named are compared with it.
    """
    if not is_cox(model):
        raise CannotMeasure(
            f"{safe_text(type(model).__name__)} is not a Cox model that can be measured: pass the results of "
            "statsmodels PHReg, or a lifelines CoxPHFitter"
        )
    names = cox_columns(model)
    if type(model).__name__ == _FITTER:
        return _fitter_problem(model, names, columns)
    return _phreg_problem(model, names, columns)


def _phreg(results: Any) -> Any:
    """The model of the results; refuses what has no formula."""
    model = results.model
    if type(results).__name__ != _PHREG:
        raise CannotMeasure(
            "a PHReg of fit_regularized cannot be measured: its results do not hold the penalty; use fit, or a "
            "lifelines CoxPHFitter with penalizer and l1_ratio=0"
        )
    if model.entry is not None and np.any(model.entry):
        raise CannotMeasure("a PHReg with entry times (left truncation) cannot be measured: no formula here has them")
    return model


def _phreg_problem(results: Any, names: CoxColumns, columns: Mapping[str, Any] | None) -> CoxProblem:
    model = _phreg(results)
    X = np.asarray(model.exog, dtype=np.float64)
    made_up = [f"x{j + 1}" for j in range(X.shape[1])]
    unnamed = list(names.covariates) == made_up and not set(made_up) <= set(columns or ())
    # The columns of a formula are made from the frame's, and are compared once they are made.
    if columns is not None and not unnamed and getattr(model, "formula", None) is None:
        _refuse_other_columns(X, names.covariates, columns)
    strata = None if model.strata is None else _strata_codes([np.asarray(model.strata)])
    return CoxProblem(
        X=X,
        names=names.covariates,
        time=np.asarray(model.endog, dtype=np.float64),
        event=np.asarray(model.status, dtype=np.float64),
        w=np.asarray(results.params, dtype=np.float64),
        ties=model.ties,
        strata=strata,
        offset=None if model.offset is None else np.asarray(model.offset, dtype=np.float64),
        remarks=(BASELINE,) if strata is None else (BASELINE, STRATUM),
    )


def _refuse_other_columns(X: FloatArray, names: Sequence[str], columns: Mapping[str, Any]) -> None:
    absent = [name for name in names if name not in columns]
    if absent:
        raise Refusal(
            f"the model was fitted on {safe_list(absent)}, which the frame does not have: give it columns instead of a "
            "formula"
        )
    for name, held in zip(names, X.T, strict=True):
        values = _numbers(columns, name)
        if values.shape != held.shape:
            raise Refusal(
                f"the model was fitted on {len(held)} rows and the frame has {len(values)}: pass the rows it was "
                "fitted on (PHReg leaves out rows with missing values)"
            )
        if not np.array_equal(values, held):
            row = int(np.argmax(values != held))
            raise Refusal(f"column {safe_text(name)}, row {row} (from 0) is not what the model was fitted on")


def _check_fitter(fitter: Any) -> None:
    """Refuse settings without a formula."""
    if not hasattr(fitter, "params_"):
        raise CannotMeasure("the CoxPHFitter is not fitted: pass the object that fit returned")
    if fitter.baseline_estimation_method != "breslow":
        raise CannotMeasure(
            f"a CoxPHFitter with a {safe_text(fitter.baseline_estimation_method)} baseline cannot be measured: its "
            "baseline is fitted together with the coefficients; use baseline_estimation_method='breslow'"
        )
    if fitter.formula is not None:
        raise CannotMeasure("a CoxPHFitter with a formula cannot be measured yet: fit it on the columns themselves")
    if fitter.entry_col is not None:
        raise CannotMeasure("a CoxPHFitter with entry_col cannot be measured: no formula here has entry times")
    if np.any(fitter.penalizer) and fitter.l1_ratio > 0:
        raise CannotMeasure("a CoxPHFitter with l1_ratio > 0 cannot be measured: its minimum has no derivative")


def _fitter_problem(fitter: Any, names: CoxColumns, columns: Mapping[str, Any] | None) -> CoxProblem:
    if columns is None:
        raise Refusal("a CoxPHFitter does not hold its table: pass the columns of the training frame")
    needed = [*names.covariates, *names.strata, *filter(None, (names.time, names.event, names.weight))]
    absent = [name for name in needed if name not in columns]
    if absent:
        raise Refusal(f"the model was fitted on {safe_list(absent)}, which the frame does not have")
    X = np.column_stack([_numbers(columns, name) for name in names.covariates])
    n = len(X)
    if n != len(fitter.durations):
        raise Refusal(f"the model was fitted on {len(fitter.durations)} rows and the frame has {n}: pass those rows")
    return CoxProblem(
        X=X,
        names=names.covariates,
        time=_numbers(columns, names.time),
        # lifelines takes every event that is not zero as one.
        event=(_numbers(columns, names.event) != 0).astype(np.float64) if names.event else np.ones(n),
        w=np.asarray(fitter.params_, dtype=np.float64),
        ties="efron",
        strata=_strata_codes([np.asarray(columns[name]) for name in names.strata]) if names.strata else None,
        weight=_numbers(columns, names.weight) if names.weight else None,
        l2=np.asarray(fitter.penalizer, dtype=np.float64) if np.ndim(fitter.penalizer) else float(fitter.penalizer),
        standardised=bool(np.any(fitter.penalizer)),
        remarks=(BASELINE, STRATUM) if names.strata else (BASELINE,),
    )


def _numbers(columns: Mapping[str, Any], name: str) -> FloatArray:
    """(n,) a column as float64; text and missing values are refused."""
    values = np.asarray(columns[name])
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise Refusal(
            f"column {safe_text(name)} holds text where the model saw numbers: pass the training table"
        ) from None
    if np.isnan(numbers).any():
        row = int(np.argmax(np.isnan(numbers)))
        raise Refusal(f"column {safe_text(name)} has no value in row {row} (from 0): fill it or leave the row out")
    return numbers


def _strata_codes(columns: Sequence[NDArray[Any]]) -> NDArray[np.intp]:
    """(n,) 0, 1, ... for each combination of values; a missing value is refused."""
    codes = np.zeros(len(columns[0]), dtype=np.intp)
    for values in columns:
        missing = [value is None or value != value for value in values.tolist()]
        if any(missing):
            raise Refusal(f"row {missing.index(True)} (from 0) has no stratum: fill it or leave the row out")
        place = {value: k for k, value in enumerate(dict.fromkeys(values.tolist()))}
        codes = codes * len(place) + np.array([place[value] for value in values.tolist()], dtype=np.intp)
    return np.asarray(np.unique(codes, return_inverse=True)[1].reshape(-1), dtype=np.intp)


def _listed(names: Any) -> tuple[str, ...]:
    """A name, a list of names or None."""
    if names is None:
        return ()
    return (str(names),) if isinstance(names, str) else tuple(map(str, names))
