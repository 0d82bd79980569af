"""Cox proportional hazards: statsmodels PHReg and lifelines CoxPHFitter. Time and event are unknowns too."""

from __future__ import annotations

from typing import Any

from dosimeter.adapters.cox_models import cox_columns, cox_problem
from dosimeter.adapters.cox_problem import CoxProblem
from dosimeter.adapters.problem import Target
from dosimeter.adapters.registry import Sources, adapter
from dosimeter.core.errors import Refusal

REMARK = (
    "coefficients exact; Breslow and Efron ties, strata, offset, L2; a time is read by its largest step in the order"
)


def _sources(model: Any) -> Sources:
    names = cox_columns(model).covariates
    return names, len(names)


def _outcome(model: Any) -> tuple[str, ...]:
    names = cox_columns(model)
    return (names.time or "time", names.event or "event")


@adapter("statsmodels", "PHReg", remark=REMARK, sources=_sources, own_target=_outcome)
@adapter("lifelines", "CoxPHFitter", remark=REMARK, sources=_sources, own_target=_outcome)
def cox(model: Any, target: Target) -> CoxProblem:
    """PHReg holds its table; a CoxPHFitter takes time, event, strata and weights from the frame."""
    if target.weight is not None:
        raise Refusal("a Cox model carries its own weights: do not pass sample_weight as well")
    return cox_problem(model, target.columns)
